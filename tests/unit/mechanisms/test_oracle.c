/* The cases of tests/cases/oracle, run through the four stages in the order of the topology: what they emit and what they answer.
 * A scripted model answers as the case says; what it is asked is compared too. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "config/prices.h"
#include "support/stage_test.h"
#include "tokens/estimate.h"

extern const struct ctxp_stage_ops ctxp_stage_bash_digest, ctxp_stage_amnesia_tagger, ctxp_stage_write_compressor,
    ctxp_stage_lazy_estimator;

enum { NODES = 4,
  CASES_MAX = 400 };
static const char *const node_names[NODES] = {"bash", "amnesia", "write", "lazy"};
static const struct ctxp_stage_ops *const node_ops[NODES] = {
    &ctxp_stage_bash_digest, &ctxp_stage_amnesia_tagger, &ctxp_stage_write_compressor, &ctxp_stage_lazy_estimator};

static struct ctxp_test stages[NODES];
static bool used[NODES];
static struct ctxp_raw the_case; /* under test */
static uint64_t input_index;

struct case_file {
  char name[128];
  struct ctxp_buf raw;
};
static struct case_file cases[CASES_MAX];
static unsigned case_count;
static struct ctxp_buf parity, prices;

static void read_json(const char *path, struct ctxp_buf *out) {
  ctxp_auto_buf text = {0};
  struct ctxp_error err;
  FILE *file = fopen(path, "rb");
  char piece[65536];
  if (!file) fail_msg("cannot open %s", path);
  for (size_t n; (n = fread(piece, 1, sizeof(piece), file)) > 0;) ctxp_buf_add(&text, piece, n);
  fclose(file);
  ctxp_buf_reset(out);
  if (ctxp_json_to_raw(ctxp_buf_view(&text), out, &err) < 0) fail_msg("%s: %s", path, err.text);
}

/* ---- the scripted model ---- */
static unsigned calls_made;

/* the call that the case has at this input for this node; fails where there is none */
static struct ctxp_raw scripted(const char *node, struct ctxp_str id) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(the_case, "aux"));
  struct ctxp_raw call;
  uint32_t left = 0;
  if (ctxp_map_get(the_case, "aux").len) assert_true(ctxp_array_open(&it, &left) >= 0);
  while (left) {
    assert_true(ctxp_array_next(&it, &left, &call) >= 0);
    if (ctxp_str_is(ctxp_map_str(call, "mechanism"), node) && ctxp_map_u64(call, "at", UINT64_MAX) == input_index &&
        ctxp_str_eq(ctxp_map_str(call, "toolCallId"), id))
      return call;
  }
  fail_msg(
      "input %llu: node '%s' asks a model about %.*s, and the case does not", (unsigned long long)input_index, node, (int)id.len, id.ptr);
  return (struct ctxp_raw){0};
}

static void model(
    void *data, const char *node, const struct ctxp_event *event, const struct ctxp_model_call *asked, struct ctxp_model_reply *ret_reply) {
  const struct ctxp_tool_result *result = &event->tool_result;
  struct ctxp_raw call = scripted(node, result->toolCallId);
  struct ctxp_str content = ctxp_map_str(result->input, "content"), source = strcmp(node, "write") == 0 ? content : result->text;
  uint64_t units = ctxp_map_u64(call, "shownUnits", 0);
  (void)data;
  calls_made++;
  if (strcmp(node, "bash") != 0) { /* the output is shown cleaned; the pipeline's own test compares that */
    assert_true(ctxp_str_find(asked->user, ctxp_utf16_prefix(source, units), 0) != SIZE_MAX);
    if (units < ctxp_utf16_units(source)) {
      struct ctxp_str more = ctxp_utf16_prefix(source, units + 2);
      assert_true(ctxp_str_find(asked->user, more, 0) == SIZE_MAX);
    }
  }
  if (ctxp_map_get(call, "maxTokens").len) assert_int_equal(asked->max_tokens, ctxp_map_u64(call, "maxTokens", 0));
  *ret_reply = (struct ctxp_model_reply){.outcome = CTXP_MODEL_FAILED, .why = CTXP_STR("scripted")};
  if (ctxp_map_bool(call, "ok", false))
    *ret_reply =
        (struct ctxp_model_reply){.outcome = CTXP_MODEL_OK, .text = ctxp_js_trim(ctxp_map_str(ctxp_map_get(call, "reply"), "text"))};
}

