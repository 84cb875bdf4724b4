#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "config/decimal.h"
#include "config/path.h"

static int set_environment(void **state) {
  (void)state;
  setenv("HOME", "/home/user", 1);
  setenv("SET", "/set/value", 1);
  setenv("EMPTY", "", 1);
  unsetenv("UNSET");
  return 0;
}

static void resolves_to(const char *path, const char *expected) {
  ctxp_auto_buf out = {0};
  struct ctxp_error why = {{0}};
  assert_int_equal(ctxp_path_resolve(ctxp_str(path), "/base/dir", "the base", &out, &why), 0);
  assert_string_equal(ctxp_buf_cstr(&out), expected);
}

static void is_refused(const char *path, const char *sentence) {
  ctxp_auto_buf out = {0};
  struct ctxp_error why = {{0}};
  assert_int_equal(ctxp_path_resolve(ctxp_str(path), "/base/dir", "the base", &out, &why), -EINVAL);
  assert_string_equal(why.text, sentence);
}

static void home_and_variables_are_replaced(void **state) {
  (void)state;
  resolves_to("~", "/home/user");
  resolves_to("~/a", "/home/user/a");
  resolves_to("a~b/~", "/base/dir/a~b/~");
  resolves_to("${SET}/a", "/set/value/a");
  resolves_to("x${UNSET:-y}z", "/base/dir/xyz");
  resolves_to("${EMPTY:-~/y}/z", "/home/user/y/z");
  resolves_to("a/${EMPTY:-~}", "/base/dir/a/~");
  resolves_to("${SET:-other}", "/set/value");
  resolves_to("${UNSET:-}a", "/base/dir/a");
  resolves_to("a$$b", "/base/dir/a$b");
}

static void relative_paths_stay_in_their_directory(void **state) {
  (void)state;
  resolves_to("a//b/./c/../d/", "/base/dir/a/b/d");
  resolves_to("a/..", "/base/dir");
  resolves_to("/a/../../b", "/b");
  resolves_to("/", "/");
  is_refused("..", "'..' leaves the base; write an absolute path for a place outside it");
  is_refused("a/../../dir/x", "'a/../../dir/x' leaves the base; write an absolute path for a place outside it");
}

static void nothing_else_is_replaced(void **state) {
  (void)state;
  is_refused("$SET/a", "a lone '$'; write ${NAME} for a variable, $$ for a dollar sign");
  is_refused("${UNSET}", "variable UNSET is not set; set it, or write ${UNSET:-text}");
  is_refused("${EMPTY}/a", "variable EMPTY is not set; set it, or write ${EMPTY:-text}");
  is_refused("${SET-x}", "'${SET-x}' is not a variable; write ${NAME} or ${NAME:-text}");
  is_refused("${}", "'${}' is not a variable; write ${NAME} or ${NAME:-text}");
  is_refused("${1X}", "'${1X}' is not a variable; write ${NAME} or ${NAME:-text}");
  is_refused("${UNSET:-${SET}}", "the text of '${UNSET:-${SET}' holds a '$'; only plain text can stand there");
  is_refused("${SET", "'${' without '}'");
  is_refused("~root/x", "'~' stands alone or before '/'; another user's home is not looked up");
  is_refused("${UNSET:-}", "an empty path");
  is_refused("", "an empty path");
  setenv("SET", "/caf\xe9", 1);
  is_refused("${SET}", "'/caf?' is not UTF-8 after its variables were replaced");
}

static void an_escaped_path_expands_to_itself(void **state) {
  (void)state;
  static const char *const paths[] = {"/a$b", "/$$", "/${HOME}/x", "/a b~c", "/$"};
  for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
    ctxp_auto_buf escaped = {0}, back = {0};
    struct ctxp_error why;
    ctxp_path_escape(ctxp_str(paths[i]), &escaped);
    assert_int_equal(ctxp_path_expand(ctxp_buf_view(&escaped), &back, &why), 0);
    assert_string_equal(ctxp_buf_cstr(&back), paths[i]);
  }
}

static void a_file_is_located_by_its_text(void **state) {
  (void)state;
  ctxp_auto_free char *file = NULL, *dir = NULL;
  assert_int_equal(ctxp_path_locate("/a/b/../c.yaml", &file, &dir), 0);
  assert_string_equal(file, "/a/c.yaml");
  assert_string_equal(dir, "/a");
}

static void in_the_root_the_directory_is_the_root(void **state) {
  (void)state;
  ctxp_auto_free char *file = NULL, *dir = NULL;
  assert_int_equal(ctxp_path_locate("/c.yaml", &file, &dir), 0);
  assert_string_equal(file, "/c.yaml");
  assert_string_equal(dir, "/");
}

static void decimal_is(const char *text, int code, int64_t nano) {
  int64_t got = -7;
  assert_int_equal(ctxp_decimal_nano(ctxp_str(text), &got), code);
  assert_true(got == (code == 0 ? nano : -7));
}

static void decimals_are_read_exactly(void **state) {
  (void)state;
  decimal_is("3", 0, 3000000000);
  decimal_is("3.75", 0, 3750000000);
  decimal_is("0.0036", 0, 3600000);
  decimal_is("0.000000001", 0, 1);
  decimal_is("0.1000000000000000000000000", 0, 100000000);
  decimal_is("0", 0, 0);
  decimal_is("-0.0", 0, 0);
  decimal_is("0.0000000000000000000000000000", 0, 0);
  decimal_is("1e-9", 0, 1);
  decimal_is("1.5e2", 0, 150000000000);
  decimal_is("1E+6", 0, 1000000000000000);
  decimal_is("1000000", 0, 1000000000000000);
  decimal_is("100", 0, 100000000000);
  decimal_is("1002003.0", -ERANGE, 0);
}

static void a_decimal_that_does_not_fit_is_refused(void **state) {
  (void)state;
  decimal_is("0.0000000001", -ERANGE, 0);
  decimal_is("0.30000000000000004", -ERANGE, 0);
  decimal_is("1000000.1", -ERANGE, 0);
  decimal_is("99999999999999999999999999", -ERANGE, 0);
  decimal_is("1e300", -ERANGE, 0);
  decimal_is("1e-300", -ERANGE, 0);
  decimal_is("-1", -ERANGE, 0);
  static const char *const bad[] = {"", "-", ".5", "5.", "1,5", "0x10", "1e", "1e+", "$3", "3 ", "inf", "nan", "+3", "1.2.3"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) decimal_is(bad[i], -EINVAL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(home_and_variables_are_replaced, set_environment),
      cmocka_unit_test_setup(relative_paths_stay_in_their_directory, set_environment),
      cmocka_unit_test_setup(nothing_else_is_replaced, set_environment),
      cmocka_unit_test_setup(an_escaped_path_expands_to_itself, set_environment),
      cmocka_unit_test(a_file_is_located_by_its_text),
      cmocka_unit_test(in_the_root_the_directory_is_the_root),
      cmocka_unit_test(decimals_are_read_exactly),
      cmocka_unit_test(a_decimal_that_does_not_fit_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
