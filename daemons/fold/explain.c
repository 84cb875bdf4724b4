#include "fold/explain.h"
#include <errno.h>
#include <stdlib.h>
#include "codec/msgpack.h"
#include "fold/rows.h"

enum kind { MESSAGE,
  VIEW,
  TOOL,
  PART,
  KINDS };
static const char *const kind_names[KINDS] = {"message", "view", "tool", "part"};

struct part { /* of one request */
  uint32_t request;
  struct ctxp_fold_watched watched;
};
struct whole {
  uint64_t billed, cost_nano, tiered_nano;
};
struct explain {
  struct ctxp_fold_pick pick; /* the first: the lens hands both around as one */
  struct ctxp_fold_lens lens;
  struct ctxp_str name;
  struct ctxp_fold_arena arena;
  CTXP_FOLD_ARRAY(struct ctxp_str, keys); /* of views: what the name is a label of */
  enum kind kind;
  bool found[KINDS], failed, priced;
  struct ctxp_buf path;
  CTXP_FOLD_ARRAY(struct part, parts); /* of the window in hand */
  struct ctxp_buf windows; /* elements of the array */
  uint32_t window_count;
  struct whole row;
};

/* ---- what has the name ---- */
static void add_key(struct explain *x, struct ctxp_str key) {
  for (uint32_t i = 0; i < x->keys.count; i++)
    if (ctxp_str_eq(x->keys.at[i], key)) return;
  if (!ctxp_fold_grow(&x->keys, sizeof(*x->keys.at))) {
    x->failed = true;
    return;
  }
  x->keys.at[x->keys.count++] = ctxp_fold_arena_str(&x->arena, key, &x->failed);
}

static bool has_key(const struct explain *x, struct ctxp_str key) {
  for (uint32_t i = 0; i < x->keys.count; i++)
    if (ctxp_str_eq(x->keys.at[i], key)) return true;
  return false;
}

/* messages that were never defined are one row together */
static bool undefined(const struct explain *x) { return ctxp_str_is(x->name, "undefined"); }
static bool has_name(const struct explain *x, const struct ctxp_fold_message *m) {
  return m->defined ? ctxp_str_eq(m->id, x->name) : undefined(x);
}

static int look_for(void *data, struct ctxp_fold_window *w) {
  struct explain *x = data;
  for (uint32_t i = 0; i < w->residencies.count; i++) {
    const struct ctxp_fold_residency *r = &w->residencies.at[i];
    const struct ctxp_fold_message *m = &w->messages.at[r->message];
    struct ctxp_fold_row view;
    x->found[MESSAGE] |= has_name(x, m);
    x->found[TOOL] |= ctxp_str_eq(ctxp_fold_tool_of(w, m), x->name);
    if (!ctxp_fold_view_of(w, m, (uint8_t)ctxp_fold_band(w, r), &view, &x->path) || view.hidden) continue;
    if (!ctxp_str_eq(view.key, x->name) && !ctxp_str_eq(view.label, x->name)) continue;
    x->found[VIEW] = true;
    add_key(x, view.key);
  }
  return x->failed || x->path.failed ? -ENOMEM : 0;
}

static int look_in(void *data, struct ctxp_stage *stage, struct ctxp_fold_session *s) {
  return ctxp_fold_each_window(stage, s, look_for, data);
}

/* ---- what it had of each request ---- */
static bool watches(void *data, const struct ctxp_fold_window *w, uint32_t message, uint8_t band) {
  struct explain *x = data;
  const struct ctxp_fold_message *m = &w->messages.at[message];
  struct ctxp_fold_row view;
  if (x->kind == MESSAGE) return has_name(x, m);
  if (x->kind == TOOL) return ctxp_str_eq(ctxp_fold_tool_of(w, m), x->name);
  return x->kind == VIEW && ctxp_fold_view_of(w, m, band, &view, &x->path) && !view.hidden && has_key(x, view.key);
}

static int note_part(void *data, const struct ctxp_fold_window *w, uint32_t request, const struct ctxp_fold_watched *watched) {
  struct explain *x = data;
  (void)w;
  if (!watched->sum.billed && !watched->sum.cost && !watched->sum.tiered) return 0;
  if (!ctxp_fold_grow(&x->parts, sizeof(*x->parts.at))) return -ENOMEM;
  x->parts.at[x->parts.count++] = (struct part){request, *watched};
  return 0;
}

/* the row's whole figures in the bill of this window */
static int find_row(struct explain *x, struct ctxp_fold_window *w, struct whole *ret) {
  static const unsigned grains[KINDS] = {CTXP_FOLD_BY_MESSAGE, CTXP_FOLD_BY_VIEW, CTXP_FOLD_BY_TOOL, CTXP_FOLD_BY_MESSAGE};
  struct ctxp_fold_rows rows = {.wanted = 15};
  int r = ctxp_fold_rows_add(&rows, w);
  const struct ctxp_fold_table *t = &rows.grains[grains[x->kind]];
  *ret = (struct whole){0, 0, 0};
  for (uint32_t i = 0; r == 0 && i < t->count; i++) {
    const struct ctxp_fold_row *row = &t->at[i];
    bool own = x->kind == VIEW ? !row->hidden && has_key(x, row->key) :
        x->kind == TOOL        ? ctxp_str_eq(row->label, x->name) :
                                 ctxp_str_eq(row->label, x->name) && (row->window > 0) == (x->kind == MESSAGE && !undefined(x));
    if (!own) continue;
    ret->billed += row->billed;
    ret->cost_nano += row->cost_nano;
    ret->tiered_nano += row->tiered_nano;
  }
  ctxp_fold_rows_deinit(&rows);
  return r;
}

