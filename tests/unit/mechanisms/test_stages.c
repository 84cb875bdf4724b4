/* bash-digest, write-compressor and lazy-estimator as stages: what they emit, answer and take back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "mechanisms/fact.h"
#include "support/stage_test.h"
#include "tokens/estimate.h"

extern const struct ctxp_stage_ops ctxp_stage_bash_digest, ctxp_stage_write_compressor, ctxp_stage_lazy_estimator;

static struct ctxp_test t;
static struct ctxp_buf text, line;

static int close_stage(void **state) {
  (void)state;
  if (t.stage) ctxp_test_close(&t);
  ctxp_buf_deinit(&text);
  ctxp_buf_deinit(&line);
  text = line = (struct ctxp_buf){0};
  return 0;
}

static void open_with(const struct ctxp_stage_ops *ops, const char *node, const char *json) {
  ctxp_auto_buf options = {0};
  assert_int_equal(ctxp_json_to_raw(ctxp_str(json), &options, NULL), 0);
  ctxp_test_open(&t, ops, node);
  ctxp_test_options(&t, ctxp_buf_raw(&options), (struct ctxp_raw){0});
}
static int open_bash(void **state) { return (void)state, open_with(&ctxp_stage_bash_digest, "bash", "{}"), 0; }
static int open_write(void **state) { return (void)state, open_with(&ctxp_stage_write_compressor, "write", "{}"), 0; }
static int open_lazy(void **state) { return (void)state, open_with(&ctxp_stage_lazy_estimator, "lazy", "{}"), 0; }

static void push(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void push(const char *format, ...) {
  char json[16384];
  va_list args;
  va_start(args, format);
  assert_in_range(vsnprintf(json, sizeof(json), format, args), 1, sizeof(json) - 1);
  va_end(args);
  ctxp_test_push_json(&t, json);
}

static const char *answer(void) { return ctxp_test_answer(&t, t.seq, &text); }
static const char *emitted(void) { /* the only line, without its time */
  assert_int_equal(t.emitted_count, 1);
  const char *at = strstr(ctxp_test_line(&t, 0, true, &line), "\"kind\"");
  return at;
}

/* ---- bash ---- */
static void shell(const char *output, bool failed, int64_t code, bool ask) {
  struct ctxp_event ev = {.kind = CTXP_KIND_tool_result};
  ctxp_auto_buf input = {0};
  ctxp_pack_map(&input, 1);
  ctxp_pack_cstr(&input, "command");
  ctxp_pack_cstr(&input, "make");
  ev.tool_result =
      (struct ctxp_tool_result){.toolCallId = CTXP_STR("b"), .tool = CTXP_STR("bash"), .isError = failed, .text = ctxp_str(output)};
  ctxp_set(&ev.tool_result, tool_result, input, ctxp_buf_raw(&input));
  if (code >= 0) ctxp_set(&ev.tool_result, tool_result, exitCode, code);
  if (ask) ctxp_set(&ev.tool_result, tool_result, ask, true);
  ctxp_test_push(&t, &ev);
}

/* 8000 units = 2000 tokens of lines of one shape, `extra` in their middle */
static const char *output(const char *extra) {
  static char room[20000];
  size_t n = 0;
  for (int i = 0; i < 400; i++) {
    n += (size_t)snprintf(room + n, sizeof(room) - n, "step %014d\n", i);
    if (i == 200) n += (size_t)snprintf(room + n, sizeof(room) - n, "%s", extra);
  }
  return room;
}

static struct ctxp_str replaced(void) {
  assert_int_equal(t.answer_count, 1);
  return ctxp_map_str(ctxp_map_get(ctxp_buf_raw(&t.answers[0].actions), "replace"), "text");
}

