/* The amnesia tagger as a stage: what it judges, what it removes and when, what it takes back. */
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
#include "mechanisms/amnesia.h"
#include "mechanisms/paths.h"
#include "support/stage_test.h"
#include "tokens/facts.h"

extern const struct ctxp_stage_ops ctxp_stage_amnesia_tagger;

static struct ctxp_test t;
static struct ctxp_buf text;

static int close_stage(void **state) {
  (void)state;
  ctxp_test_close(&t);
  ctxp_buf_deinit(&text);
  text = (struct ctxp_buf){0};
  return 0;
}

/* options as JSON; no prices */
static void open_with(const char *json) {
  ctxp_auto_buf options = {0};
  assert_int_equal(ctxp_json_to_raw(ctxp_str(json), &options, NULL), 0);
  ctxp_test_open(&t, &ctxp_stage_amnesia_tagger, "amnesia");
  ctxp_test_options(&t, ctxp_buf_raw(&options), (struct ctxp_raw){0});
}

static int open_stage(void **state) {
  (void)state;
  open_with("{}");
  return 0;
}

static void push(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void push(const char *format, ...) {
  char line[16384];
  va_list args;
  va_start(args, format);
  assert_in_range(vsnprintf(line, sizeof(line), format, args), 1, sizeof(line) - 1);
  va_end(args);
  ctxp_test_push_json(&t, line);
}

/* a result of 1080 units, 270 tokens: ten lines of 107 times `c` */
static const char *body(char c) {
  static char room[2200];
  size_t n = 0;
  for (int line = 0; line < 10; line++) {
    memset(room + n, c, 107);
    n += 107;
    memcpy(room + n, "\\n", 3);
    n += 2;
  }
  return room;
}

static void result(const char *tool, const char *id, const char *input, const char *content) {
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"%s\",\"tool\":\"%s\",\"input\":%s,\"isError\":false,\"text\":\"%s\",\"ask\":true}", id,
      tool, input, content);
}

static void assert_emitted(const char *lines) {
  ctxp_auto_buf all = {0}, one = {0};
  for (unsigned i = 0; i < t.emitted_count; i++) {
    const char *line = ctxp_test_line(&t, i, true, &one);
    const char *kind = strstr(line, "\"kind\"");
    ctxp_buf_printf(&all, "%s{%s", i ? "\n" : "", kind);
  }
  if (strcmp(ctxp_buf_cstr(&all), lines) != 0) fail_msg("emitted\n%s\nfor\n%s", ctxp_buf_cstr(&all), lines);
  ctxp_test_clear(&t);
}

#define TAG(id, tool, decision, tokens) \
  "{\"kind\":\"amnesia-tag\",\"toolCallId\":\"" id "\",\"tool\":\"" tool "\",\"decision\":\"" decision "\",\"tokens\":" tokens "}"
#define REMOVE(saved, count, ids) \
  "{\"kind\":\"amnesia-remove\",\"saved\":" saved ",\"messageCount\":" count ",\"droppedResultIds\":[" ids "]}"
#define REGRET(id, tokens, reason) \
  "{\"kind\":\"regret\",\"mechanism\":\"amnesia\",\"toolCallId\":\"" id "\",\"tokens\":" tokens ",\"reason\":\"" reason "\"}"

/* ---- judging ---- */
static void a_result_is_retained_until_something_supersedes_it(void **state) {
  (void)state;
  result("read", "r1", "{\"path\":\"a.c\"}", body('x'));
  assert_emitted(TAG("r1", "read", "RETAIN", "270"));
}

static void small_failed_and_blank_results_are_not_judged(void **state) {
  (void)state;
  open_with("{\"min_tokens\":271}");
  result("read", "r1", "{\"path\":\"a.c\"}", body('x'));
  result("read", "r2", "{\"path\":\"b.c\"}", "");
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"r3\",\"tool\":\"read\",\"input\":{\"path\":\"c\"},\"isError\":true,\"text\":\"%s%s\"}",
      body('x'), "more");
  assert_emitted("");
}

