/* When a removal pays, with prices, through the tagger as it runs: worked by hand.
 *
 * The request of every test: a user's message m1 of 10 tokens; m2 of 20, an assistant's, with the call d of 7; m3, the result of d, of
 * 270; and m4 of X. Without d the window is written to the cache again from m2 on, which loses its call: 20 - 7 = 13 tokens of m2
 * and the X of m4. What goes is 270 + 7 = 277, in each of the turns to come. With prices in dollars per million, it pays if
 *
 *   277 x turns x read > (13 + X) x (write - read) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/str.h"
#include "codec/json.h"
#include "config/prices.h"
#include "support/stage_test.h"

extern const struct ctxp_stage_ops ctxp_stage_amnesia_tagger;
static struct ctxp_test t;
static unsigned second;

static int close_stage(void **state) {
  (void)state;
  ctxp_test_close(&t);
  return 0;
}

static void push(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void push(const char *format, ...) {
  char line[4096];
  va_list args;
  va_start(args, format);
  assert_in_range(vsnprintf(line, sizeof(line), format, args), 1, sizeof(line) - 1);
  va_end(args);
  ctxp_test_push_json(&t, line);
}

/* long/m: above 349 tokens of input it costs twice; long/n: above 350 */
static const char table[] = "models:\n"
                            "  plain/m: {input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75}\n"
                            "  long/m: {input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75,\n"
                            "    above: {inputTokens: 349, input: 6, output: 30, cacheRead: 1.5, cacheWrite5m: 3.75}}\n"
                            "  long/n: {input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75,\n"
                            "    above: {inputTokens: 350, input: 6, output: 30, cacheRead: 1.5, cacheWrite5m: 3.75}}\n"
                            "  openai/m: {input: 1.25, output: 10, cacheRead: 0.125}\n"
                            "  noread/m: {input: 2, output: 10}\n"
                            "  same/m: {input: 2, output: 10, cacheRead: 2}\n";

static void give_prices(void) {
  char name[] = "/tmp/ctxp-prices-XXXXXX";
  int fd = mkstemp(name);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, table, sizeof(table) - 1), sizeof(table) - 1);
  assert_int_equal(close(fd), 0);
  const char *const files[] = {name};
  struct ctxp_prices *prices;
  ctxp_auto_buf faults = {0}, raw = {0};
  int r = ctxp_prices_read(files, 1, &prices, &faults);
  unlink(name);
  if (r < 0) fail_msg("%s", ctxp_buf_cstr(&faults));
  assert_int_equal(ctxp_prices_encode(prices, &raw), 0);
  ctxp_prices_free(prices);
  ctxp_test_options(&t, (struct ctxp_raw){0}, ctxp_buf_raw(&raw));
}

/* d is read, and superseded by a write */
static void open_with_prices(void) {
  ctxp_test_open(&t, &ctxp_stage_amnesia_tagger, "amnesia");
  give_prices();
  second = 0;
  push("{\"kind\":\"agent_start\"}");
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"d\",\"tool\":\"read\",\"input\":{\"path\":\"a\"},\"isError\":false,\"text\":\"%01080d\","
       "\"ask\":true}",
      0);
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"w\",\"tool\":\"write\",\"input\":{\"path\":\"a\",\"content\":\"x\"},\"isError\":false,"
       "\"text\":\"ok\",\"ask\":true}");
}

static void turns(unsigned count) {
  for (unsigned i = 0; i < count; i++) push("{\"kind\":\"turn_end\",\"turn\":%u}", i);
}

/* what the request claims to save; 0: nothing was removed */
static int64_t asked(const char *model, unsigned x) {
  ctxp_test_clear(&t);
  push("{\"kind\":\"context\",\"ts\":\"2026-09-01T10:00:%02u.000Z\",\"ask\":true,\"model\":\"%s\",\"messages\":["
       "{\"id\":\"m1\",\"role\":\"user\",\"hasText\":true,\"tokens\":10},"
       "{\"id\":\"m2\",\"role\":\"assistant\",\"hasText\":true,\"calls\":[{\"id\":\"d\",\"name\":\"read\",\"tokens\":7}],\"tokens\":20},"
       "{\"id\":\"m3\",\"role\":\"tool\",\"toolCallId\":\"d\",\"hasText\":true,\"tokens\":270},"
       "{\"id\":\"m4\",\"role\":\"assistant\",\"hasText\":true,\"tokens\":%u}]}",
      second++, model, x);
  assert_int_equal(t.answer_count, t.emitted_count);
  return t.emitted_count ? t.emitted[0].event.amnesia_remove.saved : 0;
}

static void a_removal_goes_in_the_turn_in_which_it_begins_to_pay(void **state) {
  (void)state;
  open_with_prices();
  turns(2);
  /* nobody has seen it: it stays, whatever is behind it */
  assert_int_equal(asked("plain/m", 0), 0);
  /* 277 x 2 x 0.3 = 166.2 < 63 x 3.45 = 217.35; with 3 turns 249.3 */
  assert_int_equal(asked("plain/m", 50), 0);
  turns(1);
  assert_int_equal(asked("plain/m", 50), 270);
}

