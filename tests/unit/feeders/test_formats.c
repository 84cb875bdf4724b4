/* What the records of Codex, Gemini CLI, gg, opencode and `pi --mode json` become, told by the files of the fuzz corpus, which show each of
 * their features once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "feeders/script.h"
#include "scratch.h"

static const char *corpus;

static void import(struct scratch *s, const char *name, const char *as) {
  char path[4096];
  ctxp_auto_buf text = {0};
  snprintf(path, sizeof(path), "%s/%s", corpus, name);
  ctxp_auto_fclose FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s cannot be opened", path);
  for (size_t n = 1; n > 0; text.len += n) n = fread(ctxp_buf_room(&text, 65536), 1, 65536, file);
  scratch_write(s, as, (const char *)text.ptr, text.len);
  if (scratch_import(s, as) < 0) fail_msg("%s", s->err.text);
  if (s->result.fault_count) fail_msg("%s", ctxp_buf_cstr(&s->result.faults));
  assert_int_equal(s->ref.misplaced, 0);
}

static void assert_sum(struct scratch *s, uint64_t calls, uint64_t input, uint64_t read, uint64_t write, uint64_t output) {
  struct ref_sum sum = ref_totals(&s->ref, NULL, NULL);
  assert_int_equal(sum.calls, calls);
  assert_int_equal(sum.input, input);
  assert_int_equal(sum.read, read);
  assert_int_equal(sum.write, write);
  assert_int_equal(sum.output, output);
}

#define assert_event(s, n, ...) assert_non_null(scratch_find(s, n, __VA_ARGS__, NULL))

static void codex_rollouts_have_calls_views_and_results(void **state) {
  struct scratch *s = *state;
  import(s, "codex", "rollout.jsonl");
  assert_sum(s, 4, 90 + 110 + 49 + 10, 10 + 90 + 1 + 0, 0, 5 + 10 + 1 + 1); /* the count that is told twice counts once */
  assert_event(s, 0, "session_start", "\"session\":\"c1\"", "\"product\":\"codex\",\"cwd\":\"/x\",\"branch\":\"main\"");
  assert_event(s, 0, "tool_result", "\"tool\":\"shell\"",
      "\"input\":{\"command\":\"cd /x && sed -n '1,9p' a.c | head\"},\"isError\":true,\"exitCode\":1", "\"text\":\"int x;\\n\"");
  assert_event(s, 0, "context_message", "\"band\":\"file_view\",\"label\":\"a.c\"");
  assert_event(s, 0, "context_message", "\"band\":\"memory\"");
  assert_event(s, 0, "\"kind\":\"prompt\"",
      "\"model\":\"gpt-5\",\"keep\":0,\"append\":[{\"id\":\"line:1\"},{\"id\":\"line:3\"},{\"id\":\"line:4\"},{\"id\":\"line:5\"}]");
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"keep\":4,\"append\":[{\"id\":\"line:7\"},{\"id\":\"line:8\"},{\"id\":\"line:11\"}");
  assert_event(
      s, 0, "\"kind\":\"prompt\"", "\"keep\":3,\"append\":[{\"id\":\"line:18\"}]"); /* the person's message before was rolled back */
  assert_int_equal(scratch_count(s, "\"kind\":\"compaction\""), 2);
}

static void a_fork_of_a_rollout_bills_what_it_copied_once(void **state) {
  struct scratch *s = *state;
#define LINE(at, type, payload) "{\"timestamp\":\"2026-01-02T00:00:0" at ".000Z\",\"type\":\"" type "\",\"payload\":" payload "}\n"
#define ITEM(at, role, text) \
  LINE(at, "response_item", "{\"type\":\"message\",\"role\":\"" role "\",\"content\":[{\"type\":\"input_text\",\"text\":\"" text "\"}]}")
#define COUNT(at, in, out) \
  LINE(at, "event_msg", "{\"type\":\"token_count\",\"info\":{\"total_token_usage\":{\"input_tokens\":" in ",\"output_tokens\":" out "}}}")
  scratch_text(s, "a.jsonl",
      LINE("1", "session_meta", "{\"id\":\"a\"}") ITEM("2", "user", "hi") ITEM("3", "assistant", "yes") COUNT("4", "10", "1"));
  scratch_text(s, "b.jsonl",
      LINE("5", "session_meta", "{\"id\":\"b\",\"forked_from_id\":\"a\"}") LINE("5", "session_meta", "{\"id\":\"a\"}")
          ITEM("5", "user", "hi") ITEM("5", "assistant", "yes") COUNT("5", "10", "1") ITEM("6", "user", "more") ITEM("6", "assistant", "no")
              COUNT("7", "30", "3"));
  scratch_text(s, "c.jsonl",
      LINE("1", "session_meta", "{\"id\":\"c\"}") ITEM("2", "user", "hi") ITEM("3", "assistant", "yes") COUNT("4", "10", "1"));
  assert_int_equal(scratch_import(s, "a.jsonl"), 0);
  assert_int_equal(scratch_import(s, "b.jsonl"), 0);
  assert_sum(s, 2, 30, 0, 0, 3);
  assert_int_equal(scratch_import(s, "c.jsonl"), 0); /* another session with the same figures and texts */
  assert_sum(s, 3, 40, 0, 0, 4);
}

