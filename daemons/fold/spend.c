#include <errno.h>
#include <stdlib.h>
#include "fold/sizes.h"
#include "fold/spend.h"

struct place { /* beside its weight (sizes.h) */
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
struct lane { /* of the places that have any: number and sum up to it */
  struct {
    uint32_t place;
    uint64_t cum;
  } * at;
  uint32_t count, cap, dirty;
};
struct ctxp_fold_spend {
  uint32_t done, priced, unpriced; /* unpriced: that used tokens */
  ctxp_u128 k, kc;
  CTXP_FOLD_ARRAY(struct place, places);
  CTXP_FOLD_ARRAY(struct ctxp_fold_item, items);
  uint32_t *first_item, first_cap; /* of a message, + 1 */
  struct lane lanes[LANES];
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

/* ---- the stack of places ---- */
static uint64_t cum_before(const struct ctxp_fold_spend *s, uint32_t place) { return place ? s->places.at[place - 1].cum : 0; }

static uint64_t base_of(const struct ctxp_fold_spend *s) { return s->sizes.base + s->sizes.base_unseen; }
static uint64_t window_of(const struct ctxp_fold_spend *s) { return base_of(s) + cum_before(s, s->places.count); }
static const struct ctxp_fold_weight *weight_of(const struct ctxp_fold_spend *s, uint32_t place) { return &s->sizes.places.at[place]; }

static void settle(struct ctxp_fold_spend *s, uint32_t place) {
  struct place *p = &s->places.at[place];
  struct ctxp_fold_item *item = &s->items.at[p->item];
  uint32_t size = weight_of(s, place)->size;
  item->sum.billed += size * (s->k - p->entered.k);
  item->sum.cost += size * (s->kc - p->entered.kc);
  item->sum.tiered += size * p->noted;
  item->priced += s->priced - p->priced;
  item->unpriced += s->unpriced - p->unpriced;
  p->entered.k = s->k;
  p->entered.kc = s->kc;
  p->priced = s->priced;
  p->unpriced = s->unpriced;
}

/* Hands down what is noted at the places from `from` on, as if they left and came in again. */
static void settle_from(struct ctxp_fold_spend *s, uint32_t from) {
  for (uint32_t i = s->settled; i-- > from;) {
    struct place *p = &s->places.at[i];
    settle(s, i);
    if (i) s->places.at[i - 1].noted += p->noted;
    p->noted = 0;
  }
  if (from < s->settled) s->settled = from;
}

/* a place is about to get another size */
static void touch(void *data, uint32_t place) {
  struct ctxp_fold_spend *s = data;
  if (place < s->changed) s->changed = place;
  settle_from(s, place);
}

static int cut(struct ctxp_fold_spend *s, uint32_t keep) {
  s->changed = s->settled = s->places.count;
  if (keep < s->places.count) {
    settle_from(s, keep);
    s->places.count = s->settled = s->changed = keep;
  }
  if (keep < s->fresh) s->fresh = keep;
  if (keep < s->unpaid) s->unpaid = keep;
  return ctxp_fold_sizes_cut(&s->sizes, keep);
}

static bool item_of(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, uint32_t message, uint8_t band, uint32_t *ret) {
  if (message >= s->first_cap) {
    uint32_t cap = w->messages.cap;
    uint32_t *first = realloc(s->first_item, cap * sizeof(*first));
    if (!first) return false;
    memset(first + s->first_cap, 0, (cap - s->first_cap) * sizeof(*first));
    s->first_item = first;
    s->first_cap = cap;
  }
  uint32_t *link = &s->first_item[message];
  for (; *link; link = &s->items.at[*link - 1].next)
    if (s->items.at[*link - 1].band == band) return *ret = *link - 1, true;
  uint32_t number = s->items.count;
  *link = number + 1; /* before the list moves */
  if (!ctxp_fold_grow(&s->items, sizeof(*s->items.at))) return *link = 0, false;
  s->items.at[number] = (struct ctxp_fold_item){.message = message, .band = band};
  if (s->lens && s->lens->watches) s->items.at[number].watched = s->lens->watches(s->lens->data, w, message, band);
  s->items.count++;
  *ret = number;
  return true;
}

static bool lane_add(struct lane *lane, uint32_t place, uint64_t tokens) {
  if (!ctxp_fold_grow(lane, sizeof(*lane->at))) return false;
  lane->at[lane->count].cum = (lane->count ? lane->at[lane->count - 1].cum : 0) + tokens;
  lane->at[lane->count++].place = place;
  return true;
}

static int enter(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w) {
  uint32_t number = s->places.count, item;
  const struct ctxp_fold_weight *p = weight_of(s, number);
  if (!item_of(s, w, p->message, p->band, &item) || !ctxp_fold_grow(&s->places, sizeof(*s->places.at))) return -ENOMEM;
  s->places.at[number] = (struct place){.entered = {s->k, s->kc}, .item = item, .priced = s->priced, .unpriced = s->unpriced};
  s->places.count++;
  return 0;
}

/* sums over the places that came in or changed, and all behind them */
static int measure(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w) {
  for (unsigned l = 0; l < LANES; l++)
    while (s->lanes[l].count && s->lanes[l].at[s->lanes[l].count - 1].place >= s->changed) s->lanes[l].count--;
  for (uint32_t i = s->changed; i < s->sizes.places.count; i++) {
    const struct ctxp_fold_weight *p = weight_of(s, i);
    int r = i < s->places.count ? 0 : enter(s, w);
    if (r < 0) return r;
    s->places.at[i].cum = cum_before(s, i) + ctxp_fold_weight_total(p);
    s->places.at[i].sized = p->size ? i + 1 : i ? s->places.at[i - 1].sized :
                                                  0;
    if (!lane_add(&s->lanes[p->band], i, p->size) || (p->think && !lane_add(&s->lanes[LANE_THINKING], i, p->think)) ||
        (p->unseen && !lane_add(&s->lanes[LANE_UNSEEN], i, p->unseen)) ||
        (s->items.at[s->places.at[i].item].watched && !lane_add(&s->lanes[LANE_WATCHED], i, p->size)))
      return -ENOMEM;
  }
  return 0;
}

/* first place for which the sum up to it (or, not whole, before it) times input is beyond x */
static uint32_t first_beyond(const struct ctxp_fold_spend *s, uint64_t input, ctxp_u128 x, bool whole) {
  uint32_t low = 0, high = s->places.count;
  uint64_t base = base_of(s);
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    bool beyond =
        whole ? ((ctxp_u128)base + s->places.at[mid].cum) * input > x : ((ctxp_u128)base + cum_before(s, mid)) * input >= x;
    if (beyond)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

/* tokens of a lane below a place */
static uint64_t lane_below(const struct lane *stack, uint32_t place) {
  uint32_t low = 0, high = stack->count;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    if (stack->at[mid].place < place)
      low = mid + 1;
    else
      high = mid;
  }
  return low ? stack->at[low - 1].cum : 0;
}

/* ---- who pays ---- */
static uint64_t lane_total(const struct ctxp_fold_spend *s, unsigned lane) {
  return s->lanes[lane].count ? s->lanes[lane].at[s->lanes[lane].count - 1].cum : 0;
}

static const struct ctxp_fold_sum none = {0, 0, 0};

static void pay_part_of(struct ctxp_fold_spend *s, enum ctxp_fold_part part, const struct ctxp_fold_sum *sum) {
  ctxp_fold_sum_add(&s->parts[part].sum, sum);
  ctxp_fold_sum_add(&s->bands[part == CTXP_FOLD_THINKING ? CTXP_BAND_assistant : CTXP_BAND_system].sum, sum);
  if (s->lens && s->lens->parts & 1u << part) ctxp_fold_sum_add(&s->watched, sum);
}

static void pay_lane(struct ctxp_fold_spend *s, unsigned lane, const struct ctxp_fold_sum *sum) {
  if (lane < CTXP_BAND_COUNT)
    ctxp_fold_sum_add(&s->bands[lane].sum, sum);
  else if (lane == LANE_WATCHED)
    ctxp_fold_sum_add(&s->watched, sum);
  else
    pay_part_of(s, lane == LANE_THINKING ? CTXP_FOLD_THINKING : CTXP_FOLD_CAME_IN, sum);
}

/* ---- tiered money of one request ---- */
static void pay_place(struct ctxp_fold_spend *s, uint32_t place, ctxp_u128 money) {
  struct ctxp_fold_item *item = &s->items.at[s->places.at[place].item];
  item->sum.tiered += money;
  s->bands[item->band].sum.tiered += money;
  if (item->watched) s->watched.tiered += money;
}

/* places [from, to) pay `rate` a token of estimate; returns what they pay */
static ctxp_u128 pay_stretch(struct ctxp_fold_spend *s, uint32_t from, uint32_t to, ctxp_u128 rate) {
  if (from >= to) return 0;
  s->places.at[to - 1].noted += rate;
  if (from) s->places.at[from - 1].noted -= rate;
  for (unsigned l = 0; l < LANES; l++) {
    struct ctxp_fold_sum sum = none;
    if (s->lanes[l].count == 0) continue;
    sum.tiered = rate * (lane_below(&s->lanes[l], to) - lane_below(&s->lanes[l], from));
    pay_lane(s, l, &sum);
  }
  return rate * (s->places.at[to - 1].cum - cum_before(s, from));
}

struct stretch { /* of one class: tokens [low, high) times the window's estimate, and its money */
  ctxp_u128 low, high, money;
  uint64_t tokens, input, estimate;
};

/* what `tokens` that stand behind `before` others pay for their part in the stretch */
static ctxp_u128 part_of(const struct stretch *t, uint64_t before, uint64_t tokens) {
  ctxp_u128 from = (ctxp_u128)before * t->input, to = ((ctxp_u128)before + tokens) * t->input;
  if (from < t->low) from = t->low;
  if (to > t->high) to = t->high;
  return from < to ? t->money / t->tokens * (to - from) / t->estimate : 0;
}

/* one place that spans a border */
static ctxp_u128 pay_part(struct ctxp_fold_spend *s, const struct stretch *t, uint32_t place) {
  const struct ctxp_fold_weight *p = weight_of(s, place);
  uint64_t before = base_of(s) + cum_before(s, place);
  ctxp_u128 money = part_of(t, before, p->size);
  struct ctxp_fold_sum thinking = {0, 0, part_of(t, before + p->size, p->think)};
  struct ctxp_fold_sum unseen = {0, 0, part_of(t, before + p->size + p->think, p->unseen)};
  pay_place(s, place, money);
  pay_lane(s, LANE_THINKING, &thinking);
  pay_lane(s, LANE_UNSEEN, &unseen);
  return money + thinking.tiered + unseen.tiered;
}

/* what stands before the first message */
static ctxp_u128 pay_base(struct ctxp_fold_spend *s, const struct stretch *t) {
  struct ctxp_fold_sum system = {0, 0, part_of(t, 0, s->sizes.base)}, unseen = {0, 0, part_of(t, s->sizes.base, s->sizes.base_unseen)};
  pay_part_of(s, CTXP_FOLD_SYSTEM, &system);
  pay_part_of(s, CTXP_FOLD_CAME_IN, &unseen);
  return system.tiered + unseen.tiered;
}

static ctxp_u128 pay_class(struct ctxp_fold_spend *s, const struct stretch *t) {
  uint32_t from = first_beyond(s, t->input, t->low, false), to = first_beyond(s, t->input, t->high, true);
  ctxp_u128 paid = pay_base(s, t), base = base_of(s);
  if (from && (base + s->places.at[from - 1].cum) * t->input > t->low) paid += pay_part(s, t, from - 1);
  if (to >= from) {
    paid += pay_stretch(s, from, to, t->money * t->input / ((ctxp_u128)t->tokens * t->estimate));
    if (to < s->places.count && (base + cum_before(s, to)) * t->input < t->high) paid += pay_part(s, t, to);
  }
  return paid;
}

/* what rounding leaves goes to the newest message with a size, else to what stands before all */
static void bill_rest(struct ctxp_fold_spend *s, const struct ctxp_fold_sum *sum) {
  uint32_t newest = s->places.count ? s->places.at[s->places.count - 1].sized : 0;
  if (newest == 0) {
    pay_part_of(s, CTXP_FOLD_SYSTEM, sum);
    return;
  }
  struct ctxp_fold_item *item = &s->items.at[s->places.at[newest - 1].item];
  ctxp_fold_sum_add(&item->sum, sum);
  ctxp_fold_sum_add(&s->bands[item->band].sum, sum);
  if (item->watched) ctxp_fold_sum_add(&s->watched, sum);
}

static ctxp_u128 pay_untiered(struct ctxp_fold_spend *s, ctxp_u128 rate) { /* money without tokens has no order */
  struct ctxp_fold_sum system = {0, 0, rate * s->sizes.base}, unseen = {0, 0, rate * s->sizes.base_unseen};
  pay_part_of(s, CTXP_FOLD_SYSTEM, &system);
  pay_part_of(s, CTXP_FOLD_CAME_IN, &unseen);
  return pay_stretch(s, 0, s->places.count, rate) + system.tiered + unseen.tiered;
}

static void bill_tiered(
    struct ctxp_fold_spend *s, const struct ctxp_fold_request *q, uint64_t input, uint64_t estimate, ctxp_u128 money) {
  ctxp_u128 paid = input == 0 ? pay_untiered(s, money / estimate) : 0;
  uint64_t sent = 0;
  for (unsigned c = 0; c < CTXP_FOLD_CLASSES; c++) {
    if (q->tokens[c] == 0) continue;
    struct stretch t = {(ctxp_u128)sent * estimate, ((ctxp_u128)sent + q->tokens[c]) * estimate,
        (ctxp_u128)q->parts[c] << (32 - CTXP_FOLD_PART), q->tokens[c], input, estimate};
    paid += pay_class(s, &t);
    sent += q->tokens[c];
  }
  struct ctxp_fold_sum rest = {0, 0, money - paid};
  bill_rest(s, &rest);
}

/* ---- one request ---- */
static bool is_priced(const struct ctxp_fold_request *q) { return q->flags & CTXP_FOLD_PRICED; }
static bool is_unpriced(const struct ctxp_fold_request *q) { return !is_priced(q) && ctxp_fold_request_input(q); }

static void see_row(struct ctxp_fold_band_sum *row, const struct ctxp_fold_request *q) {
  uint32_t number = q->number;
  row->turns++;
  row->priced += is_priced(q);
  row->unpriced += is_unpriced(q);
  row->last = number;
  if (!row->first) row->first = number;
}

/* the size of a message that came in, once; an estimate until it has one */
static void see_size(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, uint32_t place) {
  const struct ctxp_fold_weight *p = weight_of(s, place);
  struct ctxp_fold_item *item = &s->items.at[s->places.at[place].item];
  uint32_t own = p->sized ? p->size : w->messages.at[p->message].tokens;
  if (!item->seen) s->bands[item->band].messages += w->messages.at[item->message].defined;
  item->seen = true;
  if (item->sized) return;
  s->bands[item->band].own += own - (uint64_t)item->own;
  item->own = own;
  item->sized = p->sized != CTXP_FOLD_UNSIZED;
  if (!p->think) return;
  s->parts[CTXP_FOLD_THINKING].own += p->think;
  s->parts[CTXP_FOLD_THINKING].messages++;
  s->bands[CTXP_BAND_assistant].own += p->think;
}

/* residency of bands: which had anything in this request, and what came in */
static void see(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q) {
  bool system = s->sizes.base > 0, unseen = s->sizes.base_unseen || s->lanes[LANE_UNSEEN].count;
  for (unsigned b = 0; b < CTXP_BAND_COUNT; b++)
    if (s->lanes[b].count || (b == CTXP_BAND_system && (system || unseen)) ||
        (b == CTXP_BAND_assistant && s->lanes[LANE_THINKING].count))
      see_row(&s->bands[b], q);
  if (system) see_row(&s->parts[CTXP_FOLD_SYSTEM], q);
  if (unseen) see_row(&s->parts[CTXP_FOLD_CAME_IN], q);
  if (s->lanes[LANE_THINKING].count) see_row(&s->parts[CTXP_FOLD_THINKING], q);
  for (uint32_t i = s->fresh < s->unpaid ? s->fresh : s->unpaid; i < s->places.count; i++) see_size(s, w, i);
  uint64_t recorded = s->parts[CTXP_FOLD_SYSTEM].own + s->parts[CTXP_FOLD_CAME_IN].own;
  s->parts[CTXP_FOLD_SYSTEM].own = s->sizes.first_u;
  s->parts[CTXP_FOLD_CAME_IN].own = s->sizes.came_in;
  s->bands[CTXP_BAND_system].own += s->sizes.first_u + s->sizes.came_in - recorded;
  s->fresh = s->places.count;
  s->unpaid = s->sizes.by_estimate ? s->fresh : s->sizes.sized_to;
}

static void pay_lanes(struct ctxp_fold_spend *s, ctxp_u128 k, ctxp_u128 kc) {
  for (unsigned l = 0; l < LANES; l++) {
    uint64_t size = lane_total(s, l);
    struct ctxp_fold_sum sum = {k * size, kc * size, 0};
    if (size) pay_lane(s, l, &sum);
  }
  struct ctxp_fold_sum system = {k * s->sizes.base, kc * s->sizes.base, 0},
                       unseen = {k * s->sizes.base_unseen, kc * s->sizes.base_unseen, 0};
  pay_part_of(s, CTXP_FOLD_SYSTEM, &system);
  pay_part_of(s, CTXP_FOLD_CAME_IN, &unseen);
}

static void bill(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q) {
  uint64_t input = ctxp_fold_request_input(q), estimate = window_of(s);
  ctxp_u128 tokens = input * CTXP_FOLD_TOKEN,
            money = ((ctxp_u128)q->parts[0] + q->parts[1] + q->parts[2] + q->parts[3]) << (32 - CTXP_FOLD_PART);
  s->priced += is_priced(q);
  s->unpriced += is_unpriced(q);
  see(s, w, q);
  s->figures.estimated += q->flags & CTXP_FOLD_REPORTED ? estimate : 0;
  if (estimate == 0) {
    struct ctxp_fold_sum all = {tokens, money, money};
    ctxp_fold_sum_add(&s->bands[CTXP_BAND_COUNT].sum, &all);
    s->bands[CTXP_BAND_COUNT].priced += is_priced(q);
    s->bands[CTXP_BAND_COUNT].unpriced += is_unpriced(q);
    return;
  }
  ctxp_u128 k = tokens / estimate, kc = money / estimate;
  struct ctxp_fold_sum rest = {tokens - k * estimate, money - kc * estimate, 0};
  s->k += k;
  s->kc += kc;
  pay_lanes(s, k, kc);
  bill_rest(s, &rest);
  bill_tiered(s, q, input, estimate, money);
}

static void find_bust(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q, bool passes) {
  if (!(q->flags & CTXP_FOLD_REPORTED)) return;
  if (s->before && passes) ctxp_fold_find_bust(s->busts, &w->requests.at[s->before - 1], q);
  s->before = (uint32_t)(q - w->requests.at) + 1;
}

/* does the question want the request? */
static int pass(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, uint32_t request, bool *ret_passes) {
  const struct ctxp_fold_request *q = &w->requests.at[request];
  *ret_passes = q->flags & CTXP_FOLD_COUNTED;
  if (!s->lens) return 0;
  if (*ret_passes && s->lens->counts) *ret_passes = s->lens->counts(s->lens->data, w, q);
  if (!ctxp_fold_grow(&s->passed, sizeof(*s->passed.at)) || !ctxp_fold_grow(&s->numbers, sizeof(*s->numbers.at))) return -ENOMEM;
  if (*ret_passes) s->numbers.at[s->numbers.count++] = q->number;
  s->passed.at[s->passed.count++] = s->numbers.count;
  return 0;
}

static int tell(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, uint32_t request) {
  const struct ctxp_fold_lens *lens = s->lens;
  if (!lens || !lens->billed) return 0;
  uint64_t size = lane_total(s, LANE_WATCHED);
  for (unsigned p = 0; p < CTXP_FOLD_PARTS; p++)
    if (lens->parts & 1u << p)
      size += p == CTXP_FOLD_SYSTEM ? s->sizes.base :
          p == CTXP_FOLD_CAME_IN    ? s->sizes.base_unseen + lane_total(s, LANE_UNSEEN) :
                                      lane_total(s, LANE_THINKING);
  struct ctxp_fold_watched watched = {s->watched, size, window_of(s), s->lanes[LANE_WATCHED].count};
  return lens->billed(lens->data, w, request, &watched);
}

static int step(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, uint32_t request) {
  const struct ctxp_fold_request *q = &w->requests.at[request];
  struct ctxp_fold_figures one;
  bool passes = false;
  int r = cut(s, q->keep);
  for (uint32_t i = 0; r == 0 && i < q->count; i++) r = ctxp_fold_sizes_enter(&s->sizes, w, &w->residencies.at[q->first + i]);
  if (r == 0 && q->flags & CTXP_FOLD_REPORTED) r = ctxp_fold_sizes_step(&s->sizes, w, request);
  if (r == 0) r = measure(s, w);
  if (r == 0) r = pass(s, w, request, &passes);
  if (r < 0 || !(q->flags & CTXP_FOLD_COUNTED)) return r;
  find_bust(s, w, q, passes);
  uint64_t unexplained = s->sizes.unexplained - s->explained;
  s->explained = s->sizes.unexplained;
  if (!passes) return 0;
  ctxp_fold_figures_of(q, &one);
  ctxp_fold_figures_add(&s->figures, &one);
  s->watched = none;
  bill(s, w, q);
  s->figures.unexplained += unexplained;
  return tell(s, w, request);
}

static struct ctxp_fold_spend *new_run(bool by_estimate) {
  struct ctxp_fold_spend *s = calloc(1, sizeof(*s));
  if (!s) return NULL;
  s->sizes.by_estimate = by_estimate;
  s->sizes.touch = touch;
  s->sizes.touch_data = s;
  s->sizes.model = CTXP_FOLD_OPEN;
  return s;
}

int ctxp_fold_spend_run(struct ctxp_fold_window *w) {
  if (!w->spend) w->spend = new_run(w->by_estimate);
  if (!w->spend) return -ENOMEM;
  while (w->spend->done < w->requests.count) {
    int r = step(w->spend, w, w->spend->done);
    if (r < 0) {
      w->spend = ctxp_fold_spend_free(w->spend); /* half a request is none */
      return r;
    }
    w->spend->done++;
  }
  return 0;
}

int ctxp_fold_spend_through(struct ctxp_fold_window *w, const struct ctxp_fold_lens *lens) {
  struct ctxp_fold_spend *s = new_run(w->by_estimate);
  int r = s ? 0 : -ENOMEM;
  if (s) s->lens = lens;
  for (; r == 0 && s->done < w->requests.count; s->done++) r = step(s, w, s->done);
  if (r != 0) {
    ctxp_fold_spend_free(s);
    return r;
  }
  ctxp_fold_spend_free(w->spend);
  w->spend = s;
  return 0;
}

uint32_t ctxp_fold_spend_before(const struct ctxp_fold_window *w, uint32_t request) {
  const struct ctxp_fold_spend *s = w->spend;
  uint32_t before = request < w->requests.count ? request : w->requests.count;
  if (s->lens) return before ? s->passed.at[before - 1] : 0;
  if (request >= w->requests.count) return w->counted;
  const struct ctxp_fold_request *q = &w->requests.at[request];
  return q->number - (q->flags & CTXP_FOLD_COUNTED ? 1 : 0);
}

uint32_t ctxp_fold_spend_number(const struct ctxp_fold_spend *s, uint32_t nth) { return s->lens ? s->numbers.at[nth - 1] : nth; }

uint32_t ctxp_fold_spend_done(const struct ctxp_fold_spend *spend) { return spend->done; }
const struct ctxp_fold_figures *ctxp_fold_spend_figures(const struct ctxp_fold_spend *spend) { return &spend->figures; }
const struct ctxp_fold_band_sum *ctxp_fold_spend_bands(const struct ctxp_fold_spend *spend) { return spend->bands; }
const struct ctxp_fold_bust_sum *ctxp_fold_spend_busts(const struct ctxp_fold_spend *spend) { return spend->busts; }
const struct ctxp_fold_band_sum *ctxp_fold_spend_parts(const struct ctxp_fold_spend *spend) { return spend->parts; }
const struct ctxp_fold_sizes *ctxp_fold_spend_sizes(const struct ctxp_fold_spend *spend) { return &spend->sizes; }

/* what came in since the last report is as large as its estimate */
uint64_t ctxp_fold_spend_resident(const struct ctxp_fold_window *w) {
  const struct ctxp_fold_spend *s = w->spend;
  uint64_t tokens = window_of(s);
  for (uint32_t i = s->places.count; i-- > 0 && !weight_of(s, i)->sized;) tokens += w->messages.at[weight_of(s, i)->message].tokens;
  return tokens;
}

uint64_t ctxp_fold_spend_evicted(const struct ctxp_fold_window *w) {
  uint64_t tokens = 0;
  for (uint32_t i = 0; w->evicted_tokens && i < w->spend->places.count; i++) {
    const struct ctxp_fold_weight *p = weight_of(w->spend, i);
    const struct ctxp_fold_message *m = &w->messages.at[p->message];
    if (m->evicted == w->requests.count + 1) tokens += p->sized ? (uint64_t)p->size + p->think : m->tokens;
  }
  return tokens;
}

struct ctxp_fold_items ctxp_fold_spend_items(struct ctxp_fold_spend *s) {
  s->settled = s->places.count;
  settle_from(s, 0);
  return (struct ctxp_fold_items){s->items.at, s->items.count, s->first_item, s->first_cap};
}

struct ctxp_fold_spend *ctxp_fold_spend_free(struct ctxp_fold_spend *s) {
  if (!s) return NULL;
  for (unsigned l = 0; l < LANES; l++) free(s->lanes[l].at);
  ctxp_fold_sizes_deinit(&s->sizes);
  free(s->places.at);
  free(s->items.at);
  free(s->first_item);
  free(s->passed.at);
  free(s->numbers.at);
  free(s);
  return NULL;
}
