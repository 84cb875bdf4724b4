/* What pi's session files become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "scratch.h"

#define HEADER "{\"type\":\"session\",\"version\":3,\"id\":\"p1\",\"timestamp\":\"2026-01-02T00:00:00.000Z\",\"cwd\":\"/p\"}\n"
#define ENTRY(id, parent, rest) "{\"id\":\"" id "\",\"parentId\":" parent ",\"timestamp\":\"2026-01-02T00:00:01.000Z\"," rest "}\n"
#define MESSAGE(id, parent, role, rest) ENTRY(id, parent, "\"type\":\"message\",\"message\":{\"role\":\"" role "\"," rest "}")
#define USER(id, parent, text) MESSAGE(id, parent, "user", "\"content\":\"" text "\"")
#define USAGE(in) \
  "\"usage\":{\"input\":" in ",\"output\":2,\"cacheRead\":3,\"cacheWrite\":4,\"cost\":{\"input\":0.0000015,\"output\":1e-9,\"cacheRead\":" \
  "0,\"cacheWrite\":0.25,\"total\":0.250001501}}"
#define REPLY(id, parent, content, in) \
  MESSAGE(id, parent, "assistant", "\"content\":[" content "],\"model\":\"m-" id "\"," USAGE(in) ",\"stopReason\":\"stop\"")
#define CALL(id, tool, arguments) "{\"type\":\"toolCall\",\"id\":\"" id "\",\"name\":\"" tool "\",\"arguments\":" arguments "}"

static void import(struct scratch *s, const char *text) {
  scratch_text(s, "p1.jsonl", text);
  if (scratch_import(s, "p1.jsonl") < 0) fail_msg("%s", s->err.text);
  assert_int_equal(s->result.fault_count, 0);
  assert_int_equal(s->ref.misplaced, 0);
}

#define assert_event(s, n, ...) assert_non_null(scratch_find(s, n, __VA_ARGS__, NULL))
#define assert_no_event(s, ...) assert_null(scratch_find(s, 0, __VA_ARGS__, NULL))

static void a_session_has_requests_results_and_costs(void **state) {
  struct scratch *s = *state;
  import(s,
      HEADER ENTRY("c", "null", "\"type\":\"model_change\",\"modelId\":\"m\"") USER("1", "\"c\"", "hello") REPLY("2", "\"1\"",
          CALL("t1", "read", "{\"path\":\"a.c\",\"limit\":5}") "," CALL("t2", "bash", "{\"command\":\"x\"}"), "10") MESSAGE("3", "\"2\"",
          "toolResult", "\"toolCallId\":\"t1\",\"toolName\":\"read\",\"content\":[{\"type\":\"text\",\"text\":\"line\"}],\"isError\":false")
          MESSAGE("4", "\"3\"", "toolResult",
              "\"toolCallId\":\"t2\",\"toolName\":\"bash\",\"content\":[{\"type\":\"text\",\"text\":\"no\\n\\nCommand exited with code "
              "3\"}],\"isError\":true") REPLY("5", "\"4\"", "{\"type\":\"text\",\"text\":\"ok\"}", "20"));
  assert_event(
      s, 0, "session_start", "\"agent\":\"pi\",\"session\":\"p1\",\"thread\":\"\",\"product\":\"pi\",\"cwd\":\"/p\",\"recorded\":true");
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"turn\":1",
      "\"model\":\"m-2\",\"keep\":0,\"append\":[{\"id\":\"1\"}],\"reply\":[\"2\"],\"personPrompt\":[\"1\"]",
      "\"usage\":{\"input\":10,\"cacheRead\":3,\"cacheWrite5m\":4,\"cacheWrite1h\":0,\"output\":2},\"cost\":{\"input\":0.0000015,"
      "\"cacheRead\":0,\"cacheWrite\":0.25,\"output\":0.000000001,\"total\":0.250001501}");
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"keep\":1,\"append\":[{\"id\":\"2\"},{\"id\":\"3\"},{\"id\":\"4\"}]");
  assert_event(s, 0, "tool_result", "\"tool\":\"read\",\"input\":{\"path\":\"a.c\",\"limit\":5},\"isError\":false,\"text\":\"line\"");
  assert_event(s, 0, "tool_result", "\"tool\":\"bash\",\"input\":{\"command\":\"x\"},\"isError\":true,\"exitCode\":3");
  assert_event(s, 0, "context_message", "\"id\":\"3\"", "\"band\":\"file_view\",\"label\":\"a.c\"");
}

static void a_cost_of_nothing_is_no_price(void **state) {
  struct scratch *s = *state;
  import(s,
      HEADER USER("1", "null", "hello") MESSAGE("2", "\"1\"", "assistant",
          "\"content\":[],\"usage\":{\"input\":5,\"output\":1,\"cost\":{\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,"
          "\"total\":0}}"));
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"input\":5");
  assert_no_event(s, "\"kind\":\"prompt\"", "\"cost\"");
}

static void a_reply_that_failed_is_billed_and_not_sent_again(void **state) {
  struct scratch *s = *state;
  import(s,
      HEADER USER("1", "null", "hello") MESSAGE("2", "\"1\"", "assistant", "\"content\":[]," USAGE("7") ",\"stopReason\":\"aborted\"")
          USER("3", "\"2\"", "again") REPLY("4", "\"3\"", "", "9"));
  assert_int_equal(ref_totals(&s->ref, NULL, NULL).input, 16);
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"keep\":1,\"append\":[{\"id\":\"3\"}]");
  assert_no_event(s, "context_message", "\"id\":\"2\"");
}

static void a_compaction_keeps_its_summary_and_what_it_names(void **state) {
  struct scratch *s = *state;
  import(s,
      HEADER USER("1", "null", "one") REPLY("2", "\"1\"", "", "5") USER("3", "\"2\"", "two") REPLY("4", "\"3\"", "", "6") ENTRY(
          "5", "\"4\"", "\"type\":\"compaction\",\"summary\":\"so far\",\"firstKeptEntryId\":\"3\",\"tokensBefore\":900," USAGE("50"))
          REPLY("6", "\"5\"", "", "7") REPLY("7", "\"6\"", "", "8") USER("8", "\"2\"", "back to before it") REPLY("9", "\"8\"", "", "9"));
  assert_event(s, 0, "\"kind\":\"compaction\"", "\"summaryId\":\"5\",\"before\":900");
  assert_event(s, 0, "\"model\":\"m-6\"", "\"keep\":0,\"append\":[{\"id\":\"5\"},{\"id\":\"3\"},{\"id\":\"4\"}]");
  assert_event(s, 0, "\"model\":\"m-7\"", "\"keep\":3,\"append\":[{\"id\":\"6\"}]");
  assert_event(s, 0, "\"model\":\"m-9\"", "\"keep\":0,\"append\":[{\"id\":\"1\"},{\"id\":\"2\"},{\"id\":\"8\"}]");
  /* the summary's own call is in no window */
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"thread\":\"side\"", "\"keep\":0,\"append\":[]", "\"input\":50");
  assert_int_equal(ref_totals(&s->ref, NULL, NULL).input, 5 + 6 + 7 + 8 + 9);
}

