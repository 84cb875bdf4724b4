#include <errno.h>
#include <stdlib.h>
#include "codec/msgpack.h"
#include "config/prices.h"
#include "fold/balance.h"
#include "fold/explain.h"
#include "fold/groups.h"
#include "fold/report.h"
#include "fold/sizes.h"

/* ---- the spend event ---- */
static void event_row(const struct ctxp_fold_row *r, unsigned grain, struct ctxp_row *ret) {
  *ret = (struct ctxp_row){.label = r->label,
      .own = r->own,
      .billed = r->billed,
      .costNano = (int64_t)r->cost_nano,
      .costTieredNano = (int64_t)r->tiered_nano,
      .messages = r->messages,
      .turns = r->turns,
      .first = r->first,
      .last = r->last};
  int band = grain == CTXP_FOLD_BY_MESSAGE ? r->message_band : r->band;
  if (r->kind == CTXP_FOLD_UNATTRIBUTED)
    ctxp_set(ret, row, kind, CTXP_STR("unattributed"));
  else if (r->kind != CTXP_FOLD_NO_KIND)
    ctxp_set(ret, row, kind, ctxp_str(ctxp_names_label_kind.wire[r->kind]));
  if (band >= 0 && band < CTXP_BAND_COUNT) ctxp_set(ret, row, band, (enum ctxp_band)band);
  if (r->tool.len) ctxp_set(ret, row, tool, r->tool);
}

static int event_rows(const struct ctxp_fold_rows *rows, unsigned grain, struct ctxp_list *list, struct ctxp_buf *buf) {
  struct ctxp_row row;
  for (uint32_t i = 0; i < rows->grains[grain].count; i++) {
    event_row(&rows->grains[grain].at[i], grain, &row);
    int r = ctxp_list_add(list, buf, &ctxp_shape_row, &row);
    if (r < 0) return r;
  }
  return 0;
}

int ctxp_fold_spend_event(struct ctxp_fold_window *w, uint64_t top, struct ctxp_spend *ret, struct ctxp_buf lists[CTXP_FOLD_GRAINS]) {
  struct ctxp_fold_rows rows = {.wanted = top ? 15 : 1, .keep_spans = top > 0};
  int r = top ? ctxp_fold_rows_add(&rows, w) : ctxp_fold_rows_bands(&rows, w);
  if (r == 0) r = ctxp_fold_rows_finish(&rows, top);
  if (r == 0) {
    const struct ctxp_fold_figures *f = &rows.figures;
    uint64_t resident = ctxp_fold_spend_resident(w), evicted = ctxp_fold_spend_evicted(w);
    *ret = (struct ctxp_spend){.requests = f->requests,
        .windowTokens = resident > evicted ? resident - evicted : 0,
        .billed = ctxp_fold_billed(f),
        .costNano = (int64_t)f->cost_input_nano,
        .unpricedInput = f->unpriced_input,
        .unattributed = (uint64_t)(ctxp_fold_spend_bands(w->spend)[CTXP_BAND_COUNT].sum.billed / CTXP_FOLD_TOKEN)};
    r = event_rows(&rows, CTXP_FOLD_BY_BAND, &ret->bands, &lists[CTXP_FOLD_BY_BAND]);
  }
  struct ctxp_list *const at[] = {NULL, &ret->views, &ret->tools, &ret->messages};
  const unsigned bits[] = {0, CTXP_IX_spend_views, CTXP_IX_spend_tools, CTXP_IX_spend_messages};
  for (unsigned g = 1; r == 0 && top && g < CTXP_FOLD_GRAINS; g++) {
    r = event_rows(&rows, g, at[g], &lists[g]);
    ret->has |= UINT64_C(1) << bits[g];
  }
  ctxp_fold_rows_deinit(&rows); /* the lists have copies */
  return r;
}

/* ---- the report ---- */
struct told { /* where the text of a window stands */
  uint64_t first_ms;
  size_t from, len;
  uint32_t window; /* in rows.windows */
};
struct report {
  struct ctxp_fold_rows rows;
  struct ctxp_buf sessions; /* elements of the array, as the windows came */
  CTXP_FOLD_ARRAY(struct told, told);
  uint32_t by_message;
  uint64_t session_count;
  struct ctxp_fold_potential potential;
  struct ctxp_fold_pick pick;
  struct ctxp_fold_lens lens; /* if the pick narrows */
  struct ctxp_fold_groups groups;
  struct ctxp_fold_balance balance;
};

