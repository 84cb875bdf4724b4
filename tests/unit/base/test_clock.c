#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/str.h"

static void times_are_read(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t ms;
  } cases[] = {
      {"1970-01-01T00:00:00Z", 0},
      {"1970-01-01T00:00:00.001Z", 1},
      {"2026-08-30T06:10:19.549Z", UINT64_C(1788070219549)},
      {"2026-08-30T08:10:19.549+02:00", UINT64_C(1788070219549)},
      {"2026-08-29T20:40:19.549-09:30", UINT64_C(1788070219549)},
      {"2000-02-29T12:00:00Z", UINT64_C(951825600000)},
      {"2024-02-29T23:59:59.999Z", UINT64_C(1709251199999)},
      {"2024-03-01T00:00:00Z", UINT64_C(1709251200000)},
      {"2100-02-28T23:59:59Z", UINT64_C(4107542399000)},
      {"2100-03-01T00:00:00Z", UINT64_C(4107542400000)},
      {"9999-12-31T23:59:59.999Z", UINT64_C(253402300799999)},
      {"2026-08-30T06:10:19.5Z", UINT64_C(1788070219500)},
      {"2026-08-30T06:10:19.54Z", UINT64_C(1788070219540)},
      {"2026-08-30T06:10:19.549999999Z", UINT64_C(1788070219549)}, /* cut, not rounded */
      {"2016-12-31T23:59:60Z", UINT64_C(1483228800000)}, /* a leap second is the next one */
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    uint64_t ms = 7;
    assert_int_equal(ctxp_time_parse(ctxp_str(cases[i].text), &ms), 0);
    assert_int_equal(ms, cases[i].ms);
  }
}

static void what_is_no_time_is_refused_and_nothing_is_written(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "",
      "Z",
      "2026-08-30",
      "2026-08-30T06:10:19",
      "2026-08-30T06:10Z",
      "2026-08-30 06:10:19Z",
      "2026-8-30T06:10:19Z",
      "2026-08-30T06:10:19.Z",
      "2026-08-30T06:10:19.549",
      "2026-08-30T06:10:19.549Zx",
      "2026-13-01T00:00:00Z",
      "2026-00-01T00:00:00Z",
      "2026-02-30T00:00:00Z",
      "2026-04-31T00:00:00Z",
      "2026-01-32T00:00:00Z",
      "2026-01-00T00:00:00Z",
      "2026-01-01T24:00:00Z",
      "2026-01-01T00:60:00Z",
      "2026-01-01T00:00:61Z",
      "2026-01-01T00:00:00+0200",
      "2026-01-01T00:00:00+24:00",
      "2026-01-01T00:00:00+02:60",
      "1969-12-31T23:59:59Z",
      "1970-01-01T00:30:00+01:00",
      "0000-01-01T00:00:00Z",
      "-026-08-30T06:10:19Z",
      "2026-08-30T06:10:19z",
      ("\xd9\xa2" /* an Arabic 2 */ "026-08-30T06:10:19Z"),
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    uint64_t ms = 7;
    if (ctxp_time_parse(ctxp_str(wrong[i]), &ms) != -EINVAL) fail_msg("was read: %s", wrong[i]);
    assert_int_equal(ms, 7);
  }
}

static void a_day_that_the_month_has_not_is_refused(void **state) {
  (void)state;
  uint64_t ms;
  assert_int_equal(ctxp_time_parse(CTXP_STR("2024-02-29T00:00:00Z"), &ms), 0);
  assert_int_equal(ctxp_time_parse(CTXP_STR("2023-02-29T00:00:00Z"), &ms), -EINVAL);
  assert_int_equal(ctxp_time_parse(CTXP_STR("2100-02-29T00:00:00Z"), &ms), -EINVAL);
  assert_int_equal(ctxp_time_parse(CTXP_STR("2000-02-29T00:00:00Z"), &ms), 0);
}

static void a_text_that_ends_anywhere_is_refused(void **state) {
  (void)state;
  const struct ctxp_str whole = CTXP_STR("2026-08-30T06:10:19.549+02:00");
  uint64_t ms;
  for (size_t len = 0; len < whole.len; len++) assert_int_equal(ctxp_time_parse((struct ctxp_str){whole.ptr, len}, &ms), -EINVAL);
  assert_int_equal(ctxp_time_parse(whole, &ms), 0);
}

static void times_are_written_as_javascript_writes_them(void **state) {
  (void)state;
  char text[CTXP_ISO_SIZE];
  ctxp_time_iso(UINT64_C(1788070219549), text);
  assert_string_equal(text, "2026-08-30T06:10:19.549Z");
  ctxp_time_iso(0, text);
  assert_string_equal(text, "1970-01-01T00:00:00.000Z");
  ctxp_time_iso(UINT64_MAX, text);
  assert_string_equal(text, "9999-12-31T23:59:59.999Z");
}

static void every_day_of_four_hundred_years_comes_back(void **state) {
  (void)state;
  for (uint64_t day = 0; day < 146097; day++) {
    char text[CTXP_ISO_SIZE];
    uint64_t ms = day * UINT64_C(86400000) + day % 86400000, got;
    ctxp_time_iso(ms, text);
    assert_int_equal(ctxp_time_parse(ctxp_str(text), &got), 0);
    assert_int_equal(got, ms);
  }
}

static void a_time_of_another_zone_does_not_depend_on_the_machines(void **state) {
  (void)state;
  char text[CTXP_ISO_SIZE];
  setenv("TZ", "America/St_Johns", 1);
  tzset();
  ctxp_time_iso(UINT64_C(1788070219549), text);
  unsetenv("TZ");
  tzset();
  assert_string_equal(text, "2026-08-30T06:10:19.549Z");
}

static void the_monotonic_clock_does_not_go_back(void **state) {
  (void)state;
  uint64_t before = ctxp_clock_ms();
  for (int i = 0; i < 1000; i++) {
    uint64_t now = ctxp_clock_ms();
    assert_true(now >= before);
    before = now;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(times_are_read),
      cmocka_unit_test(what_is_no_time_is_refused_and_nothing_is_written),
      cmocka_unit_test(a_day_that_the_month_has_not_is_refused),
      cmocka_unit_test(a_text_that_ends_anywhere_is_refused),
      cmocka_unit_test(times_are_written_as_javascript_writes_them),
      cmocka_unit_test(every_day_of_four_hundred_years_comes_back),
      cmocka_unit_test(a_time_of_another_zone_does_not_depend_on_the_machines),
      cmocka_unit_test(the_monotonic_clock_does_not_go_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