static uint32_t scripted_calls(void) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(the_case, "aux"));
  uint32_t count = 0;
  if (ctxp_map_get(the_case, "aux").len) assert_true(ctxp_array_open(&it, &count) >= 0);
  return count;
}

/* ---- opening the stages ---- */
static bool has_option(const struct ctxp_stage_ops *ops, struct ctxp_str name) {
  for (const struct ctxp_option *option = ops->options; option->name; option++)
    if (ctxp_str_is(name, option->name)) return true;
  return false;
}

/* those of the map that the stage has: the engine's own are of no matter here */
static uint32_t add_options(const struct ctxp_stage_ops *ops, struct ctxp_raw map, struct ctxp_buf *out) {
  struct ctxp_cursor it = ctxp_cursor(map);
  struct ctxp_str key;
  struct ctxp_raw value;
  uint32_t left, count = 0;
  if (!map.len || ctxp_map_open(&it, &left) < 0) return 0;
  while (left) {
    assert_true(ctxp_map_next(&it, &left, &key, &value) >= 0);
    if (!has_option(ops, key) || ctxp_raw_type(value) == CTXP_PACK_NIL) continue;
    ctxp_pack_str(out, key);
    ctxp_pack_raw(out, value);
    count++;
  }
  return count;
}

/* of which nothing is asked here */
static uint32_t add_endpoint(const struct ctxp_stage_ops *ops, struct ctxp_buf *out) {
  if (!has_option(ops, CTXP_STR("url"))) return 0;
  ctxp_pack_cstr(out, "url");
  ctxp_pack_cstr(out, "http://127.0.0.1:1/v1");
  ctxp_pack_cstr(out, "model");
  ctxp_pack_cstr(out, "scripted");
  return 2;
}

static bool listed(struct ctxp_raw list, const char *name) {
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_raw one;
  uint32_t left;
  if (!list.len || ctxp_array_open(&it, &left) < 0) return true;
  while (left && ctxp_array_next(&it, &left, &one) >= 0)
    if (ctxp_str_is(ctxp_raw_str(one), name)) return true;
  return false;
}

static void open_stages(void) {
  for (unsigned i = 0; i < NODES; i++) {
    ctxp_auto_buf options = {0};
    used[i] = listed(ctxp_map_get(the_case, "nodes"), node_names[i]);
    if (!used[i]) continue;
    ctxp_test_open(&stages[i], node_ops[i], node_names[i]);
    stages[i].model = model;
    size_t mark = ctxp_pack_map_open(&options);
    uint32_t count = add_endpoint(node_ops[i], &options);
    count += add_options(node_ops[i], ctxp_map_get(ctxp_map_get(ctxp_buf_raw(&parity), "options"), node_names[i]), &options);
    count += add_options(
        node_ops[i], ctxp_map_get(ctxp_map_get(the_case, "options"), node_names[i]), &options); /* the last of equal keys counts */
    ctxp_pack_close(&options, mark, count);
    ctxp_test_options(&stages[i], ctxp_buf_raw(&options), ctxp_buf_raw(&prices));
  }
}

static int close_stages(void **state) {
  (void)state;
  for (unsigned i = 0; i < NODES; i++)
    if (used[i]) ctxp_test_close(&stages[i]);
  memset(used, 0, sizeof(used));
  return 0;
}

/* ---- comparing ---- */
static const char *as_json(struct ctxp_raw raw, struct ctxp_buf *out) {
  ctxp_buf_reset(out);
  assert_int_equal(ctxp_json_from_raw(raw, out), 0);
  return ctxp_buf_cstr(out);
}

