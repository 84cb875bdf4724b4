/* Questions to the bill: narrowed to some requests, put in groups, and one row explained. Random streams; what a narrowed bill says must add
 * up to the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "codec/msgpack.h"
#include "fold/rows.h"
#include "fold/store.h"
#include "fold_test.h"

#define REQUESTS 60
#define SHARES 3

static struct ctxp_test t;
static uint64_t seed;

static unsigned pick(unsigned below) {
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

static const char *const models[] = {"claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001", "nobody"};
static const char *const wheres[] = {"\"agent\":\"a\",\"session\":\"s1\"", "\"agent\":\"b\",\"session\":\"s2\"",
    "\"agent\":\"a\",\"session\":\"s1\",\"thread\":\"sub\""};

/* A reply of a request, a call in it, and its result, which comes in with the next request. */
static void define(unsigned w, unsigned n) {
  fold_push(&t,
      "{\"kind\":\"context_message\",%s,\"id\":\"a%u\",\"role\":\"assistant\",\"band\":\"assistant\",\"tokens\":%u,\"calls\":[{\"id\":"
      "\"k%u-%u\",\"name\":\"%s\",\"path\":\"f%u\",\"tokens\":3}]}",
      wheres[w], n, 5 + pick(40), w, n, n % 3 ? "Read" : "Bash", n % 4);
  fold_push(&t,
      "{\"kind\":\"context_message\",%s,\"id\":\"r%u\",\"role\":\"tool\",\"band\":\"%s\",\"toolCallId\":\"k%u-%u\",\"tokens\":%u}",
      wheres[w], n, n % 3 ? "file_view" : "tool_output", w, n, pick(5) ? pick(900) : 0);
}

static void draw(uint64_t number, const char *options) {
  unsigned counts[3] = {0, 0, 0}, input[3] = {5000, 300, 9000};
  seed = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
  fold_open(&t, options);
  for (unsigned i = 0; i < REQUESTS; i++) {
    unsigned w = pick(3), keep = pick(8) ? counts[w] : pick(counts[w] + 1), n = i;
    define(w, n);
    unsigned read = pick(3) ? input[w] / 2 : 0, written = pick(3) ? input[w] / 3 : 0;
    if (pick(10) == 0) fold_push(&t, "{\"kind\":\"compaction\",%s}", wheres[w]);
    fold_push(&t,
        "{\"ts\":\"2026-11-%02uT%02u:30:00.000Z\",\"kind\":\"prompt\",%s,\"callId\":\"c%u\",\"model\":\"%s\",\"keep\":%u,\"append\":[{\"id\":"
        "\"a%u\"},{\"id\":\"r%u\"}],\"usage\":{\"input\":%u,\"cacheRead\":%u,\"cacheWrite5m\":%u,\"output\":%u}}",
        1 + i / 6, (i * 7) % 24, wheres[w], i, models[pick(3)], keep, n, n, input[w] - read - written, read, written, pick(300));
    counts[w] = keep + 2;
    input[w] += pick(1200);
    if (pick(12) == 0) input[w] /= 2;
  }
  assert_int_equal(t.refused, 0);
}

/* ---- shares ---- */
static bool in_share(const void *data, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q) {
  (void)w;
  return q->number % SHARES == *(const unsigned *)data;
}

static void assert_same_sums(const struct ctxp_fold_items *whole, const struct ctxp_fold_sum *got, const struct ctxp_fold_figures *figures,
    const struct ctxp_fold_figures *sum) {
  for (uint32_t i = 0; i < whole->count; i++) {
    assert_true(whole->at[i].sum.billed == got[i].billed);
    assert_true(whole->at[i].sum.cost == got[i].cost);
    assert_true(whole->at[i].sum.tiered == got[i].tiered);
  }
  assert_int_equal(figures->requests, sum->requests);
  assert_int_equal(ctxp_fold_billed(figures), ctxp_fold_billed(sum));
  assert_int_equal(figures->cost_nano, sum->cost_nano);
  assert_int_equal(figures->unexplained, sum->unexplained);
}

