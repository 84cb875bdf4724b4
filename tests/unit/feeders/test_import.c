/* Files, folders, faults, and what importing again does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "codec/json.h"
#include "scratch.h"

#define HEAD "\"sessionId\":\"s1\",\"timestamp\":\"2026-01-02T00:00:00.000Z\""
#define USER(uuid, parent, text) \
  "{\"parentUuid\":" parent "," HEAD ",\"type\":\"user\",\"uuid\":\"" uuid "\",\"message\":{\"role\":\"user\",\"content\":\"" text "\"}}" \
  "\n"
#define REPLY(uuid, parent, id, block, in, out) \
  "{\"parentUuid\":\"" parent "\"," HEAD ",\"type\":\"assistant\",\"uuid\":\"" uuid "\",\"requestId\":\"r" id \
  "\",\"message\":{\"id\":\"" id "\",\"model\":\"m\",\"content\":[" block "],\"usage\":{\"input_tokens\":" in ",\"output_tokens\":" out \
  "}}}\n"
#define TEXT(t) "{\"type\":\"text\",\"text\":\"" t "\"}"
#define CALL(id, tool, input) "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"" tool "\",\"input\":" input "}"
#define RESULT(uuid, parent, id, text) \
  "{\"parentUuid\":\"" parent "\"," HEAD ",\"type\":\"user\",\"uuid\":\"" uuid \
  "\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"" id "\",\"content\":\"" text "\"}]}}\n"

/* two prompts of a person, four calls, one streamed in three lines with a growing usage, parallel calls, a rewind */
static const char session[] = USER("u1", "null", "please look") REPLY("a1", "u1", "m1", TEXT("I look"), "10", "1")
    REPLY("a2", "a1", "m1", CALL("t1", "Bash", "{\"command\":\"ls\"}"), "10", "4")
        REPLY("a3", "a2", "m1", CALL("t2", "Read", "{\"file_path\":\"/x/y.c\"}"), "10", "30") RESULT("u2", "a2", "t1", "a b c")
            RESULT("u3", "a3", "t2", "int x;") REPLY("a4", "u3", "m2", TEXT("seen"), "25", "5") USER("u4", "\"a4\"", "bad idea")
                REPLY("a5", "u4", "m3", TEXT("hm"), "30", "6") USER("u5", "\"a4\"", "better idea")
                    REPLY("a6", "u5", "m4", TEXT("yes"), "31", "7");

static void a_file_that_is_imported_again_sends_nothing(void **state) {
  struct scratch *s = *state;
  scratch_text(s, "s1.jsonl", session);
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  assert_true(s->result.events > 20);
  assert_int_equal(s->result.files, 1);
  assert_int_equal(s->result.sessions, 1);
  assert_int_equal(s->result.lines, 11);
  assert_int_equal(s->result.fault_count, 0);
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  assert_int_equal(s->result.events, 0);
}

/* 600 bytes: `c` and its followers */
static const char *long_text(char c) {
  static char text[2][601];
  char *room = text[c == 'a'];
  for (size_t i = 0; i < 600; i++) room[i] = (char)(c + i % 7);
  return room;
}

static void texts_that_nobody_digests_are_left_out_on_demand(void **state) {
  struct scratch *s = *state;
  ctxp_auto_buf file = {0};
  ctxp_buf_str(&file, USER("u1", "null", "look") REPLY("a1", "u1", "m1", CALL("t1", "Bash", "{\"command\":\"ls\"}"), "10", "4"));
  ctxp_buf_str(&file, REPLY("a2", "a1", "m1", CALL("t2", "Read", "{\"file_path\":\"/x/y.c\"}"), "10", "30"));
  ctxp_buf_printf(&file, RESULT("u2", "a1", "t1", "%s"), long_text('a'));
  ctxp_buf_printf(&file, RESULT("u3", "a2", "t2", "%s"), long_text('k'));
  scratch_text(s, "s1.jsonl", ctxp_buf_cstr(&file));
  s->bare = true;
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  assert_non_null(scratch_find(s, 0, "\"tool_result\"", "\"t1\"", long_text('a'), NULL));
  assert_int_equal(scratch_count(s, long_text('k')), 0);
  const char *bare = scratch_find(s, 0, "\"tool_result\"", "\"t2\"", "\"text\":\"\"", "\"textUnits\":600", "\"textLines\":1", NULL);
  assert_non_null(bare);
  assert_non_null(strstr(bare, "\"textHash\":\""));
}

