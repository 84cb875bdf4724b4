/* The bill: prices, corrections, residency, views and tools, cache busts, and the rows that are told. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "fold_test.h"

static struct ctxp_test t;
static struct ctxp_buf reply;

static int open_fold(void **state) {
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  return 0;
}

static int close_fold(void **state) {
  (void)state;
  ctxp_test_close(&t);
  ctxp_buf_deinit(&reply);
  return 0;
}

static struct ctxp_raw report(void) { return fold_ask(&t, "{\"what\":\"spend\",\"by\":\"message\"}", &reply); }
static struct ctxp_raw totals(void) { return ctxp_map_get(report(), "totals"); }
static uint64_t total(const char *key) { return ctxp_map_u64(totals(), key, UINT64_MAX); }

static uint64_t figure(const char *list, const char *key, const char *text, const char *name) {
  struct ctxp_raw row = fold_row(report(), list, key, text);
  if (!row.len) fail_msg("%s has no row %s", list, text);
  return ctxp_map_u64(row, name, UINT64_MAX);
}

static void message(const char *id, const char *role, const char *band, unsigned tokens, const char *more) {
  fold_push(
      &t, "{\"kind\":\"context_message\",\"id\":\"%s\",\"role\":\"%s\",\"band\":\"%s\",\"tokens\":%u%s}", id, role, band, tokens, more);
}

static void expect_closed(void) {
  struct ctxp_raw r = report(), all = ctxp_map_get(r, "totals");
  uint64_t billed = ctxp_map_u64(all, "billed", 1), cost = ctxp_map_u64(all, "costInputNano", 1);
  static const char *const grains[] = {"bands", "messages"};
  for (unsigned g = 0; g < 2; g++) {
    assert_int_equal(fold_sum(r, grains[g], "billed"), billed);
    assert_int_equal(fold_sum(r, grains[g], "costNano"), cost);
    assert_int_equal(fold_sum(r, grains[g], "costTieredNano"), cost);
  }
}

/* ---- prices: the figures of the import cases ---- */
static void expect_cost(const char *model, const char *usage, int64_t nano, uint64_t unpriced) {
  static unsigned n;
  char query[128];
  fold_push(&t, "{\"kind\":\"prompt\",\"session\":\"p%u\",\"callId\":\"price-%u\",\"model\":\"%s\",\"usage\":{%s}}", n, n, model, usage);
  snprintf(query, sizeof(query), "{\"what\":\"spend\",\"session\":\"p%u\"}", n++);
  struct ctxp_raw all = ctxp_map_get(fold_ask(&t, query, &reply), "totals");
  assert_int_equal(ctxp_map_i64(all, "costNano", -1), nano);
  assert_int_equal(ctxp_map_u64(all, "unpricedTokens", 99), unpriced);
}

static void requests_cost_what_the_import_cases_say(void **state) {
  (void)state;
  expect_cost("claude-sonnet-4-5-20250929", "\"input\":10,\"cacheRead\":100000,\"cacheWrite5m\":20000,\"output\":500", 112530000, 0);
  expect_cost("claude-sonnet-4-5-20250929", "\"input\":10,\"cacheWrite1h\":150000,\"output\":500", 907530000, 0);
  expect_cost(
      "claude-haiku-4-5-20251001", "\"input\":8,\"cacheRead\":40000,\"cacheWrite5m\":5000,\"output\":300", 124288000 - 112530000, 0);
  expect_cost("gpt-5", "\"input\":4000,\"cacheRead\":18000,\"output\":1000", 17250000, 0);
}

static void the_long_context_tier_holds_for_the_whole_request_above_the_limit(void **state) {
  (void)state;
  expect_cost("claude-sonnet-4-5-20250929", "\"input\":250000,\"output\":1000", 1522500000, 0);
  expect_cost("claude-sonnet-4-5-20250929", "\"input\":150000,\"cacheRead\":50000,\"output\":1000", 480000000, 0);
  expect_cost("claude-sonnet-4-5-20250929", "\"input\":150000,\"cacheRead\":50001,\"output\":0", 930000600, 0);
}

static void an_unknown_model_is_unpriced_and_its_tokens_count(void **state) {
  (void)state;
  expect_cost("nobody-knows-1", "\"input\":10,\"cacheRead\":100000,\"cacheWrite5m\":20000,\"output\":500", 0, 120510);
}

static void a_class_without_a_price_leaves_its_side_unpriced(void **state) {
  (void)state;
  expect_cost("gpt-5", "\"input\":1000,\"cacheWrite5m\":1,\"output\":100", 1000000, 1001); /* the output has a price */
}