static void check_shares(struct ctxp_fold_window *w) {
  struct ctxp_fold_figures sum = {0}, figures;
  assert_int_equal(ctxp_fold_spend_run(w), 0);
  struct ctxp_fold_items items = ctxp_fold_spend_items(w->spend);
  struct ctxp_fold_item *copy = calloc(items.count, sizeof(*copy));
  struct ctxp_fold_sum *got = calloc(items.count, sizeof(*got));
  struct ctxp_fold_bust_sum busts[CTXP_FOLD_BUSTS] = {{0, 0, 0}}, all[CTXP_FOLD_BUSTS];
  memcpy(copy, items.at, items.count * sizeof(*copy));
  memcpy(all, ctxp_fold_spend_busts(w->spend), sizeof(all));
  figures = *ctxp_fold_spend_figures(w->spend);
  items.at = copy;
  for (unsigned share = 0; share < SHARES; share++) {
    struct ctxp_fold_lens lens = {.counts = in_share, .data = &share};
    assert_int_equal(ctxp_fold_spend_through(w, &lens), 0);
    struct ctxp_fold_items part = ctxp_fold_spend_items(w->spend);
    assert_int_equal(part.count, items.count);
    for (uint32_t i = 0; i < part.count; i++) ctxp_fold_sum_add(&got[i], &part.at[i].sum);
    for (unsigned b = 0; b < CTXP_FOLD_BUSTS; b++) busts[b].tokens += ctxp_fold_spend_busts(w->spend)[b].tokens;
    ctxp_fold_figures_add(&sum, ctxp_fold_spend_figures(w->spend));
    w->spend = ctxp_fold_spend_free(w->spend);
  }
  assert_same_sums(&items, got, &figures, &sum);
  for (unsigned b = 0; b < CTXP_FOLD_BUSTS; b++) assert_int_equal(busts[b].tokens, all[b].tokens);
  free(copy);
  free(got);
}

static void shares_of_the_requests_add_up_to_the_whole_bill(void **state) {
  (void)state;
  for (uint64_t n = 1; n <= 12; n++) {
    unsigned windows = 0;
    draw(n, n % 2 ? NULL : FOLD_ESTIMATE);
    for (struct ctxp_fold_window *w = ((struct ctxp_fold *)ctxp_stage_state(t.stage))->windows; w; w = w->hh.next, windows++) check_shares(w);
    assert_int_equal(windows, 3);
    ctxp_test_close(&t);
  }
  fold_open(&t, NULL);
}

/* ---- narrowed and in groups ---- */
static const char *const added[] = {"requests", "input", "cacheRead", "cacheWrite5m", "output", "billed", "costNano", "costInputNano"};

static void bills_of_all_models_add_up_to_the_whole(void **state) {
  ctxp_auto_buf reply = {0};
  uint64_t sums[8] = {0}, bands = 0;
  (void)state;
  draw(3, NULL);
  for (unsigned m = 0; m < 3; m++) {
    char query[128];
    snprintf(query, sizeof(query), "{\"what\":\"spend\",\"model\":\"%s\"}", models[m]);
    struct ctxp_raw part = fold_ask(&t, query, &reply);
    for (unsigned i = 0; i < 8; i++) sums[i] += ctxp_map_u64(ctxp_map_get(part, "totals"), added[i], 0);
    bands += fold_sum(part, "bands", "billed");
    assert_int_equal(fold_sum(part, "bands", "billed"), ctxp_map_u64(ctxp_map_get(part, "totals"), "billed", 0));
    assert_int_equal(fold_sum(part, "sessions", "billed"), ctxp_map_u64(ctxp_map_get(part, "totals"), "billed", 0));
  }
  struct ctxp_raw whole = fold_ask(&t, "{\"what\":\"spend\"}", &reply);
  for (unsigned i = 0; i < 8; i++) assert_int_equal(sums[i], ctxp_map_u64(ctxp_map_get(whole, "totals"), added[i], 1));
  assert_int_equal(bands, fold_sum(whole, "bands", "billed"));
}

static void every_grouping_adds_up_to_the_total(void **state) {
  static const char *const lists[][2] = {{"day", "days"}, {"project", "projects"}, {"model", "models"}, {"agent", "agents"}};
  ctxp_auto_buf reply = {0};
  (void)state;
  draw(4, NULL);
  for (unsigned g = 0; g < 4; g++) {
    char query[128];
    snprintf(query, sizeof(query), "{\"what\":\"spend\",\"by\":\"%s\",\"offsets\":[[0,-18000]]}", lists[g][0]);
    struct ctxp_raw report = fold_ask(&t, query, &reply);
    for (unsigned i = 0; i < 8; i++)
      assert_int_equal(fold_sum(report, lists[g][1], added[i]), ctxp_map_u64(ctxp_map_get(report, "totals"), added[i], 1));
  }
}