static void same_value(struct ctxp_raw expected, struct ctxp_raw got, struct ctxp_str key) {
  ctxp_auto_buf a = {0}, b = {0};
  const char *want = as_json(expected, &a), *have = got.len ? as_json(got, &b) : "nothing";
  if (strcmp(want, have) != 0)
    fail_msg("input %llu: %.*s is %s for %s", (unsigned long long)input_index, (int)key.len, key.ptr, have, want);
}

static struct ctxp_raw value_of(struct ctxp_raw map, struct ctxp_str key) {
  char name[64];
  assert_true(key.len < sizeof(name));
  snprintf(name, sizeof(name), "%.*s", (int)key.len, key.ptr);
  return ctxp_map_get(map, name);
}

static void same_line(struct ctxp_raw expected, struct ctxp_raw got) {
  struct ctxp_cursor it = ctxp_cursor(expected);
  struct ctxp_str key;
  struct ctxp_raw value;
  uint32_t left;
  assert_true(ctxp_map_open(&it, &left) >= 0);
  while (left) {
    assert_true(ctxp_map_next(&it, &left, &key, &value) >= 0);
    if (ctxp_str_is(key, "reason"))
      assert_true(ctxp_map_str(got, "reason").len > 0);
    else
      same_value(value, value_of(got, key), key);
  }
  if (ctxp_map_bool(expected, "applied", true) != ctxp_map_bool(got, "applied", true))
    fail_msg("input %llu: applied is wrong", (unsigned long long)input_index);
}

static bool compared(struct ctxp_str kind) {
  static const char *const kinds[] = {"bash", "bash-fallback", "amnesia-tag", "amnesia-remove", "write", "write-inject-failed", "lazy"};
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
    if (ctxp_str_is(kind, kinds[i])) return true;
  return false;
}

struct lines {
  struct ctxp_buf raw[64];
  unsigned count;
};

static void emitted_lines(struct lines *lines) {
  ctxp_auto_buf text = {0};
  lines->count = 0;
  for (unsigned n = 0; n < NODES; n++)
    for (unsigned i = 0; used[n] && i < stages[n].emitted_count; i++) {
      const char *line = ctxp_test_line(&stages[n], i, false, &text);
      struct ctxp_buf *raw = &lines->raw[lines->count];
      ctxp_buf_reset(raw);
      assert_int_equal(ctxp_json_to_raw(ctxp_str(line), raw, NULL), 0);
      if (compared(ctxp_map_str(ctxp_buf_raw(raw), "kind"))) lines->count++;
      assert_true(lines->count < 64);
    }
}

static struct lines lines;

static void compare_log(struct ctxp_raw expected) {
  struct ctxp_cursor it = ctxp_cursor(expected);
  struct ctxp_raw one;
  uint32_t left = 0;
  unsigned at = 0;
  emitted_lines(&lines);
  if (expected.len) assert_true(ctxp_array_open(&it, &left) >= 0);
  while (left) {
    assert_true(ctxp_array_next(&it, &left, &one) >= 0);
    if (!compared(ctxp_map_str(one, "kind"))) continue; /* the fold's */
    if (at == lines.count) {
      ctxp_auto_buf text = {0};
      fail_msg("input %llu: nothing emitted for %s", (unsigned long long)input_index, as_json(one, &text));
    }
    same_line(one, ctxp_buf_raw(&lines.raw[at++]));
  }
  if (at < lines.count) {
    ctxp_auto_buf text = {0};
    fail_msg("input %llu: emitted too much: %s", (unsigned long long)input_index, as_json(ctxp_buf_raw(&lines.raw[at]), &text));
  }
}

/* what the collector makes of the stages' actions */
static void merged_answer(struct ctxp_buf *out) {
  uint32_t count = 0, left;
  ctxp_buf_reset(out);
  size_t mark = ctxp_pack_map_open(out);
  for (unsigned n = 0; n < NODES; n++)
    for (unsigned i = 0; used[n] && i < stages[n].answer_count; i++) {
      struct ctxp_cursor it = ctxp_cursor(ctxp_buf_raw(&stages[n].answers[i].actions));
      struct ctxp_str key;
      struct ctxp_raw value;
      assert_true(ctxp_map_open(&it, &left) >= 0);
      while (left) {
        assert_true(ctxp_map_next(&it, &left, &key, &value) >= 0);
        ctxp_pack_str(out, key);
        ctxp_pack_raw(out, value);
        count++;
      }
    }
  if (!count) {
    ctxp_pack_cstr(out, "unchanged");
    ctxp_pack_bool(out, true);
    count++;
  }
  ctxp_pack_close(out, mark, count);
}

