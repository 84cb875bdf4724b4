/* What Claude Code's records become. Each session is written as a person would tell it: one line a record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "scratch.h"

#define HEAD "\"sessionId\":\"s1\",\"cwd\":\"/p\",\"gitBranch\":\"main\",\"timestamp\":\"2026-01-02T00:00:00.000Z\""
#define LINE(uuid, parent, rest) "{\"parentUuid\":" parent "," HEAD ",\"uuid\":\"" uuid "\"," rest "}\n"
#define USER(uuid, parent, content) LINE(uuid, parent, "\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":" content "}")
#define REPLY_OF(uuid, parent, id, request, block, usage) \
  LINE(uuid, parent, \
      "\"type\":\"assistant\",\"requestId\":\"" request "\",\"message\":{\"id\":\"" id "\",\"model\":\"claude-x\",\"content\":[" block \
      "],\"usage\":{" usage "}}")
#define REPLY(uuid, parent, id, block, in, out) REPLY_OF(uuid, parent, id, "r" id, block, "\"input_tokens\":" in ",\"output_tokens\":" out)
#define TEXT(t) "{\"type\":\"text\",\"text\":\"" t "\"}"
#define CALL(id, tool, input) "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"" tool "\",\"input\":" input "}"
#define RESULT(id, content) "{\"type\":\"tool_result\",\"tool_use_id\":\"" id "\",\"content\":" content "}"
#define FAILURE(id, content) "{\"type\":\"tool_result\",\"tool_use_id\":\"" id "\",\"is_error\":true,\"content\":" content "}"

static void import(struct scratch *s, const char *text) {
  scratch_text(s, "s1.jsonl", text);
  if (scratch_import(s, "s1.jsonl") < 0) fail_msg("%s", s->err.text);
  assert_int_equal(s->result.fault_count, 0);
  assert_int_equal(s->ref.misplaced, 0);
}

#define assert_event(s, n, ...) assert_non_null(scratch_find(s, n, __VA_ARGS__, NULL))
#define assert_no_event(s, ...) assert_null(scratch_find(s, 0, __VA_ARGS__, NULL))

static void a_session_has_its_events_in_order(void **state) {
  struct scratch *s = *state;
  static const char text[] = USER("u1", "null", "\"hello\"")
      REPLY("a1", "\"u1\"", "m1", CALL("t1", "Bash", "{\"command\":\"ls\"}"), "10", "2")
          USER("u2", "\"a1\"", "[" RESULT("t1", "\"x\"") "]")
              REPLY("a2", "\"u2\"", "m2", TEXT("done"), "12", "3");
  import(s, text);
  static const char *const kinds[] = {"session_start", "agent_start", "context_message", "prompt", "context_message", "tool_result",
      "context_message", "turn_end", "prompt", "context_message", "turn_end", "agent_end", "session_end"};
  for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    char kind[64];
    snprintf(kind, sizeof(kind), "\"kind\":\"%s\"", kinds[i]);
    assert_event(s, i, "\"kind\":");
    if (!strstr(scratch_find(s, i, "\"kind\":", NULL), kind))
      fail_msg("event %u is not %s but %s", i, kind, scratch_find(s, i, "\"kind\":", NULL));
  }
  assert_null(scratch_find(s, 13, "\"kind\":", NULL));
  assert_event(s, 0, "session_start",
      "\"agent\":\"claude-code\",\"session\":\"s1\",\"thread\":\"\",\"product\":\"claude-code\",\"cwd\":\"/"
      "p\",\"branch\":\"main\",\"recorded\":true");
  assert_event(s, 0, "\"prompt\"",
      "\"turn\":1,\"callId\":\"m1\",\"model\":\"claude-x\",\"keep\":0,\"append\":[{\"id\":\"u1\"}],\"reply\":[\"m1\"],\"personPrompt\":["
      "\"u1\"]");
  assert_event(s, 0, "\"prompt\"", "\"turn\":2,\"callId\":\"m2\"",
      "\"keep\":1,\"append\":[{\"id\":\"m1\"},{\"id\":\"t1\"}],\"reply\":[\"m2\"],\"usage\":");
  assert_event(s, 0, "tool_result",
      "\"turn\":1,\"toolCallId\":\"t1\",\"tool\":\"Bash\",\"input\":{\"command\":\"ls\"},\"isError\":false,\"text\":\"x\"");
}

static void a_response_counts_once_with_its_largest_usage(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"hello\"") REPLY_OF("a1", "\"u1\"", "m1", "r1", TEXT("a"), "\"input_tokens\":0,\"output_tokens\":0")
          REPLY_OF("a2", "\"a1\"", "m1", "r1", TEXT("b"),
              "\"input_tokens\":4,\"cache_read_input_tokens\":null,\"cache_creation_input_tokens\":9,"
              "\"cache_creation\":{\"ephemeral_5m_input_tokens\":2,\"ephemeral_1h_input_tokens\":7},\"output_tokens\":5,\"speed\":\"fast\","
              "\"service_tier\":\"priority\"") REPLY_OF("a3", "\"a2\"", "m1", "r1", TEXT("b"), "\"input_tokens\":4,\"output_tokens\":1"));
  assert_int_equal(scratch_count(s, "\"kind\":\"prompt\""), 1);
  assert_event(s, 0, "\"usage\":{\"input\":4,\"cacheRead\":0,\"cacheWrite5m\":2,\"cacheWrite1h\":7,\"output\":5}",
      "\"speed\":\"fast\",\"tier\":\"priority\"");
  assert_event(
      s, 0, "context_message", "\"id\":\"m1\"", "\"tokens\":2,\"pieces\":420,\"chars\":2"); /* b stands there twice and counts once */
}