static void gemini_messages_that_come_twice_count_once(void **state) {
  static const char *const names[] = {"gemini-lines", "gemini", "gemini-compact"};
  struct scratch *s = *state;
  for (unsigned i = 0; i < 3; i++) {
    ref_deinit(&s->ref);
    ref_init(&s->ref, &s->sink);
    scratch_watch(s);
    import(s, names[i], i ? "session-1.json" : "session-1.jsonl");
    assert_sum(s, 2, 60, 50, 0, 10);
    assert_event(s, 0, "\"kind\":\"prompt\"", "\"reasoning\":7,\"reasoningApart\":true");
    assert_event(s, 0, "\"kind\":\"prompt\"", "\"keep\":1,\"append\":[{\"id\":\"g1\"},{\"id\":\"t1\"},{\"id\":\"t2\"}]");
    assert_event(s, 0, "tool_result", "\"tool\":\"read_file\",\"input\":{\"path\":\"a.c\"},\"isError\":false,\"text\":\"int x;\"");
    assert_event(s, 0, "tool_result", "\"tool\":\"run_shell_command\",\"input\":{\"command\":\"ls\"},\"isError\":true,\"text\":\"no\"");
    assert_event(s, 0, "context_message", "\"id\":\"t1\"", "\"band\":\"file_view\",\"label\":\"a.c\"");
    assert_event(s, 0, "session_start", "\"session\":\"s1\"", "\"product\":\"gemini-cli\"");
  }
}

static void opencode_exports_have_their_own_cost(void **state) {
  struct scratch *s = *state;
  import(s, "opencode", "export.json");
  assert_sum(s, 2, 4, 20, 40, 150);
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"model\":\"claude-sonnet-5\"", "\"cost\":{\"total\":0.031404}");
  assert_event(s, 0, "tool_result", "\"tool\":\"read\"", "\"isError\":false,\"text\":\"int x;\"");
  assert_event(s, 0, "tool_result", "\"tool\":\"bash\",\"input\":{\"command\":\"ls\"},\"isError\":true,\"text\":\"no\"");
  assert_event(s, 0, "context_message", "\"id\":\"k1\"", "\"band\":\"file_view\",\"label\":\"/x/a.c\"");
  assert_event(s, 0, "\"kind\":\"compaction\",", "\"summaryId\":\"m3\"");
  assert_int_equal(scratch_count(s, "\"kind\":\"tool_result\""), 2); /* one was still running */
}

static void gg_streams_have_a_window_for_each_agent(void **state) {
  struct scratch *s = *state;
  import(s, "gg", "stream.jsonl");
  assert_sum(s, 3, 107, 0, 0, 3);
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"thread\":\"\"",
      "\"append\":[{\"id\":\"call\",\"band\":\"assistant\"},{\"id\":\"out\",\"band\":\"file_view\"},{\"id\":\"gone\"},{\"id\":\"out\","
      "\"band\":\"file_view\"}]");
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"thread\":\"w1\"", "\"model\":\"v/m\"", "\"append\":[{\"id\":\"out\"}]");
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"keep\":0,\"append\":[{\"id\":\"call\",\"band\":\"history\"}]");
  assert_event(s, 0, "session_start", "\"thread\":\"w1\"", "\"parentThread\":\"root\"");
}

static void a_gg_stream_without_prompts_has_its_usage(void **state) {
  struct scratch *s = *state;
  import(s, "gg-usage", "stream.jsonl");
  assert_sum(s, 1, 1200, 4, 0, 180);
}

#define GG(ts, type, rest) LINE_OF_GG "\"timestamp\":\"2026-01-02T00:00:0" ts "Z\",\"type\":\"" type "\"," rest "}\n"
#define LINE_OF_GG "{\"sessionId\":\"g1\",\"agentId\":\"root\","

static void a_gg_stream_that_is_still_written_counts_a_request_once(void **state) {
  struct scratch *s = *state;
  ctxp_auto_buf text = {0};
  ctxp_buf_str(&text,
      GG("1", "agent_spawned", "\"modelId\":\"v/m\"")
          GG("2", "context_message", "\"id\":\"a\",\"role\":\"user\",\"content\":\"hi\",\"tokens\":4")
              GG("3", "usage", "\"tokens\":{\"uncachedInput\":100,\"output\":2}"));
  scratch_text(s, "stream.jsonl", ctxp_buf_cstr(&text));
  assert_int_equal(scratch_import(s, "stream.jsonl"), 0);
  ctxp_buf_str(
      &text, GG("4", "prompt", "\"request\":[{\"id\":\"a\",\"source\":\"user_prompt\"}],\"tokens\":{\"uncachedInput\":100,\"output\":2}"));
  scratch_text(s, "stream.jsonl", ctxp_buf_cstr(&text));
  assert_int_equal(scratch_import(s, "stream.jsonl"), 0);
  assert_sum(s, 1, 100, 0, 0, 2);
}

