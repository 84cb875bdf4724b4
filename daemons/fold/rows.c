#include <errno.h>
#include <stdlib.h>
#include "fold/ledger.h"
#include "fold/path.h"
#include "fold/rows.h"
#include "fold/sizes.h"

const char *const ctxp_fold_part_names[CTXP_FOLD_PARTS] = {
    "system and tools, not recorded", "came in, not recorded", "thinking"};

/* ---- rows ---- */
static bool same_row(const struct ctxp_fold_row *a, const struct ctxp_fold_row *b) {
  return a->kind == b->kind && a->band == b->band && a->window == b->window && ctxp_str_eq(a->key, b->key);
}

static uint64_t row_hash(const struct ctxp_fold_row *r) {
  return ctxp_hash64(r->key.ptr, r->key.len, (uint64_t)(r->kind + 2) * 64 + (uint64_t)r->band + ((uint64_t)r->window << 16));
}

static bool index_grow(struct ctxp_fold_table *t) {
  struct ctxp_fold_index *index = &t->index;
  if (index->slots && (index->count + 1) * UINT64_C(4) <= index->mask * UINT64_C(3)) return true;
  struct ctxp_fold_index grown = {.mask = index->slots ? index->mask * 2 + 1 : 63, .count = index->count};
  grown.slots = calloc((size_t)grown.mask + 1, sizeof(*grown.slots));
  if (!grown.slots) return false;
  for (uint32_t i = 0; i < t->count; i++) {
    uint32_t at = (uint32_t)row_hash(&t->at[i]) & grown.mask;
    while (grown.slots[at]) at = (at + 1) & grown.mask;
    grown.slots[at] = i + 1;
  }
  free(index->slots);
  *index = grown;
  return true;
}

static struct ctxp_fold_row key_of(struct ctxp_str label, int kind, int band) {
  return (struct ctxp_fold_row){.key = label, .label = label, .kind = kind, .band = band};
}

/* The row with that key, made if it is not there. NULL: out of memory, sticks. Good until the next call. */
static struct ctxp_fold_row *row_of(
    struct ctxp_fold_rows *rows, enum ctxp_fold_grain grain, const struct ctxp_fold_row *key, uint32_t *ret_number) {
  struct ctxp_fold_table *t = &rows->grains[grain];
  if (!index_grow(t) || !ctxp_fold_grow(t, sizeof(*t->at))) return rows->failed = true, NULL;
  uint32_t at = (uint32_t)row_hash(key) & t->index.mask;
  for (; t->index.slots[at]; at = (at + 1) & t->index.mask) {
    *ret_number = t->index.slots[at] - 1;
    if (same_row(&t->at[*ret_number], key)) return &t->at[*ret_number];
  }
  *ret_number = t->count;
  struct ctxp_fold_row *r = &t->at[t->count];
  *r = (struct ctxp_fold_row){.window = key->window, .kind = key->kind, .band = key->band, .hidden = key->hidden};
  r->label = r->key = ctxp_fold_arena_str(&rows->arena, key->label, &rows->failed);
  if (!ctxp_str_eq(key->key, key->label)) r->key = ctxp_fold_arena_str(&rows->arena, key->key, &rows->failed);
  r->tool = ctxp_fold_arena_str(&rows->arena, key->tool, &rows->failed);
  r->path = ctxp_fold_arena_str(&rows->arena, key->path, &rows->failed);
  if (rows->failed) return NULL;
  t->index.slots[at] = ++t->count;
  t->index.count++;
  return r;
}

/* ---- what an item is ---- */
static const struct ctxp_fold_call *call_of(const struct ctxp_fold_window *w, const struct ctxp_fold_message *m) {
  return ctxp_fold_window_call(w, m->answers);
}

struct ctxp_str ctxp_fold_tool_of(const struct ctxp_fold_window *w, const struct ctxp_fold_message *m) {
  const struct ctxp_fold_call *call = m->tool.len || m->role == CTXP_ROLE_assistant ? NULL : call_of(w, m);
  return m->role == CTXP_ROLE_assistant ? (struct ctxp_str){"", 0} : call ? call->name :
                                                                            m->tool;
}

static struct ctxp_str label_of(const struct ctxp_fold_window *w, const struct ctxp_fold_message *m) {
  const struct ctxp_fold_call *call = m->label.len ? NULL : call_of(w, m);
  return m->label.len ? m->label : call ? call->path :
                                          (struct ctxp_str){"", 0};
}

