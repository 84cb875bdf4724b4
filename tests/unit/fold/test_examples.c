/* The worked examples of the fold: gg's telemetry, turned into events, must give the expected rows of every agent and of the run.
 * Where ctxpipe departs on purpose: cache writes are a class of their own; tools also count results that became views, `asViews`
 * tells how much; rows of equal rank stand by code point. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "codec/json.h"
#include "codec/msgpack.h"
#include "fold_test.h"

static struct ctxp_test t;
static struct ctxp_buf lines[256], expected;
static unsigned line_count;

static int clean(void **state) {
  (void)state;
  ctxp_test_close(&t);
  for (unsigned i = 0; i < line_count; i++) ctxp_buf_deinit(&lines[i]);
  line_count = 0;
  ctxp_buf_deinit(&expected);
  return 0;
}

static void read_json(struct ctxp_str text, struct ctxp_buf *out) {
  struct ctxp_error err;
  if (ctxp_json_to_raw(text, out, &err) < 0) fail_msg("%s", err.text);
}

static FILE *open_case(const char *number, const char *suffix) {
  char path[512];
  snprintf(path, sizeof(path), TEST_CASES "/fold/ex%s.%s", number, suffix);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s cannot be opened", path);
  return file;
}

static void read_case(const char *number) {
  char *text = NULL;
  size_t cap = 0;
  ssize_t len;
  FILE *file = open_case(number, "jsonl");
  while ((len = getline(&text, &cap, file)) > 0) {
    assert_true(line_count < 256);
    read_json((struct ctxp_str){text, (size_t)len}, &lines[line_count++]);
  }
  fclose(file);
  file = open_case(number, "expected.json");
  len = getdelim(&text, &cap, EOF, file);
  fclose(file);
  assert_true(len > 0);
  read_json((struct ctxp_str){text, (size_t)len}, &expected);
  free(text);
}

static struct ctxp_str agent_of(struct ctxp_raw line) {
  struct ctxp_str agent = ctxp_map_str(line, "agentId");
  return agent.len ? agent : CTXP_STR("root");
}

/* of the last agent_spawned, wherever it stands */
static struct ctxp_str model_of(struct ctxp_str agent) {
  struct ctxp_str model = {"", 0};
  for (unsigned i = 0; i < line_count; i++) {
    struct ctxp_raw line = ctxp_buf_raw(&lines[i]);
    if (ctxp_str_is(ctxp_map_str(line, "type"), "agent_spawned") && ctxp_str_eq(agent_of(line), agent))
      model = ctxp_map_str(line, "modelId");
  }
  return model;
}

static void push_message(struct ctxp_event *ev, struct ctxp_raw line) {
  ctxp_auto_buf list = {0};
  struct ctxp_context_message *m = &ev->context_message;
  struct ctxp_str role = ctxp_map_str(line, "role");
  struct ctxp_raw calls = ctxp_map_get(line, "toolCalls"), call;
  struct ctxp_cursor it = ctxp_cursor(calls);
  uint32_t left = 0;
  ev->kind = CTXP_KIND_context_message;
  m->id = ctxp_map_str(line, "id");
  m->role = ctxp_str_is(role, "assistant") ? CTXP_ROLE_assistant :
      ctxp_str_is(role, "tool")            ? CTXP_ROLE_tool :
      ctxp_str_is(role, "system")          ? CTXP_ROLE_system :
                                             CTXP_ROLE_user;
  m->band = ctxp_str_is(role, "assistant") ? CTXP_BAND_assistant :
      ctxp_str_is(role, "tool")            ? CTXP_BAND_tool_output :
      ctxp_str_is(role, "system")          ? CTXP_BAND_system :
                                             CTXP_BAND_user_prompt;
  m->tokens = ctxp_map_u64(line, "tokens", 0);
  if (ctxp_map_str(line, "label").len) ctxp_set(m, context_message, label, ctxp_map_str(line, "label"));
  if (ctxp_map_str(line, "toolCallId").len) ctxp_set(m, context_message, toolCallId, ctxp_map_str(line, "toolCallId"));
  if (calls.len) assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (left && ctxp_array_next(&it, &left, &call) > 0) {
    struct ctxp_call c = {.id = ctxp_map_str(call, "id"), .name = ctxp_map_str(call, "name")};
    struct ctxp_str path = ctxp_map_str(ctxp_map_get(call, "args"), "path");
    if (path.len) ctxp_set(&c, call, path, path);
    assert_int_equal(ctxp_list_add(&m->calls, &list, &ctxp_shape_call, &c), 0);
    m->has |= UINT64_C(1) << CTXP_IX_context_message_calls;
  }
  ctxp_test_push(&t, ev);
}

