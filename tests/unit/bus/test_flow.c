/* A publisher and its subscriber over real sockets, in one thread: what is published arrives once, in order, without a hole. */
#include <errno.h>
#include <string.h>
#include "base/str.h"
#include "bus/publish.h"
#include "bus/subscribe.h"
#include "bus_test.h"

#define A CTXP_KIND_session_end
#define B CTXP_KIND_turn_end
#define C CTXP_KIND_compaction
#define DEADLINE_MS 20000

static struct bus_dir dir;
static struct bus_stream s;
static void *zmq;
static struct ctxp_publisher *pub;
static struct ctxp_sub *sub;
static struct ctxp_error err;
static char ep_pub[100], ep_replay[100];
static int sub_result;

static void start_publisher(void) {
  struct ctxp_publisher_options options = {.zmq = zmq, .node = "up", .pub = ep_pub, .replay = ep_replay, .stream = s.stream};
  if (ctxp_publisher_new(&options, &pub, &err) < 0) fail_msg("%s", err.text);
  const char *const names[] = {"down"};
  assert_int_equal(ctxp_publisher_subscribers(pub, names, 1), 0);
}

static void start_sub(const unsigned *topics, const struct ctxp_place *place) {
  struct ctxp_sub_options options = {.zmq = zmq, .node = "down", .upstream = "up", .pub = ep_pub, .replay = ep_replay};
  for (; *topics; topics++) ctxp_topics_add(&options.topics, *topics);
  if (place) options.place = *place;
  if (ctxp_sub_new(&options, &sub, &err) < 0) fail_msg("%s", err.text);
}
static const unsigned all[] = {A, B, C, CTXP_KIND_gap, 0}, only_b[] = {B, 0};

static int setup(void **state) {
  (void)state;
  bus_dir_make(&dir);
  bus_open(&s, dir.path, 256 << 20);
  zmq = zmq_ctx_new();
  snprintf(ep_pub, sizeof(ep_pub), "ipc://%s/pub", dir.path);
  snprintf(ep_replay, sizeof(ep_replay), "ipc://%s/replay", dir.path);
  pub = NULL;
  sub = NULL;
  sub_result = 0;
  err.text[0] = 0;
  return 0;
}
static int teardown(void **state) {
  (void)state;
  sub = ctxp_sub_free(sub);
  pub = ctxp_publisher_free(pub);
  zmq_ctx_term(zmq);
  bus_close(&s);
  bus_dir_remove(&dir);
  return 0;
}

static void publish(unsigned topic, uint64_t cause, const char *text) {
  ctxp_auto_buf buf = {0};
  uint64_t prev;
  struct ctxp_record record = {.cause = cause, .ts_ms = 5, .topic = topic, .body = bus_body(&buf, text)};
  assert_int_equal(ctxp_stream_append(s.stream, &record, &prev, &err), 0);
  if (pub) assert_int_equal(ctxp_publisher_add(pub, &record, prev), 0);
}
static void flush(enum ctxp_flow_state state) {
  bus_commit(&s);
  if (!pub) return;
  ctxp_publisher_set(pub, ctxp_stream_head(s.stream), state);
  ctxp_publisher_flush(pub, ctxp_clock_ms());
}

/* `count` events, `per` a commit, topics A, B, A, C in turn; the text is the number */
static void publish_many(uint64_t count, uint64_t per) {
  static const unsigned turn[] = {A, B, A, C};
  for (uint64_t i = 0; i < count; i++) {
    char text[32];
    uint64_t seq = ctxp_stream_next(s.stream);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)seq);
    publish(turn[seq % 4], seq, text);
    if ((i + 1) % per == 0 || i + 1 == count) flush(CTXP_FLOW_LIVE);
  }
}

static void serve(void) {
  zmq_pollitem_t items[CTXP_PUBLISHER_ITEMS];
  ctxp_publisher_items(pub, items);
  zmq_poll(items, CTXP_PUBLISHER_ITEMS, 1);
  assert_int_equal(ctxp_publisher_ready(pub, items, ctxp_clock_ms(), &err), 0);
  ctxp_publisher_tick(pub, ctxp_clock_ms());
}
static void hear(void) {
  zmq_pollitem_t items[CTXP_SUB_ITEMS];
  ctxp_sub_items(sub, items);
  zmq_poll(items, CTXP_SUB_ITEMS, 1);
  sub_result = ctxp_sub_ready(sub, items, ctxp_clock_ms(), &err);
  ctxp_sub_tick(sub, ctxp_clock_ms());
}