bool ctxp_fold_view_of(
    const struct ctxp_fold_window *w, const struct ctxp_fold_message *m, uint8_t band, struct ctxp_fold_row *key, struct ctxp_buf *path) {
  int kind = band == CTXP_BAND_file_view ? CTXP_LABEL_file :
      band == CTXP_BAND_text_view        ? CTXP_LABEL_text :
      band == CTXP_BAND_search_results   ? CTXP_LABEL_search :
                                           CTXP_LABEL_docs;
  if (kind == CTXP_LABEL_docs && band != CTXP_BAND_docs_view) return false;
  if (m->label_kind != CTXP_LABEL_COUNT) kind = m->label_kind;
  struct ctxp_str label = label_of(w, m);
  *key = key_of(label, kind, band);
  if (band == CTXP_BAND_docs_view && m->label.len == 0) {
    key->hidden = true; /* documentation is a view only under its name */
    key->kind = CTXP_FOLD_UNATTRIBUTED;
  } else if (label.len == 0) {
    *key = key_of(CTXP_STR("unattributed"), CTXP_FOLD_UNATTRIBUTED, band);
  } else if (kind == CTXP_LABEL_file) {
    key->key = ctxp_fold_path(label, w->cwd.len ? w->cwd : w->session->cwd, path);
  }
  return true;
}

/* ---- turns: how many requests had any of a row ---- */
struct seen {
  uint64_t turns, covered;
  uint32_t first, last;
  uint32_t rows[CTXP_FOLD_GRAINS]; /* of an item, + 1 */
  ctxp_u128 error; /* tokens that its bill may be off */
};

struct run { /* requests [from, to) among those that are billed */
  uint64_t from, to;
  uint32_t first, last; /* their numbers in the window */
};

static void cover(const struct run *run, uint64_t *turns, uint64_t *covered, uint32_t *first, uint32_t *last) {
  uint64_t start = run->from > *covered ? run->from : *covered;
  if (run->to > start) *turns += run->to - start;
  if (run->to > *covered) *covered = run->to;
  if (!*first || run->first < *first) *first = run->first;
  if (run->last > *last) *last = run->last;
}

/* false: none of them is billed */
static bool run_of(const struct ctxp_fold_window *w, const struct ctxp_fold_residency *r, struct run *ret) {
  *ret = (struct run){.from = ctxp_fold_spend_before(w, r->from), .to = ctxp_fold_spend_before(w, r->to)};
  if (ret->from >= ret->to) return false;
  ret->first = ctxp_fold_spend_number(w->spend, (uint32_t)ret->from + 1);
  ret->last = ctxp_fold_spend_number(w->spend, (uint32_t)ret->to);
  return true;
}

static uint32_t item_at(const struct ctxp_fold_items *items, uint32_t message, uint8_t band) {
  uint32_t link = message < items->messages ? items->first[message] : 0;
  while (link && items->at[link - 1].band != band) link = items->at[link - 1].next;
  return link;
}

static void see_items(const struct ctxp_fold_window *w, const struct ctxp_fold_items *items, struct seen *seen) {
  for (uint32_t i = 0; i < w->residencies.count; i++) {
    const struct ctxp_fold_residency *r = &w->residencies.at[i];
    uint32_t item = item_at(items, r->message, (uint8_t)ctxp_fold_band(w, r));
    struct run run;
    if (item && run_of(w, r, &run))
      cover(&run, &seen[item - 1].turns, &seen[item - 1].covered, &seen[item - 1].first, &seen[item - 1].last);
  }
}

static int cover_rows(
    const struct ctxp_fold_window *w, struct ctxp_fold_rows *rows, const struct ctxp_fold_items *items, const struct seen *seen) {
  for (uint32_t i = 0; i < w->residencies.count; i++) {
    const struct ctxp_fold_residency *r = &w->residencies.at[i];
    uint32_t item = item_at(items, r->message, (uint8_t)ctxp_fold_band(w, r));
    struct run run;
    for (unsigned g = 0; item && g < CTXP_FOLD_GRAINS && run_of(w, r, &run); g++) {
      uint32_t number = seen[item - 1].rows[g];
      if (!number) continue;
      struct ctxp_fold_row *row = &rows->grains[g].at[number - 1];
      if (g == CTXP_FOLD_BY_BAND) continue; /* theirs are summed with the bill, as parts of them are no messages */
      cover(&run, &row->turns, &row->covered, &row->first, &row->last);
      if (!rows->keep_spans) continue;
      if (!ctxp_fold_grow(&rows->spans, sizeof(*rows->spans.at))) return -ENOMEM;
      rows->spans.at[rows->spans.count++] = (struct ctxp_fold_span){run.from, run.to, number - 1, (uint8_t)g};
    }
  }
  return 0;
}

