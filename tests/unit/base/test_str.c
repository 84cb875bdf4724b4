#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/str.h"
#include "support/fail_alloc.h"

/* encodes one code point, surrogates and beyond included, by the bit pattern alone */
static size_t put(uint32_t c, char out[4]) {
  if (c < 0x80) return out[0] = (char)c, 1;
  if (c < 0x800) return out[0] = (char)(0xc0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
  if (c < 0x10000) return out[0] = (char)(0xe0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 63)), out[2] = (char)(0x80 | (c & 63)), 3;
  out[0] = (char)(0xf0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 63)), out[2] = (char)(0x80 | (c >> 6 & 63)),
  out[3] = (char)(0x80 | (c & 63));
  return 4;
}

static void every_code_point_decodes_to_itself(void **state) {
  (void)state;
  for (uint32_t c = 0; c < 0x110000; c++) {
    char bytes[4];
    size_t len = put(c, bytes);
    uint32_t got = 0;
    if (c >= 0xd800 && c <= 0xdfff) {
      assert_int_equal(ctxp_utf8_sequence(bytes, len), 0);
      continue;
    }
    assert_int_equal(ctxp_utf8_sequence(bytes, len), len);
    assert_int_equal(ctxp_utf8_decode(bytes, &got), len);
    assert_int_equal(got, c);
    assert_int_equal(ctxp_utf16_units((struct ctxp_str){bytes, len}), c > 0xffff ? 2 : 1);
    for (size_t cut = 0; cut < len; cut++) assert_int_equal(ctxp_utf8_sequence(bytes, cut), 0);
  }
}

static void what_is_not_utf8_is_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xed\xa0\x80",
      "\xed\xbf\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3(", "\xe2\x82(",
      "\xe2(\xac", "\xf0\x9d\x84("};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    assert_false(ctxp_utf8_valid(ctxp_str(wrong[i])));
    char padded[32] = "01234567"; /* behind a run of ASCII that is taken eight at a time */
    strcat(padded, wrong[i]);
    assert_false(ctxp_utf8_valid(ctxp_str(padded)));
  }
  assert_true(ctxp_utf8_valid((struct ctxp_str){NULL, 0}));
  assert_true(ctxp_utf8_valid(CTXP_STR("01234567\0x\xf0\x9d\x84\x9e")));
}

static void units_are_counted_as_javascript_counts(void **state) {
  (void)state;
  assert_int_equal(ctxp_utf16_units((struct ctxp_str){NULL, 0}), 0);
  assert_int_equal(ctxp_utf16_units(CTXP_STR("abcdefghijk")), 11);
  assert_int_equal(ctxp_utf16_units(CTXP_STR("\xc3\xa4\xe6\x97\xa5")), 2);
  assert_int_equal(ctxp_utf16_units(CTXP_STR("\xf0\x9d\x84\x9e")), 2);
  assert_int_equal(ctxp_utf16_units(CTXP_STR("12345678\xf0\x9d\x84\x9e"
                                             "12345678")),
      18);
  assert_int_equal(ctxp_utf16_units(CTXP_STR("a\xff\x80"
                                             "b")),
      4); /* each byte that is not UTF-8 is one U+FFFD */
}

static void a_prefix_never_splits_a_character(void **state) {
  (void)state;
  const struct ctxp_str text = CTXP_STR("a\xf0\x9d\x84\x9e\xc3\xa4z");
  static const size_t bytes[] = {0, 1, 1, 5, 7, 8, 8};
  for (size_t units = 0; units < sizeof(bytes) / sizeof(bytes[0]); units++)
    assert_int_equal(ctxp_utf16_prefix(text, units).len, bytes[units]);
  assert_int_equal(ctxp_utf16_prefix(text, SIZE_MAX).len, text.len);
}

static void white_space_is_that_of_javascript(void **state) {
  (void)state;
  static const uint32_t spaces[] = {9, 10, 11, 12, 13, 32, 0xa0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007,
      0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff};
  size_t at = 0;
  for (uint32_t c = 0; c < 0x110000; c++) {
    bool space = at < sizeof(spaces) / sizeof(spaces[0]) && spaces[at] == c;
    assert_int_equal(ctxp_js_space(c), space);
    at += space;
  }
}