/* takes events until number `last` is behind us; each must be the next one of its topics, and be what was appended */
static uint64_t taken_seq, taken_count;
static void take_until(uint64_t last, const unsigned *topics) {
  ctxp_auto_buf body = {0};
  struct ctxp_record record;
  struct ctxp_item item;
  uint64_t end = ctxp_clock_ms() + DEADLINE_MS;
  while (ctxp_sub_place(sub).seq < last && ctxp_clock_ms() < end) {
    if (pub) serve();
    hear();
    assert_int_equal(sub_result, 0);
    while (ctxp_sub_peek(sub, &item)) {
      assert_true(item.seq > taken_seq);
      for (uint64_t seq = taken_seq + 1; seq < item.seq; seq++) { /* what lies between is of other topics */
        assert_int_equal(ctxp_stream_get(s.stream, seq, &body, &record, &err), 0);
        for (const unsigned *topic = topics; *topic; topic++) assert_int_not_equal(record.topic, *topic);
      }
      assert_int_equal(ctxp_stream_get(s.stream, item.seq, &body, &record, &err), 0);
      assert_int_equal(item.topic, record.topic);
      assert_int_equal(item.cause, record.cause);
      assert_int_equal(item.ts_ms, record.ts_ms);
      assert_int_equal(item.body.len, record.body.len);
      assert_memory_equal(item.body.ptr, record.body.ptr, record.body.len);
      taken_seq = item.seq;
      taken_count++;
      ctxp_sub_next(sub);
    }
  }
  assert_int_equal(ctxp_sub_place(sub).seq, last);
}
static void begin_taking(uint64_t from) {
  taken_seq = from;
  taken_count = 0;
}

static struct ctxp_sub_figures figures(void) {
  struct ctxp_sub_figures f;
  ctxp_sub_figures(sub, &f);
  return f;
}
static void until_live(void) {
  uint64_t end = ctxp_clock_ms() + DEADLINE_MS;
  while (!figures().live && ctxp_clock_ms() < end) {
    serve();
    hear();
    assert_int_equal(sub_result, 0);
  }
  assert_true(figures().live);
}

static void live_events_of_several_topics_come_in_the_order_of_their_numbers(void **state) {
  (void)state;
  start_publisher();
  start_sub(all, NULL);
  until_live();
  begin_taking(0);
  publish_many(100, 7);
  take_until(100, all);
  assert_int_equal(taken_count, 100);
  assert_int_equal(ctxp_sub_watermark(sub), 100);
  assert_int_equal(figures().gaps, 0);
  assert_int_equal(figures().refused, 0);
}

static void a_subscriber_of_one_topic_gets_no_other_and_knows_how_far_it_is(void **state) {
  (void)state;
  start_publisher();
  start_sub(only_b, NULL);
  until_live();
  begin_taking(0);
  publish_many(99, 10);
  take_until(99, only_b);
  assert_int_equal(taken_count, 25);
  assert_int_equal(ctxp_sub_complete(sub), 99);
}

static void what_was_published_before_is_caught_up_with_in_batches(void **state) {
  (void)state;
  start_publisher();
  publish_many(30000, 1000);
  start_sub(all, NULL);
  begin_taking(0);
  take_until(30000, all);
  assert_int_equal(taken_count, 30000);
  publish_many(10, 1);
  take_until(30010, all);
  assert_int_equal(taken_count, 30010);
}

static void messages_that_a_full_queue_dropped_are_replayed(void **state) {
  (void)state;
  start_publisher();
  start_sub(all, NULL);
  until_live();
  begin_taking(0);
  publish_many(5000, 1); /* five thousand messages and heads, and nobody reads: most are dropped */
  take_until(5000, all);
  assert_int_equal(taken_count, 5000);
  assert_true(figures().gaps > 0);
}

static void one_that_does_not_take_what_it_has_does_not_grow(void **state) {
  (void)state;
  static char text[2000];
  uint64_t end;
  memset(text, 'x', sizeof(text) - 1);
  start_publisher();
  start_sub(all, NULL);
  until_live();
  for (int i = 0; i < 20000; i++) { /* 40 MB */
    publish(A, 0, text);
    if (i % 50 == 49) flush(CTXP_FLOW_LIVE);
    if (i % 500 == 499) hear(), serve();
  }
  for (end = ctxp_clock_ms() + 300; ctxp_clock_ms() < end;) hear(), serve();
  assert_true(figures().held > 0);
  assert_true(figures().held < 9000); /* 4 MiB at hand, 8 MiB held, a batch of 1 MiB */
  begin_taking(0);
  take_until(20000, all);
  assert_int_equal(taken_count, 20000);
}