static void a_day_begins_where_the_zone_says(void **state) {
  ctxp_auto_buf reply = {0};
  (void)state;
  fold_open(&t, NULL);
  for (unsigned h = 0; h < 24; h += 8)
    fold_push(&t,
        "{\"ts\":\"2026-10-25T%02u:59:59.999Z\",\"kind\":\"prompt\",\"callId\":\"c%u\",\"keep\":0,\"usage\":{\"input\":%u,\"output\":0}}", h, h,
        h + 1);
  /* two hours east until the change at 01:00 UTC, then one */
  struct ctxp_raw report = fold_ask(&t, "{\"what\":\"spend\",\"by\":\"day\",\"offsets\":[[0,7200],[1792890000000,3600]]}", &reply);
  assert_int_equal(ctxp_map_u64(fold_row(report, "days", "day", "2026-10-25"), "billed", 0), 1 + 9 + 17);
  report = fold_ask(&t, "{\"what\":\"spend\",\"by\":\"day\",\"offsets\":[[0,-3600]]}", &reply);
  assert_int_equal(ctxp_map_u64(fold_row(report, "days", "day", "2026-10-24"), "billed", 0), 1);
  report = fold_ask(&t, "{\"what\":\"spend\",\"by\":\"day\",\"offsets\":[[0,3600],[1792972800000,28800]]}", &reply);
  assert_int_equal(ctxp_map_u64(fold_row(report, "days", "day", "2026-10-25"), "billed", 0), 1 + 9 + 17);
  report = fold_ask(&t, "{\"what\":\"spend\",\"by\":\"day\",\"offsets\":[[0,28800]]}", &reply);
  assert_int_equal(ctxp_map_u64(fold_row(report, "days", "day", "2026-10-26"), "billed", 0), 17);
}

static void since_counts_requests_at_or_after_it(void **state) {
  ctxp_auto_buf reply = {0};
  (void)state;
  fold_open(&t, NULL);
  for (unsigned s = 0; s < 3; s++)
    fold_push(&t, "{\"ts\":\"2026-10-25T00:00:0%u.000Z\",\"kind\":\"prompt\",\"callId\":\"c%u\",\"keep\":0,\"usage\":{\"input\":%u,\"output\":0}}",
        s, s, 1u << s);
  struct ctxp_raw report = fold_ask(&t, "{\"what\":\"spend\",\"since\":1792886401000}", &reply);
  assert_int_equal(ctxp_map_u64(ctxp_map_get(report, "totals"), "billed", 0), 2 + 4);
  assert_int_equal(ctxp_raw_type(ctxp_map_get(report, "potential")), CTXP_PACK_NIL);
  report = fold_ask(&t, "{\"what\":\"spend\",\"since\":1792886401001}", &reply);
  assert_int_equal(ctxp_map_u64(ctxp_map_get(report, "totals"), "billed", 0), 4);
  fold_ask_in_vain(&t, "{\"what\":\"spend\",\"since\":1792886402001}");
  fold_ask_in_vain(&t, "{\"what\":\"spend\",\"model\":\"none\"}");
}

/* numbers of requests are those of the window, also where only some were asked for */
static void a_narrowed_row_says_when_it_was_there(void **state) {
  ctxp_auto_buf reply = {0};
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t, "{\"kind\":\"context_message\",\"id\":\"m\",\"role\":\"user\",\"band\":\"user_prompt\",\"tokens\":10}");
  for (unsigned i = 0; i < 5; i++)
    fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"c%u\",\"model\":\"%s\",\"keep\":%u%s,\"usage\":{\"input\":100,\"output\":0}}", i,
        i % 2 ? "x/odd" : "x/even", i ? 1 : 0, i ? "" : ",\"append\":[{\"id\":\"m\"}]");
  struct ctxp_raw row = fold_row(fold_ask(&t, "{\"what\":\"spend\",\"by\":\"message\",\"model\":\"x/odd\"}", &reply), "messages", "label", "m");
  assert_int_equal(ctxp_map_u64(row, "turns", 0), 2);
  assert_int_equal(ctxp_map_u64(row, "first", 0), 2);
  assert_int_equal(ctxp_map_u64(row, "last", 0), 4);
  assert_int_equal(ctxp_map_u64(row, "own", 0), 10);
  assert_int_equal(ctxp_map_u64(row, "billed", 0), 200);
}