static struct ref_sum whole(struct scratch *s) {
  scratch_text(s, "s1.jsonl", session);
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  return ref_totals(&s->ref, NULL, NULL);
}

static void start_over(struct scratch *s) {
  struct ref old = s->ref;
  ref_deinit(&s->ref);
  ref_init(&s->ref, &s->sink);
  s->ref.watch = old.watch;
  s->ref.watch_data = old.watch_data;
}

static void assert_same_sum(struct ref_sum a, struct ref_sum b) {
  assert_int_equal(a.calls, b.calls);
  assert_int_equal(a.input, b.input);
  assert_int_equal(a.output, b.output);
}

static void a_file_that_has_grown_goes_on_where_it_ended(void **state) {
  struct scratch *s = *state;
  struct ref_sum all = whole(s);
  assert_int_equal(all.calls, 4);
  assert_int_equal(all.input, 10 + 25 + 30 + 31);
  assert_int_equal(all.output, 30 + 5 + 6 + 7);
  for (size_t cut = 1; cut < sizeof(session) - 1; cut += cut % 7 + 1) { /* within lines too */
    start_over(s);
    scratch_write(s, "s1.jsonl", session, cut);
    assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
    scratch_text(s, "s1.jsonl", session);
    assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
    assert_int_equal(s->ref.misplaced, 0);
    assert_same_sum(ref_totals(&s->ref, NULL, NULL), all);
    const struct ref_window *w = s->ref.windows[0];
    assert_int_equal(w->turn_ends, w->turns);
    assert_int_equal(w->agents, 3);
    assert_int_equal(w->agent_ends, 3);
    assert_int_equal(w->results, 2);
    assert_int_equal(w->starts, w->ends);
    assert_true(w->count == 6); /* please look, m1, two results, seen, better idea */
  }
}

static void an_import_that_died_anywhere_is_finished_by_the_next(void **state) {
  struct scratch *s = *state;
  struct ref_sum all = whole(s);
  uint64_t events = s->result.events;
  for (uint64_t n = 1; n < events; n++) {
    start_over(s);
    s->ref.stop_after = n;
    assert_int_equal(scratch_import(s, "s1.jsonl"), -ECANCELED);
    assert_string_equal(s->err.text, "stopped");
    s->ref.stop_after = 0;
    assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
    /* where it died between the lines of a response, that one's usage is told again, which changes nothing */
    assert_int_equal(s->ref.events - scratch_count(s, "\"keep\":1,\"append\":[],\"reply\":[\"m1\"]"), events);
    assert_int_equal(s->ref.windows[0]->turns, 4);
    assert_same_sum(ref_totals(&s->ref, NULL, NULL), all);
  }
}

static bool remarked(struct scratch *s, const char *text) { return strstr(ctxp_buf_cstr(&s->result.remarks), text) != NULL; }

static void a_file_that_was_rewritten_in_place_is_read_anew(void **state) {
  struct scratch *s = *state;
  ctxp_auto_buf other = {0};
  struct ref_sum all = whole(s);
  ctxp_buf_str(&other, session);
  char *line = strstr((char *)(uintptr_t)ctxp_buf_cstr(&other), "\"id\":\"m3\"");
  assert_non_null(line);
  line[7] = '9'; /* another response, of the same length */
  scratch_write(s, "s1.jsonl", (const char *)other.ptr, other.len);
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  assert_true(remarked(s, "s1.jsonl: differs from what was read of this session before; what both have counts once\n"));
  assert_int_equal(s->result.fault_count, 0);
  struct ref_sum both = ref_totals(&s->ref, NULL, NULL);
  assert_int_equal(both.calls, all.calls + 1);
  assert_int_equal(both.input, all.input + 30);
  assert_int_equal(both.output, all.output + 6);
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  assert_int_equal(s->result.events, 0);
  assert_false(remarked(s, "differs"));
}

