/* The client library and the collector over real sockets, stores and streams, in temporary directories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <pthread.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/str.h"
#include "bus/answers.h"
#include "ctxpipe/client.h"
#include "world.h"

#define WAIT 10000 /* ms; nothing here takes that long unless it is broken */

struct refusal {
  unsigned count;
  uint64_t seq;
  char text[256];
};
struct fixture {
  struct world w;
  struct ctxp_client *clients[2];
  struct refusal refusal;
  void *zmq, *mechanism; /* a DEALER to the answers socket */
};

static void on_refused(void *data, uint64_t seq, struct ctxp_str kind, struct ctxp_str field, struct ctxp_str reason) {
  struct refusal *r = data;
  r->count++;
  r->seq = seq;
  snprintf(r->text, sizeof(r->text), "%.*s/%.*s/%.*s", (int)kind.len, kind.ptr, (int)field.len, field.ptr, (int)reason.len, reason.ptr);
}

static int setup(void **state) {
  struct fixture *f = calloc(1, sizeof(*f));
  world_make(&f->w);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  for (int i = 0; i < 2; i++) ctxp_client_free(f->clients[i]);
  if (f->mechanism) zmq_close(f->mechanism);
  if (f->zmq) zmq_ctx_term(f->zmq);
  world_remove(&f->w);
  free(f);
  return 0;
}

static struct ctxp_client *client_with(struct fixture *f, int i, const char *key, size_t buffer, size_t batch) {
  struct ctxp_error err;
  struct ctxp_client_options o = {.endpoint = f->w.endpoint,
      .key = key,
      .agent = "pi@dev",
      .product = "pi",
      .buffer_bytes = buffer,
      .batch_bytes = batch,
      .refused = on_refused,
      .data = &f->refusal};
  if (ctxp_client_new(&o, &f->clients[i], &err) < 0) fail_msg("%s", err.text);
  return f->clients[i];
}
static struct ctxp_client *client(struct fixture *f, int i, const char *key) { return client_with(f, i, key, 0, 0); }

static struct ctxp_event turn(uint64_t number) {
  return (struct ctxp_event){.kind = CTXP_KIND_turn_end, .session = CTXP_STR("s"), .turn_end = {.turn = number}};
}

static void send_turn(struct ctxp_client *c, uint64_t number, uint64_t seq) {
  struct ctxp_event ev = turn(number);
  struct ctxp_error err;
  if (ctxp_client_send(c, &ev, seq, WAIT, &err) != 0) fail_msg("%s", err.text);
}

static void flush(struct ctxp_client *c) {
  struct ctxp_error err = {{0}};
  int r = ctxp_client_flush(c, WAIT, &err);
  if (r != 0) fail_msg("not flushed: %d %s", r, err.text);
}

static void sent_events_are_in_the_stream_once_and_in_order(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  for (uint64_t i = 1; i <= 3; i++) send_turn(c, i, 0);
  flush(c);
  struct ctxp_client_counts counts;
  ctxp_client_counts(c, &counts);
  assert_int_equal(counts.sent, 3);
  assert_int_equal(counts.acked, 3);
  assert_int_equal(counts.position, 3);
  assert_int_equal(counts.pending_bytes, 0);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:1 turn_end:2 turn_end:3");
  struct ctxp_event ev = world_event(&f->w, CTXP_KIND_turn_end, 0);
  assert_true(ctxp_str_is(ev.agent, "pi@dev"));
  assert_true(ev.ts_ms > 1700000000000);
}

static void the_first_event_of_every_start_is_the_topology(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  world_stop(&f->w);
  world_start(&f->w);
  world_stop(&f->w);
  struct ctxp_event ev = world_event(&f->w, CTXP_KIND_topology, 1);
  assert_int_equal(ev.seq, 2);
  struct ctxp_derivation d;
  assert_int_equal(ev.topology.mechanisms.count, 2);
  assert_int_equal(ctxp_list_next(&ev.topology.mechanisms, &ctxp_shape_derivation, &d), 1);
  assert_true(ctxp_str_is(d.node, "bash") && ctxp_str_is(d.daemon, "digest"));
  assert_int_equal(d.version, 3);
  struct ctxp_prices *prices;
  assert_int_equal(ctxp_prices_decode(ev.topology.prices, &prices), 0); /* none named: the empty table */
  assert_int_equal(ctxp_prices_count(prices), 0);
  ctxp_prices_free(prices);
}