static void a_compaction_that_names_itself_keeps_nothing(void **state) {
  struct scratch *s = *state;
  import(s,
      HEADER USER("1", "null", "one") REPLY("2", "\"1\"", "", "5")
          ENTRY("3", "\"2\"", "\"type\":\"compaction\",\"summary\":\"so far\",\"firstKeptEntryId\":\"3\"") REPLY("4", "\"3\"", "", "6"));
  assert_event(s, 0, "\"model\":\"m-4\"", "\"keep\":0,\"append\":[{\"id\":\"3\"}]");
}

static void old_files_have_neither_ids_nor_parents(void **state) {
  struct scratch *s = *state;
  import(s,
      "{\"type\":\"session\",\"id\":\"old\",\"timestamp\":\"2025-01-02T00:00:00.000Z\",\"cwd\":\"/"
      "p\",\"provider\":\"x\",\"modelId\":\"m\"}\n"
      "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"one\"}}\n"
      "{\"type\":\"message\",\"message\":{\"role\":\"assistant\",\"content\":[],\"usage\":{\"input\":5}}}\n"
      "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"two\"}}\n"
      "{\"type\":\"compaction\",\"summary\":\"s\",\"firstKeptEntryIndex\":3}\n"
      "{\"type\":\"message\",\"message\":{\"role\":\"assistant\",\"content\":[],\"usage\":{\"input\":6}}}\n");
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"model\":\"m\",\"keep\":0,\"append\":[{\"id\":\"line:2\"}]");
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"append\":[{\"id\":\"line:5\"},{\"id\":\"line:4\"}]");
}

static void an_edit_of_the_context_replaces_or_drops(void **state) {
  struct scratch *s = *state;
  import(s,
      HEADER USER("1", "null", "one") USER("2", "\"1\"", "two") REPLY("3", "\"2\"", "", "5")
          ENTRY("4", "\"3\"", "\"type\":\"context_edit\",\"targetId\":\"1\",\"replacement\":null")
              ENTRY("5", "\"4\"", "\"type\":\"context_edit\",\"targetId\":\"2\",\"replacement\":{\"content\":\"shorter\"}")
                  REPLY("6", "\"5\"", "", "6") REPLY("7", "\"3\"", "", "7"));
  assert_event(s, 0, "\"model\":\"m-6\"", "\"keep\":0,\"append\":[{\"id\":\"5\"},{\"id\":\"3\"}]");
  assert_event(s, 0, "context_message", "\"id\":\"5\"", "\"tokens\":2");
  assert_event(
      s, 0, "\"model\":\"m-7\"", "\"keep\":0,\"append\":[{\"id\":\"1\"},{\"id\":\"2\"},{\"id\":\"3\"}]"); /* a branch without the edits */
}

