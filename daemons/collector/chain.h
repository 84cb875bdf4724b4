/* Which windows of a client have all their prompts: a `prompt` with `keep` builds on the one before it, and after a loss it would
 * describe another request than the one that was sent. One that brings the whole `request`, or keeps nothing, mends its window.
 *
 * Bounded: `broken` says what holds for windows in general, and the table lists the exceptions. Too many broken windows make
 * all of them broken; too many mended ones cost the oldest its mending: either way a `request` is asked for, never a wrong one taken. */
#pragma once
#include "base/hash.h"
#include "codec/msgpack.h"

#define CTXP_CHAIN_MAX 64

struct ctxp_chain {
  bool broken;
  unsigned count;
  struct ctxp_hash128 exceptions[CTXP_CHAIN_MAX];
};

/* Something of the event's window is lost; of every window, where it names no session. */
void ctxp_chain_break(struct ctxp_chain *chain, const struct ctxp_event *event);
void ctxp_chain_break_all(struct ctxp_chain *chain);
/* Takes a prompt into account. false: it builds on one that is missing. */
bool ctxp_chain_prompt(struct ctxp_chain *chain, const struct ctxp_event *prompt);
void ctxp_chain_pack(struct ctxp_buf *out, const struct ctxp_chain *chain); /* one value */
int ctxp_chain_unpack(struct ctxp_raw value, struct ctxp_chain *ret) __attribute__((warn_unused_result));
