#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <cmocka.h>
#include "bus/answers.h"
#include "bus/client_queue.h"
#include "bus/ingest.h"

static void assert_bytes(const struct ctxp_buf *buf, const char *bytes, size_t len) {
  assert_int_equal(buf->len, len);
  assert_memory_equal(buf->ptr, bytes, len);
}
#define ASSERT_BYTES(buf, literal) assert_bytes(buf, literal, sizeof(literal) - 1)

static struct ctxp_ingest decode(const struct ctxp_buf *buf) {
  struct ctxp_ingest m;
  const char *reason = "";
  if (ctxp_ingest_decode(ctxp_buf_raw(buf), &m, &reason) < 0) fail_msg("%s", reason);
  return m;
}

static void write_hello(struct ctxp_buf *out) {
  struct ctxp_ingest_hello hello = {CTXP_STR("x"), CTXP_STR("k"), CTXP_STR("a"), CTXP_STR("pi"), 1, 2, 3, {0}};
  const struct ctxp_ingest_outcome outcomes[] = {{4, CTXP_OUTCOME_APPLIED}, {500, CTXP_OUTCOME_LOST}};
  ctxp_ingest_write_hello(out, &hello, outcomes, 2);
}

static void hello_has_these_bytes_and_comes_back(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  write_hello(&out);
  ASSERT_BYTES(&out,
      "\x93\x01\xa5hello\x88\xa6"
      "client\xa1x\xa3key\xa1k\xa5"
      "agent\xa1"
      "a\xa7product\xa2pi\xa5nonce\x01\xa6stream\x02\xa4"
      "base\x03\xa8outcomes\x92\x92\x04\xa7"
      "applied\x92\xcd\x01\xf4\xa4lost");
  struct ctxp_ingest m = decode(&out);
  struct ctxp_ingest_outcome o;
  assert_int_equal(m.op, CTXP_INGEST_HELLO);
  assert_true(ctxp_str_is(m.hello.key, "k") && ctxp_str_is(m.hello.agent, "a") && ctxp_str_is(m.hello.product, "pi"));
  assert_int_equal(m.hello.stream, 2);
  assert_int_equal(m.hello.base, 3);
  assert_int_equal(ctxp_ingest_next_outcome(&m.hello.outcomes, &o), 1);
  assert_int_equal(o.seq, 4);
  assert_int_equal(o.outcome, CTXP_OUTCOME_APPLIED);
  assert_int_equal(ctxp_ingest_next_outcome(&m.hello.outcomes, &o), 1);
  assert_int_equal(o.seq, 500);
  assert_int_equal(o.outcome, CTXP_OUTCOME_LOST);
  assert_int_equal(ctxp_ingest_next_outcome(&m.hello.outcomes, &o), 0);
}

static void events_have_these_bytes_and_come_back(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  ctxp_ingest_write_events(&out, 7, 2);
  ctxp_ingest_write_item(&out, 8, (struct ctxp_raw){(const uint8_t *)"\x80", 1});
  ctxp_ingest_write_item(&out, 300, (struct ctxp_raw){(const uint8_t *)"zz", 2});
  ASSERT_BYTES(&out, "\x94\x01\xa6"
                     "events\x07\x92\x92\x08\xc4\x01\x80\x92\xcd\x01\x2c\xc4\x02zz");
  struct ctxp_ingest m = decode(&out);
  uint64_t seq;
  struct ctxp_raw body;
  assert_int_equal(m.events.prev, 7);
  assert_int_equal(ctxp_ingest_item(&m.events.items, &seq, &body), 1);
  assert_int_equal(seq, 8);
  assert_int_equal(body.len, 1);
  assert_int_equal(ctxp_ingest_item(&m.events.items, &seq, &body), 1);
  assert_int_equal(seq, 300);
  assert_memory_equal(body.ptr, "zz", 2);
  assert_int_equal(ctxp_ingest_item(&m.events.items, &seq, &body), 0);
}