static void trim_takes_white_space_from_both_ends(void **state) {
  (void)state;
  static const struct {
    const char *text, *trimmed;
  } cases[] = {
      {"", ""},
      {" \t\r\n", ""},
      {"\xef\xbb\xbf x \xe3\x80\x80", "x"},
      {"\xc2\xa0\xe2\x80\xa8x y\xe2\x80\xa9", "x y"},
      {"\xe2\x80\x8bx", "\xe2\x80\x8bx"}, /* a zero-width space is none */
      {"\xff x \x80", "\xff x \x80"},
      {"\x85x\x85", "\x85x\x85"},
      {"\xc2\x85x", "\xc2\x85x"}, /* NEL is no white space of JavaScript */
      {"\xe3\x80\x80", ""},
      {"\x80\x80\x80\x80 ", "\x80\x80\x80\x80"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    if (!ctxp_str_is(ctxp_js_trim(ctxp_str(cases[i].text)), cases[i].trimmed)) fail_msg("case %zu", i);
  assert_true(ctxp_str_blank(CTXP_STR(" \xe3\x80\x80\n")));
  assert_false(ctxp_str_blank(CTXP_STR(" .")));
}

static void texts_are_ordered_by_their_bytes(void **state) {
  (void)state;
  assert_true(ctxp_str_cmp(CTXP_STR("a"), CTXP_STR("b")) < 0);
  assert_true(ctxp_str_cmp(CTXP_STR("ab"), CTXP_STR("a")) > 0);
  assert_true(ctxp_str_cmp(CTXP_STR("\xef\xbf\xbf"), CTXP_STR("\xf0\x90\x80\x80")) < 0); /* code points, not UTF-16 units */
  assert_int_equal(ctxp_str_cmp((struct ctxp_str){NULL, 0}, CTXP_STR("")), 0);
  assert_true(ctxp_str_eq((struct ctxp_str){NULL, 0}, CTXP_STR("")));
  assert_false(ctxp_str_eq(CTXP_STR("a"), CTXP_STR("A")));
}

static void a_needle_is_found_at_or_after_a_place(void **state) {
  (void)state;
  const struct ctxp_str hay = CTXP_STR("abcabc");
  assert_int_equal(ctxp_str_find(hay, CTXP_STR("bc"), 0), 1);
  assert_int_equal(ctxp_str_find(hay, CTXP_STR("bc"), 2), 4);
  assert_int_equal(ctxp_str_find(hay, CTXP_STR("bc"), 5), SIZE_MAX);
  assert_int_equal(ctxp_str_find(hay, CTXP_STR(""), 6), 6);
  assert_int_equal(ctxp_str_find(hay, CTXP_STR(""), 7), SIZE_MAX);
  assert_int_equal(ctxp_str_find(hay, CTXP_STR("abcabca"), 0), SIZE_MAX);
  assert_true(ctxp_str_starts(hay, "abc") && ctxp_str_ends(hay, "abc") && ctxp_str_ends(hay, ""));
  assert_false(ctxp_str_starts(hay, "abcabca") || ctxp_str_ends(hay, "xabcabc"));
}

static void a_copy_ends_in_nul_and_failing_is_null(void **state) {
  (void)state;
  char *copy = ctxp_str_dup((struct ctxp_str){"abc", 2});
  assert_non_null(copy);
  assert_string_equal(copy, "ab");
  free(copy);
  copy = ctxp_str_dup((struct ctxp_str){NULL, 0});
  assert_non_null(copy);
  assert_string_equal(copy, "");
  free(copy);
  fail_alloc_at(1);
  assert_null(ctxp_str_dup(CTXP_STR("abc")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_point_decodes_to_itself),
      cmocka_unit_test(what_is_not_utf8_is_refused),
      cmocka_unit_test(units_are_counted_as_javascript_counts),
      cmocka_unit_test(a_prefix_never_splits_a_character),
      cmocka_unit_test(white_space_is_that_of_javascript),
      cmocka_unit_test(trim_takes_white_space_from_both_ends),
      cmocka_unit_test(texts_are_ordered_by_their_bytes),
      cmocka_unit_test(a_needle_is_found_at_or_after_a_place),
      cmocka_unit_test(a_copy_ends_in_nul_and_failing_is_null),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
