/* Tables of rows: whole numbers that add up, order, and the tail folded into one row. */
#include <errno.h>
#include <stdlib.h>
#include "fold/ledger.h"
#include "fold/rows.h"

/* ---- an order that only what the rows are decides ---- */
static int compare_windows(const struct ctxp_fold_rows *rows, uint32_t a, uint32_t b) {
  if (a == b || !a || !b) return a < b ? -1 : a > b;
  const struct ctxp_fold_where *x = &rows->windows.at[a - 1], *y = &rows->windows.at[b - 1];
  int r = ctxp_str_cmp(x->agent, y->agent);
  if (r == 0) r = ctxp_str_cmp(x->session, y->session);
  return r == 0 ? ctxp_str_cmp(x->thread, y->thread) : r;
}

struct canon {
  const struct ctxp_fold_rows *rows;
  const struct ctxp_fold_table *table;
};

static int compare_keys(const void *a, const void *b, void *data) {
  const struct canon *c = data;
  const struct ctxp_fold_row *x = &c->table->at[*(const uint32_t *)a], *y = &c->table->at[*(const uint32_t *)b];
  int r = ctxp_str_cmp(x->key, y->key);
  if (r == 0) r = x->kind - y->kind;
  if (r == 0) r = x->band - y->band;
  return r == 0 ? compare_windows(c->rows, x->window, y->window) : r;
}

/* numbers of the rows by their keys; the caller frees them; NULL: out of memory */
static uint32_t *by_key(const struct ctxp_fold_rows *rows, const struct ctxp_fold_table *t) {
  struct canon c = {rows, t};
  uint32_t *order = malloc((t->count ? t->count : 1) * sizeof(*order));
  for (uint32_t i = 0; order && i < t->count; i++) order[i] = i;
  if (order && t->count > 1) qsort_r(order, t->count, sizeof(*order), compare_keys, &c);
  return order;
}

/* ---- whole numbers ---- */
struct share { /* the rows of a table that share one total */
  struct ctxp_fold_table *table;
  const uint32_t *order;
  int band; /* CTXP_BAND_COUNT: all */
};

static struct ctxp_fold_row *sharing(const struct share *s, uint32_t i) {
  struct ctxp_fold_row *row = &s->table->at[s->order[i]];
  return s->band == CTXP_BAND_COUNT || row->band == s->band ? row : NULL;
}

/* one figure of the rows, `part_at` and `whole_at` its places in a row, made whole */
static int make_whole(const struct share *s, size_t part_at, size_t whole_at, ctxp_u128 unit, uint64_t total) {
  uint32_t count = s->table->count, n = 0;
  ctxp_u128 *parts = calloc(count ? count : 1, sizeof(*parts));
  uint64_t *whole = malloc((count ? count : 1) * sizeof(*whole));
  int r = parts && whole ? 0 : -ENOMEM;
  for (uint32_t i = 0; r == 0 && i < count; i++)
    if (sharing(s, i)) memcpy(&parts[n++], (const char *)sharing(s, i) + part_at, sizeof(*parts));
  if (r == 0) r = ctxp_fold_apportion(parts, n, unit, total, whole);
  n = 0;
  for (uint32_t i = 0; r == 0 && i < count; i++)
    if (sharing(s, i)) memcpy((char *)sharing(s, i) + whole_at, &whole[n++], sizeof(*whole));
  free(parts);
  free(whole);
  return r;
}

struct totals {
  uint64_t billed, cost_nano, tiered_nano;
};

static int whole_rows(const struct share *s, const struct totals *t) {
  int r = make_whole(s, offsetof(struct ctxp_fold_row, sum.billed), offsetof(struct ctxp_fold_row, billed), CTXP_FOLD_TOKEN, t->billed);
  if (r == 0)
    r = make_whole(s, offsetof(struct ctxp_fold_row, sum.cost), offsetof(struct ctxp_fold_row, cost_nano), CTXP_FOLD_NANO, t->cost_nano);
  if (r == 0)
    r = make_whole(
        s, offsetof(struct ctxp_fold_row, sum.tiered), offsetof(struct ctxp_fold_row, tiered_nano), CTXP_FOLD_NANO, t->tiered_nano);
  return r;
}

static uint64_t nearest(ctxp_u128 part, ctxp_u128 unit) { return (uint64_t)((part + unit / 2) / unit); }