/* ---- one item into its rows ---- */
static struct ctxp_fold_row *add_item(struct ctxp_fold_rows *rows, enum ctxp_fold_grain grain, const struct ctxp_fold_row *key,
    const struct ctxp_fold_item *item, const struct ctxp_fold_message *m, struct seen *seen) {
  uint32_t number;
  struct ctxp_fold_row *r = row_of(rows, grain, key, &number);
  if (!r) return NULL;
  seen->rows[grain] = number + 1;
  ctxp_fold_sum_add(&r->sum, &item->sum);
  r->priced |= item->priced > 0;
  r->unpriced |= item->unpriced > 0;
  r->error += seen->error;
  r->bars += seen->error > 0;
  if (r->mark != rows->marks) {
    r->mark = rows->marks; /* a message counts its own size once a row */
    r->own += item->own;
    r->messages += m->defined || grain == CTXP_FOLD_BY_MESSAGE;
  }
  return r;
}

static void add_arguments(
    struct ctxp_fold_rows *rows, const struct ctxp_fold_window *w, const struct ctxp_fold_message *m, const struct ctxp_fold_item *item) {
  for (uint32_t i = 0; m->role == CTXP_ROLE_assistant && m->tokens && i < m->calls; i++) {
    const struct ctxp_fold_call *call = &w->calls.at[m->first_call + i];
    struct ctxp_fold_row key = key_of(call->name, CTXP_FOLD_NO_KIND, CTXP_BAND_COUNT);
    uint32_t number;
    struct ctxp_fold_row *r = call->tokens ? row_of(rows, CTXP_FOLD_BY_TOOL, &key, &number) : NULL;
    uint32_t tokens = call->tokens < m->tokens ? call->tokens : m->tokens;
    if (r) r->arguments += item->sum.billed / m->tokens * tokens;
  }
}

static void add_message_row(struct ctxp_fold_rows *rows, const struct ctxp_fold_window *w, const struct ctxp_fold_message *m,
    const struct ctxp_fold_item *item, struct seen *seen) {
  struct ctxp_fold_row key = key_of(m->defined ? m->id : CTXP_STR("undefined"), CTXP_FOLD_NO_KIND, CTXP_BAND_COUNT);
  key.window = m->defined ? rows->windows.count : 0;
  struct ctxp_fold_row *r = add_item(rows, CTXP_FOLD_BY_MESSAGE, &key, item, m, seen);
  if (!r || !m->defined) return;
  r->message_band = item->band;
  if (!r->tool.len) r->tool = ctxp_fold_arena_str(&rows->arena, ctxp_fold_tool_of(w, m), &rows->failed);
  if (!r->path.len) r->path = ctxp_fold_arena_str(&rows->arena, label_of(w, m), &rows->failed);
}

static void add_one(struct ctxp_fold_rows *rows, const struct ctxp_fold_window *w, const struct ctxp_fold_item *item, struct seen *seen,
    struct ctxp_buf *path) {
  const struct ctxp_fold_message *m = &w->messages.at[item->message];
  struct ctxp_fold_row key = key_of(ctxp_str(ctxp_band_name((enum ctxp_band)item->band)), CTXP_FOLD_NO_KIND, item->band);
  add_item(rows, CTXP_FOLD_BY_BAND, &key, item, m, seen);
  bool view = (m->defined || item->own || item->sum.billed || item->sum.cost) && ctxp_fold_view_of(w, m, item->band, &key, path);
  if (view) add_item(rows, CTXP_FOLD_BY_VIEW, &key, item, m, seen);
  struct ctxp_str tool = ctxp_fold_tool_of(w, m);
  if (tool.len && rows->wanted & 1u << CTXP_FOLD_BY_TOOL) {
    key = key_of(tool, CTXP_FOLD_NO_KIND, CTXP_BAND_COUNT);
    struct ctxp_fold_row *r = add_item(rows, CTXP_FOLD_BY_TOOL, &key, item, m, seen);
    if (r && view) r->as_views += item->sum.billed;
  }
  if (rows->wanted & 1u << CTXP_FOLD_BY_TOOL) add_arguments(rows, w, m, item);
  if (rows->wanted & 1u << CTXP_FOLD_BY_MESSAGE) add_message_row(rows, w, m, item, seen);
}