/* ---- whole numbers that add up to the row's ---- */
/* One figure of the parts, at `at` in their sums, in whole numbers. Of one row the total is the sum up or down; of several it may be a few
 * more or less, which the largest part has. */
static int make_whole(const struct explain *x, size_t at, ctxp_u128 unit, uint64_t total, uint64_t *out) {
  uint32_t n = x->parts.count, largest = 0;
  ctxp_u128 *parts = malloc(n * sizeof(*parts)), sum = 0;
  if (!parts) return -ENOMEM;
  for (uint32_t i = 0; i < n; i++) {
    memcpy(&parts[i], (const char *)&x->parts.at[i].watched.sum + at, sizeof(*parts));
    sum += parts[i];
    if (parts[i] > parts[largest]) largest = i;
  }
  uint64_t low = (uint64_t)(sum / unit), high = low + (sum % unit != 0), fits = total < low ? low : total > high ? high :
                                                                                                                   total;
  int r = ctxp_fold_apportion(parts, n, unit, fits, out);
  if (r == 0) out[largest] += total - fits;
  free(parts);
  return r;
}

/* ---- the answer ---- */
static void pair_u64(struct ctxp_buf *out, const char *key, uint64_t value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_u64(out, value);
}

static void pair_str(struct ctxp_buf *out, const char *key, struct ctxp_str value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_str(out, value);
}

static void pair_nano(struct ctxp_buf *out, const char *key, uint64_t value, bool known) {
  ctxp_pack_cstr(out, key);
  known ? ctxp_pack_u64(out, value) : ctxp_pack_nil(out);
}

static void pack_whole(struct ctxp_buf *out, const struct whole *whole, bool priced) {
  pair_u64(out, "billed", whole->billed);
  pair_nano(out, "costNano", whole->cost_nano, priced);
  pair_nano(out, "costTieredNano", whole->tiered_nano, priced);
}

static void pack_part(struct ctxp_buf *out, const struct ctxp_fold_window *w, const struct part *p, const struct whole *whole) {
  const struct ctxp_fold_request *q = &w->requests.at[p->request];
  bool priced = q->flags & CTXP_FOLD_PRICED;
  ctxp_pack_map(out, 14);
  pair_u64(out, "request", q->number);
  ctxp_pack_cstr(out, "time");
  ctxp_pack_time(out, q->ts_ms);
  pair_u64(out, "timeMs", q->ts_ms);
  pair_str(out, "model", q->model == CTXP_FOLD_OPEN ? (struct ctxp_str){"", 0} : w->models.at[q->model]);
  pair_u64(out, "input", q->tokens[CTXP_FOLD_UNCACHED]);
  pair_u64(out, "cacheRead", q->tokens[CTXP_FOLD_READ]);
  pair_u64(out, "cacheWrite5m", q->tokens[CTXP_FOLD_WRITE_5M]);
  pair_u64(out, "cacheWrite1h", q->tokens[CTXP_FOLD_WRITE_1H]);
  pair_u64(out, "window", p->watched.window);
  pair_u64(out, "size", p->watched.size);
  pair_nano(out, "requestCostNano", ctxp_fold_request_cost_nano(q), priced);
  pack_whole(out, whole, priced);
}

static int pack_parts(struct explain *x, const struct ctxp_fold_window *w, const struct whole *row) {
  uint32_t n = x->parts.count;
  uint64_t *out = malloc(3 * n * sizeof(*out));
  int r = out ? make_whole(x, offsetof(struct ctxp_fold_sum, billed), CTXP_FOLD_TOKEN, row->billed, out) : -ENOMEM;
  if (r == 0) r = make_whole(x, offsetof(struct ctxp_fold_sum, cost), CTXP_FOLD_NANO, row->cost_nano, out + n);
  if (r == 0) r = make_whole(x, offsetof(struct ctxp_fold_sum, tiered), CTXP_FOLD_NANO, row->tiered_nano, out + 2 * n);
  ctxp_pack_cstr(&x->windows, "requests");
  ctxp_pack_array(&x->windows, n);
  for (uint32_t i = 0; r == 0 && i < n; i++)
    pack_part(&x->windows, w, &x->parts.at[i], &(struct whole){out[i], out[n + i], out[2 * n + i]});
  free(out);
  return r;
}