static void pair_u64(struct ctxp_buf *out, const char *key, uint64_t value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_u64(out, value);
}

static void pair_str(struct ctxp_buf *out, const char *key, struct ctxp_str value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_str(out, value);
}

static const char *const shown_figures[] = {"requests", "requestsUnreported", "input", "cacheRead", "cacheWrite5m", "cacheWrite1h",
    "output", "reasoning", "billed", "costNano", "costInputNano", "unpricedTokens", "unexplainedTokens"};
#define FIGURES (sizeof(shown_figures) / sizeof(shown_figures[0]))

/* unexplained: also what no request alone can tell */
static void pack_figures_of(struct ctxp_buf *out, const struct ctxp_fold_figures *f, bool unexplained) {
  const uint64_t values[FIGURES] = {f->requests, f->unreported, f->tokens[CTXP_FOLD_UNCACHED], f->tokens[CTXP_FOLD_READ],
      f->tokens[CTXP_FOLD_WRITE_5M], f->tokens[CTXP_FOLD_WRITE_1H], f->output, f->reasoning, ctxp_fold_billed(f), f->cost_nano,
      f->cost_input_nano, f->unpriced_input + f->unpriced_output, f->unexplained};
  for (size_t i = 0; i < FIGURES - !unexplained; i++) pair_u64(out, shown_figures[i], values[i]);
}

static void pack_figures(struct ctxp_buf *out, const struct ctxp_fold_figures *f) { pack_figures_of(out, f, true); }

static void pack_time(struct ctxp_buf *out, const char *key, uint64_t utc_ms) {
  ctxp_pack_cstr(out, key);
  if (utc_ms)
    ctxp_pack_time(out, utc_ms);
  else
    ctxp_pack_nil(out);
}

/* what the sizes are worth */
static void pack_calibration(struct ctxp_buf *out, const struct ctxp_fold_window *w) {
  const struct ctxp_fold_figures *f = ctxp_fold_spend_figures(w->spend);
  const struct ctxp_fold_sizes *z = ctxp_fold_spend_sizes(w->spend);
  uint32_t models = 0;
  ctxp_pack_map(out, 10);
  pair_str(out, "sizes", z->by_estimate ? CTXP_STR("estimate") : CTXP_STR("ledger"));
  pair_str(out, "estimator", z->by_estimate ? CTXP_STR("definitions") : CTXP_STR("pieces"));
  pair_u64(out, "estimated", f->estimated);
  pair_u64(out, "reported", ctxp_fold_billed(f));
  pair_u64(out, "notRecorded", z->first_u);
  pair_u64(out, "cameIn", z->came_in);
  pair_u64(out, "misfits", z->misfits);
  pair_u64(out, "predictionError", z->wrong);
  pair_u64(out, "growth", z->growth);
  ctxp_pack_cstr(out, "models");
  size_t mark = ctxp_pack_array_open(out);
  for (uint32_t i = 0; i < z->models.count; i++) {
    const struct ctxp_fold_calibration *c = &z->models.at[i];
    if (!c->tokenizer) continue;
    ctxp_pack_map(out, 5);
    pair_str(out, "model", i ? w->models.at[i - 1] : (struct ctxp_str){"", 0});
    pair_u64(out, "tokensPer1024Pieces", ctxp_fold_factor(c));
    pair_u64(out, "steps", c->steps);
    pair_u64(out, "deviationPermille", c->grown ? 1000 * c->off / c->grown : 0);
    ctxp_pack_cstr(out, "dropsThinking");
    c->vote ? ctxp_pack_bool(out, c->vote > 0) : ctxp_pack_nil(out);
    models++;
  }
  ctxp_pack_close(out, mark, models);
}