/* ---- what is no message ---- */
/* the number of requests that carried it, times what its size may be off */
static ctxp_u128 error_of(const struct ctxp_fold_sizes *z, const struct ctxp_fold_item *item) {
  const struct ctxp_fold_known *k = item->message < z->known.count ? &z->known.at[item->message] : NULL;
  if (z->by_estimate || !k || !k->size) return 0;
  return item->sum.billed / CTXP_FOLD_TOKEN * k->bar / k->size;
}

static ctxp_u128 part_error(const struct ctxp_fold_sizes *z, unsigned part, const struct ctxp_fold_band_sum *sum) {
  uint64_t off = 0, grown = 0;
  for (uint32_t i = 0; i < z->models.count; i++) off += z->models.at[i].off, grown += z->models.at[i].grown;
  if (part == CTXP_FOLD_SYSTEM) return (ctxp_u128)z->first_bar * sum->turns;
  return sum->sum.billed / CTXP_FOLD_TOKEN * (grown ? 2 * off : 54) / (grown ? grown : 100);
}

static struct ctxp_fold_row *part_row(struct ctxp_fold_rows *rows, enum ctxp_fold_grain grain, unsigned part, int band) {
  struct ctxp_fold_row key = key_of(ctxp_str(ctxp_fold_part_names[part]), CTXP_FOLD_NO_KIND, CTXP_BAND_COUNT);
  uint32_t number;
  if (grain == CTXP_FOLD_BY_BAND) key = key_of(ctxp_str(ctxp_band_name((enum ctxp_band)band)), CTXP_FOLD_NO_KIND, band);
  struct ctxp_fold_row *r = row_of(rows, grain, &key, &number);
  if (r && grain == CTXP_FOLD_BY_MESSAGE) r->message_band = band;
  return r;
}

static void widen(struct ctxp_fold_row *r, const struct ctxp_fold_band_sum *sum) {
  r->turns += sum->turns;
  if (sum->first && (!r->first || sum->first < r->first)) r->first = sum->first;
  if (sum->last > r->last) r->last = sum->last;
}

/* U, X and thinking: parts of their bands, and rows beside the messages */
static void add_parts(struct ctxp_fold_rows *rows, const struct ctxp_fold_spend *spend) {
  const struct ctxp_fold_band_sum *parts = ctxp_fold_spend_parts(spend);
  const struct ctxp_fold_sizes *z = ctxp_fold_spend_sizes(spend);
  rows->ledger |= z->begun;
  for (unsigned p = 0; p < CTXP_FOLD_PARTS; p++) {
    struct ctxp_fold_part_row *at = &rows->parts[p];
    if (parts[p].turns == 0) continue;
    ctxp_u128 error = part_error(z, p, &parts[p]);
    ctxp_fold_sum_add(&at->sum, &parts[p].sum);
    at->error += error;
    at->bars += error > 0;
    at->own += parts[p].own;
    at->turns += parts[p].turns;
    at->messages += parts[p].messages;
    at->priced |= parts[p].priced > 0;
    at->unpriced |= parts[p].unpriced > 0;
    for (unsigned g = CTXP_FOLD_BY_BAND; g < CTXP_FOLD_GRAINS; g++) {
      if (g != CTXP_FOLD_BY_BAND && (g != CTXP_FOLD_BY_MESSAGE || !(rows->wanted & 1u << g))) continue;
      struct ctxp_fold_row *r =
          part_row(rows, (enum ctxp_fold_grain)g, p, p == CTXP_FOLD_THINKING ? CTXP_BAND_assistant : CTXP_BAND_system);
      if (!r) return;
      ctxp_fold_sum_add(&r->sum, &parts[p].sum);
      r->own += parts[p].own;
      r->priced |= parts[p].priced > 0;
      r->unpriced |= parts[p].unpriced > 0;
      r->error += error;
      r->bars += error > 0;
      if (g == CTXP_FOLD_BY_MESSAGE) widen(r, &parts[p]);
    }
  }
}

static void widen_bands(struct ctxp_fold_rows *rows, const struct ctxp_fold_band_sum *bands) {
  struct ctxp_fold_table *t = &rows->grains[CTXP_FOLD_BY_BAND];
  for (uint32_t i = 0; i < t->count; i++)
    if (t->at[i].band < CTXP_BAND_COUNT) widen(&t->at[i], &bands[t->at[i].band]);
}

