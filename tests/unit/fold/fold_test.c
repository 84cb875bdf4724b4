#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "codec/json.h"
#include "codec/msgpack.h"
#include "config/prices.h"
#include "fold_test.h"

static void encode_prices(struct ctxp_buf *out) {
  const char *const files[] = {TEST_CASES "/fold/prices.yaml"};
  struct ctxp_prices *prices;
  ctxp_auto_buf faults = {0};
  if (ctxp_prices_read(files, 1, &prices, &faults) < 0) fail_msg("%s", ctxp_buf_cstr(&faults));
  assert_int_equal(ctxp_prices_encode(prices, out), 0);
  ctxp_prices_free(prices);
}

void fold_prices(struct ctxp_test *t, const char *options) {
  ctxp_auto_buf prices = {0}, raw = {0};
  struct ctxp_error err;
  encode_prices(&prices);
  if (options && ctxp_json_to_raw(ctxp_str(options), &raw, &err) < 0) fail_msg("%s", err.text);
  ctxp_test_options(t, ctxp_buf_raw(&raw), ctxp_buf_raw(&prices));
}

void fold_open(struct ctxp_test *t, const char *options) {
  ctxp_test_open(t, &ctxp_stage_fold, "fold");
  fold_prices(t, options);
}

void fold_push(struct ctxp_test *t, const char *format, ...) {
  char line[8192];
  va_list args;
  va_start(args, format);
  int len = vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  assert_in_range(len, 1, sizeof(line) - 1);
  ctxp_test_push_json(t, line);
}

struct ctxp_raw fold_ask(struct ctxp_test *t, const char *query, struct ctxp_buf *reply) {
  ctxp_auto_buf raw = {0};
  struct ctxp_error err;
  ctxp_buf_reset(reply);
  if (ctxp_json_to_raw(ctxp_str(query), &raw, &err) < 0) fail_msg("%s", err.text);
  if (ctxp_stage_query(t->stage, ctxp_buf_raw(&raw), reply, &err) < 0) fail_msg("%s", err.text);
  assert_int_equal(ctxp_pack_check(ctxp_buf_raw(reply)), 0);
  return ctxp_buf_raw(reply);
}

void fold_ask_in_vain(struct ctxp_test *t, const char *query) {
  ctxp_auto_buf raw = {0}, reply = {0};
  struct ctxp_error err = {.text = ""};
  if (ctxp_json_to_raw(ctxp_str(query), &raw, &err) < 0) fail_msg("%s", err.text);
  assert_int_equal(ctxp_stage_query(t->stage, ctxp_buf_raw(&raw), &reply, &err), -ENOENT);
  assert_int_not_equal(err.text[0], 0);
}

struct ctxp_raw fold_row(struct ctxp_raw report, const char *list, const char *key, const char *text) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(report, list));
  struct ctxp_raw row;
  uint32_t left;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (ctxp_array_next(&it, &left, &row) > 0)
    if (ctxp_str_is(ctxp_map_str(row, key), text)) return row;
  return (struct ctxp_raw){0};
}

uint64_t fold_sum(struct ctxp_raw report, const char *list, const char *key) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(report, list));
  struct ctxp_raw row;
  uint32_t left;
  uint64_t sum = 0;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (ctxp_array_next(&it, &left, &row) > 0) sum += ctxp_map_u64(row, key, 0);
  return sum;
}

char *fold_lines(struct ctxp_test *t, const char *kind, bool seed_only) {
  ctxp_auto_buf all = {0}, line = {0};
  for (unsigned i = 0; i < t->emitted_count; i++) {
    if (kind && strcmp(ctxp_kind_info(t->emitted[i].event.kind)->name, kind) != 0) continue;
    ctxp_buf_str(&all, ctxp_test_line(t, i, seed_only, &line));
    ctxp_buf_char(&all, '\n');
  }
  char *text = strdup(ctxp_buf_cstr(&all));
  assert_non_null(text);
  return text;
}

char *fold_json(struct ctxp_raw raw) {
  ctxp_auto_buf out = {0};
  assert_int_equal(ctxp_json_from_raw(raw, &out), 0);
  char *text = strdup(ctxp_buf_cstr(&out));
  assert_non_null(text);
  return text;
}
