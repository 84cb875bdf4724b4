#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "support/stage_test.h"

static int emit(void *data, const struct ctxp_event *event) {
  struct ctxp_test *t = data;
  assert_true(t->emitted_count < CTXP_TEST_EVENTS);
  unsigned i = t->emitted_count++;
  ctxp_buf_reset(&t->emitted[i].body);
  assert_int_equal(ctxp_event_encode(event, &t->emitted[i].body), 0);
  struct ctxp_fault fault;
  if (ctxp_event_decode(t->emitted[i].body.ptr, t->emitted[i].body.len, &t->emitted[i].event, NULL, &fault) < 0)
    fail_msg("emitted an event that does not decode: %s %s", fault.field, fault.reason);
  t->emitted[i].event.cause = event->cause;
  return 0;
}

static int answer(void *data, uint64_t ask_seq, struct ctxp_raw actions) {
  struct ctxp_test *t = data;
  assert_true(t->answer_count < CTXP_TEST_EVENTS);
  assert_int_equal(ctxp_pack_check(actions), 0);
  unsigned i = t->answer_count++;
  ctxp_buf_reset(&t->answers[i].actions);
  ctxp_buf_add(&t->answers[i].actions, actions.ptr, actions.len);
  t->answers[i].ask_seq = ask_seq;
  return 0;
}

static int compare(struct ctxp_raw a, struct ctxp_raw b) {
  return ctxp_str_cmp((struct ctxp_str){(const char *)a.ptr, a.len}, (struct ctxp_str){(const char *)b.ptr, b.len});
}

