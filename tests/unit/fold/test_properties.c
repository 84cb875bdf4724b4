/* Random streams: every grain closes, every row is what a plain walk over all requests and their messages gives, and a stage that is
 * restarted or killed emits the same bytes. The walk shares nothing with the fold: whole lists, and the definitions as they end. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "codec/msgpack.h"
#include "fold_test.h"

#define WINDOWS 3
#define MESSAGES 40
#define REQUESTS 400
#define PLACES 64
#define EVENTS 600
#define CLASSES 4

static struct ctxp_test t;
static uint64_t seed;

static unsigned pick(unsigned below) { /* xorshift: the streams are the same everywhere */
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (unsigned)(seed % below);
}

static int close_fold(void **state) {
  (void)state;
  ctxp_test_close(&t);
  return 0;
}

/* ---- the stream, and what is known of it ---- */
static const char *const bands[] = {"user_prompt", "file_view", "tool_output", "text_view", "history", "memory", "docs_view"};
#define BANDS 7
struct definition {
  bool there;
  unsigned tokens, band, label; /* label: 0 none, else number */
};
struct request {
  unsigned window, model, ids[PLACES], ref_bands[PLACES], count; /* ref_bands: BANDS: by definition */
  uint64_t tokens[CLASSES], output; /* read, 5m, 1h, uncached */
  bool reported;
};
static struct definition definitions[WINDOWS][MESSAGES];
static struct request requests[REQUESTS];
static unsigned request_count;
static struct { unsigned ids[PLACES], ref_bands[PLACES], count; } windows[WINDOWS];
static char *lines[EVENTS];
static unsigned line_count;
/* read, write 5m, write 1h, uncached in nano-dollars a token; -1: none */
static const struct {
  const char *name;
  double rates[CLASSES];
} models[] = {{"claude-sonnet-4-5-20250929", {300, 3750, 6000, 3000}}, {"claude-haiku-4-5-20251001", {100, 1250, 2000, 1000}},
    {"x/half", {12.5, -1, -1, 12.5}}, {"nobody", {-1, -1, -1, -1}}};
#define MODELS 4

static void add_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add_line(const char *format, ...) {
  va_list args;
  char *line = NULL, head[128];
  ctxp_auto_buf all = {0};
  va_start(args, format);
  assert_true(vasprintf(&line, format, args) > 0);
  va_end(args);
  unsigned s = 28800 + line_count * 7;
  snprintf(head, sizeof(head), "{\"ts\":\"2026-09-01T%02u:%02u:%02u.%03uZ\",", s / 3600, s / 60 % 60, s % 60, line_count % 1000);
  ctxp_buf_str(&all, head);
  ctxp_buf_str(&all, line);
  free(line);
  assert_true(line_count < EVENTS);
  lines[line_count++] = strdup(ctxp_buf_cstr(&all));
}

static const char *where(unsigned w) { return w == 2 ? "\"thread\":\"sub\"" : w == 1 ? "\"session\":\"s2\"" :
                                                                                       "\"session\":\"s1\""; }

static void define(unsigned w, unsigned id) {
  struct definition *d = &definitions[w][id];
  char label[64] = "";
  *d = (struct definition){true, pick(4) ? pick(500) : 0, pick(BANDS), pick(4)};
  if (d->label) snprintf(label, sizeof(label), ",\"label\":\"l%u\"", d->label);
  add_line("\"kind\":\"context_message\",%s,\"id\":\"m%u\",\"role\":\"user\",\"band\":\"%s\",\"tokens\":%u%s}", where(w), id,
      bands[d->band], d->tokens, label);
}

static void add_refs(struct ctxp_buf *out, unsigned w, unsigned from) {
  for (unsigned i = from; i < windows[w].count; i++) {
    ctxp_buf_printf(out, "%s{\"id\":\"m%u\"", i > from ? "," : "", windows[w].ids[i]);
    if (windows[w].ref_bands[i] < BANDS) ctxp_buf_printf(out, ",\"band\":\"%s\"", bands[windows[w].ref_bands[i]]);
    ctxp_buf_str(out, "}");
  }
}

static void add_usage(struct ctxp_buf *out, struct request *q) {
  if (!q->reported) return;
  ctxp_buf_printf(out, ",\"usage\":{\"input\":%u,\"cacheRead\":%u,\"cacheWrite5m\":%u,\"cacheWrite1h\":%u,\"output\":%u}",
      (unsigned)q->tokens[3], (unsigned)q->tokens[0], (unsigned)q->tokens[1], (unsigned)q->tokens[2], (unsigned)q->output);
}

