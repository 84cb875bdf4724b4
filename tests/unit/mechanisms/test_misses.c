/* An answer that was not applied, whatever the reason and whenever that is told: its saving is taken back once, and the lines of the log,
 * the figures of `stats` and the snapshot say the same. The three mechanisms that answer, the fold and the snapshots, in a row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <glob.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "sinks/sinks.h"
#include "support/stage_test.h"

extern const struct ctxp_stage_ops ctxp_stage_bash_digest, ctxp_stage_amnesia_tagger, ctxp_stage_write_compressor, ctxp_stage_fold;

enum { MECHANISMS = 3,
  TURNS_MAX = 8 };
static struct ctxp_test nodes[MECHANISMS], fold, snapshot;
static uint64_t seq;
static int64_t claimed; /* by what the mechanisms emitted as applied */
static struct ctxp_turn turns[TURNS_MAX];
static unsigned turn_count, regret_count;
static char dir[64];

static int setup(void **state) {
  (void)state;
  snprintf(dir, sizeof(dir), "/tmp/ctxp-misses-XXXXXX");
  return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1; /* the snapshots are written below it */
}

static void close_all(void) {
  for (unsigned i = 0; i < MECHANISMS; i++)
    if (nodes[i].ops) ctxp_test_close(&nodes[i]);
  if (fold.ops) ctxp_test_close(&fold);
  if (snapshot.ops) ctxp_test_close(&snapshot);
}

static int teardown(void **state) {
  char command[128];
  (void)state;
  close_all();
  snprintf(command, sizeof(command), "rm -rf '%s'", dir);
  return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static void open_all(void) {
  static const char *const names[MECHANISMS] = {"bash", "amnesia", "write"};
  static const struct ctxp_stage_ops *const ops[MECHANISMS] = {
      &ctxp_stage_bash_digest, &ctxp_stage_amnesia_tagger, &ctxp_stage_write_compressor};
  close_all();
  assert_int_equal(system("rm -rf snapshots"), 0);
  for (unsigned i = 0; i < MECHANISMS; i++) ctxp_test_open(&nodes[i], ops[i], names[i]);
  ctxp_test_open(&fold, &ctxp_stage_fold, "fold");
  ctxp_test_open(&snapshot, &ctxp_stage_sink_snapshot, "snapshot");
  seq = 0;
  claimed = 0;
  turn_count = regret_count = 0;
}

/* what the fold emitted goes to the snapshots */
static void drain_fold(void) {
  for (unsigned i = 0; i < fold.emitted_count; i++) {
    const struct ctxp_event *ev = &fold.emitted[i].event;
    regret_count += ev->kind == CTXP_KIND_regret;
    if (ev->kind != CTXP_KIND_turn) continue;
    assert_in_range(turn_count, 0, TURNS_MAX - 1);
    turns[turn_count++] = ev->turn;
    ctxp_test_push(&snapshot, ev);
  }
  ctxp_test_clear(&fold);
}

static void drain_node(struct ctxp_test *node) {
  for (unsigned i = 0; i < node->emitted_count; i++) {
    const struct ctxp_event *ev = &node->emitted[i].event;
    if (ev->kind == CTXP_KIND_bash) claimed += ev->bash.saved;
    if (ev->kind == CTXP_KIND_amnesia_remove) claimed += ev->amnesia_remove.saved;
    if (ev->kind == CTXP_KIND_write) claimed += ev->write.saved;
    ctxp_test_push(&fold, ev);
  }
  ctxp_test_clear(node);
}

static void push(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void push(const char *format, ...) {
  char line[16384];
  ctxp_auto_buf body = {0};
  struct ctxp_event ev;
  struct ctxp_error err;
  va_list args;
  va_start(args, format);
  assert_in_range(vsnprintf(line, sizeof(line), format, args), 1, sizeof(line) - 1);
  va_end(args);
  if (ctxp_json_to_event(ctxp_str(line), &body, &err) < 0) fail_msg("%s", err.text);
  assert_int_equal(ctxp_event_decode(body.ptr, body.len, &ev, NULL, NULL), 0);
  ev.seq = ++seq;
  ctxp_test_push(&fold, &ev);
  for (unsigned i = 0; i < MECHANISMS; i++) ctxp_test_push(&nodes[i], &ev);
  for (unsigned i = 0; i < MECHANISMS; i++) drain_node(&nodes[i]);
  drain_fold();
}

/* ---- what is claimed; the number of the ask that is missed ---- */
static uint64_t digested(void) {
  char text[12000] = "";
  for (int i = 0; i < 300; i++) snprintf(text + strlen(text), 40, "compiling part %d of the whole\\n", i);
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"b\",\"tool\":\"bash\",\"input\":{\"command\":\"make\"},\"isError\":false,\"exitCode\":0,"
       "\"text\":\"%s\",\"ask\":true}",
      text);
  return seq;
}

static uint64_t context(const char *time, const char *calls, const char *tail) {
  push("{\"kind\":\"context\",\"ts\":\"2026-09-01T%s.000Z\",\"ask\":true,\"messages\":[{\"id\":\"m1\",\"role\":\"user\",\"hasText\":true,"
       "\"tokens\":10},{\"id\":\"m2\",\"role\":\"assistant\",\"hasText\":true,\"calls\":[%s],\"tokens\":120}%s]}",
      time, calls, tail);
  return seq;
}
#define D "{\"id\":\"d\",\"name\":\"read\",\"tokens\":7}"
#define D_RESULT ",{\"id\":\"m3\",\"role\":\"tool\",\"toolCallId\":\"d\",\"hasText\":true,\"tokens\":270}"
#define LATER ",{\"id\":\"m4\",\"role\":\"assistant\",\"hasText\":true,\"tokens\":50}"

static uint64_t removed(void) {
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"d\",\"tool\":\"read\",\"input\":{\"path\":\"a\"},\"isError\":false,\"text\":\"%01080d\","
       "\"ask\":true}",
      0);
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"e\",\"tool\":\"write\",\"input\":{\"path\":\"a\",\"content\":\"x\"},\"isError\":false,"
       "\"text\":\"ok\",\"ask\":true}");
  context("10:00:00", D, D_RESULT);
  return context("10:10:00", D, D_RESULT LATER); /* the cache has gone cold */
}

