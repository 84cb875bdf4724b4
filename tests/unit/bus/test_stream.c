#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "bus_test.h"

#define TOPIC_A CTXP_KIND_session_end
#define TOPIC_B CTXP_KIND_turn_end
#define HOUR UINT64_C(3600000)

static struct bus_dir dir;
static struct bus_stream s;
static struct ctxp_error err;
static struct ctxp_batch batch;

static int setup(void **state) {
  (void)state;
  bus_dir_make(&dir);
  bus_open(&s, dir.path, 64 << 20);
  err.text[0] = 0;
  return 0;
}
static int teardown(void **state) {
  (void)state;
  ctxp_batch_deinit(&batch);
  bus_close(&s);
  bus_dir_remove(&dir);
  return 0;
}
static void reopen(void) {
  bus_close(&s);
  bus_open(&s, dir.path, 64 << 20);
}

static struct ctxp_topics only(unsigned topic) {
  struct ctxp_topics topics = {0};
  ctxp_topics_add(&topics, topic);
  return topics;
}

static void numbers_have_no_holes_and_each_topic_knows_the_one_before(void **state) {
  (void)state;
  uint64_t prev;
  assert_int_equal(bus_append(&s, TOPIC_A, 0, "1", &prev), 1);
  assert_int_equal(prev, 0);
  assert_int_equal(bus_append(&s, TOPIC_B, 0, "2", &prev), 2);
  assert_int_equal(prev, 0);
  assert_int_equal(ctxp_stream_head(s.stream), 0);
  bus_commit(&s);
  assert_int_equal(ctxp_stream_head(s.stream), 2);
  uint64_t id = ctxp_stream_id(s.stream);
  reopen();
  assert_true(id != 0 && ctxp_stream_id(s.stream) == id);
  assert_int_equal(bus_append(&s, TOPIC_A, 0, "3", &prev), 3);
  assert_int_equal(prev, 1);
  assert_int_equal(ctxp_stream_topic_head(s.stream, TOPIC_A), 1); /* of what is committed */
  bus_commit(&s);
  assert_int_equal(ctxp_stream_topic_head(s.stream, TOPIC_A), 3);
}

static void what_was_not_committed_is_not_in_the_stream(void **state) {
  (void)state;
  bus_append(&s, TOPIC_A, 0, "1", NULL);
  bus_commit(&s);
  bus_append(&s, TOPIC_A, 0, "lost", NULL);
  reopen();
  assert_int_equal(ctxp_stream_head(s.stream), 1);
  bus_append(&s, TOPIC_A, 0, "lost too", NULL);
  ctxp_stream_abort(s.stream);
  assert_int_equal(bus_append(&s, TOPIC_A, 0, "2", NULL), 2);
  bus_commit(&s);
  struct ctxp_record record;
  ctxp_auto_buf body = {0}, wanted = {0};
  assert_int_equal(ctxp_stream_get(s.stream, 2, &body, &record, &err), 0);
  bus_body(&wanted, "2");
  assert_int_equal(record.body.len, wanted.len);
  assert_memory_equal(record.body.ptr, wanted.ptr, wanted.len);
  assert_int_equal(ctxp_stream_get(s.stream, 3, &body, &record, &err), 1);
}

static void a_batch_has_the_topics_asked_for_and_says_how_far_it_reaches(void **state) {
  (void)state;
  for (uint64_t i = 1; i <= 100; i++) bus_append(&s, i % 10 == 0 ? TOPIC_B : TOPIC_A, i, "x", NULL);
  bus_commit(&s);
  struct ctxp_topics b = only(TOPIC_B), a = only(TOPIC_A);
  assert_int_equal(ctxp_stream_read(s.stream, 0, 95, &b, 1000, 1 << 20, &batch, &err), 0);
  assert_int_equal(batch.count, 9);
  assert_int_equal(batch.upto, 95);
  for (unsigned i = 0; i < 9; i++) assert_int_equal(batch.rows[i].seq, 10 * (i + 1));
  assert_int_equal(ctxp_stream_read(s.stream, 8, 100, &a, 3, 1 << 20, &batch, &err), 0);
  assert_int_equal(batch.count, 3);
  assert_int_equal(batch.rows[2].seq, 12); /* 9, 11, 12 */
  assert_int_equal(batch.rows[2].cause, 12);
  assert_int_equal(batch.rows[2].ts_ms, 1012);
  assert_int_equal(batch.upto, 12);
  assert_int_equal(batch.upto_cause, 12);
  assert_int_equal(ctxp_stream_read(s.stream, 0, 100, &a, 1000, 1, &batch, &err), 0);
  assert_int_equal(batch.count, 1); /* however little is allowed */
  assert_int_equal(ctxp_stream_read(s.stream, 100, 100, &a, 10, 1 << 20, &batch, &err), 0);
  assert_int_equal(batch.count, 0);
  assert_int_equal(batch.upto, 100);
}