/* index of the first pair that is not below the key */
static unsigned lower(const struct ctxp_test *t, struct ctxp_raw key) {
  unsigned low = 0, high = t->pair_count;
  while (low < high) {
    unsigned mid = (low + high) / 2;
    if (compare(ctxp_buf_raw(&t->pairs[mid].key), key) < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static bool there(const struct ctxp_test *t, unsigned i, struct ctxp_raw key) {
  return i < t->pair_count && compare(ctxp_buf_raw(&t->pairs[i].key), key) == 0;
}

static int put(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  struct ctxp_test *t = data;
  unsigned i = lower(t, key);
  assert_in_range(key.len, 1, 255);
  if (!there(t, i, key)) {
    t->pairs = realloc(t->pairs, (t->pair_count + 1) * sizeof(*t->pairs));
    assert_non_null(t->pairs);
    memmove(t->pairs + i + 1, t->pairs + i, (t->pair_count++ - i) * sizeof(*t->pairs));
    t->pairs[i] = (struct ctxp_test_pair){{0}, {0}};
    ctxp_buf_add(&t->pairs[i].key, key.ptr, key.len);
  }
  ctxp_buf_reset(&t->pairs[i].value);
  ctxp_buf_add(&t->pairs[i].value, value.ptr, value.len);
  return 0;
}

static int del(void *data, struct ctxp_raw key) {
  struct ctxp_test *t = data;
  unsigned i = lower(t, key);
  if (!there(t, i, key)) return 0;
  ctxp_buf_deinit(&t->pairs[i].key);
  ctxp_buf_deinit(&t->pairs[i].value);
  memmove(t->pairs + i, t->pairs + i + 1, (--t->pair_count - i) * sizeof(*t->pairs));
  return 0;
}

static int get(void *data, struct ctxp_raw key, struct ctxp_raw *ret_value) {
  struct ctxp_test *t = data;
  unsigned i = lower(t, key);
  if (!there(t, i, key)) return 1;
  *ret_value = ctxp_buf_raw(&t->pairs[i].value);
  return 0;
}

static int each(void *data, struct ctxp_raw prefix, int (*visit)(void *, struct ctxp_raw, struct ctxp_raw), void *visit_data) {
  struct ctxp_test *t = data;
  for (unsigned i = lower(t, prefix); i < t->pair_count; i++) {
    struct ctxp_raw key = ctxp_buf_raw(&t->pairs[i].key);
    if (key.len < prefix.len || (prefix.len && memcmp(key.ptr, prefix.ptr, prefix.len) != 0)) break;
    int r = visit(visit_data, key, ctxp_buf_raw(&t->pairs[i].value));
    if (r) return r;
  }
  return 0;
}

static void refuse(void *data, const char *sentence) {
  struct ctxp_test *t = data;
  t->refused++;
  snprintf(t->last_refusal, sizeof(t->last_refusal), "%s", sentence);
}

static int call(void *data, const struct ctxp_event *event, const struct ctxp_model_call *asked) {
  struct ctxp_test *t = data;
  assert_false(t->called); /* one call for an event */
  if (!t->model) return 0;
  t->called = true;
  t->calls++;
  t->reply = (struct ctxp_model_reply){0};
  t->model(t->model_data, t->node, event, asked, &t->reply);
  return 0;
}

static int reply(void *data, const struct ctxp_event *event, struct ctxp_model_reply *ret_reply) {
  struct ctxp_test *t = data;
  (void)event;
  if (t->called) *ret_reply = t->reply;
  return !t->called;
}

static const struct ctxp_host_ops host = {
    .emit = emit, .answer = answer, .put = put, .del = del, .get = get, .each = each, .refuse = refuse, .call = call, .reply = reply};

static void start(struct ctxp_test *t) {
  struct ctxp_error err;
  if (ctxp_stage_new(t->ops, t->node, (struct ctxp_raw){0}, &host, t, &t->stage, &err) < 0) fail_msg("%s", err.text);
  if (ctxp_stage_open(t->stage, &err) < 0) fail_msg("%s", err.text);
}

void ctxp_test_open(struct ctxp_test *t, const struct ctxp_stage_ops *ops, const char *node) {
  memset(t, 0, sizeof(*t));
  t->ops = ops;
  snprintf(t->node, sizeof(t->node), "%s", node);
  start(t);
}

void ctxp_test_restart(struct ctxp_test *t) {
  assert_int_equal(ctxp_stage_save(t->stage), 0);
  t->stage = ctxp_stage_free(t->stage);
  start(t);
}

void ctxp_test_crash(struct ctxp_test *t) {
  t->stage = ctxp_stage_free(t->stage);
  start(t);
}

void ctxp_test_reopen(struct ctxp_test *t) {
  t->stage = NULL;
  start(t);
}

static void deliver(struct ctxp_test *t, const struct ctxp_buf *body, uint64_t seq, uint64_t cause) {
  struct ctxp_event event;
  struct ctxp_fault fault;
  if (ctxp_event_decode(body->ptr, body->len, &event, NULL, &fault) < 0)
    fail_msg("pushed an event that does not decode: %s %s", fault.field, fault.reason);
  event.seq = seq ? seq : ++t->seq;
  event.cause = cause;
  if (!event.ts_ms) event.ts_ms = UINT64_C(1756534219000) + 1000 * event.seq;
  if (!event.agent.len && event.kind != CTXP_KIND_topology) event.agent = CTXP_STR("pi@test");
  if (!event.session.len && event.kind != CTXP_KIND_topology) event.session = CTXP_STR("s1");
  t->called = false;
  int r = ctxp_stage_prepare(t->stage, &event);
  if (r == 0) r = ctxp_stage_deliver(t->stage, &event);
  if (r < 0) fail_msg("the stage refused event %llu: %s (%s)", (unsigned long long)event.seq, strerror(-r), t->last_refusal);
}

void ctxp_test_push(struct ctxp_test *t, const struct ctxp_event *event) {
  ctxp_auto_buf body = {0};
  assert_int_equal(ctxp_event_encode(event, &body), 0);
  deliver(t, &body, event->seq, event->cause);
}

void ctxp_test_push_json(struct ctxp_test *t, const char *line) {
  ctxp_auto_buf body = {0};
  struct ctxp_error err;
  if (ctxp_json_to_event(ctxp_str(line), &body, &err) < 0) fail_msg("%s", err.text);
  deliver(t, &body, 0, 0);
}

void ctxp_test_options(struct ctxp_test *t, struct ctxp_raw options, struct ctxp_raw prices) {
  static const uint8_t empty_map[] = {0x80};
  struct ctxp_event event = {.kind = CTXP_KIND_topology};
  ctxp_auto_buf list = {0}, none = {0};
  struct ctxp_derivation entry = {.node = ctxp_str(t->node), .daemon = ctxp_str(t->ops->name), .version = t->ops->version};
  entry.options = options.len ? options : (struct ctxp_raw){empty_map, 1};
  if (t->ops->role == CTXP_ROLE_FOLD_NODE)
    ctxp_set(&event.topology, topology, fold, entry);
  else
    assert_int_equal(ctxp_list_add(&event.topology.mechanisms, &list, &ctxp_shape_derivation, &entry), 0);
  ctxp_pack_map(&none, 2);
  ctxp_pack_cstr(&none, "version");
  ctxp_pack_cstr(&none, "none");
  ctxp_pack_cstr(&none, "models");
  ctxp_pack_array(&none, 0);
  event.topology.prices = prices.len ? prices : ctxp_buf_raw(&none);
  ctxp_test_push(t, &event);
}

const char *ctxp_test_line(struct ctxp_test *t, unsigned i, bool seed_only, struct ctxp_buf *out) {
  assert_true(i < t->emitted_count);
  ctxp_buf_reset(out);
  assert_int_equal(ctxp_json_from_event(&t->emitted[i].event, seed_only, out), 0);
  return ctxp_buf_cstr(out);
}

const char *ctxp_test_answer(struct ctxp_test *t, uint64_t ask_seq, struct ctxp_buf *out) {
  ctxp_buf_reset(out);
  for (unsigned i = 0; i < t->answer_count; i++)
    if (t->answers[i].ask_seq == ask_seq) assert_int_equal(ctxp_json_from_raw(ctxp_buf_raw(&t->answers[i].actions), out), 0);
  return ctxp_buf_cstr(out);
}

void ctxp_test_clear(struct ctxp_test *t) {
  t->emitted_count = 0;
  t->answer_count = 0;
}

void ctxp_test_close(struct ctxp_test *t) {
  t->stage = ctxp_stage_free(t->stage);
  for (unsigned i = 0; i < CTXP_TEST_EVENTS; i++) {
    ctxp_buf_deinit(&t->emitted[i].body);
    ctxp_buf_deinit(&t->answers[i].actions);
  }
  for (unsigned i = 0; i < t->pair_count; i++) {
    ctxp_buf_deinit(&t->pairs[i].key);
    ctxp_buf_deinit(&t->pairs[i].value);
  }
  free(t->pairs);
  *t = (struct ctxp_test){0};
}

uint64_t ctxp_test_seeds(uint64_t usual) {
  const char *text = getenv("CTXP_SEEDS");
  uint64_t most = text ? strtoull(text, NULL, 10) : usual;
  return most < usual ? most : usual;
}
