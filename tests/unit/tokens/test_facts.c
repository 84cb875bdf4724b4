/* What is said of a text that was left out stands for the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/str.h"
#include "tokens/facts.h"

static char text[2000]; /* 100 lines of "0123456789abcdé" and a newline; the last line ends without one */
static char hex[CTXP_HASH_HEX];

static struct ctxp_tool_result result_of(size_t len) {
  return (struct ctxp_tool_result){.text = {text, len}};
}

static int fill_text(void **state) {
  (void)state;
  for (size_t i = 0; i < 100; i++) memcpy(text + i * 17, "0123456789abcd\xc3\xa9\n", 17);
  return 0;
}

static void what_is_said_of_a_text_is_what_the_text_says(void **state) {
  (void)state;
  struct ctxp_tool_result whole = result_of(1699), bare = result_of(1699);
  ctxp_text_leave_out(&bare, hex);
  assert_int_equal(bare.text.len, 0);
  assert_true(ctxp_has(&bare, tool_result, textHash) && ctxp_has(&bare, tool_result, textUnits) && ctxp_has(&bare, tool_result, textLines));
  struct ctxp_text_facts a = ctxp_text_facts(&whole), b = ctxp_text_facts(&bare);
  assert_int_equal(a.units, 1599);
  assert_int_equal(a.lines, 100);
  assert_int_equal(a.units, b.units);
  assert_int_equal(a.lines, b.lines);
  assert_true(a.hash.hi == b.hash.hi && a.hash.lo == b.hash.lo && (a.hash.hi || a.hash.lo));
  assert_false(a.blank || b.blank);
}

static void short_blank_and_cut_texts_stay(void **state) {
  (void)state;
  static char blanks[600];
  memset(blanks, ' ', sizeof(blanks));
  struct ctxp_tool_result small = result_of(CTXP_LEAVE_TEXT_MIN - 1), cut = result_of(1699);
  struct ctxp_tool_result blank = {.text = {blanks, sizeof(blanks)}};
  ctxp_set(&cut, tool_result, textUnits, 5000);
  ctxp_text_leave_out(&small, hex);
  ctxp_text_leave_out(&cut, hex);
  ctxp_text_leave_out(&blank, hex);
  assert_int_equal(small.text.len, CTXP_LEAVE_TEXT_MIN - 1);
  assert_int_equal(cut.text.len, 1699);
  assert_int_equal(cut.textUnits, 5000);
  assert_int_equal(blank.text.len, sizeof(blanks));
}

static void what_cannot_be_said_of_a_text_is_not_believed(void **state) {
  (void)state;
  static const struct {
    const char *hash;
    uint64_t units, lines;
  } wrong[] = {{"0123456789abcdef0123456789abcde", 10, 1}, {"0123456789abcdef0123456789abcdeg", 10, 1}, {"", 10, 1},
      {"0123456789abcdef0123456789abcdef", 10, 11}, {"0123456789abcdef0123456789abcdef", 10, 0}, {"0123456789abcdef0123456789abcdef", 0, 0},
      {"0123456789abcdef0123456789abcdef", UINT64_MAX, 1}};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    struct ctxp_tool_result result = {.text = {"", 0}, .textUnits = wrong[i].units, .textLines = wrong[i].lines};
    result.textHash = ctxp_str(wrong[i].hash);
    struct ctxp_text_facts facts = ctxp_text_facts(&result);
    assert_true(facts.blank);
    assert_int_equal(facts.units, 0);
  }
  struct ctxp_tool_result both = result_of(1699); /* the text itself is there */
  both.textHash = CTXP_STR("0123456789abcdef0123456789abcdef");
  both.textUnits = both.textLines = 7;
  assert_int_equal(ctxp_text_facts(&both).units, 1599);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_said_of_a_text_is_what_the_text_says),
      cmocka_unit_test(short_blank_and_cut_texts_stay),
      cmocka_unit_test(what_cannot_be_said_of_a_text_is_not_believed),
  };
  return cmocka_run_group_tests(tests, fill_text, NULL);
}
