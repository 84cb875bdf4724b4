/* What spend.c (the run and its stack of places) and pay.c (who pays for one request) share. */
#pragma once
#include "fold/sizes.h"
#include "fold/spend.h"

struct ctxp_fold_place { /* beside its weight (sizes.h) */
  struct {
    ctxp_u128 k, kc;
  } entered; /* running sums when it came in */
  ctxp_u128 noted; /* tiered money of this place and all below, not handed down yet; wraps */
  uint64_t cum; /* tokens up to and with this place */
  uint32_t item, sized; /* sized: newest place up to this one whose message has a size, + 1 */
  uint32_t priced, unpriced; /* requests with and without a price when it came in */
};
/* tokens that lie among each other in the window: messages by band, their thinking, and what no message shows */
enum { LANE_THINKING = CTXP_BAND_COUNT,
  LANE_UNSEEN,
  LANE_WATCHED, /* sizes of what a lens watches, beside the lanes that they are in */
  LANES };
struct ctxp_fold_lane { /* of the places that have any: number and sum up to it */
  struct {
    uint32_t place;
    uint64_t cum;
  } * at;
  uint32_t count, cap, dirty;
};
struct ctxp_fold_spend {
  uint32_t done, priced, unpriced; /* unpriced: that used tokens */
  ctxp_u128 k, kc;
  CTXP_FOLD_ARRAY(struct ctxp_fold_place, places);
  CTXP_FOLD_ARRAY(struct ctxp_fold_item, items);
  uint32_t *first_item, first_cap; /* of a message, + 1 */
  struct ctxp_fold_lane lanes[LANES];
  struct ctxp_fold_sizes sizes;
  struct ctxp_fold_band_sum bands[CTXP_BAND_COUNT + 1], parts[CTXP_FOLD_PARTS];
  uint32_t settled, changed; /* places from here on are settled in this step, have changed in it */
  uint32_t unpaid; /* places from here on have no size of their own yet */
  struct ctxp_fold_figures figures;
  struct ctxp_fold_bust_sum busts[CTXP_FOLD_BUSTS];
  uint32_t fresh; /* places from here on came since the last counted request */
  uint32_t before; /* the last counted and reported request, + 1 */
  uint64_t explained; /* of the unexplained: what counted requests have, of those that pass or not */
  /* for a question */
  const struct ctxp_fold_lens *lens; /* NULL: the whole bill */
  CTXP_FOLD_ARRAY(uint32_t, passed); /* with a lens, of each request: how many up to it passed */
  CTXP_FOLD_ARRAY(uint32_t, numbers); /* of those that passed: their numbers in the window */
  struct ctxp_fold_sum watched; /* of the request in hand */
};

static inline uint64_t cum_before(const struct ctxp_fold_spend *s, uint32_t place) { return place ? s->places.at[place - 1].cum : 0; }

static inline uint64_t base_of(const struct ctxp_fold_spend *s) { return s->sizes.base + s->sizes.base_unseen; }
static inline uint64_t window_of(const struct ctxp_fold_spend *s) { return base_of(s) + cum_before(s, s->places.count); }
static inline const struct ctxp_fold_weight *weight_of(const struct ctxp_fold_spend *s, uint32_t place) {
  return &s->sizes.places.at[place];
}

static inline uint64_t lane_total(const struct ctxp_fold_spend *s, unsigned lane) {
  return s->lanes[lane].count ? s->lanes[lane].at[s->lanes[lane].count - 1].cum : 0;
}

/* Bills a request that is counted, after what is in it was measured. */
void ctxp_fold_spend_bill(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q);
