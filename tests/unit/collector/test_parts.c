#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "base/str.h"
#include "codec/json.h"
#include "collector/chain.h"
#include "collector/merge.h"

/* ---- chains ---- */
static struct ctxp_event prompt(const char *session, uint64_t keep) {
  struct ctxp_event ev = {.kind = CTXP_KIND_prompt, .agent = CTXP_STR("a"), .session = ctxp_str(session)};
  if (keep) ctxp_set(&ev.prompt, prompt, keep, keep);
  return ev;
}
static bool takes(struct ctxp_chain *chain, const char *session, uint64_t keep) {
  struct ctxp_event ev = prompt(session, keep);
  return ctxp_chain_prompt(chain, &ev);
}
static void lose(struct ctxp_chain *chain, const char *session) {
  struct ctxp_event ev = {.kind = CTXP_KIND_gap, .agent = CTXP_STR("a"), .session = ctxp_str(session)};
  ctxp_chain_break(chain, &ev);
}

static void a_gap_in_one_window_is_mended_by_a_whole_request(void **state) {
  (void)state;
  struct ctxp_chain chain = {0};
  assert_true(takes(&chain, "one", 3));
  lose(&chain, "one");
  assert_false(takes(&chain, "one", 3));
  assert_true(takes(&chain, "two", 3));
  struct ctxp_event whole = prompt("one", 0);
  ctxp_set(&whole.prompt, prompt, request, (struct ctxp_list){0});
  assert_true(ctxp_chain_prompt(&chain, &whole));
  assert_true(takes(&chain, "one", 3));
}

static void a_gap_of_no_session_breaks_every_window(void **state) {
  (void)state;
  struct ctxp_chain chain = {0};
  lose(&chain, "");
  assert_false(takes(&chain, "one", 1));
  assert_true(takes(&chain, "one", 0)); /* keeps nothing: needs no predecessor */
  assert_true(takes(&chain, "one", 1));
  assert_false(takes(&chain, "two", 1));
  lose(&chain, "one");
  assert_false(takes(&chain, "one", 1));
}

static void more_windows_than_are_remembered_are_asked_for_a_request_never_taken_wrongly(void **state) {
  (void)state;
  struct ctxp_chain chain = {0};
  char name[16];
  for (int i = 0; i < CTXP_CHAIN_MAX + 10; i++) {
    snprintf(name, sizeof(name), "s%d", i);
    lose(&chain, name);
  }
  for (int i = 0; i < CTXP_CHAIN_MAX + 10; i++) {
    snprintf(name, sizeof(name), "s%d", i);
    assert_false(takes(&chain, name, 1));
  }
  for (int i = 0; i < CTXP_CHAIN_MAX + 1; i++) {
    snprintf(name, sizeof(name), "s%d", i);
    assert_true(takes(&chain, name, 0));
  }
  assert_false(takes(&chain, "s0", 1)); /* the oldest mending is forgotten */
  assert_true(takes(&chain, "s1", 1));
}

static void a_chain_survives_its_record(void **state) {
  (void)state;
  struct ctxp_chain chain = {0}, back;
  ctxp_auto_buf out = {0};
  lose(&chain, "one");
  ctxp_chain_pack(&out, &chain);
  assert_int_equal(ctxp_chain_unpack(ctxp_buf_raw(&out), &back), 0);
  assert_false(takes(&back, "one", 1));
  assert_true(takes(&back, "two", 1));
  for (size_t cut = 1; cut < out.len; cut++) assert_true(ctxp_chain_unpack((struct ctxp_raw){out.ptr, cut}, &back) < 0);
}