static void a_stream_of_pi_is_read_as_its_session(void **state) {
  struct scratch *s = *state;
  import(s, "pi-stream", "stream.jsonl");
  assert_sum(s, 2, 17, 3, 0, 3);
  assert_event(s, 0, "tool_result", "\"tool\":\"bash\",\"input\":{\"command\":\"ls\"}", "\"text\":\"a b\"");
  assert_event(s, 0, "\"kind\":\"prompt\"", "\"keep\":0,\"append\":[{\"id\":\"line:11\"}]"); /* the summary alone */
  assert_event(s, 0, "\"ts\":\"2026-01-02T00:00:00.000Z\"", "\"kind\":\"prompt\"");
}

static void a_file_goes_on_where_a_shorter_version_of_it_ended(void **state) {
  static const char *const names[] = {"codex", "gemini-lines", "gg", "pi-stream"};
  struct scratch *s = *state;
  for (unsigned i = 0; i < 4; i++) {
    char path[4096];
    ctxp_auto_buf text = {0};
    snprintf(path, sizeof(path), "%s/%s", corpus, names[i]);
    ctxp_auto_fclose FILE *file = fopen(path, "r");
    for (size_t n = 1; n > 0; text.len += n) n = fread(ctxp_buf_room(&text, 65536), 1, 65536, file);
    import(s, names[i], "whole.jsonl");
    struct ref_sum all = ref_totals(&s->ref, NULL, NULL);
    for (size_t cut = 1; cut < text.len; cut += 1 + cut % 89) {
      ref_deinit(&s->ref);
      ref_init(&s->ref, &s->sink);
      scratch_watch(s);
      scratch_write(s, "whole.jsonl", (const char *)text.ptr, cut);
      assert_int_equal(scratch_import(s, "whole.jsonl"), 0);
      scratch_write(s, "whole.jsonl", (const char *)text.ptr, text.len);
      assert_int_equal(scratch_import(s, "whole.jsonl"), 0);
      struct ref_sum both = ref_totals(&s->ref, NULL, NULL);
      if (memcmp(&both, &all, sizeof(all)) != 0) fail_msg("%s: %zu bytes, then all: other figures", names[i], cut);
      assert_int_equal(s->ref.misplaced, 0);
      assert_int_equal(scratch_import(s, "whole.jsonl"), 0);
      if (s->result.events) puts(ctxp_buf_cstr(&s->log));
      if (s->result.events)
        fail_msg("%s: %zu bytes, then all, then again: %llu events", names[i], cut, (unsigned long long)s->result.events);
    }
    ref_deinit(&s->ref);
    ref_init(&s->ref, &s->sink);
  }
}

static void a_script_that_reads_one_file_is_a_view_of_it(void **state) {
  (void)state;
  static const char *const scripts[][2] = {{"cat a.c", "a.c"}, {"cd /x && sed -n '1,80p' src/a.c", "src/a.c"},
      {"nl -ba 'a b.c' | sed -n '1,5p'", "a b.c"}, {"head -n 5 a.c; tail -n 5 a.c", "a.c"}, {"cat a.c b.c", ""}, {"head a.c; cat b.c", ""},
      {"cat a.c > b.c", ""}, {"cat $(ls)", ""}, {"sed -i 's/a/b/' a.c", ""}, {"grep x a.c", ""}, {"cat a.c | grep x", ""}, {"cat", ""},
      {"", ""}, {"cd /x", ""}, {"cat \"a", ""}, {"cat ''", ""}};
  for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
    ctxp_auto_buf scratch = {0};
    struct ctxp_str file = ctxp_script_reads((struct ctxp_str){scripts[i][0], strlen(scripts[i][0])}, &scratch);
    if (file.len != strlen(scripts[i][1]) || (file.len && memcmp(file.ptr, scripts[i][1], file.len) != 0))
      fail_msg("'%s' reads '%.*s'", scripts[i][0], (int)file.len, file.len ? file.ptr : "");
  }
}

#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_open, scratch_close)
int main(int argc, char **argv) {
  corpus = argc > 1 ? argv[1] : "tests/fuzz/corpus/transcript";
  const struct CMUnitTest tests[] = {
      SCRATCH_TEST(codex_rollouts_have_calls_views_and_results),
      SCRATCH_TEST(a_fork_of_a_rollout_bills_what_it_copied_once),
      SCRATCH_TEST(gemini_messages_that_come_twice_count_once),
      SCRATCH_TEST(opencode_exports_have_their_own_cost),
      SCRATCH_TEST(gg_streams_have_a_window_for_each_agent),
      SCRATCH_TEST(a_gg_stream_without_prompts_has_its_usage),
      SCRATCH_TEST(a_gg_stream_that_is_still_written_counts_a_request_once),
      SCRATCH_TEST(a_stream_of_pi_is_read_as_its_session),
      SCRATCH_TEST(a_file_goes_on_where_a_shorter_version_of_it_ended),
      cmocka_unit_test(a_script_that_reads_one_file_is_a_view_of_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