static void two_responses_of_one_id_are_told_apart_by_request_and_input(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"hello\"") REPLY_OF("a1", "\"u1\"", "m1", "r1", TEXT("a"), "\"input_tokens\":4,\"output_tokens\":1")
          REPLY_OF("a2", "\"u1\"", "m1", "r2", TEXT("a"), "\"input_tokens\":4,\"output_tokens\":2") /* a replay under another request */
      REPLY_OF("a3", "\"u1\"", "m1", "r3", TEXT("c"), "\"input_tokens\":5,\"output_tokens\":1"));
  assert_int_equal(scratch_count(s, "\"kind\":\"prompt\""), 2);
  assert_event(s, 0, "\"callId\":\"m1\"", "\"input\":4", "\"output\":2");
  assert_event(s, 0, "\"callId\":\"m1/r3\"", "\"input\":5");
}

static void what_the_client_made_up_is_no_call(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"hello\"") LINE("a1", "\"u1\"",
          "\"type\":\"assistant\",\"message\":{\"id\":\"x1\",\"model\":\"<synthetic>\",\"content\":[" TEXT(
              "No response requested.") "],\"usage\":{\"input_tokens\":0}}") LINE("a2", "\"a1\"",
          "\"type\":\"assistant\",\"isApiErrorMessage\":true,\"message\":{\"id\":\"x2\",\"model\":\"claude-x\",\"content\":[" TEXT(
              "API Error") "],\"usage\":{\"input_tokens\":9}}") REPLY("a3", "\"a2\"", "m1", TEXT("hi"), "10", "1"));
  assert_int_equal(scratch_count(s, "\"kind\":\"prompt\""), 1);
  assert_event(s, 0, "\"callId\":\"m1\"", "\"append\":[{\"id\":\"u1\"}]");
}

static void a_call_without_usage_is_a_request_that_reports_nothing(void **state) {
  struct scratch *s = *state;
  import(s, USER("u1", "null", "\"hello\"") REPLY("a1", "\"u1\"", "m1", TEXT("hi"), "0", "0"));
  assert_event(s, 0, "\"callId\":\"m1\"");
  assert_no_event(s, "\"kind\":\"prompt\"", "\"usage\"");
}

