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
#include "codec/msgpack.h"
#include "config/prices.h"
#include "support/fail_alloc.h"

#define MODEL \
  "models:\n" \
  "  claude-x-20260101: {input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, cacheWrite1h: 6,\n" \
  "    above: {inputTokens: 200000, input: 6, output: 22.5, cacheRead: 0.6, cacheWrite5m: 7.5, cacheWrite1h: 12},\n" \
  "    aliases: [claude-x], date: 2026-01-02, source: somewhere}\n" \
  "  plain: {input: 1, output: 2, date: 2025-12-31}\n"

static struct ctxp_prices *prices;
static struct ctxp_buf faults;
static char names[2][32];

static const char *file_with(unsigned number, const char *text) {
  snprintf(names[number], sizeof(names[number]), "/tmp/ctxpipe-prices-XXXXXX");
  ctxp_auto_close int fd = mkstemp(names[number]);
  assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  return names[number];
}

static int teardown(void **state) {
  (void)state;
  for (unsigned i = 0; i < 2; i++) {
    if (*names[i]) unlink(names[i]);
    *names[i] = 0;
  }
  prices = ctxp_prices_free(prices);
  ctxp_buf_deinit(&faults);
  return 0;
}

static int read_texts(const char *first, const char *second) {
  const char *files[2] = {file_with(0, first), second ? file_with(1, second) : NULL};
  return ctxp_prices_read(files, second ? 2 : 1, &prices, &faults);
}

static const struct ctxp_model_price *find(const char *name) { return ctxp_prices_find(prices, ctxp_str(name)); }

static void rates_are_whole_nano_dollars_of_a_model_and_its_aliases(void **state) {
  (void)state;
  assert_int_equal(read_texts(MODEL, NULL), 0);
  const struct ctxp_model_price *x = find("claude-x");
  assert_ptr_equal(x, find("claude-x-20260101"));
  assert_true(ctxp_str_is(x->model, "claude-x-20260101"));
  assert_true(x->base.input == 3000000000 && x->base.output == 15000000000 && x->base.cache_read == 300000000);
  assert_true(x->base.cache_write_5m == 3750000000 && x->base.cache_write_1h == 6000000000);
  assert_true(x->above.output == 22500000000 && x->above.cache_read == 600000000);
  assert_int_equal(x->above_tokens, 200000);
  assert_true(find("plain")->base.cache_read == -1 && find("plain")->above_tokens == 0);
  assert_int_equal(ctxp_prices_count(prices), 2);
}

static void another_models_price_is_never_given(void **state) {
  (void)state;
  assert_int_equal(read_texts(MODEL, NULL), 0);
  static const char *const others[] = {"claude-x-20260102", "claude", "claude-x-", "Claude-x", "plain2", "anthropic/claude-x", ""};
  for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) assert_null(find(others[i]));
  assert_null(ctxp_prices_find(NULL, CTXP_STR("plain")));
}

static void a_later_file_goes_over_a_model_in_all_its_names(void **state) {
  (void)state;
  assert_int_equal(
      read_texts(MODEL, "models:\n  claude-x-20260101: {input: 9, output: 9}\n  mine: {input: 1, output: 1, aliases: [plain]}\n"), 0);
  assert_true(find("claude-x")->base.input == 9000000000);
  assert_true(find("claude-x-20260101")->base.input == 9000000000);
  assert_true(find("claude-x")->above_tokens == 0);
  assert_true(ctxp_str_is(find("plain")->model, "mine"));
  assert_int_equal(ctxp_prices_count(prices), 2);
}

static void a_later_file_may_name_the_aliases_of_a_model_again_or_give_them_to_another(void **state) {
  (void)state;
  assert_int_equal(read_texts(MODEL, "models:\n  claude-x-20260101: {input: 9, output: 9, aliases: [claude-x]}\n"), 0);
  assert_true(find("claude-x")->base.input == 9000000000);
  prices = ctxp_prices_free(prices);
  assert_int_equal(
      read_texts(MODEL, "models:\n  claude-x-20260101: {input: 9, output: 9}\n  mine: {input: 1, output: 1, aliases: [claude-x]}\n"), 0);
  assert_true(ctxp_str_is(find("claude-x")->model, "mine"));
  assert_true(find("claude-x-20260101")->base.input == 9000000000);
  prices = ctxp_prices_free(prices);
  assert_int_equal(read_texts(MODEL, "models:\n  a: {input: 9, output: 9, aliases: [b]}\n  b: {input: 1, output: 1}\n"), -EINVAL);
}

static void all_faults_of_all_files_are_named(void **state) {
  (void)state;
  ctxp_auto_buf expected = {0};
  assert_int_equal(read_texts("models:\n  a: {input: x, output: 1}\n  b: {input: 1, output: 1, aliases: [a]}\n", "modls: {}\n"), -EINVAL);
  assert_null(prices);
  ctxp_buf_printf(&expected, "%s:2:14: model 'a': 'input' is 'x'; it takes a number of dollars per million tokens\n"
                             "%s:3:38: model 'b': 'a' has a row of its own already\n"
                             "%s:1:1: unknown key 'modls'; did you mean 'models'?\n"
                             "%s:1:1: not a price table; write 'models: {NAME: {input: 3, output: 15}}', in dollars per million tokens\n",
      names[0], names[0], names[1], names[1]);
  assert_string_equal(ctxp_buf_cstr(&faults), ctxp_buf_cstr(&expected));
}

