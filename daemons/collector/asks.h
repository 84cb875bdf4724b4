/* Asks that are open: events whose agent waits for an answer.
 *
 * An ask is kept from its append until it is known what became of its answer: passed by every mechanism, applied (the client
 * says so), or missed. It stands in the store too, put in the same transaction as its event, so that a restart knows which answers
 * may never have arrived. An answer that was not applied becomes an `answer_missed` event; a mechanism that is late becomes one
 * that names it, whatever it says in the end: it undoes its part. */
#pragma once
#include "base/map.h"
#include "bus/answers.h"
#include "bus/store.h"
#include "config/topology.h"

#define CTXP_ASKS_MAX 1024 /* open at the same time; above, an event is taken as one that does not ask */
#define CTXP_ASKS_BYTES_MAX (64u << 20)
#define CTXP_MECHANISMS_MAX 64

enum ctxp_ask_state {
  CTXP_ASK_WAITING, /* for verdicts */
  CTXP_ASK_SENT, /* actions went to the client, no word from it yet */
  CTXP_ASK_RESTORED /* from before a restart: its client may still say that it was applied */
};
struct ctxp_ask {
  UT_hash_handle hh;
  uint64_t seq, client_seq;
  enum ctxp_ask_state state;
  char *key; /* its client */
  struct ctxp_buf window; /* agent, session, thread: three MessagePack texts */
  struct ctxp_buf messages; /* of a context that more than one mechanism may act on: its list */
  uint32_t message_count;
  uint64_t need, spoken, working; /* bits of mechanisms */
  uint64_t arrived_ms, until_ms; /* until: of SENT and RESTORED */
  struct ctxp_buf actions[CTXP_MECHANISMS_MAX];
  struct ctxp_buf answer; /* of SENT */
};

struct ctxp_asker { /* a mechanism that hears asks */
  const char *node;
  const struct ctxp_consume *consumes;
  uint64_t grace_ms, working_ms; /* from the event's arrival */
};
struct ctxp_asks {
  struct ctxp_store *store;
  struct ctxp_ask *open; /* in order of their numbers */
  size_t bytes;
  struct ctxp_asker askers[CTXP_MECHANISMS_MAX];
  unsigned asker_count;
  uint64_t confirm_ms;
  uint64_t answered, passed, missed;
};

/* Reads the askers of the topology. -E2BIG with a sentence: more mechanisms than there are bits. */
int ctxp_asks_configure(struct ctxp_asks *asks, const struct ctxp_config *config, const char *collector, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Loads the asks of an earlier run. */
int ctxp_asks_open(struct ctxp_asks *asks, struct ctxp_store *store, uint64_t now_ms, struct ctxp_error *err)
    __attribute__((warn_unused_result));
void ctxp_asks_deinit(struct ctxp_asks *asks);
uint64_t ctxp_asks_longest_ms(const struct ctxp_asks *asks); /* that an answer may take */

/* Who may act on this event: bits of mechanisms; 0: nobody, the answer is unchanged. */
uint64_t ctxp_asks_need(const struct ctxp_asks *asks, const struct ctxp_event *event);
bool ctxp_asks_full(const struct ctxp_asks *asks);
/* Opens an ask for an event that was appended with that number, and puts it into the store. */
int ctxp_asks_add(struct ctxp_asks *asks, const struct ctxp_event *event, uint64_t seq, const char *key, uint64_t client_seq, uint64_t need,
    uint64_t now_ms, struct ctxp_error *err) __attribute__((warn_unused_result));
struct ctxp_ask *ctxp_asks_find(const struct ctxp_asks *asks, uint64_t seq);
struct ctxp_ask *ctxp_asks_of(const struct ctxp_asks *asks, const char *key, uint64_t client_seq);
/* Removes it, from the store too. */
int ctxp_asks_close(struct ctxp_asks *asks, struct ctxp_ask *ask, struct ctxp_error *err) __attribute__((warn_unused_result));
/* The commit failed: what is open is what the store says, as after a restart. */
int ctxp_asks_revert(struct ctxp_asks *asks, uint64_t now_ms, struct ctxp_error *err) __attribute__((warn_unused_result));

/* Takes a verdict into account. 1: with it, everybody has spoken. 0: not yet, or it comes too late. -ENOMEM. */
int ctxp_asks_verdict(struct ctxp_asks *asks, const struct ctxp_verdict *verdict, struct ctxp_ask **ret_ask)
    __attribute__((warn_unused_result));
/* The merged answer into ask->answer. Returns the number of its actions; 0: unchanged. */
int ctxp_ask_merge(const struct ctxp_asks *asks, struct ctxp_ask *ask) __attribute__((warn_unused_result));
/* When this mechanism's time is over. */
uint64_t ctxp_ask_deadline(const struct ctxp_asks *asks, const struct ctxp_ask *ask, unsigned asker);
uint64_t ctxp_ask_due(const struct ctxp_asks *asks, const struct ctxp_ask *ask); /* when it next needs looking at */
/* The answer_missed event of it, borrowing from the ask. mechanism: NULL: no part was applied. */
int ctxp_ask_missed(const struct ctxp_ask *ask, const char *reason, const char *mechanism, struct ctxp_event *ret_event)
    __attribute__((warn_unused_result));
