#include <errno.h>
#include <stdlib.h>
#include "fold/spend.h"

struct place {
  struct {
    ctxp_u128 k, kc;
  } entered; /* running sums when it came in */
  ctxp_u128 noted; /* tiered money of this place and all below, not handed down yet; wraps */
  uint64_t cum; /* estimates up to and with this place */
  uint32_t item, size, sized; /* sized: newest place up to this one with a size, + 1 */
  uint32_t priced; /* priced requests when it came in */
};
struct band_stack { /* of the places of one band: number and sum of sizes up to it */
  struct {
    uint32_t place;
    uint64_t cum;
  } * at;
  uint32_t count, cap, dirty;
};
struct ctxp_fold_spend {
  uint32_t done, priced;
  ctxp_u128 k, kc;
  CTXP_FOLD_ARRAY(struct place, places);
  CTXP_FOLD_ARRAY(struct ctxp_fold_item, items);
  uint32_t *first_item, first_cap; /* of a message, + 1 */
  struct band_stack stacks[CTXP_BAND_COUNT];
  struct ctxp_fold_band_sum bands[CTXP_BAND_COUNT + 1];
  struct ctxp_fold_figures figures;
  struct ctxp_fold_bust_sum busts[CTXP_FOLD_BUSTS];
  uint32_t fresh; /* places from here on came since the last counted request */
  uint32_t before; /* the last counted and reported request, + 1 */
};

const char *const ctxp_fold_bust_names[CTXP_FOLD_BUSTS] = {"compaction", "model", "tools", "removal", "idle", "unknown"};

/* ---- the stack of places ---- */
static uint64_t cum_before(const struct ctxp_fold_spend *s, uint32_t place) { return place ? s->places.at[place - 1].cum : 0; }

static void settle(struct ctxp_fold_spend *s, struct place *p) {
  struct ctxp_fold_item *item = &s->items.at[p->item];
  item->sum.billed += p->size * (s->k - p->entered.k);
  item->sum.cost += p->size * (s->kc - p->entered.kc);
  item->sum.tiered += p->size * p->noted;
  item->priced += s->priced - p->priced;
  p->entered.k = s->k;
  p->entered.kc = s->kc;
  p->priced = s->priced;
}

static void cut(struct ctxp_fold_spend *s, uint32_t keep) {
  while (s->places.count > keep) {
    struct place *p = &s->places.at[--s->places.count];
    settle(s, p);
    if (s->places.count) s->places.at[s->places.count - 1].noted += p->noted;
    s->stacks[s->items.at[p->item].band].count--;
  }
  if (keep < s->fresh) s->fresh = keep;
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
  s->items.count++;
  *ret = number;
  return true;
}

static int enter(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, const struct ctxp_fold_residency *r) {
  uint8_t band = (uint8_t)ctxp_fold_band(w, r);
  uint32_t size = w->messages.at[r->message].tokens, number = s->places.count, item;
  struct band_stack *stack = &s->stacks[band];
  if (!item_of(s, w, r->message, band, &item) || !ctxp_fold_grow(&s->places, sizeof(*s->places.at)) ||
      !ctxp_fold_grow(stack, sizeof(*stack->at)))
    return -ENOMEM;
  s->places.at[number] = (struct place){.entered = {s->k, s->kc},
      .cum = cum_before(s, number) + size,
      .item = item,
      .size = size,
      .priced = s->priced,
      .sized = size ? number + 1 :
          number    ? s->places.at[number - 1].sized :
                      0};
  s->places.count++;
  stack->at[stack->count].cum = (stack->count ? stack->at[stack->count - 1].cum : 0) + size;
  stack->at[stack->count++].place = number;
  return 0;
}