static void the_version_names_the_newest_date_and_the_rows(void **state) {
  (void)state;
  assert_int_equal(read_texts(MODEL, NULL), 0);
  ctxp_auto_free char *first = strdup(ctxp_prices_version(prices));
  assert_int_equal(strncmp(first, "2026-01-02-", 11), 0);
  assert_int_equal(strlen(first), 19);
  teardown(NULL);
  assert_int_equal(read_texts(&("models:\n  plain: {output: 2, input: 1, date: 2025-12-31}\n" MODEL)[8], NULL), -EINVAL);
  teardown(NULL);
  assert_int_equal(read_texts(MODEL, "models:\n  plain: {input: 1, output: 2.000000001}\n"), 0);
  assert_string_not_equal(ctxp_prices_version(prices), first);
  teardown(NULL);
  assert_int_equal(read_texts("models: {a: {input: 1, output: 2}}\n", NULL), 0);
  assert_int_equal(strncmp(ctxp_prices_version(prices), "undated-", 8), 0);
}

static void the_encoded_table_decodes_to_the_same_bytes(void **state) {
  (void)state;
  ctxp_auto_buf first = {0}, second = {0};
  assert_int_equal(read_texts(MODEL, "models:\n  mine: {input: 1, output: 1, aliases: [claude-x]}\n"), 0);
  assert_int_equal(ctxp_prices_encode(prices, &first), 0);
  struct ctxp_prices *back = NULL;
  assert_int_equal(ctxp_prices_decode(ctxp_buf_raw(&first), &back), 0);
  int r = ctxp_prices_encode(back, &second);
  const struct ctxp_model_price *x = ctxp_prices_find(back, CTXP_STR("claude-x")),
                                *old = ctxp_prices_find(back, CTXP_STR("claude-x-20260101"));
  bool same = first.len == second.len && memcmp(first.ptr, second.ptr, first.len) == 0 &&
      strcmp(ctxp_prices_version(back), ctxp_prices_version(prices)) == 0;
  bool right = x && ctxp_str_is(x->model, "mine") && old && old->above_tokens == 200000 && old->above.cache_write_1h == 12000000000;
  ctxp_prices_free(back);
  assert_int_equal(r, 0);
  assert_true(same);
  assert_true(right);
}

static void a_cut_or_changed_encoding_is_refused_or_another_table(void **state) {
  (void)state;
  ctxp_auto_buf bytes = {0};
  assert_int_equal(read_texts(MODEL, NULL), 0);
  assert_int_equal(ctxp_prices_encode(prices, &bytes), 0);
  for (size_t len = 0; len < bytes.len; len++) {
    struct ctxp_prices *back = NULL;
    assert_int_equal(ctxp_prices_decode((struct ctxp_raw){bytes.ptr, len}, &back), -EBADMSG);
    assert_null(back);
  }
  for (size_t at = 0; at < bytes.len; at++) {
    struct ctxp_prices *back = NULL;
    bytes.ptr[at] ^= 0x55;
    int r = ctxp_prices_decode(ctxp_buf_raw(&bytes), &back);
    bytes.ptr[at] ^= 0x55;
    assert_true(r == 0 || r == -EBADMSG);
    assert_true((r == 0) == (back != NULL));
    ctxp_prices_free(back);
  }
}

static void the_built_in_table_has_the_current_models(void **state) {
  (void)state;
  const char *const builtin[] = {CTXP_PRICES_BUILTIN};
  assert_int_equal(ctxp_prices_read(builtin, 1, &prices, &faults), 0);
  assert_true(ctxp_prices_count(prices) >= 60);
  const struct ctxp_model_price *sonnet = find("claude-sonnet-4-5-20250929"), *opus = find("claude-opus-4-5");
  assert_ptr_equal(sonnet, find("claude-sonnet-4-5"));
  assert_true(sonnet->base.cache_write_5m == 3750000000 && sonnet->base.cache_write_1h == 6000000000 && sonnet->above.input == 6000000000);
  assert_true(opus->base.input == 5000000000 && opus->base.cache_write_1h == 10000000000);
  assert_true(find("gpt-5")->base.cache_read == 125000000);
  assert_non_null(find("gpt-5-codex"));
  assert_int_equal(find("gemini-2.5-pro")->above_tokens, 200000);
}

static void every_failing_allocation_is_an_error(void **state) {
  (void)state;
  const char *files[] = {file_with(0, MODEL)};
  for (unsigned n = 1;; n++) {
    assert_true(n < 5000);
    fail_alloc_at(n);
    int r = ctxp_prices_read(files, 1, &prices, &faults);
    bool happened = fail_alloc_happened();
    fail_alloc_at(0);
    if (happened && r < 0)
      assert_null(prices);
    else
      assert_int_equal(r, 0);
    prices = ctxp_prices_free(prices);
    ctxp_buf_deinit(&faults);
    if (!happened) break;
    assert_int_equal(r, -ENOMEM);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(rates_are_whole_nano_dollars_of_a_model_and_its_aliases, teardown),
      cmocka_unit_test_teardown(another_models_price_is_never_given, teardown),
      cmocka_unit_test_teardown(a_later_file_goes_over_a_model_in_all_its_names, teardown),
      cmocka_unit_test_teardown(a_later_file_may_name_the_aliases_of_a_model_again_or_give_them_to_another, teardown),
      cmocka_unit_test_teardown(all_faults_of_all_files_are_named, teardown),
      cmocka_unit_test_teardown(the_version_names_the_newest_date_and_the_rows, teardown),
      cmocka_unit_test_teardown(the_encoded_table_decodes_to_the_same_bytes, teardown),
      cmocka_unit_test_teardown(a_cut_or_changed_encoding_is_refused_or_another_table, teardown),
      cmocka_unit_test_teardown(the_built_in_table_has_the_current_models, teardown),
      cmocka_unit_test_teardown(every_failing_allocation_is_an_error, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