static void events_queued_before_there_is_a_collector_arrive_when_there_is_one(void **state) {
  struct fixture *f = *state;
  struct ctxp_client *c = client(f, 0, "k");
  struct ctxp_error err;
  send_turn(c, 1, 0);
  send_turn(c, 2, 0);
  assert_int_equal(ctxp_client_flush(c, 20, &err), 1);
  world_start(&f->w);
  flush(c);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:1 turn_end:2");
}

static void crash_in(struct fixture *f, enum world_crash where) {
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  send_turn(c, 1, 0);
  flush(c);
  f->w.crash = where;
  send_turn(c, 2, 0);
  world_wait_crash(&f->w);
  send_turn(c, 3, 0);
  struct ctxp_client_counts counts;
  ctxp_client_counts(c, &counts);
  assert_int_equal(counts.acked, 1);
  world_start(&f->w);
  flush(c);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:1 turn_end:2 turn_end:3");
}
static void a_collector_that_dies_before_the_commit_gets_the_event_again(void **state) { crash_in(*state, WORLD_CRASH_BEFORE_COMMIT); }
static void a_collector_that_dies_between_commit_and_ack_counts_the_event_once(void **state) { crash_in(*state, WORLD_CRASH_BEFORE_ACK); }

static void a_client_that_starts_again_goes_on_at_its_keys_position(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  uint64_t position = 77;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "file");
  for (uint64_t seq = 10; seq <= 30; seq += 10) send_turn(c, seq, seq);
  flush(c);
  f->clients[0] = ctxp_client_free(c);
  world_stop(&f->w);
  world_start(&f->w);
  c = client(f, 0, "file");
  assert_int_equal(ctxp_client_hello(c, WAIT, &position, &err), 0);
  assert_int_equal(position, 30);
  for (uint64_t seq = 10; seq <= 40; seq += 10) send_turn(c, seq, seq); /* all of the file again, and one more */
  flush(c);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:10 turn_end:20 turn_end:30 turn_end:40");
}

static void an_explicit_number_queued_before_the_welcome_is_no_repeat_in_the_stream(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "file");
  send_turn(c, 10, 10);
  flush(c);
  f->clients[0] = ctxp_client_free(c);
  c = client(f, 0, "file");
  send_turn(c, 10, 10);
  send_turn(c, 20, 20);
  flush(c);
  struct ctxp_client_counts counts;
  ctxp_client_counts(c, &counts);
  assert_int_equal(counts.position, 20);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:10 turn_end:20");
}

static void the_newest_connection_has_the_key_and_the_older_is_told(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  world_start(&f->w);
  struct ctxp_client *old = client(f, 0, "k"), *new = client(f, 1, "k");
  send_turn(old, 1, 0);
  flush(old);
  send_turn(new, 2, 0);
  flush(new);
  struct ctxp_event ev = turn(3);
  uint64_t end = ctxp_clock_ms() + WAIT;
  int r = 0;
  while (r == 0 && ctxp_clock_ms() < end) r = ctxp_client_flush(old, 0, &err); /* it hears of it in any call */
  assert_int_equal(r, -ESTALE);
  assert_string_equal(err.text, "client 'k': another client uses this key now");
  assert_int_equal(ctxp_client_send(old, &ev, 0, 0, &err), -ESTALE);
  send_turn(new, 4, 0);
  flush(new);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:1 turn_end:2 turn_end:4");
}

