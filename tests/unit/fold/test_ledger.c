/* The ledger: the seed's lines byte for byte, and what counts in a turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "codec/msgpack.h"
#include "fold_test.h"

static struct ctxp_test t;

static int close_fold(void **state) {
  (void)state;
  ctxp_test_close(&t);
  return 0;
}

static void expect_lines(const char *kind, bool seed_only, const char *lines) {
  char *got = fold_lines(&t, kind, seed_only);
  assert_string_equal(got, lines);
  free(got);
}

static void the_seeds_example_lines_come_out_byte_for_byte(void **state) {
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t,
      "{\"ts\":\"2026-08-30T06:10:19.549Z\",\"kind\":\"amnesia-tag\",\"toolCallId\":\"call_...\",\"tool\":\"read\",\"decision\":\"RETAIN\","
      "\"tokens\":485}");
  fold_push(&t, "{\"ts\":\"2026-08-30T06:10:19.550Z\",\"kind\":\"turn_end\",\"turn\":1}");
  fold_push(&t, "{\"ts\":\"2026-08-30T06:09:45.741Z\",\"kind\":\"lazy\",\"avoidedTokens\":877}");
  fold_push(&t,
      "{\"ts\":\"2026-08-30T06:06:20.401Z\",\"kind\":\"bash\",\"toolCallId\":\"call_...\",\"command\":\"...\",\"originalTokens\":9000,"
      "\"summaryTokens\":300,\"saved\":8700}");
  expect_lines(NULL, true,
      "{\"ts\":\"2026-08-30T06:10:19.549Z\",\"kind\":\"amnesia-tag\",\"toolCallId\":\"call_...\",\"tool\":\"read\",\"decision\":\"RETAIN\","
      "\"tokens\":485}\n"
      "{\"ts\":\"2026-08-30T06:10:19.550Z\",\"kind\":\"turn\",\"turn\":1,\"bash\":0,\"amnesia\":0,\"lazy\":0,\"write\":0,\"total\":0,"
      "\"cumulative\":{\"bash\":0,\"amnesia\":0,\"lazy\":0,\"write\":0,\"total\":0}}\n"
      "{\"ts\":\"2026-08-30T06:09:45.741Z\",\"kind\":\"lazy\",\"avoidedTokens\":877}\n"
      "{\"ts\":\"2026-08-30T06:06:20.401Z\",\"kind\":\"bash\",\"toolCallId\":\"call_...\",\"command\":\"...\",\"originalTokens\":9000,"
      "\"summaryTokens\":300,\"saved\":8700}\n");
}

#define BASH "{\"kind\":\"bash\",\"toolCallId\":\"b\",\"command\":\"make\",\"originalTokens\":2000,\"summaryTokens\":1,\"saved\":1999%s}"
#define TURN(n, bash, lazy, total, cum_bash, cum_lazy, cum) \
  "{\"ts\":\"" n "\",\"kind\":\"turn\",\"turn\":0,\"bash\":" bash ",\"amnesia\":0,\"lazy\":" lazy ",\"write\":0,\"total\":" total \
  ",\"cumulative\":{\"bash\":" cum_bash ",\"amnesia\":0,\"lazy\":" cum_lazy ",\"write\":0,\"total\":" cum "}}\n"

static void what_came_between_turns_counts_once_in_the_next_that_ends(void **state) {
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t, BASH, "");
  fold_push(&t, "{\"kind\":\"turn_start\",\"turn\":0}");
  fold_push(&t, "{\"kind\":\"lazy\",\"avoidedTokens\":500}");
  fold_push(&t, "{\"kind\":\"lazy\",\"avoidedTokens\":877}");
  fold_push(&t, "{\"ts\":\"2026-09-01T08:00:00.000Z\",\"kind\":\"turn_end\",\"turn\":0}");
  fold_push(&t, "{\"ts\":\"2026-09-01T08:00:01.000Z\",\"kind\":\"turn_end\",\"turn\":0}");
  expect_lines("turn", true,
      TURN("2026-09-01T08:00:00.000Z", "1999", "877", "2876", "1999", "877", "2876")
          TURN("2026-09-01T08:00:01.000Z", "0", "0", "0", "1999", "877", "2876"));
}

static void what_was_not_applied_is_potential_and_in_no_total(void **state) {
  (void)state;
  ctxp_auto_buf reply = {0};
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t, BASH, ",\"applied\":false");
  fold_push(&t, "{\"ts\":\"2026-09-01T08:00:00.000Z\",\"kind\":\"turn_end\",\"turn\":0}");
  expect_lines("turn", true, TURN("2026-09-01T08:00:00.000Z", "0", "0", "0", "0", "0", "0"));
  struct ctxp_raw bash = ctxp_map_get(ctxp_map_get(ctxp_map_get(fold_ask(&t, "{\"what\":\"stats\"}", &reply), "all"), "potential"), "bash");
  assert_int_equal(ctxp_map_u64(bash, "saved", 0), 1999);
  assert_int_equal(ctxp_map_u64(bash, "of", 0), 2000);
}

static struct ctxp_turn last_turn(void) {
  for (unsigned i = t.emitted_count; i-- > 0;)
    if (t.emitted[i].event.kind == CTXP_KIND_turn) return t.emitted[i].event.turn;
  fail_msg("no turn was emitted");
  return (struct ctxp_turn){0};
}

static void net_is_total_less_auxiliary_calls_and_regret_and_may_be_negative(void **state) {
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t, BASH, "");
  fold_push(&t,
      "{\"kind\":\"aux\",\"mechanism\":\"bash\",\"model\":\"small\",\"inputTokens\":2000,\"outputTokens\":100,\"durationMs\":7,\"outcome\":"
      "\"ok\"}");
  fold_push(&t, "{\"kind\":\"regret\",\"mechanism\":\"bash\",\"toolCallId\":\"b\",\"tokens\":99,\"reason\":\"read again\"}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":3}");
  struct ctxp_turn turn = last_turn();
  assert_int_equal(turn.total, 1999);
  assert_int_equal(turn.aux, 2100);
  assert_int_equal(turn.net, 1999 - 2100 - 99);
}

#define REGRET "{\"kind\":\"regret\",\"mechanism\":\"bash\",\"toolCallId\":\"b\",\"tokens\":1999,\"reason\":\"%s\"}"

static void what_was_never_applied_leaves_its_turn_or_else_is_regret(void **state) {
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t, BASH, "");
  fold_push(&t, REGRET, "not applied");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  assert_int_equal(last_turn().total, 0);
  assert_int_equal(last_turn().net, 0);
  fold_push(&t, BASH, "");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":1}");
  assert_int_equal(last_turn().net, 1999);
  fold_push(&t, REGRET, "not applied"); /* its turn has ended, and stands */
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":2}");
  assert_int_equal(last_turn().total, 0);
  assert_int_equal(last_turn().net, -1999);
  assert_int_equal(last_turn().cumulative.total, 1999);
}

