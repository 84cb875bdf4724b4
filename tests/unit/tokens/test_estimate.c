/* Every entry of tests/cases/estimate_tokens.json that is about messages and figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "codec/json_read.h"
#include "tokens/estimate.h"

static struct ctxp_buf cases;
static struct ctxp_json json;

static void assert_tokens(struct ctxp_json *from, uint32_t message, uint32_t entry) {
  struct ctxp_str name = ctxp_json_text(&json, ctxp_json_get(&json, entry, "name"));
  uint64_t got = ctxp_estimate_message(from, message), expected = ctxp_json_u64(&json, ctxp_json_get(&json, entry, "tokens"), UINT64_MAX);
  if (got != expected)
    fail_msg("%.*s: %llu tokens for %llu", (int)name.len, name.ptr, (unsigned long long)got, (unsigned long long)expected);
}

static void every_message_has_its_estimate(void **state) {
  (void)state;
  uint32_t list = ctxp_json_get(&json, 0, "messages");
  assert_true(ctxp_json_size(&json, list) > 30);
  for (uint32_t it = list; ctxp_json_each(&json, list, &it);) assert_tokens(&json, ctxp_json_get(&json, it, "message"), it);
}

static void every_message_given_as_text_has_its_estimate(void **state) {
  (void)state;
  uint32_t list = ctxp_json_get(&json, 0, "raw");
  assert_true(ctxp_json_size(&json, list) > 5);
  for (uint32_t it = list; ctxp_json_each(&json, list, &it);) {
    ctxp_cleanup(ctxp_json_deinit) struct ctxp_json raw = {0};
    assert_int_equal(ctxp_json_load(&raw, ctxp_json_text(&json, ctxp_json_get(&json, it, "raw")), NULL), 0);
    assert_tokens(&raw, 0, it);
    uint64_t units = ctxp_json_u64(&json, ctxp_json_get(&json, it, "argumentsUnits"), UINT64_MAX);
    if (units == UINT64_MAX) continue;
    uint32_t block = ctxp_json_get(&raw, 0, "content");
    assert_true(ctxp_json_each(&raw, block, &block));
    assert_int_equal(ctxp_json_compact_units(&raw, ctxp_json_get(&raw, block, "arguments")), units);
  }
}

static void every_figure_of_the_line_is_short(void **state) {
  (void)state;
  uint32_t list = ctxp_json_get(&json, 0, "line");
  assert_true(ctxp_json_size(&json, list) > 20);
  for (uint32_t it = list; ctxp_json_each(&json, list, &it);) {
    ctxp_auto_buf text = {0};
    ctxp_tokens_short(&text, ctxp_json_u64(&json, ctxp_json_get(&json, it, "n"), 0));
    if (!ctxp_str_eq(ctxp_buf_view(&text), ctxp_json_text(&json, ctxp_json_get(&json, it, "text")))) fail_msg("%s", ctxp_buf_cstr(&text));
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_message_has_its_estimate),
      cmocka_unit_test(every_message_given_as_text_has_its_estimate),
      cmocka_unit_test(every_figure_of_the_line_is_short),
  };
  ctxp_auto_fclose FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
  for (size_t n = 1; file && n > 0; cases.len += n) {
    uint8_t *room = ctxp_buf_room(&cases, 65536);
    n = room ? fread(room, 1, 65536, file) : 0;
  }
  if (ctxp_json_load(&json, ctxp_buf_view(&cases), NULL) < 0) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  ctxp_json_deinit(&json);
  ctxp_buf_deinit(&cases);
  return failed;
}