static void a_refused_event_is_named_and_the_next_one_counts(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  struct ctxp_error err;
  struct ctxp_event bad = {.kind = CTXP_KIND_session_end, .session = CTXP_STR("s")};
  ctxp_set(&bad.session_end, session_end, reason, CTXP_STR("\xff"));
  assert_int_equal(ctxp_client_send(c, &bad, 0, 0, &err), 0);
  send_turn(c, 1, 0);
  flush(c);
  assert_int_equal(f->refusal.count, 1);
  assert_int_equal(f->refusal.seq, 1);
  assert_string_equal(f->refusal.text, "//is not one MessagePack value with texts in UTF-8 and at most 32 levels");
  struct ctxp_client_counts counts;
  ctxp_client_counts(c, &counts);
  assert_int_equal(counts.refused, 1);
  assert_int_equal(counts.acked, 2);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:1");
  assert_int_equal(f->w.refused, 1);
  assert_string_equal(
      f->w.last_refusal, "agent 'pi@dev', client 'k', event 1 ():  is not one MessagePack value with texts in UTF-8 and at most 32 levels");
}

static void a_client_that_comes_back_hears_what_was_refused_of_it_before(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  struct ctxp_str first;
  uint64_t position;
  struct ctxp_event bad = {.kind = CTXP_KIND_session_end, .session = CTXP_STR("s")};
  ctxp_set(&bad.session_end, session_end, reason, CTXP_STR("\xff"));
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  assert_int_equal(ctxp_client_send(c, &bad, 0, 0, &err), 0);
  send_turn(c, 1, 0);
  flush(c);
  assert_int_equal(ctxp_client_refused_before(c, &first), 0);
  world_stop(&f->w);
  world_start(&f->w); /* from its store */
  c = client(f, 1, "k");
  assert_int_equal(ctxp_client_hello(c, 10000, &position, &err), 0);
  assert_int_equal(ctxp_client_refused_before(c, &first), 1);
  assert_true(ctxp_str_is(first, "event: is not one MessagePack value with texts in UTF-8 and at most 32 levels"));
  assert_int_equal(ctxp_client_rekey(c, "other", NULL, NULL, 10000, &err), 0);
  assert_int_equal(ctxp_client_hello(c, 10000, &position, &err), 0);
  assert_int_equal(ctxp_client_refused_before(c, &first), 0);
  assert_int_equal(first.len, 0);
  world_stop(&f->w);
}

static void a_refusal_alone_is_acknowledged_too(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  uint64_t position;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  struct ctxp_event bad = {.kind = CTXP_KIND_session_end, .session = CTXP_STR("\xff")};
  assert_int_equal(ctxp_client_send(c, &bad, 0, 0, &err), 0);
  flush(c);
  world_stop(&f->w);
  world_start(&f->w);
  f->clients[0] = ctxp_client_free(c);
  c = client(f, 0, "k");
  assert_int_equal(ctxp_client_hello(c, WAIT, &position, &err), 0);
  assert_int_equal(position, 1);
}

static void only_what_an_agent_sends_is_sent(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  struct ctxp_client *c = client(f, 0, "k");
  struct ctxp_event ev = {.kind = CTXP_KIND_lazy, .session = CTXP_STR("s")};
  assert_int_equal(ctxp_client_send(c, &ev, 0, 0, &err), -EINVAL);
  ev.kind = CTXP_KIND_topology;
  assert_int_equal(ctxp_client_send(c, &ev, 0, 0, &err), -EINVAL);
  ev = turn(1);
  assert_int_equal(ctxp_client_send(c, &ev, 5, 0, &err), 0);
  assert_int_equal(ctxp_client_send(c, &ev, 5, 0, &err), -EINVAL);
  assert_string_equal(err.text, "client 'k': number 5 is not above 5");
}

static void a_full_buffer_is_said_and_takes_again_when_there_is_room(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  struct ctxp_client *c = client_with(f, 0, "k", 2000, 0);
  struct ctxp_event ev = turn(1);
  int r = 0;
  uint64_t sent = 0;
  while (r == 0 && sent < 1000) {
    ev.turn_end.turn = sent + 1;
    r = ctxp_client_send(c, &ev, 0, 5, &err);
    if (r == 0) sent++;
  }
  assert_int_equal(r, 1);
  assert_in_range(sent, 5, 100);
  world_start(&f->w);
  assert_int_equal(ctxp_client_send(c, &ev, 0, WAIT, &err), 0);
  flush(c);
  struct ctxp_client_counts counts;
  ctxp_client_counts(c, &counts);
  assert_int_equal(counts.acked, sent + 1);
}