#define REMOVED(ids, saved) \
  "{\"kind\":\"amnesia-remove\",\"saved\":" saved ",\"messageCount\":2,\"droppedResultIds\":[" ids "],\"applied\":true}"
#define AMNESIA_REGRET(id, tokens) \
  "{\"kind\":\"regret\",\"mechanism\":\"amnesia\",\"toolCallId\":\"" id "\",\"tokens\":" tokens ",\"reason\":\"not applied\"}"

/* Turn 0 removes a and b with 300 tokens, turn 1 c with 50. That the first was never applied is told in turn 1, result by result: it is
 * regret, 300 of it, and turn 1 keeps its 50. */
static void a_removal_that_is_taken_back_late_leaves_the_later_ones_alone(void **state) {
  (void)state;
  fold_open(&t, NULL);
  fold_push(&t, REMOVED("\"b\",\"a\"", "300"));
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  fold_push(&t, REMOVED("\"c\"", "50"));
  fold_push(&t, AMNESIA_REGRET("a", "100"));
  ctxp_test_restart(&t);
  fold_push(&t, AMNESIA_REGRET("b", "200"));
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"c\",\"model\":\"v/m\",\"append\":[{\"id\":\"u\"}],\"usage\":{\"input\":1000}}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":1}");
  struct ctxp_turn turn = last_turn();
  assert_int_equal(turn.amnesia, 50);
  assert_int_equal(turn.net, 50 - 300);
  assert_int_equal(turn.cumulative.amnesia, 350);
  assert_int_equal(turn.carried, 50);
  fold_push(&t, AMNESIA_REGRET("c", "50"));
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"c2\",\"model\":\"v/m\",\"keep\":1,\"append\":[{\"id\":\"v\"}],\"usage\":{\"input\":1}}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":2}");
  assert_int_equal(last_turn().carried, 0);
}

