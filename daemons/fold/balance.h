/* The balance of each view and tool: what it billed, what mechanisms kept out of the requests, and what that cost.
 *
 *   gain = kept out (tokens x requests that would have carried them) - tokens of auxiliary models - cache that was written anew because of a
 *          removal - regret (what came back);        net = billed + gain
 *
 * It is derived from the window's log of effects. What goes together (results removed at once, a cache lost by it) is shared by the
 * estimates of the results; money by the input price of each request, of auxiliary models by theirs. What is of no view or tool stands in a
 * row `none`, so that each grain adds up to the ledger's figures, which have lazy loading besides. */
#pragma once
#include "fold/pick.h"
#include "fold/rows.h"

struct ctxp_fold_balance_sum {
  uint64_t carried, aux, rewritten, regret;
  uint64_t carried_nano, aux_nano, rewritten_nano, regret_nano;
  uint64_t unpriced; /* tokens of these without a price */
};
struct ctxp_fold_balance_row {
  struct ctxp_str key, label;
  int kind, band; /* of a view */
  struct ctxp_fold_balance_sum sum;
  uint64_t billed, cost_nano; /* of the bill's row */
};
struct ctxp_fold_balance_rows {
  struct ctxp_fold_balance_row *at;
  uint32_t count, cap, dirty;
};
struct ctxp_fold_balance {
  struct ctxp_fold_balance_rows views, tools;
  struct ctxp_fold_arena arena;
};
/* Adds what the mechanisms did in a window, as the requests that pass show it. -ENOMEM. */
int ctxp_fold_balance_add(struct ctxp_fold_balance *b, const struct ctxp_fold_window *w, const struct ctxp_fold_pick *pick)
    __attribute__((warn_unused_result));
/* Takes what the rows billed, before they are folded to a top; borrows their names. */
void ctxp_fold_balance_bill(struct ctxp_fold_balance *b, const struct ctxp_fold_rows *rows);
void ctxp_fold_balance_pack(struct ctxp_buf *out, struct ctxp_fold_balance *b); /* {views [...], tools [...]} */
void ctxp_fold_balance_deinit(struct ctxp_fold_balance *b);
