/* What clients say, turned into the collector's stream. */
#pragma once
#include "bus/curve.h"
#include "bus/ingest.h"
#include "collector/asks.h"
#include "collector/keys.h"
#include "runtime/node.h"

struct ctxp_pass { /* an ask that nobody can act on: answered after its commit */
  struct ctxp_key *key;
  uint64_t client_seq;
};

struct ctxp_collector { /* the source's own, of the node's life */
  struct ctxp_node *node;
  const struct ctxp_config *config;
  struct ctxp_keys keys;
  struct ctxp_asks asks;
  uint64_t instance; /* of this start */
  void **sockets; /* ROUTERs, one for each ingest endpoint */
  unsigned socket_count;
  void *answers;
  struct ctxp_curve *curve; /* NULL: no endpoint needs it */
  struct ctxp_buf out; /* the message being written */
  struct ctxp_pass *passes;
  unsigned pass_count, pass_cap;
  uint64_t repeats, losses; /* events that were here already; events messages that did not follow on */
  uint64_t acks_due_ms, forget_due_ms;
};

/* One message of a client. <0: the node cannot go on, its sentence is set. */
int ctxp_intake_message(struct ctxp_collector *c, unsigned socket, struct ctxp_raw route, struct ctxp_raw message)
    __attribute__((warn_unused_result));
/* One message of a mechanism. */
int ctxp_intake_verdict(struct ctxp_collector *c, struct ctxp_raw message) __attribute__((warn_unused_result));
/* Asks that are due: mechanisms that are too late, answers without a word from their client. */
int ctxp_intake_due(struct ctxp_collector *c, uint64_t now_ms, uint64_t *ret_next_ms) __attribute__((warn_unused_result));
/* Every open ask is missed, for this reason: the mechanisms change. */
int ctxp_intake_miss_waiting(struct ctxp_collector *c, const char *reason) __attribute__((warn_unused_result));

void ctxp_intake_send(struct ctxp_collector *c, const struct ctxp_conn *conn); /* c->out */
void ctxp_intake_ack(struct ctxp_collector *c, const struct ctxp_key *key);
void ctxp_intake_pass(struct ctxp_collector *c, struct ctxp_key *key, uint64_t client_seq); /* answers `unchanged` */