static void what_is_taken_back_behind_the_end_is_a_turn_of_its_own(void **state) {
  (void)state;
  ctxp_auto_buf reply = {0};
  fold_open(&t, NULL);
  fold_push(&t, BASH, "");
  fold_push(&t, BASH, ",\"thread\":\"sub\"");
  fold_push(&t, "{\"kind\":\"session_end\"}"); /* of both */
  ctxp_test_restart(&t);
  fold_push(&t, REGRET, "not applied");
  assert_int_equal(last_turn().turn, 1);
  assert_int_equal(last_turn().total, 0);
  assert_int_equal(last_turn().net, -1999);
  assert_int_equal(last_turn().cumulative.total, 3998);
  fold_push(&t,
      "{\"kind\":\"regret\",\"thread\":\"sub\",\"mechanism\":\"bash\",\"toolCallId\":\"b\",\"tokens\":1999,\"reason\":\"not applied\"}");
  struct ctxp_raw all = ctxp_map_get(fold_ask(&t, "{\"what\":\"stats\"}", &reply), "all");
  assert_int_equal(ctxp_map_u64(all, "turns", 0), 4);
  assert_int_equal(ctxp_map_u64(all, "regret", 0), 3998);
  assert_int_equal(ctxp_map_u64(all, "net", 1), 0);
  unsigned emitted = t.emitted_count;
  fold_push(&t, "{\"kind\":\"session_end\"}");
  assert_int_equal(t.emitted_count, emitted); /* nothing is left for another */
  fold_push(&t, "{\"kind\":\"session_start\",\"product\":\"pi\"}");
  fold_push(&t, BASH, "");
  fold_push(&t, REGRET, "came back"); /* a turn is to come again */
  assert_int_equal(t.emitted_count, emitted + 2);
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":7}");
  assert_int_equal(last_turn().turn, 7);
  assert_int_equal(last_turn().net, 0);
}

static void what_was_applied_and_came_back_is_regret_and_carried_no_more(void **state) {
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t, BASH, "");
  fold_push(&t, REGRET, "came back");
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"c\",\"model\":\"v/m\",\"append\":[{\"id\":\"u\"}],\"usage\":{\"input\":1000}}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  assert_int_equal(last_turn().total, 1999);
  assert_int_equal(last_turn().net, 0);
  assert_int_equal(last_turn().carried, 0);
}

static void prompt(const char *call, unsigned keep, const char *append) {
  fold_push(&t, "{\"kind\":\"prompt\",\"callId\":\"%s\",\"model\":\"v/m\",\"keep\":%u,\"append\":[%s],\"usage\":{\"input\":1000}}", call,
      keep, append);
}

static void what_is_kept_out_is_carried_in_every_request_until_a_compaction(void **state) {
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  prompt("c1", 0, "{\"id\":\"u\"}");
  fold_push(&t, BASH, "");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  assert_int_equal(last_turn().carried, 0); /* its request came before the result */
  prompt("c2", 1, "{\"id\":\"a\"},{\"id\":\"r\"}");
  prompt("c3", 3, "{\"id\":\"a2\"}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":1}");
  assert_int_equal(last_turn().carried, 2 * 1999);
  assert_true(ctxp_has(&t.emitted[t.emitted_count - 2].event.turn, turn, carriedCostNano));
  assert_int_equal(last_turn().carriedCostNano, 2 * 1999 * 10000); /* at 10 dollars a million: 10000 nano-dollars a token */
  fold_push(&t, "{\"kind\":\"compaction\",\"summaryId\":\"s\"}");
  prompt("c4", 0, "{\"id\":\"s\"}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":2}");
  assert_int_equal(last_turn().carried, 0);
}

