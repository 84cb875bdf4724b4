/* Which messages of a request go: worked by hand. A request is written as one line: `u` user, `a` assistant with text, `-` assistant
 * without; its calls follow as `:x`; `rx` is the result of call x. A capital letter X: the result may go. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/str.h"
#include "mechanisms/removal.h"

enum { MESSAGES = 40 };
static struct ctxp_view views[MESSAGES];
static struct ctxp_view_call calls[MESSAGES][8];
static struct ctxp_request request;
static char ids[128][2];

static struct ctxp_str letter(char c) {
  ids[(unsigned char)c][0] = (char)tolower((unsigned char)c);
  return ctxp_str(ids[(unsigned char)c]);
}

/* every result has 100 tokens, every call 10, an assistant's text 5, a user message 1 */
static void read_request(const char *line) {
  memset(views, 0, sizeof(views));
  memset(calls, 0, sizeof(calls));
  request = (struct ctxp_request){views, 0};
  for (const char *p = line; *p; p++) {
    if (*p == ' ') continue;
    struct ctxp_view *view = &views[request.count];
    view->calls = calls[request.count++];
    view->seen = true;
    if (*p == 'r' || *p == 'R') {
      *view = (struct ctxp_view){.role = CTXP_ROLE_tool,
          .call = letter(p[1]),
          .tokens = 100,
          .candidate = isupper((unsigned char)p[1]),
          .seen = *p == 'r',
          .calls = view->calls};
      p++;
      continue;
    }
    view->role = *p == 'u' ? CTXP_ROLE_user : *p == 'c' ? CTXP_ROLE_custom :
                                                          CTXP_ROLE_assistant;
    view->has_text = *p != '-';
    view->tokens = *p == 'a' ? 5 : *p == '-' ? 0 :
                                               1;
    while (p[1] == ':') {
      view->calls[view->call_count++] =
          (struct ctxp_view_call){.id = letter(p[2]), .tokens = 10, .candidate = isupper((unsigned char)p[2])};
      view->tokens += 10;
      p += 2;
    }
  }
}

/* '.': stays; 'x': goes; a digit: so many of its calls are stripped */
static void assert_marks(const char *expected) {
  char marks[MESSAGES + 1] = "";
  for (size_t i = 0; i < request.count; i++) {
    unsigned stripped = 0;
    for (size_t k = 0; k < views[i].call_count; k++) stripped += views[i].calls[k].strip;
    marks[i] = views[i].remove ? 'x' : stripped ? (char)('0' + stripped) :
                                                  '.';
  }
  assert_string_equal(marks, expected);
}

static void tail(const char *line, const char *marks) {
  read_request(line);
  ctxp_removal_tail(&request, false);
  assert_marks(marks);
}

static void only_the_suffix_of_dropped_results_goes(void **state) {
  (void)state;
  tail("u -:A rA", ".xx");
  tail("u a:A rA", ".1x");
  tail("u a:A rA u", "....");
  tail("u a:A rA a:b rb", ".....");
  tail("u -:A rA -:B rB", ".xxxx");
  tail("u a:A rA -:B rB", ".1xxx");
  tail("u -:A rA a:B rB", "...1x");
}

static void a_mixed_round_goes_as_far_as_a_kept_result_reaches(void **state) {
  (void)state;
  tail("u -:k:D rk rD", ".1.x");
  tail("u -:D:k rD rk", "....");
  tail("u -:A:B:C rA rB rC", ".xxxx");
  tail("u -:k:A:l:B rk rA rl rB", ".1...x");
  tail("u -:k:A:B rk rA rB", ".2.xx");
}

static void a_request_never_becomes_empty(void **state) {
  (void)state;
  tail("-:A rA", "..");
  read_request("-:A rA");
  struct ctxp_economics cold = {.cold = true, .read = -1, .write = -1, .runs = 1};
  ctxp_removal_seen(&request, &cold);
  assert_marks("..");
}

static void a_lone_call_goes_only_where_that_is_asked_for(void **state) {
  (void)state;
  tail("u -:A", "..");
  read_request("u -:A");
  ctxp_removal_tail(&request, true);
  assert_marks(".x");
}

static void seen(const char *line, struct ctxp_economics e, const char *marks) {
  read_request(line);
  ctxp_removal_seen(&request, &e);
  assert_marks(marks);
}

static void where_the_cache_is_cold_everything_seen_goes(void **state) {
  (void)state;
  struct ctxp_economics cold = {.cold = true, .read = -1, .write = -1, .runs = 1};
  seen("u -:A rA a:b rb u", cold, ".xx...");
  seen("u a:A:b rA rb a", cold, ".1x..");
  seen("u -:A rA -:B RB", cold, ".xx.."); /* no request has carried B */
  seen("u -:k:A rk rA u", cold, ".1.x.");
}

