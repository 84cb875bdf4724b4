/* The ledger of sizes, step by step, with figures worked out by hand. The models are unknown (1024 tokens in 1024 pieces), so that a
 * message of 1000 tenths of a piece is estimated at 100 tokens, where a test does not say otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "fold_test.h"

static struct ctxp_test t;
static struct ctxp_buf reply;

static int open_fold(void **state) {
  (void)state;
  fold_open(&t, NULL);
  return 0;
}

static int close_fold(void **state) {
  (void)state;
  ctxp_test_close(&t);
  ctxp_buf_deinit(&reply);
  return 0;
}

static struct ctxp_raw report(void) { return fold_ask(&t, "{\"what\":\"spend\",\"by\":\"message\"}", &reply); }

static uint64_t of(const char *list, const char *key, const char *text, const char *figure) {
  struct ctxp_raw row = fold_row(report(), list, key, text);
  return row.len ? ctxp_map_u64(row, figure, UINT64_MAX) : 0;
}
static uint64_t own(const char *id) { return of("messages", "label", id, "own"); }
static uint64_t billed(const char *id) { return of("messages", "label", id, "billed"); }
static uint64_t error(const char *id) { return of("messages", "label", id, "error"); }
static uint64_t part(const char *name) { return of("parts", "part", name, "billed"); }
#define SYSTEM "system and tools, not recorded"
#define CAME_IN "came in, not recorded"

/* of the calibration of the only window, or of thread `thread` */
static uint64_t worth(const char *thread, const char *figure) {
  return ctxp_map_u64(ctxp_map_get(fold_row(report(), "sessions", "thread", thread), "calibration"), figure, UINT64_MAX);
}

static void message(const char *id, const char *role, unsigned pieces, const char *more) {
  fold_push(&t, "{\"kind\":\"context_message\",\"id\":\"%s\",\"role\":\"%s\",\"band\":\"%s\",\"tokens\":7,\"pieces\":%u%s}", id, role,
      strcmp(role, "assistant") == 0 ? "assistant" : "tool_output", pieces, more);
}

/* a call whose request keeps so many and has `append` (JSON) behind them, and whose answer becomes `answer` */
static void call(unsigned keep, const char *append, unsigned input, unsigned output, const char *answer, const char *more) {
  static unsigned n;
  fold_push(&t,
      "{\"kind\":\"prompt\",\"callId\":\"c%u\",\"keep\":%u,\"append\":[%s],\"usage\":{\"input\":%u,\"output\":%u},\"reply\":[%s]%s}", n++,
      keep, append, input, output, answer, more);
}

static void expect_closed(void) {
  struct ctxp_raw r = report();
  uint64_t all = ctxp_map_u64(ctxp_map_get(r, "totals"), "billed", 1);
  assert_int_equal(fold_sum(r, "bands", "billed"), all);
  assert_int_equal(fold_sum(r, "messages", "billed"), all);
}

#define ID(name) "{\"id\":\"" name "\"}"
#define NAME(name) "\"" name "\""
#define PERSON(name) ",\"personPrompt\":[\"" name "\"]"

/* u of 100 tokens, and 4900 that no message holds */
static void begin(void) {
  message("u", "user", 1000, "");
  call(0, ID("u"), 5000, 80, NAME("a"), "");
}

static void what_the_first_request_holds_beyond_its_messages_is_system_and_tools(void **state) {
  (void)state;
  begin();
  assert_int_equal(own("u"), 100);
  assert_int_equal(billed("u"), 100);
  assert_int_equal(part(SYSTEM), 4900);
  assert_int_equal(worth("", "notRecorded"), 4900);
  expect_closed();
}

static void messages_of_a_first_request_that_are_estimated_too_large_are_scaled_to_it(void **state) {
  (void)state;
  message("u", "user", 3000, "");
  message("v", "user", 1000, "");
  call(0, ID("u") "," ID("v"), 200, 80, "", "");
  assert_int_equal(own("u"), 150);
  assert_int_equal(own("v"), 50);
  assert_int_equal(part(SYSTEM), 0);
  expect_closed();
}