static void a_later_read_of_the_file_supersedes_whatever_it_is_called(void **state) {
  (void)state;
  push("{\"kind\":\"session_start\",\"product\":\"pi\",\"cwd\":\"/home/dev/p\"}");
  result("read", "r1", "{\"path\":\"src/../a.c\"}", body('x'));
  result("read", "r2", "{\"path\":\"/home/dev/p/a.c\"}", body('y'));
  assert_emitted(TAG("r1", "read", "RETAIN", "270") "\n" TAG("r2", "read", "RETAIN", "270") "\n" TAG("r1", "read", "DROP", "270"));
  result("read", "r3", "{\"path\":\"./a.c\"}", body('z'));
  assert_emitted(TAG("r3", "read", "RETAIN", "270") "\n" TAG("r2", "read", "DROP", "270"));
}

static void a_part_supersedes_only_what_it_covers(void **state) {
  (void)state;
  result("read", "whole", "{\"path\":\"a\"}", body('x'));
  result("read", "part", "{\"path\":\"a\",\"offset\":3,\"limit\":10}", body('y'));
  ctxp_test_clear(&t);
  result("read", "same", "{\"path\":\"a\",\"offset\":3,\"limit\":10}", body('z')); /* lines 3 to 12 again */
  assert_emitted(TAG("same", "read", "RETAIN", "270") "\n" TAG("part", "read", "DROP", "270"));
  result("read", "far", "{\"path\":\"a\",\"offset\":100,\"limit\":10}", body('v'));
  assert_emitted(TAG("far", "read", "RETAIN", "270"));
  result("read", "odd", "{\"path\":\"a\",\"pages\":\"1-3\"}", body('w'));
  assert_emitted(TAG("odd", "read", "RETAIN", "270"));
  result("read", "again", "{\"path\":\"a\"}", body('u')); /* whole against whole; its 10 lines do not reach the parts */
  assert_emitted(TAG("again", "read", "RETAIN", "270") "\n" TAG("whole", "read", "DROP", "270"));
}

static void the_same_text_once_more_supersedes_the_older(void **state) {
  (void)state;
  result("grep", "g1", "{\"pattern\":\"x\"}", body('x'));
  result("find", "f1", "{\"pattern\":\"y\"}", body('x'));
  assert_emitted(TAG("g1", "grep", "RETAIN", "270") "\n" TAG("f1", "find", "RETAIN", "270") "\n" TAG("g1", "grep", "DROP", "270"));
}

/* the result of body(c), whose text was left out */
static void bare_result(const char *tool, const char *id, const char *input, char c) {
  char room[1080], hex[CTXP_HASH_HEX];
  for (size_t i = 0; i < sizeof(room); i++) room[i] = c;
  for (size_t i = 107; i < sizeof(room); i += 108) room[i] = '\n';
  struct ctxp_tool_result bare = {.text = {room, sizeof(room)}};
  ctxp_text_leave_out(&bare, hex);
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"%s\",\"tool\":\"%s\",\"input\":%s,\"isError\":false,\"text\":\"\",\"ask\":true,"
       "\"textHash\":\"%s\",\"textUnits\":%llu,\"textLines\":%llu}",
      id, tool, input, hex, (unsigned long long)bare.textUnits, (unsigned long long)bare.textLines);
}