static void draw_usage(struct request *q) {
  q->reported = pick(8) != 0;
  q->model = pick(MODELS);
  for (unsigned c = 0; c < CLASSES; c++) q->tokens[c] = q->reported && pick(3) ? pick(pick(2) ? 50000 : 50) : 0;
  if (!strcmp(models[q->model].name, "x/half")) q->tokens[1] = q->tokens[2] = 0;
  q->output = q->reported ? pick(1000) : 0;
}

static void prompt(unsigned w) {
  unsigned keep = pick(6) ? windows[w].count : pick(windows[w].count + 1), more = pick(4);
  ctxp_auto_buf refs = {0}, usage = {0};
  struct request *q = &requests[request_count];
  windows[w].count = keep;
  for (unsigned i = 0; i < more && windows[w].count < PLACES; i++) {
    windows[w].ids[windows[w].count] = pick(MESSAGES);
    windows[w].ref_bands[windows[w].count++] = pick(3) ? BANDS : pick(BANDS);
  }
  bool whole = pick(4) == 0;
  add_refs(&refs, w, whole ? 0 : keep);
  *q = (struct request){.window = w, .count = windows[w].count};
  memcpy(q->ids, windows[w].ids, sizeof(q->ids));
  memcpy(q->ref_bands, windows[w].ref_bands, sizeof(q->ref_bands));
  draw_usage(q);
  add_usage(&usage, q);
  if (whole)
    add_line("\"kind\":\"prompt\",%s,\"callId\":\"c%u\",\"model\":\"%s\",\"request\":[%s]%s}", where(w), request_count,
        models[q->model].name, ctxp_buf_cstr(&refs), ctxp_buf_cstr(&usage));
  else
    add_line("\"kind\":\"prompt\",%s,\"callId\":\"c%u\",\"model\":\"%s\",\"keep\":%u,\"append\":[%s]%s}", where(w), request_count,
        models[q->model].name, keep, ctxp_buf_cstr(&refs), ctxp_buf_cstr(&usage));
  request_count++;
}

static uint64_t usage_sum(const struct request *q) { return q->tokens[0] + q->tokens[1] + q->tokens[2] + q->tokens[3] + q->output; }

/* the same response again, from any window, with other usage: the larger holds, and the window is formed either way */
static void repeat(unsigned w) {
  ctxp_auto_buf usage = {0};
  if (request_count == 0) return;
  unsigned n = pick(request_count);
  struct request again = requests[n];
  draw_usage(&again);
  add_usage(&usage, &again);
  if (usage_sum(&again) > usage_sum(&requests[n])) {
    requests[n].reported = again.reported;
    requests[n].model = again.model;
    memcpy(requests[n].tokens, again.tokens, sizeof(again.tokens));
    requests[n].output = again.output;
  }
  add_line("\"kind\":\"prompt\",%s,\"callId\":\"c%u\",\"model\":\"%s\",\"keep\":%u%s}", where(w), n, models[again.model].name,
      windows[w].count, ctxp_buf_cstr(&usage));
}

static void draw_lines(uint64_t number, bool repeats) {
  seed = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
  memset(definitions, 0, sizeof(definitions));
  memset(windows, 0, sizeof(windows));
  request_count = line_count = 0;
  for (unsigned i = 0; i < 350; i++) {
    unsigned w = pick(WINDOWS), what = pick(20);
    if (what < 7)
      define(w, pick(MESSAGES));
    else if (what < 14 && request_count < REQUESTS)
      prompt(w);
    else if (what < 16 && repeats)
      repeat(w);
    else if (what == 16)
      add_line("\"kind\":\"turn_end\",%s,\"turn\":%u}", where(w), i);
    else if (what == 17)
      add_line("\"kind\":\"bash\",%s,\"toolCallId\":\"b%u\",\"command\":\"x\",\"originalTokens\":2000,\"summaryTokens\":9,\"saved\":%u}",
          where(w), i, pick(2000));
    else if (what == 18)
      add_line("\"kind\":\"%s\",%s%s}", pick(3) ? "compaction" : "evict", where(w), ",\"ids\":[\"m1\"],\"reason\":\"rewind\"");
    else if (pick(4) == 0)
      add_line("\"kind\":\"session_end\",%s}", where(w));
  }
}