static int count_settled(void *data, struct ctxp_error *err) {
  (void)err;
  struct ref *ref = data;
  assert_int_equal(ref->at, 1); /* the second file is being sent */
  assert_int_equal(ref->last_seq == 0, false);
  ref->settled++;
  return 0;
}

static void files_that_tell_of_the_same_call_arrive_one_after_the_other(void **state) {
  struct scratch *s = *state;
  ctxp_auto_buf resumed = {0};
  for (const char *at = session, *next; (next = strstr(at, "\"sessionId\":\"s1\"")); at = next + 16) {
    ctxp_buf_add(&resumed, at, (size_t)(next - at));
    ctxp_buf_str(&resumed, "\"sessionId\":\"s2\"");
  }
  ctxp_buf_str(&resumed, strrchr(session, ',')); /* the last line's end */
  scratch_text(s, "t/s1.jsonl", session);
  scratch_write(s, "t/s2.jsonl", (const char *)resumed.ptr, resumed.len);
  scratch_text(s, "t/s3.jsonl", USER("z1", "null", "other") REPLY("z2", "z1", "z3", TEXT("x"), "1", "1"));
  s->sink.settle = count_settled;
  assert_int_equal(scratch_import(s, "t"), 0);
  assert_int_equal(s->ref.settled, 1);
}

#define ON_ONE USER("w1", "\"a6\"", "at home") REPLY("w2", "w1", "n1", TEXT("home"), "40", "1")
#define ON_TWO USER("v1", "\"a6\"", "at the office") REPLY("v2", "v1", "n2", TEXT("office"), "41", "2")

static void two_ends_of_one_session_are_both_counted_and_their_beginning_once(void **state) {
  struct scratch *s = *state;
  struct ref_sum all = whole(s);
  for (unsigned round = 0; round < 3; round++) {
    ctxp_auto_buf one = {0}, two = {0};
    ctxp_buf_str(&one, session);
    ctxp_buf_str(&one, ON_ONE);
    ctxp_buf_str(&two, session);
    ctxp_buf_str(&two, ON_TWO);
    if (round == 2) ctxp_buf_str(&two, REPLY("v3", "v2", "n3", TEXT("more"), "50", "3"));
    scratch_write(s, "home/s1.jsonl", (const char *)one.ptr, one.len);
    scratch_write(s, "office/s1.jsonl", (const char *)two.ptr, two.len);
    assert_int_equal(scratch_import(s, "home"), 0);
    assert_int_equal(s->result.events == 0, round > 0);
    assert_int_equal(scratch_import(s, "office"), 0);
    assert_int_equal(remarked(s, "office/s1.jsonl: differs"), round == 0);
    assert_int_equal(s->result.events == 0, round == 1);
  }
  struct ref_sum both = ref_totals(&s->ref, NULL, NULL);
  assert_int_equal(both.calls, all.calls + 3);
  assert_int_equal(both.input, all.input + 40 + 41 + 50);
  assert_int_equal(both.output, all.output + 1 + 2 + 3);
  assert_int_equal(s->ref.misplaced, 0);
}

static void a_file_that_shrank_is_named_and_goes_on_from_there(void **state) {
  struct scratch *s = *state;
  struct ref_sum all = whole(s);
  ctxp_auto_buf text = {0};
  const char *cut = strstr(session, "{\"parentUuid\":\"u3\"");
  ctxp_buf_add(&text, session, (size_t)(cut - session));
  scratch_write(s, "s1.jsonl", (const char *)text.ptr, text.len);
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  assert_true(remarked(s, "s1.jsonl: is shorter than what was read of this session before; what both have counts once\n"));
  assert_same_sum(ref_totals(&s->ref, NULL, NULL), all);
  ctxp_buf_str(&text, REPLY("b4", "u3", "m9", TEXT("anew"), "70", "8"));
  scratch_write(s, "s1.jsonl", (const char *)text.ptr, text.len);
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  assert_int_equal(s->result.remarks.len, 0);
  struct ref_sum more = ref_totals(&s->ref, NULL, NULL);
  assert_int_equal(more.calls, all.calls + 1);
  assert_int_equal(more.input, all.input + 70);
}