static void an_event_above_the_limit_is_refused_by_the_client_that_knows_it_and_by_the_collector(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  uint64_t position;
  f->w.options.max_event_bytes = 500;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  char text[600];
  memset(text, 'x', sizeof(text));
  struct ctxp_event ev = {.kind = CTXP_KIND_session_end, .session = CTXP_STR("s")};
  ctxp_set(&ev.session_end, session_end, reason, (struct ctxp_str){text, sizeof(text)});
  assert_int_equal(ctxp_client_send(c, &ev, 0, 0, &err), 0); /* before it is welcomed it does not know */
  assert_int_equal(ctxp_client_hello(c, WAIT, &position, &err), 0);
  flush(c);
  assert_int_equal(f->refusal.count, 1);
  assert_string_equal(f->refusal.text, "session_end//has 659 bytes, above the limit of 500 (max_event_bytes)");
  assert_int_equal(ctxp_client_send(c, &ev, 0, 0, &err), -EMSGSIZE);
  assert_string_equal(
      err.text, "client 'k': the session_end event is above the limit of 500 bytes; cut its text and give the full length in textUnits");
}

static void twenty_thousand_events_in_batches_arrive_once_each(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  struct ctxp_client *c = client_with(f, 0, "k", 1 << 20, 32768);
  struct ctxp_error err;
  for (uint64_t i = 1; i <= 20000; i++) {
    if (i == 7000) f->w.crash = WORLD_CRASH_BEFORE_ACK; /* the collector dies in between */
    send_turn(c, i, 0);
    if (i == 7000) {
      while (!world_ended(&f->w)) assert_true(ctxp_client_flush(c, 20, &err) >= 0);
      world_wait_crash(&f->w);
      world_start(&f->w);
    }
  }
  flush(c);
  world_stop(&f->w);
  const char *at = world_events(&f->w);
  for (uint64_t i = 1; i <= 20000; i++) {
    char want[32];
    int len = snprintf(want, sizeof(want), "turn_end:%llu", (unsigned long long)i);
    assert_memory_equal(at, want, (size_t)len);
    at += len;
    assert_true(i < 20000 ? *at++ == ' ' : *at == 0);
  }
}

static void a_client_may_go_on_as_another_over_the_same_connection(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  world_start(&f->w);
  struct ctxp_client *c = client_with(f, 0, "one", 0, 4096);
  send_turn(c, 1, 0);
  assert_int_equal(ctxp_client_rekey(c, "two", "claude-code", NULL, WAIT, &err), 0);
  send_turn(c, 2, 0);
  assert_int_equal(ctxp_client_rekey(c, "one", "pi@dev", NULL, WAIT, &err), 0);
  uint64_t position;
  assert_int_equal(ctxp_client_hello(c, WAIT, &position, &err), 0);
  assert_int_equal(position, 1);
  send_turn(c, 3, 0);
  flush(c);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:1 turn_end:2 turn_end:3");
  assert_true(ctxp_str_is(world_event(&f->w, CTXP_KIND_turn_end, 1).agent, "claude-code"));
}

static void a_full_stream_takes_nothing_until_there_is_room(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  send_turn(c, 1, 0);
  flush(c);
  f->w.full = 1;
  world_wait_round(&f->w);
  send_turn(c, 2, 0);
  assert_int_equal(ctxp_client_flush(c, 50, &err), 1);
  f->w.full = 0;
  flush(c);
}