static void a_rewind_before_its_place_ends_what_is_carried(void **state) {
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  prompt("c1", 0, "{\"id\":\"u\"},{\"id\":\"v\"}");
  fold_push(&t, BASH, "");
  prompt("c2", 2, "{\"id\":\"a\"},{\"id\":\"r\"}");
  prompt("c3", 1, "{\"id\":\"w\"}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  assert_int_equal(last_turn().carried, 1999);
}

static void a_session_end_closes_a_turn_that_has_something(void **state) {
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":4}");
  fold_push(&t, "{\"kind\":\"session_end\"}");
  assert_int_equal(t.emitted_count, 1);
  fold_push(&t, BASH, "");
  fold_push(&t, "{\"kind\":\"session_end\"}");
  assert_int_equal(last_turn().turn, 5);
  assert_int_equal(last_turn().bash, 1999);
}

static void threads_have_their_own_turns_and_the_session_their_sum(void **state) {
  (void)state;
  ctxp_auto_buf reply = {0};
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t, BASH, "");
  fold_push(&t, BASH, ",\"thread\":\"sub\"");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0,\"thread\":\"sub\"}");
  assert_int_equal(last_turn().bash, 1999);
  assert_int_equal(last_turn().cumulative.bash, 1999);
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  assert_int_equal(last_turn().bash, 1999);
  assert_int_equal(last_turn().cumulative.bash, 3998);
  struct ctxp_raw all = ctxp_map_get(fold_ask(&t, "{\"what\":\"stats\"}", &reply), "all");
  assert_int_equal(ctxp_map_u64(ctxp_map_get(all, "cumulative"), "total", 0), 3998);
  assert_int_equal(ctxp_map_u64(all, "turns", 0), 2);
  assert_int_equal(ctxp_map_u64(all, "sessions", 0), 1);
}

#define RESTORE \
  "{\"kind\":\"session_start\",\"product\":\"pi\",\"restore\":{\"cumulative\":{\"bash\":1000,\"amnesia\":1,\"lazy\":2,\"write\":3," \
  "\"total\":%u},\"turns\":[%s]}}"
#define OLD_TURN "{\"turn\":0,\"bash\":1000,\"amnesia\":1,\"lazy\":2,\"write\":3,\"total\":1006}"

static void a_snapshot_is_restored_for_a_session_that_is_not_known(void **state) {
  (void)state;
  ctxp_auto_buf reply = {0};
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t, RESTORE, 1006, OLD_TURN);
  assert_int_equal(t.emitted[0].event.kind, CTXP_KIND_restored);
  char *snapshot = fold_json(t.emitted[0].event.restored.snapshot);
  assert_string_equal(snapshot,
      "{\"cumulative\":{\"bash\":1000,\"amnesia\":1,\"lazy\":2,\"write\":3,\"total\":1006},\"turns\":[{\"turn\":0,\"bash\":1000,"
      "\"amnesia\":1,\"lazy\":2,\"write\":3,\"total\":1006}]}");
  free(snapshot);
  fold_push(&t, BASH, "");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  assert_int_equal(last_turn().cumulative.total, 3005);
  fold_push(&t, RESTORE, 1006, OLD_TURN); /* known now: it goes on from the fold's own state */
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":1}");
  assert_int_equal(last_turn().cumulative.total, 3005);
  assert_int_equal(t.refused, 0);
  struct ctxp_raw stats = fold_ask(&t, "{\"what\":\"stats\"}", &reply), one = fold_row(stats, "sessions", "session", "s1");
  assert_int_equal(ctxp_map_u64(ctxp_map_get(one, "restored"), "total", 0), 1006);
  assert_int_equal(ctxp_map_u64(ctxp_map_get(one, "cumulative"), "total", 0), 3005);
  assert_int_equal(ctxp_map_u64(ctxp_map_get(ctxp_map_get(stats, "all"), "cumulative"), "total", 0), 1999);
}