static void pack_window(struct ctxp_buf *out, const struct ctxp_fold_window *w) {
  const struct ctxp_fold_figures *f = ctxp_fold_spend_figures(w->spend);
  ctxp_pack_map(out, 8 + FIGURES + 3);
  pair_str(out, "agent", w->session->agent);
  pair_str(out, "session", w->session->session);
  pair_str(out, "thread", w->thread);
  pair_str(out, "parentThread", w->parent_thread);
  pair_str(out, "spawnedBy", w->spawned_by);
  pair_str(out, "project", w->cwd.len ? w->cwd : w->session->cwd);
  pair_str(out, "product", w->product.len ? w->product : w->session->product);
  ctxp_pack_cstr(out, "models");
  ctxp_pack_array(out, w->models.count);
  for (uint32_t i = 0; i < w->models.count; i++) ctxp_pack_str(out, w->models.at[i]);
  pack_figures(out, f);
  pack_time(out, "first", f->first_ms);
  pack_time(out, "last", f->last_ms);
  ctxp_pack_cstr(out, "calibration");
  pack_calibration(out, w);
}

/* `key` names the row's own label: band, tool; views and messages have `label` */
static void pack_row(struct ctxp_buf *out, const struct ctxp_fold_rows *rows, unsigned grain, const struct ctxp_fold_row *r) {
  const struct ctxp_fold_where nowhere = {{"", 0}, {"", 0}, {"", 0}}, *at = r->window ? &rows->windows.at[r->window - 1] : &nowhere;
  int band = grain == CTXP_FOLD_BY_MESSAGE ? r->message_band : r->band;
  struct ctxp_str band_name =
      band >= 0 && band < CTXP_BAND_COUNT ? ctxp_str(ctxp_band_name((enum ctxp_band)band)) : (struct ctxp_str){"", 0};
  static const unsigned heads[] = {1, 3, 3, 7};
  ctxp_pack_map(out, heads[grain] + 10);
  if (grain == CTXP_FOLD_BY_VIEW)
    pair_str(out, "kind",
        r->kind == CTXP_FOLD_UNATTRIBUTED ? CTXP_STR("unattributed") :
            r->kind >= 0                  ? ctxp_str(ctxp_names_label_kind.wire[r->kind]) :
                                            CTXP_STR(""));
  pair_str(out, grain == CTXP_FOLD_BY_BAND ? "band" : grain == CTXP_FOLD_BY_TOOL ? "tool" :
                                                                                   "label",
      r->label);
  if (grain == CTXP_FOLD_BY_VIEW || grain == CTXP_FOLD_BY_MESSAGE) pair_str(out, "band", band_name);
  if (grain == CTXP_FOLD_BY_MESSAGE) {
    pair_str(out, "tool", r->tool);
    pair_str(out, "path", r->path);
    pair_str(out, "agent", at->agent);
    pair_str(out, "session", at->session);
    pair_str(out, "thread", at->thread);
  }
  if (grain == CTXP_FOLD_BY_TOOL) {
    pair_u64(out, "asViews", r->views_billed);
    pair_u64(out, "arguments", r->arguments_billed);
  }
  pair_u64(out, "own", r->own);
  pair_u64(out, "billed", r->billed);
  bool none = !r->priced && r->billed;
  ctxp_pack_cstr(out, "costNano");
  none ? ctxp_pack_nil(out) : ctxp_pack_u64(out, r->cost_nano);
  ctxp_pack_cstr(out, "costTieredNano");
  none ? ctxp_pack_nil(out) : ctxp_pack_u64(out, r->tiered_nano);
  ctxp_pack_cstr(out, "partlyPriced");
  ctxp_pack_bool(out, r->priced && r->unpriced);
  pair_u64(out, "messages", r->messages);
  pair_u64(out, "turns", r->turns);
  pair_u64(out, "first", r->first);
  pair_u64(out, "last", r->last);
  ctxp_pack_cstr(out, "error");
  rows->ledger ? ctxp_pack_u64(out, ctxp_fold_row_error(r->error, r->bars)) : ctxp_pack_nil(out);
}

