#include <errno.h>
#include <stdlib.h>
#include "fold/spend_int.h"

/* ---- the stack of places ---- */
static void settle(struct ctxp_fold_spend *s, uint32_t place) {
  struct ctxp_fold_place *p = &s->places.at[place];
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
    struct ctxp_fold_place *p = &s->places.at[i];
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

static bool lane_add(struct ctxp_fold_lane *lane, uint32_t place, uint64_t tokens) {
  if (!ctxp_fold_grow(lane, sizeof(*lane->at))) return false;
  lane->at[lane->count].cum = (lane->count ? lane->at[lane->count - 1].cum : 0) + tokens;
  lane->at[lane->count++].place = place;
  return true;
}

static int enter(struct ctxp_fold_spend *s, const struct ctxp_fold_window *w) {
  uint32_t number = s->places.count, item;
  const struct ctxp_fold_weight *p = weight_of(s, number);
  if (!item_of(s, w, p->message, p->band, &item) || !ctxp_fold_grow(&s->places, sizeof(*s->places.at))) return -ENOMEM;
  s->places.at[number] = (struct ctxp_fold_place){.entered = {s->k, s->kc}, .item = item, .priced = s->priced, .unpriced = s->unpriced};
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

/* ---- one request ---- */
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
  s->watched = (struct ctxp_fold_sum){0, 0, 0};
  ctxp_fold_spend_bill(s, w, q);
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