static void a_restore_that_does_not_fit_is_refused_by_name(void **state) {
  (void)state;
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t, "{\"kind\":\"session_start\",\"product\":\"pi\",\"restore\":{\"cumulative\":{\"bash\":1000,\"amnesia\":1,\"lazy\":2},"
                "\"turns\":[]}}");
  assert_int_equal(t.emitted_count, 0);
  assert_int_equal(t.refused, 1);
  assert_string_equal(t.last_refusal,
      "session_start: restore of session 's1' does not fit: cumulative must have bash, amnesia, lazy, write and total as whole "
      "numbers; it starts at zero");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  assert_int_equal(last_turn().cumulative.total, 0);
}

static void a_restored_total_is_taken_as_it_was_given(void **state) {
  (void)state;
  fold_open(&t, NULL);
  fold_push(&t, RESTORE, 1007, OLD_TURN);
  assert_int_equal(t.refused, 0);
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":1}");
  assert_int_equal(last_turn().cumulative.total, 1007);
  ctxp_test_restart(&t);
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":2}");
  assert_int_equal(last_turn().cumulative.total, 1007);
  assert_int_equal(last_turn().cumulative.bash, 1000);
}

static void at_most_the_last_forty_turns_are_restored(void **state) {
  (void)state;
  ctxp_auto_buf turns = {0};
  fold_open(&t, FOLD_ESTIMATE);
  for (unsigned i = 0; i < 45; i++)
    ctxp_buf_printf(&turns, "%s{\"turn\":%u,\"bash\":0,\"amnesia\":0,\"lazy\":0,\"total\":0}", i ? "," : "", i);
  fold_push(&t, RESTORE, 1006, ctxp_buf_cstr(&turns));
  struct ctxp_raw list = ctxp_map_get(t.emitted[0].event.restored.snapshot, "turns"), first;
  struct ctxp_cursor it = ctxp_cursor(list);
  uint32_t left;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  assert_int_equal(left, 40);
  assert_int_equal(ctxp_array_next(&it, &left, &first), 1);
  assert_int_equal(ctxp_map_u64(first, "turn", 0), 5);
}

static void lazys_denominator_is_the_catalogue_and_the_skills(void **state) {
  (void)state;
  ctxp_auto_buf reply = {0};
  fold_open(&t, FOLD_ESTIMATE);
  fold_push(&t,
      "{\"kind\":\"agent_start\",\"tools\":[{\"name\":\"grep\",\"description\":\"find "
      "text\",\"parameters\":{\"type\":\"object\"},\"guidelines\":[\"be brief\",\"be kind\"]}],"
      "\"activeTools\":[],\"skillsText\":\"12345678\"}");
  struct ctxp_raw lazy = ctxp_map_get(ctxp_map_get(ctxp_map_get(fold_ask(&t, "{\"what\":\"stats\"}", &reply), "all"), "potential"), "lazy");
  /* "grep find text {"type":"object"} be brief be kind": 4+1+9+1+17+1+16 = 49 units, 13 tokens; and 2 */
  assert_int_equal(ctxp_map_u64(lazy, "of", 0), 13 + 2);
}