static void a_message_is_as_large_as_what_the_input_grew_by_and_a_reply_as_its_output(void **state) {
  (void)state;
  begin();
  message("a", "assistant", 700, "");
  message("r", "tool", 2000, "");
  call(1, ID("a") "," ID("r"), 5330, 10, NAME("b"), "");
  assert_int_equal(own("a"), 80);
  assert_int_equal(own("r"), 250);
  assert_int_equal(part(SYSTEM), 2 * 4900);
  call(3, "", 5330, 10, "", "");
  assert_int_equal(billed("r"), 2 * 250);
  assert_int_equal(error("r"), 2 * 20); /* exact: 20 tokens a request */
  expect_closed();
}

static void what_came_in_together_is_split_by_the_estimates(void **state) {
  (void)state;
  begin();
  message("r", "tool", 1000, "");
  message("s", "tool", 3000, "");
  call(1, ID("r") "," ID("s"), 5800, 10, "", "");
  assert_int_equal(own("r"), 200);
  assert_int_equal(own("s"), 600);
  assert_int_equal(error("s"), 25); /* a quarter of the smaller one's estimate */
  expect_closed();
}

static void growth_beyond_three_times_the_estimate_came_in_unrecorded(void **state) {
  (void)state;
  begin();
  message("r", "tool", 1000, "");
  call(1, ID("r"), 6000, 10, "", "");
  assert_int_equal(own("r"), 300);
  assert_int_equal(part(CAME_IN), 700);
  assert_int_equal(worth("", "cameIn"), 700);
  call(2, "", 6000, 10, "", "");
  assert_int_equal(part(CAME_IN), 1400);
  expect_closed();
}

static void an_image_may_be_larger_than_its_estimate_tells(void **state) {
  (void)state;
  begin();
  message("r", "tool", 1000, ",\"images\":[{}]");
  call(1, ID("r"), 5000 + 30300 + 50, 10, "", "");
  assert_int_equal(own("r"), 30300);
  assert_int_equal(part(CAME_IN), 50);
}

static void a_result_that_is_sent_in_part_is_as_large_as_that_part(void **state) {
  (void)state;
  begin();
  message("r", "tool", 1000000, ""); /* 100,000 tokens were recorded, and a tenth of them sent */
  call(1, ID("r"), 15000, 10, "", "");
  assert_int_equal(own("r"), 10000);
  assert_int_equal(part(CAME_IN), 0);
  expect_closed();
}

static void a_report_that_is_too_small_once_is_split_in_proportion_and_teaches_nothing(void **state) {
  (void)state;
  begin();
  message("r", "tool", 1000, "");
  call(1, ID("r"), 510, 10, "", ""); /* a tenth of the 5100 that it must be */
  assert_int_equal(worth("", "misfits"), 1);
  assert_int_equal(billed("u"), 110); /* 100, and a tenth of it */
  call(2, "", 5100, 10, "", "");
  assert_int_equal(own("r"), 100);
  assert_int_equal(billed("u"), 210);
  assert_int_equal(worth("", "misfits"), 1);
  expect_closed();
}

/* ---- thinking ---- */
static void thinking_is_what_an_output_has_beyond_the_reply_that_is_seen(void **state) {
  (void)state;
  message("u", "user", 1000, "");
  call(0, ID("u"), 5000, 500, NAME("a"), "");
  message("a", "assistant", 1000, ",\"thinking\":{}");
  call(1, ID("a"), 5500, 10, "", "");
  assert_int_equal(own("a"), 100);
  assert_int_equal(part("thinking"), 400);
  assert_int_equal(of("bands", "band", "assistant", "billed"), 500);
  expect_closed();
}

static void reported_reasoning_is_the_thinking_whatever_is_seen_of_it(void **state) {
  (void)state;
  message("u", "user", 1000, "");
  call(0, ID("u"), 5000, 500, NAME("a"), "");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"r1\",\"keep\":1,\"append\":[],\"usage\":{\"input\":5000,\"output\":300,\"reasoning\":200},\"reply\":[\"b\"]}");
  message("b", "assistant", 900, "");
  call(1, ID("b"), 5300, 10, "", "");
  assert_int_equal(own("b"), 100);
  assert_int_equal(part("thinking"), 200);
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"r2\",\"keep\":2,\"append\":[],\"usage\":{\"input\":5300,\"output\":70,\"reasoning\":30,"
                "\"reasoningApart\":true},\"reply\":[\"d\"]}");
  message("d", "assistant", 900, "");
  call(2, ID("d"), 5400, 10, "", ""); /* 70 that is seen, and 30 beside it */
  assert_int_equal(own("d"), 70);
  assert_int_equal(part("thinking"), 200 + 200 + 230);
  expect_closed();
}

