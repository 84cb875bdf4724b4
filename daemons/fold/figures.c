/* Sums of what requests report: of one, and of many. */
#include "fold/spend.h"

void ctxp_fold_figures_add(struct ctxp_fold_figures *sum, const struct ctxp_fold_figures *more) {
  sum->requests += more->requests;
  sum->unreported += more->unreported;
  for (unsigned c = 0; c < CTXP_FOLD_CLASSES; c++) sum->tokens[c] += more->tokens[c];
  sum->output += more->output;
  sum->reasoning += more->reasoning;
  sum->cost_nano += more->cost_nano;
  sum->cost_input_nano += more->cost_input_nano;
  sum->unpriced_input += more->unpriced_input;
  sum->unpriced_output += more->unpriced_output;
  sum->estimated += more->estimated;
  sum->unexplained += more->unexplained;
  if (more->requests && (!sum->first_ms || more->first_ms < sum->first_ms)) sum->first_ms = more->first_ms;
  if (more->last_ms > sum->last_ms) sum->last_ms = more->last_ms;
}

void ctxp_fold_figures_of(const struct ctxp_fold_request *q, struct ctxp_fold_figures *ret) {
  bool in = q->flags & CTXP_FOLD_PRICED, out = q->flags & CTXP_FOLD_PRICED_OUT, reported = q->flags & CTXP_FOLD_REPORTED;
  *ret = (struct ctxp_fold_figures){
      .requests = 1, .unreported = !reported, .output = q->output, .reasoning = q->reasoning, .first_ms = q->ts_ms, .last_ms = q->ts_ms};
  memcpy(ret->tokens, q->tokens, sizeof(ret->tokens));
  ret->cost_input_nano = ctxp_fold_request_cost_nano(q);
  ret->cost_nano = ret->cost_input_nano + q->cost_output_nano;
  if (reported && !in) ret->unpriced_input = ctxp_fold_request_input(q);
  if (reported && !out) ret->unpriced_output = q->output;
}