static void push_prompt(struct ctxp_event *ev, struct ctxp_raw line, unsigned number) {
  ctxp_auto_buf list = {0};
  struct ctxp_prompt *p = &ev->prompt;
  struct ctxp_raw tokens = ctxp_map_get(line, "tokens"), one;
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(line, "request"));
  struct ctxp_usage usage = {.input = ctxp_map_u64(tokens, "uncachedInput", 0)};
  char call[32];
  uint32_t left;
  snprintf(call, sizeof(call), "call-%u", number);
  ev->kind = CTXP_KIND_prompt;
  p->callId = ctxp_str(call);
  ctxp_set(p, prompt, model, model_of(ev->agent));
  ctxp_set(&usage, usage, cacheRead, ctxp_map_u64(tokens, "cachedInput", 0));
  if (ctxp_raw_type(ctxp_map_get(tokens, "uncachedInput")) != CTXP_PACK_NIL || usage.cacheRead) ctxp_set(p, prompt, usage, usage);
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (left && ctxp_array_next(&it, &left, &one) > 0) {
    struct ctxp_ref ref = {.id = ctxp_map_str(one, "id")};
    enum ctxp_band band;
    assert_true(ctxp_band_parse(ctxp_map_str(one, "source"), &band));
    ctxp_set(&ref, ref, band, band);
    assert_int_equal(ctxp_list_add(&p->request, &list, &ctxp_shape_ref, &ref), 0);
  }
  p->has |= UINT64_C(1) << CTXP_IX_prompt_request;
  ctxp_test_push(&t, ev);
}

static void push_case(void) {
  for (unsigned i = 0; i < line_count; i++) {
    struct ctxp_raw line = ctxp_buf_raw(&lines[i]);
    struct ctxp_event ev = {.agent = agent_of(line), .session = ctxp_map_str(line, "sessionId")};
    if (ctxp_str_is(ctxp_map_str(line, "type"), "context_message")) push_message(&ev, line);
    if (ctxp_str_is(ctxp_map_str(line, "type"), "prompt")) push_prompt(&ev, line, i);
  }
}

/* ---- comparing ---- */
static double number(struct ctxp_raw map, const char *key) {
  struct ctxp_pack_value v = {.type = CTXP_PACK_NIL};
  struct ctxp_raw raw = ctxp_map_get(map, key);
  struct ctxp_cursor c = ctxp_cursor(raw);
  if (raw.len) assert_int_equal(ctxp_cursor_next(&c, &v), 0);
  return v.type == CTXP_PACK_F64 ? v.f : v.type == CTXP_PACK_U64 ? (double)v.u :
      v.type == CTXP_PACK_I64                                    ? (double)v.i :
                                                                   NAN;
}

static bool is_nil(struct ctxp_raw map, const char *key) { return ctxp_raw_type(ctxp_map_get(map, key)) == CTXP_PACK_NIL; }

/* all figures of the examples are whole tokens and whole nano-dollars */
static void compare_money(struct ctxp_raw ours, struct ctxp_raw theirs, const char *what) {
  if (is_nil(ours, "costNano") != is_nil(theirs, "cost")) fail_msg("%s: one has a cost, the other has none", what);
  if (is_nil(theirs, "cost")) return;
  double nano = number(theirs, "cost") * 1e9;
  if (fabs(nano - number(ours, "costNano")) > 1e-4)
    fail_msg("%s: cost is %.0f nano-dollars, expected %f", what, number(ours, "costNano"), nano);
}

static void compare_figure(struct ctxp_raw ours, struct ctxp_raw theirs, const char *key, const char *what) {
  if (fabs(number(ours, key) - number(theirs, key)) > 1e-6)
    fail_msg("%s: %s is %f, expected %f", what, key, number(ours, key), number(theirs, key));
}

static struct ctxp_raw find_view(struct ctxp_raw report, struct ctxp_raw theirs) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(report, "views"));
  struct ctxp_raw row;
  uint32_t left;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (left && ctxp_array_next(&it, &left, &row) > 0)
    if (ctxp_str_eq(ctxp_map_str(row, "kind"), ctxp_map_str(theirs, "kind")) &&
        ctxp_str_eq(ctxp_map_str(row, "label"), ctxp_map_str(theirs, "label")))
      return row;
  return (struct ctxp_raw){0};
}