static void an_output_becomes_its_digest_with_the_exit_code_of_the_event(void **state) {
  (void)state;
  shell(output("a.c:1: error: no\nexit code 0, says the output\n"), true, 2, true);
  struct ctxp_str made = replaced();
  assert_true(ctxp_str_starts(made, "[ctxpipe: digest of 402 lines; exit code 2]\n"));
  assert_true(ctxp_str_find(made, CTXP_STR("\na.c:1: error: no\n"), 0) != SIZE_MAX);
  const struct ctxp_bash *bash = &t.emitted[0].event.bash;
  assert_int_equal(bash->originalTokens, 2012);
  assert_int_equal(bash->summaryTokens, ctxp_estimate_text(made));
  assert_int_equal(bash->saved, bash->originalTokens - bash->summaryTokens);
  assert_true(bash->applied && ctxp_str_is(bash->engine, "rules") && bash->summaryTokens <= 201);
  struct ctxp_raw details = ctxp_map_get(ctxp_map_get(ctxp_buf_raw(&t.answers[0].actions), "replace"), "details");
  ctxp_auto_buf expected = {0};
  ctxp_buf_printf(&expected,
      "{\"drop\":[\"fullOutputPath\",\"truncation\"],\"add\":{\"summarized\":true,\"originalTokens\":2012,\"summaryTokens\":%llu}}",
      (unsigned long long)bash->summaryTokens);
  assert_int_equal(ctxp_json_from_raw(details, &text), 0);
  assert_string_equal(ctxp_buf_cstr(&text), ctxp_buf_cstr(&expected));
}

static void a_failure_without_a_reported_code_says_so(void **state) {
  (void)state;
  shell(output(""), true, -1, true);
  assert_true(ctxp_str_starts(replaced(), "[ctxpipe: digest of 400 lines; the command failed, its exit code was not reported]\n"));
}

static void below_the_limit_and_blank_outputs_stay(void **state) {
  (void)state;
  open_with(&ctxp_stage_bash_digest, "bash", "{\"min_tokens\":2001}");
  shell(output(""), false, 0, true); /* 2000 tokens */
  static char blank[20000];
  memset(blank, ' ', sizeof(blank) - 1);
  shell(blank, false, 0, true);
  assert_int_equal(t.emitted_count + t.answer_count, 0);
}

static void kept_errors_stay(void **state) {
  (void)state;
  open_with(&ctxp_stage_bash_digest, "bash", "{\"errors\":\"keep\"}");
  shell(output(""), true, 1, true);
  assert_int_equal(t.emitted_count + t.answer_count, 0);
  shell(output(""), false, 0, true);
  assert_int_equal(t.answer_count, 1);
}

static void who_does_not_ask_gets_a_potential_event_and_no_answer(void **state) {
  (void)state;
  shell(output(""), false, 0, false);
  assert_int_equal(t.answer_count, 0);
  assert_false(t.emitted[0].event.bash.applied);
  assert_true(t.emitted[0].event.bash.saved > 1500);
}

/* ten lines of ten shapes, 2000 tokens in all, none of them an error but the one with the number given */
static const char *wide(int error_at) {
  static char room[20000];
  static const char *const words[] = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"};
  size_t n = 0;
  for (int i = 0; i < 10; i++) {
    n += (size_t)snprintf(room + n, sizeof(room) - n, "%s%s ", i == error_at ? "error: " : "", words[i]);
    size_t fill = (size_t)(i + 1) * 800 - 1 - n;
    memset(room + n, 'a' + i, fill);
    n += fill;
    room[n++] = '\n';
  }
  room[n] = 0;
  return room;
}

static void errors_that_do_not_fit_but_stand_in_the_tail_leave_the_tail(void **state) {
  (void)state;
  open_with(&ctxp_stage_bash_digest, "bash", "{\"max_summary_tokens\":100,\"fallback_bytes\":2000}");
  shell(wide(8), true, 3, true);
  assert_int_equal(t.emitted[0].event.kind, CTXP_KIND_bash_fallback);
  struct ctxp_str made = replaced();
  assert_int_equal(t.emitted[0].event.bash_fallback.fallbackTokens, ctxp_estimate_text(made));
  assert_int_equal(t.emitted[0].event.bash_fallback.saved, 2000 - ctxp_estimate_text(made));
  assert_true(ctxp_str_starts(made, "error: iota "));
  assert_true(ctxp_str_ends(made, "\n[ctxpipe: the last 2 of 10 lines, 1599 of 8000 bytes; exit code 3]"));
}

