/* The client of a collector, for agents and feeders written in C: link with pkg-config `ctxpipe`.
 *
 * A client is its key, not its connection. Events are numbered; the collector acknowledges a number after its commit, and what
 * was not acknowledged is sent again after a reconnect, so that an event counts exactly once however often either side dies.
 * Not thread-safe: one client per thread. No call waits longer than the time that it is given. */
#pragma once
#include "ctxpipe/error.h"
#include "ctxpipe/event.h"

struct ctxp_client;

struct ctxp_client_options { /* all texts borrowed for the call of ctxp_client_new */
  const char *endpoint;    /* ipc://PATH or tcp://HOST:PORT of the collector's ingest */
  const char *key;         /* resume key: who this is, across restarts; at most 200 bytes */
  const char *agent;       /* default `agent` of events that carry none */
  const char *product;     /* pi, claude-code, ... */
  const char *server_key;  /* CURVE: the collector's public key (Z85); NULL: no encryption */
  const char *public_key, *secret_key; /* CURVE: the client's own */
  size_t buffer_bytes;     /* what may wait for acknowledgement; 0: 32 MiB */
  /* called for every event that the collector refused, from within any call; may be NULL */
  void (*refused)(void *data, uint64_t seq, struct ctxp_str kind, struct ctxp_str field, struct ctxp_str reason);
  void *data;
};

struct ctxp_client_counts {
  uint64_t sent, acked, refused; /* events of this object */
  uint64_t position;             /* last number acknowledged for the key, over all its lives */
  uint64_t pending_bytes;
};

/* 0, or <0 with a sentence (bad endpoint, bad key). Does not wait for the collector. */
int ctxp_client_new(const struct ctxp_client_options *options, struct ctxp_client **ret_client, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Waits until the collector has said welcome; position: the last number that it has of this key. >0: not within timeout_ms. */
int ctxp_client_hello(struct ctxp_client *client, int timeout_ms, uint64_t *ret_position, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Queues one event. seq: its number, above all before it; 0: the next. >0: the buffer is full and stayed full for timeout_ms.
 * An event without agent gets the client's. -EMSGSIZE: above the collector's limit; -EINVAL: it lacks something. */
int ctxp_client_send(struct ctxp_client *client, const struct ctxp_event *event, uint64_t seq, int timeout_ms, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Sends an event with `ask` and waits for its answer, a MessagePack map borrowed until the next call. >0: no answer within
 * timeout_ms; the agent goes on unchanged, and the collector is told that the answer was missed. */
int ctxp_client_ask(struct ctxp_client *client, const struct ctxp_event *event, int timeout_ms, struct ctxp_raw *ret_answer, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Waits until everything is acknowledged. >0: not within timeout_ms. */
int ctxp_client_flush(struct ctxp_client *client, int timeout_ms, struct ctxp_error *err) __attribute__((warn_unused_result));
void ctxp_client_counts(const struct ctxp_client *client, struct ctxp_client_counts *ret_counts);
/* Does not flush. Returns NULL. */
struct ctxp_client *ctxp_client_free(struct ctxp_client *client);
