#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/str.h"
#include "ctxpipe/table.h"

static struct ctxp_buf out; /* of the test in hand */

static int reset(void **state) {
  (void)state;
  ctxp_buf_deinit(&out);
  return 0;
}

static void hostile_labels_cannot_reach_the_terminal(void **state) {
  (void)state;
  ctxp_term_text(&out, CTXP_STR("a\x1b[31mred\n\t\r\x7f\xc2\x9b"
                                "31m\xe2\x80\xae"
                                "evil\xff."));
  assert_string_equal(ctxp_buf_cstr(&out), "a\\x1b[31mred\\n\\t\\r\\x7f\\x9b31m\\u202eevil\xef\xbf\xbd.");
}

static void lines_keep_their_ends_and_nothing_else(void **state) {
  (void)state;
  ctxp_term_lines(&out, CTXP_STR("a\n\tb\x1b]0;title\x07"));
  assert_string_equal(ctxp_buf_cstr(&out), "a\n\tb\\x1b]0;title\\x07");
}

static void wide_letters_count_two_columns_and_marks_none(void **state) {
  (void)state;
  assert_int_equal(ctxp_term_width(CTXP_STR("abc")), 3);
  assert_int_equal(ctxp_term_width(CTXP_STR("\xe6\x97\xa5\xe6\x9c\xac")), 4); /* two ideographs */
  assert_int_equal(ctxp_term_width(CTXP_STR("e\xcc\x81")), 1); /* e and an acute accent */
  assert_int_equal(ctxp_term_width(CTXP_STR("\xf0\x9f\x98\x80")), 2); /* an emoji */
}

static const char *count(uint64_t n) {
  ctxp_buf_reset(&out);
  ctxp_put_count(&out, n);
  return ctxp_buf_cstr(&out);
}

static void counts_have_their_thousands_apart(void **state) {
  (void)state;
  assert_string_equal(count(0), "0");
  assert_string_equal(count(999), "999");
  assert_string_equal(count(1000), "1,000");
  assert_string_equal(count(UINT64_MAX), "18,446,744,073,709,551,615");
}

static const char *thousands(int64_t n) {
  ctxp_buf_reset(&out);
  ctxp_put_thousands(&out, n);
  return ctxp_buf_cstr(&out);
}

static void thousands_round_as_javascripts_toFixed(void **state) {
  (void)state;
  assert_string_equal(thousands(999), "999");
  assert_string_equal(thousands(1000), "1.0k");
  assert_string_equal(thousands(1049), "1.0k");
  assert_string_equal(thousands(1050), "1.1k"); /* 1.05 is a little more than that */
  assert_string_equal(thousands(1150), "1.1k"); /* 1.15 is a little less */
  assert_string_equal(thousands(1250), "1.3k"); /* exactly between: the larger */
  assert_string_equal(thousands(1750), "1.8k");
  assert_string_equal(thousands(12345), "12.3k");
  assert_string_equal(thousands(999999), "1000.0k");
}

static const char *counted(uint64_t n, const char *noun) {
  ctxp_buf_reset(&out);
  ctxp_put_counted(&out, n, noun);
  return ctxp_buf_cstr(&out);
}

static void one_of_a_thing_is_singular(void **state) {
  (void)state;
  assert_string_equal(counted(0, "new event"), "0 new events");
  assert_string_equal(counted(1, "session"), "1 session");
  assert_string_equal(counted(12345, "line"), "12,345 lines");
}

static const char *dollars(int64_t nano, unsigned decimals) {
  ctxp_buf_reset(&out);
  ctxp_put_dollars(&out, nano, decimals);
  return ctxp_buf_cstr(&out);
}

static void dollars_round_half_up(void **state) {
  (void)state;
  assert_string_equal(dollars(0, 2), "$0.00");
  assert_string_equal(dollars(INT64_C(1234567890123), 2), "$1,234.57");
  assert_string_equal(dollars(5000000, 2), "$0.01");
  assert_string_equal(dollars(4999999, 2), "$0.00");
  assert_string_equal(dollars(-1500000000, 2), "-$1.50");
  assert_string_equal(dollars(1, 9), "$0.000000001");
}

static void rounded_parts_add_up_to_the_rounded_whole(void **state) {
  (void)state;
  uint64_t thirds[] = {333, 333, 334}, halves[] = {50, 50, 50}, one[] = {149};
  assert_int_equal(ctxp_round_together(thirds, 3, 100), 0);
  assert_int_equal(thirds[0] + thirds[1] + thirds[2], 10);
  assert_int_equal(thirds[2], 4); /* the largest remainder */
  assert_int_equal(ctxp_round_together(halves, 3, 100), 0);
  assert_int_equal(halves[0], 1); /* 1.5 becomes 2: ties go to the earlier */
  assert_int_equal(halves[1], 1);
  assert_int_equal(halves[2], 0);
  assert_int_equal(ctxp_round_together(one, 1, 100), 0);
  assert_int_equal(one[0], 1);
}