static void pack_parts(struct ctxp_buf *out, const struct ctxp_fold_rows *rows) {
  size_t mark = ctxp_pack_array_open(out);
  uint32_t n = 0;
  for (unsigned p = 0; p < CTXP_FOLD_PARTS; p++) {
    const struct ctxp_fold_part_row *r = &rows->parts[p];
    if (r->turns == 0) continue;
    ctxp_pack_map(out, 8);
    pair_str(out, "part", ctxp_str(ctxp_fold_part_names[p]));
    pair_str(out, "band", ctxp_str(ctxp_band_name(p == CTXP_FOLD_THINKING ? CTXP_BAND_assistant : CTXP_BAND_system)));
    pair_u64(out, "own", r->own);
    pair_u64(out, "billed", r->billed);
    ctxp_pack_cstr(out, "costNano");
    r->priced ? ctxp_pack_u64(out, r->cost_nano) : ctxp_pack_nil(out);
    ctxp_pack_cstr(out, "costTieredNano");
    r->priced ? ctxp_pack_u64(out, r->tiered_nano) : ctxp_pack_nil(out);
    pair_u64(out, "turns", r->turns);
    pair_u64(out, "error", ctxp_fold_row_error(r->error, r->bars));
    n++;
  }
  ctxp_pack_close(out, mark, n);
}

static void pack_busts(struct ctxp_buf *out, const struct ctxp_fold_bust_sum *busts) {
  size_t mark = ctxp_pack_array_open(out);
  uint32_t n = 0;
  for (unsigned b = 0; b < CTXP_FOLD_BUSTS; b++) {
    if (!busts[b].count) continue;
    ctxp_pack_map(out, 4);
    pair_str(out, "cause", ctxp_str(ctxp_fold_bust_names[b]));
    pair_u64(out, "count", busts[b].count);
    pair_u64(out, "tokens", busts[b].tokens);
    pair_u64(out, "costNano", busts[b].cost_nano);
    n++;
  }
  ctxp_pack_close(out, mark, n);
}

static void pack_part_of(struct ctxp_buf *out, const struct ctxp_fold_figures *f) {
  ctxp_pack_map(out, 4);
  pair_u64(out, "requests", f->requests);
  pair_u64(out, "billed", ctxp_fold_billed(f));
  pair_u64(out, "costNano", f->cost_nano);
  pair_u64(out, "unpricedTokens", f->unpriced_input + f->unpriced_output);
}

static void pack_groups(struct ctxp_buf *out, struct ctxp_fold_groups *g) {
  ctxp_fold_groups_rank(g);
  ctxp_pack_cstr(out, ctxp_fold_group_lists[g->by]);
  ctxp_pack_array(out, g->groups.count);
  for (uint32_t i = 0; i < g->groups.count; i++) {
    const struct ctxp_fold_group *group = &g->groups.at[i];
    ctxp_pack_map(out, 1 + 1 + FIGURES - 1 + 3);
    pair_str(out, ctxp_fold_group_names[g->by], group->key);
    pair_u64(out, "sessions", group->sessions);
    pack_figures_of(out, &group->figures, false);
    pack_time(out, "first", group->figures.first_ms);
    pack_time(out, "last", group->figures.last_ms);
    ctxp_pack_cstr(out, "ofSubagents");
    pack_part_of(out, &group->of_threads);
  }
}

static int compare_told(const void *a, const void *b, void *data) {
  const struct ctxp_fold_rows *rows = data;
  const struct told *x = a, *y = b;
  const struct ctxp_fold_where *at = &rows->windows.at[x->window], *and = &rows->windows.at[y->window];
  if (x->first_ms != y->first_ms) return x->first_ms < y->first_ms ? -1 : 1;
  int r = ctxp_str_cmp(at->agent, and->agent);
  if (r == 0) r = ctxp_str_cmp(at->session, and->session);
  return r == 0 ? ctxp_str_cmp(at->thread, and->thread) : r;
}

/* in the order of their first requests, whenever they came */
static void pack_sessions(struct ctxp_buf *out, struct report *rep) {
  ctxp_pack_cstr(out, "sessions");
  ctxp_pack_array(out, rep->told.count);
  if (rep->told.count > 1) qsort_r(rep->told.at, rep->told.count, sizeof(*rep->told.at), compare_told, &rep->rows);
  for (uint32_t i = 0; i < rep->told.count; i++) ctxp_buf_add(out, rep->sessions.ptr + rep->told.at[i].from, rep->told.at[i].len);
}

/* what the question was narrowed to: nothing, or a pair */
static unsigned pack_filter_size(const struct ctxp_fold_pick *p) {
  return p->sessions.agent.len || p->sessions.session.len || p->model.len || p->since_ms ? 1 : 0;
}