static uint64_t injected(void) {
  push("{\"kind\":\"tool_result\",\"toolCallId\":\"w\",\"tool\":\"write\",\"input\":{\"path\":\"a.py\",\"content\":\"# Sums.\\n%0400d\"},"
       "\"isError\":false,\"text\":\"ok\",\"ask\":true}",
      0);
  uint64_t ask = seq;
  push("{\"kind\":\"write_injected\",\"toolCallId\":\"w\",\"ok\":true}");
  return ask;
}

static uint64_t stripped(void) {
  injected();
  return context("10:00:00", "{\"id\":\"w\",\"name\":\"write\",\"tokens\":110,\"contentTokens\":100}", "");
}

/* ---- when it is told ---- */
enum moment { NEVER,
  IN_ITS_TURN,
  AFTER_ITS_TURN,
  AFTER_THE_END, /* of the session, that closed the turn */
  AFTER_TURN_AND_END,
  AFTER_A_RESTART,
  AFTER_A_RETURN, /* of the session */
  MOMENTS };

static void restart_all(void) {
  for (unsigned i = 0; i < MECHANISMS; i++) ctxp_test_restart(&nodes[i]);
  ctxp_test_restart(&fold);
}

static void turn_end(unsigned turn) { push("{\"kind\":\"turn_end\",\"turn\":%u}", turn); }
static void session_end(void) { push("{\"kind\":\"session_end\"}"); }
static void miss(uint64_t ask, const char *reason) {
  push("{\"kind\":\"answer_missed\",\"askSeq\":%llu,\"reason\":\"%s\"}", (unsigned long long)ask, reason);
}

static void until(enum moment moment) {
  if (moment >= AFTER_ITS_TURN && moment != AFTER_THE_END) turn_end(0);
  if (moment >= AFTER_THE_END) session_end();
  if (moment >= AFTER_A_RESTART) restart_all();
  if (moment == AFTER_A_RETURN) push("{\"kind\":\"session_start\",\"product\":\"pi\"}");
}

static void after(enum moment moment) {
  if (moment == NEVER || moment == IN_ITS_TURN) turn_end(0);
  if (moment == AFTER_ITS_TURN || moment == AFTER_A_RETURN) turn_end(1);
}

/* ---- what must hold ---- */
static int64_t stat(struct ctxp_raw all, const char *key) {
  struct ctxp_pack_value v;
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(all, key));
  assert_int_equal(ctxp_cursor_next(&it, &v), 0);
  return v.type == CTXP_PACK_I64 ? v.i : (int64_t)v.u;
}

static void assert_stats(int64_t cumulative, int64_t regret, int64_t net, int64_t last_net) {
  ctxp_auto_buf query = {0}, reply = {0};
  struct ctxp_raw one;
  uint32_t left;
  assert_int_equal(ctxp_json_to_raw(CTXP_STR("{\"what\":\"stats\"}"), &query, NULL), 0);
  assert_int_equal(ctxp_stage_query(fold.stage, ctxp_buf_raw(&query), &reply, NULL), 0);
  struct ctxp_raw all = ctxp_map_get(ctxp_buf_raw(&reply), "all");
  assert_int_equal(ctxp_map_u64(ctxp_map_get(all, "cumulative"), "total", 9), cumulative);
  assert_int_equal(stat(all, "regret"), regret);
  assert_int_equal(stat(all, "net"), net);
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(ctxp_buf_raw(&reply), "sessions"));
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  assert_true(ctxp_array_next(&it, &left, &one) > 0);
  assert_int_equal(stat(ctxp_map_get(one, "last"), "net"), last_net);
}