static void what_is_sent_as_a_message_is_in_the_request(void **state) {
  struct scratch *s = *state;
  import(s,
      HEADER MESSAGE("0", "null", "system", "\"content\":\"be good\"") MESSAGE(
          "1", "\"0\"", "bashExecution", "\"command\":\"ls\",\"output\":\"a b\"") MESSAGE("2", "\"1\"", "bashExecution",
          "\"command\":\"secret\",\"output\":\"x\",\"excludeFromContext\":true") MESSAGE("3", "\"2\"", "custom", "\"content\":\"injected\"")
          ENTRY("4", "\"3\"", "\"type\":\"custom_message\",\"content\":\"more\"") ENTRY("5", "\"4\"", "\"type\":\"custom\",\"data\":{}")
              ENTRY("6", "\"5\"", "\"type\":\"branch_summary\",\"summary\":\"elsewhere\"") USER("7", "\"6\"", "go") REPLY(
                  "8", "\"7\"", "", "5") ENTRY("9", "\"8\"", "\"type\":\"usage\",\"kind\":\"cache_warm\",\"model\":\"w\"," USAGE("70")));
  assert_event(s, 0, "\"model\":\"m-8\"",
      "\"append\":[{\"id\":\"0\"},{\"id\":\"1\"},{\"id\":\"3\"},{\"id\":\"4\"},{\"id\":\"6\"},{\"id\":\"7\"}]", "\"personPrompt\":[\"7\"]");
  assert_event(s, 0, "context_message", "\"id\":\"0\"", "\"role\":\"system\",\"band\":\"system\"");
  assert_event(s, 0, "context_message", "\"id\":\"1\"", "\"band\":\"tool_output\",\"tool\":\"!bash\"");
  assert_event(s, 0, "\"thread\":\"side\"", "\"model\":\"w\"", "\"input\":70");
}

static void a_fork_bills_what_it_copied_once(void **state) {
  struct scratch *s = *state;
  import(s, HEADER USER("1", "null", "one") REPLY("2", "\"1\"", "", "5"));
  scratch_text(s, "p2.jsonl",
      "{\"type\":\"session\",\"version\":3,\"id\":\"p2\",\"timestamp\":\"2026-01-03T00:00:00.000Z\",\"cwd\":\"/"
      "p\",\"parentSession\":\"p1.jsonl\"}\n" USER("1", "null", "one") REPLY("2", "\"1\"", "", "5") USER("3", "\"2\"", "two")
          REPLY("4", "\"3\"", "", "6"));
  assert_int_equal(scratch_import(s, "p2.jsonl"), 0);
  assert_int_equal(ref_totals(&s->ref, NULL, NULL).input, 11);
  assert_int_equal(ref_totals(&s->ref, "p2", NULL).input, 6);
}

static void a_run_beside_its_session_is_a_thread_of_it(void **state) {
  struct scratch *s = *state;
  scratch_text(s, "2026_p1.jsonl", HEADER USER("1", "null", "one") REPLY("2", "\"1\"", "", "5"));
  scratch_text(s, "2026_p1/helper/run-0/session.jsonl",
      "{\"type\":\"session\",\"version\":3,\"id\":\"zz\",\"timestamp\":\"2026-01-03T00:00:00.000Z\",\"cwd\":\"/p\"}\n" USER(
          "1", "null", "look") REPLY("2", "\"1\"", "", "6"));
  assert_int_equal(scratch_import(s, "2026_p1.jsonl"), 0);
  assert_int_equal(s->result.files, 2);
  assert_int_equal(s->result.sessions, 1);
  assert_int_equal(ref_totals(&s->ref, "p1", "helper/run-0").input, 6);
  assert_event(s, 0, "session_start", "\"thread\":\"helper/run-0\"", "\"parentThread\":\"\"");
  assert_no_event(s, "\"thread\":\"helper/run-0\"", "personPrompt");
}

#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_open, scratch_close)
int main(void) {
  const struct CMUnitTest tests[] = {
      SCRATCH_TEST(a_session_has_requests_results_and_costs),
      SCRATCH_TEST(a_cost_of_nothing_is_no_price),
      SCRATCH_TEST(a_reply_that_failed_is_billed_and_not_sent_again),
      SCRATCH_TEST(a_compaction_keeps_its_summary_and_what_it_names),
      SCRATCH_TEST(a_compaction_that_names_itself_keeps_nothing),
      SCRATCH_TEST(old_files_have_neither_ids_nor_parents),
      SCRATCH_TEST(an_edit_of_the_context_replaces_or_drops),
      SCRATCH_TEST(what_is_sent_as_a_message_is_in_the_request),
      SCRATCH_TEST(a_fork_bills_what_it_copied_once),
      SCRATCH_TEST(a_run_beside_its_session_is_a_thread_of_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