static void errors_that_fit_nowhere_stay(void **state) {
  (void)state;
  open_with(&ctxp_stage_bash_digest, "bash", "{\"max_summary_tokens\":100,\"fallback_bytes\":2000}");
  shell(wide(5), true, 3, true);
  assert_int_equal(t.answer_count, 0);
  const struct ctxp_bash *bash = &t.emitted[0].event.bash;
  assert_true(!bash->applied && bash->saved == 0 && bash->summaryTokens == 2000 && bash->reason.len);
}

static void a_digest_is_never_larger(void **state) {
  (void)state;
  open_with(&ctxp_stage_bash_digest, "bash", "{\"min_tokens\":1}");
  shell("ok", false, 0, true);
  assert_int_equal(t.answer_count, 0);
  const struct ctxp_bash *bash = &t.emitted[0].event.bash;
  assert_true(!bash->applied && bash->saved == 0 && bash->originalTokens == 1 && bash->summaryTokens >= 1 && bash->reason.len);
}

static void a_missed_digest_is_taken_back_once(void **state) {
  (void)state;
  shell(output(""), false, 0, true);
  int64_t saved = t.emitted[0].event.bash.saved;
  uint64_t ask = t.seq;
  ctxp_test_restart(&t);
  ctxp_test_clear(&t);
  push("{\"kind\":\"answer_missed\",\"askSeq\":%llu,\"reason\":\"timeout\",\"mechanism\":\"amnesia\"}", (unsigned long long)ask);
  assert_int_equal(t.emitted_count, 0);
  push("{\"kind\":\"session_end\"}"); /* what became of an answer may be told behind it */
  for (int i = 0; i < 2; i++) push("{\"kind\":\"answer_missed\",\"askSeq\":%llu,\"reason\":\"timeout\"}", (unsigned long long)ask);
  assert_int_equal(t.emitted_count, 1);
  assert_int_equal(t.emitted[0].event.regret.tokens, saved);
  assert_true(ctxp_str_is(t.emitted[0].event.regret.mechanism, "bash") && ctxp_str_is(t.emitted[0].event.regret.reason, "not applied"));
  assert_int_equal(ctxp_stage_save(t.stage), 0);
  assert_int_equal(t.pair_count, 0);
}

/* ---- facts ---- */
static void assert_fact(const char *path, const char *content, const char *expected) {
  ctxp_auto_buf out = {0};
  ctxp_fact_line(ctxp_str(path), ctxp_fact_describe(ctxp_str(content)), ctxp_str(content), &out);
  assert_string_equal(ctxp_buf_cstr(&out), expected);
}

static void a_file_describes_itself(void **state) {
  (void)state;
  assert_fact("a.py", "\"\"\"Sums numbers.\n\nMore.\"\"\"\n", "[Wrote a.py \xe2\x80\x94 Sums numbers., ~4 lines]");
  assert_fact("a.py", "import x\n'''Old style.'''", "[Wrote a.py \xe2\x80\x94 Old style., ~2 lines]");
  assert_fact("a.py", "\"\"\"\"\"\"\n# a comment", "[Wrote a.py \xe2\x80\x94 a comment, ~2 lines]");
  assert_fact("a.c", "#include <x>\n#define Y 1\n// The queue.\n", "[Wrote a.c \xe2\x80\x94 The queue., ~4 lines]");
  assert_fact("a.c", "/*\n *\n * Ring buffer.\n */\n", "[Wrote a.c \xe2\x80\x94 Ring buffer., ~5 lines]");
  assert_fact("a.sh", "#!/bin/sh\n# deploys it all\n", "[Wrote a.sh \xe2\x80\x94 deploys it all, ~3 lines]");
  assert_fact("README", "## Title here\n", "[Wrote README \xe2\x80\x94 # Title here, ~2 lines]");
  assert_fact("a.js", "  export default 3;\n", "[Wrote a.js \xe2\x80\x94 export default 3;, ~2 lines]");
  assert_fact("a.js", "const\nclassy = 1;\nclass A {}\n", "[Wrote a.js \xe2\x80\x94 class A {}, ~4 lines]");
  assert_fact("a.txt", "1\n2", "[Wrote a.txt, ~2 lines]");
  assert_fact("a\nb\x01.txt", "1", "[Wrote a b .txt, ~1 lines]");
}