static void draw_stream(uint64_t number) { draw_lines(number, true); }

static void free_lines(void) {
  while (line_count) free(lines[--line_count]);
}

/* ---- the plain walk ---- */
struct sum {
  long double billed, cost, tiered;
  unsigned messages, own, turns;
  unsigned windows; /* that it was summed over, and that have any of it */
};
static struct sum by_band[WINDOWS][BANDS + 1], by_view[WINDOWS][BANDS][5], by_message[WINDOWS][MESSAGES];

static unsigned band_of(const struct request *q, unsigned i) {
  if (q->ref_bands[i] < BANDS) return q->ref_bands[i];
  return definitions[q->window][q->ids[i]].there ? definitions[q->window][q->ids[i]].band : 4; /* history */
}

static bool priced(const struct request *q) {
  for (unsigned c = 0; c < CLASSES; c++)
    if (q->tokens[c] && models[q->model].rates[c] < 0) return false;
  return q->reported && (models[q->model].rates[3] >= 0 || usage_sum(q) == 0);
}

static bool above(const struct request *q) { return q->model == 0 && q->tokens[0] + q->tokens[1] + q->tokens[2] + q->tokens[3] > 200000; }

static long double class_cost(const struct request *q, unsigned c) {
  return priced(q) && q->tokens[c] ? (long double)q->tokens[c] * (long double)models[q->model].rates[c] * (above(q) ? 2 : 1) : 0;
}

/* money of the tokens [from, to) of the request, in the order of the prefix */
static long double prefix_cost(const struct request *q, long double from, long double to) {
  long double at = 0, sum = 0;
  for (unsigned c = 0; c < CLASSES; c++) {
    long double low = fmaxl(from, at), high = fminl(to, at + (long double)q->tokens[c]);
    if (high > low) sum += class_cost(q, c) * (high - low) / (long double)q->tokens[c];
    at += (long double)q->tokens[c];
  }
  return sum;
}

static void add(struct sum *s, long double billed, long double cost, long double tiered) {
  s->billed += billed;
  s->cost += cost;
  s->tiered += tiered;
}

static bool has_view(unsigned band) { return band == 1 || band == 3 || band == 6; }

static void walk_request(const struct request *q) {
  const struct definition *d = definitions[q->window];
  long double input = 0, cost = 0, size = 0, before = 0;
  bool in_band[BANDS] = {false}, in_view[BANDS][5] = {{false}}, in_message[MESSAGES] = {false};
  for (unsigned c = 0; c < CLASSES; c++) {
    input += (long double)q->tokens[c];
    cost += class_cost(q, c);
  }
  cost = floorl(cost + 0.5L);
  for (unsigned i = 0; i < q->count; i++) size += d[q->ids[i]].tokens;
  if (size == 0) add(&by_band[q->window][BANDS], input, cost, cost);
  for (unsigned i = 0; i < q->count; i++) {
    unsigned id = q->ids[i], band = band_of(q, i), label = d[id].label;
    long double e = d[id].tokens, billed = size > 0 ? input * e / size : 0, share = size > 0 ? cost * e / size : 0;
    long double tiered = size > 0 && input > 0 ? prefix_cost(q, before * input / size, (before + e) * input / size) : 0;
    before += e;
    add(&by_band[q->window][band], billed, share, tiered);
    add(&by_view[q->window][band][label], billed, share, tiered);
    add(&by_message[q->window][id], billed, share, tiered);
    by_band[q->window][band].turns += !in_band[band];
    by_view[q->window][band][label].turns += d[id].there && !in_view[band][label];
    by_message[q->window][id].turns += !in_message[id];
    in_band[band] = in_message[id] = true;
    if (d[id].there) in_view[band][label] = true;
  }
}

/* own size and messages: each once a row */
static void walk_own(void) {
  static bool seen[WINDOWS][BANDS][MESSAGES];
  memset(seen, 0, sizeof(seen));
  for (unsigned n = 0; n < request_count; n++)
    for (unsigned i = 0; i < requests[n].count; i++) {
      unsigned w = requests[n].window, id = requests[n].ids[i], band = band_of(&requests[n], i);
      if (seen[w][band][id] || !definitions[w][id].there) continue;
      seen[w][band][id] = true;
      struct sum *both[] = {&by_band[w][band], &by_view[w][band][definitions[w][id].label]};
      for (unsigned k = 0; k < 2; k++) {
        both[k]->own += definitions[w][id].tokens;
        both[k]->messages++;
      }
    }
}