static void a_text_that_was_left_out_is_judged_by_what_is_said_of_it(void **state) {
  (void)state;
  result("read", "r1", "{\"path\":\"a\",\"offset\":3,\"limit\":10}", body('x'));
  bare_result("grep", "g1", "{\"pattern\":\"x\"}", 'x'); /* the same text */
  assert_emitted(TAG("r1", "read", "RETAIN", "270") "\n" TAG("g1", "grep", "RETAIN", "270") "\n" TAG("r1", "read", "DROP", "270"));
  bare_result("read", "r2", "{\"path\":\"b\",\"offset\":3,\"limit\":10}", 'y');
  result("read", "r3", "{\"path\":\"b\",\"offset\":3,\"limit\":10}", body('z')); /* the same lines: 3 to 12 */
  assert_emitted(TAG("r2", "read", "RETAIN", "270") "\n" TAG("r3", "read", "RETAIN", "270") "\n" TAG("r2", "read", "DROP", "270"));
  bare_result("read", "r4", "{\"path\":\"b\",\"offset\":2,\"limit\":10}", 'w'); /* 2 to 11 */
  assert_emitted(TAG("r4", "read", "RETAIN", "270"));
}

static void a_whole_file_written_supersedes_its_reads_an_edit_does_not(void **state) {
  (void)state;
  result("read", "r1", "{\"path\":\"a.c\"}", body('x'));
  result("read", "r2", "{\"path\":\"b.c\"}", body('y'));
  ctxp_test_clear(&t);
  result("edit", "e1", "{\"path\":\"a.c\",\"oldText\":\"x\",\"newText\":\"y\"}", "ok");
  assert_emitted("");
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"w0\",\"tool\":\"write\",\"input\":{\"path\":\"a.c\",\"content\":\"x\"},\"isError\":true,"
       "\"text\":\"no\"}");
  assert_emitted("");
  result("write", "w1", "{\"path\":\"a.c\",\"content\":\"x\"}", "ok");
  assert_emitted(TAG("r1", "read", "DROP", "270"));
}

static void a_second_result_of_a_call_takes_its_id_over(void **state) {
  (void)state;
  result("read", "r1", "{\"path\":\"a\"}", body('x'));
  result("write", "w1", "{\"path\":\"a\",\"content\":\"x\"}", "ok");
  result("read", "r1", "{\"path\":\"a\"}", body('y'));
  assert_emitted(TAG("r1", "read", "RETAIN", "270") "\n" TAG("r1", "read", "DROP", "270") "\n" TAG("r1", "read", "RETAIN", "270"));
  result("write", "w2", "{\"path\":\"a\",\"content\":\"x\"}", "ok");
  assert_emitted(TAG("r1", "read", "DROP", "270"));
}

/* ---- an agent that asks ---- */
static void superseded(void) { /* d was read in an earlier turn and is superseded by a write */
  result("read", "d", "{\"path\":\"a\"}", body('x'));
  result("write", "w", "{\"path\":\"a\",\"content\":\"x\"}", "ok");
  ctxp_test_clear(&t);
}

static void context(const char *ts, const char *more, const char *tail) {
  push("{\"kind\":\"context\",\"ts\":\"2026-09-01T%s.000Z\",\"ask\":true%s,\"messages\":["
       "{\"id\":\"m1\",\"role\":\"user\",\"hasText\":true,\"tokens\":10},"
       "{\"id\":\"m2\",\"role\":\"assistant\",\"hasText\":true,\"calls\":[{\"id\":\"d\",\"name\":\"read\",\"tokens\":7}],\"tokens\":20},"
       "{\"id\":\"m3\",\"role\":\"tool\",\"toolCallId\":\"d\",\"hasText\":true,\"tokens\":270}"
       "%s]}",
      ts, more, tail);
}
#define TAIL ",{\"id\":\"m4\",\"role\":\"assistant\",\"hasText\":true,\"tokens\":50}"

static void assert_answer(const char *expected) {
  assert_string_equal(ctxp_test_answer(&t, t.seq, &text), expected);
}

static void seen_waits_for_one_request_and_a_cold_cache(void **state) {
  (void)state;
  superseded();
  context("10:00:00", "", "");
  assert_answer("");
  context("10:05:00", "", TAIL); /* 300 s are not above 300 */
  assert_answer("");
  context("10:10:01", "", TAIL);
  assert_emitted(REMOVE("270", "1", "\"d\""));
  context("10:10:02", "", TAIL);
  assert_answer("{\"remove\":[\"m3\"],\"strip\":{\"m2\":[\"d\"]}}");
  assert_emitted("");
}