static void a_row_with_and_without_a_price_says_so(void **state) {
  ctxp_auto_buf reply = {0};
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  for (unsigned i = 0; i < 3; i++) {
    fold_push(&t, "{\"kind\":\"context_message\",\"id\":\"m%u\",\"role\":\"user\",\"band\":\"user_prompt\",\"tokens\":10}", i);
    fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"c%u\",\"model\":\"%s\",\"keep\":%u,\"append\":[{\"id\":\"m%u\"}],\"usage\":{\"input\":100,\"output\":0}}",
        i, i == 1 ? "nobody" : models[0], i == 2 ? 0 : i, i);
  }
  struct ctxp_raw report = fold_ask(&t, "{\"what\":\"spend\",\"by\":\"message\"}", &reply);
  assert_true(ctxp_map_bool(fold_row(report, "messages", "label", "m0"), "partlyPriced", false));
  assert_false(ctxp_map_bool(fold_row(report, "messages", "label", "m1"), "partlyPriced", true)); /* it has none at all */
  assert_false(ctxp_map_bool(fold_row(report, "messages", "label", "m2"), "partlyPriced", true));
}

/* ---- explained ---- */
static struct ctxp_raw explain(const char *kind, struct ctxp_str name, struct ctxp_buf *reply) {
  ctxp_auto_buf query = {0};
  ctxp_buf_printf(&query, "{\"what\":\"explain\",\"kind\":\"%s\",\"name\":\"%.*s\"}", kind, (int)name.len, name.ptr);
  return fold_ask(&t, ctxp_buf_cstr(&query), reply);
}

static uint64_t input_of(struct ctxp_raw q) {
  return ctxp_map_u64(q, "input", 0) + ctxp_map_u64(q, "cacheRead", 0) + ctxp_map_u64(q, "cacheWrite5m", 0) +
      ctxp_map_u64(q, "cacheWrite1h", 0);
}

struct sums {
  uint64_t billed, cost, tiered;
};

static struct sums add_requests(struct ctxp_raw windows) {
  struct ctxp_cursor it = ctxp_cursor(windows), in;
  struct ctxp_raw window, q;
  struct sums sum = {0, 0, 0};
  uint32_t left, inner;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (ctxp_array_next(&it, &left, &window) > 0) {
    in = ctxp_cursor(ctxp_map_get(window, "requests"));
    assert_int_equal(ctxp_array_open(&in, &inner), 0);
    assert_true(inner > 0);
    while (ctxp_array_next(&in, &inner, &q) > 0) {
      uint64_t billed = ctxp_map_u64(q, "billed", 0), all = ctxp_map_u64(q, "window", 0);
      uint64_t expected = all ? input_of(q) * ctxp_map_u64(q, "size", 0) / all : 0;
      assert_in_range(billed, expected, expected + 1);
      sum.billed += billed;
      sum.cost += ctxp_map_u64(q, "costNano", 0);
      sum.tiered += ctxp_map_u64(q, "costTieredNano", 0);
    }
  }
  return sum;
}

static void check_rows(struct ctxp_raw report, const char *list, const char *key, const char *kind) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(report, list));
  struct ctxp_raw row;
  ctxp_auto_buf reply = {0};
  uint32_t left;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  assert_true(left > 0);
  while (ctxp_array_next(&it, &left, &row) > 0) {
    struct ctxp_str name = ctxp_map_str(row, key);
    bool part = ctxp_str_is(name, "thinking") || ctxp_str_ends(name, "not recorded");
    if (ctxp_map_u64(row, "billed", 0) == 0) continue;
    struct ctxp_raw got = explain(part ? "part" : kind, name, &reply), whole = ctxp_map_get(got, "row");
    struct sums sum = add_requests(ctxp_map_get(got, "windows"));
    assert_int_equal(ctxp_map_u64(whole, "billed", 0), ctxp_map_u64(row, "billed", 1));
    assert_int_equal(sum.billed, ctxp_map_u64(row, "billed", 1));
    assert_int_equal(sum.cost, ctxp_map_u64(row, "costNano", 0));
    assert_int_equal(sum.tiered, ctxp_map_u64(row, "costTieredNano", 0));
  }
}

static void every_row_is_the_sum_of_the_requests_that_explain_it(void **state) {
  ctxp_auto_buf reply = {0};
  (void)state;
  for (uint64_t n = 20; n <= 23; n++) {
    draw(n, n % 2 ? NULL : FOLD_ESTIMATE);
    struct ctxp_raw report = fold_ask(&t, "{\"what\":\"spend\",\"by\":\"message\"}", &reply);
    check_rows(report, "messages", "label", "message");
    check_rows(report, "views", "label", "view");
    check_rows(report, "tools", "tool", "tool");
    ctxp_test_close(&t);
  }
  fold_open(&t, NULL);
}