static void walk(void) {
  memset(by_band, 0, sizeof(by_band));
  memset(by_view, 0, sizeof(by_view));
  memset(by_message, 0, sizeof(by_message));
  for (unsigned n = 0; n < request_count; n++) walk_request(&requests[n]);
  walk_own();
}

/* ---- comparing ---- */
static void expect_near(struct ctxp_raw row, const char *key, long double value, long double slack, const char *what) {
  long double ours = (long double)ctxp_map_u64(row, key, 0);
  if (fabsl(ours - value) > slack) fail_msg("%s: %s is %.0Lf, the plain walk has %.6Lf", what, key, ours, value);
}

/* slack: the row of a window is rounded up or down to a whole number, and a request's money is rounded before it is split by position */
static void expect_row(struct ctxp_raw row, const struct sum *s, bool counts, const char *what) {
  unsigned rounded = s->windows ? s->windows : 1;
  expect_near(row, "billed", s->billed, 1.000001L * rounded, what);
  expect_near(row, "costNano", s->cost, 1.0001L * rounded, what);
  expect_near(row, "costTieredNano", s->tiered, 1.0001L * rounded + s->turns, what);
  expect_near(row, "turns", s->turns, 0, what);
  if (!counts) return;
  expect_near(row, "own", s->own, 0, what);
  expect_near(row, "messages", s->messages, 0, what);
}

static struct sum over_windows(const struct sum *first, size_t stride) {
  struct sum all = {.windows = 0};
  for (unsigned w = 0; w < WINDOWS; w++) {
    const struct sum *s = (const struct sum *)((const char *)first + w * stride);
    add(&all, s->billed, s->cost, s->tiered);
    all.messages += s->messages, all.own += s->own, all.turns += s->turns;
    all.windows += s->turns || s->billed > 0;
  }
  return all;
}

static struct ctxp_raw view_row(struct ctxp_raw report, const char *band, unsigned label) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(report, "views"));
  struct ctxp_raw row;
  uint32_t left;
  char text[32] = "unattributed";
  if (label) snprintf(text, sizeof(text), "l%u", label);
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (left && ctxp_array_next(&it, &left, &row) > 0)
    if (ctxp_str_is(ctxp_map_str(row, "band"), band) && ctxp_str_is(ctxp_map_str(row, "label"), text)) return row;
  return (struct ctxp_raw){0};
}

static void expect_rows(struct ctxp_raw report) {
  for (unsigned b = 0; b <= BANDS; b++) {
    const char *name = b < BANDS ? bands[b] : "unattributed";
    struct sum s = over_windows(&by_band[0][b], sizeof(by_band[0]));
    struct ctxp_raw row = fold_row(report, "bands", "band", name);
    if (row.len || s.turns || s.billed > 0) expect_row(row, &s, b < BANDS, name);
    for (unsigned label = 0; b < BANDS && has_view(b) && label < 4; label++) {
      if (b == 6 && label == 0) continue; /* documentation without a name is no view */
      s = over_windows(&by_view[0][b][label], sizeof(by_view[0]));
      row = view_row(report, name, label);
      if (row.len || s.turns) expect_row(row, &s, true, name);
    }
  }
}

static const struct {
  const char *agent, *session, *thread;
} names[WINDOWS] = {{"pi@test", "s1", ""}, {"pi@test", "s2", ""}, {"pi@test", "s1", "sub"}};

static void expect_messages(struct ctxp_raw report) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(report, "messages"));
  struct ctxp_raw row;
  uint32_t left;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (left && ctxp_array_next(&it, &left, &row) > 0) {
    struct ctxp_str label = ctxp_map_str(row, "label");
    unsigned id, w;
    char text[32];
    snprintf(text, sizeof(text), "%.*s", (int)label.len, label.ptr);
    if (sscanf(text, "m%u", &id) != 1) continue;
    for (w = 0; w < WINDOWS; w++)
      if (ctxp_str_is(ctxp_map_str(row, "session"), names[w].session) && ctxp_str_is(ctxp_map_str(row, "thread"), names[w].thread)) break;
    assert_true(w < WINDOWS);
    expect_row(row, &by_message[w][id], false, text);
    assert_int_equal(ctxp_map_u64(row, "own", 1), definitions[w][id].tokens);
  }
}