static void pack_filter(struct ctxp_buf *out, const struct ctxp_fold_pick *p) {
  const struct ctxp_str texts[] = {p->sessions.agent, p->sessions.session, p->model};
  static const char *const names[] = {"agent", "session", "model"};
  uint32_t count = 0;
  if (!pack_filter_size(p)) return;
  ctxp_pack_cstr(out, "filter");
  size_t mark = ctxp_pack_map_open(out);
  for (size_t i = 0; i < 3; i++) {
    if (!texts[i].len) continue;
    pair_str(out, names[i], texts[i]);
    count++;
  }
  if (p->since_ms) {
    pack_time(out, "since", p->since_ms);
    pair_u64(out, "sinceMs", p->since_ms);
    count += 2;
  }
  ctxp_pack_close(out, mark, count);
}

static void pack_report(struct ctxp_buf *out, struct report *rep, const char *prices) {
  static const char *const names[] = {"bands", "views", "tools", "messages"};
  ctxp_pack_map(out, 11 + (rep->by_message ? 1 : 0) + (rep->groups.by ? 1 : 0) + pack_filter_size(&rep->pick));
  pair_u64(out, "schema", 1);
  pack_filter(out, &rep->pick);
  ctxp_pack_cstr(out, "prices");
  ctxp_pack_map(out, 1);
  pair_str(out, "version", ctxp_str(prices));
  ctxp_pack_cstr(out, "totals");
  ctxp_pack_map(out, 1 + FIGURES);
  pair_u64(out, "sessions", rep->session_count);
  pack_figures(out, &rep->rows.figures);
  pack_sessions(out, rep);
  for (unsigned g = 0; g < CTXP_FOLD_GRAINS; g++) {
    const struct ctxp_fold_table *t = &rep->rows.grains[g];
    if (g == CTXP_FOLD_BY_MESSAGE && !rep->by_message) continue;
    ctxp_pack_cstr(out, names[g]);
    ctxp_pack_array(out, t->count);
    for (uint32_t i = 0; i < t->count; i++) pack_row(out, &rep->rows, g, &t->at[i]);
  }
  if (rep->groups.by) pack_groups(out, &rep->groups);
  ctxp_pack_cstr(out, "parts");
  pack_parts(out, &rep->rows);
  ctxp_pack_cstr(out, "cacheBusts");
  pack_busts(out, rep->rows.busts);
  ctxp_pack_cstr(out, "balance");
  ctxp_fold_balance_pack(out, &rep->balance);
  ctxp_pack_cstr(out, "potential");
  if (ctxp_fold_pick_narrows(&rep->pick))
    ctxp_pack_nil(out); /* it is known of whole sessions */
  else
    ctxp_fold_pack_potential(out, &rep->potential);
}

/* ---- over all sessions ---- */
struct visit {
  struct report *report;
  struct ctxp_fold_potential seen;
  bool any;
};

static int told(struct report *rep, const struct ctxp_fold_window *w) {
  if (!ctxp_fold_grow(&rep->told, sizeof(*rep->told.at))) return -ENOMEM;
  struct told *told = &rep->told.at[rep->told.count++];
  *told = (struct told){
      .first_ms = ctxp_fold_spend_figures(w->spend)->first_ms, .from = rep->sessions.len, .window = rep->rows.windows.count - 1};
  pack_window(&rep->sessions, w);
  told->len = rep->sessions.len - told->from;
  return ctxp_buf_error(&rep->sessions);
}

static int visit_spend(void *data, struct ctxp_fold_window *w) {
  struct visit *v = data;
  struct report *rep = v->report;
  bool any = true, narrow = ctxp_fold_pick_narrows(&rep->pick);
  struct ctxp_fold_spend *running = w->spend;
  ctxp_fold_look(w, &v->seen);
  int r = w->counted && narrow ? ctxp_fold_pick_look(&rep->pick, w, &any) : 0;
  if (r < 0 || w->counted == 0 || !any) return r;
  if (narrow) w->spend = NULL; /* what runs along with the session stays */
  if (narrow) r = ctxp_fold_spend_through(w, &rep->lens);
  if (r == 0) r = ctxp_fold_rows_add(&rep->rows, w);
  if (r == 0) v->any = true;
  if (r == 0) r = told(rep, w);
  if (r == 0 && rep->groups.by) r = ctxp_fold_groups_add(&rep->groups, w, &rep->pick);
  if (r == 0) r = ctxp_fold_balance_add(&rep->balance, w, &rep->pick);
  if (narrow) {
    ctxp_fold_spend_free(w->spend);
    w->spend = running;
  }
  return r;
}