static void what_nobody_is_called_is_not_explained(void **state) {
  (void)state;
  draw(1, NULL);
  fold_ask_in_vain(&t, "{\"what\":\"explain\",\"name\":\"nothing\"}");
  fold_ask_in_vain(&t, "{\"what\":\"explain\",\"name\":\"Read\",\"kind\":\"view\"}");
}

/* ---- the balance ---- */
static void result(unsigned n, const char *tool, const char *band, unsigned tokens) {
  fold_push(&t,
      "{\"kind\":\"context_message\",\"id\":\"a%u\",\"role\":\"assistant\",\"band\":\"assistant\",\"tokens\":10,\"calls\":[{\"id\":\"k%u\","
      "\"name\":\"%s\",\"path\":\"f%u\"}]}",
      n, n, tool, n);
  fold_push(&t, "{\"kind\":\"context_message\",\"id\":\"r%u\",\"role\":\"tool\",\"band\":\"%s\",\"toolCallId\":\"k%u\",\"tokens\":%u}", n, band, n,
      tokens);
}

static void request(unsigned n, const char *model, unsigned keep, const char *append, unsigned input, unsigned read) {
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"q%u\",\"model\":\"%s\",\"keep\":%u,\"append\":[%s],\"usage\":{\"input\":%u,\"cacheRead\":%u,\"output\":0}}",
      n, model, keep, append, input - read, read);
}

static int64_t figure(struct ctxp_raw report, const char *list, const char *name_key, const char *name, const char *key) {
  struct ctxp_raw row = fold_row(ctxp_map_get(report, "balance"), list, name_key, name);
  assert_true(row.len);
  return ctxp_map_i64(row, key, INT64_MIN);
}

static int64_t sum_of(struct ctxp_raw report, const char *list, const char *key) {
  struct ctxp_raw items = ctxp_map_get(ctxp_map_get(report, "balance"), list), row;
  struct ctxp_cursor it = ctxp_cursor(items);
  uint32_t left;
  int64_t sum = 0;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (ctxp_array_next(&it, &left, &row) > 0) sum += ctxp_map_i64(row, key, 0);
  return sum;
}

static void digest_and_remove(void) {
  fold_open(&t, NULL);
  result(1, "Bash", "tool_output", 300);
  fold_push(&t, "{\"ts\":\"2026-11-01T00:00:01.000Z\",\"kind\":\"aux\",\"mechanism\":\"bash\",\"model\":\"claude-haiku-4-5-20251001\",\"inputTokens\":50,"
                "\"outputTokens\":7,\"durationMs\":1,\"outcome\":\"ok\"}");
  fold_push(&t, "{\"ts\":\"2026-11-01T00:00:01.000Z\",\"kind\":\"bash\",\"toolCallId\":\"k1\",\"command\":\"x\",\"originalTokens\":1300,\"summaryTokens\":300,"
                "\"saved\":1000}");
  request(1, models[0], 0, "{\"id\":\"a1\"},{\"id\":\"r1\"}", 20000, 0);
  result(2, "Read", "file_view", 400);
  result(3, "Read", "file_view", 1200);
  request(2, models[0], 2, "{\"id\":\"a2\"},{\"id\":\"r2\"},{\"id\":\"a3\"},{\"id\":\"r3\"}", 22000, 20000);
  fold_push(&t, "{\"kind\":\"amnesia-remove\",\"saved\":1600,\"messageCount\":2,\"droppedResultIds\":[\"k2\",\"k3\"]}");
  request(3, models[0], 2, "", 20400, 1000);
  request(4, models[0], 2, "", 20500, 20000);
}