static void damage_is_named_with_the_event(void **state) {
  (void)state;
  char path[100];
  static char bytes[4 << 20];
  for (int i = 0; i < 5; i++) bus_append(&s, TOPIC_A, 0, i == 3 ? "this one is hit" : "fine", NULL);
  bus_commit(&s);
  bus_close(&s);
  snprintf(path, sizeof(path), "%s/data.mdb", dir.path);
  int fd = open(path, O_RDWR);
  ssize_t len = pread(fd, bytes, sizeof(bytes), 0);
  char *at = memmem(bytes, (size_t)len, "this one is hit", 15);
  assert_non_null(at);
  assert_int_equal(pwrite(fd, "T", 1, at - bytes), 1);
  close(fd);
  bus_open(&s, dir.path, 64 << 20);
  struct ctxp_topics a = only(TOPIC_A);
  assert_int_equal(ctxp_stream_read(s.stream, 0, 3, &a, 100, 1 << 20, &batch, &err), 0);
  assert_int_equal(batch.count, 3);
  assert_int_equal(ctxp_stream_read(s.stream, 0, 5, &a, 100, 1 << 20, &batch, &err), -EBADMSG);
  assert_non_null(strstr(err.text, "event 4 does not have its checksum"));
}

static struct ctxp_place place_at(uint64_t seq) {
  ctxp_auto_buf body = {0};
  struct ctxp_record record;
  assert_int_equal(ctxp_stream_get(s.stream, seq, &body, &record, &err), 0);
  return (struct ctxp_place){ctxp_stream_id(s.stream), seq, seq, ctxp_record_checksum(&record)};
}

static void a_cursor_fits_its_stream_and_no_other(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++) bus_append(&s, TOPIC_A, 0, "x", NULL);
  bus_commit(&s);
  struct ctxp_place at = place_at(4), none = {0};
  assert_int_equal(ctxp_stream_check(s.stream, &none, "n", &err), 0);
  assert_int_equal(ctxp_stream_check(s.stream, &at, "n", &err), 0);
  struct ctxp_place other_id = at, beyond = at, other_event = at;
  other_id.stream++;
  assert_int_equal(ctxp_stream_check(s.stream, &other_id, "n", &err), 1);
  assert_non_null(strstr(err.text, "was deleted or replaced"));
  beyond.seq = 9;
  assert_int_equal(ctxp_stream_check(s.stream, &beyond, "n", &err), 1);
  assert_non_null(strstr(err.text, "ends at event 5, and it was read up to event 9"));
  other_event.checksum++;
  assert_int_equal(ctxp_stream_check(s.stream, &other_event, "n", &err), 1);
  assert_non_null(strstr(err.text, "event 4 of stream"));
}

static void a_place_survives_being_packed(void **state) {
  (void)state;
  ctxp_auto_buf buf = {0};
  struct ctxp_place place = {UINT64_MAX, 7, 6, UINT64_C(0x8000000000000001)}, back;
  ctxp_place_pack(&buf, &place);
  struct ctxp_cursor at = ctxp_cursor(ctxp_buf_raw(&buf));
  assert_int_equal(ctxp_place_unpack(&at, &back), 0);
  assert_memory_equal(&place, &back, sizeof(place));
  for (size_t len = 0; len < buf.len; len++) { /* cut anywhere it is refused */
    at = ctxp_cursor((struct ctxp_raw){buf.ptr, len});
    assert_int_equal(ctxp_place_unpack(&at, &back), -EBADMSG);
  }
}