/* first place for which cum (or, strict, the sum before it) times input is beyond x */
static uint32_t first_beyond(const struct ctxp_fold_spend *s, uint64_t input, ctxp_u128 x, bool whole) {
  uint32_t low = 0, high = s->places.count;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    bool beyond = whole ? (ctxp_u128)s->places.at[mid].cum * input > x : (ctxp_u128)cum_before(s, mid) * input >= x;
    if (beyond)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

/* sizes of a band below a place */
static uint64_t band_below(const struct band_stack *stack, uint32_t place) {
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

/* ---- tiered money of one request ---- */
static void pay_place(struct ctxp_fold_spend *s, uint32_t place, ctxp_u128 money) {
  struct ctxp_fold_item *item = &s->items.at[s->places.at[place].item];
  item->sum.tiered += money;
  s->bands[item->band].sum.tiered += money;
}

/* places [from, to) pay `rate` a token of estimate; returns what they pay */
static ctxp_u128 pay_stretch(struct ctxp_fold_spend *s, uint32_t from, uint32_t to, ctxp_u128 rate) {
  if (from >= to) return 0;
  s->places.at[to - 1].noted += rate;
  if (from) s->places.at[from - 1].noted -= rate;
  for (unsigned b = 0; b < CTXP_BAND_COUNT; b++)
    if (s->stacks[b].count) s->bands[b].sum.tiered += rate * (band_below(&s->stacks[b], to) - band_below(&s->stacks[b], from));
  return rate * (s->places.at[to - 1].cum - cum_before(s, from));
}

struct stretch { /* of one class: tokens [low, high) times the window's estimate, and its money */
  ctxp_u128 low, high, money;
  uint64_t tokens, input, estimate;
};

/* what one place that spans a border pays for its part in the stretch */
static ctxp_u128 pay_part(struct ctxp_fold_spend *s, const struct stretch *t, uint32_t place) {
  ctxp_u128 from = (ctxp_u128)cum_before(s, place) * t->input, to = (ctxp_u128)s->places.at[place].cum * t->input;
  if (from < t->low) from = t->low;
  if (to > t->high) to = t->high;
  ctxp_u128 money = t->money / t->tokens * (to - from) / t->estimate;
  pay_place(s, place, money);
  return money;
}

static ctxp_u128 pay_class(struct ctxp_fold_spend *s, const struct stretch *t) {
  uint32_t from = first_beyond(s, t->input, t->low, false), to = first_beyond(s, t->input, t->high, true);
  ctxp_u128 paid = 0;
  if (from && (ctxp_u128)s->places.at[from - 1].cum * t->input > t->low) paid += pay_part(s, t, from - 1);
  if (to >= from) {
    paid += pay_stretch(s, from, to, t->money * t->input / ((ctxp_u128)t->tokens * t->estimate));
    if (to < s->places.count && (ctxp_u128)cum_before(s, to) * t->input < t->high) paid += pay_part(s, t, to);
  }
  return paid;
}

static void bill_tiered(
    struct ctxp_fold_spend *s, const struct ctxp_fold_request *q, uint64_t input, uint64_t estimate, ctxp_u128 money, uint32_t newest) {
  ctxp_u128 paid = 0;
  uint64_t sent = 0;
  if (input == 0) paid = pay_stretch(s, 0, s->places.count, money / estimate); /* money without tokens has no order */
  for (unsigned c = 0; c < CTXP_FOLD_CLASSES; c++) {
    if (q->tokens[c] == 0) continue;
    struct stretch t = {(ctxp_u128)sent * estimate, ((ctxp_u128)sent + q->tokens[c]) * estimate,
        (ctxp_u128)q->parts[c] << (32 - CTXP_FOLD_PART), q->tokens[c], input, estimate};
    paid += pay_class(s, &t);
    sent += q->tokens[c];
  }
  pay_place(s, newest, money - paid);
}

/* ---- one request ---- */
static void bill_rest(struct ctxp_fold_spend *s, uint32_t place, ctxp_u128 tokens, ctxp_u128 money) {
  struct ctxp_fold_item *item = &s->items.at[s->places.at[place].item];
  item->sum.billed += tokens;
  item->sum.cost += money;
  s->bands[item->band].sum.billed += tokens;
  s->bands[item->band].sum.cost += money;
}

/* residency of bands: which had any message in this request, and what came in */
static void see(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, uint32_t number, uint32_t priced) {
  for (unsigned b = 0; b < CTXP_BAND_COUNT; b++) {
    if (s->stacks[b].count == 0) continue;
    s->bands[b].turns++;
    s->bands[b].priced += priced;
    s->bands[b].last = number;
    if (!s->bands[b].first) s->bands[b].first = number;
  }
  for (; s->fresh < s->places.count; s->fresh++) {
    struct ctxp_fold_item *item = &s->items.at[s->places.at[s->fresh].item];
    if (item->seen) continue;
    item->seen = true;
    s->bands[item->band].own += s->places.at[s->fresh].size;
    s->bands[item->band].messages += w->messages.at[item->message].defined;
  }
}

static void bill(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q) {
  uint64_t input = ctxp_fold_request_input(q), estimate = cum_before(s, s->places.count);
  ctxp_u128 tokens = input * CTXP_FOLD_TOKEN,
            money = ((ctxp_u128)q->parts[0] + q->parts[1] + q->parts[2] + q->parts[3]) << (32 - CTXP_FOLD_PART);
  uint32_t priced = q->flags & CTXP_FOLD_PRICED ? 1 : 0;
  s->priced += priced;
  see(s, w, q->number, priced);
  s->figures.estimated += q->flags & CTXP_FOLD_REPORTED ? estimate : 0;
  if (estimate == 0) {
    struct ctxp_fold_sum all = {tokens, money, money};
    ctxp_fold_sum_add(&s->bands[CTXP_BAND_COUNT].sum, &all);
    s->bands[CTXP_BAND_COUNT].priced += priced;
    return;
  }
  ctxp_u128 k = tokens / estimate, kc = money / estimate;
  uint32_t newest = s->places.at[s->places.count - 1].sized - 1;
  s->k += k;
  s->kc += kc;
  for (unsigned b = 0; b < CTXP_BAND_COUNT; b++) {
    if (s->stacks[b].count == 0) continue;
    uint64_t size = s->stacks[b].at[s->stacks[b].count - 1].cum;
    s->bands[b].sum.billed += k * size;
    s->bands[b].sum.cost += kc * size;
  }
  bill_rest(s, newest, tokens - k * estimate, money - kc * estimate);
  bill_tiered(s, q, input, estimate, money, newest);
}

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
  if (more->requests && (!sum->first_ms || more->first_ms < sum->first_ms)) sum->first_ms = more->first_ms;
  if (more->last_ms > sum->last_ms) sum->last_ms = more->last_ms;
}

static void count(struct ctxp_fold_figures *sum, const struct ctxp_fold_request *q) {
  bool in = q->flags & CTXP_FOLD_PRICED, out = q->flags & CTXP_FOLD_PRICED_OUT, reported = q->flags & CTXP_FOLD_REPORTED;
  struct ctxp_fold_figures one = {
      .requests = 1, .unreported = !reported, .output = q->output, .reasoning = q->reasoning, .first_ms = q->ts_ms, .last_ms = q->ts_ms};
  memcpy(one.tokens, q->tokens, sizeof(one.tokens));
  one.cost_input_nano = ctxp_fold_request_cost_nano(q);
  one.cost_nano = one.cost_input_nano + q->cost_output_nano;
  if (reported && !in) one.unpriced_input = ctxp_fold_request_input(q);
  if (reported && !out) one.unpriced_output = q->output;
  ctxp_fold_figures_add(sum, &one);
}

/* ---- cache busts ---- */
#define BUST_MIN 1024 /* tokens: providers cache in blocks of about this size */

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
static void find_bust(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q) {
  if (!(q->flags & CTXP_FOLD_REPORTED)) return;
  const struct ctxp_fold_request *before = s->before ? &w->requests.at[s->before - 1] : NULL;
  s->before = (uint32_t)(q - w->requests.at) + 1;
  if (!before) return;
  uint64_t left = before->tokens[CTXP_FOLD_READ] + before->tokens[CTXP_FOLD_WRITE_5M] + before->tokens[CTXP_FOLD_WRITE_1H];
  uint64_t input = ctxp_fold_request_input(q), read = q->tokens[CTXP_FOLD_READ];
  if (left > input) left = input;
  if (read * 2 >= left || left - read < BUST_MIN) return;
  uint64_t anew = input - read, lost = left - read;
  ctxp_u128 paid = (ctxp_u128)q->parts[CTXP_FOLD_WRITE_5M] + q->parts[CTXP_FOLD_WRITE_1H] + q->parts[CTXP_FOLD_UNCACHED];
  struct ctxp_fold_bust_sum *sum = &s->busts[bust_cause(before, q)];
  sum->count++;
  sum->tokens += lost;
  sum->cost_nano += (uint64_t)((paid * lost / anew) >> CTXP_FOLD_PART);
}

static int step(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q) {
  cut(s, q->keep);
  for (uint32_t i = 0; i < q->count; i++) {
    int r = enter(s, w, &w->residencies.at[q->first + i]);
    if (r < 0) return r;
  }
  if (!(q->flags & CTXP_FOLD_COUNTED)) return 0;
  count(&s->figures, q);
  find_bust(s, w, q);
  bill(s, w, q);
  return 0;
}

int ctxp_fold_spend_run(struct ctxp_fold_window *w) {
  if (!w->spend) w->spend = calloc(1, sizeof(*w->spend));
  if (!w->spend) return -ENOMEM;
  while (w->spend->done < w->requests.count) {
    int r = step(w->spend, w, &w->requests.at[w->spend->done]);
    if (r < 0) {
      w->spend = ctxp_fold_spend_free(w->spend); /* half a request is none */
      return r;
    }
    w->spend->done++;
  }
  return 0;
}

uint32_t ctxp_fold_spend_done(const struct ctxp_fold_spend *spend) { return spend->done; }
const struct ctxp_fold_figures *ctxp_fold_spend_figures(const struct ctxp_fold_spend *spend) { return &spend->figures; }
const struct ctxp_fold_band_sum *ctxp_fold_spend_bands(const struct ctxp_fold_spend *spend) { return spend->bands; }
const struct ctxp_fold_bust_sum *ctxp_fold_spend_busts(const struct ctxp_fold_spend *spend) { return spend->busts; }
uint64_t ctxp_fold_spend_resident(const struct ctxp_fold_spend *spend) { return cum_before(spend, spend->places.count); }

struct ctxp_fold_items ctxp_fold_spend_items(struct ctxp_fold_spend *s) {
  ctxp_u128 noted = 0;
  for (uint32_t i = s->places.count; i-- > 0;) { /* hands everything down, as if all left and came in again */
    struct place *p = &s->places.at[i];
    p->noted += noted;
    settle(s, p);
    noted = p->noted;
    p->noted = 0;
  }
  return (struct ctxp_fold_items){s->items.at, s->items.count, s->first_item, s->first_cap};
}

struct ctxp_fold_spend *ctxp_fold_spend_free(struct ctxp_fold_spend *s) {
  if (!s) return NULL;
  for (unsigned b = 0; b < CTXP_BAND_COUNT; b++) free(s->stacks[b].at);
  free(s->places.at);
  free(s->items.at);
  free(s->first_item);
  free(s);
  return NULL;
}