static void what_was_kept_out_stands_with_its_view_and_tool(void **state) {
  ctxp_auto_buf reply = {0};
  (void)state;
  digest_and_remove();
  struct ctxp_raw report = fold_ask(&t, "{\"what\":\"spend\"}", &reply);
  assert_int_equal(figure(report, "tools", "tool", "Bash", "carried"), 4 * 1000);
  assert_int_equal(figure(report, "tools", "tool", "Bash", "aux"), 57);
  assert_int_equal(figure(report, "tools", "tool", "Bash", "auxCostNano"), 50 * 1000 + 7 * 5000); /* $1 and $5 a million */
  assert_int_equal(figure(report, "tools", "tool", "Read", "carried"), 2 * 1600);
  assert_int_equal(figure(report, "views", "label", "f2", "carried"), 2 * 400);
  assert_int_equal(figure(report, "views", "label", "f3", "carried"), 2 * 1200);
  assert_int_equal(figure(report, "views", "label", "none", "carried"), 4 * 1000); /* the shell's result is no view */
  /* the removal lost 20000 - 1000 tokens of the cache, shared 1 to 3 */
  assert_int_equal(figure(report, "tools", "tool", "Read", "rewritten"), 19000);
  assert_int_equal(figure(report, "views", "label", "f2", "rewritten"), 4750);
  assert_int_equal(figure(report, "views", "label", "f3", "rewritten"), 14250);
  assert_int_equal(figure(report, "tools", "tool", "Read", "gain"), 3200 - 19000);
  uint64_t billed = ctxp_map_u64(fold_row(report, "tools", "tool", "Read"), "billed", 0);
  assert_true(billed > 0);
  assert_int_equal(figure(report, "tools", "tool", "Read", "net"), (int64_t)billed + 3200 - 19000);
}

static void the_balance_adds_up_to_the_ledger(void **state) {
  ctxp_auto_buf reply = {0}, stats = {0};
  (void)state;
  digest_and_remove();
  fold_push(&t, "{\"kind\":\"regret\",\"mechanism\":\"amnesia\",\"toolCallId\":\"k3\",\"tokens\":1200,\"reason\":\"read again\"}");
  request(5, models[0], 2, "{\"id\":\"r3\"}", 21700, 20500);
  fold_push(&t, "{\"kind\":\"compaction\"}");
  request(6, models[0], 0, "{\"id\":\"a1\"}", 18000, 0);
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  struct ctxp_raw report = fold_ask(&t, "{\"what\":\"spend\"}", &reply);
  struct ctxp_raw all = ctxp_map_get(fold_ask(&t, "{\"what\":\"stats\"}", &stats), "all");
  static const char *const lists[] = {"views", "tools"};
  for (unsigned l = 0; l < 2; l++) {
    assert_int_equal(sum_of(report, lists[l], "carried"), ctxp_map_i64(all, "carried", 0));
    assert_int_equal(sum_of(report, lists[l], "carriedCostNano"), ctxp_map_i64(all, "carriedCostNano", 0));
    assert_int_equal(sum_of(report, lists[l], "aux"), ctxp_map_i64(all, "aux", 0));
    assert_int_equal(sum_of(report, lists[l], "regret"), ctxp_map_i64(all, "regret", 0));
    assert_int_equal(sum_of(report, lists[l], "rewritten"), fold_sum(report, "cacheBusts", "tokens") - 18000); /* but for the compaction's */
  }
  assert_int_equal(figure(report, "views", "label", "f3", "regret"), 1200);
  assert_int_equal(ctxp_map_i64(all, "carried", 0), 5 * 1000 + 2 * 1600 + 400);
}

static void the_balance_is_the_same_after_a_restart(void **state) {
  ctxp_auto_buf before = {0}, after = {0};
  (void)state;
  digest_and_remove();
  fold_ask(&t, "{\"what\":\"spend\"}", &before);
  ctxp_test_restart(&t);
  fold_prices(&t, NULL);
  fold_ask(&t, "{\"what\":\"spend\"}", &after);
  assert_int_equal(before.len, after.len);
  assert_memory_equal(before.ptr, after.ptr, before.len);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(shares_of_the_requests_add_up_to_the_whole_bill, close_fold),
      cmocka_unit_test_teardown(bills_of_all_models_add_up_to_the_whole, close_fold),
      cmocka_unit_test_teardown(every_grouping_adds_up_to_the_total, close_fold),
      cmocka_unit_test_teardown(a_day_begins_where_the_zone_says, close_fold),
      cmocka_unit_test_teardown(since_counts_requests_at_or_after_it, close_fold),
      cmocka_unit_test_teardown(a_narrowed_row_says_when_it_was_there, close_fold),
      cmocka_unit_test_teardown(a_row_with_and_without_a_price_says_so, close_fold),
      cmocka_unit_test_teardown(every_row_is_the_sum_of_the_requests_that_explain_it, close_fold),
      cmocka_unit_test_teardown(what_nobody_is_called_is_not_explained, close_fold),
      cmocka_unit_test_teardown(what_was_kept_out_stands_with_its_view_and_tool, close_fold),
      cmocka_unit_test_teardown(the_balance_adds_up_to_the_ledger, close_fold),
      cmocka_unit_test_teardown(the_balance_is_the_same_after_a_restart, close_fold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
