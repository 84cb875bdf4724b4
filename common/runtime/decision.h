/* Recorded decisions about model calls: what is stored in a node's private database before it is used, and read by whoever derives
 * the same again. A record says either how often a call was begun, or how it ended. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/stage.h"

#define CTXP_DECISION_KEY 14
/* The key of the call that the event of this number needs. */
struct ctxp_raw ctxp_decision_key(uint64_t cause, uint8_t room[CTXP_DECISION_KEY]);
uint64_t ctxp_decision_cause(struct ctxp_raw key); /* of such a key; 0: it is none */
#define CTXP_DECISION_PREFIX ((struct ctxp_raw){(const uint8_t *)"call/", 5})

void ctxp_decision_pack_begun(struct ctxp_buf *out, uint64_t times, uint64_t tokens);
void ctxp_decision_pack(struct ctxp_buf *out, const struct ctxp_model_reply *reply);
/* 0: how it ended, borrowed from the record; 1: begun and no more, reply->lost and lost_tokens are set; -EBADMSG: neither. */
int ctxp_decision_unpack(struct ctxp_raw record, struct ctxp_model_reply *ret_reply) __attribute__((warn_unused_result));