uint64_t ctxp_fold_row_error(ctxp_u128 error, uint64_t bars) {
  uint64_t root = 0;
  while ((root + 1) * (root + 1) <= bars) root++;
  return root ? (uint64_t)(error / root) : 0;
}

/* what no message answers for: a row of the bands and of the messages */
static void add_unattributed(struct ctxp_fold_rows *rows, const struct ctxp_fold_band_sum *none) {
  struct ctxp_fold_row key = key_of(CTXP_STR("unattributed"), CTXP_FOLD_NO_KIND, CTXP_BAND_COUNT);
  uint32_t number;
  if (none->sum.billed == 0 && none->sum.cost == 0) return;
  for (unsigned g = 0; g < CTXP_FOLD_GRAINS; g++) {
    if (g != CTXP_FOLD_BY_BAND && (g != CTXP_FOLD_BY_MESSAGE || !(rows->wanted & 1u << g))) continue;
    struct ctxp_fold_row *r = row_of(rows, (enum ctxp_fold_grain)g, &key, &number);
    if (!r) return;
    ctxp_fold_sum_add(&r->sum, &none->sum);
    r->priced |= none->priced > 0;
    r->unpriced |= none->unpriced > 0;
  }
}

static bool add_window(struct ctxp_fold_rows *rows, const struct ctxp_fold_window *w) {
  if (!ctxp_fold_grow(&rows->windows, sizeof(*rows->windows.at))) return false;
  struct ctxp_fold_where *at = &rows->windows.at[rows->windows.count++];
  at->agent = ctxp_fold_arena_str(&rows->arena, w->session->agent, &rows->failed);
  at->session = ctxp_fold_arena_str(&rows->arena, w->session->session, &rows->failed);
  at->thread = ctxp_fold_arena_str(&rows->arena, w->thread, &rows->failed);
  return !rows->failed;
}

/* ---- one window ---- */
static int build_items(struct ctxp_fold_rows *rows, const struct ctxp_fold_window *w) {
  struct ctxp_fold_items items = ctxp_fold_spend_items(w->spend);
  struct seen *seen = calloc(items.count ? items.count : 1, sizeof(*seen));
  ctxp_auto_buf path = {0};
  if (!seen) return -ENOMEM;
  see_items(w, &items, seen);
  for (uint32_t m = 0; m < items.messages; m++) {
    rows->marks++;
    for (uint32_t link = items.first[m]; link; link = items.at[link - 1].next)
      if (seen[link - 1].turns) {
        seen[link - 1].error = error_of(ctxp_fold_spend_sizes(w->spend), &items.at[link - 1]);
        add_one(rows, w, &items.at[link - 1], &seen[link - 1], &path);
      }
  }
  int r = rows->failed || path.failed ? -ENOMEM : cover_rows(w, rows, &items, seen);
  if (!rows->failed) add_parts(rows, w->spend);
  widen_bands(rows, ctxp_fold_spend_bands(w->spend));
  free(seen);
  return r;
}

static int build_bands(struct ctxp_fold_rows *rows, const struct ctxp_fold_window *w) {
  const struct ctxp_fold_band_sum *bands = ctxp_fold_spend_bands(w->spend);
  uint32_t number;
  for (int b = 0; b < CTXP_BAND_COUNT; b++) {
    if (bands[b].turns == 0) continue;
    struct ctxp_fold_row key = key_of(ctxp_str(ctxp_band_name((enum ctxp_band)b)), CTXP_FOLD_NO_KIND, b),
                         *row = row_of(rows, CTXP_FOLD_BY_BAND, &key, &number);
    if (!row) return -ENOMEM;
    row->sum = bands[b].sum;
    row->own = bands[b].own;
    row->messages = bands[b].messages;
    row->turns = bands[b].turns;
    row->first = bands[b].first;
    row->last = bands[b].last;
    row->priced = bands[b].priced > 0;
    row->unpriced = bands[b].unpriced > 0;
  }
  return 0;
}

/* ---- the sum over windows ---- */
/* of two names of the same thing the shorter, so that it does not matter which window came first */
static bool called_better(struct ctxp_str a, struct ctxp_str b) { return a.len != b.len ? a.len < b.len : ctxp_str_cmp(a, b) < 0; }