static void what_nobody_behind_could_count_is_refused_by_name_before_it_is_acknowledged(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  struct ctxp_event p = {.kind = CTXP_KIND_prompt, .session = CTXP_STR("s"), .prompt = {.callId = CTXP_STR("c1")}};
  ctxp_set(&p.prompt, prompt, usage, (struct ctxp_usage){.input = 1});
  ctxp_set(&p.prompt.usage, usage, cacheRead, CTXP_MAX_CLASS_TOKENS);
  assert_int_equal(ctxp_client_send(c, &p, 0, 0, &err), 0);
  flush(c);
  assert_int_equal(f->refusal.count, 0);
  p.prompt.usage.cacheRead++;
  assert_int_equal(ctxp_client_send(c, &p, 0, 0, &err), 0);
  ctxp_set(&p.prompt, prompt, keep, 1);
  p.prompt.usage.cacheRead = 0;
  flush(c);
  assert_string_equal(f->refusal.text, "prompt/usage.cacheRead/is 4294967296; it can be at most 4294967295");
  assert_int_equal(f->refusal.seq, 2);
  assert_int_equal(ctxp_client_send(c, &p, 0, 0, &err), 0); /* its predecessor is not in the stream */
  flush(c);
  assert_string_equal(f->refusal.text, "prompt/keep/builds on a prompt that is missing after a gap; send the whole `request`");
  struct ctxp_event m = {
      .kind = CTXP_KIND_context_message, .session = CTXP_STR("s"), .context_message = {.id = CTXP_STR("m"), .tokens = UINT64_C(1) << 28}};
  assert_int_equal(ctxp_client_send(c, &m, 0, 0, &err), 0);
  flush(c);
  assert_string_equal(f->refusal.text, "context_message/tokens/is 268435456; it can be at most 268435455");
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "prompt");
}

static void an_event_of_no_session_is_refused_by_name_but_for_a_gap(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  struct ctxp_event gap = {.kind = CTXP_KIND_gap, .gap = {.count = 1}}, end = {.kind = CTXP_KIND_turn_end};
  assert_int_equal(ctxp_client_send(c, &gap, 0, 0, &err), 0);
  assert_int_equal(ctxp_client_send(c, &end, 0, 0, &err), 0);
  flush(c);
  assert_int_equal(f->refusal.count, 1);
  assert_string_equal(f->refusal.text, "turn_end/session/is missing; it names the conversation that the event belongs to");
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "gap");
}

static void a_keep_whose_predecessor_was_refused_is_refused_until_a_whole_request_comes(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  struct ctxp_event p = {.kind = CTXP_KIND_prompt, .session = CTXP_STR("s"), .prompt = {.callId = CTXP_STR("c1")}};
  ctxp_set(&p.prompt, prompt, keep, 2);
  struct ctxp_event gap = {.kind = CTXP_KIND_gap, .session = CTXP_STR("s"), .gap = {.count = 1}};
  assert_int_equal(ctxp_client_send(c, &p, 0, 0, &err), 0);
  assert_int_equal(ctxp_client_send(c, &gap, 0, 0, &err), 0);
  assert_int_equal(ctxp_client_send(c, &p, 0, 0, &err), 0);
  flush(c);
  assert_int_equal(f->refusal.count, 1);
  assert_string_equal(f->refusal.text, "prompt/keep/builds on a prompt that is missing after a gap; send the whole `request`");
  world_stop(&f->w); /* it is remembered beyond a restart */
  world_start(&f->w);
  assert_int_equal(ctxp_client_send(c, &p, 0, 0, &err), 0);
  flush(c);
  assert_int_equal(f->refusal.count, 2);
  p.prompt.has = 0;
  ctxp_set(&p.prompt, prompt, request, (struct ctxp_list){0});
  assert_int_equal(ctxp_client_send(c, &p, 0, 0, &err), 0);
  flush(c);
  assert_int_equal(f->refusal.count, 2);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "prompt gap prompt");
}

static void nothing_is_acknowledged_while_commits_fail_and_nothing_is_lost(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  send_turn(c, 1, 0);
  flush(c);
  f->w.crash = WORLD_FAIL_COMMIT; /* as a full disk */
  send_turn(c, 2, 0);
  send_turn(c, 3, 0);
  assert_int_equal(ctxp_client_flush(c, 100, &err), 1);
  assert_true(f->w.aborted > 0);
  f->w.crash = WORLD_RUN;
  flush(c);
  struct ctxp_client_counts counts;
  ctxp_client_counts(c, &counts);
  assert_int_equal(counts.acked, 3);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:1 turn_end:2 turn_end:3");
}