static void a_cost_is_rounded_half_up_once_over_its_classes(void **state) {
  (void)state;
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"r\",\"model\":\"gpt-5\",\"usage\":{\"input\":1,\"cacheRead\":1,\"output\":1}}");
  assert_int_equal(total("costInputNano"), 1250 + 125);
  assert_int_equal(total("costNano"), 1250 + 125 + 10000);
  expect_cost("x/half", "\"input\":1", 13, 0); /* 12.5 nano-dollars */
  expect_cost("x/half", "\"input\":1,\"cacheRead\":1", 25, 0);
  expect_cost("x/half", "\"input\":1,\"output\":1", 25, 0);
}

static void a_reported_cost_beats_the_table_and_zeros_are_no_report(void **state) {
  (void)state;
  message("m", "user", "user_prompt", 10, "");
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"v/"
      "m\",\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":100,\"cacheRead\":50,\"cacheWrite5m\":7,\"output\":9},"
      "\"cost\":{\"input\":0.5,\"cacheRead\":0.25,\"cacheWrite\":0.125,\"output\":1,\"total\":1.875}}");
  assert_int_equal(total("costInputNano"), 875000000);
  assert_int_equal(total("costNano"), 1875000000);
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"b\",\"model\":\"v/"
      "m\",\"keep\":1,\"usage\":{\"input\":100},\"cost\":{\"input\":0,\"cacheRead\":0,\"cacheWrite\":0,\"output\":0,\"total\":0}}");
  assert_int_equal(total("costInputNano"), 875000000 + 1000000);
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"c\",\"model\":\"free\",\"keep\":1,\"usage\":{\"input\":100},\"cost\":{\"input\":0,\"cacheRead\":0,"
      "\"cacheWrite\":0,\"output\":0,\"total\":0}}");
  assert_int_equal(total("costInputNano"), 876000000);
  assert_int_equal(total("unpricedTokens"), 100);
  expect_closed();
}

static void a_row_without_any_priced_request_has_no_cost(void **state) {
  (void)state;
  message("m", "user", "user_prompt", 10, "");
  message("n", "user", "memory", 10, "");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"free\",\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":100}}");
  assert_int_equal(ctxp_raw_type(ctxp_map_get(fold_row(report(), "bands", "band", "user_prompt"), "costNano")), CTXP_PACK_NIL);
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"b\",\"model\":\"v/m\",\"append\":[{\"id\":\"n\"}],\"usage\":{\"input\":100}}");
  assert_int_equal(ctxp_raw_type(ctxp_map_get(fold_row(report(), "bands", "band", "user_prompt"), "costNano")), CTXP_PACK_NIL);
  assert_int_equal(figure("bands", "band", "memory", "costNano"), 1000000);
}

/* ---- what is resident ---- */
static void the_same_response_bills_once_over_all_windows(void **state) {
  (void)state;
  message("m", "user", "user_prompt", 10, "");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"v/m\",\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":100}}");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"v/m\",\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":100}}");
  assert_int_equal(total("requests"), 1);
  message("m", "user", "user_prompt", 10, ",\"session\":\"fork\"");
  fold_push(&t,
      "{\"kind\":\"prompt\",\"session\":\"fork\",\"callId\":\"a\",\"model\":\"v/"
      "m\",\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":100}}");
  assert_int_equal(total("requests"), 1);
  assert_int_equal(total("billed"), 100);
  assert_int_equal(total("sessions"), 1);
  /* the repeat formed its window */
  fold_push(&t,
      "{\"kind\":\"prompt\",\"session\":\"fork\",\"callId\":\"b\",\"model\":\"v/m\",\"keep\":1,\"usage\":{\"input\":30}}");
  assert_int_equal(t.refused, 0);
  assert_int_equal(total("billed"), 130);
  assert_int_equal(figure("bands", "band", "user_prompt", "billed"), 130);
  assert_int_equal(figure("bands", "band", "user_prompt", "turns"), 2);
  assert_int_equal(figure("bands", "band", "user_prompt", "own"), 20);
}

