/* What is billed for what: a run over the log of one window.
 *
 * An append-only window makes it cheap. k is what one token of estimate pays in a request (reported input over estimated
 * window); K is its running sum; a message that is in the window from one request to another has billed its size times the
 * difference of K, and what the divisions left over goes to the newest message with a size. So a request costs a few steps
 * however long the window is. By position in the cached prefix (`tiered`) each class of tokens is a stretch of places with one
 * rate; a stretch is noted at its last place (and against the place before its first), and a place that leaves hands
 * what is noted at it down to the one below: the window is a stack. */
#pragma once
#include "fold/fixed.h"
#include "fold/window.h"

struct ctxp_fold_figures { /* of the counted requests */
  uint64_t requests, unreported, tokens[CTXP_FOLD_CLASSES], output, reasoning;
  uint64_t cost_nano, cost_input_nano, unpriced_input, unpriced_output, estimated, unexplained;
  uint64_t first_ms, last_ms;
};
static inline uint64_t ctxp_fold_billed(const struct ctxp_fold_figures *f) {
  return f->tokens[0] + f->tokens[1] + f->tokens[2] + f->tokens[3];
}
void ctxp_fold_figures_add(struct ctxp_fold_figures *sum, const struct ctxp_fold_figures *more);
/* Of one counted request. */
void ctxp_fold_figures_of(const struct ctxp_fold_request *q, struct ctxp_fold_figures *ret);

struct ctxp_fold_item { /* a message in a band */
  struct ctxp_fold_sum sum;
  uint32_t message, next; /* next item of the same message, + 1 */
  uint32_t priced, unpriced; /* requests that had it, with a price and without */
  uint32_t own; /* what it cost to bring in; an estimate until it is `sized` */
  uint8_t band;
  bool seen; /* a counted request had it */
  bool sized;
  bool watched; /* by the run's lens */
};
enum ctxp_fold_bust {
  CTXP_FOLD_BUST_COMPACTION,
  CTXP_FOLD_BUST_MODEL,
  CTXP_FOLD_BUST_TOOLS,
  CTXP_FOLD_BUST_REMOVAL,
  CTXP_FOLD_BUST_IDLE,
  CTXP_FOLD_BUST_UNKNOWN,
  CTXP_FOLD_BUSTS
};
extern const char *const ctxp_fold_bust_names[CTXP_FOLD_BUSTS];
struct ctxp_fold_bust_sum {
  uint64_t count, tokens, cost_nano;
};

/* of two reported requests, one after the other */
void ctxp_fold_find_bust(
    struct ctxp_fold_bust_sum busts[CTXP_FOLD_BUSTS], const struct ctxp_fold_request *before, const struct ctxp_fold_request *q);

struct ctxp_fold_band_sum {
  struct ctxp_fold_sum sum;
  uint64_t own;
  uint32_t messages, turns, first, last, priced, unpriced;
};
enum ctxp_fold_part { /* of a band, and of no message: rows of their own */
  CTXP_FOLD_SYSTEM, /* of `system`: what the first request had beyond its messages */
  CTXP_FOLD_CAME_IN, /* of `system`: what came in later and no message shows */
  CTXP_FOLD_THINKING, /* of `assistant` */
  CTXP_FOLD_PARTS
};
/* Runs over the requests that came since the last call, from the start if it must. -ENOMEM. */
int ctxp_fold_spend_run(struct ctxp_fold_window *w) __attribute__((warn_unused_result));
uint32_t ctxp_fold_spend_done(const struct ctxp_fold_spend *spend); /* requests run over */
/* After a run. */
const struct ctxp_fold_figures *ctxp_fold_spend_figures(const struct ctxp_fold_spend *spend);
/* bands[CTXP_BAND_COUNT] is what no message answers for. */
const struct ctxp_fold_band_sum *ctxp_fold_spend_bands(const struct ctxp_fold_spend *spend);
const struct ctxp_fold_bust_sum *ctxp_fold_spend_busts(const struct ctxp_fold_spend *spend);
const struct ctxp_fold_band_sum *ctxp_fold_spend_parts(const struct ctxp_fold_spend *spend); /* they are in the bands */

/* ---- for a question ---- */
struct ctxp_fold_watched { /* what a lens watches, in one request */
  struct ctxp_fold_sum sum; /* what it was billed */
  uint64_t size, window; /* its tokens, and those of the whole request, as the fold sizes them */
  uint32_t messages;
};
/* A run through a lens bills only the requests that pass; sizes and what was in the cache are those of the whole log, so that the
 * unrounded sums of runs that share the requests among them add up to the whole bill. */
struct ctxp_fold_lens {
  bool (*counts)(const void *data, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q); /* NULL: all of them */
  bool (*watches)(void *data, const struct ctxp_fold_window *w, uint32_t message, uint8_t band); /* NULL: no message */
  /* Called for each request that was billed. NULL: not. */
  int (*billed)(void *data, const struct ctxp_fold_window *w, uint32_t request, const struct ctxp_fold_watched *watched);
  void *data;
  unsigned parts; /* bits 1 << enum ctxp_fold_part: watched too */
};
/* Makes the run of the window one through the lens, which must outlive it; nothing may be added to the window meanwhile. The next run is to
 * begin anew: free it when the question is answered. -ENOMEM, or what `billed` returned. */
int ctxp_fold_spend_through(struct ctxp_fold_window *w, const struct ctxp_fold_lens *lens) __attribute__((warn_unused_result));
/* How many of the requests before that one are billed; past the last: all. */
uint32_t ctxp_fold_spend_before(const struct ctxp_fold_window *w, uint32_t request);
/* The number in its window of the nth request that is billed, both from 1. */
uint32_t ctxp_fold_spend_number(const struct ctxp_fold_spend *spend, uint32_t nth);
struct ctxp_fold_sizes;
const struct ctxp_fold_sizes *ctxp_fold_spend_sizes(const struct ctxp_fold_spend *spend);
uint64_t ctxp_fold_spend_resident(const struct ctxp_fold_window *w); /* tokens of the window, after a run */
uint64_t ctxp_fold_spend_evicted(const struct ctxp_fold_window *w); /* of what was evicted since its last request */
struct ctxp_fold_items {
  const struct ctxp_fold_item *at;
  uint32_t count;
  const uint32_t *first; /* of a message its first item, + 1; 0: it was in no request */
  uint32_t messages; /* entries of first; later messages were in no request */
};
/* Brings the items up to date. Borrowed until the next run. */
struct ctxp_fold_items ctxp_fold_spend_items(struct ctxp_fold_spend *spend);
struct ctxp_fold_spend *ctxp_fold_spend_free(struct ctxp_fold_spend *spend); /* NULL */