static void a_session_with_ever_new_contents_is_given_up_by_name(void **state) {
  struct scratch *s = *state;
  for (unsigned i = 0; i <= 64; i++) {
    char text[1024];
    snprintf(text, sizeof(text), USER("u1", "null", "version %u"), i);
    scratch_text(s, "s1.jsonl", text);
    assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
    assert_int_equal(s->result.fault_count, i == 64);
  }
  assert_true(scratch_said(s, "s1.jsonl: its session was read with other contents 64 times before; this one was not read\n"));
}

static void a_stop_ends_the_import(void **state) {
  struct scratch *s = *state;
  int stop = 1;
  const char *path = scratch_path(s, "s1.jsonl");
  const struct ctxp_import_options options = {.paths = &path, .path_count = 1, .stop = &stop};
  scratch_text(s, "s1.jsonl", session);
  assert_int_equal(ctxp_import_files(&options, &s->sink, &s->result, &s->err), -EINTR);
  assert_int_equal(s->ref.events, 0);
}

static void bad_lines_are_told_and_good_ones_counted(void **state) {
  struct scratch *s = *state;
  static const char dirty[] = "\xef\xbb\xbf" USER(
      "u1", "null", "say \\ud83d \xff and \\u0000 nothing") "\r\n   \n"
                                                            "not json at all\n"
                                                            "[1,2]\n"
                                                            "{\"type\":\"user\",\"uuid\":\"u9\",\n" REPLY("a1", "u1", "m1", TEXT("ok"),
                                                                "10", "2") "{\"type\":\"assistant\",\"message\":{\"id\":\"m2\",\"usa";
  scratch_write(s, "s1.jsonl", dirty, sizeof(dirty) - 1);
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  assert_int_equal(ref_totals(&s->ref, NULL, NULL).input, 10);
  assert_int_equal(s->result.fault_count, 4);
  assert_true(scratch_said(s, "s1.jsonl:4: not JSON at byte 1: a value should stand there; the line was passed over\n"));
  assert_true(scratch_said(s, "s1.jsonl:5: the line is no JSON object; the line was passed over\n"));
  assert_true(scratch_said(s, "s1.jsonl:6: the JSON text ends too early, a key is missing; the line was passed over\n"));
  assert_true(
      scratch_said(s, "s1.jsonl:8: the file ends within this line (the JSON text ends within a string); the line was passed over\n"));
  /* "say ? ? and ? nothing": 21 units, which is 6 tokens */
  assert_non_null(scratch_find(s, 0, "context_message", "\"band\":\"user_prompt\"", "\"tokens\":6,\"pieces\":194,\"chars\":21", NULL));
  ctxp_auto_buf passed = {0};
  assert_int_equal(ctxp_json_from_raw(ctxp_buf_raw(&s->result.passed_over), &passed), 0);
  assert_non_null(strstr(ctxp_buf_cstr(&passed), "\"kind\":\"unreadable line\",\"count\":4}"));
}

static void many_bad_lines_are_told_in_few_sentences(void **state) {
  struct scratch *s = *state;
  ctxp_auto_buf text = {0};
  ctxp_buf_str(&text, USER("u1", "null", "x"));
  for (int i = 0; i < 100; i++) ctxp_buf_str(&text, "garbage\n");
  scratch_write(s, "s1.jsonl", (const char *)text.ptr, text.len);
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  assert_int_equal(s->result.fault_count, 6);
  assert_true(scratch_said(s, "s1.jsonl: 95 more lines could not be read and were passed over\n"));
}