/* ---- a recorded conversation that is told again under another name ---- */
static void tell(const char *session, const char *calls, unsigned from, unsigned to) {
  fold_push(&t, "{\"kind\":\"session_start\",\"session\":\"%s\",\"product\":\"pi\",\"recorded\":true}", session);
  fold_push(&t, "{\"kind\":\"agent_start\",\"session\":\"%s\",\"skillsText\":\"12345678\"}", session);
  fold_push(&t, "{\"kind\":\"lazy\",\"session\":\"%s\",\"avoidedTokens\":2,\"applied\":false}", session);
  for (unsigned n = from; n < to; n++) {
    fold_push(&t, "{\"kind\":\"prompt\",\"session\":\"%s\",\"callId\":\"%s%u\",\"append\":[{\"id\":\"r%u\"}],\"usage\":{\"input\":1000}}",
        session, calls, n, n);
    fold_push(&t,
        "{\"kind\":\"context_message\",\"session\":\"%s\",\"id\":\"a%u\",\"role\":\"assistant\",\"band\":\"assistant\",\"tokens\":60,"
        "\"calls\":[{\"id\":\"w%u\",\"name\":\"write\",\"contentTokens\":50}]}",
        session, n, n);
    fold_push(&t,
        "{\"kind\":\"bash\",\"session\":\"%s\",\"toolCallId\":\"b%u\",\"command\":\"x\",\"originalTokens\":3000,\"summaryTokens\":100,"
        "\"saved\":2900,"
        "\"applied\":false}",
        session, n);
    fold_push(&t,
        "{\"kind\":\"write\",\"session\":\"%s\",\"toolCallId\":\"w%u\",\"path\":\"p\",\"originalTokens\":50,\"factTokens\":10,\"saved\":40,"
        "\"fact\":\"f\","
        "\"applied\":false}",
        session, n);
    fold_push(&t,
        "{\"kind\":\"context_message\",\"session\":\"%s\",\"id\":\"r%u\",\"role\":\"tool\",\"band\":\"file_view\",\"tool\":\"read\","
        "\"toolCallId\":\"t%u\","
        "\"tokens\":400}",
        session, n, n);
    fold_push(&t,
        "{\"kind\":\"amnesia-tag\",\"session\":\"%s\",\"toolCallId\":\"t%u\",\"tool\":\"read\",\"decision\":\"DROP\",\"tokens\":400,"
        "\"applied\":false}",
        session, n);
    fold_push(&t, "{\"kind\":\"turn_end\",\"session\":\"%s\",\"turn\":%u}", session, n);
  }
}

static void remove_results(const char *session, const char *ids, unsigned saved) {
  fold_push(&t,
      "{\"kind\":\"amnesia-remove\",\"session\":\"%s\",\"saved\":%u,\"messageCount\":2,\"droppedResultIds\":[%s],\"applied\":false}",
      session, saved, ids);
}

/* saved, of, saved, of, ... and the turns */
static void expect_potential(const uint64_t *expected, uint64_t turns) {
  static const char *const names[] = {"bash", "amnesia", "write", "lazy"};
  ctxp_auto_buf stats = {0}, spend = {0};
  struct ctxp_raw all = ctxp_map_get(fold_ask(&t, "{\"what\":\"stats\"}", &stats), "all");
  struct ctxp_raw report = ctxp_map_get(fold_ask(&t, "{\"what\":\"spend\"}", &spend), "potential"),
                  potential = ctxp_map_get(all, "potential");
  for (unsigned i = 0; i < 4; i++) {
    assert_int_equal(ctxp_map_u64(ctxp_map_get(potential, names[i]), "saved", 99), expected[2 * i]);
    assert_int_equal(ctxp_map_u64(ctxp_map_get(potential, names[i]), "of", 99), expected[2 * i + 1]);
    assert_int_equal(ctxp_map_u64(ctxp_map_get(report, names[i]), "saved", 99), expected[2 * i]);
    assert_int_equal(ctxp_map_u64(ctxp_map_get(report, names[i]), "of", 99), expected[2 * i + 1]);
  }
  assert_int_equal(ctxp_map_u64(all, "turns", 99), turns);
}

static void a_copy_under_another_name_adds_nothing_to_potential_savings_and_turns(void **state) {
  (void)state;
  const uint64_t once[] = {5800, 6000, 850, 850, 80, 100, 2, 2};
  fold_open(&t, NULL);
  tell("one", "c", 0, 2);
  remove_results("one", "\"t0\",\"t1\"", 850); /* two results of 400, and 50 of the message with their calls */
  expect_potential(once, 2);
  ctxp_test_restart(&t); /* it is known on disk */
  fold_prices(&t, NULL);
  tell("two", "c", 0, 2);
  remove_results("two", "\"t0\",\"t1\"", 850);
  expect_potential(once, 2);
  unsigned turns = 0;
  for (unsigned i = 0; i < t.emitted_count; i++) turns += t.emitted[i].event.kind == CTXP_KIND_turn;
  assert_int_equal(turns, 2);
}

