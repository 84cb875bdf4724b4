/* How large each message of a window is, by the ledger: what the reported input grew by when it came in, and it stays that.
 *
 *   U + X + sizes + thinking of what is resident = the reported input, exactly, in every request that fits
 *
 * U: system prompt and tool texts that no message holds; X: growth that no message shows. Estimates only split what came in together,
 * and divide the first request. A request that does not fit (a report that is too small once) is billed in proportion and teaches
 * nothing. With `sizes: estimate` a message is as large as its definition says, and there is no U, no X and no thinking apart.
 *
 * All whole numbers, derived from the window's log alone. A step costs what came in; more only where something is taken from residents:
 * thinking that the provider drops when a person speaks (each reply's once), X that shrinks, another tokenizer, an unexplained loss. */
#pragma once
#include "fold/window.h"
#include "tokens/pieces.h"

enum ctxp_fold_sized { CTXP_FOLD_UNSIZED, /* nothing was reported since it came in */
  CTXP_FOLD_ESTIMATED,
  CTXP_FOLD_SPLIT,
  CTXP_FOLD_EXACT };

struct ctxp_fold_weight { /* a place of the window */
  uint64_t unseen; /* of X: what came in behind it */
  uint32_t message, size, think;
  uint8_t band, sized;
};
struct ctxp_fold_known { /* a message */
  uint32_t size, think, bar; /* bar: how many tokens the size may be off */
  uint8_t sized;
};
struct ctxp_fold_calibration { /* of a model */
  const struct ctxp_tokenizer *tokenizer; /* NULL: not seen yet */
  uint64_t tokens, pieces; /* what pieces really took: factor = tokens * 1024 / pieces, in tenths of both */
  uint64_t off, grown; /* sums of |growth - estimate| and of estimates: the running deviation */
  uint64_t steps;
  int vote; /* > 0: drops thinking */
};
struct ctxp_fold_sizes {
  bool by_estimate, begun, suspect, failed;
  int64_t u, x; /* u + x >= 0 */
  uint64_t base, base_unseen; /* before the first place: what u and a negative x leave; X of a window without messages */
  uint64_t resident; /* sizes and thinking of all places */
  CTXP_FOLD_ARRAY(struct ctxp_fold_weight, places);
  CTXP_FOLD_ARRAY(struct ctxp_fold_known, known);
  CTXP_FOLD_ARRAY(uint32_t, pool); /* places: replies since the last message of a person */
  CTXP_FOLD_ARRAY(uint32_t, turn); /* and everything else since */
  CTXP_FOLD_ARRAY(uint32_t, unseen_at); /* places with some of X */
  CTXP_FOLD_ARRAY(struct ctxp_fold_calibration, models); /* by number in the window; the last one is of none */
  uint32_t sized_to; /* places below have a size */
  uint32_t model; /* of the request before */
  bool shrunk; /* something left since then */
  uint64_t input; /* of the request before */
  /* what it was worth */
  uint64_t unexplained, first_bar, wrong, growth, misfits, came_in, first_u;
  bool with_history; /* the first request held replies already */
  /* Called before a place that was billed changes its size, with the lowest such place. */
  void (*touch)(void *data, uint32_t place);
  void *touch_data;
};

/* Places from `keep` on leave. -ENOMEM. */
int ctxp_fold_sizes_cut(struct ctxp_fold_sizes *z, uint32_t keep) __attribute__((warn_unused_result));
/* A message comes in at the end, its size not known yet unless it is by estimate. -ENOMEM. */
int ctxp_fold_sizes_enter(struct ctxp_fold_sizes *z, const struct ctxp_fold_window *w, const struct ctxp_fold_residency *r)
    __attribute__((warn_unused_result));
/* A reported request (its number in the list): sizes what came in. -ENOMEM. */
int ctxp_fold_sizes_step(struct ctxp_fold_sizes *z, const struct ctxp_fold_window *w, uint32_t request) __attribute__((warn_unused_result));
/* tokens of a place, whatever they are */
static inline uint64_t ctxp_fold_weight_total(const struct ctxp_fold_weight *p) { return (uint64_t)p->size + p->think + p->unseen; }
/* Tokens in 1024 pieces, as the window learned it. */
static inline uint64_t ctxp_fold_factor(const struct ctxp_fold_calibration *c) { return c->tokens * 1024 / c->pieces; }
void ctxp_fold_sizes_deinit(struct ctxp_fold_sizes *z);