/* tools have no total of their own: their sum, rounded */
static int whole_tools(const struct share *share) {
  struct ctxp_fold_table *t = share->table;
  struct ctxp_fold_sum sum = {0, 0, 0};
  for (uint32_t i = 0; i < t->count; i++) ctxp_fold_sum_add(&sum, &t->at[i].sum);
  struct totals all = {nearest(sum.billed, CTXP_FOLD_TOKEN), nearest(sum.cost, CTXP_FOLD_NANO), nearest(sum.tiered, CTXP_FOLD_NANO)};
  int r = whole_rows(share, &all);
  for (uint32_t i = 0; i < t->count; i++) {
    struct ctxp_fold_row *row = &t->at[i];
    row->arguments_billed = nearest(row->arguments, CTXP_FOLD_TOKEN);
    row->views_billed = row->as_views == row->sum.billed ? row->billed : nearest(row->as_views, CTXP_FOLD_TOKEN);
    if (row->views_billed > row->billed) row->views_billed = row->billed;
  }
  return r;
}

static int whole_views(const struct ctxp_fold_table *bands, struct share share) {
  for (uint32_t i = 0; i < bands->count; i++) {
    const struct ctxp_fold_row *b = &bands->at[i];
    struct totals t = {b->billed, b->cost_nano, b->tiered_nano};
    share.band = b->band;
    int r = b->band == CTXP_BAND_COUNT ? 0 : whole_rows(&share, &t);
    if (r < 0) return r;
  }
  return 0;
}

int ctxp_fold_rows_whole(struct ctxp_fold_rows *rows) {
  const struct ctxp_fold_figures *f = &rows->figures;
  struct totals all = {ctxp_fold_billed(f), f->cost_input_nano, f->cost_input_nano};
  int r = 0;
  for (unsigned g = 0; r == 0 && g < CTXP_FOLD_GRAINS; g++) {
    struct ctxp_fold_table *t = &rows->grains[g];
    uint32_t *order = by_key(rows, t);
    struct share share = {t, order, CTXP_BAND_COUNT};
    r = !order                 ? -ENOMEM :
        t->count == 0          ? 0 :
        g == CTXP_FOLD_BY_VIEW ? whole_views(&rows->grains[CTXP_FOLD_BY_BAND], share) :
        g == CTXP_FOLD_BY_TOOL ? whole_tools(&share) :
                                 whole_rows(&share, &all);
    free(order);
  }
  for (unsigned p = 0; p < CTXP_FOLD_PARTS; p++) {
    struct ctxp_fold_part_row *part = &rows->parts[p];
    part->billed = nearest(part->sum.billed, CTXP_FOLD_TOKEN);
    part->cost_nano = nearest(part->sum.cost, CTXP_FOLD_NANO);
    part->tiered_nano = nearest(part->sum.tiered, CTXP_FOLD_NANO);
  }
  return r;
}

/* ---- order ---- */
/* negative: a stands before b. Where the rule does not tell them apart, the order of their keys stays. Not an order in the
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
static uint32_t *ranked(const struct ctxp_fold_rows *rows, const struct ctxp_fold_table *t) {
  uint32_t n = t->count, *order = by_key(rows, t), *other = malloc((n ? n : 1) * sizeof(*other));
  if (!order || !other) {
    free(order);
    free(other);
    return NULL;
  }
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

void ctxp_fold_row_add(struct ctxp_fold_row *o, const struct ctxp_fold_row *r) {
  o->own += r->own;
  o->messages += r->messages;
  o->billed += r->billed;
  o->cost_nano += r->cost_nano;
  o->tiered_nano += r->tiered_nano;
  o->views_billed += r->views_billed;
  o->arguments_billed += r->arguments_billed;
  o->priced |= r->priced;
  o->unpriced |= r->unpriced;
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
  uint32_t *order = ranked(rows, t), n = 0;
  struct ctxp_fold_row *sorted = malloc(((size_t)t->count + 1) * sizeof(*sorted));
  uint64_t shown = 0;
  bool any = false;
  for (uint32_t i = 0; order && sorted && i < t->count; i++) {
    struct ctxp_fold_row *r = &t->at[order[i]];
    if (!stays(r, grain) && top && grain != CTXP_FOLD_BY_BAND && shown++ >= top) {
      r->folded = any = true;
      ctxp_fold_row_add(&others, r);
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
  int r = 0;
  for (unsigned g = 0; r == 0 && g < CTXP_FOLD_GRAINS; g++) r = finish_table(rows, g, top);
  return r;
}