static void the_collectors_messages_have_these_bytes_and_come_back(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  ctxp_ingest_write_ack(&out, 9, 200);
  ASSERT_BYTES(&out, "\x94\x01\xa3"
                     "ack\x09\xcc\xc8");
  struct ctxp_ingest m = decode(&out);
  assert_int_equal(m.ack.seq, 9);
  assert_int_equal(m.ack.instance, 200);

  struct ctxp_ingest_welcome w = {1, 2, 3, 4, 5, 6, 7, 8, 9, CTXP_STR("prompt: keep why")};
  ctxp_buf_reset(&out);
  ctxp_ingest_write_welcome(&out, &w);
  m = decode(&out);
  assert_memory_equal(&m.welcome, &w, offsetof(struct ctxp_ingest_welcome, refusal));
  assert_true(ctxp_str_eq(m.welcome.refusal, w.refusal));

  struct ctxp_ingest_refused refused = {5, CTXP_STR("prompt"), CTXP_STR("keep"), CTXP_STR("why")};
  ctxp_buf_reset(&out);
  ctxp_ingest_write_refused(&out, &refused);
  ASSERT_BYTES(&out, "\x93\x01\xa7refused\x84\xa3seq\x05\xa4kind\xa6prompt\xa5"
                     "field\xa4keep\xa6reason\xa3why");
  m = decode(&out);
  assert_true(ctxp_str_is(m.refused.field, "keep"));

  struct ctxp_ingest_answer answer = {6, 7, {(const uint8_t *)"\x81\xa9unchanged\xc3", 12}};
  ctxp_buf_reset(&out);
  ctxp_ingest_write_answer(&out, &answer);
  ASSERT_BYTES(&out, "\x95\x01\xa6"
                     "answer\x06\x07\x81\xa9unchanged\xc3");
  m = decode(&out);
  assert_true(ctxp_map_bool(m.answer.actions, "unchanged", false));

  ctxp_buf_reset(&out);
  ctxp_ingest_write_bare(&out, CTXP_INGEST_GREET);
  ASSERT_BYTES(&out, "\x92\x01\xa5greet");
  assert_int_equal(decode(&out).op, CTXP_INGEST_GREET);
}

/* every cut, and every byte set to others: no crash, no read beyond (a copy of its exact size under the sanitizer), and a reason */
static void no_cut_or_changed_message_harms(void **state) {
  (void)state;
  struct ctxp_buf messages[3] = {{0}, {0}, {0}};
  struct ctxp_ingest_welcome w = {1, 2, 3, 4, 5, 6, 7, 8, 9, CTXP_STR("why")};
  write_hello(&messages[0]);
  ctxp_ingest_write_events(&messages[1], 7, 1);
  ctxp_ingest_write_item(&messages[1], 8, (struct ctxp_raw){(const uint8_t *)"\x81\xa4kind\xa8turn_end", 15});
  ctxp_ingest_write_welcome(&messages[2], &w);
  for (int i = 0; i < 3; i++) {
    for (size_t cut = 0; cut < messages[i].len; cut++) {
      uint8_t *copy = malloc(cut ? cut : 1);
      struct ctxp_ingest m;
      const char *reason = NULL;
      memcpy(copy, messages[i].ptr, cut);
      int r = ctxp_ingest_decode((struct ctxp_raw){copy, cut}, &m, &reason);
      uint64_t seq;
      struct ctxp_raw body;
      if (r == 0) { /* events: the cut shows at the item */
        assert_int_equal(m.op, CTXP_INGEST_EVENTS);
        assert_int_equal(ctxp_ingest_item(&m.events.items, &seq, &body), -EBADMSG);
      } else {
        assert_non_null(reason);
      }
      free(copy);
    }
    for (size_t at = 0; at < messages[i].len; at++) {
      static const uint8_t heads[] = {0x00, 0x7f, 0x80, 0x8f, 0x9f, 0xc0, 0xc1, 0xc4, 0xc6, 0xcf, 0xdb, 0xdd, 0xdf, 0xff};
      for (size_t h = 0; h < sizeof(heads); h++) {
        struct ctxp_ingest m;
        const char *reason = NULL;
        uint64_t seq;
        struct ctxp_raw body;
        uint8_t *copy = malloc(messages[i].len);
        memcpy(copy, messages[i].ptr, messages[i].len);
        copy[at] = heads[h];
        int r = ctxp_ingest_decode((struct ctxp_raw){copy, messages[i].len}, &m, &reason);
        assert_true(r == 0 || reason);
        for (int more = r == 0 && m.op == CTXP_INGEST_EVENTS; more > 0;) more = ctxp_ingest_item(&m.events.items, &seq, &body);
        free(copy);
      }
    }
  }
  for (int i = 0; i < 3; i++) ctxp_buf_deinit(&messages[i]);
}

static void refusal_is(const char *bytes, size_t len, int code, const char *reason) {
  struct ctxp_ingest m;
  const char *said = "";
  assert_int_equal(ctxp_ingest_decode((struct ctxp_raw){(const uint8_t *)bytes, len}, &m, &said), code);
  assert_string_equal(said, reason);
}