static void parallel_results_belong_to_the_request_wherever_they_hang(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"hello\"") REPLY("a1", "\"u1\"", "m1", CALL("t1", "Read", "{\"file_path\":\"/p/a.c\"}"), "10", "2")
          REPLY("a2", "\"a1\"", "m1", CALL("t2", "Grep", "{\"pattern\":\"x\",\"path\":\"/p\"}"), "10", "2")
              USER("u2", "\"a1\"", "[" RESULT("t1", "\"one\"") "]") USER("u3", "\"a2\"", "[" RESULT("t2", "\"two\"") "]")
                  REPLY("a3", "\"u3\"", "m2", TEXT("ok"), "20", "2"));
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"keep\":1,\"append\":[{\"id\":\"m1\"},{\"id\":\"t1\"},{\"id\":\"t2\"}]");
  assert_event(s, 0, "context_message", "\"id\":\"t1\"",
      "\"role\":\"tool\",\"band\":\"file_view\",\"label\":\"/p/a.c\",\"tool\":\"Read\",\"toolCallId\":\"t1\"");
  assert_event(s, 0, "context_message", "\"id\":\"t2\"", "\"band\":\"tool_output\"", "\"tool\":\"Grep\"");
  assert_event(s, 0, "tool_result", "\"toolCallId\":\"t2\"", "\"input\":{\"pattern\":\"x\",\"path\":\"/p\"}");
}

static void a_rewind_keeps_what_stood_before_it(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"one\"") REPLY("a1", "\"u1\"", "m1", TEXT("a"), "10", "1") USER("u2", "\"a1\"", "\"bad\"") REPLY(
          "a2", "\"u2\"", "m2", TEXT("b"), "20", "1") USER("u3", "\"a1\"", "\"good\"") REPLY("a3", "\"u3\"", "m3", TEXT("c"), "21", "1"));
  assert_event(s, 0, "\"callId\":\"m2\"", "\"keep\":1,\"append\":[{\"id\":\"m1\"},{\"id\":\"u2\"}]");
  assert_event(s, 0, "\"callId\":\"m3\"", "\"keep\":2,\"append\":[{\"id\":\"u3\"}]");
}

static void a_compaction_begins_a_new_window(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"one\"") REPLY("a1", "\"u1\"", "m1", TEXT("a"), "10", "1") LINE("b1", "null",
          "\"type\":\"system\",\"subtype\":\"compact_boundary\",\"logicalParentUuid\":\"a1\",\"compactMetadata\":{\"preTokens\":150000}")
          LINE("u2", "\"b1\"", "\"type\":\"user\",\"isCompactSummary\":true,\"message\":{\"content\":\"what happened\"}")
              USER("u3", "\"u2\"", "\"go on\"") REPLY("a2", "\"u3\"", "m2", TEXT("b"), "5", "1"));
  assert_event(s, 0, "\"kind\":\"compaction\"", "\"summaryId\":\"u2\",\"before\":150000");
  assert_event(s, 0, "context_message", "\"id\":\"u2\"", "\"band\":\"history\"");
  assert_event(s, 0, "\"callId\":\"m2\"", "\"keep\":0,\"append\":[{\"id\":\"u2\"},{\"id\":\"u3\"}]", "\"personPrompt\":[\"u3\"]");
}

static void a_parent_may_stand_behind_its_child_or_be_missing(void **state) {
  struct scratch *s = *state;
  import(s,
      REPLY("a1", "\"u1\"", "m1", TEXT("a"), "10", "1") USER("u1", "null", "\"one\"") REPLY("a2", "\"lost\"", "m2", TEXT("b"), "20", "1"));
  assert_event(s, 0, "\"callId\":\"m1\"", "\"append\":[{\"id\":\"u1\"}]");
  assert_event(s, 0, "\"callId\":\"m2\"", "\"keep\":1,\"append\":[]"); /* goes on at u1, the nearest earlier line */
}

