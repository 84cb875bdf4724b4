/* The end of a table of rows: whole numbers that add up, order, and the tail folded into one row. */
#include <errno.h>
#include <stdlib.h>
#include "fold/ledger.h"
#include "fold/rows.h"

/* ---- whole numbers ---- */
struct share { /* the rows of a table that share one total */
  struct ctxp_fold_table *table;
  int band; /* CTXP_BAND_COUNT: all */
};

static bool shares(const struct share *s, uint32_t i) { return s->band == CTXP_BAND_COUNT || s->table->at[i].band == s->band; }

/* one figure of the rows, `part_at` and `whole_at` its places in a row, made whole */
static int make_whole(const struct share *s, size_t part_at, size_t whole_at, ctxp_u128 unit, uint64_t total) {
  uint32_t count = s->table->count, n = 0;
  ctxp_u128 *parts = calloc(count ? count : 1, sizeof(*parts));
  uint64_t *whole = malloc((count ? count : 1) * sizeof(*whole));
  int r = parts && whole ? 0 : -ENOMEM;
  for (uint32_t i = 0; r == 0 && i < count; i++)
    if (shares(s, i)) memcpy(&parts[n++], (const char *)&s->table->at[i] + part_at, sizeof(*parts));
  if (r == 0) r = ctxp_fold_apportion(parts, n, unit, total, whole);
  n = 0;
  for (uint32_t i = 0; r == 0 && i < count; i++)
    if (shares(s, i)) memcpy((char *)&s->table->at[i] + whole_at, &whole[n++], sizeof(*whole));
  free(parts);
  free(whole);
  return r;
}

struct totals {
  uint64_t billed, cost_nano, tiered_nano;
};

static int whole_rows(struct ctxp_fold_table *table, int band, const struct totals *t) {
  struct share s = {table, band};
  int r = make_whole(&s, offsetof(struct ctxp_fold_row, sum.billed), offsetof(struct ctxp_fold_row, billed), CTXP_FOLD_TOKEN, t->billed);
  if (r == 0)
    r = make_whole(&s, offsetof(struct ctxp_fold_row, sum.cost), offsetof(struct ctxp_fold_row, cost_nano), CTXP_FOLD_NANO, t->cost_nano);
  if (r == 0)
    r = make_whole(
        &s, offsetof(struct ctxp_fold_row, sum.tiered), offsetof(struct ctxp_fold_row, tiered_nano), CTXP_FOLD_NANO, t->tiered_nano);
  return r;
}

static uint64_t nearest(ctxp_u128 part, ctxp_u128 unit) { return (uint64_t)((part + unit / 2) / unit); }

/* tools have no total of their own: their sum, rounded */
static int whole_tools(struct ctxp_fold_table *t) {
  struct ctxp_fold_sum sum = {0, 0, 0};
  for (uint32_t i = 0; i < t->count; i++) ctxp_fold_sum_add(&sum, &t->at[i].sum);
  struct totals all = {nearest(sum.billed, CTXP_FOLD_TOKEN), nearest(sum.cost, CTXP_FOLD_NANO), nearest(sum.tiered, CTXP_FOLD_NANO)};
  int r = whole_rows(t, CTXP_BAND_COUNT, &all);
  for (uint32_t i = 0; i < t->count; i++) {
    struct ctxp_fold_row *row = &t->at[i];
    row->arguments_billed = nearest(row->arguments, CTXP_FOLD_TOKEN);
    row->views_billed = row->as_views == row->sum.billed ? row->billed : nearest(row->as_views, CTXP_FOLD_TOKEN);
    if (row->views_billed > row->billed) row->views_billed = row->billed;
  }
  return r;
}

static int whole_views(struct ctxp_fold_rows *rows) {
  const struct ctxp_fold_table *bands = &rows->grains[CTXP_FOLD_BY_BAND];
  for (uint32_t i = 0; i < bands->count; i++) {
    const struct ctxp_fold_row *b = &bands->at[i];
    struct totals t = {b->billed, b->cost_nano, b->tiered_nano};
    int r = b->band == CTXP_BAND_COUNT ? 0 : whole_rows(&rows->grains[CTXP_FOLD_BY_VIEW], b->band, &t);
    if (r < 0) return r;
  }
  return 0;
}

/* ---- order ---- */
/* negative: a stands before b. Where the rule does not tell them apart, the order of their appearance stays. Not an order in the
 * strict sense where priced and unpriced rows mix, so the sort is our own: the same rows always give the same list. */
static int compare(const struct ctxp_fold_row *a, const struct ctxp_fold_row *b) {
  if (a->priced && b->priced && a->cost_nano != b->cost_nano) return a->cost_nano > b->cost_nano ? -1 : 1;
  if (a->billed != b->billed) return a->billed > b->billed ? -1 : 1;
  return ctxp_str_cmp(a->label, b->label);
}

static void merge(const struct ctxp_fold_row *rows, const uint32_t *from, uint32_t *to, uint32_t low, uint32_t mid, uint32_t high) {
  uint32_t a = low, b = mid;
  for (uint32_t i = low; i < high; i++) {
    bool left = a < mid && (b >= high || compare(&rows[from[a]], &rows[from[b]]) <= 0);
    to[i] = left ? from[a++] : from[b++];
  }
}

