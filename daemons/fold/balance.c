#include "fold/balance.h"
#include <errno.h>
#include <stdlib.h>
#include "codec/msgpack.h"

#define PRICE 32 /* bits of a nano-dollar that a running price has */

struct unit { /* what one entry kept out */
  uint32_t effect; /* its number in the log; its further calls follow it */
  uint64_t tokens, requests, carried; /* now; requests when it was last settled; up to then */
  ctxp_u128 price, cost; /* running price then; what the carried ones would have cost, up to then */
};
struct sweep {
  struct ctxp_fold_balance *balance;
  const struct ctxp_fold_window *w;
  const struct ctxp_fold_pick *pick;
  CTXP_FOLD_ARRAY(struct unit, units);
  struct ctxp_fold_index answers; /* message by the call that it answers, the newest */
  struct ctxp_buf path;
  uint64_t requests, total_nano, kept; /* that passed; what was carried in money, as the ledger rounds it; kept out now */
  ctxp_u128 price; /* sum over the requests of cost / input */
  uint32_t next, before; /* next effect; the last reported request, + 1 */
  bool failed;
};

/* ---- rows ---- */
static struct ctxp_fold_balance_row *row_of(struct sweep *s, struct ctxp_fold_balance_rows *rows, const struct ctxp_fold_row *key) {
  for (uint32_t i = 0; i < rows->count; i++)
    if (rows->at[i].kind == key->kind && rows->at[i].band == key->band && ctxp_str_eq(rows->at[i].key, key->key)) return &rows->at[i];
  if (!ctxp_fold_grow(rows, sizeof(*rows->at))) {
    s->failed = true;
    return NULL;
  }
  struct ctxp_fold_balance_row *row = &rows->at[rows->count++];
  *row = (struct ctxp_fold_balance_row){.kind = key->kind, .band = key->band};
  row->key = ctxp_fold_arena_str(&s->balance->arena, key->key, &s->failed);
  row->label = ctxp_fold_arena_str(&s->balance->arena, key->label, &s->failed);
  return row;
}

static void add(struct ctxp_fold_balance_sum *sum, const struct ctxp_fold_balance_sum *more) {
  sum->carried += more->carried;
  sum->aux += more->aux;
  sum->rewritten += more->rewritten;
  sum->regret += more->regret;
  sum->carried_nano += more->carried_nano;
  sum->aux_nano += more->aux_nano;
  sum->rewritten_nano += more->rewritten_nano;
  sum->regret_nano += more->regret_nano;
  sum->unpriced += more->unpriced;
}

static bool index_answers(struct sweep *s) {
  uint32_t size = 64;
  while (size < s->w->messages.count * UINT64_C(2) && size < UINT32_C(1) << 31) size *= 2;
  s->answers = (struct ctxp_fold_index){.slots = calloc(size, sizeof(*s->answers.slots)), .mask = size - 1};
  for (uint32_t i = 0; s->answers.slots && i < s->w->messages.count; i++) {
    struct ctxp_hash128 call = s->w->messages.at[i].answers;
    uint32_t at = (uint32_t)call.lo & s->answers.mask;
    if (ctxp_fold_hash_none(call)) continue;
    for (uint32_t n; (n = s->answers.slots[at]) != 0; at = (at + 1) & s->answers.mask)
      if (s->w->messages.at[n - 1].answers.lo == call.lo && s->w->messages.at[n - 1].answers.hi == call.hi) break;
    s->answers.slots[at] = i + 1;
  }
  return s->answers.slots != NULL;
}

/* the result of a call; NULL: it is not known */
static const struct ctxp_fold_message *result_of(const struct sweep *s, struct ctxp_hash128 call) {
  if (ctxp_fold_hash_none(call)) return NULL;
  uint32_t at = (uint32_t)call.lo & s->answers.mask;
  for (uint32_t n; (n = s->answers.slots[at]) != 0; at = (at + 1) & s->answers.mask) {
    const struct ctxp_fold_message *m = &s->w->messages.at[n - 1];
    if (m->answers.lo == call.lo && m->answers.hi == call.hi) return m;
  }
  return NULL;
}

static void credit(struct sweep *s, struct ctxp_hash128 call, const struct ctxp_fold_balance_sum *sum) {
  const struct ctxp_fold_message *m = result_of(s, call);
  const struct ctxp_fold_call *known = ctxp_fold_window_call(s->w, call);
  struct ctxp_str tool = m ? ctxp_fold_tool_of(s->w, m) : known ? known->name : (struct ctxp_str){"", 0};
  struct ctxp_fold_row none = {.key = CTXP_STR("none"), .label = CTXP_STR("none"), .kind = CTXP_FOLD_NO_KIND, .band = CTXP_BAND_COUNT};
  struct ctxp_fold_row view = none, by_tool = none, *of = &view;
  if (tool.len) by_tool.key = by_tool.label = tool;
  if (!m || !ctxp_fold_view_of(s->w, m, m->band, &view, &s->path) || view.hidden) of = &none;
  struct ctxp_fold_balance_row *row = row_of(s, &s->balance->tools, &by_tool);
  if (row) add(&row->sum, sum);
  row = row_of(s, &s->balance->views, of);
  if (row) add(&row->sum, sum);
}