static void of_an_output_that_is_a_placeholder_the_signature_tells_the_thinking(void **state) {
  (void)state;
  message("u", "user", 1000, "");
  call(0, ID("u"), 5000, 1, NAME("a"), "");
  message("a", "assistant", 1000, ",\"thinking\":{\"signatureUnits\":1000}");
  call(1, ID("a"), 5303, 10, "", "");
  assert_int_equal(part("thinking"), 183); /* 0.22 * 1000 - 37 */
  assert_int_equal(own("a"), 120); /* what else it grew by */
  expect_closed();
}

static void thinking_that_a_person_ends_is_dropped_or_kept_as_the_input_tells(void **state) {
  (void)state;
  static const struct {
    unsigned input;
    uint64_t thinking;
    bool drops;
  } cases[] = {{5150, 400, true}, {5550, 800, false}};
  for (unsigned i = 0; i < 2; i++) {
    if (i) {
      ctxp_test_close(&t);
      fold_open(&t, NULL);
    }
    message("u", "user", 1000, "");
    call(0, ID("u"), 4800, 500, NAME("a"), "");
    message("a", "assistant", 1000, ",\"thinking\":{}");
    message("r", "tool", 1000, "");
    call(1, ID("a") "," ID("r"), 5400, 50, NAME("b"), "");
    message("b", "assistant", 500, "");
    message("v", "user", 1000, "");
    call(3, ID("b") "," ID("v"), cases[i].input, 10, "", PERSON("v"));
    assert_int_equal(own("v"), 100);
    assert_int_equal(part("thinking"), cases[i].thinking);
    struct ctxp_cursor it =
        ctxp_cursor(ctxp_map_get(ctxp_map_get(fold_row(report(), "sessions", "thread", ""), "calibration"), "models"));
    struct ctxp_raw model;
    uint32_t left;
    assert_int_equal(ctxp_array_open(&it, &left), 0);
    assert_true(ctxp_array_next(&it, &left, &model) > 0);
    assert_int_equal(ctxp_map_bool(model, "dropsThinking", !cases[i].drops), cases[i].drops);
    expect_closed();
  }
}

/* ---- the window ---- */
static void what_comes_back_is_as_large_as_it_was(void **state) {
  (void)state;
  begin();
  message("r", "tool", 1000, "");
  call(1, ID("r"), 5250, 10, "", "");
  call(1, "", 5000, 10, "", ""); /* rewound */
  assert_int_equal(part(SYSTEM), 3 * 4900);
  call(1, ID("r"), 5250, 10, "", "");
  assert_int_equal(billed("r"), 2 * 250);
  assert_int_equal(worth("", "cameIn"), 0);
  expect_closed();
}

static void a_compaction_leaves_system_and_tools_as_they_were(void **state) {
  (void)state;
  begin();
  message("r", "tool", 20000, "");
  call(1, ID("r"), 7000, 10, "", "");
  fold_push(&t, "{\"kind\":\"compaction\",\"summaryId\":\"s\"}");
  message("s", "user", 1000, "");
  call(0, ID("s"), 5020, 10, "", "");
  assert_int_equal(own("s"), 120);
  assert_int_equal(part(SYSTEM), 3 * 4900);
  expect_closed();
}

static void with_another_tokenizer_all_sizes_are_of_that_one(void **state) {
  (void)state;
  message("u", "user", 10240, "");
  call(0, ID("u"), 10000, 10, "", ",\"model\":\"claude-opus-4-5\"");
  assert_int_equal(own("u"), 989); /* 10240 tenths at 989 in 1024, as whole numbers make of 990 */
  call(1, "", 8026, 10, "", ",\"model\":\"gpt-5.2\""); /* 794 to 989: 989 is 794, and 9011 are 7234; two are left */
  assert_int_equal(billed("u"), 989 + 794);
  assert_int_equal(worth("", "misfits"), 0);
  expect_closed();
}