static void what_is_wrong_with_a_message_is_said(void **state) {
  (void)state;
  refusal_is("", 0, -EBADMSG, "a message must be an array of protocol, operation, arguments");
  refusal_is("\x92\x02\xa5greet", 8, -EPROTO, "this version speaks protocol 1 of the ingest alone");
  refusal_is("\x92\x01\xa5grxet", 8, -EBADMSG, "unknown operation");
  refusal_is("\x93\x01\xa5greet\x00", 9, -EBADMSG, "wrong number of arguments");
  refusal_is("\x92\x01\xa5greet\x00", 9, -EBADMSG, "bytes behind the end of the message");
  refusal_is("\x93\x01\xa8outcomes\x91\x92\x01\xa4good", 19, -EBADMSG, "outcomes must hold pairs of a number and an outcome");
  refusal_is("\x93\x01\xa5hello\x80", 9, -EBADMSG, "hello: `key` must be a text of 1 to 200 bytes");
  refusal_is("\x93\x01\xa5hello\x81\xa3key\xa1k", 15, -EBADMSG, "hello: `agent` must be a text of 1 to 200 bytes");
}

static void a_verdict_comes_back_and_garbage_does_not(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  struct ctxp_verdict v = {CTXP_STR("bash"), 77, CTXP_VERDICT_ACTIONS, {(const uint8_t *)"\x81\xa1x\x01", 4}}, got;
  ctxp_verdict_write(&out, &v);
  ASSERT_BYTES(&out, "\x94\x01\xa4"
                     "bash\x4d\x81\xa1x\x01");
  assert_int_equal(ctxp_verdict_read(ctxp_buf_raw(&out), &got), 0);
  assert_int_equal(got.ask_seq, 77);
  assert_int_equal(got.kind, CTXP_VERDICT_ACTIONS);
  assert_int_equal(got.actions.len, 4);
  for (size_t cut = 0; cut < out.len; cut++) assert_int_equal(ctxp_verdict_read((struct ctxp_raw){out.ptr, cut}, &got), -EBADMSG);
  v.kind = CTXP_VERDICT_WORKING;
  ctxp_buf_reset(&out);
  ctxp_verdict_write(&out, &v);
  assert_int_equal(ctxp_verdict_read(ctxp_buf_raw(&out), &got), 0);
  assert_int_equal(got.kind, CTXP_VERDICT_WORKING);
}

static struct ctxp_event turn(uint64_t number) {
  return (struct ctxp_event){.kind = CTXP_KIND_turn_end, .agent = CTXP_STR("a"), .session = CTXP_STR("s"), .turn_end = {.turn = number}};
}

static void a_queue_keeps_its_items_in_order_through_drops_and_new_numbers(void **state) {
  (void)state;
  struct ctxp_queue q = {0};
  for (uint64_t i = 1; i <= 3000; i++) {
    struct ctxp_event ev = turn(i);
    assert_int_equal(ctxp_queue_add(&q, &ev, i, true, 1000), 0);
    if (i % 3 == 0) assert_int_equal(ctxp_queue_drop(&q, i / 3 * 2), 2);
  }
  assert_int_equal(q.tail - q.head, 1000);
  assert_int_equal(ctxp_queue_renumber(&q, 50), 1050);
  ctxp_auto_buf message = {0};
  struct ctxp_raw items = ctxp_queue_range(&q, q.head, q.tail);
  ctxp_ingest_write_events(&message, 50, 1000);
  ctxp_buf_add(&message, items.ptr, items.len);
  struct ctxp_ingest m = decode(&message);
  for (uint64_t i = 0; i < 1000; i++) {
    uint64_t seq;
    struct ctxp_raw body;
    struct ctxp_event ev;
    assert_int_equal(ctxp_ingest_item(&m.events.items, &seq, &body), 1);
    assert_int_equal(seq, 51 + i);
    assert_int_equal(ctxp_event_decode(body.ptr, body.len, &ev, NULL, NULL), 0);
    assert_int_equal(ev.turn_end.turn, 2001 + i);
  }
  struct ctxp_event large = turn(1);
  assert_int_equal(ctxp_queue_add(&q, &large, 1051, true, 10), -EMSGSIZE);
  assert_int_equal(q.tail - q.head, 1000);
  assert_int_equal(ctxp_queue_drop(&q, 2000), 1000);
  assert_int_equal(ctxp_queue_bytes(&q), 0);
  ctxp_queue_deinit(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hello_has_these_bytes_and_comes_back),
      cmocka_unit_test(events_have_these_bytes_and_come_back),
      cmocka_unit_test(the_collectors_messages_have_these_bytes_and_come_back),
      cmocka_unit_test(no_cut_or_changed_message_harms),
      cmocka_unit_test(what_is_wrong_with_a_message_is_said),
      cmocka_unit_test(a_verdict_comes_back_and_garbage_does_not),
      cmocka_unit_test(a_queue_keeps_its_items_in_order_through_drops_and_new_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
