/* Whole numbers wide enough that sums of shares are the reported figures exactly.
 *
 * A share of tokens is counted in 2^-32 micro-token, a share of money in 2^-32 nano-dollar. A request's figure times the unit
 * is divided by the estimate of its window; what the division leaves goes to the newest message, so nothing is ever lost.
 * The bounds below keep every product within 128 bits: (2^28 tokens x 2^20 messages) x (2^46 nano-dollars x 2^32) is the
 * largest. Figures beyond them are refused by name where they come in, before they are acknowledged. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ctxpipe/event.h"

__extension__ typedef unsigned __int128 ctxp_u128;

#define CTXP_FOLD_TOKEN ((ctxp_u128)1000000 << 32) /* one token */
#define CTXP_FOLD_NANO ((ctxp_u128)1 << 32) /* one nano-dollar */
#define CTXP_FOLD_PART 16 /* money of a class of a request: in 2^-16 nano-dollars, in 64 bits */

#define CTXP_FOLD_MAX_SIZE CTXP_MAX_MESSAGE_TOKENS /* tokens of one message */
#define CTXP_FOLD_MAX_WINDOW (UINT32_C(1) << 20) /* messages of one request */
#define CTXP_FOLD_MAX_COST ((INT64_C(1) << 46) - 1) /* nano-dollars of a request */

struct ctxp_fold_sum { /* what material is answerable for */
  ctxp_u128 billed; /* in 1 / CTXP_FOLD_TOKEN tokens */
  ctxp_u128 cost; /* in 1 / CTXP_FOLD_NANO nano-dollars, split in proportion */
  ctxp_u128 tiered; /* the same, split by position in the cached prefix */
};

static inline void ctxp_fold_sum_add(struct ctxp_fold_sum *sum, const struct ctxp_fold_sum *more) {
  sum->billed += more->billed;
  sum->cost += more->cost;
  sum->tiered += more->tiered;
}

/* Makes whole numbers of parts: out[i] is parts[i] / unit, up or down, and the outs add up to `total`, by largest remainder,
 * ties to the earlier. total must be the sum of the parts divided by unit, up or down. -ENOMEM. */
int ctxp_fold_apportion(const ctxp_u128 *parts, size_t count, ctxp_u128 unit, uint64_t total, uint64_t *out)
    __attribute__((warn_unused_result));