/* ---- asking ---- */
static struct ctxp_event shell_result(void) {
  return (struct ctxp_event){.kind = CTXP_KIND_tool_result,
      .session = CTXP_STR("s"),
      .tool_result = {.toolCallId = CTXP_STR("c1"), .tool = CTXP_STR("bash"), .text = CTXP_STR("out")}};
}

struct asking {
  struct fixture *f;
  struct ctxp_event event;
  int timeout_ms, result;
  char answer[128];
  struct ctxp_error err;
};

static void *ask_in_thread(void *data) {
  struct asking *a = data;
  struct ctxp_raw answer;
  a->result = ctxp_client_ask(a->f->clients[0], &a->event, a->timeout_ms, &answer, &a->err);
  if (a->result == 0) {
    struct ctxp_str text = ctxp_map_str(ctxp_map_get(answer, "replace"), "text");
    snprintf(a->answer, sizeof(a->answer), "%s%.*s", ctxp_map_bool(answer, "unchanged", false) ? "unchanged" : "replace:", (int)text.len,
        text.ptr);
  }
  return NULL;
}

static pthread_t begin_ask(struct asking *a) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, ask_in_thread, a), 0);
  return thread;
}

static void verdict(struct fixture *f, const char *node, uint64_t ask_seq, const char *text) {
  ctxp_auto_buf out = {0}, actions = {0};
  struct ctxp_verdict v = {ctxp_str(node), ask_seq, CTXP_VERDICT_PASS, {0}};
  if (!f->mechanism) {
    f->zmq = zmq_ctx_new();
    f->mechanism = zmq_socket(f->zmq, ZMQ_DEALER);
    int linger = 0;
    zmq_setsockopt(f->mechanism, ZMQ_LINGER, &linger, sizeof(linger));
    assert_int_equal(zmq_connect(f->mechanism, f->w.answers), 0);
  }
  if (text) {
    v.kind = CTXP_VERDICT_ACTIONS;
    ctxp_pack_map(&actions, 1);
    ctxp_pack_cstr(&actions, "replace");
    ctxp_pack_map(&actions, 1);
    ctxp_pack_cstr(&actions, "text");
    ctxp_pack_cstr(&actions, text);
    v.actions = ctxp_buf_raw(&actions);
  }
  ctxp_verdict_write(&out, &v);
  assert_int_equal(zmq_send(f->mechanism, out.ptr, out.len, 0), (int)out.len);
}

static void an_ask_gets_the_mechanisms_answer(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  client(f, 0, "k");
  struct asking a = {.f = f, .event = shell_result(), .timeout_ms = WAIT};
  pthread_t thread = begin_ask(&a);
  world_wait_head(&f->w, 2);
  verdict(f, "bash", 2, "short");
  pthread_join(thread, NULL);
  assert_int_equal(a.result, 0);
  assert_string_equal(a.answer, "replace:short");
  send_turn(f->clients[0], 1, 0);
  flush(f->clients[0]);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "tool_result turn_end:1"); /* applied: nothing was missed */
}

static void an_ask_that_all_pass_is_unchanged(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  client(f, 0, "k");
  struct asking a = {.f = f, .event = {.kind = CTXP_KIND_context, .session = CTXP_STR("s")}, .timeout_ms = WAIT};
  pthread_t thread = begin_ask(&a);
  world_wait_head(&f->w, 2);
  verdict(f, "bash", 2, NULL);
  verdict(f, "amnesia", 2, NULL);
  pthread_join(thread, NULL);
  assert_string_equal(a.answer, "unchanged");
}

static void an_ask_that_nobody_can_act_on_is_unchanged_at_once(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  client(f, 0, "k");
  struct asking a = {.f = f, .event = shell_result(), .timeout_ms = WAIT};
  a.event.tool_result.tool = CTXP_STR("read");
  pthread_join(begin_ask(&a), NULL);
  assert_string_equal(a.answer, "unchanged");
}