static void a_fact_has_at_most_220_units_on_one_line(void **state) {
  (void)state;
  char path[400], content[600];
  ctxp_auto_buf out = {0};
  for (size_t path_len = 1; path_len < 300; path_len++)
    for (size_t what_len = 5; what_len < 170; what_len += 41) {
      memset(path, 'p', path_len);
      path[path_len] = 0;
      snprintf(content, sizeof(content), "# %0*d", (int)what_len, 7);
      ctxp_buf_reset(&out);
      ctxp_fact_line(ctxp_str(path), ctxp_fact_describe(ctxp_str(content)), ctxp_str(content), &out);
      struct ctxp_str fact = ctxp_buf_view(&out);
      assert_in_range(ctxp_utf16_units(fact), 1, CTXP_FACT_UNITS);
      assert_true(ctxp_str_starts(fact, "[Wrote ") && ctxp_str_ends(fact, ", ~1 lines]") && !memchr(fact.ptr, '\n', fact.len));
      size_t what = what_len < 160 ? what_len : 160; /* of a comment */
      if (path_len + 3 + what <= 202) assert_int_equal(fact.len, 18 + path_len + 5 + what); /* U+2014 has three bytes */
    }
}

static void what_is_cut_to_its_room_then_left_out_then_the_path_keeps_its_end(void **state) {
  (void)state;
  char path[260], content[200], expected[400];
  snprintf(content, sizeof(content), "# %0100d", 7);
  /* 220 - 18 - 190 - 3 = 9 units of room: six of them and the dots */
  memset(path, 'p', 190);
  path[190] = 0;
  snprintf(expected, sizeof(expected), "[Wrote %s \xe2\x80\x94 000000..., ~1 lines]", path);
  assert_fact(path, content, expected);
  memset(path, 'p', 196); /* 3 units of room: it goes */
  path[196] = 0;
  snprintf(expected, sizeof(expected), "[Wrote %s, ~1 lines]", path);
  assert_fact(path, content, expected);
  for (int i = 0; i < 250; i++) path[i] = (char)('a' + i % 26);
  path[250] = 0;
  snprintf(expected, sizeof(expected), "[Wrote ...%s, ~1 lines]", path + 250 - 199);
  assert_fact(path, content, expected);
}

/* ---- write ---- */
#define FACT "[Wrote a.py \xe2\x80\x94 Sums., ~2 lines]"
static const char *content(void) { /* 400 units */
  static char room[420];
  snprintf(room, sizeof(room), "\\\"\\\"\\\"Sums.\\\"\\\"\\\"\\n%0388d", 0);
  return room;
}

static void write_file(const char *call, const char *path, bool ask) {
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"%s\",\"tool\":\"write\",\"input\":{\"path\":\"%s\",\"content\":\"%s\"},\"isError\":"
       "false,\"text\":\"ok\"%s}",
      call, path, content(), ask ? ",\"ask\":true" : "");
}
static void injected(const char *call, bool ok) {
  push("{\"kind\":\"write_injected\",\"toolCallId\":\"%s\",\"ok\":%s}", call, ok ? "true" : "false");
}
static void context(const char *calls, const char *tail) {
  push("{\"kind\":\"context\",\"ask\":true,\"messages\":[{\"id\":\"m1\",\"role\":\"user\",\"hasText\":true,\"tokens\":1},{\"id\":\"m2\","
       "\"role\":\"assistant\",\"hasText\":false,\"calls\":[%s],\"tokens\":120}%s]}",
      calls, tail);
}
#define W1 "{\"id\":\"w1\",\"name\":\"write\",\"tokens\":110,\"contentTokens\":100}"
#define LATER ",{\"id\":\"m3\",\"role\":\"assistant\",\"hasText\":true,\"tokens\":5}"