static void texts_have_their_bands(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"<command-name>/x</command-name>\"")
          USER("u2", "\"u1\"", "[" TEXT("<ide_opened_file>f") "," TEXT("what is this?") ",{\"type\":\"image\",\"source\":{}}]")
              LINE("u3", "\"u2\"", "\"type\":\"user\",\"isMeta\":true,\"message\":{\"content\":\"Caveat\"}") USER(
                  "u4", "\"u3\"", "\"Base directory for this skill: /s\"") LINE("t1", "\"u4\"",
                  "\"type\":\"attachment\",\"attachment\":{\"type\":\"nested_memory\",\"path\":\"/p/"
                  "CLAUDE.md\",\"content\":{\"content\":\"be kind\"}}") LINE("t2", "\"t1\"",
                  "\"type\":\"attachment\",\"attachment\":{\"type\":\"edited_text_file\",\"filename\":\"/p/f\",\"snippet\":\"12345\"}")
                  LINE("t3", "\"t2\"", "\"type\":\"attachment\",\"attachment\":{\"type\":\"todo_reminder\",\"content\":[]}") LINE("t4",
                      "\"t3\"",
                      "\"type\":\"attachment\",\"attachment\":{\"type\":\"queued_command\",\"prompt\":\"stop\",\"commandMode\":\"prompt\"}")
                      REPLY("a1", "\"t4\"", "m1", TEXT("ok"), "10", "1"));
  static const char *const bands[][2] = {{"u1", "system"}, {"u2", "system"}, {"u2#2", "user_prompt"}, {"u3", "system"}, {"u4", "skill"},
      {"t1", "memory\",\"label\":\"/p/CLAUDE.md"}, {"t2", "file_view\",\"label\":\"/p/f"}, {"t3", "task_list"}, {"t4", "user_prompt"}};
  for (unsigned i = 0; i < sizeof(bands) / sizeof(bands[0]); i++) {
    char id[64], band[64];
    snprintf(id, sizeof(id), "\"id\":\"%s\"", bands[i][0]);
    snprintf(band, sizeof(band), "\"band\":\"%s\"", bands[i][1]);
    assert_event(s, 0, "context_message", id, band);
  }
  assert_event(s, 0, "context_message", "\"id\":\"u2#2\"", "\"tokens\":1504,\"pieces\":15170,\"chars\":13,\"images\":[{}]");
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"personPrompt\":[\"u2#2\",\"t4\"]");
  assert_int_equal(scratch_count(s, "\"kind\":\"agent_start\""), 1);
}

static void results_have_exit_codes_images_and_skills(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"one\"") REPLY("a1", "\"u1\"", "m1",
          CALL("t1", "Bash", "{\"command\":\"false\"}") "," CALL("t2", "Read", "{\"file_path\":\"/i.png\"}") "," CALL(
              "t3", "Skill", "{\"skill\":\"pdf\"}"),
          "10", "1") USER("u2", "\"a1\"",
          "[" FAILURE("t1", "\"Exit code 127\\nnot found\"") "," RESULT(
              "t2", "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"b\"}]") "," RESULT("t3",
              "\"Launching\"") "]") REPLY("a2", "\"u2\"", "m2", TEXT("ok"), "10", "1"));
  assert_event(s, 0, "tool_result", "\"toolCallId\":\"t1\"", "\"isError\":true,\"exitCode\":127,\"text\":\"Exit code 127\\nnot found\"");
  assert_event(s, 0, "tool_result", "\"toolCallId\":\"t2\"", "\"text\":\"a\\nb\",\"images\":[{}]");
  assert_event(s, 0, "tool_result", "\"toolCallId\":\"t3\"", "\"input\":{\"skill\":\"pdf\"}", "\"skillLoad\":true");
  assert_event(s, 0, "context_message", "\"id\":\"t2\"", "\"tokens\":1502");
  assert_event(s, 0, "context_message", "\"id\":\"t3\"", "\"band\":\"skill\"");
}