static void an_over_long_line_is_passed_over(void **state) {
  struct scratch *s = *state;
  ctxp_auto_buf text = {0};
  ctxp_buf_str(&text, USER("u1", "null", "x"));
  ctxp_buf_str(&text, "{\"type\":\"user\",\"uuid\":\"u2\",\"pad\":\"");
  size_t pad = (size_t)65 << 20;
  memset(ctxp_buf_room(&text, pad), 'x', pad);
  text.len += pad;
  ctxp_buf_str(&text, "\"}\n" REPLY("a1", "u1", "m1", TEXT("ok"), "10", "2"));
  scratch_write(s, "s1.jsonl", (const char *)text.ptr, text.len);
  assert_int_equal(scratch_import(s, "s1.jsonl"), 0);
  assert_true(scratch_said(s, "s1.jsonl:2: the line has 68157477 bytes, more than 67108864; the line was passed over\n"));
  assert_int_equal(ref_totals(&s->ref, NULL, NULL).calls, 1);
}

static void what_cannot_be_read_is_told_and_the_rest_is_read(void **state) {
  struct scratch *s = *state;
  scratch_text(s, "tree/a/s1.jsonl", session);
  scratch_text(s, "tree/a/empty.jsonl", "");
  scratch_text(s, "tree/a/other.jsonl", "{\"hello\":1}\n");
  scratch_text(s, "tree/a/notes.txt", "no transcript");
  scratch_text(s, "tree/locked/s2.jsonl", session);
  assert_int_equal(symlink("..", scratch_path(s, "tree/a/loop")), 0);
  assert_int_equal(symlink("s1.jsonl", scratch_path(s, "tree/a/twin.jsonl")), 0);
  assert_int_equal(symlink("self.jsonl", scratch_path(s, "tree/a/self.jsonl")), 0);
  chmod(scratch_path(s, "tree/locked"), 0);
  bool root = access(scratch_path(s, "tree/locked"), R_OK) == 0;
  assert_int_equal(scratch_import(s, "tree"), 0);
  assert_true(scratch_said(s, "tree/a/empty.jsonl: is empty\n"));
  assert_true(scratch_said(s, "tree/a/self.jsonl: is a link that leads nowhere\n"));
  assert_true(root || scratch_said(s, "tree/locked: the folder cannot be read: Permission denied\n"));
  assert_int_equal(s->result.files, root ? 2 : 1);
  assert_int_equal(ref_totals(&s->ref, NULL, NULL).calls, 4);
  ctxp_auto_buf passed = {0};
  assert_int_equal(ctxp_json_from_raw(ctxp_buf_raw(&s->result.passed_over), &passed), 0);
  assert_non_null(strstr(ctxp_buf_cstr(&passed), "\"kind\":\"file of an unknown format\",\"count\":1}"));
}

static void a_named_file_that_is_nothing_is_told(void **state) {
  struct scratch *s = *state;
  scratch_text(s, "plain.txt", "hello\n");
  assert_int_equal(scratch_import(s, "plain.txt"), 0);
  assert_true(
      scratch_said(s, "plain.txt: is no transcript of a format that is known (claude-code, codex, gemini-cli, gg, opencode, pi)\n"));
  assert_int_equal(scratch_import(s, "absent.jsonl"), 0);
  assert_true(scratch_said(s, "absent.jsonl: No such file or directory\n"));
  const struct ctxp_import_options options = {.format = "word"};
  ctxp_import_result_deinit(&s->result);
  assert_int_equal(ctxp_import_files(&options, &s->sink, &s->result, &s->err), -EINVAL);
  assert_string_equal(s->err.text, "there is no format 'word'; the formats are claude-code, codex, gemini-cli, gg, opencode, pi");
}