static void expect_closed(struct ctxp_raw report) {
  struct ctxp_raw totals = ctxp_map_get(report, "totals");
  uint64_t billed = 0, cost = ctxp_map_u64(totals, "costInputNano", 0), output = 0, unpriced = 0;
  for (unsigned n = 0; n < request_count; n++) {
    const struct request *q = &requests[n];
    billed += usage_sum(q) - q->output;
    output += q->output;
    if (!priced(q)) unpriced += usage_sum(q) - q->output;
    if (q->model == 3 && usage_sum(q)) unpriced += q->output;
  }
  assert_int_equal(ctxp_map_u64(totals, "requests", 0), request_count);
  assert_int_equal(ctxp_map_u64(totals, "billed", 0), billed);
  assert_int_equal(ctxp_map_u64(totals, "output", 0), output);
  assert_int_equal(ctxp_map_u64(totals, "unpricedTokens", 0), unpriced);
  assert_int_equal(fold_sum(report, "sessions", "billed"), billed);
  assert_int_equal(fold_sum(report, "sessions", "costInputNano"), cost);
  static const char *const grains[] = {"bands", "messages"};
  for (unsigned g = 0; g < 2; g++) {
    assert_int_equal(fold_sum(report, grains[g], "billed"), billed);
    assert_int_equal(fold_sum(report, grains[g], "costNano"), cost);
    assert_int_equal(fold_sum(report, grains[g], "costTieredNano"), cost);
  }
}

/* the views of a band add up to the band */
static void expect_views_closed(struct ctxp_raw report) {
  for (unsigned b = 0; b < BANDS; b++) {
    static const char *const keys[] = {"billed", "costNano", "costTieredNano"};
    if (b != 1 && b != 3) continue;
    for (unsigned k = 0; k < 3; k++) {
      uint64_t sum = 0;
      for (unsigned label = 0; label < 4; label++) {
        struct ctxp_raw row = view_row(report, bands[b], label);
        sum += row.len ? ctxp_map_u64(row, keys[k], 0) : 0;
      }
      struct ctxp_raw band = fold_row(report, "bands", "band", bands[b]);
      if (band.len) assert_int_equal(sum, ctxp_map_u64(band, keys[k], 0));
    }
  }
}

static void push_all(void) {
  for (unsigned i = 0; i < line_count; i++) ctxp_test_push_json(&t, lines[i]);
}

#define STREAMS 40

static void every_grain_closes_and_is_what_a_plain_walk_gives(void **state) {
  (void)state;
  for (unsigned n = 1; n <= STREAMS; n++) {
    ctxp_auto_buf reply = {0};
    draw_stream(n);
    fold_open(&t, "{\"sizes\":\"estimate\",\"spend_every\":3,\"top\":4}");
    push_all();
    walk();
    struct ctxp_raw report = fold_ask(&t, "{\"what\":\"spend\",\"by\":\"message\"}", &reply);
    expect_closed(report);
    expect_views_closed(report);
    expect_rows(report);
    expect_messages(report);
    ctxp_test_close(&t);
    free_lines();
  }
}

static void spend_events_close_too(void **state) {
  (void)state;
  unsigned seen = 0;
  for (unsigned n = 1; n <= STREAMS; n++) {
    draw_stream(n);
    fold_open(&t, n % 2 ? "{\"spend_every\":3,\"top\":4}" : "{\"sizes\":\"estimate\",\"spend_every\":3,\"top\":4}");
    push_all();
    for (unsigned i = 0; i < t.emitted_count; i++) {
      if (t.emitted[i].event.kind != CTXP_KIND_spend) continue;
      const struct ctxp_spend *s = &t.emitted[i].event.spend;
      struct ctxp_list lists[] = {s->bands, s->messages};
      for (unsigned g = 0; g < (ctxp_has(s, spend, messages) ? 2u : 1u); g++) {
        struct ctxp_row row;
        uint64_t billed = 0, rows = 0;
        int64_t cost = 0, tiered = 0;
        for (; ctxp_list_next(&lists[g], &ctxp_shape_row, &row) > 0; rows++) {
          billed += row.billed;
          cost += row.costNano;
          tiered += row.costTieredNano;
        }
        assert_int_equal(billed, s->billed);
        assert_int_equal(cost, s->costNano);
        assert_int_equal(tiered, s->costNano);
        if (g == 1) assert_true(rows <= 4 + 3 + 3); /* top, others, unattributed, undefined, what is no message */
        seen++;
      }
    }
    ctxp_test_close(&t);
    free_lines();
  }
  assert_true(seen > 100);
}