static const char *duration(uint64_t ms) {
  ctxp_buf_reset(&out);
  ctxp_put_duration(&out, ms);
  return ctxp_buf_cstr(&out);
}

static void durations_and_bytes_read_well(void **state) {
  (void)state;
  assert_string_equal(duration(59999), "59 s");
  assert_string_equal(duration(250000), "4 min 10 s");
  assert_string_equal(duration(7500000), "2 h 5 min");
  assert_string_equal(duration(UINT64_C(277200000)), "3 d 5 h");
  ctxp_buf_reset(&out);
  ctxp_put_bytes(&out, 999);
  ctxp_buf_char(&out, ' ');
  ctxp_put_bytes(&out, 1500000);
  ctxp_buf_char(&out, ' ');
  ctxp_put_bytes(&out, 999999);
  assert_string_equal(ctxp_buf_cstr(&out), "999 B 1.5 MB 1.0 MB");
}

static const struct ctxp_column columns[] = {{"view", CTXP_COLUMN_TEXT}, {"billed", CTXP_COLUMN_NUMBER}, {"", CTXP_COLUMN_BAR}};

static void fill(struct ctxp_table *table) {
  ctxp_table_text(table, CTXP_STR("src/a/very/long/path/to/some/file.c"));
  ctxp_table_count(table, 1234567);
  ctxp_table_bar(table, 100, 100);
  ctxp_table_text(table, CTXP_STR("\xe6\x97\xa5\x1b"));
  ctxp_table_count(table, 9);
  ctxp_table_bar(table, 33, 100);
}

static void a_table_lines_up_and_its_widest_bar_is_full(void **state) {
  (void)state;
  struct ctxp_table table = {.columns = columns, .column_count = 3};
  struct ctxp_style plain = {0};
  fill(&table);
  assert_int_equal(ctxp_table_print(&table, &plain, &out), 0);
  ctxp_table_deinit(&table);
  assert_string_equal(ctxp_buf_cstr(&out),
      "view                                    billed\n"
      "src/a/very/long/path/to/some/file.c  1,234,567  ####################\n"
      "\xe6\x97\xa5\\x1b                                       9  #######\n");
}

static void a_narrow_terminal_takes_the_middle_of_long_texts(void **state) {
  (void)state;
  struct ctxp_table table = {.columns = columns, .column_count = 3};
  struct ctxp_style narrow = {.utf8 = true, .columns = 56}, narrower = {.utf8 = true, .columns = 34};
  fill(&table);
  assert_int_equal(ctxp_table_print(&table, &narrow, &out), 0);
  assert_string_equal(ctxp_buf_cstr(&out), /* the bar gives first */
      "view                                    billed\n"
      "src/a/very/long/path/to/some/file.c  1,234,567  ████████\n"
      "日\\x1b                                       9  ██▋\n");
  ctxp_buf_reset(&out);
  assert_int_equal(ctxp_table_print(&table, &narrower, &out), 0);
  ctxp_table_deinit(&table);
  assert_string_equal(ctxp_buf_cstr(&out),
      "view                        billed\n"
      "src/a/v…/to/some/file.c  1,234,567\n"
      "日\\x1b                           9\n");
}

static void colours_are_there_only_when_asked_for(void **state) {
  (void)state;
  struct ctxp_table table = {.columns = columns, .column_count = 3};
  struct ctxp_style plain = {0}, coloured = {.colour = true};
  fill(&table);
  assert_int_equal(ctxp_table_print(&table, &plain, &out), 0);
  assert_null(memchr(out.ptr, '\x1b', out.len));
  assert_int_equal(ctxp_table_print(&table, &coloured, &out), 0);
  ctxp_table_deinit(&table);
  assert_non_null(memchr(out.ptr, '\x1b', out.len));
}

#define TEST(name) cmocka_unit_test_teardown(name, reset)
int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(hostile_labels_cannot_reach_the_terminal),
      TEST(lines_keep_their_ends_and_nothing_else),
      TEST(wide_letters_count_two_columns_and_marks_none),
      TEST(counts_have_their_thousands_apart),
      TEST(thousands_round_as_javascripts_toFixed),
      TEST(one_of_a_thing_is_singular),
      TEST(dollars_round_half_up),
      TEST(rounded_parts_add_up_to_the_rounded_whole),
      TEST(durations_and_bytes_read_well),
      TEST(a_table_lines_up_and_its_widest_bar_is_full),
      TEST(a_narrow_terminal_takes_the_middle_of_long_texts),
      TEST(colours_are_there_only_when_asked_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