/* ---- what goes together ---- */
static uint64_t weight(const struct sweep *s, uint32_t effect) {
  const struct ctxp_fold_message *m = result_of(s, s->w->effects.at[effect].call);
  return m ? m->tokens : 0;
}

static uint32_t end_of(const struct sweep *s, uint32_t effect) {
  uint32_t end = effect + 1;
  while (end < s->w->effects.count && s->w->effects.at[end].kind == CTXP_FOLD_KEPT_WITH) end++;
  return end;
}

/* a figure's part for a call: what is before `upto` of `all`, less what was given out */
static uint64_t part(uint64_t figure, uint64_t upto, uint64_t all, uint64_t *given) {
  uint64_t to = all ? (uint64_t)((ctxp_u128)figure * upto / all) : figure, give = to - *given;
  *given = to;
  return give;
}

/* shares it among the calls of an entry by the estimates of their results */
static void credit_entry(struct sweep *s, uint32_t effect, const struct ctxp_fold_balance_sum *sum) {
  uint64_t all = 0, upto = 0, given[4] = {0};
  uint32_t end = end_of(s, effect);
  for (uint32_t i = effect; i < end; i++) all += weight(s, i);
  for (uint32_t i = effect; i < end; i++) {
    upto += weight(s, i);
    struct ctxp_fold_balance_sum one = {.carried = part(sum->carried, upto, all, &given[0]),
        .carried_nano = part(sum->carried_nano, upto, all, &given[1]),
        .rewritten = part(sum->rewritten, upto, all, &given[2]),
        .rewritten_nano = part(sum->rewritten_nano, upto, all, &given[3])};
    credit(s, s->w->effects.at[i].call, &one);
  }
}

/* ---- effects ---- */
static void settle(const struct sweep *s, struct unit *u) {
  u->carried += u->tokens * (s->requests - u->requests);
  u->cost += u->tokens * (s->price - u->price);
  u->requests = s->requests;
  u->price = s->price;
}

static void keep_less(struct sweep *s, const struct ctxp_fold_effect *e) {
  uint64_t left = e->tokens;
  for (uint32_t i = s->units.count; left && i-- > 0;) {
    struct unit *u = &s->units.at[i];
    const struct ctxp_fold_effect *of = &s->w->effects.at[u->effect];
    if (!u->tokens || of->mechanism != e->mechanism || of->call.lo != e->call.lo || of->call.hi != e->call.hi) continue;
    uint64_t take = left < u->tokens ? left : u->tokens;
    settle(s, u);
    u->tokens -= take;
    s->kept -= take;
    left -= take;
  }
}

/* the request by whose price an effect counts: the first that is billed from there on, else the last before */
static const struct ctxp_fold_request *request_at(const struct sweep *s, uint32_t from) {
  const struct ctxp_fold_window *w = s->w;
  for (uint32_t i = from; i < w->requests.count; i++)
    if (w->requests.at[i].flags & CTXP_FOLD_COUNTED) return &w->requests.at[i];
  for (uint32_t i = from < w->requests.count ? from : w->requests.count; i-- > 0;)
    if (w->requests.at[i].flags & CTXP_FOLD_COUNTED) return &w->requests.at[i];
  return NULL;
}

static void spend_effect(struct sweep *s, const struct ctxp_fold_effect *e) {
  const struct ctxp_fold_request *q = request_at(s, e->request);
  struct ctxp_fold_balance_sum sum = {0};
  if (!q || !ctxp_fold_pick_counts(s->pick, s->w, q)) return;
  uint64_t input = ctxp_fold_request_input(q);
  if (e->kind == CTXP_FOLD_ASKED) {
    sum.aux = e->tokens;
    sum.aux_nano = e->cost_nano;
    sum.unpriced = e->priced ? 0 : e->tokens;
  } else {
    bool priced = q->flags & CTXP_FOLD_PRICED && input;
    sum.regret = e->tokens;
    sum.regret_nano = priced ? (uint64_t)(((ctxp_u128)ctxp_fold_request_cost_nano(q) * e->tokens + input / 2) / input) : 0;
    sum.unpriced = priced ? 0 : e->tokens;
  }
  credit(s, e->call, &sum);
}