static void more_usage_of_the_same_response_corrects_it_where_it_was_billed(void **state) {
  (void)state;
  message("m", "user", "user_prompt", 30, "");
  message("n", "user", "memory", 10, "");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"v/m\",\"append\":[{\"id\":\"m\"}]}");
  assert_int_equal(total("requestsUnreported"), 1);
  fold_push(
      &t, "{\"kind\":\"prompt\",\"callId\":\"b\",\"model\":\"v/m\",\"keep\":1,\"append\":[{\"id\":\"n\"}],\"usage\":{\"input\":400}}");
  assert_int_equal(figure("bands", "band", "memory", "billed"), 100);
  fold_push(&t, "{\"kind\":\"prompt\",\"session\":\"other\",\"callId\":\"a\",\"usage\":{\"input\":1000,\"output\":5}}");
  assert_int_equal(total("requestsUnreported"), 0);
  assert_int_equal(total("requests"), 2);
  assert_int_equal(total("billed"), 1400);
  assert_int_equal(total("output"), 5);
  assert_int_equal(total("costInputNano"), 14000000); /* at the price of the model that was named first */
  assert_int_equal(figure("bands", "band", "user_prompt", "billed"), 1300);
  assert_int_equal(figure("bands", "band", "memory", "billed"), 100);
  fold_push(
      &t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"v/m\",\"keep\":2,\"usage\":{\"input\":900}}"); /* less: an earlier state */
  assert_int_equal(total("billed"), 1400);
  expect_closed();
}

static void a_definition_may_come_after_its_first_use(void **state) {
  (void)state;
  fold_push(
      &t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"v/m\",\"append\":[{\"id\":\"m\"},{\"id\":\"n\"}],\"usage\":{\"input\":100}}");
  message("m", "user", "user_prompt", 10, "");
  assert_int_equal(figure("bands", "band", "user_prompt", "billed"), 100);
  assert_int_equal(figure("messages", "label", "undefined", "messages"), 1);
  assert_int_equal(figure("messages", "label", "undefined", "billed"), 0);
  message("n", "user", "memory", 30, "");
  assert_int_equal(figure("bands", "band", "user_prompt", "billed"), 25);
  assert_int_equal(figure("bands", "band", "memory", "billed"), 75);
  assert_int_equal(fold_row(report(), "messages", "label", "undefined").len, 0);
}

static void a_request_without_any_estimate_is_unattributed(void **state) {
  (void)state;
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"v/m\",\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":100}}");
  assert_int_equal(figure("bands", "band", "unattributed", "billed"), 100);
  assert_int_equal(figure("bands", "band", "unattributed", "costNano"), 1000000);
  assert_int_equal(figure("messages", "label", "unattributed", "billed"), 100);
  expect_closed();
}

static void a_message_that_changes_band_is_in_each_row_for_its_requests(void **state) {
  (void)state;
  message("m", "user", "file_view", 10, ",\"label\":\"a.c\"");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"v/m\",\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":100}}");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"b\",\"model\":\"v/m\",\"keep\":1,\"usage\":{\"input\":100}}");
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"c\",\"model\":\"v/"
      "m\",\"request\":[{\"id\":\"m\",\"band\":\"history\"}],\"usage\":{\"input\":50}}");
  assert_int_equal(figure("bands", "band", "file_view", "billed"), 200);
  assert_int_equal(figure("bands", "band", "file_view", "turns"), 2);
  assert_int_equal(figure("bands", "band", "history", "billed"), 50);
  assert_int_equal(figure("bands", "band", "history", "first"), 3);
  assert_int_equal(figure("views", "label", "a.c", "billed"), 200);
  assert_int_equal(figure("messages", "label", "m", "billed"), 250);
  assert_int_equal(figure("messages", "label", "m", "turns"), 3);
  assert_int_equal(figure("messages", "label", "m", "own"), 10);
  expect_closed();
}

static void a_message_that_comes_back_is_the_same_material(void **state) {
  (void)state;
  message("m", "user", "memory", 10, "");
  message("n", "user", "user_prompt", 10, "");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"append\":[{\"id\":\"n\"},{\"id\":\"m\"}],\"usage\":{\"input\":100}}");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"b\",\"keep\":1,\"usage\":{\"input\":100}}");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"c\",\"keep\":1,\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":100}}");
  assert_int_equal(figure("bands", "band", "memory", "own"), 10);
  assert_int_equal(figure("bands", "band", "memory", "messages"), 1);
  assert_int_equal(figure("bands", "band", "memory", "turns"), 2);
  assert_int_equal(figure("bands", "band", "memory", "billed"), 100);
  assert_int_equal(figure("bands", "band", "memory", "last"), 3);
}

static void a_keep_beyond_the_window_takes_what_there_is_and_is_told(void **state) {
  (void)state;
  message("m", "user", "memory", 10, "");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"keep\":3,\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":100}}");
  assert_int_equal(t.refused, 1);
  assert_string_equal(t.last_refusal, "prompt 'a': keep is 3, but the request before it had 0 messages; the 0 that are known are kept");
  assert_int_equal(figure("bands", "band", "memory", "billed"), 100);
}

