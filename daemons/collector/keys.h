/* The clients of a collector: who each is, how far its events are, and what is counted for its agent.
 *
 * A client is its key. Its record stands in the collector's store and is written in the same transaction as the events that it
 * describes, so that a repeat is recognised after any crash. In memory are the keys that said hello in this run, at most
 * CTXP_KEYS_MAX, the longest silent ones leaving first; their connections leave with them and are greeted when they speak again.
 * A record that was not used for `client_days` is cut down to its position, which is kept: a repeat is recognised even then. */
#pragma once
#include "base/map.h"
#include "bus/store.h"
#include "collector/chain.h"

struct ctxp_agent { /* figures of one agent, over all its clients */
  UT_hash_handle hh;
  char *name;
  uint64_t seen_ms, events, refused, unknown_keys, answered, passed, missed;
  unsigned clients; /* keys with a connection in this run */
};

#define CTXP_KEYS_MAX 1024
#define CTXP_CLOSED_ASKS 32
struct ctxp_closed_ask { /* answered, and by now applied or missed */
  uint64_t client_seq, seq;
  bool missed;
};

struct ctxp_conn;
struct ctxp_key {
  UT_hash_handle hh;
  char *name, *product;
  struct ctxp_agent *agent;
  uint64_t position; /* of what was appended or refused; committed once nothing of it is `changed` */
  uint64_t committed;
  uint64_t events, refused, unknown_keys, seen_ms;
  uint64_t since_events, since_refused, since_unknown; /* what the figures were at the last commit */
  char refusal[200]; /* the first event that was refused, in words */
  struct ctxp_chain chain;
  struct ctxp_conn *conn; /* NULL: none in this run */
  uint64_t nonce; /* of its last hello */
  bool changed; /* to be put and, after the commit, acknowledged */
  bool put; /* since it changed last */
  bool rewinding; /* a loss was answered; what is beyond it is passed over until it comes from there */
  struct ctxp_key *next_changed;
  struct ctxp_closed_ask closed[CTXP_CLOSED_ASKS];
  unsigned closed_count;
};

struct ctxp_conn { /* a connection that said hello and has a key */
  UT_hash_handle hh;
  struct ctxp_key *key;
  unsigned socket; /* index */
  uint8_t route_len, route[255];
  uint8_t id[256]; /* socket and route: the hash's key */
};

struct ctxp_keys {
  struct ctxp_store *store;
  struct ctxp_key *by_name; /* in order of their last hello */
  struct ctxp_conn *conns;
  struct ctxp_agent *agents;
  struct ctxp_key *changed;
  struct ctxp_buf scratch;
  uint64_t forgotten; /* records cut down in this run */
};

/* Reads the figures of every agent, and cuts down what was not used since `oldest_ms`. */
int ctxp_keys_open(struct ctxp_keys *keys, struct ctxp_store *store, uint64_t oldest_ms, struct ctxp_error *err)
    __attribute__((warn_unused_result));
int ctxp_keys_forget(struct ctxp_keys *keys, uint64_t oldest_ms, struct ctxp_error *err) __attribute__((warn_unused_result));
void ctxp_keys_deinit(struct ctxp_keys *keys);

/* The key of a hello: from memory, from the store, or new at position 0. NULL with err set: out of memory, damaged store. */
struct ctxp_key *ctxp_keys_get(
    struct ctxp_keys *keys, struct ctxp_str name, struct ctxp_str agent, struct ctxp_str product, struct ctxp_error *err);
struct ctxp_key *ctxp_keys_find(const struct ctxp_keys *keys, struct ctxp_str name); /* in memory only */
/* NULL: unknown connection. */
struct ctxp_conn *ctxp_keys_conn(const struct ctxp_keys *keys, unsigned socket, struct ctxp_raw route);
/* The key keeps the first. */
void ctxp_key_note_refusal(struct ctxp_key *key, struct ctxp_str words);
/* Gives the key to that connection. The one that had it before, if it is another, is copied to *ret_old for a word of farewell. 1: there
 * was one. */
int ctxp_keys_bind(struct ctxp_keys *keys, struct ctxp_key *key, unsigned socket, struct ctxp_raw route, struct ctxp_conn *ret_old)
    __attribute__((warn_unused_result));

void ctxp_key_change(struct ctxp_keys *keys, struct ctxp_key *key);
void ctxp_key_close_ask(struct ctxp_key *key, uint64_t client_seq, uint64_t seq, bool missed);
struct ctxp_closed_ask *ctxp_key_closed_ask(struct ctxp_key *key, uint64_t client_seq);
/* Puts the records that changed. */
int ctxp_keys_put(struct ctxp_keys *keys, struct ctxp_error *err) __attribute__((warn_unused_result));
/* The commit is done: takes the changed keys out one by one. NULL: no more. */
struct ctxp_key *ctxp_keys_take(struct ctxp_keys *keys);
/* The commit failed: what changed is forgotten, and read from the store at the next hello. */
void ctxp_keys_revert(struct ctxp_keys *keys);
/* Leaves out the keys above CTXP_KEYS_MAX that nothing is waited for; `busy` says whether an ask of the key is open. */
void ctxp_keys_trim(struct ctxp_keys *keys, bool (*busy)(void *data, const struct ctxp_key *key), void *data);