static void a_silent_mechanism_counts_as_a_pass_and_is_told_that_it_was_late(void **state) {
  struct fixture *f = *state;
  f->w.options.answer_grace_ms = 60;
  world_start(&f->w);
  client(f, 0, "k");
  struct asking a = {.f = f, .event = shell_result(), .timeout_ms = WAIT};
  pthread_t thread = begin_ask(&a);
  pthread_join(thread, NULL);
  assert_string_equal(a.answer, "unchanged");
  world_wait_head(&f->w, 3);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "tool_result answer_missed:timeout/bash");
  assert_int_equal(world_event(&f->w, CTXP_KIND_answer_missed, 0).answer_missed.askSeq, 2);
}

static void an_ask_that_the_agent_gave_up_is_missed_by_the_collectors_number(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  client(f, 0, "k");
  send_turn(f->clients[0], 1, 0);
  struct asking a = {.f = f, .event = shell_result(), .timeout_ms = 50};
  pthread_join(begin_ask(&a), NULL);
  assert_int_equal(a.result, 1);
  flush(f->clients[0]);
  verdict(f, "bash", 3, "too late");
  send_turn(f->clients[0], 2, 3); /* what is said of an answer takes none of the client's numbers */
  flush(f->clients[0]);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:1 tool_result answer_missed:timeout turn_end:2");
  struct ctxp_event missed = world_event(&f->w, CTXP_KIND_answer_missed, 0);
  assert_int_equal(missed.answer_missed.askSeq, 3);
  assert_true(ctxp_str_is(missed.session, "s") && ctxp_str_is(missed.agent, "pi@dev"));
}

static void an_agent_may_say_later_that_it_could_not_apply_the_answer(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  world_start(&f->w);
  client(f, 0, "k");
  struct asking a = {.f = f, .event = shell_result(), .timeout_ms = WAIT};
  pthread_t thread = begin_ask(&a);
  world_wait_head(&f->w, 2);
  verdict(f, "bash", 2, "short");
  pthread_join(thread, NULL);
  assert_int_equal(ctxp_client_missed(f->clients[0], "bored", &err), -EINVAL);
  assert_int_equal(ctxp_client_missed(f->clients[0], "refused", &err), 0);
  assert_int_equal(ctxp_client_number(f->clients[0], 1, &err), -EINVAL); /* the ask had it */
  assert_int_equal(ctxp_client_number(f->clients[0], 900, &err), 0);
  send_turn(f->clients[0], 1, 0);
  flush(f->clients[0]);
  struct ctxp_client_counts counts;
  ctxp_client_counts(f->clients[0], &counts);
  assert_int_equal(counts.position, 900);
  assert_int_equal(f->refusal.count, 0);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "tool_result answer_missed:refused turn_end:1");
}

static void an_ask_that_was_open_when_the_collector_died_is_missed_and_its_agent_goes_on(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  client(f, 0, "k");
  struct asking a = {.f = f, .event = shell_result(), .timeout_ms = WAIT};
  f->w.crash = WORLD_CRASH_BEFORE_ACK;
  pthread_t thread = begin_ask(&a);
  world_wait_crash(&f->w);
  world_start(&f->w);
  pthread_join(thread, NULL);
  assert_int_equal(a.result, 0);
  assert_string_equal(a.answer, "unchanged");
  flush(f->clients[0]);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "tool_result answer_missed:lost");
}

static void an_answer_that_nobody_confirms_is_missed(void **state) {
  struct fixture *f = *state;
  f->w.options.confirm_ms = 100;
  f->w.options.answer_grace_ms = 3000;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  struct ctxp_event ev = shell_result();
  struct ctxp_error err;
  ctxp_set(&ev.tool_result, tool_result, ask, true);
  assert_int_equal(ctxp_client_send(c, &ev, 0, WAIT, &err), 0); /* an agent that asks and dies */
  flush(c);
  f->clients[0] = ctxp_client_free(c);
  verdict(f, "bash", 2, "short");
  world_wait_head(&f->w, 3);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "tool_result answer_missed:lost");
}

