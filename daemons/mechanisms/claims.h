/* The last savings of a window: an answer that was missed takes its saving back. The session's end keeps them: what became of an
 * answer may be told later. */
#pragma once
#include "base/str.h"
#include "mechanisms/window.h"

enum { CTXP_CLAIMS_MAX = 64 };
struct ctxp_claim {
  uint64_t ask, saved;
  char *call;
  size_t call_len;
};
struct ctxp_claims { /* a window */
  struct ctxp_window base;
  struct ctxp_claim at[CTXP_CLAIMS_MAX]; /* in the order of asks */
  unsigned count;
};
extern const struct ctxp_window_ops ctxp_claims_ops;

/* Remembers it; the oldest is forgotten where there are too many. -ENOMEM. */
int ctxp_claims_add(struct ctxp_claims *claims, uint64_t ask, struct ctxp_str call, uint64_t saved) __attribute__((warn_unused_result));
void ctxp_claims_drop(struct ctxp_claims *claims, unsigned i);