static void a_result_is_told_once(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"one\"") REPLY("a1", "\"u1\"", "m1", CALL("t1", "Bash", "{\"command\":\"x\"}"), "10", "1")
          USER("u2", "\"a1\"", "[" RESULT("t1", "\"a\"") "]") USER("u3", "\"a1\"", "[" RESULT("t1", "\"a\"") "]")
              REPLY("a2", "\"u3\"", "m2", TEXT("ok"), "10", "1"));
  assert_int_equal(scratch_count(s, "\"kind\":\"tool_result\""), 1);
  assert_event(s, 0, "\"callId\":\"m2\"", "\"append\":[{\"id\":\"m1\"},{\"id\":\"t1\"}]");
}

static void sub_agents_have_windows_of_their_own(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"one\"") REPLY("a1", "\"u1\"", "m1", CALL("t1", "Task", "{\"prompt\":\"look\"}"), "10", "1")
          LINE("x1", "null", "\"isSidechain\":true,\"type\":\"user\",\"message\":{\"content\":\"look\"}") LINE("x2", "\"x1\"",
              "\"isSidechain\":true,\"type\":\"assistant\",\"message\":{\"id\":\"n1\",\"content\":[],\"usage\":{\"input_tokens\":7,"
              "\"output_tokens\":1}}") LINE("y1", "null",
              "\"isSidechain\":true,\"agentId\":\"q1\",\"type\":\"user\",\"message\":{\"content\":\"look again\"}") LINE("y2", "\"y1\"",
              "\"isSidechain\":true,\"agentId\":\"q1\",\"type\":\"assistant\",\"message\":{\"id\":\"n2\",\"content\":[],\"usage\":{\"input_"
              "tokens\":8,\"output_tokens\":1}}") LINE("p1", "\"a1\"",
              "\"type\":\"progress\",\"data\":{\"type\":\"agent_progress\",\"message\":{\"type\":\"assistant\",\"message\":{\"id\":\"n1\","
              "\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}}") LINE("u2", "\"p1\"",
              "\"type\":\"user\",\"toolUseResult\":{\"agentId\":\"q1\",\"totalTokens\":9},\"message\":{\"content\":[" RESULT(
                  "t1", "\"found\"") "]}") REPLY("a2", "\"u2\"", "m2", TEXT("ok"), "10", "1"));
  assert_event(s, 0, "session_start", "\"thread\":\"x1\"", "\"parentThread\":\"\"");
  assert_event(s, 0, "session_start", "\"thread\":\"q1\"", "\"parentThread\":\"\",\"spawnedBy\":\"t1\"");
  assert_int_equal(ref_totals(&s->ref, "s1", "x1").input, 7);
  assert_int_equal(ref_totals(&s->ref, "s1", "q1").input, 8);
  assert_int_equal(ref_totals(&s->ref, "s1", "").input, 20);
  assert_event(s, 0, "\"callId\":\"n1\"", "\"append\":[{\"id\":\"x1\"}]");
  assert_no_event(s, "\"callId\":\"n1\"", "personPrompt");
  assert_event(s, 0, "\"callId\":\"m2\"", "\"append\":[{\"id\":\"m1\"},{\"id\":\"t1\"}]");
}