/* ---- merging ---- */
static struct ctxp_list skeleton(struct ctxp_buf *buf) {
  static const struct {
    const char *id, *call, *call2;
  } rows[] = {{"u1", NULL, NULL}, {"a1", "c1", "c2"}, {"r1", NULL, NULL}, {"a2", "c3", NULL}};
  struct ctxp_list list = {0};
  ctxp_auto_buf calls_buf = {0};
  for (size_t i = 0; i < 4; i++) {
    struct ctxp_skeleton m = {.id = ctxp_str(rows[i].id), .role = CTXP_ROLE_user};
    struct ctxp_list calls = {0};
    ctxp_buf_reset(&calls_buf);
    const char *const ids[] = {rows[i].call, rows[i].call2};
    for (int k = 0; k < 2; k++) {
      struct ctxp_call call = {.id = ctxp_str(ids[k]), .name = CTXP_STR("x")};
      if (ids[k]) assert_int_equal(ctxp_list_add(&calls, &calls_buf, &ctxp_shape_call, &call), 0);
    }
    if (calls.count) ctxp_set(&m, skeleton, calls, calls);
    assert_int_equal(ctxp_list_add(&list, buf, &ctxp_shape_skeleton, &m), 0);
  }
  return list;
}

static void merged_is(const char *const *actions, unsigned count, const char *expected, int pairs) {
  ctxp_auto_buf list = {0}, out = {0}, text = {0};
  struct ctxp_raw raws[4];
  struct ctxp_buf bufs[4] = {{0}};
  for (unsigned i = 0; i < count; i++) {
    if (actions[i]) assert_int_equal(ctxp_json_to_raw(ctxp_str(actions[i]), &bufs[i], NULL), 0);
    raws[i] = ctxp_buf_raw(&bufs[i]);
  }
  assert_int_equal(ctxp_merge(skeleton(&list), raws, count, &out), pairs);
  assert_int_equal(ctxp_json_from_raw(ctxp_buf_raw(&out), &text), 0);
  assert_string_equal(ctxp_buf_cstr(&text), expected);
  for (unsigned i = 0; i < count; i++) ctxp_buf_deinit(&bufs[i]);
}

static void the_first_replace_wins(void **state) {
  (void)state;
  merged_is((const char *const[]){NULL, "{\"replace\":{\"text\":\"one\"}}", "{\"replace\":{\"text\":\"two\"},\"inject\":{\"fact\":\"f\"}}"},
      3, "{\"replace\":{\"text\":\"one\"},\"inject\":{\"fact\":\"f\"}}", 2);
}

static void removals_are_united_in_the_order_of_the_request(void **state) {
  (void)state;
  merged_is(
      (const char *const[]){"{\"remove\":[\"a2\"],\"stripContent\":[\"c3\"]}", "{\"remove\":[\"r1\",\"a2\"],\"stripContent\":[\"c1\"]}"}, 2,
      "{\"remove\":[\"r1\",\"a2\"],\"stripContent\":[\"c1\",\"c3\"]}", 2);
}

static void nothing_is_stripped_from_a_removed_message(void **state) {
  (void)state;
  merged_is((const char *const[]){"{\"strip\":{\"a2\":[\"c3\"],\"a1\":[\"c2\"]}}", "{\"remove\":[\"a2\"],\"strip\":{\"a1\":[\"c1\"]}}"}, 2,
      "{\"remove\":[\"a2\"],\"strip\":{\"a1\":[\"c1\",\"c2\"]}}", 2);
}

static void all_passed_is_an_empty_answer(void **state) {
  (void)state;
  merged_is((const char *const[]){NULL, NULL}, 2, "{}", 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gap_in_one_window_is_mended_by_a_whole_request),
      cmocka_unit_test(a_gap_of_no_session_breaks_every_window),
      cmocka_unit_test(more_windows_than_are_remembered_are_asked_for_a_request_never_taken_wrongly),
      cmocka_unit_test(a_chain_survives_its_record),
      cmocka_unit_test(the_first_replace_wins),
      cmocka_unit_test(removals_are_united_in_the_order_of_the_request),
      cmocka_unit_test(nothing_is_stripped_from_a_removed_message),
      cmocka_unit_test(all_passed_is_an_empty_answer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
