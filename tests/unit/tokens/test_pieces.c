/* The estimator "pieces": figures worked out by hand, in tenths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "tokens/pieces.h"

static void expect(const char *text, uint64_t pieces) {
  uint64_t got = ctxp_pieces(ctxp_str(text));
  if (got != pieces) fail_msg("'%.40s' has %llu tenths, expected %llu", text, (unsigned long long)got, (unsigned long long)pieces);
}

static void words_are_cut_at_a_change_of_case(void **state) {
  (void)state;
  expect("", 0);
  expect("word", 10);
  expect("Word", 10);
  expect("camelCase", 20);
  expect("HTTPServer", 20); /* HTTP, Server */
  expect("ABC", 10);
  expect("aB", 20);
}

static void long_words_have_a_piece_more_for_each_five_letters(void **state) {
  (void)state;
  expect("letter", 10);
  expect("letters", 20);
  expect("abcdefghijkl", 30); /* 12 + 3 = 15 = 3 * 5 */
  expect("ABCDEFGHIJKL", 30);
}

static void punctuation_counts_by_two_digits_by_three_and_blanks_from_two(void **state) {
  (void)state;
  expect("(", 10);
  expect("()", 10);
  expect("(){", 20);
  expect("123", 16);
  expect("1234", 32);
  expect("a b", 20);
  expect("a  b", 30);
  expect("a\n\n\nb", 30);
  expect("\r\n\t", 10); /* one run of newlines; one blank is none */
  expect("x = f(1);\n", 10 + 10 + 10 + 10 + 16 + 10 + 10);
}

static void scripts_without_blanks_have_a_piece_a_character(void **state) {
  (void)state;
  expect("\u6f22\u5b57", 22);
  expect("\u3072\uac00\uff21", 33);
  expect("\U00020000", 11);
  expect("\u00e9\u2192\U0001f600", 21);
  expect("\xff", 7); /* what is no UTF-8 is shown as one character */
}

static void long_base64_is_not_taken_for_words(void **state) {
  (void)state;
  char text[512] = {0};
  for (unsigned i = 0; i < 200; i++) text[i] = "aB3+"[i % 4];
  expect(text, 1200);
  text[200] = '!';
  expect(text, 1210);
  text[199] = '-'; /* 199 characters are none: a, B, 3, + fifty times, the last without + */
  expect(text, 50 * (10 + 10 + 16) + 49 * 10 + 10);
  memset(text, 'a', 200); /* no digit, no capital */
  text[200] = '\0';
  expect(text, 10 * (203 / 5));
}

static void a_models_family_is_told_by_its_name(void **state) {
  (void)state;
  static const struct {
    const char *name;
    enum ctxp_family family;
    unsigned factor;
    int thinking;
  } models[] = {
      {"claude-sonnet-4-5-20250929", CTXP_FAMILY_CLAUDE, 990, 1},
      {"claude-opus-4-5-20251101", CTXP_FAMILY_CLAUDE, 990, -1},
      {"us.anthropic.claude-opus-4-7-v1:0", CTXP_FAMILY_CLAUDE_47, 1340, -1},
      {"anthropic/claude-opus-4.7", CTXP_FAMILY_CLAUDE_47, 1340, -1},
      {"claude-3-haiku", CTXP_FAMILY_CLAUDE, 990, 0},
      {"GPT-5.5", CTXP_FAMILY_GPT, 795, 1},
      {"zai/glm-5.1", CTXP_FAMILY_GLM, 815, 1},
      {"deepseek-v4-pro", CTXP_FAMILY_DEEPSEEK, 860, -1},
      {"my-glm-5", CTXP_FAMILY_UNKNOWN, 1024, 0},
      {"", CTXP_FAMILY_UNKNOWN, 1024, 0},
  };
  for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
    const struct ctxp_tokenizer *t = ctxp_tokenizer(ctxp_str(models[i].name));
    if (t->family != models[i].family || t->factor != models[i].factor || t->thinking != models[i].thinking)
      fail_msg("%s is of family %d, factor %u, thinking %d", models[i].name, (int)t->family, t->factor, t->thinking);
  }
}

static void thinking_is_estimated_from_its_signature(void **state) {
  (void)state;
  assert_int_equal(ctxp_thinking_by_signature(CTXP_FAMILY_CLAUDE, 1000), 183);
  assert_int_equal(ctxp_thinking_by_signature(CTXP_FAMILY_CLAUDE, 100), 0);
  assert_int_equal(ctxp_thinking_by_signature(CTXP_FAMILY_CLAUDE_47, 1000), 280);
  assert_int_equal(ctxp_thinking_by_signature(CTXP_FAMILY_GPT, 1000), 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(words_are_cut_at_a_change_of_case),
      cmocka_unit_test(long_words_have_a_piece_more_for_each_five_letters),
      cmocka_unit_test(punctuation_counts_by_two_digits_by_three_and_blanks_from_two),
      cmocka_unit_test(scripts_without_blanks_have_a_piece_a_character),
      cmocka_unit_test(long_base64_is_not_taken_for_words),
      cmocka_unit_test(a_models_family_is_told_by_its_name),
      cmocka_unit_test(thinking_is_estimated_from_its_signature),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