static void compare_answer(struct ctxp_raw expected, struct ctxp_raw got) {
  static const char *const keys[] = {"replace", "inject", "remove", "strip", "stripContent", "unchanged"};
  for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
    struct ctxp_raw want = ctxp_map_get(expected, keys[i]), have = ctxp_map_get(got, keys[i]);
    if (!want.len && !have.len) continue;
    ctxp_auto_buf a = {0}, b = {0};
    const char *w = want.len ? as_json(want, &a) : "nothing", *h = have.len ? as_json(have, &b) : "nothing";
    if (strcmp(w, h) != 0) fail_msg("input %llu: %s is %s for %s", (unsigned long long)input_index, keys[i], h, w);
  }
}

/* ---- a check: the wording is ours ---- */
static bool has_line(struct ctxp_str text, struct ctxp_str line) {
  for (size_t at = 0; (at = ctxp_str_find(text, line, at)) != SIZE_MAX; at++)
    if ((at == 0 || text.ptr[at - 1] == '\n') && (at + line.len == text.len || text.ptr[at + line.len] == '\n')) return true;
  return false;
}

static void each_text(struct ctxp_raw list, struct ctxp_str text, bool wanted) {
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_raw one;
  uint32_t left = 0;
  if (list.len) assert_true(ctxp_array_open(&it, &left) >= 0);
  while (left) {
    assert_true(ctxp_array_next(&it, &left, &one) >= 0);
    struct ctxp_str line = ctxp_raw_str(one);
    bool there = wanted ? has_line(text, line) : ctxp_str_find(text, line, 0) != SIZE_MAX;
    if (there != wanted)
      fail_msg("input %llu: the text %s '%.*s':\n%.*s", (unsigned long long)input_index, wanted ? "lacks" : "has", (int)line.len, line.ptr,
          (int)text.len, text.ptr);
  }
}

static void check_exit(struct ctxp_str text, int64_t code) {
  char number[32];
  snprintf(number, sizeof(number), " %lld", (long long)code);
  size_t at = ctxp_str_find(text, CTXP_STR("exit"), 0);
  if (at == SIZE_MAX || ctxp_str_find(text, ctxp_str(number), at) == SIZE_MAX)
    fail_msg("no exit code %s in:\n%.*s", number, (int)text.len, text.ptr);
}

static void check(struct ctxp_raw expected, struct ctxp_raw answer) {
  emitted_lines(&lines);
  assert_int_equal(lines.count, 1);
  struct ctxp_raw line = ctxp_buf_raw(&lines.raw[0]);
  struct ctxp_str text = ctxp_map_str(ctxp_map_get(answer, "replace"), "text");
  uint64_t tokens = ctxp_estimate_text(text), original = ctxp_map_u64(expected, "originalTokens", 0);
  bool fallback = ctxp_str_is(ctxp_map_str(line, "kind"), "bash-fallback");
  assert_true(listed(ctxp_map_get(expected, "kinds"), fallback ? "bash-fallback" : "bash"));
  assert_int_equal(ctxp_map_u64(line, "originalTokens", 0), original);
  assert_int_equal(ctxp_map_u64(line, fallback ? "fallbackTokens" : "summaryTokens", 0), tokens);
  assert_int_equal(ctxp_map_i64(line, "saved", 0), original - tokens);
  assert_true(text.len && tokens < original);
  assert_true(tokens <= ctxp_map_u64(expected, "maxTokens", UINT64_MAX));
  each_text(ctxp_map_get(expected, "contains"), text, true);
  each_text(ctxp_map_get(expected, "lacks"), text, false);
  if (ctxp_map_get(expected, "exitCode").len) check_exit(text, ctxp_map_i64(expected, "exitCode", 0));
}