static void what_follows_decides_to_the_token(void **state) {
  (void)state;
  open_with_prices();
  turns(3);
  assert_int_equal(asked("plain/m", 60), 0);
  /* 277 x 3 x 0.3 = 249.3; (13 + 60) x 3.45 = 251.85 is more, (13 + 59) x 3.45 = 248.4 is less */
  assert_int_equal(asked("plain/m", 60), 0);
  assert_int_equal(asked("plain/m", 59), 270);
}

static void the_turns_to_come_are_the_mean_of_the_runs_and_at_least_one(void **state) {
  (void)state;
  open_with_prices();
  push("{\"kind\":\"agent_start\"}"); /* the second run */
  turns(1); /* half a turn a run: 1 is expected. 277 x 0.3 = 83.1; (13 + 12) x 3.45 = 86.25, (13 + 11) x 3.45 = 82.8 */
  assert_int_equal(asked("plain/m", 12), 0);
  assert_int_equal(asked("plain/m", 12), 0);
  turns(4); /* 5 in 2 runs: 2.5 x 83.1 = 207.75; (13 + 48) x 3.45 = 210.45, (13 + 47) x 3.45 = 207.0 */
  assert_int_equal(asked("plain/m", 48), 0);
  assert_int_equal(asked("plain/m", 47), 270);
}

static void with_one_turn_expected_it_pays_where_little_follows(void **state) {
  (void)state;
  open_with_prices(); /* no turn has ended */
  assert_int_equal(asked("plain/m", 11), 0);
  assert_int_equal(asked("plain/m", 11), 270); /* 83.1 > 24 x 3.45 = 82.8 */
}

/* The request has 10 + 20 + 270 + 50 = 350 tokens. At the base rates 3 turns are needed; at 1.5 for reading and 3.75 for writing one
 * is enough: 277 x 1.5 = 415.5 > 63 x 2.25 = 141.75. */
static void a_long_request_is_weighed_at_its_own_rates(void **state) {
  (void)state;
  open_with_prices();
  turns(1);
  assert_int_equal(asked("long/n", 50), 0);
  assert_int_equal(asked("long/n", 50), 0); /* exactly at the limit: the base rates */
  assert_int_equal(asked("long/n", 51), 270);
  close_stage(NULL);
  open_with_prices();
  turns(1);
  assert_int_equal(asked("long/m", 50), 0);
  assert_int_equal(asked("long/m", 50), 270);
}

static void who_has_no_price_for_writing_charges_plain_input(void **state) {
  (void)state;
  open_with_prices();
  turns(4);
  assert_int_equal(asked("openai/m", 120), 0);
  /* 277 x 4 x 0.125 = 138.5; (13 + 111) x 1.125 = 139.5, (13 + 110) x 1.125 = 138.375 */
  assert_int_equal(asked("openai/m", 111), 0);
  assert_int_equal(asked("openai/m", 110), 270);
}

static void without_a_price_for_reading_or_for_the_model_nothing_goes_while_the_cache_is_warm(void **state) {
  (void)state;
  open_with_prices();
  turns(1000);
  assert_int_equal(asked("noread/m", 0), 0);
  assert_int_equal(asked("noread/m", 0), 0);
  close_stage(NULL);
  open_with_prices();
  turns(1000);
  assert_int_equal(asked("other/m", 0), 0);
  assert_int_equal(asked("other/m", 0), 0);
}

static void where_reading_costs_as_much_as_writing_every_removal_pays(void **state) {
  (void)state;
  open_with_prices();
  assert_int_equal(asked("same/m", 100000), 0);
  assert_int_equal(asked("same/m", 100000), 270);
}

static void the_turns_and_runs_are_of_the_window_and_outlive_a_restart(void **state) {
  (void)state;
  open_with_prices();
  for (int i = 0; i < 50; i++) push("{\"kind\":\"turn_end\",\"turn\":0,\"session\":\"other\"}");
  turns(2);
  assert_int_equal(asked("plain/m", 50), 0);
  assert_int_equal(asked("plain/m", 50), 0);
  ctxp_test_restart(&t);
  give_prices();
  assert_int_equal(asked("plain/m", 50), 0);
  turns(1); /* the third */
  assert_int_equal(asked("plain/m", 50), 270);
}

int main(void) {
#define T(name) cmocka_unit_test_teardown(name, close_stage)
  const struct CMUnitTest tests[] = {
      T(a_removal_goes_in_the_turn_in_which_it_begins_to_pay),
      T(what_follows_decides_to_the_token),
      T(the_turns_to_come_are_the_mean_of_the_runs_and_at_least_one),
      T(with_one_turn_expected_it_pays_where_little_follows),
      T(a_long_request_is_weighed_at_its_own_rates),
      T(who_has_no_price_for_writing_charges_plain_input),
      T(without_a_price_for_reading_or_for_the_model_nothing_goes_while_the_cache_is_warm),
      T(where_reading_costs_as_much_as_writing_every_removal_pays),
      T(the_turns_and_runs_are_of_the_window_and_outlive_a_restart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