static void what_nothing_explains_is_counted_and_taken_from_all_that_is_there(void **state) {
  (void)state;
  message("u", "user", 100000, "");
  call(0, ID("u"), 15000, 10, "", ""); /* 5000 that no message holds */
  call(1, "", 6000, 10, "", ""); /* too small once */
  call(1, "", 6000, 10, "", ""); /* and again: it is so */
  struct ctxp_raw all = ctxp_map_get(report(), "totals");
  assert_int_equal(ctxp_map_u64(all, "unexplainedTokens", 0), 9000);
  assert_int_equal(billed("u"), 10000 + 4000 + 1000); /* in proportion: 6000 * 10000 / 15000 */
  assert_int_equal(part(SYSTEM), 5000 + 2000 + 5000);
  expect_closed();
}

static void a_sub_agent_has_a_window_with_sizes_of_its_own(void **state) {
  (void)state;
  begin();
  fold_push(&t, "{\"kind\":\"session_start\",\"thread\":\"sub\",\"product\":\"pi\",\"parentThread\":\"\"}");
  fold_push(&t, "{\"kind\":\"context_message\",\"thread\":\"sub\",\"id\":\"u\",\"role\":\"user\",\"band\":\"user_prompt\",\"tokens\":7,\"pieces\":500}");
  fold_push(&t, "{\"kind\":\"prompt\",\"thread\":\"sub\",\"callId\":\"sub1\",\"keep\":0,\"append\":[{\"id\":\"u\"}],\"usage\":{\"input\":2000,\"output\":5}}");
  assert_int_equal(worth("", "notRecorded"), 4900);
  assert_int_equal(worth("sub", "notRecorded"), 1950);
  assert_int_equal(part(SYSTEM), 4900 + 1950);
  expect_closed();
}

static void by_estimate_there_is_nothing_that_no_message_holds(void **state) {
  (void)state;
  ctxp_test_close(&t);
  fold_open(&t, FOLD_ESTIMATE);
  begin();
  assert_int_equal(own("u"), 7);
  assert_int_equal(billed("u"), 5000);
  assert_int_equal(part(SYSTEM), 0);
  expect_closed();
}

static void a_factor_is_learned_from_growth_that_is_not_far_from_what_was_expected(void **state) {
  (void)state;
  begin();
  message("r", "tool", 60000, "");
  call(1, ID("r"), 5000 + 7000, 10, "", ""); /* 7000 tokens of 6000 pieces; counts as much as what is known of the family */
  message("s", "tool", 10000, "");
  call(2, ID("s"), 12000 + 1000, 10, "", "");
  assert_int_equal(worth("", "predictionError"), 1000 + 83); /* 7000 - 6000; 1083 - 1000 */
  assert_int_equal(worth("", "growth"), 8000);
  expect_closed();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_fold, close_fold)
int main(void) {
  const struct CMUnitTest tests[] = {CASE(what_the_first_request_holds_beyond_its_messages_is_system_and_tools),
      CASE(messages_of_a_first_request_that_are_estimated_too_large_are_scaled_to_it),
      CASE(a_message_is_as_large_as_what_the_input_grew_by_and_a_reply_as_its_output), CASE(what_came_in_together_is_split_by_the_estimates),
      CASE(growth_beyond_three_times_the_estimate_came_in_unrecorded), CASE(an_image_may_be_larger_than_its_estimate_tells),
      CASE(a_result_that_is_sent_in_part_is_as_large_as_that_part),
      CASE(a_report_that_is_too_small_once_is_split_in_proportion_and_teaches_nothing),
      CASE(thinking_is_what_an_output_has_beyond_the_reply_that_is_seen), CASE(reported_reasoning_is_the_thinking_whatever_is_seen_of_it),
      CASE(of_an_output_that_is_a_placeholder_the_signature_tells_the_thinking),
      CASE(thinking_that_a_person_ends_is_dropped_or_kept_as_the_input_tells), CASE(what_comes_back_is_as_large_as_it_was),
      CASE(a_compaction_leaves_system_and_tools_as_they_were), CASE(with_another_tokenizer_all_sizes_are_of_that_one),
      CASE(what_nothing_explains_is_counted_and_taken_from_all_that_is_there), CASE(a_sub_agent_has_a_window_with_sizes_of_its_own),
      CASE(by_estimate_there_is_nothing_that_no_message_holds),
      CASE(a_factor_is_learned_from_growth_that_is_not_far_from_what_was_expected)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
