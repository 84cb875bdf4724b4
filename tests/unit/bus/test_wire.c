/* Frames between nodes: what was packed comes back, what was cut or changed is refused or decodes to something whole, never crashes. */
#include <errno.h>
#include <string.h>
#include "base/str.h"
#include "bus/wire.h"
#include "bus_test.h"

static struct ctxp_error err;
static struct ctxp_items items;

static int teardown(void **state) {
  (void)state;
  free(items.at);
  items = (struct ctxp_items){0};
  return 0;
}

static void pack_rows(struct ctxp_buf *out, const uint64_t *seqs, uint32_t count) {
  ctxp_pack_array(out, count);
  for (uint32_t i = 0; i < count; i++) {
    ctxp_auto_buf body = {0};
    ctxp_pack_array(out, 4);
    ctxp_pack_u64(out, seqs[i]);
    ctxp_pack_u64(out, seqs[i] / 2);
    ctxp_pack_u64(out, 1000);
    ctxp_pack_raw(out, bus_body(&body, "x"));
  }
}

static void every_topic_has_a_text_that_names_it_alone(void **state) {
  (void)state;
  unsigned named = 0;
  for (unsigned topic = 1; topic < CTXP_TOPICS; topic++) {
    char text[CTXP_TOPIC_MAX], cut[CTXP_TOPIC_MAX];
    ctxp_topic_text(topic, text);
    if (text[0] == '?' || topic == CTXP_KIND_tool_result) continue;
    named++;
    assert_int_equal(ctxp_wire_topic(ctxp_str(text)), topic);
    snprintf(cut, sizeof(cut), "%.*s", (int)strlen(text) - 1, text);
    assert_int_equal(ctxp_wire_topic(ctxp_str(cut)), CTXP_TOPICS);
  }
  assert_true(named > 30);
  assert_int_equal(ctxp_wire_topic(CTXP_STR("")), CTXP_TOPICS);
  assert_int_equal(ctxp_wire_topic(CTXP_STR("tool_result/hack/")), CTXP_TOPICS);
}

static void one_event_and_several_come_back_from_a_message(void **state) {
  (void)state;
  ctxp_auto_buf header = {0}, one = {0}, many = {0};
  const uint64_t seqs[] = {7, 9, 12};
  uint64_t prev;
  struct ctxp_record first = {.seq = 7, .cause = 3, .ts_ms = 1000};
  ctxp_wire_pack_header(&header, &first, 5);
  bus_body(&one, "x");
  assert_int_equal(ctxp_wire_message(CTXP_KIND_lazy, ctxp_buf_raw(&header), ctxp_buf_raw(&one), &prev, &items, &err), 0);
  assert_int_equal(items.count, 1);
  assert_int_equal(prev, 5);
  assert_int_equal(items.at[0].seq, 7);
  assert_int_equal(items.at[0].cause, 3);
  assert_int_equal(items.at[0].topic, CTXP_KIND_lazy);
  pack_rows(&many, seqs, 3);
  assert_int_equal(ctxp_wire_message(CTXP_KIND_lazy, ctxp_buf_raw(&header), ctxp_buf_raw(&many), &prev, &items, &err), 0);
  assert_int_equal(items.count, 3);
  for (unsigned i = 0; i < 3; i++) {
    assert_int_equal(items.at[i].seq, seqs[i]);
    assert_int_equal(items.at[i].body.len, one.len);
    assert_memory_equal(items.at[i].body.ptr, one.ptr, one.len);
  }
}

static void numbers_that_do_not_rise_are_refused(void **state) {
  (void)state;
  ctxp_auto_buf header = {0}, same = {0}, falling = {0}, other = {0};
  uint64_t prev;
  struct ctxp_record first = {.seq = 7};
  ctxp_wire_pack_header(&header, &first, 5);
  pack_rows(&same, (const uint64_t[]){7, 7}, 2);
  pack_rows(&falling, (const uint64_t[]){7, 6}, 2);
  pack_rows(&other, (const uint64_t[]){8, 9}, 2);
  assert_int_equal(ctxp_wire_message(CTXP_KIND_lazy, ctxp_buf_raw(&header), ctxp_buf_raw(&same), &prev, &items, &err), -EBADMSG);
  assert_int_equal(ctxp_wire_message(CTXP_KIND_lazy, ctxp_buf_raw(&header), ctxp_buf_raw(&falling), &prev, &items, &err), -EBADMSG);
  assert_int_equal(ctxp_wire_message(CTXP_KIND_lazy, ctxp_buf_raw(&header), ctxp_buf_raw(&other), &prev, &items, &err), -EBADMSG);
}