/* 1000 tokens at 3 dollars a million; what the provider said of its cost cannot be right */
static void cost_not_taken(const char *call, const char *cost, const char *said) {
  uint64_t requests = total("requests"), input = total("input"), money = total("costInputNano");
  unsigned refused = t.refused;
  char sentence[256];
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"%s\",\"model\":\"claude-sonnet-4-5-20250929\",\"usage\":{\"input\":1000},\"cost\":%s}",
      call, cost);
  snprintf(sentence, sizeof(sentence), "prompt '%s': %s; that is not taken, the tokens of the call are counted", call, said);
  assert_string_equal(t.last_refusal, sentence);
  assert_int_equal(t.refused, refused + 1);
  assert_int_equal(total("requests"), requests + 1);
  assert_int_equal(total("input"), input + 1000);
  assert_int_equal(total("costInputNano"), money + 3000000);
}

static void a_cost_that_cannot_be_right_leaves_the_tokens_counted_at_the_tables_price(void **state) {
  (void)state;
  cost_not_taken("a", "{\"input\":-0.001,\"output\":0.002}", "a part of its cost is negative");
  cost_not_taken("b", "{\"input\":17593}", "a part of its cost is beyond what one call can cost");
  cost_not_taken("c", "{\"input\":0.001,\"output\":0.002,\"total\":0.002}", "cost.total is not the sum of its parts");
  cost_not_taken("e", "{\"output\":0.002}", "its cost says nothing of some of its tokens");
  cost_not_taken("d", "{\"input\":0.001,\"total\":-0.001}", "cost.total is not the sum of its parts");
}

static void a_cost_without_usage_is_told_and_the_request_counts_as_unreported(void **state) {
  (void)state;
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"claude-sonnet-4-5-20250929\",\"cost\":{\"total\":0.5}}");
  assert_string_equal(t.last_refusal, "prompt 'a': it has a cost and no usage; that is not taken, the tokens of the call are counted");
  assert_int_equal(total("requestsUnreported"), 1);
  assert_int_equal(total("costNano"), 0);
}

/* a size that becomes known after the last bill: the log says the bill again, as the report has it */
static void a_definition_after_the_end_has_the_last_bill_said_again(void **state) {
  (void)state;
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":100}}");
  fold_push(&t, "{\"kind\":\"session_end\"}");
  unsigned said = t.emitted_count;
  fold_push(&t, "{\"kind\":\"session_end\"}");
  assert_int_equal(t.emitted_count, said);
  message("m", "user", "memory", 10, "");
  fold_push(&t, "{\"kind\":\"session_end\"}");
  assert_int_equal(t.emitted_count, said + 1);
  const struct ctxp_spend *last = &t.emitted[said].event.spend;
  assert_true(last->final);
  assert_int_equal(last->unattributed, 0);
  assert_int_equal(last->billed, 100);
  assert_int_equal(figure("bands", "band", "memory", "billed"), 100);
}

static void a_cost_that_adds_up_to_the_rounding_is_taken(void **state) {
  (void)state;
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"claude-sonnet-4-5-20250929\",\"usage\":{\"input\":1000,\"output\":5},"
      "\"cost\":{\"input\":0.001000001,\"output\":0.002,\"total\":0.003000003}}");
  assert_int_equal(t.refused, 0);
  assert_int_equal(total("costInputNano"), 1000001);
  assert_int_equal(total("costNano"), 3000001);
}

static void reasoning_beyond_the_output_counts_as_the_output(void **state) {
  (void)state;
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"usage\":{\"input\":10,\"output\":7,\"reasoning\":8}}");
  assert_int_equal(total("output"), 7);
  assert_int_equal(total("reasoning"), 7);
  assert_int_equal(total("billed"), 10);
  assert_int_equal(t.refused, 1);
  assert_string_equal(
      t.last_refusal, "prompt 'a': usage.reasoning is more than usage.output; that is not taken, the tokens of the call are counted");
}

static void reasoning_beside_the_output_costs_as_much_and_is_not_added_to_it(void **state) {
  (void)state;
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"claude-sonnet-4-5-20250929\",\"usage\":{\"input\":1000,\"output\":5,\"reasoning\":"
      "8,"
      "\"reasoningApart\":true}}");
  assert_int_equal(t.refused, 0);
  assert_int_equal(total("output"), 5);
  assert_int_equal(total("reasoning"), 8);
  assert_int_equal(total("costNano"), 1000 * 3000 + 13 * 15000);
}