static void a_file_that_is_no_transcript_of_the_format_that_was_named_is_told(void **state) {
  static const char *const names[] = {"claude-code", "codex", "gemini-cli", "gg", "opencode", "pi"};
  static const char line[] = "{\"type\":\"session\",\"id\":\"s\",\"cwd\":\"/x\",\"timestamp\":\"2026-01-01T00:00:00Z\"}\n"
                             "{\"type\":\"message\",\"id\":\"a\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";
  struct scratch *s = *state;
  scratch_text(s, "s.jsonl", line);
  const char *path = scratch_path(s, "s.jsonl");
  for (unsigned i = 0; i < 6; i++) {
    const struct ctxp_import_options options = {.paths = &path, .path_count = 1, .format = names[i]};
    bool right = i == 5;
    ctxp_import_result_deinit(&s->result);
    assert_int_equal(ctxp_import_files(&options, &s->sink, &s->result, &s->err), 0);
    assert_int_equal(s->result.files, right ? 1 : 0);
    assert_int_equal(s->result.fault_count, right ? 0 : 1);
    if (!right && i != 4) assert_true(scratch_said(s, "s.jsonl: holds nothing of the format "));
    assert_int_equal(scratch_count(s, "\"prompt\"") + scratch_count(s, "context_message"), right ? 1 : 0);
  }
}

static void a_session_brings_its_side_folder_along(void **state) {
  struct scratch *s = *state;
  scratch_text(s, "p/s1.jsonl", session);
  scratch_text(s, "p/s1/subagents/agent-q1.jsonl",
      "{\"parentUuid\":null,\"isSidechain\":true,\"agentId\":\"q1\"," HEAD
      ",\"type\":\"user\",\"uuid\":\"x1\",\"message\":{\"content\":\"go\"}}\n"
      "{\"parentUuid\":\"x1\",\"isSidechain\":true,\"agentId\":\"q1\"," HEAD
      ",\"type\":\"assistant\",\"uuid\":\"x2\",\"message\":{\"id\":\"n1\",\"content\":[],\"usage\":{\"input_tokens\":5,\"output_tokens\":1}"
      "}}\n");
  assert_int_equal(scratch_import(s, "p/s1.jsonl"), 0);
  assert_int_equal(s->result.files, 2);
  assert_int_equal(s->result.sessions, 1);
  assert_int_equal(ref_totals(&s->ref, "s1", "q1").input, 5);
  assert_non_null(scratch_find(s, 0, "session_start", "\"thread\":\"q1\"", "\"parentThread\":\"\"", NULL));
}

static int truncate_at_open(
    void *data, const char *key, const char *product, const char *agent, uint64_t *ret_position, struct ctxp_error *err) {
  struct scratch *s = data;
  assert_int_equal(truncate(scratch_path(s, "s1.jsonl"), 4 << 20), 0);
  struct ctxp_import_sink real;
  struct ref *ref = &s->ref;
  (void)real, (void)key, (void)product, (void)agent, (void)err;
  *ret_position = ref->last_seq = 0;
  return 0;
}

static int send_to_ref(void *data, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err) {
  struct scratch *s = data;
  return s->sink.send(&s->ref, event, seq, err);
}

static int close_nothing(void *data, struct ctxp_error *err) {
  (void)data, (void)err;
  return 0;
}

static void a_file_that_shrinks_while_it_is_read_ends_early(void **state) {
  struct scratch *s = *state;
  ctxp_auto_buf text = {0};
  ctxp_buf_str(&text, USER("u1", "null", "x"));
  for (int i = 0; text.len < (size_t)24 << 20; i++) {
    ctxp_buf_printf(&text,
        "{\"parentUuid\":\"u1\"," HEAD
        ",\"type\":\"user\",\"uuid\":\"v%d\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t%d\",\"content\":\"",
        i, i);
    memset(ctxp_buf_room(&text, 100000), 'y', 100000);
    text.len += 100000;
    ctxp_buf_str(&text, "\"}]}}\n");
  }
  scratch_write(s, "s1.jsonl", (const char *)text.ptr, text.len);
  const char *path = scratch_path(s, "s1.jsonl");
  const struct ctxp_import_options options = {.paths = &path, .path_count = 1};
  const struct ctxp_import_sink sink = {.open = truncate_at_open, .send = send_to_ref, .close = close_nothing, .data = s};
  assert_int_equal(ctxp_import_files(&options, &sink, &s->result, &s->err), 0);
  assert_true(scratch_said(s, "s1.jsonl: became shorter while it was read; what stood before the cut was read\n"));
  assert_true(s->ref.windows[0]->results >= 38);
  assert_true(s->ref.windows[0]->results < 240);
  assert_int_equal(s->ref.misplaced, 0);
}

