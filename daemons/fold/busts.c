/* Cache busts: what was in the prompt cache and had to be sent again. */
#include "fold/spend.h"

#define BUST_MIN 1024 /* tokens: providers cache in blocks of about this size */

const char *const ctxp_fold_bust_names[CTXP_FOLD_BUSTS] = {"compaction", "model", "tools", "removal", "idle", "unknown"};

static enum ctxp_fold_bust bust_cause(const struct ctxp_fold_request *before, const struct ctxp_fold_request *q) {
  uint64_t life_ms = before->tokens[CTXP_FOLD_WRITE_1H] ? UINT64_C(3600000) : UINT64_C(300000);
  if (q->flags & CTXP_FOLD_COMPACTED) return CTXP_FOLD_BUST_COMPACTION;
  if (q->model != before->model) return CTXP_FOLD_BUST_MODEL;
  if (q->flags & CTXP_FOLD_NEW_TOOLS) return CTXP_FOLD_BUST_TOOLS;
  if (q->flags & CTXP_FOLD_REMOVED) return CTXP_FOLD_BUST_REMOVAL;
  return q->ts_ms > before->ts_ms && q->ts_ms - before->ts_ms > life_ms ? CTXP_FOLD_BUST_IDLE : CTXP_FOLD_BUST_UNKNOWN;
}

/* Less than half of what the request before left in the cache was read from it: what could have been read was written or sent
 * again, and paid the average of these classes. */
void ctxp_fold_find_bust(
    struct ctxp_fold_bust_sum busts[CTXP_FOLD_BUSTS], const struct ctxp_fold_request *before, const struct ctxp_fold_request *q) {
  uint64_t left = before->tokens[CTXP_FOLD_READ] + before->tokens[CTXP_FOLD_WRITE_5M] + before->tokens[CTXP_FOLD_WRITE_1H];
  uint64_t input = ctxp_fold_request_input(q), read = q->tokens[CTXP_FOLD_READ];
  if (left > input) left = input;
  if (read * 2 >= left || left - read < BUST_MIN) return;
  uint64_t anew = input - read, lost = left - read;
  ctxp_u128 paid = (ctxp_u128)q->parts[CTXP_FOLD_WRITE_5M] + q->parts[CTXP_FOLD_WRITE_1H] + q->parts[CTXP_FOLD_UNCACHED];
  struct ctxp_fold_bust_sum *sum = &busts[bust_cause(before, q)];
  sum->count++;
  sum->tokens += lost;
  sum->cost_nano += (uint64_t)((paid * lost / anew) >> CTXP_FOLD_PART);
}