/* ---- by position in the cached prefix ---- */
static void the_cached_prefix_pays_the_read_rate_and_the_newcomer_the_rest(void **state) {
  (void)state;
  message("old", "user", "system", 900, "");
  message("new", "user", "memory", 100, "");
  /* 2000 reported for 1000 estimated: 1800 of them are old, and read; 200 are new, 100 of them written */
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"claude-sonnet-4-5-20250929\",\"append\":[{\"id\":\"old\"},{\"id\":\"new\"}],"
      "\"usage\":{\"input\":100,\"cacheRead\":1800,\"cacheWrite5m\":100}}");
  uint64_t read = 1800 * 300, write = 100 * 3750, plain = 100 * 3000;
  assert_int_equal(figure("messages", "label", "old", "costTieredNano"), read);
  assert_int_equal(figure("messages", "label", "new", "costTieredNano"), write + plain);
  assert_int_equal(figure("messages", "label", "old", "costNano"), (read + write + plain) * 9 / 10);
  expect_closed();
}

static void a_message_across_a_border_pays_each_part_at_its_rate(void **state) {
  (void)state;
  message("a", "user", "system", 600, "");
  message("b", "user", "memory", 400, "");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"claude-sonnet-4-5-20250929\",\"append\":[{\"id\":\"a\"},{\"id\":\"b\"}],"
                "\"usage\":{\"input\":200,\"cacheRead\":500,\"cacheWrite1h\":300}}");
  assert_int_equal(figure("messages", "label", "a", "costTieredNano"), 500 * 300 + 100 * 6000);
  assert_int_equal(figure("messages", "label", "b", "costTieredNano"), 200 * 6000 + 200 * 3000);
  expect_closed();
}

/* ---- views and tools ---- */
static void paths_are_compared_against_the_working_directory(void **state) {
  (void)state;
  fold_push(&t, "{\"kind\":\"session_start\",\"product\":\"pi\",\"cwd\":\"/home/dev/p\"}");
  message("a", "tool", "file_view", 10, ",\"label\":\"src/./x.c\"");
  message("b", "tool", "file_view", 10, ",\"label\":\"/home/dev/p/src/x.c\"");
  message("c", "tool", "file_view", 10, ",\"label\":\"../p/lib/../src//x.c\"");
  message("d", "tool", "text_view", 10, ",\"label\":\"src/x.c\"");
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"a\",\"append\":[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"c\"},{\"id\":\"d\"}],\"usage\":{\"input\":"
      "40}}");
  struct ctxp_raw row = fold_row(report(), "views", "kind", "file");
  assert_true(ctxp_str_is(ctxp_map_str(row, "label"), "src/./x.c")); /* as it was first said */
  assert_int_equal(ctxp_map_u64(row, "billed", 0), 30);
  assert_int_equal(ctxp_map_u64(row, "messages", 0), 3);
  assert_int_equal(ctxp_map_u64(fold_row(report(), "views", "kind", "text"), "billed", 0), 10);
}

static void a_tools_row_tells_how_much_became_views_and_what_its_arguments_cost(void **state) {
  (void)state;
  message("call", "assistant", "assistant", 40,
      ",\"calls\":[{\"id\":\"k1\",\"name\":\"Read\",\"path\":\"x.c\",\"tokens\":10},{\"id\":\"k2\",\"name\":\"Bash\",\"tokens\":20}]");
  message("r1", "tool", "file_view", 30, ",\"toolCallId\":\"k1\"");
  message("r2", "tool", "tool_output", 20, ",\"toolCallId\":\"k2\"");
  message("r3", "tool", "tool_output", 10, ",\"toolCallId\":\"k1\"");
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"a\",\"append\":[{\"id\":\"call\"},{\"id\":\"r1\"},{\"id\":\"r2\"},{\"id\":\"r3\"}],\"usage\":{"
      "\"input\":1000}}");
  assert_int_equal(figure("tools", "tool", "Read", "billed"), 400);
  assert_int_equal(figure("tools", "tool", "Read", "asViews"), 300);
  assert_int_equal(figure("tools", "tool", "Read", "arguments"), 100);
  assert_int_equal(figure("tools", "tool", "Read", "messages"), 2);
  assert_int_equal(figure("tools", "tool", "Bash", "billed"), 200);
  assert_int_equal(figure("tools", "tool", "Bash", "asViews"), 0);
  assert_int_equal(figure("tools", "tool", "Bash", "arguments"), 200);
  assert_int_equal(figure("views", "label", "x.c", "billed"), 300);
}