static int apply(struct sweep *s, uint32_t upto) {
  for (; s->next < s->w->effects.count && s->w->effects.at[s->next].request <= upto; s->next++) {
    const struct ctxp_fold_effect *e = &s->w->effects.at[s->next];
    if (e->kind == CTXP_FOLD_KEPT_LESS) keep_less(s, e);
    if (e->kind == CTXP_FOLD_REGRETTED || e->kind == CTXP_FOLD_ASKED) spend_effect(s, e);
    if (e->kind != CTXP_FOLD_KEPT_OUT) continue;
    if (!ctxp_fold_grow(&s->units, sizeof(*s->units.at))) return -ENOMEM;
    s->units.at[s->units.count++] = (struct unit){.effect = s->next, .tokens = e->tokens, .requests = s->requests, .price = s->price};
    s->kept += e->tokens;
  }
  return 0;
}

/* ---- requests ---- */
/* the cache that a removal since the request before made be written anew: shared by what the removals took out */
static void rewrite(struct sweep *s, uint32_t request) {
  struct ctxp_fold_bust_sum busts[CTXP_FOLD_BUSTS] = {{0, 0, 0}};
  const struct ctxp_fold_bust_sum *lost = &busts[CTXP_FOLD_BUST_REMOVAL];
  uint64_t all = 0, upto = 0, given[2] = {0};
  ctxp_fold_find_bust(busts, &s->w->requests.at[s->before - 1], &s->w->requests.at[request]);
  if (!lost->count) return;
  for (unsigned round = 0; round < 2; round++)
    for (uint32_t i = s->units.count; i-- > 0;) {
      const struct ctxp_fold_effect *e = &s->w->effects.at[s->units.at[i].effect];
      if (e->mechanism != CTXP_FOLD_AMNESIA || e->request < s->before) continue;
      (round ? (upto += e->tokens) : (all += e->tokens));
      if (!round) continue;
      struct ctxp_fold_balance_sum sum = {.rewritten = part(lost->tokens, upto, all, &given[0])};
      sum.rewritten_nano = part(lost->cost_nano, upto, all, &given[1]);
      credit_entry(s, s->units.at[i].effect, &sum);
    }
  struct ctxp_fold_balance_sum of_none = {.rewritten = lost->tokens, .rewritten_nano = lost->cost_nano};
  if (!all) credit(s, (struct ctxp_hash128){0, 0}, &of_none);
}

static void pass_request(struct sweep *s, uint32_t request) {
  const struct ctxp_fold_request *q = &s->w->requests.at[request];
  uint64_t input = ctxp_fold_request_input(q), cost = ctxp_fold_request_cost_nano(q);
  bool passes = ctxp_fold_pick_counts(s->pick, s->w, q);
  if (!(q->flags & CTXP_FOLD_COUNTED)) return;
  if (passes && s->before && q->flags & CTXP_FOLD_REPORTED) rewrite(s, request);
  if (q->flags & CTXP_FOLD_REPORTED) s->before = request + 1;
  if (!passes) return;
  s->requests++;
  if (!(q->flags & CTXP_FOLD_PRICED) || input == 0) return;
  s->price += ((ctxp_u128)cost << PRICE) / input;
  s->total_nano += (uint64_t)(((ctxp_u128)cost * s->kept + input / 2) / input);
}

/* ---- the units' sums, in whole nano-dollars that add up to the ledger's ---- */
static int credit_units(struct sweep *s) {
  uint32_t n = s->units.count;
  ctxp_u128 *parts = malloc((n + 1) * sizeof(*parts)), sum = 0;
  uint64_t *out = calloc(n + 1, sizeof(*out));
  int r = parts && out ? 0 : -ENOMEM;
  for (uint32_t i = 0; r == 0 && i < n; i++) {
    settle(s, &s->units.at[i]);
    sum += parts[i] = s->units.at[i].cost >> (PRICE - 8);
  }
  for (uint32_t i = 0; r == 0 && i < n; i++) parts[i] *= s->total_nano;
  if (r == 0 && sum) r = ctxp_fold_apportion(parts, n, sum, s->total_nano, out);
  for (uint32_t i = 0; r == 0 && i < n; i++)
    credit_entry(s, s->units.at[i].effect, &(struct ctxp_fold_balance_sum){.carried = s->units.at[i].carried, .carried_nano = out[i]});
  free(parts);
  free(out);
  return r;
}

static bool lost_by_removal(const struct ctxp_fold_window *w) {
  for (uint32_t i = 0; i < w->requests.count; i++)
    if (w->requests.at[i].flags & CTXP_FOLD_REMOVED) return true;
  return false;
}