static void a_resumed_copy_counts_what_it_has_beyond_the_first(void **state) {
  (void)state;
  fold_open(&t, NULL);
  tell("one", "c", 0, 1);
  remove_results("one", "\"t0\"", 400);
  expect_potential((const uint64_t[]){2900, 3000, 400, 400, 40, 50, 2, 2}, 1);
  tell("two", "c", 0, 1); /* the run of the copy; then one of its own */
  tell("two", "c", 1, 2);
  remove_results("two", "\"t1\",\"t0\"", 850);
  expect_potential((const uint64_t[]){5800, 6000, 850, 850, 80, 100, 4, 4}, 2);
}

static void what_was_applied_counts_though_its_call_came_before(void **state) {
  (void)state;
  fold_open(&t, NULL);
  fold_push(&t, BASH, "");
  fold_push(&t, "{\"kind\":\"turn_end\",\"turn\":0}");
  fold_push(&t, BASH, ",\"session\":\"s2\"");
  prompt("c", 0, "{\"id\":\"u\"}");
  fold_push(&t, "{\"kind\":\"prompt\",\"session\":\"s2\",\"callId\":\"c\",\"usage\":{\"input\":1000}}");
  fold_push(&t, "{\"kind\":\"turn_end\",\"session\":\"s2\",\"turn\":0}");
  assert_int_equal(last_turn().bash, 1999);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(the_seeds_example_lines_come_out_byte_for_byte, close_fold),
      cmocka_unit_test_teardown(what_came_between_turns_counts_once_in_the_next_that_ends, close_fold),
      cmocka_unit_test_teardown(what_was_not_applied_is_potential_and_in_no_total, close_fold),
      cmocka_unit_test_teardown(net_is_total_less_auxiliary_calls_and_regret_and_may_be_negative, close_fold),
      cmocka_unit_test_teardown(what_was_never_applied_leaves_its_turn_or_else_is_regret, close_fold),
      cmocka_unit_test_teardown(a_removal_that_is_taken_back_late_leaves_the_later_ones_alone, close_fold),
      cmocka_unit_test_teardown(what_is_taken_back_behind_the_end_is_a_turn_of_its_own, close_fold),
      cmocka_unit_test_teardown(what_was_applied_and_came_back_is_regret_and_carried_no_more, close_fold),
      cmocka_unit_test_teardown(what_is_kept_out_is_carried_in_every_request_until_a_compaction, close_fold),
      cmocka_unit_test_teardown(a_rewind_before_its_place_ends_what_is_carried, close_fold),
      cmocka_unit_test_teardown(a_session_end_closes_a_turn_that_has_something, close_fold),
      cmocka_unit_test_teardown(threads_have_their_own_turns_and_the_session_their_sum, close_fold),
      cmocka_unit_test_teardown(a_snapshot_is_restored_for_a_session_that_is_not_known, close_fold),
      cmocka_unit_test_teardown(a_restore_that_does_not_fit_is_refused_by_name, close_fold),
      cmocka_unit_test_teardown(a_restored_total_is_taken_as_it_was_given, close_fold),
      cmocka_unit_test_teardown(at_most_the_last_forty_turns_are_restored, close_fold),
      cmocka_unit_test_teardown(a_copy_under_another_name_adds_nothing_to_potential_savings_and_turns, close_fold),
      cmocka_unit_test_teardown(a_resumed_copy_counts_what_it_has_beyond_the_first, close_fold),
      cmocka_unit_test_teardown(what_was_applied_counts_though_its_call_came_before, close_fold),
      cmocka_unit_test_teardown(lazys_denominator_is_the_catalogue_and_the_skills, close_fold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
