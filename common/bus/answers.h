/* Verdicts: what a mechanism's runtime says to the collector about an ask, over its DEALER to the collector's `answers` ROUTER.
 *
 * One frame, a MessagePack array [version, node, askSeq, verdict]: `false` passes, `true` says that a model is being asked (the
 * collector then waits for the time that the mechanism's options allow), a map holds actions (replace, inject, remove, strip,
 * stripContent). Each mechanism whose `consumes` has the ask's topic says exactly one of pass and actions for it. Verdicts carry no cursor:
 * one that is lost or late counts as a pass, and the collector's `answer_missed` tells the mechanism so. */
#pragma once
#include "base/buf.h"
#include "codec/msgpack.h"

#define CTXP_ANSWERS_VERSION 1
#define CTXP_ANSWERS_HWM 4096

enum ctxp_verdict_kind { CTXP_VERDICT_PASS,
  CTXP_VERDICT_WORKING,
  CTXP_VERDICT_ACTIONS };
struct ctxp_verdict {
  struct ctxp_str node; /* of the mechanism, in the topology */
  uint64_t ask_seq; /* the collector's number of the ask */
  enum ctxp_verdict_kind kind;
  struct ctxp_raw actions;
};

void ctxp_verdict_write(struct ctxp_buf *out, const struct ctxp_verdict *verdict);
/* Borrows from the message. -EBADMSG: malformed, or of another version. */
int ctxp_verdict_read(struct ctxp_raw message, struct ctxp_verdict *ret) __attribute__((warn_unused_result));