static int visit(void *data, struct ctxp_fold_window *w) {
  struct explain *x = data;
  struct whole row;
  bool any = false, priced = false;
  struct ctxp_fold_spend *running = w->spend;
  int r = w->counted ? ctxp_fold_pick_look(&x->pick, w, &any) : 0;
  if (r < 0 || !any) return r;
  x->parts.count = 0;
  w->spend = NULL; /* what runs along with the session stays */
  r = ctxp_fold_spend_through(w, &x->lens);
  if (r == 0 && x->path.failed) r = -ENOMEM;
  if (r == 0 && x->parts.count) {
    r = find_row(x, w, &row);
    for (uint32_t i = 0; i < x->parts.count; i++) priced |= w->requests.at[x->parts.at[i].request].flags & CTXP_FOLD_PRICED;
    ctxp_pack_map(&x->windows, 7);
    pair_str(&x->windows, "agent", w->session->agent);
    pair_str(&x->windows, "session", w->session->session);
    pair_str(&x->windows, "thread", w->thread);
    pack_whole(&x->windows, &row, priced);
    if (r == 0) r = pack_parts(x, w, &row);
    x->window_count++;
    x->priced |= priced;
    x->row.billed += row.billed;
    x->row.cost_nano += row.cost_nano;
    x->row.tiered_nano += row.tiered_nano;
    if (r == 0) r = ctxp_buf_error(&x->windows);
  }
  ctxp_fold_spend_free(w->spend);
  w->spend = running;
  return r;
}

static int visit_session(void *data, struct ctxp_stage *stage, struct ctxp_fold_session *s) {
  return ctxp_fold_each_window(stage, s, visit, data);
}

/* which kind of row the name is of: the one asked for, or the first that has it */
static int choose(struct explain *x, struct ctxp_str asked, struct ctxp_error *err) {
  for (unsigned p = 0; p < CTXP_FOLD_PARTS; p++) {
    if (!ctxp_str_is(x->name, ctxp_fold_part_names[p])) continue;
    x->found[PART] = true;
    x->lens.parts = 1u << p;
  }
  for (unsigned k = 0; k < KINDS; k++) {
    bool wanted = !asked.len || ctxp_str_is(asked, kind_names[k]) || (k == PART && ctxp_str_is(asked, kind_names[MESSAGE]));
    if (!x->found[k] || !wanted) continue; /* parts stand among the messages of a bill */
    x->kind = (enum kind)k;
    if (k != PART) x->lens.parts = 0;
    return 0;
  }
  return ctxp_error_set(err, -ENOENT, "no %.*s is called '%.*s'; the names stand in the bill by message, view and tool",
      asked.len ? (int)asked.len : 21, asked.len ? asked.ptr : "message, view or tool", (int)x->name.len, x->name.ptr);
}

static void pack(struct ctxp_buf *out, const struct explain *x) {
  ctxp_pack_map(out, 5);
  pair_u64(out, "schema", 1);
  ctxp_pack_cstr(out, "kind");
  ctxp_pack_cstr(out, kind_names[x->kind]);
  pair_str(out, "name", x->name);
  ctxp_pack_cstr(out, "row");
  ctxp_pack_map(out, 3);
  pack_whole(out, &x->row, x->priced);
  ctxp_pack_cstr(out, "windows");
  ctxp_pack_array(out, x->window_count);
  ctxp_buf_add(out, x->windows.ptr, x->windows.len);
}

static int explain(struct explain *x, struct ctxp_stage *stage, struct ctxp_str asked, struct ctxp_error *err) {
  int r = ctxp_fold_each_session(stage, &x->pick.sessions, look_in, x);
  if (r < 0) return ctxp_error_set(err, r, "the windows could not be read: %s", r == -ENOMEM ? "out of memory" : "a record is damaged");
  r = choose(x, asked, err);
  if (r < 0) return r;
  r = ctxp_fold_each_session(stage, &x->pick.sessions, visit_session, x);
  if (r < 0)
    return ctxp_error_set(err, r, "the bill could not be gone through: %s", r == -ENOMEM ? "out of memory" : "a record is damaged");
  if (x->window_count) return 0;
  return ctxp_error_set(err, -ENOENT, "no request that was asked for has billed '%.*s'", (int)x->name.len, x->name.ptr);
}

int ctxp_fold_explain(struct ctxp_stage *stage, struct ctxp_raw query, struct ctxp_buf *reply, struct ctxp_error *err) {
  struct explain x = {.pick = ctxp_fold_pick(query), .name = ctxp_map_str(query, "name")};
  x.lens = (struct ctxp_fold_lens){.counts = ctxp_fold_pick_counts, .watches = watches, .billed = note_part, .data = &x};
  int r = explain(&x, stage, ctxp_map_str(query, "kind"), err);
  if (r == 0) {
    pack(reply, &x);
    r = reply->failed ? ctxp_error_set(err, -ENOMEM, "out of memory") : 0;
  }
  ctxp_fold_pick_deinit(&x.pick);
  ctxp_fold_arena_deinit(&x.arena);
  ctxp_buf_deinit(&x.path);
  ctxp_buf_deinit(&x.windows);
  free(x.keys.at);
  free(x.parts.at);
  return r;
}