static void another_model_and_other_tools_make_the_cache_cold(void **state) {
  (void)state;
  superseded();
  context("10:00:00", ",\"model\":\"a\",\"toolsHash\":\"1\"", "");
  context("10:00:01", ",\"model\":\"a\",\"toolsHash\":\"1\"", TAIL);
  assert_emitted("");
  context("10:00:02", ",\"model\":\"b\",\"toolsHash\":\"1\"", TAIL);
  assert_emitted(REMOVE("270", "1", "\"d\""));
}

static void after_a_compaction_what_is_still_there_goes_and_the_rest_is_forgotten(void **state) {
  (void)state;
  superseded();
  result("read", "k", "{\"path\":\"k\"}", body('k'));
  context("10:00:00", "", "");
  ctxp_test_clear(&t);
  push("{\"kind\":\"compaction\"}");
  context("10:00:01", "", TAIL);
  assert_emitted(REMOVE("270", "1", "\"d\""));
  result("write", "w3", "{\"path\":\"k\",\"content\":\"x\"}", "ok"); /* k is not of the window any more */
  assert_emitted("");
}

static void what_is_gone_stays_gone_across_sessions_and_restarts(void **state) {
  (void)state;
  superseded();
  context("10:00:00", "", "");
  context("10:10:00", "", TAIL);
  push("{\"kind\":\"agent_end\"}");
  push("{\"kind\":\"session_end\"}");
  ctxp_test_restart(&t);
  push("{\"kind\":\"session_start\",\"product\":\"pi\"}");
  ctxp_test_clear(&t);
  context("12:00:00", "", TAIL);
  assert_answer("{\"remove\":[\"m3\"],\"strip\":{\"m2\":[\"d\"]}}");
  assert_emitted("");
}

static void a_skill_load_may_go_without_a_tag(void **state) {
  (void)state;
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"d\",\"tool\":\"find_capability\",\"input\":{},\"isError\":false,\"text\":\"short\","
       "\"skillLoad\":true,\"ask\":true}");
  context("10:00:00", "", "");
  assert_emitted("");
  context("10:10:00", "", TAIL);
  assert_emitted(REMOVE("270", "1", "\"d\""));
}

/* ---- taking back ---- */
static void removed(void) {
  superseded();
  context("10:00:00", "", "");
  context("10:10:00", "", TAIL);
  ctxp_test_clear(&t);
}

static void a_missed_answer_is_undone_and_its_saving_taken_back(void **state) {
  (void)state;
  removed();
  push("{\"kind\":\"answer_missed\",\"askSeq\":%llu,\"reason\":\"timeout\"}", (unsigned long long)t.seq);
  assert_emitted(REGRET("d", "270", "not applied"));
  context("10:10:01", "", TAIL); /* warm now: it stays */
  assert_answer("");
  assert_emitted("");
}

static void a_miss_of_another_node_or_of_another_ask_is_not_ours(void **state) {
  (void)state;
  removed();
  push("{\"kind\":\"answer_missed\",\"askSeq\":%llu,\"reason\":\"timeout\",\"mechanism\":\"bash\"}", (unsigned long long)t.seq);
  push("{\"kind\":\"answer_missed\",\"askSeq\":1,\"reason\":\"timeout\"}");
  assert_emitted("");
}