/* numbers of the rows in order; the caller frees them; NULL: out of memory */
static uint32_t *ranked(const struct ctxp_fold_table *t) {
  uint32_t n = t->count, *order = malloc((n ? n : 1) * sizeof(*order)), *other = malloc((n ? n : 1) * sizeof(*other));
  if (!order || !other) {
    free(order);
    free(other);
    return NULL;
  }
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  for (uint64_t width = 1; width < n; width *= 2) {
    for (uint64_t low = 0; low < n; low += 2 * width) {
      uint64_t mid = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n;
      merge(t->at, order, other, (uint32_t)low, (uint32_t)mid, (uint32_t)high);
    }
    uint32_t *swap = order;
    order = other;
    other = swap;
  }
  free(other);
  return order;
}

/* ---- the tail ---- */
static bool stays(const struct ctxp_fold_row *r, unsigned grain) {
  return r->hidden || (grain == CTXP_FOLD_BY_VIEW && r->kind == CTXP_FOLD_UNATTRIBUTED) ||
      (grain == CTXP_FOLD_BY_MESSAGE && r->window == 0);
}

static void add_row(struct ctxp_fold_row *o, const struct ctxp_fold_row *r) {
  o->own += r->own;
  o->messages += r->messages;
  o->billed += r->billed;
  o->cost_nano += r->cost_nano;
  o->tiered_nano += r->tiered_nano;
  o->views_billed += r->views_billed;
  o->arguments_billed += r->arguments_billed;
  o->priced |= r->priced;
  o->error += r->error;
  o->bars += r->bars;
  if (r->first && (!o->first || r->first < o->first)) o->first = r->first;
  if (r->last > o->last) o->last = r->last;
}

/* requests that had any of the folded rows; residencies come in the order in which they begin */
static uint64_t folded_turns(const struct ctxp_fold_rows *rows, unsigned grain) {
  uint64_t turns = 0, covered = 0;
  for (uint32_t i = 0; i < rows->spans.count; i++) {
    const struct ctxp_fold_span *s = &rows->spans.at[i];
    if (s->grain != grain || !rows->grains[grain].at[s->row].folded) continue;
    uint64_t start = s->from > covered ? s->from : covered;
    if (s->to > start) turns += s->to - start;
    if (s->to > covered) covered = s->to;
  }
  return turns;
}

static int finish_table(struct ctxp_fold_rows *rows, unsigned grain, uint64_t top) {
  struct ctxp_fold_table *t = &rows->grains[grain];
  struct ctxp_fold_row others = {.key = CTXP_STR("others"),
      .label = CTXP_STR("others"),
      .kind = CTXP_FOLD_NO_KIND,
      .band = CTXP_BAND_COUNT,
      .message_band = CTXP_BAND_COUNT};
  uint32_t *order = ranked(t), n = 0;
  struct ctxp_fold_row *sorted = malloc(((size_t)t->count + 1) * sizeof(*sorted));
  uint64_t shown = 0;
  bool any = false;
  for (uint32_t i = 0; order && sorted && i < t->count; i++) {
    struct ctxp_fold_row *r = &t->at[order[i]];
    if (!stays(r, grain) && top && grain != CTXP_FOLD_BY_BAND && shown++ >= top) {
      r->folded = any = true;
      add_row(&others, r);
    } else if (!r->hidden) {
      sorted[n++] = *r;
    }
  }
  free(order);
  if (!order || !sorted) {
    free(sorted);
    return -ENOMEM;
  }
  others.turns = any ? folded_turns(rows, grain) : 0;
  if (any) sorted[n++] = others;
  free(t->at);
  t->at = sorted;
  t->count = n;
  t->cap = n;
  return 0;
}

int ctxp_fold_rows_finish(struct ctxp_fold_rows *rows, uint64_t top) {
  const struct ctxp_fold_figures *f = &rows->figures;
  struct totals all = {ctxp_fold_billed(f), f->cost_input_nano, f->cost_input_nano};
  int r = whole_rows(&rows->grains[CTXP_FOLD_BY_BAND], CTXP_BAND_COUNT, &all);
  if (r == 0) r = whole_views(rows);
  if (r == 0) r = whole_tools(&rows->grains[CTXP_FOLD_BY_TOOL]);
  if (r == 0 && rows->wanted & 1u << CTXP_FOLD_BY_MESSAGE) r = whole_rows(&rows->grains[CTXP_FOLD_BY_MESSAGE], CTXP_BAND_COUNT, &all);
  for (unsigned p = 0; r == 0 && p < CTXP_FOLD_PARTS; p++) {
    struct ctxp_fold_part_row *part = &rows->parts[p];
    part->billed = nearest(part->sum.billed, CTXP_FOLD_TOKEN);
    part->cost_nano = nearest(part->sum.cost, CTXP_FOLD_NANO);
    part->tiered_nano = nearest(part->sum.tiered, CTXP_FOLD_NANO);
  }
  for (unsigned g = 0; r == 0 && g < CTXP_FOLD_GRAINS; g++) r = finish_table(rows, g, top);
  return r;
}
