#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "config/yaml.h"

static struct ctxp_faults faults;
static struct ctxp_yaml_doc doc;
static struct ctxp_buf text, said;

static int teardown(void **state) {
  (void)state;
  ctxp_faults_deinit(&faults);
  ctxp_yaml_deinit(&doc);
  ctxp_buf_deinit(&text);
  ctxp_buf_deinit(&said);
  return 0;
}

static int parse(struct ctxp_str input) {
  ctxp_yaml_deinit(&doc);
  ctxp_faults_deinit(&faults);
  ctxp_buf_reset(&said);
  faults.file = "f";
  int r = ctxp_yaml_parse(input, &faults, &doc);
  ctxp_faults_write(&faults, &said);
  return r;
}

static void values_have_their_place_in_the_file(void **state) {
  (void)state;
  assert_int_equal(parse(CTXP_STR("a: 1\nb:\n  - x\n  - {\"k\": 'v'}\n")), 0);
  assert_int_equal(faults.count, 0);
  const struct ctxp_yaml *b = ctxp_yaml_get(doc.root, "b"), *second = b->first->next;
  assert_int_equal(doc.root->count, 2);
  assert_int_equal(b->type, CTXP_YAML_SEQUENCE);
  assert_int_equal(b->key->place.line, 2);
  assert_true(ctxp_str_is(b->first->text, "x"));
  assert_true(b->first->plain);
  assert_int_equal(second->place.line, 4);
  assert_int_equal(second->place.column, 5);
  assert_true(ctxp_str_is(ctxp_yaml_get(second, "k")->text, "v"));
  assert_false(ctxp_yaml_get(second, "k")->plain);
  assert_null(ctxp_yaml_get(doc.root, "c"));
}

static void an_empty_value_is_null_and_an_empty_text_is_not(void **state) {
  (void)state;
  assert_int_equal(parse(CTXP_STR("a:\nb: ''\nc: ~\nd: null\ne: 'null'\n")), 0);
  assert_true(ctxp_yaml_is_null(ctxp_yaml_get(doc.root, "a")));
  assert_false(ctxp_yaml_is_null(ctxp_yaml_get(doc.root, "b")));
  assert_true(ctxp_yaml_is_null(ctxp_yaml_get(doc.root, "c")));
  assert_true(ctxp_yaml_is_null(ctxp_yaml_get(doc.root, "d")));
  assert_false(ctxp_yaml_is_null(ctxp_yaml_get(doc.root, "e")));
}