/* ---- running ---- */
static void run_input(struct ctxp_raw input, struct ctxp_raw expected) {
  ctxp_auto_buf line = {0}, answer = {0};
  as_json(input, &line);
  for (unsigned n = 0; n < NODES; n++) {
    if (!used[n]) continue;
    ctxp_test_clear(&stages[n]);
    ctxp_test_push_json(&stages[n], ctxp_buf_cstr(&line));
  }
  if (ctxp_raw_type(expected) != CTXP_PACK_MAP) return;
  merged_answer(&answer);
  if (ctxp_map_get(expected, "check").len) {
    check(ctxp_map_get(expected, "check"), ctxp_buf_raw(&answer));
    return;
  }
  compare_log(ctxp_map_get(expected, "log"));
  if (ctxp_map_bool(input, "ask", false)) compare_answer(ctxp_map_get(expected, "answer"), ctxp_buf_raw(&answer));
}

static void run_case(void **state) {
  const struct case_file *file = *state;
  struct ctxp_raw input, expected;
  uint32_t inputs = 0, expectations = 0;
  the_case = ctxp_buf_raw(&file->raw);
  struct ctxp_cursor in = ctxp_cursor(ctxp_map_get(the_case, "input")), ex = ctxp_cursor(ctxp_map_get(the_case, "expect"));
  assert_true(ctxp_array_open(&in, &inputs) >= 0 && ctxp_array_open(&ex, &expectations) >= 0);
  assert_int_equal(inputs, expectations);
  calls_made = 0;
  open_stages();
  for (input_index = 0; inputs; input_index++) {
    assert_true(ctxp_array_next(&in, &inputs, &input) >= 0 && ctxp_array_next(&ex, &expectations, &expected) >= 0);
    run_input(input, expected);
  }
  assert_int_equal(calls_made, scripted_calls());
}

static int ends_json(const struct dirent *entry) {
  size_t len = strlen(entry->d_name);
  return len > 5 && strcmp(entry->d_name + len - 5, ".json") == 0;
}

/* the price table of the cases, as it stands in a topology event */
static void read_prices(const char *path) {
  struct ctxp_prices *table = NULL;
  ctxp_auto_buf faults = {0};
  if (ctxp_prices_read(&path, 1, &table, &faults) < 0) fail_msg("%s", ctxp_buf_cstr(&faults));
  assert_int_equal(ctxp_prices_encode(table, &prices), 0);
  ctxp_prices_free(table);
}

int main(int argc, char **argv) {
  static struct CMUnitTest tests[CASES_MAX];
  struct dirent **names;
  char path[4096];
  size_t count = 0;
  if (argc < 2) return 2;
  snprintf(path, sizeof(path), "%s/parity.json", argv[1]);
  read_json(path, &parity);
  snprintf(path, sizeof(path), "%s/prices.json", argv[1]);
  read_prices(path);
  snprintf(path, sizeof(path), "%s/oracle", argv[1]);
  int found = scandir(path, &names, ends_json, alphasort);
  for (int i = 0; i < found; i++) {
    struct case_file *file = &cases[case_count];
    snprintf(path, sizeof(path), "%s/oracle/%s", argv[1], names[i]->d_name);
    if (case_count == CASES_MAX) return 2;
    read_json(path, &file->raw);
    snprintf(file->name, sizeof(file->name), "%.*s", (int)strlen(names[i]->d_name) - 5, names[i]->d_name);
    free(names[i]);
    case_count++;
    tests[count++] = (struct CMUnitTest){file->name, run_case, NULL, close_stages, file};
  }
  free(names);
  int failed = _cmocka_run_group_tests("oracle", tests, count, NULL, NULL);
  for (unsigned i = 0; i < case_count; i++) ctxp_buf_deinit(&cases[i].raw);
  for (unsigned i = 0; i < 64; i++) ctxp_buf_deinit(&lines.raw[i]);
  ctxp_buf_deinit(&parity);
  ctxp_buf_deinit(&prices);
  return count ? failed : 2;
}