static void what_a_prompt_names_again_is_taken_back_a_context_does_not_count(void **state) {
  (void)state;
  removed();
  context("10:10:01", "", TAIL);
  assert_emitted("");
  push("{\"kind\":\"prompt\",\"callId\":\"p1\",\"request\":[{\"id\":\"m1\"},{\"id\":\"m2\"},{\"id\":\"m4\"}]}");
  assert_emitted("");
  push("{\"kind\":\"prompt\",\"callId\":\"p2\",\"request\":[{\"id\":\"m1\"},{\"id\":\"m2\"},{\"id\":\"m3\"},{\"id\":\"m4\"}]}");
  assert_emitted(REGRET("d", "270", "came back"));
  push("{\"kind\":\"prompt\",\"callId\":\"p3\",\"keep\":4,\"append\":[]}");
  assert_emitted(""); /* once */
}

static void the_same_bytes_read_again_are_taken_back_once(void **state) {
  (void)state;
  removed();
  result("read", "n1", "{\"path\":\"a\"}", body('x'));
  assert_emitted(REGRET("d", "270", "read again") "\n" TAG("n1", "read", "RETAIN", "270"));
  result("read", "n2", "{\"path\":\"a\"}", body('x')); /* the window holds them: not by our fault */
  assert_emitted(TAG("n2", "read", "RETAIN", "270") "\n" TAG("n1", "read", "DROP", "270"));
  push("{\"kind\":\"prompt\",\"callId\":\"p2\",\"request\":[{\"id\":\"m1\"},{\"id\":\"m2\"},{\"id\":\"m3\"}]}");
  assert_emitted(""); /* nothing is left to take back */
}

static void missed(uint64_t ask) { push("{\"kind\":\"answer_missed\",\"askSeq\":%llu,\"reason\":\"lost\"}", (unsigned long long)ask); }

static void what_was_read_again_is_not_taken_back_once_more_when_its_removal_was_missed(void **state) {
  (void)state;
  removed();
  uint64_t ask = t.seq;
  result("read", "n1", "{\"path\":\"a\"}", body('x'));
  push("{\"kind\":\"session_end\"}");
  ctxp_test_restart(&t);
  ctxp_test_clear(&t);
  missed(ask);
  assert_emitted("");
  push("{\"kind\":\"session_start\",\"product\":\"pi\"}");
  context("12:00:00", "", TAIL);
  assert_answer(""); /* it is there again */
}

static void what_was_evicted_after_a_removal_that_was_missed_is_taken_back(void **state) {
  (void)state;
  removed();
  uint64_t ask = t.seq;
  push("{\"kind\":\"evict\",\"ids\":[\"m3\"],\"reason\":\"rewind\"}");
  missed(ask);
  assert_emitted(REGRET("d", "270", "not applied")); /* the agent had it until then */
}

static void a_removal_for_one_request_is_taken_back_behind_the_end(void **state) {
  (void)state;
  open_with("{\"policy\":\"tail\",\"sticky\":false}");
  superseded();
  context("10:00:00", "", "");
  uint64_t ask = t.seq;
  push("{\"kind\":\"session_end\"}");
  ctxp_test_restart(&t);
  ctxp_test_clear(&t);
  for (int i = 0; i < 2; i++) missed(ask);
  assert_emitted(REGRET("d", "270", "not applied"));
}

/* two rounds under one ask each: what the second took is not named by the first's miss */
static void of_two_removals_only_the_missed_one_is_taken_back(void **state) {
  (void)state;
  removed();
  uint64_t first = t.seq;
  result("read", "f", "{\"path\":\"b\"}", body('y'));
  result("write", "v", "{\"path\":\"b\",\"content\":\"x\"}", "ok");
#define SECOND \
  TAIL ",{\"id\":\"m5\",\"role\":\"assistant\",\"hasText\":false,\"calls\":[{\"id\":\"f\",\"name\":\"read\",\"tokens\":7}],\"tokens\":9}," \
       "{\"id\":\"m6\",\"role\":\"tool\",\"toolCallId\":\"f\",\"hasText\":true,\"tokens\":300}"
  context("10:10:01", "", SECOND);
  ctxp_test_clear(&t);
  context("10:20:00", "", SECOND);
  assert_emitted(REMOVE("309", "2", "\"f\""));
  missed(first);
  assert_emitted(REGRET("d", "270", "not applied"));
  context("10:20:01", "", SECOND);
  assert_answer("{\"remove\":[\"m5\",\"m6\"]}");
}