static void lines_are_read_through_a_small_buffer(void **state) {
  struct scratch *s = *state;
  struct ctxp_lines lines = {.fd = -1};
  struct ctxp_line line;
  struct ctxp_str part;
  scratch_text(s, "lines",
      "\xef\xbb\xbfone\r\n\nthree is longer than the buffer of sixteen bytes\nfour\nthis one is above the limit of one line, by far, as it "
      "has many more bytes than ninety-six of them, really\nsix");
  assert_int_equal(ctxp_lines_open(&lines, scratch_path(s, "lines"), &s->err), 0);
  lines.buffer_bytes = 16;
  lines.line_bytes = 96;
  static const char *const texts[] = {"one", "", "three is longer than the buffer of sixteen bytes", "four", "", "six"};
  uint64_t third = 0;
  for (unsigned i = 0; i < 6; i++) {
    assert_int_equal(ctxp_lines_next(&lines, &line), 1);
    assert_int_equal(line.text.len, strlen(texts[i]));
    assert_memory_equal(line.text.ptr, texts[i], line.text.len);
    assert_int_equal(line.number, i + 1);
    assert_int_equal(line.too_long, i == 4);
    assert_int_equal(line.torn, i == 5);
    if (i == 2) third = line.offset;
  }
  assert_int_equal(ctxp_lines_next(&lines, &line), 0);
  assert_int_equal(ctxp_lines_read(&lines, third, 5, &part), 1);
  assert_memory_equal(part.ptr, "three", 5);
  assert_int_equal(ctxp_lines_read(&lines, 1000, 5, &part), 0);
  ctxp_lines_deinit(&lines);
}

#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_open, scratch_close)
int main(void) {
  const struct CMUnitTest tests[] = {
      SCRATCH_TEST(a_file_that_is_imported_again_sends_nothing),
      SCRATCH_TEST(texts_that_nobody_digests_are_left_out_on_demand),
      SCRATCH_TEST(a_file_that_has_grown_goes_on_where_it_ended),
      SCRATCH_TEST(an_import_that_died_anywhere_is_finished_by_the_next),
      SCRATCH_TEST(a_file_that_was_rewritten_in_place_is_read_anew),
      SCRATCH_TEST(two_ends_of_one_session_are_both_counted_and_their_beginning_once),
      SCRATCH_TEST(files_that_tell_of_the_same_call_arrive_one_after_the_other),
      SCRATCH_TEST(a_file_that_shrank_is_named_and_goes_on_from_there),
      SCRATCH_TEST(a_session_with_ever_new_contents_is_given_up_by_name),
      SCRATCH_TEST(a_stop_ends_the_import),
      SCRATCH_TEST(bad_lines_are_told_and_good_ones_counted),
      SCRATCH_TEST(many_bad_lines_are_told_in_few_sentences),
      SCRATCH_TEST(an_over_long_line_is_passed_over),
      SCRATCH_TEST(what_cannot_be_read_is_told_and_the_rest_is_read),
      SCRATCH_TEST(a_named_file_that_is_nothing_is_told),
      SCRATCH_TEST(a_file_that_is_no_transcript_of_the_format_that_was_named_is_told),
      SCRATCH_TEST(a_session_brings_its_side_folder_along),
      SCRATCH_TEST(a_file_that_shrinks_while_it_is_read_ends_early),
      SCRATCH_TEST(lines_are_read_through_a_small_buffer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