/* ---- cache busts ---- */
static void a_collapse_of_the_cached_share_is_booked_on_its_cause(void **state) {
  (void)state;
  static const struct {
    const char *model, *before;
    unsigned gap_s;
    const char *cause;
  } cases[] = {{"v/m", "{\"kind\":\"compaction\"}", 1, "compaction"}, {"v/nocache", NULL, 1, "model"},
      {"v/nocache", "{\"kind\":\"amnesia-remove\",\"saved\":5,\"messageCount\":1,\"droppedResultIds\":[\"x\"]}", 1, "removal"},
      {"v/nocache", NULL, 301, "idle"}, {"v/nocache", NULL, 300, "unknown"}};
  unsigned time_s = 0;
  const char *model = "v/m";
  for (unsigned i = 0; i < 5; i++) {
    time_s += 1; /* warms the cache, on the model of the cold request before it */
    fold_push(&t,
        "{\"ts\":\"2026-09-01T08:%02u:%02u.000Z\",\"kind\":\"prompt\",\"callId\":\"w%u\",\"model\":\"%s\",\"usage\":{\"input\":0,"
        "\"cacheRead\":20000}}",
        time_s / 60, time_s % 60, i, model);
    time_s += cases[i].gap_s;
    model = cases[i].model;
    if (cases[i].before) fold_push(&t, "%s", cases[i].before);
    fold_push(&t,
        "{\"ts\":\"2026-09-01T08:%02u:%02u.000Z\",\"kind\":\"prompt\",\"callId\":\"b%u\",\"model\":\"%s\",\"usage\":{\"input\":20000}}",
        time_s / 60, time_s % 60, i, model);
    assert_int_equal(figure("cacheBusts", "cause", cases[i].cause, "tokens"), 20000);
  }
  assert_int_equal(fold_sum(report(), "cacheBusts", "count"), 5);
}

/* ---- what is emitted ---- */
static void a_live_session_is_told_by_band_each_turn_and_in_rows_every_so_often(void **state) {
  (void)state;
  ctxp_test_close(&t);
  fold_open(&t, "{\"sizes\":\"estimate\",\"spend_every\":2,\"top\":1}");
  message("m", "user", "user_prompt", 30, "");
  message("n", "user", "file_view", 50, ",\"label\":\"b.c\"");
  message("o", "user", "file_view", 20, ",\"label\":\"a.c\"");
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"v/"
      "m\",\"append\":[{\"id\":\"m\"},{\"id\":\"n\"},{\"id\":\"o\"}],\"usage\":{\"input\":1000}}");
  fold_push(&t, "{\"ts\":\"2026-09-01T08:00:00.000Z\",\"kind\":\"turn_end\",\"turn\":0}");
  fold_push(&t, "{\"ts\":\"2026-09-01T08:00:01.000Z\",\"kind\":\"turn_end\",\"turn\":1}");
  char *lines = fold_lines(&t, "spend", true);
#define HEAD(ts) \
  "{\"ts\":\"" ts "\",\"kind\":\"spend\",\"requests\":1,\"windowTokens\":100,\"billed\":1000,\"cost\":0.01,\"unpricedInput\":0," \
  "\"unattributed\":0,\"bands\":[" \
  "{\"label\":\"file_view\",\"band\":\"file_view\",\"own\":70,\"billed\":700,\"cost\":0.007,\"costTiered\":0.007,\"messages\":2," \
  "\"turns\":1,\"first\":1,\"last\":1}," \
  "{\"label\":\"user_prompt\",\"band\":\"user_prompt\",\"own\":30,\"billed\":300,\"cost\":0.003,\"costTiered\":0.003,\"messages\":1," \
  "\"turns\":1,\"first\":1,\"last\":1}]"
  assert_string_equal(lines,
      HEAD("2026-09-01T08:00:00.000Z") "}\n" HEAD(
          "2026-09-01T08:00:01.000Z") ",\"views\":[{\"label\":\"b.c\",\"kind\":\"file\",\"band\":\"file_view\",\"own\":50,\"billed\":500,"
                                      "\"cost\":0.005,\"costTiered\":0.005,\"messages\":1,\"turns\":1,\"first\":1,\"last\":1},"
                                      "{\"label\":\"others\",\"own\":20,\"billed\":200,\"cost\":0.002,\"costTiered\":0.002,\"messages\":1,"
                                      "\"turns\":1,\"first\":1,\"last\":1}],\"tools\":[],"
                                      "\"messages\":[{\"label\":\"n\",\"band\":\"file_view\",\"own\":50,\"billed\":500,\"cost\":0.005,"
                                      "\"costTiered\":0.005,\"messages\":1,\"turns\":1,\"first\":1,\"last\":1},"
                                      "{\"label\":\"others\",\"own\":50,\"billed\":500,\"cost\":0.005,\"costTiered\":0.005,\"messages\":2,"
                                      "\"turns\":1,\"first\":1,\"last\":1}]}\n");
  free(lines);
}