static void a_missed_answer_is_said_again_if_its_commit_failed(void **state) {
  struct fixture *f = *state;
  f->w.options.answer_grace_ms = 300;
  f->w.options.confirm_ms = 100;
  world_start(&f->w);
  struct ctxp_client *c = client(f, 0, "k");
  struct ctxp_event ev = shell_result();
  struct ctxp_error err;
  ctxp_set(&ev.tool_result, tool_result, ask, true);
  assert_int_equal(ctxp_client_send(c, &ev, 0, WAIT, &err), 0);
  flush(c);
  f->w.crash = WORLD_FAIL_COMMIT;
  f->clients[0] = ctxp_client_free(c);
  uint64_t end = ctxp_clock_ms() + WAIT;
  while (f->w.aborted == 0 && ctxp_clock_ms() < end) world_wait_round(&f->w);
  assert_true(f->w.aborted > 0);
  f->w.crash = WORLD_RUN;
  world_wait_head(&f->w, 3);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "tool_result answer_missed:lost");
}

static void a_confirmed_answer_stays_applied_through_a_restart(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  client(f, 0, "k");
  struct asking a = {.f = f, .event = shell_result(), .timeout_ms = WAIT};
  pthread_t thread = begin_ask(&a);
  world_wait_head(&f->w, 2);
  f->w.crash = WORLD_CRASH_BEFORE_COMMIT; /* the confirmation is never committed */
  verdict(f, "bash", 2, "short");
  pthread_join(thread, NULL);
  assert_string_equal(a.answer, "replace:short");
  world_wait_crash(&f->w);
  world_start(&f->w);
  send_turn(f->clients[0], 1, 0);
  flush(f->clients[0]);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "tool_result turn_end:1");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(sent_events_are_in_the_stream_once_and_in_order),
      CASE(the_first_event_of_every_start_is_the_topology),
      CASE(events_queued_before_there_is_a_collector_arrive_when_there_is_one),
      CASE(a_collector_that_dies_before_the_commit_gets_the_event_again),
      CASE(a_collector_that_dies_between_commit_and_ack_counts_the_event_once),
      CASE(a_client_that_starts_again_goes_on_at_its_keys_position),
      CASE(an_explicit_number_queued_before_the_welcome_is_no_repeat_in_the_stream),
      CASE(the_newest_connection_has_the_key_and_the_older_is_told),
      CASE(a_refused_event_is_named_and_the_next_one_counts),
      CASE(a_client_that_comes_back_hears_what_was_refused_of_it_before),
      CASE(a_refusal_alone_is_acknowledged_too),
      CASE(only_what_an_agent_sends_is_sent),
      CASE(a_full_buffer_is_said_and_takes_again_when_there_is_room),
      CASE(an_event_above_the_limit_is_refused_by_the_client_that_knows_it_and_by_the_collector),
      CASE(twenty_thousand_events_in_batches_arrive_once_each),
      CASE(a_client_may_go_on_as_another_over_the_same_connection),
      CASE(a_full_stream_takes_nothing_until_there_is_room),
      CASE(what_nobody_behind_could_count_is_refused_by_name_before_it_is_acknowledged),
      CASE(an_event_of_no_session_is_refused_by_name_but_for_a_gap),
      CASE(a_keep_whose_predecessor_was_refused_is_refused_until_a_whole_request_comes),
      CASE(nothing_is_acknowledged_while_commits_fail_and_nothing_is_lost),
      CASE(an_ask_gets_the_mechanisms_answer),
      CASE(an_ask_that_all_pass_is_unchanged),
      CASE(an_ask_that_nobody_can_act_on_is_unchanged_at_once),
      CASE(a_silent_mechanism_counts_as_a_pass_and_is_told_that_it_was_late),
      CASE(an_ask_that_the_agent_gave_up_is_missed_by_the_collectors_number),
      CASE(an_agent_may_say_later_that_it_could_not_apply_the_answer),
      CASE(an_ask_that_was_open_when_the_collector_died_is_missed_and_its_agent_goes_on),
      CASE(an_answer_that_nobody_confirms_is_missed),
      CASE(a_missed_answer_is_said_again_if_its_commit_failed),
      CASE(a_confirmed_answer_stays_applied_through_a_restart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
