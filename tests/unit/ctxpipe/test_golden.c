/* What people see, from fixed answers: golden/NAME.json in, golden/NAME.txt out. GOLDEN_WRITE=1 writes them anew, to be read before
 * they are committed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/bill.h"
#include "ctxpipe/explain.h"
#include "ctxpipe/progress.h"
#include "ctxpipe/savings.h"
#include "ctxpipe/status.h"

static const char *folder;

static void read_file(const char *name, struct ctxp_buf *out) {
  char path[512], block[4096];
  size_t n;
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("there is no '%s'", path);
  while ((n = fread(block, 1, sizeof(block), file)) > 0) ctxp_buf_add(out, block, n);
  fclose(file);
}

static void read_answer(const char *name, struct ctxp_buf *raw) {
  ctxp_auto_buf text = {0};
  struct ctxp_error err;
  read_file(name, &text);
  if (ctxp_json_to_raw(ctxp_buf_view(&text), raw, &err) < 0) fail_msg("%s: %s", name, err.text);
}

static void compare(const char *name, struct ctxp_buf *got) {
  ctxp_auto_buf want = {0};
  if (getenv("GOLDEN_WRITE")) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fwrite(got->ptr, 1, got->len, file);
    fclose(file);
  }
  read_file(name, &want);
  assert_string_equal(ctxp_buf_cstr(got), ctxp_buf_cstr(&want));
}

static void bill(const char *name, const struct ctxp_bill_options *options, const struct ctxp_style *style) {
  ctxp_auto_buf raw = {0}, passed = {0}, out = {0};
  struct ctxp_error err;
  read_answer("spend.json", &raw);
  assert_int_equal(
      ctxp_json_to_raw(
          CTXP_STR("[{\"file\":\"a.jsonl\",\"kind\":\"torn line\",\"count\":2},{\"file\":\"a.jsonl\",\"kind\":\"mode\",\"count\":30},"
                   "{\"file\":\"b.jsonl\",\"kind\":\"mode\",\"count\":1200}]"),
          &passed, &err),
      0);
  assert_int_equal(ctxp_bill_print(ctxp_buf_raw(&raw), ctxp_buf_raw(&passed), options, style, &out), 0);
  compare(name, &out);
}

static void the_whole_bill(void **state) {
  (void)state;
  bill("spend.txt", &(struct ctxp_bill_options){.grain = -1, .top = 20}, &(struct ctxp_style){0});
}

static void the_bill_by_view_with_what_is_below_the_top_as_one_row(void **state) {
  (void)state;
  bill("spend-top.txt", &(struct ctxp_bill_options){.grain = CTXP_GRAIN_VIEW, .top = 2}, &(struct ctxp_style){0});
}

static void the_bill_on_a_terminal(void **state) {
  (void)state;
  bill("spend-terminal.txt", &(struct ctxp_bill_options){.grain = CTXP_GRAIN_BAND, .top = 20},
      &(struct ctxp_style){.colour = true, .utf8 = true, .columns = 100});
}

static void the_bill_by_message_names_tool_and_path(void **state) {
  (void)state;
  bill("spend-message.txt", &(struct ctxp_bill_options){.grain = CTXP_GRAIN_MESSAGE, .top = 20}, &(struct ctxp_style){0});
}

/* the bar goes first, then labels lose their middle */
static void the_bill_by_view_on_a_narrow_terminal(void **state) {
  (void)state;
  bill("spend-80.txt", &(struct ctxp_bill_options){.grain = CTXP_GRAIN_VIEW, .top = 20}, &(struct ctxp_style){.utf8 = true, .columns = 80});
  bill("spend-70.txt", &(struct ctxp_bill_options){.grain = CTXP_GRAIN_VIEW, .top = 20}, &(struct ctxp_style){.utf8 = true, .columns = 70});
}

static void answer(const char *from, const char *name, const struct ctxp_bill_options *options) {
  ctxp_auto_buf raw = {0}, out = {0};
  read_answer(from, &raw);
  assert_int_equal(
      ctxp_bill_print(ctxp_buf_raw(&raw), (struct ctxp_raw){0}, options, &(struct ctxp_style){.utf8 = true, .columns = 80}, &out), 0);
  compare(name, &out);
}

static void groups_of_requests_say_what_sub_agents_had_and_what_has_no_price(void **state) {
  (void)state;
  answer("groups.json", "groups-model.txt", &(struct ctxp_bill_options){.grain = CTXP_GRAIN_MODEL, .top = 2});
}

static void days_stand_in_their_order_and_name_the_zone(void **state) {
  (void)state;
  setenv("TZ", "Europe/Berlin", 1);
  answer("groups.json", "groups-day.txt", &(struct ctxp_bill_options){.grain = CTXP_GRAIN_DAY, .top = 20, .now_ms = 1793016000000});
  setenv("TZ", "UTC", 1);
}

static void sub_agents_stand_below_what_spawned_them(void **state) {
  (void)state;
  answer("groups.json", "groups-session.txt", &(struct ctxp_bill_options){.grain = CTXP_GRAIN_SESSION, .top = 1});
}

static void the_balance_of_views_and_tools(void **state) {
  (void)state;
  answer("groups.json", "balance.txt", &(struct ctxp_bill_options){.grain = -1, .top = 20, .balance = true});
}

static void a_row_explained(void **state) {
  ctxp_auto_buf raw = {0}, out = {0};
  (void)state;
  setenv("TZ", "UTC", 1);
  read_answer("explain.json", &raw);
  assert_int_equal(ctxp_explain_print(ctxp_buf_raw(&raw), 2, &(struct ctxp_style){.columns = 80}, &out), 0);
  compare("explain.txt", &out);
}