/* ---- what the log says of each window adds up to what a report says of all ---- */
#define LAST_BILLS 8
static unsigned last_bills(unsigned *at) {
  unsigned n = 0;
  for (unsigned i = 0; i < t.emitted_count; i++) {
    const struct ctxp_event *ev = &t.emitted[i].event;
    if (ev->kind != CTXP_KIND_spend || !ev->spend.final) continue;
    unsigned k = 0;
    while (k < n && !(ctxp_str_eq(t.emitted[at[k]].event.session, ev->session) && ctxp_str_eq(t.emitted[at[k]].event.thread, ev->thread)))
      k++;
    assert_true(k < LAST_BILLS);
    at[k] = i;
    n += k == n;
  }
  return n;
}

struct told { /* of one row */
  struct ctxp_str label, kind, band;
  uint64_t own, billed, cost, tiered, messages, turns;
};

static struct told in_bills(const unsigned *at, unsigned bills, unsigned grain, const struct told *like) {
  struct told sum = {.own = 0};
  for (unsigned b = 0; b < bills; b++) {
    const struct ctxp_spend *s = &t.emitted[at[b]].event.spend;
    const struct ctxp_list lists[] = {s->bands, s->views, s->messages};
    struct ctxp_list list = lists[grain];
    struct ctxp_row row;
    while (ctxp_list_next(&list, &ctxp_shape_row, &row) > 0) {
      struct ctxp_str band = ctxp_has(&row, row, band) ? ctxp_str(ctxp_band_name(row.band)) : (struct ctxp_str){"", 0};
      if (!ctxp_str_eq(row.label, like->label) || !ctxp_str_eq(row.kind, like->kind) || (grain == 1 && !ctxp_str_eq(band, like->band)))
        continue;
      sum.own += row.own, sum.billed += row.billed, sum.cost += (uint64_t)row.costNano, sum.tiered += (uint64_t)row.costTieredNano;
      sum.messages += row.messages, sum.turns += row.turns;
    }
  }
  return sum;
}

static struct told in_report(struct ctxp_raw report, const char *list, struct ctxp_raw like, const char *key) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(report, list));
  struct told sum = {ctxp_map_str(like, key), ctxp_map_str(like, "kind"), ctxp_map_str(like, "band"), 0, 0, 0, 0, 0, 0};
  struct ctxp_raw row;
  uint32_t left;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (left && ctxp_array_next(&it, &left, &row) > 0) {
    if (!ctxp_str_eq(ctxp_map_str(row, key), sum.label) || !ctxp_str_eq(ctxp_map_str(row, "kind"), sum.kind)) continue;
    if (strcmp(list, "views") == 0 && !ctxp_str_eq(ctxp_map_str(row, "band"), sum.band)) continue;
    sum.own += ctxp_map_u64(row, "own", 0), sum.billed += ctxp_map_u64(row, "billed", 0), sum.cost += ctxp_map_u64(row, "costNano", 0);
    sum.tiered += ctxp_map_u64(row, "costTieredNano", 0), sum.messages += ctxp_map_u64(row, "messages", 0);
    sum.turns += ctxp_map_u64(row, "turns", 0);
  }
  return sum;
}

static void expect_same_rows(struct ctxp_raw report, const unsigned *at, unsigned bills) {
  static const char *const lists[] = {"bands", "views", "messages"}, *const keys[] = {"band", "label", "label"};
  for (unsigned grain = 0; grain < 3; grain++) {
    struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(report, lists[grain]));
    struct ctxp_raw row;
    uint32_t left;
    assert_int_equal(ctxp_array_open(&it, &left), 0);
    while (left && ctxp_array_next(&it, &left, &row) > 0) { /* messages of one name in two windows: together */
      struct told ours = in_report(report, lists[grain], row, keys[grain]), theirs = in_bills(at, bills, grain, &ours);
      assert_int_equal(theirs.billed, ours.billed);
      assert_int_equal(theirs.cost, ours.cost);
      assert_int_equal(theirs.tiered, ours.tiered);
      assert_int_equal(theirs.own, ours.own);
      assert_int_equal(theirs.messages, ours.messages);
      assert_int_equal(theirs.turns, ours.turns);
    }
  }
}

