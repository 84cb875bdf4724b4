#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ctxpipe/restart.h"

static void the_delay_doubles_from_100_ms_to_30_s(void **state) {
  static const uint64_t expect[] = {100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
  struct ctxp_restart restart = {0};
  (void)state;
  for (unsigned i = 0; i < sizeof(expect) / sizeof(*expect); i++) {
    uint64_t delay;
    struct ctxp_death death = {.now_ms = 1000000 + i * 100000, .ready = true, .ready_ms = 10};
    assert_int_equal(ctxp_restart_died(&restart, &death, &delay), CTXP_RESTART_AGAIN);
    assert_int_equal(delay, expect[i]);
  }
  assert_int_equal(restart.restarts, 11);
}

static void a_stable_run_makes_the_next_death_a_first_one(void **state) {
  struct ctxp_restart restart = {0};
  uint64_t delay;
  (void)state;
  for (unsigned i = 0; i < 4; i++) {
    struct ctxp_death death = {.now_ms = 1000 + i, .ready = true, .ready_ms = 5};
    assert_int_equal(ctxp_restart_died(&restart, &death, &delay), CTXP_RESTART_AGAIN);
  }
  assert_int_equal(delay, 800);
  struct ctxp_death death = {.now_ms = 90000, .ready = true, .ready_ms = CTXP_RESTART_STABLE_MS};
  assert_int_equal(ctxp_restart_died(&restart, &death, &delay), CTXP_RESTART_AGAIN);
  assert_int_equal(delay, 100);
}

static void five_deaths_before_ready_within_a_minute_are_told(void **state) {
  struct ctxp_restart restart = {0};
  uint64_t delay;
  (void)state;
  for (unsigned i = 0; i < 5; i++) {
    struct ctxp_death death = {.now_ms = 5000 + i * 15000};
    assert_int_equal(ctxp_restart_died(&restart, &death, &delay), i < 4 ? CTXP_RESTART_AGAIN : CTXP_RESTART_EARLY);
  }
}

static void five_deaths_before_ready_over_more_than_a_minute_are_not(void **state) {
  struct ctxp_restart restart = {0};
  uint64_t delay;
  (void)state;
  for (unsigned i = 0; i < 20; i++) {
    struct ctxp_death death = {.now_ms = 5000 + i * 15001};
    assert_int_equal(ctxp_restart_died(&restart, &death, &delay), CTXP_RESTART_AGAIN);
  }
}

static void being_ready_once_ends_the_row_of_early_deaths(void **state) {
  struct ctxp_restart restart = {0};
  uint64_t delay;
  (void)state;
  for (unsigned i = 0; i < 9; i++) {
    struct ctxp_death death = {.now_ms = 5000 + i, .ready = i == 4, .ready_ms = 1};
    assert_int_equal(ctxp_restart_died(&restart, &death, &delay), CTXP_RESTART_AGAIN);
  }
}

static void five_deaths_at_the_same_event_make_it_failed(void **state) {
  struct ctxp_restart restart = {0};
  uint64_t delay;
  (void)state;
  for (unsigned i = 0; i < 5; i++) {
    struct ctxp_death death = {.now_ms = 100000 * i, .ready = true, .ready_ms = 60000, .event = 42};
    assert_int_equal(ctxp_restart_died(&restart, &death, &delay), i < 4 ? CTXP_RESTART_AGAIN : CTXP_RESTART_FAILED);
  }
}

static void deaths_at_other_events_or_at_none_do_not_count_together(void **state) {
  struct ctxp_restart restart = {0};
  uint64_t delay;
  (void)state;
  for (unsigned i = 0; i < 40; i++) {
    struct ctxp_death death = {.now_ms = 100000 * i, .ready = true, .ready_ms = 1, .event = i % 5 == 4 ? i : 7};
    assert_int_equal(ctxp_restart_died(&restart, &death, &delay), CTXP_RESTART_AGAIN);
    death.event = 0;
    if (i % 10 == 0) assert_int_equal(ctxp_restart_died(&restart, &death, &delay), CTXP_RESTART_AGAIN);
  }
}

static void what_another_start_would_meet_again_is_not_started_again(void **state) {
  struct ctxp_restart restart = {0};
  uint64_t delay;
  struct ctxp_death death = {.now_ms = 1, .hopeless = true};
  (void)state;
  assert_int_equal(ctxp_restart_died(&restart, &death, &delay), CTXP_RESTART_FAILED);
  assert_int_equal(restart.restarts, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_delay_doubles_from_100_ms_to_30_s),
      cmocka_unit_test(a_stable_run_makes_the_next_death_a_first_one),
      cmocka_unit_test(five_deaths_before_ready_within_a_minute_are_told),
      cmocka_unit_test(five_deaths_before_ready_over_more_than_a_minute_are_not),
      cmocka_unit_test(being_ready_once_ends_the_row_of_early_deaths),
      cmocka_unit_test(five_deaths_at_the_same_event_make_it_failed),
      cmocka_unit_test(deaths_at_other_events_or_at_none_do_not_count_together),
      cmocka_unit_test(what_another_start_would_meet_again_is_not_started_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