static int add_table(struct ctxp_fold_rows *rows, struct ctxp_fold_rows *one, enum ctxp_fold_grain grain) {
  const struct ctxp_fold_table *from = &one->grains[grain];
  for (uint32_t i = 0; i < from->count; i++) {
    struct ctxp_fold_row *r = &from->at[i], key = *r;
    uint32_t number;
    key.window = r->window ? rows->windows.count : 0;
    struct ctxp_fold_row *sum = row_of(rows, grain, &key, &number);
    if (!sum) return -ENOMEM;
    if (called_better(r->label, sum->label)) sum->label = ctxp_fold_arena_str(&rows->arena, r->label, &rows->failed);
    if (grain == CTXP_FOLD_BY_MESSAGE) sum->message_band = r->message_band;
    ctxp_fold_row_add(sum, r);
    sum->turns += r->turns;
    r->mark = number; /* for the spans */
  }
  return rows->failed ? -ENOMEM : 0;
}

static int add_spans(struct ctxp_fold_rows *rows, const struct ctxp_fold_rows *one) {
  for (uint32_t i = 0; i < one->spans.count; i++) {
    struct ctxp_fold_span s = one->spans.at[i];
    if (!ctxp_fold_grow(&rows->spans, sizeof(*rows->spans.at))) return -ENOMEM;
    s.from += rows->base;
    s.to += rows->base;
    s.row = (uint32_t)one->grains[s.grain].at[s.row].mark;
    rows->spans.at[rows->spans.count++] = s;
  }
  return 0;
}

static int add_rows(struct ctxp_fold_rows *rows, struct ctxp_fold_rows *one) {
  int r = 0;
  for (unsigned g = 0; r == 0 && g < CTXP_FOLD_GRAINS; g++) r = add_table(rows, one, (enum ctxp_fold_grain)g);
  rows->ledger |= one->ledger;
  for (unsigned p = 0; p < CTXP_FOLD_PARTS; p++) {
    struct ctxp_fold_part_row *sum = &rows->parts[p];
    const struct ctxp_fold_part_row *part = &one->parts[p];
    sum->error += part->error;
    sum->bars += part->bars;
    sum->own += part->own;
    sum->turns += part->turns;
    sum->messages += part->messages;
    sum->billed += part->billed;
    sum->cost_nano += part->cost_nano;
    sum->tiered_nano += part->tiered_nano;
    sum->priced |= part->priced;
    sum->unpriced |= part->unpriced;
  }
  return r == 0 ? add_spans(rows, one) : r;
}

static void add_figures(struct ctxp_fold_rows *rows, const struct ctxp_fold_window *w) {
  const struct ctxp_fold_bust_sum *busts = ctxp_fold_spend_busts(w->spend);
  ctxp_fold_figures_add(&rows->figures, ctxp_fold_spend_figures(w->spend));
  for (unsigned b = 0; b < CTXP_FOLD_BUSTS; b++) {
    rows->busts[b].count += busts[b].count;
    rows->busts[b].tokens += busts[b].tokens;
    rows->busts[b].cost_nano += busts[b].cost_nano;
  }
}

static int add_one_window(
    struct ctxp_fold_rows *rows, struct ctxp_fold_window *w, int (*build)(struct ctxp_fold_rows *, const struct ctxp_fold_window *)) {
  struct ctxp_fold_rows one = {.wanted = rows->wanted, .keep_spans = rows->keep_spans};
  int r = add_window(rows, w) && add_window(&one, w) ? ctxp_fold_spend_run(w) : -ENOMEM;
  if (r == 0) r = build(&one, w);
  if (r == 0) {
    add_unattributed(&one, &ctxp_fold_spend_bands(w->spend)[CTXP_BAND_COUNT]);
    add_figures(&one, w);
    r = one.failed ? -ENOMEM : ctxp_fold_rows_whole(&one);
  }
  if (r == 0) r = add_rows(rows, &one);
  if (r == 0) add_figures(rows, w);
  rows->base += w->counted;
  ctxp_fold_rows_deinit(&one);
  return r;
}

int ctxp_fold_rows_add(struct ctxp_fold_rows *rows, struct ctxp_fold_window *w) { return add_one_window(rows, w, build_items); }
int ctxp_fold_rows_bands(struct ctxp_fold_rows *rows, struct ctxp_fold_window *w) { return add_one_window(rows, w, build_bands); }

void ctxp_fold_rows_deinit(struct ctxp_fold_rows *rows) {
  for (unsigned g = 0; g < CTXP_FOLD_GRAINS; g++) {
    free(rows->grains[g].at);
    free(rows->grains[g].index.slots);
  }
  free(rows->spans.at);
  free(rows->windows.at);
  ctxp_fold_arena_deinit(&rows->arena);
  *rows = (struct ctxp_fold_rows){0};
}