static void an_alias_bomb_is_a_fault_at_its_first_alias(void **state) {
  (void)state;
  ctxp_buf_str(&text, "a: &a [x, x, x, x, x, x, x, x, x, x]\n");
  for (char c = 'b'; c <= 'i'; c++)
    ctxp_buf_printf(
        &text, "%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1);
  assert_int_equal(parse(ctxp_buf_view(&text)), 0);
  assert_int_equal(ctxp_faults_error(&faults), -EINVAL);
  assert_non_null(
      strstr(ctxp_buf_cstr(&said), "f:1:4: anchors are not used here ('&a'); write the value out\nf:2:4: anchors are not used here"));
  assert_non_null(strstr(ctxp_buf_cstr(&said), "f:2:8: aliases are not used here ('*a'); write the value out\n"));
}

static void depth_ends_with_a_sentence(void **state) {
  (void)state;
  for (int i = 0; i < 500000; i++) ctxp_buf_char(&text, i % 2 ? '{' : '[');
  assert_int_equal(parse(ctxp_buf_view(&text)), -EINVAL);
  assert_non_null(strstr(ctxp_buf_cstr(&said), "nested more than 16 levels deep\n"));
  ctxp_buf_reset(&text);
  for (int i = 0; i < 200; i++) ctxp_buf_printf(&text, "%*sk:\n", i, "");
  assert_int_equal(parse(ctxp_buf_view(&text)), -EINVAL);
  assert_non_null(strstr(ctxp_buf_cstr(&said), "nested more than 16 levels deep\n"));
}

static void size_and_count_end_with_a_sentence(void **state) {
  (void)state;
  while (text.len < 10 * 1000 * 1000) ctxp_buf_str(&text, "- abcdefgh\n");
  assert_int_equal(parse(ctxp_buf_view(&text)), -EINVAL);
  assert_string_equal(ctxp_buf_cstr(&said), "f: larger than 1048576 bytes, the most that a file of this kind may have\n");
  ctxp_buf_reset(&text);
  for (int i = 0; i < 70000; i++) ctxp_buf_str(&text, "- 1\n");
  assert_int_equal(parse(ctxp_buf_view(&text)), -EINVAL);
  assert_non_null(strstr(ctxp_buf_cstr(&said), "the file holds more than 65536 values\n"));
  ctxp_buf_reset(&text);
  for (int i = 0; i < 5000; i++) ctxp_buf_printf(&text, "k%d: 1\n", i);
  assert_int_equal(parse(ctxp_buf_view(&text)), -EINVAL);
  assert_string_equal(ctxp_buf_cstr(&said), "f:4097:1: a mapping with more than 4096 keys\n");
}

static void a_file_of_faults_shows_two_hundred_and_counts_the_rest(void **state) {
  (void)state;
  for (int i = 0; i < 1000; i++) ctxp_buf_printf(&text, "k%d: *a\n", i);
  assert_int_equal(parse(ctxp_buf_view(&text)), 0);
  unsigned lines = 0;
  for (size_t i = 0; i < said.len; i++) lines += said.ptr[i] == '\n';
  assert_int_equal(lines, 201);
  assert_non_null(strstr(ctxp_buf_cstr(&said), "f: 800 more faults\n"));
}

static void bytes_that_are_no_text_are_named_with_their_place(void **state) {
  (void)state;
  assert_int_equal(parse(CTXP_STR("a: 1\nb: \xff\n")), -EINVAL);
  assert_string_equal(ctxp_buf_cstr(&said), "f:2:4: byte 0xff is not UTF-8\n");
  assert_int_equal(parse((struct ctxp_str){"a: \0b", 5}), -EINVAL);
  assert_string_equal(ctxp_buf_cstr(&said), "f:1:4: control character 0x00\n");
  assert_int_equal(parse((struct ctxp_str){"\xff\xfe"
                                           "a\0:\0",
                       6}),
      -EINVAL);
  assert_string_equal(ctxp_buf_cstr(&said), "f:1:1: byte 0xff is not UTF-8\n");
  assert_int_equal(parse(CTXP_STR("a: \"x\\0y\"\n")), 0);
  assert_string_equal(ctxp_buf_cstr(&said), "f:1:4: a text holds a NUL character\n");
}

static void a_byte_order_mark_and_crlf_are_read(void **state) {
  (void)state;
  assert_int_equal(parse(CTXP_STR("\xef\xbb\xbf"
                                  "a: 1\r\nb: 2\r\n")),
      0);
  assert_int_equal(faults.count, 0);
  assert_true(ctxp_str_is(ctxp_yaml_get(doc.root, "a")->text, "1"));
  assert_true(ctxp_str_is(ctxp_yaml_get(doc.root, "b")->text, "2"));
}

static void nothing_at_all_is_a_fault(void **state) {
  (void)state;
  assert_int_equal(parse(CTXP_STR("")), -EINVAL);
  assert_string_equal(ctxp_buf_cstr(&said), "f:1:1: the file is empty\n");
}

static void what_is_no_regular_file_is_not_read(void **state) {
  (void)state;
  faults.file = "f";
  assert_int_equal(ctxp_yaml_load("/dev/zero", &faults, &text), -EINVAL);
  assert_int_equal(ctxp_yaml_load("/tmp", &faults, &text), -EISDIR);
  assert_int_equal(ctxp_yaml_load("/nonexistent/file", &faults, &text), -ENOENT);
  ctxp_faults_write(&faults, &said);
  assert_string_equal(ctxp_buf_cstr(&said),
      "f: cannot be read: it is not a regular file\nf: cannot be read: it is a directory\nf: cannot be read: No such file or directory\n");
}

static void a_file_of_ten_megabytes_is_refused_before_it_is_read(void **state) {
  (void)state;
  char path[] = "/tmp/ctxpipe-yaml-XXXXXX";
  ctxp_auto_close int fd = mkstemp(path);
  assert_int_equal(ftruncate(fd, 10 * 1000 * 1000), 0);
  faults.file = "f";
  int r = ctxp_yaml_load(path, &faults, &text);
  unlink(path);
  assert_int_equal(r, -EFBIG);
  assert_int_equal(text.len, 0);
}

static void a_hint_names_the_nearest_or_lists_all(void **state) {
  (void)state;
  static const char *const names[] = {"min_tokens", "max_tokens", "path", NULL}, *const none[] = {NULL};
  assert_string_equal(ctxp_hint(CTXP_STR("min_token"), names, "known are").text, "; did you mean 'min_tokens'?");
  assert_string_equal(ctxp_hint(CTXP_STR("mni_tokens"), names, "known are").text, "; did you mean 'min_tokens'?");
  assert_string_equal(ctxp_hint(CTXP_STR("tokens"), names, "known are").text, "; did you mean 'min_tokens'?");
  assert_string_equal(ctxp_hint(CTXP_STR("pth"), names, "known are").text, "; did you mean 'path'?");
  assert_string_equal(ctxp_hint(CTXP_STR("colour"), names, "known are").text, "; known are: min_tokens, max_tokens, path");
  assert_string_equal(ctxp_hint(CTXP_STR(""), none, "known are").text, "; known are: none");
  assert_null(ctxp_nearest(CTXP_STR("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"), names));
}

static void hostile_names_are_shown_safely(void **state) {
  (void)state;
  assert_string_equal(ctxp_shown(CTXP_STR("a\x1b[2J\xff\xc2\x9b"
                                          "b"))
                          .text,
      "a?[2J??b");
  char longer[400];
  memset(longer, 'x', sizeof(longer));
  struct ctxp_shown shown = ctxp_shown((struct ctxp_str){longer, sizeof(longer)});
  assert_true(strlen(shown.text) < sizeof(shown.text));
  assert_string_equal(shown.text + strlen(shown.text) - 4, "x...");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(values_have_their_place_in_the_file, teardown),
      cmocka_unit_test_teardown(an_empty_value_is_null_and_an_empty_text_is_not, teardown),
      cmocka_unit_test_teardown(an_alias_bomb_is_a_fault_at_its_first_alias, teardown),
      cmocka_unit_test_teardown(depth_ends_with_a_sentence, teardown),
      cmocka_unit_test_teardown(size_and_count_end_with_a_sentence, teardown),
      cmocka_unit_test_teardown(a_file_of_faults_shows_two_hundred_and_counts_the_rest, teardown),
      cmocka_unit_test_teardown(bytes_that_are_no_text_are_named_with_their_place, teardown),
      cmocka_unit_test_teardown(a_byte_order_mark_and_crlf_are_read, teardown),
      cmocka_unit_test_teardown(nothing_at_all_is_a_fault, teardown),
      cmocka_unit_test_teardown(what_is_no_regular_file_is_not_read, teardown),
      cmocka_unit_test_teardown(a_file_of_ten_megabytes_is_refused_before_it_is_read, teardown),
      cmocka_unit_test(a_hint_names_the_nearest_or_lists_all),
      cmocka_unit_test(hostile_names_are_shown_safely),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
