/* Times as people say them, in the zone of TZ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/when.h"

#define NOW UINT64_C(1793016000123) /* 2026-10-26T12:00:00.123Z */

static void zone(const char *tz) {
  setenv("TZ", tz, 1);
  tzset();
}

static uint64_t when(const char *text) {
  struct ctxp_error err;
  uint64_t ms = 0;
  if (ctxp_when(text, "spend", NOW, &ms, &err) < 0) fail_msg("%s", err.text);
  return ms;
}

static void how_long_ago_counts_back_from_now(void **state) {
  (void)state;
  assert_int_equal(when("30m"), NOW - 30 * 60000);
  assert_int_equal(when("12h"), NOW - 12 * 3600000);
  assert_int_equal(when("7d"), NOW - UINT64_C(7) * 86400000);
  assert_int_equal(when("2w"), NOW - UINT64_C(14) * 86400000);
  assert_int_equal(when("0d"), NOW);
  assert_int_equal(when("1000000w"), 1); /* before everything */
}

static void a_day_is_a_local_one(void **state) {
  (void)state;
  zone("UTC");
  assert_int_equal(when("2026-10-25"), UINT64_C(1792886400000));
  zone("Europe/Berlin"); /* two hours east until that night's change */
  assert_int_equal(when("2026-10-25"), UINT64_C(1792886400000) - 2 * 3600000);
  assert_int_equal(when("2026-10-26"), UINT64_C(1792886400000) + 86400000 - 3600000);
  assert_int_equal(when("2026-10-25T12:30"), UINT64_C(1792886400000) + 11 * 3600000 + 1800000);
  assert_int_equal(when("2026-10-25T12:30:05"), UINT64_C(1792886400000) + 11 * 3600000 + 1805000);
}

static void a_time_with_its_zone_is_what_it_says(void **state) {
  (void)state;
  zone("Asia/Tokyo");
  assert_int_equal(when("2026-10-25T00:00:00Z"), UINT64_C(1792886400000));
  assert_int_equal(when("2026-10-25T00:00:00.250+01:00"), UINT64_C(1792886400250) - 3600000);
}

static void what_is_no_time_is_said(void **state) {
  static const char *const wrong[] = {"", "d", "7", "7y", "-7d", "7.5d", "2026-13-01", "2026-02-30", "2026-10-25x", "2026-10-25T25:00",
      " 7d", "99999999999999999999d", "yesterday"};
  (void)state;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
    struct ctxp_error err;
    uint64_t ms;
    assert_int_equal(ctxp_when(wrong[i], "spend", NOW, &ms, &err), -EINVAL);
    assert_non_null(strstr(err.text, "spend: '--since "));
  }
}

static void the_zone_changes_where_its_clocks_do(void **state) {
  ctxp_auto_buf raw = {0}, json = {0};
  (void)state;
  zone("Europe/Berlin");
  ctxp_when_offsets(NOW, &raw);
  assert_int_equal(ctxp_json_from_raw(ctxp_buf_raw(&raw), &json), 0);
  assert_non_null(strstr(ctxp_buf_cstr(&json), "[1792890000000,3600]")); /* 2026-10-25T01:00:00Z */
  assert_non_null(strstr(ctxp_buf_cstr(&json), "[1774746000000,7200]")); /* 2026-03-29T01:00:00Z */
  ctxp_buf_reset(&raw);
  ctxp_buf_reset(&json);
  zone("UTC");
  ctxp_when_offsets(NOW, &raw);
  assert_int_equal(ctxp_json_from_raw(ctxp_buf_raw(&raw), &json), 0);
  assert_null(strchr(ctxp_buf_cstr(&json) + 2, '[')); /* one for ever */
}

static void the_zone_is_named(void **state) {
  ctxp_auto_buf text = {0};
  (void)state;
  zone("America/New_York");
  ctxp_put_local(&text, NOW);
  ctxp_buf_str(&text, "; ");
  ctxp_put_zone(&text, NOW);
  assert_string_equal(ctxp_buf_cstr(&text), "2026-10-26 08:00 EDT; EDT, UTC-04:00");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(how_long_ago_counts_back_from_now),
      cmocka_unit_test(a_day_is_a_local_one),
      cmocka_unit_test(a_time_with_its_zone_is_what_it_says),
      cmocka_unit_test(what_is_no_time_is_said),
      cmocka_unit_test(the_zone_changes_where_its_clocks_do),
      cmocka_unit_test(the_zone_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