static void a_frame_of_another_version_is_refused_by_name(void **state) {
  (void)state;
  static const uint8_t header[] = {0x95, 0x02, 0x07, 0x05, 0x03, 0x01};
  uint64_t prev;
  ctxp_auto_buf body = {0};
  bus_body(&body, "x");
  assert_int_equal(
      ctxp_wire_message(CTXP_KIND_lazy, (struct ctxp_raw){header, sizeof(header)}, ctxp_buf_raw(&body), &prev, &items, &err), -EPROTO);
  assert_string_equal(err.text, "a header has version 2, this node speaks version 1; run all nodes from one build");
}

static struct ctxp_wire_head a_head(void) {
  struct ctxp_wire_head head = {.stream = UINT64_MAX, .epoch = 3, .seq = 500, .watermark = 499, .state = CTXP_FLOW_ENDED};
  head.topic[CTXP_KIND_lazy] = 500;
  head.topic[CTXP_TOPICS - 1] = 17;
  return head;
}

static void a_head_comes_back(void **state) {
  (void)state;
  ctxp_auto_buf header = {0}, body = {0};
  struct ctxp_wire_head head = a_head(), back;
  ctxp_wire_pack_head(&header, &body, &head);
  assert_int_equal(ctxp_wire_head(ctxp_buf_raw(&header), ctxp_buf_raw(&body), &back, &err), 0);
  assert_memory_equal(&head, &back, sizeof(head));
}

static void requests_reports_and_answers_come_back(void **state) {
  (void)state;
  ctxp_auto_buf request = {0}, report = {0}, answer = {0}, rows = {0};
  struct ctxp_wire_request q = {.number = 4, .to = 9, .place = {1, 2, 3, 4}}, q2;
  struct ctxp_wire_report p = {.node = CTXP_STR("fold"), .place = {1, 2, 3, 4}, .ended = true}, p2;
  struct ctxp_wire_answer a = {4, 1, 2, 3, 8, 5, 9, CTXP_REPLAY_DIVERGED, CTXP_STR("why")}, a2;
  ctxp_topics_add(&q.topics, CTXP_KIND_lazy);
  ctxp_topics_add(&q.topics, CTXP_TOPICS - 1);
  ctxp_wire_pack_request(&request, &q);
  assert_int_equal(ctxp_wire_asked(ctxp_buf_raw(&request), &q2, &p2, &err), 1);
  assert_memory_equal(&q, &q2, sizeof(q));
  ctxp_wire_pack_report(&report, &p);
  assert_int_equal(ctxp_wire_asked(ctxp_buf_raw(&report), &q2, &p2, &err), 2);
  assert_true(ctxp_str_is(p2.node, "fold") && p2.ended);
  assert_memory_equal(&p.place, &p2.place, sizeof(p.place));
  ctxp_wire_pack_answer(&answer, &a);
  struct ctxp_batch none = {0};
  ctxp_wire_pack_batch(&rows, &none);
  assert_int_equal(ctxp_wire_answer(ctxp_buf_raw(&answer), ctxp_buf_raw(&rows), &a2, &items, &err), 0);
  assert_int_equal(a2.upto, 8);
  assert_int_equal(a2.head, 9);
  assert_int_equal(a2.status, CTXP_REPLAY_DIVERGED);
  assert_true(ctxp_str_is(a2.text, "why"));
}