static void end_sessions(void) {
  fold_push(&t, "{\"kind\":\"session_end\",\"session\":\"s1\"}");
  fold_push(&t, "{\"kind\":\"session_end\",\"session\":\"s2\"}");
}

static void the_last_bills_in_the_log_add_up_to_the_report_to_the_unit(void **state) {
  (void)state;
  for (unsigned n = 1; n <= STREAMS; n++) {
    ctxp_auto_buf reply = {0};
    unsigned at[LAST_BILLS], bills;
    draw_stream(n);
    fold_open(&t, n % 2 ? "{\"top\":10000}" : "{\"sizes\":\"estimate\",\"top\":10000}");
    push_all();
    end_sessions();
    bills = last_bills(at);
    assert_int_equal(bills, WINDOWS);
    expect_same_rows(fold_ask(&t, "{\"what\":\"spend\",\"by\":\"message\"}", &reply), at, bills);
    ctxp_test_close(&t);
    free_lines();
  }
}

static char *report_in_order(const unsigned *order) {
  ctxp_auto_buf reply = {0};
  fold_open(&t, NULL);
  for (unsigned k = 0; k < WINDOWS; k++)
    for (unsigned i = 0; i < line_count; i++)
      if (strstr(lines[i], where(order[k]))) ctxp_test_push_json(&t, lines[i]);
  char *text = fold_json(fold_ask(&t, "{\"what\":\"spend\",\"by\":\"message\",\"top\":5}", &reply));
  ctxp_test_close(&t);
  return text;
}

static void a_report_does_not_depend_on_the_order_in_which_windows_came(void **state) {
  (void)state;
  static const unsigned orders[][WINDOWS] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
  for (unsigned n = 1; n <= STREAMS; n++) {
    draw_lines(n, false); /* of one response in two windows the first has it */
    char *first = report_in_order(orders[0]);
    for (unsigned k = 1; k < 3; k++) {
      char *other = report_in_order(orders[k]);
      assert_string_equal(other, first);
      free(other);
    }
    free(first);
    free_lines();
  }
}

static void expect_same_lines(const char *got, const char *expected) {
  while (*got && *got == *expected) got++, expected++;
  if (*got != *expected) fail_msg("here they part: '%.200s', expected '%.200s'", got, expected);
}

static void a_stage_restarted_or_killed_on_the_way_emits_the_same(void **state) {
  (void)state;
  for (unsigned n = 1; n <= STREAMS; n++) {
    const char *options = n % 2 ? "{\"spend_every\":3,\"top\":4}" : "{\"sizes\":\"estimate\",\"spend_every\":3,\"top\":4}";
    draw_stream(n);
    fold_open(&t, options);
    push_all();
    char *whole = fold_lines(&t, NULL, false);
    ctxp_test_close(&t);
    fold_open(&t, options);
    uint64_t kept = seed;
    unsigned saved_line = 0, saved_emitted = 0;
    for (unsigned i = 0; i < line_count; i++) {
      if (pick(12) == 0) {
        ctxp_test_restart(&t);
        fold_prices(&t, options);
        saved_line = i;
        saved_emitted = t.emitted_count;
      } else if (pick(25) == 0 && saved_line) {
        ctxp_test_crash(&t);
        fold_prices(&t, options);
        i = saved_line;
        t.emitted_count = saved_emitted;
      }
      ctxp_test_push_json(&t, lines[i]);
    }
    seed = kept;
    char *pieces = fold_lines(&t, NULL, false);
    expect_same_lines(pieces, whole);
    free(pieces);
    free(whole);
    ctxp_test_close(&t);
    free_lines();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(every_grain_closes_and_is_what_a_plain_walk_gives, close_fold),
      cmocka_unit_test_teardown(spend_events_close_too, close_fold),
      cmocka_unit_test_teardown(the_last_bills_in_the_log_add_up_to_the_report_to_the_unit, close_fold),
      cmocka_unit_test_teardown(a_report_does_not_depend_on_the_order_in_which_windows_came, close_fold),
      cmocka_unit_test_teardown(a_stage_restarted_or_killed_on_the_way_emits_the_same, close_fold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
