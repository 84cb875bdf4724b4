/* The client of a collector, for agents and feeders written in C: link with pkg-config `ctxpipe`.
 *
 * A client is its key, not its connection. Events are numbered; the collector acknowledges a number after its commit, and what
 * was not acknowledged is sent again after a reconnect, so that an event counts exactly once however often either side dies.
 * Not thread-safe: one client per thread. No call waits longer than the time that it is given; a call with a time-out of 0 never
 * waits. The library has no thread of its own that calls back: events leave, and acknowledgements come in, within its calls.
 *
 * The shared library exports ctxp_client_* and what events are built with: ctxp_event_encode and _decode, ctxp_list_*,
 * ctxp_strs_*, ctxp_kind_*, ctxp_band_*, the shapes and names of event.h, and ctxp_buf_*. Raw values (`input`, answers) are
 * MessagePack, for which any library will do. */
#pragma once
#include "ctxpipe/buf.h"
#include "ctxpipe/error.h"
#include "ctxpipe/event.h"
#pragma GCC visibility push(default)

struct ctxp_client;

struct ctxp_client_options { /* all texts borrowed for the call of ctxp_client_new */
  const char *endpoint; /* ipc://PATH or tcp://HOST:PORT of the collector's ingest */
  const char *key; /* resume key: who this is, across restarts; at most 200 bytes */
  const char *agent; /* default `agent` of events that carry none */
  const char *product; /* pi, claude-code, ... */
  const char *server_key; /* CURVE: the collector's public key (Z85); NULL: no encryption */
  const char *public_key, *secret_key; /* CURVE: the client's own */
  size_t buffer_bytes; /* what may wait for acknowledgement; 0: 32 MiB */
  size_t batch_bytes; /* 0: an event leaves at once. Else events wait for each other until they have so many bytes together, or
                              until any call but send: for importers, which end with a flush */
  /* called for every event that the collector refused, from within any call; may be NULL */
  void (*refused)(void *data, uint64_t seq, struct ctxp_str kind, struct ctxp_str field, struct ctxp_str reason);
  void *data;
};

struct ctxp_client_counts {
  uint64_t sent, acked, refused; /* events of this object */
  uint64_t position; /* last number acknowledged for the key, over all its lives */
  uint64_t pending_bytes;
};

/* 0, or <0 with a sentence (bad endpoint, bad key). Does not wait for the collector. */
int ctxp_client_new(const struct ctxp_client_options *options, struct ctxp_client **ret_client, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Waits until the collector has said welcome; position: the last number that it has of this key. >0: not within timeout_ms.
 * -EACCES: with keys, the collector does not let us in; a later call tries again. */
int ctxp_client_hello(struct ctxp_client *client, int timeout_ms, uint64_t *ret_position, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Queues one event, copied. seq: its number, above all before it; 0: the next. >0: the buffer is full and stayed full for
 * timeout_ms. An event without agent gets the client's. -EMSGSIZE: above the collector's limit, or the buffer; -EINVAL: no kind that
 * an agent sends, or a number that is not above the one before. An explicit number that the collector has already (at the first welcome) is
 * passed over. */
int ctxp_client_send(struct ctxp_client *client, const struct ctxp_event *event, uint64_t seq, int timeout_ms, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* The next event that has no number of its own, as one that is asked with, gets this one. To be called after ctxp_client_hello. -EINVAL:
 * it is not above all before it. */
int ctxp_client_number(struct ctxp_client *client, uint64_t seq, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Sends an event with `ask` and waits for its answer, a MessagePack map borrowed until the next call: {unchanged: true} or actions.
 * 1: no answer within timeout_ms; the agent goes on unchanged, and the collector is told that the answer was missed. 2: the buffer
 * stayed full, the event is not taken. -EBADMSG: the collector refused the event, and the sentence says why. -EINVAL: not a tool_result or
 * a context. */
int ctxp_client_ask(struct ctxp_client *client, const struct ctxp_event *event, int timeout_ms, struct ctxp_raw *ret_answer,
    struct ctxp_error *err) __attribute__((warn_unused_result));
/* The same in two steps, for the results of one round, which an agent sends without waiting in between. post sends, and gives a
 * handle of the ask; await waits for its answer, which ends the ask. -EBUSY: CTXP_CLIENT_ASKS are open. */
#define CTXP_CLIENT_ASKS 16
int ctxp_client_post(struct ctxp_client *client, const struct ctxp_event *event, int timeout_ms, uint64_t *ret_ask, struct ctxp_error *err)
    __attribute__((warn_unused_result));
int ctxp_client_await(struct ctxp_client *client, uint64_t ask, int timeout_ms, struct ctxp_raw *ret_answer, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Waits until everything is acknowledged. >0: not within timeout_ms. */
int ctxp_client_flush(struct ctxp_client *client, int timeout_ms, struct ctxp_error *err) __attribute__((warn_unused_result));
void ctxp_client_counts(const struct ctxp_client *client, struct ctxp_client_counts *ret_counts);
/* How many events of the key the collector had refused before this life of it, as its first welcome said; *ret_first: the first of them
 * in words, borrowed until the client is another or freed. A refused event is passed over by a repeat, so this tells of it again. */
uint64_t ctxp_client_refused_before(const struct ctxp_client *client, struct ctxp_str *ret_first);
/* The agent could not apply the answer that ctxp_client_ask or _await returned last: the collector takes it back by an `answer_missed`
 * event. reason: timeout, lost, superseded or refused; others: -EINVAL. Takes no number of the client's. */
int ctxp_client_missed(struct ctxp_client *client, const char *reason, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Goes on as another client over the same connection, for importers of many files: flushes, then is what ctxp_client_new with
 * this key, agent and product would be, counts included. agent and product: NULL keeps them. >0: not flushed within timeout_ms, nothing
 * changed. */
int ctxp_client_rekey(struct ctxp_client *client, const char *key, const char *agent, const char *product, int timeout_ms,
    struct ctxp_error *err) __attribute__((warn_unused_result));
/* Does not flush. Returns NULL. */
struct ctxp_client *ctxp_client_free(struct ctxp_client *client);
#pragma GCC visibility pop