/* every cut, and every byte set to a few values: a decoder may say yes, but must not read beyond what it was given */
static void try_all(struct ctxp_raw bytes, void (*decode)(struct ctxp_raw)) {
  static const uint8_t values[] = {0x00, 0x7f, 0x81, 0x90, 0xc0, 0xc6, 0xcf, 0xdd, 0xdf, 0xff};
  for (size_t len = 0; len <= bytes.len; len++) {
    uint8_t *copy = malloc(len ? len : 1); /* of its own, so that a sanitizer sees its end */
    memcpy(copy, bytes.ptr, len);
    decode((struct ctxp_raw){copy, len});
    for (size_t i = 0; len == bytes.len && i < len; i++)
      for (size_t v = 0; v < sizeof(values); v++) {
        uint8_t before = copy[i];
        copy[i] = values[v];
        decode((struct ctxp_raw){copy, len});
        copy[i] = before;
      }
    free(copy);
  }
}

static struct ctxp_raw good_header, good_body;
static unsigned decoded;
static void note(int r) {
  assert_true(r >= 0 || r == -EBADMSG || r == -EPROTO);
  decoded += r >= 0;
}
static void decode_message_header(struct ctxp_raw raw) {
  uint64_t prev;
  note(ctxp_wire_message(CTXP_KIND_lazy, raw, good_body, &prev, &items, &err));
}
static void decode_message_body(struct ctxp_raw raw) {
  uint64_t prev;
  note(ctxp_wire_message(CTXP_KIND_lazy, good_header, raw, &prev, &items, &err));
}
static void decode_head_header(struct ctxp_raw raw) {
  struct ctxp_wire_head head;
  note(ctxp_wire_head(raw, good_body, &head, &err));
}
static void decode_head_body(struct ctxp_raw raw) {
  struct ctxp_wire_head head;
  note(ctxp_wire_head(good_header, raw, &head, &err));
}
static void decode_asked(struct ctxp_raw raw) {
  struct ctxp_wire_request request;
  struct ctxp_wire_report report;
  note(ctxp_wire_asked(raw, &request, &report, &err));
}

static void cut_and_changed_frames_are_refused_or_whole(void **state) {
  (void)state;
  ctxp_auto_buf header = {0}, body = {0}, head_header = {0}, head_body = {0}, request = {0}, report = {0};
  struct ctxp_record first = {.seq = 7, .cause = 3, .ts_ms = 1000};
  struct ctxp_wire_head head = a_head();
  struct ctxp_wire_request q = {.number = 4, .place = {1, 2, 3, 4}};
  struct ctxp_wire_report p = {.node = CTXP_STR("fold"), .place = {1, 2, 3, 4}};
  ctxp_topics_add(&q.topics, CTXP_KIND_lazy);
  decoded = 0;
  ctxp_wire_pack_header(&header, &first, 5);
  pack_rows(&body, (const uint64_t[]){7, 9, 12}, 3);
  good_header = ctxp_buf_raw(&header);
  good_body = ctxp_buf_raw(&body);
  try_all(good_header, decode_message_header);
  try_all(good_body, decode_message_body);
  ctxp_wire_pack_head(&head_header, &head_body, &head);
  good_header = ctxp_buf_raw(&head_header);
  good_body = ctxp_buf_raw(&head_body);
  try_all(good_header, decode_head_header);
  try_all(good_body, decode_head_body);
  ctxp_wire_pack_request(&request, &q);
  ctxp_wire_pack_report(&report, &p);
  try_all(ctxp_buf_raw(&request), decode_asked);
  try_all(ctxp_buf_raw(&report), decode_asked);
  assert_true(decoded > 6); /* the whole ones at the least */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_topic_has_a_text_that_names_it_alone),
      cmocka_unit_test_teardown(one_event_and_several_come_back_from_a_message, teardown),
      cmocka_unit_test_teardown(numbers_that_do_not_rise_are_refused, teardown),
      cmocka_unit_test_teardown(a_frame_of_another_version_is_refused_by_name, teardown),
      cmocka_unit_test(a_head_comes_back),
      cmocka_unit_test_teardown(requests_reports_and_answers_come_back, teardown),
      cmocka_unit_test_teardown(cut_and_changed_frames_are_refused_or_whole, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
