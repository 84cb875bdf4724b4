/* A client's inside, shared by client.c (connection, queue) and client_ask.c (asks and what became of their answers). */
#pragma once
#include <zmq.h>
#include "bus/client_queue.h"
#include "bus/handshake.h"
#include "bus/ingest.h"
#include "ctxpipe/client.h"

enum client_state { CONNECTING,
  GREETING,
  OPEN,
  DEAD };

struct client_ask { /* seq 0: a free place */
  uint64_t seq;
  bool open; /* somebody may still wait for it */
  bool answered, refused;
  struct ctxp_buf answer; /* what was said of it */
  struct ctxp_error why; /* it was refused */
  size_t entry; /* while the queue is numbered anew */
};

struct ctxp_client {
  char *key, *agent, *product;
  void (*refused)(void *data, uint64_t seq, struct ctxp_str kind, struct ctxp_str field, struct ctxp_str reason);
  void *data;
  size_t buffer_bytes, batch_bytes;
  void *context, *socket;
  struct ctxp_handshake handshake; /* watched where there are keys */
  enum client_state state;
  int dead_code;
  struct ctxp_error dead; /* why nothing can be sent any more */
  struct ctxp_ingest_welcome welcome; /* the last one; stream 0: none yet */
  struct ctxp_queue queue;
  uint64_t base, last; /* last number acknowledged, last one given */
  uint64_t refused_upto; /* a resent event is refused again: told once */
  uint64_t nonce; /* of the last hello */
  uint64_t heard_ms, silence_ms;
  struct client_ask asks[CTXP_CLIENT_ASKS];
  struct client_ask *awaited; /* within a call of await */
  uint64_t last_ask; /* whose answer came last */
  struct ctxp_buf frame;
  struct ctxp_ingest_outcome outcomes[CTXP_INGEST_OUTCOMES]; /* of the last answers */
  unsigned outcome_count;
  bool telling; /* an outcome was sent in this life */
  uint64_t sent, acked, refusals;
  uint64_t refused_before; /* of the key, at the first welcome */
  struct ctxp_error refusal; /* the first of those */
};

/* client.c */
int ctxp_client_pump(struct ctxp_client *c, uint64_t wait_ms, bool all, struct ctxp_error *err);
/* Pumps until done(c) or the end of the time. >0: not done. */
int ctxp_client_pump_until(struct ctxp_client *c, bool (*done)(const struct ctxp_client *), int timeout_ms, struct ctxp_error *err);
int ctxp_client_send_frame(struct ctxp_client *c); /* >0: not now */

/* client_ask.c */
void ctxp_client_on_answer(struct ctxp_client *c, const struct ctxp_ingest_answer *a);
void ctxp_client_on_ask_refused(struct ctxp_client *c, const struct ctxp_ingest_refused *r);
bool ctxp_client_waits(const struct ctxp_client *c); /* for an answer */
void ctxp_client_asks_note(struct ctxp_client *c); /* before and after the queue is numbered anew */
void ctxp_client_asks_renumber(struct ctxp_client *c);
void ctxp_client_asks_forget(struct ctxp_client *c);