static void a_resumed_session_forms_its_window_and_bills_only_what_is_new(void **state) {
  struct scratch *s = *state;
  import(s, USER("u1", "null", "\"one\"") REPLY("a1", "\"u1\"", "m1", TEXT("a"), "10", "1"));
  scratch_text(s, "s2.jsonl",
      USER("u1", "null", "\"one\"") REPLY("a1", "\"u1\"", "m1", TEXT("a"), "10",
          "1") "{\"parentUuid\":\"a1\",\"sessionId\":\"s2\",\"uuid\":\"v1\",\"type\":\"user\",\"message\":{\"content\":\"more\"}}\n"
               "{\"parentUuid\":\"v1\",\"sessionId\":\"s2\",\"uuid\":\"v2\",\"type\":\"assistant\",\"message\":{\"id\":\"m2\",\"content\":["
               "],\"usage\":{\"input_tokens\":15,\"output_tokens\":1}}}\n");
  assert_int_equal(scratch_import(s, "s2.jsonl"), 0);
  assert_int_equal(ref_totals(&s->ref, NULL, NULL).input, 25);
  assert_int_equal(ref_totals(&s->ref, "s2", "").input, 15);
  assert_event(s, 0, "\"session\":\"s2\"", "\"callId\":\"m2\"", "\"keep\":1,\"append\":[{\"id\":\"m1\"},{\"id\":\"v1\"}]");
}

static void lines_that_stand_there_twice_count_once(void **state) {
  struct scratch *s = *state;
#define TWICE \
  USER("u1", "null", "\"one\"") \
  REPLY("a1", "\"u1\"", "m1", CALL("t1", "Bash", "{\"command\":\"x\"}"), "10", "1") \
  USER("u2", "\"a1\"", "[" RESULT("t1", "\"a\"") "]")
  import(s, TWICE TWICE REPLY("a2", "\"u2\"", "m2", TEXT("ok"), "10", "1"));
  assert_int_equal(scratch_count(s, "\"kind\":\"prompt\""), 2);
  assert_int_equal(scratch_count(s, "\"id\":\"u1\",\"role\""), 1);
  assert_event(s, 0, "\"callId\":\"m2\"", "\"keep\":1,\"append\":[{\"id\":\"m1\"},{\"id\":\"t1\"}]");
}

static void thinking_and_calls_are_described(void **state) {
  struct scratch *s = *state;
  import(s,
      USER("u1", "null", "\"one\"") REPLY("a1", "\"u1\"", "m1",
          "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"sssss\"}," CALL(
              "t1", "Write", "{\"file_path\":\"/f\",\"content\":\"123456789\"}"),
          "10", "1"));
  assert_event(s, 0, "context_message", "\"id\":\"m1\"",
      "\"calls\":[{\"id\":\"t1\",\"name\":\"Write\",\"path\":\"/"
      "f\",\"tokens\":12,\"contentTokens\":3}],\"tokens\":13,\"pieces\":598,\"thinking\":{\"signatureUnits\":5},\"chars\":47");
}

#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_open, scratch_close)
int main(void) {
  const struct CMUnitTest tests[] = {
      SCRATCH_TEST(a_session_has_its_events_in_order),
      SCRATCH_TEST(a_response_counts_once_with_its_largest_usage),
      SCRATCH_TEST(two_responses_of_one_id_are_told_apart_by_request_and_input),
      SCRATCH_TEST(what_the_client_made_up_is_no_call),
      SCRATCH_TEST(a_call_without_usage_is_a_request_that_reports_nothing),
      SCRATCH_TEST(parallel_results_belong_to_the_request_wherever_they_hang),
      SCRATCH_TEST(a_rewind_keeps_what_stood_before_it),
      SCRATCH_TEST(a_compaction_begins_a_new_window),
      SCRATCH_TEST(a_parent_may_stand_behind_its_child_or_be_missing),
      SCRATCH_TEST(texts_have_their_bands),
      SCRATCH_TEST(results_have_exit_codes_images_and_skills),
      SCRATCH_TEST(a_result_is_told_once),
      SCRATCH_TEST(sub_agents_have_windows_of_their_own),
      SCRATCH_TEST(a_resumed_session_forms_its_window_and_bills_only_what_is_new),
      SCRATCH_TEST(lines_that_stand_there_twice_count_once),
      SCRATCH_TEST(thinking_and_calls_are_described),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