static void a_place_is_gone_on_from_without_a_repeat(void **state) {
  (void)state;
  start_publisher();
  start_sub(all, NULL);
  begin_taking(0);
  publish_many(50, 10);
  take_until(50, all);
  struct ctxp_place place = ctxp_sub_place(sub);
  assert_int_equal(place.check_seq, 50);
  sub = ctxp_sub_free(sub);
  publish_many(50, 10);
  start_sub(all, &place);
  begin_taking(50);
  take_until(100, all);
  assert_int_equal(taken_count, 50);
}

static void a_publisher_that_comes_back_with_its_stream_is_gone_on_with(void **state) {
  (void)state;
  start_publisher();
  start_sub(all, NULL);
  begin_taking(0);
  publish_many(50, 10);
  take_until(50, all);
  pub = ctxp_publisher_free(pub);
  publish_many(50, 10); /* committed, and died before it could publish */
  start_publisher();
  publish_many(50, 10);
  take_until(150, all);
  assert_int_equal(taken_count, 150);
}

static void until_refused(void) {
  uint64_t end = ctxp_clock_ms() + DEADLINE_MS;
  while (sub_result == 0 && ctxp_clock_ms() < end) {
    serve();
    hear();
  }
}

static void another_stream_in_the_same_place_is_diverged(void **state) {
  (void)state;
  char other[120];
  start_publisher();
  start_sub(all, NULL);
  begin_taking(0);
  publish_many(20, 10);
  take_until(20, all);
  pub = ctxp_publisher_free(pub);
  bus_close(&s);
  snprintf(other, sizeof(other), "%s/other", dir.path);
  bus_open(&s, other, 64 << 20);
  start_publisher();
  publish_many(30, 10);
  until_refused();
  assert_int_equal(sub_result, -ESTALE);
  assert_non_null(strstr(err.text, "node 'down' cannot go on behind 'up'"));
  assert_non_null(strstr(err.text, "was deleted or replaced"));
}

static void a_stream_that_lost_its_end_is_diverged_even_when_it_has_grown_again(void **state) {
  (void)state;
  char saved[200];
  start_publisher();
  publish_many(20, 10);
  snprintf(saved, sizeof(saved), "cp %s/data.mdb %s/saved", dir.path, dir.path);
  assert_int_equal(system(saved), 0);
  start_sub(all, NULL);
  begin_taking(0);
  publish_many(20, 10);
  take_until(40, all);
  pub = ctxp_publisher_free(pub);
  bus_close(&s);
  snprintf(saved, sizeof(saved), "mv %s/saved %s/data.mdb", dir.path, dir.path);
  assert_int_equal(system(saved), 0);
  bus_open(&s, dir.path, 256 << 20);
  assert_int_equal(ctxp_stream_head(s.stream), 20);
  for (int i = 0; i < 40; i++) publish(A, 0, "something else");
  flush(CTXP_FLOW_LIVE);
  start_publisher();
  until_refused();
  assert_int_equal(sub_result, -ESTALE);
  assert_non_null(strstr(err.text, "event 40 of stream"));
}

static void what_was_given_up_comes_as_a_gap(void **state) {
  (void)state;
  bool more = true;
  struct ctxp_item item = {0};
  struct ctxp_event event;
  start_publisher();
  publish_many(100, 10);
  struct ctxp_retention rule = {.done = 40, .utc_ms = ctxp_clock_utc_ms()};
  assert_int_equal(ctxp_stream_retain(s.stream, &rule, &more, &err), 0);
  start_sub(all, NULL);
  for (uint64_t end = ctxp_clock_ms() + DEADLINE_MS; !ctxp_sub_peek(sub, &item) && ctxp_clock_ms() < end;) serve(), hear();
  assert_int_equal(item.seq, 40);
  assert_int_equal(ctxp_event_decode(item.body.ptr, item.body.len, &event, NULL, NULL), 0);
  assert_int_equal(event.kind, CTXP_KIND_gap);
  assert_int_equal(event.gap.from, 1);
  assert_int_equal(event.gap.to, 40);
  assert_int_equal(event.gap.count, 40);
  assert_int_equal(event.gap.side, CTXP_GAP_stream);
  ctxp_sub_next(sub);
  begin_taking(40);
  take_until(100, all);
  assert_int_equal(taken_count, 60);
}