static void compare_rows(struct ctxp_raw report, struct ctxp_raw theirs, const char *list, const char *label, bool turns) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(theirs, list));
  struct ctxp_raw row;
  uint32_t left = 0;
  char what[256];
  if (ctxp_map_get(theirs, list).len) assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (left && ctxp_array_next(&it, &left, &row) > 0) {
    struct ctxp_str key = ctxp_map_str(row, "key");
    char name[128];
    snprintf(name, sizeof(name), "%.*s", (int)key.len, key.ptr);
    snprintf(what, sizeof(what), "%s %s", list, name);
    struct ctxp_raw ours = strcmp(list, "views") == 0 ? find_view(report, row) : fold_row(report, list, label, name);
    if (!ours.len) fail_msg("%s is missing", what);
    if (strcmp(list, "tools") == 0) {
      if (fabs(number(ours, "billed") - number(ours, "asViews") - number(row, "billed")) > 1e-6)
        fail_msg("%s: billed without views differs", what);
      continue;
    }
    compare_figure(ours, row, "own", what);
    compare_figure(ours, row, "billed", what);
    compare_figure(ours, row, "messages", what);
    if (turns) compare_figure(ours, row, "turns", what);
    compare_money(ours, row, what);
  }
}

static double unattributed(struct ctxp_raw report) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(report, "views"));
  struct ctxp_raw row;
  uint32_t left;
  double sum = 0;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  while (left && ctxp_array_next(&it, &left, &row) > 0)
    if (ctxp_str_is(ctxp_map_str(row, "kind"), "unattributed")) sum += number(row, "billed");
  return sum;
}

static void compare(const char *query, struct ctxp_raw theirs) {
  ctxp_auto_buf reply = {0};
  if (ctxp_raw_type(theirs) == CTXP_PACK_NIL) { /* nothing recorded: no such agent */
    fold_ask_in_vain(&t, query);
    return;
  }
  struct ctxp_raw ours = fold_ask(&t, query, &reply), totals = ctxp_map_get(ours, "totals");
  assert_int_equal(ctxp_map_u64(totals, "requests", 99), (uint64_t)number(theirs, "turns"));
  compare_figure(totals, theirs, "billed", "totals");
  compare_rows(ours, theirs, "bands", "band", true);
  compare_rows(ours, theirs, "views", "label", true);
  compare_rows(ours, theirs, "tools", "tool", true);
  compare_rows(ours, theirs, "messages", "label", true);
  if (!is_nil(theirs, "unattributed_views")) assert_true(fabs(unattributed(ours) - number(theirs, "unattributed_views")) < 1e-6);
}

static void run_case(const char *number_text) {
  struct ctxp_str agent;
  struct ctxp_raw theirs;
  uint32_t left;
  char query[256];
  read_case(number_text);
  fold_open(&t, FOLD_ESTIMATE);
  push_case();
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(ctxp_buf_raw(&expected), "agents"));
  assert_int_equal(ctxp_map_open(&it, &left), 0);
  assert_true(left > 0);
  while (left && ctxp_map_next(&it, &left, &agent, &theirs) > 0) {
    snprintf(query, sizeof(query), "{\"what\":\"spend\",\"by\":\"message\",\"agent\":\"%.*s\"}", (int)agent.len, agent.ptr);
    compare(query, theirs);
  }
  compare("{\"what\":\"spend\",\"by\":\"message\"}", ctxp_map_get(ctxp_buf_raw(&expected), "run"));
}

#define EXAMPLE(number, name) \
  static void name(void **state) { \
    (void)state; \
    run_case(number); \
  }
EXAMPLE("01", a_small_early_file_outspends_a_big_late_result)
EXAMPLE("02", cached_and_uncached_rates_split_alike)
EXAMPLE("03", an_empty_message_and_an_unknown_id_bill_nothing)
EXAMPLE("05", a_pointer_repeated_in_a_request_is_billed_each_time)
EXAMPLE("07", views_are_found_by_label_then_by_path_else_unattributed)
EXAMPLE("08", equal_rows_stand_by_label)
EXAMPLE("09", agents_are_folded_apart_and_summed_by_key)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(a_small_early_file_outspends_a_big_late_result, clean),
      cmocka_unit_test_teardown(cached_and_uncached_rates_split_alike, clean),
      cmocka_unit_test_teardown(an_empty_message_and_an_unknown_id_bill_nothing, clean),
      cmocka_unit_test_teardown(a_pointer_repeated_in_a_request_is_billed_each_time, clean),
      cmocka_unit_test_teardown(views_are_found_by_label_then_by_path_else_unattributed, clean),
      cmocka_unit_test_teardown(equal_rows_stand_by_label, clean),
      cmocka_unit_test_teardown(agents_are_folded_apart_and_summed_by_key, clean)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