/* ---- sessions that are only watched ---- */
static void define(const char *id, const char *role, const char *more, unsigned tokens) {
  push("{\"kind\":\"context_message\",\"id\":\"%s\",\"role\":\"%s\",\"band\":\"%s\",\"tokens\":%u%s}", id, role,
      role[0] == 't'     ? "tool_output" :
          role[0] == 'a' ? "assistant" :
                           "user_prompt",
      tokens, more);
}

static void watched(void) {
  push("{\"kind\":\"session_start\",\"product\":\"claude-code\",\"recorded\":true}");
  define("m1", "user", "", 10);
  define("m2", "assistant", ",\"chars\":0,\"calls\":[{\"id\":\"d\",\"name\":\"Read\",\"tokens\":7}]", 7);
  push("{\"kind\":\"prompt\",\"ts\":\"2026-09-01T10:00:00.000Z\",\"callId\":\"p1\",\"request\":[{\"id\":\"m1\"}]}");
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"d\",\"tool\":\"Read\",\"input\":{\"path\":\"a\"},\"isError\":false,\"text\":\"%s\"}",
      body('x'));
  define("m3", "tool", ",\"toolCallId\":\"d\"", 270);
  push("{\"kind\":\"prompt\",\"ts\":\"2026-09-01T10:00:01.000Z\",\"callId\":\"p2\",\"keep\":1,\"append\":[{\"id\":\"m2\"},{\"id\":\"m3\"}]"
       "}");
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"w\",\"tool\":\"Write\",\"input\":{\"path\":\"a\",\"content\":\"x\"},\"isError\":false,"
       "\"text\":\"ok\"}");
  define("m4", "assistant", ",\"chars\":40,\"calls\":[{\"id\":\"w\",\"name\":\"Write\",\"tokens\":9}]", 19);
  define("m5", "tool", ",\"toolCallId\":\"w\"", 1);
}

static void in_a_watched_session_a_removal_is_potential(void **state) {
  (void)state;
  watched();
  ctxp_test_clear(&t);
  push("{\"kind\":\"prompt\",\"ts\":\"2026-09-01T10:00:02.000Z\",\"callId\":\"p3\",\"keep\":3,\"append\":[{\"id\":\"m4\"},{\"id\":\"m5\"}]"
       "}");
  assert_emitted("");
  push("{\"kind\":\"prompt\",\"ts\":\"2026-09-01T10:10:02.000Z\",\"callId\":\"p4\",\"keep\":5,\"append\":[]}");
  assert_int_equal(t.emitted_count, 1);
  assert_int_equal(t.answer_count, 0);
  assert_false(t.emitted[0].event.amnesia_remove.applied);
  assert_emitted(REMOVE("277", "2", "\"d\""));
  push("{\"kind\":\"prompt\",\"ts\":\"2026-09-01T10:20:03.000Z\",\"callId\":\"p5\",\"keep\":5,\"append\":[]}");
  assert_emitted(""); /* gone already, in theory; and that it is named is no regret */
}

static void what_went_in_theory_is_there_once_the_agent_asks(void **state) {
  (void)state;
  watched();
  push("{\"kind\":\"prompt\",\"ts\":\"2026-09-01T10:10:02.000Z\",\"callId\":\"p3\",\"keep\":3,\"append\":[{\"id\":\"m4\"},{\"id\":\"m5\"}]"
       "}");
  ctxp_test_clear(&t);
  ctxp_test_restart(&t);
  context("10:10:03", "", TAIL); /* warm: it stays, and may go later */
  assert_answer("");
  assert_emitted("");
  context("10:20:03", "", TAIL);
  assert_answer("{\"remove\":[\"m3\"],\"strip\":{\"m2\":[\"d\"]}}");
  assert_true(t.emitted[0].event.amnesia_remove.applied);
  assert_emitted(REMOVE("270", "1", "\"d\""));
}