static unsigned count_spends(void) {
  unsigned n = 0;
  for (unsigned i = 0; i < t.emitted_count; i++) n += t.emitted[i].event.kind == CTXP_KIND_spend;
  return n;
}

static void a_recorded_session_is_told_at_its_end_only(void **state) {
  (void)state;
  fold_push(&t, "{\"kind\":\"session_start\",\"product\":\"pi\",\"recorded\":true}");
  message("m", "user", "user_prompt", 30, "");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"model\":\"v/m\",\"append\":[{\"id\":\"m\"}],\"usage\":{\"input\":1000}}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  assert_int_equal(count_spends(), 0);
  fold_push(&t, "{\"kind\":\"session_end\"}");
  assert_int_equal(count_spends(), 1);
  assert_true(t.emitted[t.emitted_count - 1].event.spend.final);
  fold_push(&t, "{\"kind\":\"session_end\"}"); /* nothing came since */
  assert_int_equal(count_spends(), 1);
  /* a correction of what was told */
  fold_push(&t,
      "{\"kind\":\"prompt\",\"session\":\"s2\",\"callId\":\"a\",\"model\":\"v/m\",\"usage\":{\"input\":2000}}");
  assert_int_equal(count_spends(), 2);
  const struct ctxp_event *ev = &t.emitted[t.emitted_count - 1].event;
  assert_true(ctxp_str_is(ev->session, "s1"));
  assert_int_equal(ev->spend.billed, 2000);
}

static void a_thread_without_a_start_of_its_own_is_as_recorded_as_its_session(void **state) {
  (void)state;
  fold_push(&t, "{\"kind\":\"session_start\",\"product\":\"claude-code\",\"cwd\":\"/p\",\"recorded\":true}");
  message("m", "user", "file_view", 30, ",\"label\":\"x.c\",\"thread\":\"side\"");
  message("n", "user", "file_view", 30, ",\"label\":\"/p/x.c\",\"thread\":\"side\"");
  fold_push(&t,
      "{\"kind\":\"prompt\",\"thread\":\"side\",\"callId\":\"a\",\"append\":[{\"id\":\"m\"},{\"id\":\"n\"}],\"usage\":{\"input\":1000}}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"thread\":\"side\",\"turn\":0}");
  assert_int_equal(count_spends(), 0);
  assert_true(ctxp_str_is(ctxp_map_str(fold_row(report(), "sessions", "thread", "side"), "product"), "claude-code"));
  assert_int_equal(figure("views", "label", "x.c", "messages"), 2);
}

static void the_end_of_a_session_ends_its_threads(void **state) {
  (void)state;
  fold_push(&t, "{\"kind\":\"prompt\",\"thread\":\"sub\",\"callId\":\"a\",\"model\":\"v/m\",\"usage\":{\"input\":1000}}");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"b\",\"model\":\"v/m\",\"usage\":{\"input\":500}}");
  fold_push(&t, "{\"kind\":\"session_end\"}");
  assert_int_equal(count_spends(), 2);
  assert_int_equal(t.emitted[0].event.spend.billed, 500);
  assert_true(ctxp_str_is(t.emitted[1].event.thread, "sub"));
}

static void an_evicted_message_is_out_of_the_window_until_a_request_names_it(void **state) {
  (void)state;
  message("m", "user", "user_prompt", 30, "");
  message("n", "user", "memory", 70, "");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"a\",\"append\":[{\"id\":\"m\"},{\"id\":\"n\"}],\"usage\":{\"input\":100}}");
  fold_push(&t, "{\"kind\":\"evict\",\"ids\":[\"n\",\"n\"],\"reason\":\"eviction\"}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  assert_int_equal(t.emitted[t.emitted_count - 1].event.spend.windowTokens, 30);
}

static void an_unknown_query_is_answered_with_a_sentence(void **state) {
  (void)state;
  static const uint8_t query[] = {0x81, 0xa4, 'w', 'h', 'a', 't', 0xa3, 'n', 'i', 'x'};
  struct ctxp_error err;
  assert_int_equal(ctxp_stage_query(t.stage, (struct ctxp_raw){query, sizeof(query)}, &reply, &err), -ENOENT);
  assert_string_equal(err.text, "the fold answers spend, explain and stats, not 'nix'");
}