static void an_end_mark_is_seen_when_everything_before_it_was_taken(void **state) {
  (void)state;
  start_publisher();
  start_sub(all, NULL);
  until_live();
  publish(A, 0, "last");
  flush(CTXP_FLOW_ENDED);
  struct ctxp_item item;
  for (uint64_t end = ctxp_clock_ms() + DEADLINE_MS; !ctxp_sub_peek(sub, &item) && ctxp_clock_ms() < end;) serve(), hear();
  assert_int_equal(ctxp_sub_state_seen(sub), CTXP_FLOW_ENDED);
  assert_int_equal(ctxp_sub_state(sub), CTXP_FLOW_LIVE);
  ctxp_sub_next(sub);
  assert_int_equal(ctxp_sub_state(sub), CTXP_FLOW_ENDED);
}

static void checkpoints_are_reported_and_the_least_counts(void **state) {
  (void)state;
  const char *const names[] = {"down", "other"};
  start_publisher();
  assert_int_equal(ctxp_publisher_subscribers(pub, names, 2), 0);
  start_sub(all, NULL);
  begin_taking(0);
  publish_many(20, 10);
  take_until(20, all);
  struct ctxp_place place = ctxp_sub_place(sub);
  ctxp_sub_report(sub, &place, true);
  for (uint64_t end = ctxp_clock_ms() + 200; ctxp_clock_ms() < end;) serve();
  assert_int_equal(ctxp_publisher_done(pub), 0); /* 'other' has reported nothing */
  assert_false(ctxp_publisher_all_ended(pub));
  assert_int_equal(ctxp_publisher_subscribers(pub, names, 1), 0); /* it is no longer in the topology */
  assert_int_equal(ctxp_publisher_done(pub), 20);
  assert_true(ctxp_publisher_all_ended(pub));
}

static void garbage_on_every_socket_is_counted_and_harms_nobody(void **state) {
  (void)state;
  static const char *const garbage[] = {"", "x", "\x96\x01\x01", "\xdd\xff\xff\xff\xff", "\x96\x02\x01\x01\x94\x01\x01\x01\x01\x00\x90",
      ("\x95\x01\x02\xa4"
       "down")};
  start_publisher();
  start_sub(all, NULL);
  until_live();
  void *dealer = zmq_socket(zmq, ZMQ_DEALER);
  int linger = 0;
  zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof(linger));
  assert_int_equal(zmq_connect(dealer, ep_replay), 0);
  for (size_t i = 0; i < 6; i++) assert_true(zmq_send(dealer, garbage[i], strlen(garbage[i]), 0) >= 0);
  for (uint64_t end = ctxp_clock_ms() + DEADLINE_MS; ctxp_publisher_refused(pub) < 6 && ctxp_clock_ms() < end;) serve();
  assert_int_equal(ctxp_publisher_refused(pub), 6);
  zmq_close(dealer);
  begin_taking(0);
  publish_many(10, 5);
  take_until(10, all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(live_events_of_several_topics_come_in_the_order_of_their_numbers, setup, teardown),
      cmocka_unit_test_setup_teardown(a_subscriber_of_one_topic_gets_no_other_and_knows_how_far_it_is, setup, teardown),
      cmocka_unit_test_setup_teardown(what_was_published_before_is_caught_up_with_in_batches, setup, teardown),
      cmocka_unit_test_setup_teardown(messages_that_a_full_queue_dropped_are_replayed, setup, teardown),
      cmocka_unit_test_setup_teardown(one_that_does_not_take_what_it_has_does_not_grow, setup, teardown),
      cmocka_unit_test_setup_teardown(a_place_is_gone_on_from_without_a_repeat, setup, teardown),
      cmocka_unit_test_setup_teardown(a_publisher_that_comes_back_with_its_stream_is_gone_on_with, setup, teardown),
      cmocka_unit_test_setup_teardown(another_stream_in_the_same_place_is_diverged, setup, teardown),
      cmocka_unit_test_setup_teardown(a_stream_that_lost_its_end_is_diverged_even_when_it_has_grown_again, setup, teardown),
      cmocka_unit_test_setup_teardown(what_was_given_up_comes_as_a_gap, setup, teardown),
      cmocka_unit_test_setup_teardown(an_end_mark_is_seen_when_everything_before_it_was_taken, setup, teardown),
      cmocka_unit_test_setup_teardown(checkpoints_are_reported_and_the_least_counts, setup, teardown),
      cmocka_unit_test_setup_teardown(garbage_on_every_socket_is_counted_and_harms_nobody, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