static void too_long_a_request_is_not_followed(void **state) {
  (void)state;
  struct ctxp_event ev = {.kind = CTXP_KIND_prompt};
  ctxp_auto_buf list = {0};
  struct ctxp_list refs = {0};
  removed();
  for (int i = 0; i <= CTXP_MESSAGES_MAX; i++) {
    char id[16];
    snprintf(id, sizeof(id), i ? "x%d" : "m3", i); /* m3 is among them: it came back, but nobody looks any more */
    struct ctxp_ref ref = {.id = ctxp_str(id)};
    assert_int_equal(ctxp_list_add(&refs, &list, &ctxp_shape_ref, &ref), 0);
  }
  ev.prompt.callId = CTXP_STR("p");
  ctxp_set(&ev.prompt, prompt, request, refs);
  ctxp_test_push(&t, &ev);
  assert_int_equal(t.refused, 1);
  assert_emitted("");
  context("10:10:05", "", TAIL); /* what is gone stays gone */
  assert_answer("{\"remove\":[\"m3\"],\"strip\":{\"m2\":[\"d\"]}}");
}

static void nothing_is_stored_of_a_watched_session_that_ended(void **state) {
  (void)state;
  watched();
  assert_int_equal(ctxp_stage_save(t.stage), 0);
  assert_int_equal(t.pair_count, 1);
  push("{\"kind\":\"session_end\"}");
  assert_int_equal(ctxp_stage_save(t.stage), 0);
  assert_int_equal(t.pair_count, 0);
}

static void tail_candidates_expire_with_the_run(void **state) {
  (void)state;
  open_with("{\"policy\":\"tail\"}");
  superseded();
  push("{\"kind\":\"agent_end\"}");
  context("10:00:00", "", "");
  assert_answer("");
  superseded();
  context("10:00:00", "", "");
  assert_answer("{\"remove\":[\"m3\"],\"strip\":{\"m2\":[\"d\"]}}");
}

static void evicted_messages_are_not_removed_and_not_regretted(void **state) {
  (void)state;
  removed();
  push("{\"kind\":\"evict\",\"ids\":[\"m3\"],\"reason\":\"rewind\"}");
  push("{\"kind\":\"prompt\",\"callId\":\"p2\",\"request\":[{\"id\":\"m1\"},{\"id\":\"m2\"},{\"id\":\"m3\"}]}");
  assert_emitted("");
}

static void hostile_ids_are_texts(void **state) {
  (void)state;
  char id[500];
  memset(id, '/', sizeof(id) - 1);
  id[sizeof(id) - 1] = 0;
  push("{\"kind\":\"tool_result\",\"agent\":\"%s\",\"session\":\"%s\",\"thread\":\"../"
       "\\u0000x\",\"toolCallId\":\"\\u0000\\n%s\",\"tool\":\"read\",\"input\":{\"path\":\"a\"},\"isError\":false,\"text\":\"%s\"}",
      id, id, id, body('x'));
  ctxp_test_restart(&t);
  push("{\"kind\":\"tool_result\",\"agent\":\"%s\",\"session\":\"%s\",\"thread\":\"../"
       "\\u0000x\",\"toolCallId\":\"w\",\"tool\":\"write\",\"input\":{\"path\":\"a\",\"content\":\"\"},\"isError\":false,\"text\":\"ok\"}",
      id, id);
  assert_int_equal(t.emitted_count, 2);
  assert_true(ctxp_str_is(t.emitted[1].event.amnesia_tag.decision, "DROP"));
  assert_int_equal(t.emitted[1].event.amnesia_tag.toolCallId.len, 501);
}