static void refused(const char *query, const char *sentence) {
  ctxp_auto_buf raw = {0};
  struct ctxp_error err;
  assert_int_equal(ctxp_json_to_raw(ctxp_str(query), &raw, &err), 0);
  ctxp_buf_reset(&reply);
  assert_int_equal(ctxp_stage_query(t.stage, ctxp_buf_raw(&raw), &reply, &err), -ENOENT);
  assert_string_equal(err.text, sentence);
}

static void a_session_or_agent_that_is_not_known_is_named_and_never_a_bill_of_zeros(void **state) {
  (void)state;
  refused("{\"what\":\"stats\",\"session\":\"x\"}", "no session 'x' is known; there are none yet");
  fold_push(&t, "{\"kind\":\"prompt\",\"agent\":\"a\",\"session\":\"one\",\"callId\":\"1\",\"usage\":{\"input\":1}}");
  refused("{\"what\":\"spend\",\"session\":\"x\"}", "no session 'x' is known; there is 'one'");
  for (unsigned n = 2; n < 5; n++)
    fold_push(&t, "{\"kind\":\"prompt\",\"agent\":\"b\",\"session\":\"s%u\",\"callId\":\"%u\",\"usage\":{\"input\":1}}", n, n);
  refused("{\"what\":\"spend\",\"session\":\"x\"}", "no session 'x' is known; there are 'one', 's2', 's3' and more");
  refused("{\"what\":\"stats\",\"agent\":\"c\"}", "no agent 'c' is known; there are 'a' and 'b'");
  refused(
      "{\"what\":\"spend\",\"agent\":\"b\",\"session\":\"one\"}", "no session 'one' of agent 'b' is known; there are 's2', 's3' and 's4'");
  assert_int_equal(
      ctxp_map_u64(ctxp_map_get(fold_ask(&t, "{\"what\":\"spend\",\"agent\":\"b\",\"session\":\"s2\"}", &reply), "totals"), "billed", 0),
      1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_fold, close_fold)
int main(void) {
  const struct CMUnitTest tests[] = {CASE(requests_cost_what_the_import_cases_say),
      CASE(the_long_context_tier_holds_for_the_whole_request_above_the_limit), CASE(an_unknown_model_is_unpriced_and_its_tokens_count),
      CASE(a_class_without_a_price_leaves_its_side_unpriced), CASE(a_cost_is_rounded_half_up_once_over_its_classes),
      CASE(a_reported_cost_beats_the_table_and_zeros_are_no_report), CASE(a_row_without_any_priced_request_has_no_cost),
      CASE(the_same_response_bills_once_over_all_windows), CASE(more_usage_of_the_same_response_corrects_it_where_it_was_billed),
      CASE(a_definition_may_come_after_its_first_use), CASE(a_request_without_any_estimate_is_unattributed),
      CASE(a_message_that_changes_band_is_in_each_row_for_its_requests), CASE(a_message_that_comes_back_is_the_same_material),
      CASE(a_keep_beyond_the_window_takes_what_there_is_and_is_told),
      CASE(a_cost_that_cannot_be_right_leaves_the_tokens_counted_at_the_tables_price), CASE(a_cost_that_adds_up_to_the_rounding_is_taken),
      CASE(a_cost_without_usage_is_told_and_the_request_counts_as_unreported),
      CASE(a_definition_after_the_end_has_the_last_bill_said_again),
      CASE(reasoning_beyond_the_output_counts_as_the_output), CASE(reasoning_beside_the_output_costs_as_much_and_is_not_added_to_it),
      CASE(the_cached_prefix_pays_the_read_rate_and_the_newcomer_the_rest), CASE(a_message_across_a_border_pays_each_part_at_its_rate),
      CASE(paths_are_compared_against_the_working_directory), CASE(a_tools_row_tells_how_much_became_views_and_what_its_arguments_cost),
      CASE(a_collapse_of_the_cached_share_is_booked_on_its_cause),
      CASE(a_live_session_is_told_by_band_each_turn_and_in_rows_every_so_often), CASE(a_recorded_session_is_told_at_its_end_only),
      CASE(a_thread_without_a_start_of_its_own_is_as_recorded_as_its_session), CASE(the_end_of_a_session_ends_its_threads),
      CASE(an_evicted_message_is_out_of_the_window_until_a_request_names_it), CASE(an_unknown_query_is_answered_with_a_sentence),
      CASE(a_session_or_agent_that_is_not_known_is_named_and_never_a_bill_of_zeros)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
