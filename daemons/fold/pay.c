/* Who pays for one request: every band, part and place in proportion, and by place in the cached prefix. */
#include "fold/spend_int.h"

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
static uint64_t lane_below(const struct ctxp_fold_lane *stack, uint32_t place) {
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

void ctxp_fold_spend_bill(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q) {
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