static void a_write_is_offered_injected_and_stripped_for_good(void **state) {
  (void)state;
  write_file("w1", "a.py", true);
  assert_string_equal(answer(), "{\"inject\":{\"toolCallId\":\"w1\",\"fact\":\"" FACT "\"}}");
  assert_int_equal(t.emitted_count, 0);
  injected("w1", true);
  assert_string_equal(emitted(),
      "\"kind\":\"write\",\"toolCallId\":\"w1\",\"path\":\"a.py\",\"originalTokens\":100,\"factTokens\":8,\"saved\":92,\"fact\":\"" FACT
      "\"}");
  assert_int_equal(t.emitted[0].event.write.contentHash.len, 32);
  context(W1, "");
  assert_string_equal(answer(), "{\"stripContent\":[\"w1\"]}");
  ctxp_test_restart(&t);
  push("{\"kind\":\"session_end\"}");
  context(W1, LATER);
  assert_string_equal(answer(), "{\"stripContent\":[\"w1\"]}");
  assert_int_equal(t.emitted_count, 1);
}

static void without_sticky_a_strip_is_for_one_request(void **state) {
  (void)state;
  open_with(&ctxp_stage_write_compressor, "write", "{\"sticky\":false}");
  write_file("w1", "a.py", true);
  injected("w1", true);
  context(W1, "");
  assert_string_equal(answer(), "{\"stripContent\":[\"w1\"]}");
  context(W1, "");
  assert_string_equal(answer(), "");
}

static void what_a_request_has_carried_is_not_stripped_and_its_saving_is_taken_back(void **state) {
  (void)state;
  write_file("w1", "a.py", true);
  injected("w1", true);
  ctxp_test_clear(&t);
  context(W1, LATER);
  assert_string_equal(answer(), "");
  assert_string_equal(
      emitted(), "\"kind\":\"regret\",\"mechanism\":\"write\",\"toolCallId\":\"w1\",\"tokens\":92,\"reason\":\"not applied\"}");
  context(W1, "");
  assert_string_equal(answer(), "");
  assert_int_equal(t.emitted_count, 1);
}

static void what_was_injected_and_is_sent_unasked_is_taken_back(void **state) {
  (void)state;
  write_file("w1", "a.py", true);
  injected("w1", true);
  ctxp_test_clear(&t);
  push("{\"kind\":\"context\",\"messages\":[{\"id\":\"m1\",\"role\":\"user\",\"hasText\":true,\"tokens\":1},{\"id\":\"m2\",\"role\":"
       "\"assistant\",\"hasText\":false,\"calls\":[" W1 "],\"tokens\":120}]}");
  assert_string_equal(
      emitted(), "\"kind\":\"regret\",\"mechanism\":\"write\",\"toolCallId\":\"w1\",\"tokens\":92,\"reason\":\"not applied\"}");
  context(W1, "");
  assert_string_equal(answer(), ""); /* the cache holds it */
}

static void what_was_injected_is_settled_by_the_first_request_after_the_session_came_back(void **state) {
  (void)state;
  write_file("w1", "a.py", true);
  injected("w1", true);
  push("{\"kind\":\"session_end\"}");
  ctxp_test_restart(&t);
  ctxp_test_clear(&t);
  context(W1, "");
  assert_string_equal(answer(), "{\"stripContent\":[\"w1\"]}");
  assert_int_equal(t.emitted_count, 0);
  write_file("w2", "b.py", true);
  injected("w2", true);
  push("{\"kind\":\"session_end\"}");
  ctxp_test_clear(&t);
  context("{\"id\":\"w2\",\"name\":\"write\",\"tokens\":110,\"contentTokens\":100}", LATER); /* a request has carried it */
  assert_string_equal(
      emitted(), "\"kind\":\"regret\",\"mechanism\":\"write\",\"toolCallId\":\"w2\",\"tokens\":92,\"reason\":\"not applied\"}");
}

static void without_sticky_a_miss_that_is_told_behind_the_end_is_taken_back_too(void **state) {
  (void)state;
  open_with(&ctxp_stage_write_compressor, "write", "{\"sticky\":false}");
  write_file("w1", "a.py", true);
  injected("w1", true);
  context(W1, "");
  uint64_t ask = t.seq;
  push("{\"kind\":\"session_end\"}");
  ctxp_test_restart(&t);
  ctxp_test_clear(&t);
  push("{\"kind\":\"answer_missed\",\"askSeq\":%llu,\"reason\":\"lost\"}", (unsigned long long)ask);
  assert_string_equal(
      emitted(), "\"kind\":\"regret\",\"mechanism\":\"write\",\"toolCallId\":\"w1\",\"tokens\":92,\"reason\":\"not applied\"}");
}