int ctxp_fold_balance_add(struct ctxp_fold_balance *b, const struct ctxp_fold_window *w, const struct ctxp_fold_pick *pick) {
  struct sweep s = {.balance = b, .w = w, .pick = pick};
  if (w->effects.count == 0 && !lost_by_removal(w)) return 0;
  int r = index_answers(&s) ? 0 : -ENOMEM;
  for (uint32_t i = 0; r == 0 && i < w->requests.count; i++) {
    r = apply(&s, i);
    if (r == 0) pass_request(&s, i);
  }
  if (r == 0) r = apply(&s, UINT32_MAX);
  if (r == 0) r = credit_units(&s);
  if (s.failed || s.path.failed) r = -ENOMEM;
  free(s.units.at);
  free(s.answers.slots);
  ctxp_buf_deinit(&s.path);
  return r;
}

/* ---- the answer ---- */
static void take_billed(struct ctxp_fold_balance_rows *rows, const struct ctxp_fold_table *table) {
  for (uint32_t i = 0; i < rows->count; i++)
    for (uint32_t k = 0; k < table->count; k++) {
      const struct ctxp_fold_row *row = &table->at[k];
      if (row->hidden || row->kind != rows->at[i].kind || row->band != rows->at[i].band || !ctxp_str_eq(row->key, rows->at[i].key)) continue;
      rows->at[i].billed += row->billed;
      rows->at[i].cost_nano += row->cost_nano;
      rows->at[i].label = row->label;
    }
}

void ctxp_fold_balance_bill(struct ctxp_fold_balance *b, const struct ctxp_fold_rows *rows) {
  take_billed(&b->views, &rows->grains[CTXP_FOLD_BY_VIEW]);
  take_billed(&b->tools, &rows->grains[CTXP_FOLD_BY_TOOL]);
}

static int64_t gain(const struct ctxp_fold_balance_sum *s) { return (int64_t)(s->carried - s->aux - s->rewritten - s->regret); }
static int64_t gain_nano(const struct ctxp_fold_balance_sum *s) {
  return (int64_t)(s->carried_nano - s->aux_nano - s->rewritten_nano - s->regret_nano);
}

static int compare(const void *a, const void *b) {
  const struct ctxp_fold_balance_row *x = a, *y = b;
  int64_t left = gain_nano(&x->sum), right = gain_nano(&y->sum);
  if (left != right) return left > right ? -1 : 1;
  left = gain(&x->sum), right = gain(&y->sum);
  if (left != right) return left > right ? -1 : 1;
  int r = ctxp_str_cmp(x->key, y->key);
  return r ? r : x->kind != y->kind ? x->kind - y->kind : x->band - y->band;
}

static void pair(struct ctxp_buf *out, const char *key, int64_t value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_i64(out, value);
}

static void pack_row(struct ctxp_buf *out, const struct ctxp_fold_balance_row *row, bool view) {
  const struct ctxp_fold_balance_sum *s = &row->sum;
  ctxp_pack_map(out, 16 + (view ? 1 : 0));
  ctxp_pack_cstr(out, view ? "label" : "tool");
  ctxp_pack_str(out, row->label);
  if (view) {
    ctxp_pack_cstr(out, "band");
    ctxp_pack_cstr(out, row->band < CTXP_BAND_COUNT ? ctxp_band_name((enum ctxp_band)row->band) : "");
  }
  const struct {
    const char *key;
    int64_t value;
  } figures[] = {{"billed", (int64_t)row->billed}, {"carried", (int64_t)s->carried}, {"aux", (int64_t)s->aux},
      {"rewritten", (int64_t)s->rewritten}, {"regret", (int64_t)s->regret}, {"gain", gain(s)}, {"net", (int64_t)row->billed + gain(s)},
      {"costNano", (int64_t)row->cost_nano}, {"carriedCostNano", (int64_t)s->carried_nano}, {"auxCostNano", (int64_t)s->aux_nano},
      {"rewrittenCostNano", (int64_t)s->rewritten_nano}, {"regretCostNano", (int64_t)s->regret_nano}, {"gainCostNano", gain_nano(s)},
      {"netCostNano", (int64_t)row->cost_nano + gain_nano(s)}, {"unpricedTokens", (int64_t)s->unpriced}};
  for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) pair(out, figures[i].key, figures[i].value);
}

static void pack_rows(struct ctxp_buf *out, struct ctxp_fold_balance_rows *rows, bool views) {
  if (rows->count > 1) qsort(rows->at, rows->count, sizeof(*rows->at), compare);
  ctxp_pack_cstr(out, views ? "views" : "tools");
  ctxp_pack_array(out, rows->count);
  for (uint32_t i = 0; i < rows->count; i++) pack_row(out, &rows->at[i], views);
}

void ctxp_fold_balance_pack(struct ctxp_buf *out, struct ctxp_fold_balance *b) {
  ctxp_pack_map(out, 2);
  pack_rows(out, &b->views, true);
  pack_rows(out, &b->tools, false);
}

void ctxp_fold_balance_deinit(struct ctxp_fold_balance *b) {
  free(b->views.at);
  free(b->tools.at);
  ctxp_fold_arena_deinit(&b->arena);
}