static void without_a_price_only_a_cold_cache_removes(void **state) {
  (void)state;
  seen("u -:A rA a u", (struct ctxp_economics){.read = -1, .write = 375, .runs = 1, .turns = 1000}, ".....");
  seen("u -:A rA a u", (struct ctxp_economics){.read = 30, .write = -1, .runs = 1, .turns = 1000}, ".....");
}

/* Removing result and call: 110 tokens fewer in each of the turns to come at 30 a token; what follows is written again at 375 - 30. */
static void a_removal_must_pay(void **state) {
  (void)state;
  struct ctxp_economics e = {.read = 30, .write = 375, .turns = 1, .runs = 1};
  /* behind it 1 + 5 tokens: 110 x 1 x 30 = 3300 > 6 x 345 = 2070 */
  seen("u -:A rA a u", e, ".xx..");
  /* behind it 115 tokens: 3300 < 115 x 345 = 39675; with 13 turns 42900 it pays, with 12 turns 39600 it does not */
  seen("u -:A rA a:b rb", e, ".....");
  e.turns = 12;
  seen("u -:A rA a:b rb", e, ".....");
  e.turns = 13;
  seen("u -:A rA a:b rb", e, ".xx..");
  /* 25 turns in 2 runs: 12.5 turns, 110 x 12.5 x 30 = 41250 > 39675; 24 in 2: 39600 */
  e.turns = 25;
  e.runs = 2;
  seen("u -:A rA a:b rb", e, ".xx..");
  e.turns = 24;
  seen("u -:A rA a:b rb", e, ".....");
  /* fewer turns than runs: at least 1 is expected */
  e.turns = 1;
  e.runs = 9;
  seen("u -:A rA a u", e, ".xx..");
}

static void several_go_together(void **state) {
  (void)state;
  struct ctxp_economics e = {.read = 30, .write = 375, .turns = 2, .runs = 1};
  /* B alone: 110 x 2 x 30 = 6600 > 6 x 345. A and B: 13200 - (100 + 15 + 6) x 345 < 0: only B goes */
  seen("u -:A rA a:k rk -:B rB a u", e, ".....xx..");
  /* nothing of weight between: A and B 13200 - 11 x 345 = 9405 > B alone 6600 - 6 x 345 = 4530 */
  seen("u -:A rA a -:B rB a u", e, ".xx.xx..");
  /* C pays for nothing on its own, but what it costs is borne by B already */
  e.turns = 1;
  seen("u -:B rB -:C rC a:k rk", e, ".......");
  e.turns = 7; /* both: 220 x 7 x 30 = 46200 > 115 x 345 = 39675; C alone 23100 < 39675 */
  seen("u -:B rB -:C rC a:k rk", e, ".xxxx..");
}

static void what_is_gone_is_not_looked_at(void **state) {
  (void)state;
  read_request("u -:A rA a:B rB");
  views[1].gone = views[2].gone = true;
  ctxp_removal_tail(&request, false);
  assert_marks("...1x");
  struct ctxp_removal sum = ctxp_removal_sum(&request);
  assert_int_equal(sum.messages, 1);
  assert_int_equal(sum.saved, 100);
  assert_int_equal(sum.stripped_tokens, 10);
}

static void a_message_whose_last_call_is_stripped_goes(void **state) {
  (void)state;
  read_request("u -:A:B rA rB");
  calls[1][0].gone = true; /* A went before */
  views[2].gone = true;
  ctxp_removal_tail(&request, false);
  assert_marks(".x.x");
  struct ctxp_removal sum = ctxp_removal_sum(&request);
  assert_int_equal(sum.messages, 2);
  assert_int_equal(sum.saved, 120);
  assert_int_equal(sum.stripped_tokens, 0);
}

static void huge_figures_do_not_overflow(void **state) {
  (void)state;
  read_request("u -:A rA a:b rb");
  views[2].tokens = UINT64_C(1) << 40;
  views[4].tokens = UINT64_C(1) << 40;
  struct ctxp_economics e = {.read = INT64_C(1) << 40, .write = (INT64_C(1) << 40) + 1, .turns = UINT64_C(1) << 30, .runs = 1};
  ctxp_removal_seen(&request, &e);
  assert_marks(".xx..");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_the_suffix_of_dropped_results_goes),
      cmocka_unit_test(a_mixed_round_goes_as_far_as_a_kept_result_reaches),
      cmocka_unit_test(a_request_never_becomes_empty),
      cmocka_unit_test(a_lone_call_goes_only_where_that_is_asked_for),
      cmocka_unit_test(where_the_cache_is_cold_everything_seen_goes),
      cmocka_unit_test(without_a_price_only_a_cold_cache_removes),
      cmocka_unit_test(a_removal_must_pay),
      cmocka_unit_test(several_go_together),
      cmocka_unit_test(what_is_gone_is_not_looked_at),
      cmocka_unit_test(a_message_whose_last_call_is_stripped_goes),
      cmocka_unit_test(huge_figures_do_not_overflow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