static void what_could_not_be_injected_saves_nothing(void **state) {
  (void)state;
  write_file("w1", "a.py", true);
  injected("w1", false);
  assert_string_equal(emitted(), "\"kind\":\"write-inject-failed\",\"toolCallId\":\"w1\",\"path\":\"a.py\"}");
  context(W1, "");
  assert_string_equal(answer(), "");
  injected("w1", true); /* said twice */
  assert_int_equal(t.emitted_count, 1);
  assert_int_equal(t.refused, 1);
}

static void missed_answers_take_the_last_step_back(void **state) {
  (void)state;
  write_file("w1", "a.py", true);
  push("{\"kind\":\"answer_missed\",\"askSeq\":%llu,\"reason\":\"lost\"}", (unsigned long long)t.seq);
  assert_int_equal(t.emitted_count, 0); /* nothing was claimed yet */
  injected("w1", true);
  assert_int_equal(t.refused, 1);
  write_file("w1", "a.py", true);
  injected("w1", true);
  context(W1, "");
  ctxp_test_clear(&t);
  push("{\"kind\":\"answer_missed\",\"askSeq\":%llu,\"reason\":\"lost\"}", (unsigned long long)t.seq);
  assert_string_equal(
      emitted(), "\"kind\":\"regret\",\"mechanism\":\"write\",\"toolCallId\":\"w1\",\"tokens\":92,\"reason\":\"not applied\"}");
  context(W1, "");
  assert_string_equal(answer(), ""); /* it was sent; the cache holds it */
}

static void who_does_not_ask_gets_the_figures_at_the_result(void **state) {
  (void)state;
  write_file("w1", "a.py", false);
  assert_false(t.emitted[0].event.write.applied);
  assert_int_equal(t.emitted[0].event.write.saved, 92);
  assert_int_equal(t.answer_count, 0);
}

static void a_later_write_or_edit_supersedes_a_fact(void **state) {
  (void)state;
  write_file("w1", "a.py", true);
  write_file("w2", "b.py", true);
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"e\",\"tool\":\"edit\",\"input\":{\"path\":\"a.py\",\"oldText\":\"x\",\"newText\":\"y\"},"
       "\"isError\":false,\"text\":\"ok\"}");
  ctxp_auto_buf query = {0}, reply = {0};
  assert_int_equal(
      ctxp_json_to_raw(CTXP_STR("{\"what\":\"facts\",\"agent\":\"pi@test\",\"session\":\"s1\",\"thread\":\"\"}"), &query, NULL), 0);
  assert_int_equal(ctxp_stage_query(t.stage, ctxp_buf_raw(&query), &reply, NULL), 0);
  struct ctxp_cursor it = ctxp_cursor(ctxp_buf_raw(&reply));
  struct ctxp_raw one;
  uint32_t left;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  assert_int_equal(left, 2);
  static const bool superseded[] = {true, false};
  for (unsigned i = 0; i < 2; i++) {
    assert_true(ctxp_array_next(&it, &left, &one) >= 0);
    assert_true(ctxp_str_is(ctxp_map_str(one, "path"), i ? "b.py" : "a.py"));
    assert_int_equal(ctxp_map_bool(one, "superseded", !superseded[i]), superseded[i]);
    assert_int_equal(ctxp_map_str(one, "contentHash").len, 32);
  }
}

/* ---- lazy ---- */
static void only_inactive_tools_and_the_skills_section_count(void **state) {
  (void)state;
  push("{\"kind\":\"agent_start\",\"tools\":[{\"name\":\"read\",\"description\":\"Reads.\",\"parameters\":{}},"
       "{\"name\":\"grep\",\"description\":\"Finds.\",\"parameters\":{ \"type\": \"object\" "
       "},\"guidelines\":[\"a\",\"bc\"]},{\"name\":\"find_capability\",\"description\":\"x\"}],"
       "\"activeTools\":[\"read\"],\"skillsText\":\"123456789\"}");
  /* "grep Finds. {\"type\":\"object\"} a bc" has 4+1+6+1+17+1+4 = 34 units, 9 tokens; the skills 9 units, 3 tokens */
  assert_string_equal(emitted(), "\"kind\":\"lazy\",\"avoidedTokens\":12}");
  assert_true(t.emitted[0].event.lazy.applied);
}