static void results_of_a_window_are_bounded(void **state) {
  (void)state;
  static char line[256];
  for (int i = 0; i <= CTXP_RESULTS_MAX; i++) {
    snprintf(line, sizeof(line), "{\"path\":\"f%d\"}", i);
    char id[16], unique[32];
    snprintf(id, sizeof(id), "r%d", i);
    snprintf(unique, sizeof(unique), "%d", i);
    push("{\"kind\":\"tool_result\",\"toolCallId\":\"%s\",\"tool\":\"read\",\"input\":%s,\"isError\":false,\"text\":\"%s%s\"}", id, line,
        body('x'), unique);
    ctxp_test_clear(&t);
  }
  result("write", "w0", "{\"path\":\"f0\",\"content\":\"x\"}", "ok"); /* the oldest is forgotten */
  assert_emitted("");
  result("write", "w1", "{\"path\":\"f1\",\"content\":\"x\"}", "ok");
  assert_int_equal(t.emitted_count, 1);
}

static void paths_are_compared_without_detours(void **state) {
  (void)state;
  static const char *const cases[][3] = {{"/p", "a/b", "/p/a/b"}, {"/p", "../x", "/x"}, {"/p", "/a//b/./c/..", "/a/b"},
      {"", "./a/../b", "b"}, {"", "../a", "../a"}, {"/p", "/../..", "/"}, {"/p/", ".", "/p"}, {"p", "a", "p/a"}, {"", "/", "/"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    ctxp_auto_buf out = {0};
    ctxp_path_normalise(ctxp_str(cases[i][0]), ctxp_str(cases[i][1]), &out);
    assert_string_equal(ctxp_buf_cstr(&out), cases[i][2]);
  }
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, open_stage, close_stage)
#define OWN(name) cmocka_unit_test_teardown(name, close_stage)
  const struct CMUnitTest tests[] = {
      T(a_result_is_retained_until_something_supersedes_it),
      OWN(small_failed_and_blank_results_are_not_judged),
      T(a_later_read_of_the_file_supersedes_whatever_it_is_called),
      T(a_part_supersedes_only_what_it_covers),
      T(the_same_text_once_more_supersedes_the_older),
      T(a_text_that_was_left_out_is_judged_by_what_is_said_of_it),
      T(a_whole_file_written_supersedes_its_reads_an_edit_does_not),
      T(a_second_result_of_a_call_takes_its_id_over),
      T(seen_waits_for_one_request_and_a_cold_cache),
      T(another_model_and_other_tools_make_the_cache_cold),
      T(after_a_compaction_what_is_still_there_goes_and_the_rest_is_forgotten),
      T(what_is_gone_stays_gone_across_sessions_and_restarts),
      T(a_skill_load_may_go_without_a_tag),
      T(a_missed_answer_is_undone_and_its_saving_taken_back),
      T(a_miss_of_another_node_or_of_another_ask_is_not_ours),
      T(what_a_prompt_names_again_is_taken_back_a_context_does_not_count),
      T(the_same_bytes_read_again_are_taken_back_once),
      T(what_was_read_again_is_not_taken_back_once_more_when_its_removal_was_missed),
      T(what_was_evicted_after_a_removal_that_was_missed_is_taken_back),
      OWN(a_removal_for_one_request_is_taken_back_behind_the_end),
      T(of_two_removals_only_the_missed_one_is_taken_back),
      T(in_a_watched_session_a_removal_is_potential),
      T(what_went_in_theory_is_there_once_the_agent_asks),
      T(too_long_a_request_is_not_followed),
      T(nothing_is_stored_of_a_watched_session_that_ended),
      OWN(tail_candidates_expire_with_the_run),
      T(evicted_messages_are_not_removed_and_not_regretted),
      T(hostile_ids_are_texts),
      T(results_of_a_window_are_bounded),
      cmocka_unit_test(paths_are_compared_without_detours),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