static int visit_session(void *data, struct ctxp_stage *stage, struct ctxp_fold_session *s) {
  struct report *rep = data;
  struct visit v = {.report = rep};
  int r = ctxp_fold_each_window(stage, s, visit_spend, &v);
  ctxp_fold_add_potential(&rep->potential, s, &v.seen);
  rep->session_count += v.any;
  return r;
}

static int known_grain(struct report *rep, struct ctxp_str by, struct ctxp_error *err) {
  static const char *const others[] = {"", "band", "view", "tool", "session"};
  rep->by_message = ctxp_str_is(by, "message");
  rep->groups.by = ctxp_fold_group_by(by);
  for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
    if (rep->by_message || rep->groups.by || ctxp_str_is(by, others[i])) return 0;
  return ctxp_error_set(err, -EINVAL, "there is no grain '%.*s'; it is band, view, tool, message, day, project, model, agent or session",
      (int)by.len, by.ptr);
}

static int spend(struct ctxp_stage *stage, struct ctxp_raw query, struct ctxp_buf *reply, struct ctxp_error *err) {
  uint64_t top = ctxp_map_u64(query, "top", 0);
  const struct ctxp_prices *prices = ctxp_stage_prices(stage);
  struct report rep = {.pick = ctxp_fold_pick(query), .groups = {.offsets = ctxp_map_get(query, "offsets")}};
  int r = known_grain(&rep, ctxp_map_str(query, "by"), err);
  if (r < 0) return r;
  rep.lens = (struct ctxp_fold_lens){.counts = ctxp_fold_pick_counts, .data = &rep.pick};
  rep.rows.wanted = rep.by_message ? 15 : 7;
  rep.rows.keep_spans = top > 0;
  r = ctxp_fold_each_session(stage, &rep.pick.sessions, visit_session, &rep);
  bool missed = r == 0 && ctxp_fold_pick_narrows(&rep.pick) && rep.rows.figures.requests == 0;
  if (missed) r = ctxp_fold_pick_missed(&rep.pick, err);
  if (r == 0) ctxp_fold_balance_bill(&rep.balance, &rep.rows);
  if (r == 0) r = ctxp_fold_rows_finish(&rep.rows, top);
  if (r == 0) pack_report(reply, &rep, prices ? ctxp_prices_version(prices) : "");
  if (r == 0) r = ctxp_buf_error(reply);
  ctxp_fold_rows_deinit(&rep.rows);
  ctxp_fold_groups_deinit(&rep.groups);
  ctxp_fold_balance_deinit(&rep.balance);
  ctxp_fold_pick_deinit(&rep.pick);
  ctxp_buf_deinit(&rep.sessions);
  free(rep.told.at);
  return r < 0 && !missed ? ctxp_error_set(err, r, "the bill could not be put together: %s",
                                r == -ENOMEM ? "out of memory" : "a record of the fold's state is damaged") :
                            r;
}

int ctxp_fold_query(struct ctxp_stage *stage, struct ctxp_raw query, struct ctxp_buf *reply, struct ctxp_error *err) {
  struct ctxp_str what = ctxp_map_str(query, "what");
  struct ctxp_fold_filter filter = {ctxp_map_str(query, "agent"), ctxp_map_str(query, "session")};
  int r = ctxp_fold_check_filter(stage, &filter, err);
  if (r < 0) return r;
  if (ctxp_str_is(what, "spend")) return spend(stage, query, reply, err);
  if (ctxp_str_is(what, "stats")) return ctxp_fold_stats(stage, &filter, reply, err);
  if (ctxp_str_is(what, "explain")) return ctxp_fold_explain(stage, query, reply, err);
  return ctxp_error_set(err, -ENOENT, "the fold answers spend, explain and stats, not '%.*s'", (int)what.len, what.ptr);
}