static void the_state_of_a_pipeline(void **state) {
  ctxp_auto_buf raw = {0}, out = {0};
  (void)state;
  read_answer("status.json", &raw);
  assert_int_equal(ctxp_status_print(ctxp_buf_raw(&raw), &(struct ctxp_style){0}, &out), 0);
  compare("status.txt", &out);
}

static void the_savings_of_all_sessions(void **state) {
  ctxp_auto_buf raw = {0}, out = {0};
  (void)state;
  read_answer("stats.json", &raw);
  assert_int_equal(ctxp_savings_print(ctxp_buf_raw(&raw), true, &(struct ctxp_style){0}, &out), 0);
  compare("stats.txt", &out);
}

/* of one session: its estimate, and what was reported */
static bool tells_what_no_message_shows(unsigned estimated, unsigned reported) {
  ctxp_auto_buf raw = {0}, out = {0}, text = {0};
  struct ctxp_error err;
  ctxp_buf_printf(&text,
      "{\"totals\":{\"billed\":%u},\"bands\":[],\"views\":[],\"tools\":[],\"sessions\":[{\"models\":[\"m\"],\"calibration\":{\"estimated\":"
      "%u,\"reported\":%u}}]}",
      reported, estimated, reported);
  assert_int_equal(ctxp_json_to_raw(ctxp_buf_view(&text), &raw, &err), 0);
  assert_int_equal(ctxp_bill_print(ctxp_buf_raw(&raw), (struct ctxp_raw){0},
                       &(struct ctxp_bill_options){.grain = -1, .top = 1}, &(struct ctxp_style){0}, &out),
      0);
  return strstr(ctxp_buf_cstr(&out), "estimated at") != NULL;
}

static void what_no_message_shows_is_told_where_it_is_much(void **state) {
  (void)state;
  assert_true(tells_what_no_message_shows(799, 1000));
  assert_false(tells_what_no_message_shows(800, 1000));
  assert_false(tells_what_no_message_shows(1200, 1000)); /* the estimate is above */
  assert_false(tells_what_no_message_shows(0, 1000)); /* there is none */
  assert_false(tells_what_no_message_shows(0, 0));
}

static void a_reply_of_another_shape_is_refused(void **state) {
  ctxp_auto_buf raw = {0}, out = {0};
  struct ctxp_style style = {0};
  (void)state;
  read_answer("status.json", &raw);
  assert_int_equal(
      ctxp_bill_print(ctxp_buf_raw(&raw), (struct ctxp_raw){0}, &(struct ctxp_bill_options){.grain = -1, .top = 1}, &style, &out),
      -EBADMSG);
  assert_int_equal(ctxp_savings_print(ctxp_buf_raw(&raw), false, &style, &out), -EBADMSG);
}

static const char *progress(uint64_t bytes, uint64_t elapsed_ms, const struct ctxp_style *style, struct ctxp_buf *out) {
  struct ctxp_import_progress p = {.files_done = 2, .files_total = 43, .bytes_done = bytes, .bytes_total = 60000000, .events = 12345};
  ctxp_buf_reset(out);
  ctxp_progress_line(&p, elapsed_ms, style, out);
  return ctxp_buf_cstr(out);
}

static void the_line_of_an_import(void **state) {
  ctxp_auto_buf out = {0};
  struct ctxp_style plain = {0}, terminal = {.columns = 80};
  (void)state;
  assert_string_equal(progress(0, 0, &plain, &out), "0 B of 60.0 MB, 2 of 43 files, 12,345 events");
  assert_string_equal(progress(20000000, 1000, &plain, &out), "20.0 MB of 60.0 MB, 2 of 43 files, 12,345 events, 20.0 MB/s, 2 s left");
  assert_string_equal(progress(60000000, 3000, &plain, &out), "60.0 MB of 60.0 MB, 2 of 43 files, 12,345 events, 20.0 MB/s");
  assert_string_equal(progress(30000000, 1000, &terminal, &out),
      "############............ 30.0 MB of 60.0 MB, 2 of 43 files, 12,345 events, 30.0 MB/s, 1 s left");
  assert_non_null(strstr(progress(90000000, 1000, &terminal, &out), "######################## 90.0 MB of 60.0 MB")); /* a file grew */
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_whole_bill),
      cmocka_unit_test(the_bill_by_view_with_what_is_below_the_top_as_one_row),
      cmocka_unit_test(the_bill_on_a_terminal),
      cmocka_unit_test(the_bill_by_message_names_tool_and_path),
      cmocka_unit_test(the_bill_by_view_on_a_narrow_terminal),
      cmocka_unit_test(groups_of_requests_say_what_sub_agents_had_and_what_has_no_price),
      cmocka_unit_test(days_stand_in_their_order_and_name_the_zone),
      cmocka_unit_test(sub_agents_stand_below_what_spawned_them),
      cmocka_unit_test(the_balance_of_views_and_tools),
      cmocka_unit_test(a_row_explained),
      cmocka_unit_test(the_state_of_a_pipeline),
      cmocka_unit_test(the_savings_of_all_sessions),
      cmocka_unit_test(what_no_message_shows_is_told_where_it_is_much),
      cmocka_unit_test(a_reply_of_another_shape_is_refused),
      cmocka_unit_test(the_line_of_an_import),
  };
  folder = argc > 1 ? argv[1] : "golden";
  return cmocka_run_group_tests(tests, NULL, NULL);
}