static void skills_that_are_not_lazy_do_not_count(void **state) {
  (void)state;
  open_with(&ctxp_stage_lazy_estimator, "lazy", "{\"skills\":false}");
  push("{\"kind\":\"agent_start\",\"skillsText\":\"123456789\"}");
  assert_string_equal(emitted(), "\"kind\":\"lazy\",\"avoidedTokens\":0}");
}

static void a_recorded_session_is_potential_also_after_a_restart(void **state) {
  (void)state;
  push("{\"kind\":\"session_start\",\"product\":\"pi\",\"recorded\":true}");
  ctxp_test_restart(&t);
  push("{\"kind\":\"agent_start\"}");
  assert_false(t.emitted[0].event.lazy.applied);
  push("{\"kind\":\"session_end\"}");
  assert_int_equal(ctxp_stage_save(t.stage), 0);
  assert_int_equal(t.pair_count, 0);
  push("{\"kind\":\"session_start\",\"product\":\"pi\"}");
  push("{\"kind\":\"agent_start\"}");
  assert_true(t.emitted[1].event.lazy.applied);
}

static void many_windows_are_bounded_in_memory_and_come_back(void **state) {
  (void)state;
  for (int i = 0; i < 600; i++) push("{\"kind\":\"session_start\",\"session\":\"s%d\",\"product\":\"pi\",\"recorded\":true}", i);
  assert_int_equal(ctxp_stage_save(t.stage), 0);
  assert_int_equal(t.pair_count, 600);
  for (int i = 0; i < 600; i += 7) push("{\"kind\":\"agent_start\",\"session\":\"s%d\"}", i);
  for (unsigned i = 0; i < t.emitted_count; i++) assert_false(t.emitted[i].event.lazy.applied);
}

int main(void) {
#define BASH(name) cmocka_unit_test_setup_teardown(name, open_bash, close_stage)
#define WRITE(name) cmocka_unit_test_setup_teardown(name, open_write, close_stage)
#define LAZY(name) cmocka_unit_test_setup_teardown(name, open_lazy, close_stage)
#define OWN(name) cmocka_unit_test_teardown(name, close_stage)
  const struct CMUnitTest tests[] = {
      BASH(an_output_becomes_its_digest_with_the_exit_code_of_the_event),
      BASH(a_failure_without_a_reported_code_says_so),
      OWN(below_the_limit_and_blank_outputs_stay),
      OWN(kept_errors_stay),
      BASH(who_does_not_ask_gets_a_potential_event_and_no_answer),
      OWN(errors_that_do_not_fit_but_stand_in_the_tail_leave_the_tail),
      OWN(errors_that_fit_nowhere_stay),
      OWN(a_digest_is_never_larger),
      BASH(a_missed_digest_is_taken_back_once),
      cmocka_unit_test(a_file_describes_itself),
      cmocka_unit_test(a_fact_has_at_most_220_units_on_one_line),
      cmocka_unit_test(what_is_cut_to_its_room_then_left_out_then_the_path_keeps_its_end),
      WRITE(a_write_is_offered_injected_and_stripped_for_good),
      OWN(without_sticky_a_strip_is_for_one_request),
      WRITE(what_a_request_has_carried_is_not_stripped_and_its_saving_is_taken_back),
      WRITE(what_was_injected_and_is_sent_unasked_is_taken_back),
      WRITE(what_was_injected_is_settled_by_the_first_request_after_the_session_came_back),
      OWN(without_sticky_a_miss_that_is_told_behind_the_end_is_taken_back_too),
      WRITE(what_could_not_be_injected_saves_nothing),
      WRITE(missed_answers_take_the_last_step_back),
      WRITE(who_does_not_ask_gets_the_figures_at_the_result),
      WRITE(a_later_write_or_edit_supersedes_a_fact),
      LAZY(only_inactive_tools_and_the_skills_section_count),
      OWN(skills_that_are_not_lazy_do_not_count),
      LAZY(a_recorded_session_is_potential_also_after_a_restart),
      LAZY(many_windows_are_bounded_in_memory_and_come_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