static void assert_snapshot(int64_t cumulative, int64_t net) {
  char text[4096] = "", expected[160];
  glob_t found;
  assert_int_equal(ctxp_stage_save(snapshot.stage), 0);
  assert_int_equal(glob("snapshots/s1-*.json", 0, NULL, &found), 0);
  assert_int_equal(found.gl_pathc, 1);
  FILE *file = fopen(found.gl_pathv[0], "r");
  globfree(&found);
  assert_non_null(file);
  assert_in_range(fread(text, 1, sizeof(text) - 1, file), 1, sizeof(text) - 1);
  fclose(file);
  snprintf(expected, sizeof(expected), ",\"total\":%lld},\"turns\":[", (long long)cumulative);
  if (!strstr(text, expected)) fail_msg("%s has no %s", text, expected);
  snprintf(expected, sizeof(expected), "],\"turnCount\":%u,\"aux\":0,\"net\":%lld,", turn_count, (long long)net);
  if (!strstr(text, expected)) fail_msg("%s has no %s", text, expected);
}

static void one_miss(uint64_t (*claim)(void), enum moment moment, const char *reason) {
  open_all();
  push("{\"kind\":\"session_start\",\"product\":\"pi\"}");
  uint64_t ask = claim();
  int64_t saved = claimed;
  assert_true(saved > 0);
  until(moment);
  if (moment != NEVER) miss(ask, reason);
  after(moment);
  bool ended = moment == AFTER_THE_END || moment == AFTER_TURN_AND_END || moment == AFTER_A_RESTART;
  unsigned told = turn_count;
  if (moment != NEVER) {
    miss(ask, reason); /* told twice: nothing more */
    miss(ask, "lost");
  }
  assert_int_equal(turn_count, told);
  assert_int_equal(regret_count, moment != NEVER);
  assert_int_equal(claimed, saved);
  int64_t sum = 0, counts = moment == IN_ITS_TURN ? 0 : saved, back = moment == NEVER || moment == IN_ITS_TURN ? 0 : saved;
  for (unsigned i = 0; i < turn_count; i++) sum += turns[i].net;
  assert_int_equal(turn_count, back ? 2 : 1);
  assert_int_equal(turns[0].total, counts);
  assert_int_equal(turns[turn_count - 1].net, back ? -saved : counts);
  assert_int_equal(turns[turn_count - 1].cumulative.total, counts);
  assert_int_equal(sum, counts - back);
  assert_stats(counts, back, counts - back, back ? -saved : counts);
  assert_snapshot(counts, counts - back);
  if (!ended) { /* what is not kept out is not carried either */
    push("{\"kind\":\"prompt\",\"callId\":\"p\",\"model\":\"m\",\"request\":[{\"id\":\"m1\"}],\"usage\":{\"input\":1000}}");
    turn_end(2);
    assert_int_equal(turns[turn_count - 1].carried, moment == NEVER ? saved : 0);
  } else {
    session_end();
    assert_int_equal(turn_count, told); /* it had its turn */
  }
}

static void all_misses(uint64_t (*claim)(void)) {
  static const char *const reasons[] = {"timeout", "lost", "superseded", "refused"};
  for (unsigned moment = NEVER; moment < MOMENTS; moment++)
    for (unsigned i = 0; i < 4; i++) one_miss(claim, (enum moment)moment, reasons[i]);
}

static void a_digest_is_taken_back_for_each_reason_and_at_each_moment(void **state) {
  (void)state;
  all_misses(digested);
}

static void a_removal_is_taken_back_for_each_reason_and_at_each_moment(void **state) {
  (void)state;
  all_misses(removed);
  assert_int_equal(claimed, 270); /* 1080 characters */
}

static void a_fact_that_was_injected_is_taken_back_for_each_reason_and_at_each_moment(void **state) {
  (void)state;
  all_misses(injected);
  /* "# Sums.", a newline and 400 digits: 408 units, 102 tokens; "[Wrote a.py - Sums., ~2 lines]": 30 units, 8 tokens */
  assert_int_equal(claimed, 102 - 8);
}

static void a_content_that_was_stripped_is_taken_back_for_each_reason_and_at_each_moment(void **state) {
  (void)state;
  all_misses(stripped);
  assert_int_equal(claimed, 102 - 8);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(a_digest_is_taken_back_for_each_reason_and_at_each_moment),
      T(a_removal_is_taken_back_for_each_reason_and_at_each_moment),
      T(a_fact_that_was_injected_is_taken_back_for_each_reason_and_at_each_moment),
      T(a_content_that_was_stripped_is_taken_back_for_each_reason_and_at_each_moment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