static void what_all_have_passed_and_is_old_is_deleted_and_numbers_go_on(void **state) {
  (void)state;
  bool more;
  for (int i = 0; i < 10; i++) bus_append(&s, TOPIC_A, 0, "x", NULL);
  assert_int_equal(ctxp_stream_commit(s.stream, 10 * HOUR, &err), 0);
  for (int i = 0; i < 10; i++) bus_append(&s, TOPIC_A, 0, "x", NULL);
  assert_int_equal(ctxp_stream_commit(s.stream, 20 * HOUR, &err), 0);
  struct ctxp_retention rule = {.done = 15, .retain_ms = 5 * HOUR, .utc_ms = 14 * HOUR};
  assert_int_equal(ctxp_stream_retain(s.stream, &rule, &more, &err), 0);
  assert_int_equal(ctxp_stream_first(s.stream), 1); /* four hours old at most */
  rule.utc_ms = 16 * HOUR;
  rule.done = 7;
  assert_int_equal(ctxp_stream_retain(s.stream, &rule, &more, &err), 0);
  assert_int_equal(ctxp_stream_first(s.stream), 8); /* a reader is at 7 */
  rule.done = 15;
  assert_int_equal(ctxp_stream_retain(s.stream, &rule, &more, &err), 0);
  assert_int_equal(ctxp_stream_first(s.stream), 11); /* the second ten are younger */
  uint64_t bytes = ctxp_stream_bytes(s.stream);
  rule.retain_ms = 0;
  rule.done = 20;
  assert_int_equal(ctxp_stream_retain(s.stream, &rule, &more, &err), 0);
  assert_int_equal(ctxp_stream_first(s.stream), 21);
  assert_true(bytes > 0);
  assert_int_equal(ctxp_stream_bytes(s.stream), 0);
  reopen();
  assert_int_equal(ctxp_stream_first(s.stream), 21);
  assert_int_equal(bus_append(&s, TOPIC_A, 0, "x", NULL), 21);
}

static void a_stream_that_reaches_its_bytes_is_full_until_its_readers_have_passed(void **state) {
  (void)state;
  bool more;
  static char text[4000];
  memset(text, 'x', sizeof(text) - 1);
  bus_close(&s);
  bus_open(&s, dir.path, 100000);
  uint64_t last = 0;
  while (!ctxp_stream_full(s.stream)) last = bus_append(&s, TOPIC_A, 0, text, NULL);
  bus_commit(&s);
  assert_true(last >= 13 && last <= 30);
  struct ctxp_retention rule = {.done = 0, .retain_ms = HOUR, .utc_ms = ctxp_clock_utc_ms()};
  assert_int_equal(ctxp_stream_retain(s.stream, &rule, &more, &err), 0);
  assert_true(ctxp_stream_full(s.stream));
  rule.done = 5; /* young as they are: the stream is full */
  assert_int_equal(ctxp_stream_retain(s.stream, &rule, &more, &err), 0);
  assert_false(ctxp_stream_full(s.stream));
  assert_in_range(ctxp_stream_first(s.stream), 2, 6); /* what makes a quarter free, and nothing that a reader lacks */
}

static void with_drop_the_oldest_go_though_a_reader_is_behind(void **state) {
  (void)state;
  bool more;
  static char text[4000];
  memset(text, 'x', sizeof(text) - 1);
  bus_close(&s);
  bus_open(&s, dir.path, 100000);
  while (!ctxp_stream_full(s.stream)) bus_append(&s, TOPIC_A, 0, text, NULL);
  bus_commit(&s);
  struct ctxp_retention rule = {.done = 0, .retain_ms = HOUR, .utc_ms = ctxp_clock_utc_ms(), .drop = true};
  assert_int_equal(ctxp_stream_retain(s.stream, &rule, &more, &err), 0);
  assert_true(ctxp_stream_first(s.stream) > 1);
  assert_true(ctxp_stream_first(s.stream) <= ctxp_stream_head(s.stream)); /* not more than is needed */
  assert_false(ctxp_stream_full(s.stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(numbers_have_no_holes_and_each_topic_knows_the_one_before, setup, teardown),
      cmocka_unit_test_setup_teardown(what_was_not_committed_is_not_in_the_stream, setup, teardown),
      cmocka_unit_test_setup_teardown(a_batch_has_the_topics_asked_for_and_says_how_far_it_reaches, setup, teardown),
      cmocka_unit_test_setup_teardown(damage_is_named_with_the_event, setup, teardown),
      cmocka_unit_test_setup_teardown(a_cursor_fits_its_stream_and_no_other, setup, teardown),
      cmocka_unit_test_setup_teardown(a_place_survives_being_packed, setup, teardown),
      cmocka_unit_test_setup_teardown(what_all_have_passed_and_is_old_is_deleted_and_numbers_go_on, setup, teardown),
      cmocka_unit_test_setup_teardown(a_stream_that_reaches_its_bytes_is_full_until_its_readers_have_passed, setup, teardown),
      cmocka_unit_test_setup_teardown(with_drop_the_oldest_go_though_a_reader_is_behind, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
