/* Whole sessions of an agent that asks, drawn at random: the agent reads, searches and writes files, asks before each request, does
 * what it is told, says what it sent, and now and then misses an answer. What must hold at each request, whatever was drawn:
 *
 * - each request is the one before and a tail, except where a removal was declared by an event, or an answer was missed;
 * - every result has its call before it and every call its result; the request is not empty;
 * - what the events say was saved is what the request lacks; what was missed is taken back to the token;
 * - a stage that dies anywhere and begins again at its last checkpoint emits and answers the same bytes. */
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

extern const struct ctxp_stage_ops ctxp_stage_amnesia_tagger, ctxp_stage_write_compressor;

enum { MESSAGES = 400,
  CALLS = 3,
  TURNS = 40 };

struct call {
  char id[16], tool[8];
  uint64_t tokens;
  bool stripped, content, bare; /* content: it has some; bare: that was taken out */
};
struct message {
  char id[16];
  enum ctxp_role role;
  char answers[16];
  uint64_t tokens;
  bool has_text;
  struct call calls[CALLS];
  unsigned call_count;
  bool sent; /* in the request that was sent last */
};
struct item { /* of a request that was sent */
  char id[16];
  unsigned stripped, bare; /* bits of calls */
};
struct request {
  struct item at[MESSAGES];
  unsigned count;
};

static struct ctxp_test tagger, writer;
static struct message window[MESSAGES];
static unsigned count, ids;
static struct request last, now;
static uint64_t seed, claimed, taken_back, clock_ms, asks_seq;
static bool declared;

static uint64_t draw(uint64_t below) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (seed >> 33) % below;
}

/* ---- events to both stages ---- */
static struct ctxp_buf script; /* every event of the session, for the runs that die */

static void push(struct ctxp_event *ev) {
  clock_ms += 1000 + (draw(12) == 0 ? 400000 : 0);
  ev->ts_ms = clock_ms;
  ev->seq = ++asks_seq;
  ctxp_test_push(&tagger, ev);
  ctxp_test_push(&writer, ev);
  ctxp_auto_buf body = {0};
  assert_int_equal(ctxp_event_encode(ev, &body), 0);
  ctxp_pack_bin(&script, ctxp_buf_raw(&body));
}

static void push_kind(enum ctxp_kind kind) {
  struct ctxp_event ev = {.kind = kind};
  push(&ev);
}

/* ---- the agent ---- */
static struct message *append(enum ctxp_role role, uint64_t tokens) {
  assert_in_range(count, 0, MESSAGES - 1);
  struct message *m = &window[count++];
  *m = (struct message){.role = role, .tokens = tokens, .has_text = role != CTXP_ROLE_assistant || draw(2)};
  snprintf(m->id, sizeof(m->id), "m%u", ++ids);
  return m;
}

static void result(const struct call *call) {
  struct ctxp_event ev = {.kind = CTXP_KIND_tool_result};
  static char text[8000], path[32];
  ctxp_auto_buf input = {0};
  bool write = strcmp(call->tool, "write") == 0;
  uint64_t size = 1200 + draw(6000);
  memset(text, 'a' + (int)draw(3), size);
  snprintf(path, sizeof(path), "f%llu.c", (unsigned long long)draw(4));
  ctxp_pack_map(&input, write ? 2 : 1);
  ctxp_pack_cstr(&input, "path");
  ctxp_pack_cstr(&input, path);
  if (write) {
    ctxp_pack_cstr(&input, "content");
    ctxp_pack_str(&input, (struct ctxp_str){text, size});
  }
  ev.tool_result = (struct ctxp_tool_result){.toolCallId = ctxp_str(call->id),
      .tool = ctxp_str(call->tool),
      .text = write ? CTXP_STR("ok") : (struct ctxp_str){text, size},
      .isError = draw(9) == 0};
  ctxp_set(&ev.tool_result, tool_result, input, ctxp_buf_raw(&input));
  ctxp_set(&ev.tool_result, tool_result, ask, true);
  ctxp_test_clear(&writer);
  push(&ev);
  struct message *m = append(CTXP_ROLE_tool, write ? 1 : (size + 3) / 4);
  snprintf(m->answers, sizeof(m->answers), "%s", call->id);
  if (writer.answer_count) {
    struct ctxp_event said = {.kind = CTXP_KIND_write_injected};
    said.write_injected = (struct ctxp_write_injected){.toolCallId = ctxp_str(call->id), .ok = draw(5) > 0};
    push(&said);
    if (said.write_injected.ok) append(CTXP_ROLE_custom, 8);
  }
}

static void turn(void) {
  static const char *const tools[] = {"read", "read", "grep", "write", "bash"};
  struct message *m = append(CTXP_ROLE_assistant, 5 + draw(20));
  unsigned calls = (unsigned)draw(CALLS + 1);
  if (!calls) m->has_text = true;
  for (unsigned i = 0; i < calls; i++) {
    struct call *call = &m->calls[m->call_count++];
    snprintf(call->id, sizeof(call->id), "c%u", ++ids);
    snprintf(call->tool, sizeof(call->tool), "%s", tools[draw(5)]);
    call->tokens = 3;
    call->content = strcmp(call->tool, "write") == 0;
    m->tokens += 3;
  }
  for (unsigned i = 0; i < calls; i++) result(&m->calls[i]);
  struct ctxp_event end = {.kind = CTXP_KIND_turn_end};
  push(&end);
}

/* ---- asking, and doing what the answer says ---- */
static void ask(void) {
  struct ctxp_event ev = {.kind = CTXP_KIND_context};
  static struct ctxp_buf calls[MESSAGES];
  ctxp_auto_buf list = {0};
  for (unsigned i = 0; i < count; i++) {
    struct ctxp_skeleton s = {
        .id = ctxp_str(window[i].id), .role = window[i].role, .hasText = window[i].has_text, .tokens = window[i].tokens};
    struct ctxp_list call_list = {0};
    for (unsigned k = 0; k < window[i].call_count; k++) {
      struct ctxp_call call = {.id = ctxp_str(window[i].calls[k].id), .name = ctxp_str(window[i].calls[k].tool)};
      ctxp_set(&call, call, tokens, window[i].calls[k].tokens);
      assert_int_equal(ctxp_list_add(&call_list, &calls[i], &ctxp_shape_call, &call), 0);
    }
    ctxp_set(&s, skeleton, calls, call_list);
    if (window[i].answers[0]) ctxp_set(&s, skeleton, toolCallId, ctxp_str(window[i].answers));
    assert_int_equal(ctxp_list_add(&ev.context.messages, &list, &ctxp_shape_skeleton, &s), 0);
  }
  for (unsigned i = 0; i < count; i++) ctxp_buf_deinit(&calls[i]);
  ctxp_set(&ev.context, context, ask, true);
  if (draw(10) == 0) ctxp_set(&ev.context, context, model, ctxp_str(draw(2) ? "a" : "b"));
  ctxp_test_clear(&tagger);
  ctxp_test_clear(&writer);
  push(&ev);
}

static bool names(struct ctxp_raw list, const char *id) {
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_raw one;
  uint32_t left = 0;
  if (list.len) assert_true(ctxp_array_open(&it, &left) >= 0);
  while (left) {
    assert_true(ctxp_array_next(&it, &left, &one) >= 0);
    if (ctxp_str_is(ctxp_raw_str(one), id)) return true;
  }
  return false;
}

/* what is sent: the window without what the answers say; an agent that missed them sends all */
static void form_request(bool missed) {
  struct ctxp_raw actions = !missed && tagger.answer_count ? ctxp_buf_raw(&tagger.answers[0].actions) : (struct ctxp_raw){0};
  struct ctxp_raw bare =
      !missed && writer.answer_count ? ctxp_map_get(ctxp_buf_raw(&writer.answers[0].actions), "stripContent") : (struct ctxp_raw){0};
  struct ctxp_raw remove = actions.len ? ctxp_map_get(actions, "remove") : (struct ctxp_raw){0},
                  strip = actions.len ? ctxp_map_get(actions, "strip") : (struct ctxp_raw){0};
  last = now;
  now.count = 0;
  for (unsigned i = 0; i < count; i++) {
    if (names(remove, window[i].id)) continue;
    struct item *item = &now.at[now.count++];
    *item = (struct item){0};
    memcpy(item->id, window[i].id, sizeof(item->id));
    struct ctxp_raw stripped = strip.len ? ctxp_map_get(strip, window[i].id) : (struct ctxp_raw){0};
    for (unsigned k = 0; k < window[i].call_count; k++) {
      if (names(stripped, window[i].calls[k].id)) item->stripped |= 1u << k;
      if (names(bare, window[i].calls[k].id)) item->bare |= 1u << k;
    }
  }
  assert_in_range(now.count, 1, MESSAGES);
}

static const struct message *by_id(const char *id) {
  for (unsigned i = 0; i < count; i++)
    if (strcmp(window[i].id, id) == 0) return &window[i];
  abort(); /* sent what is not there */
}

static bool has_result(const char *call) {
  for (unsigned i = 0; i < now.count; i++)
    if (strcmp(by_id(now.at[i].id)->answers, call) == 0) return true;
  return false;
}

static bool has_call(unsigned before, const char *id) {
  for (unsigned i = 0; i < before; i++) {
    const struct message *m = by_id(now.at[i].id);
    for (unsigned k = 0; k < m->call_count; k++)
      if (!(now.at[i].stripped >> k & 1) && strcmp(m->calls[k].id, id) == 0) return true;
  }
  return false;
}

static void check_pairs(void) {
  for (unsigned i = 0; i < now.count; i++) {
    const struct message *m = by_id(now.at[i].id);
    if (m->answers[0] && !has_call(i, m->answers)) fail_msg("result %s without its call", m->answers);
    bool left = m->has_text || !m->call_count;
    for (unsigned k = 0; k < m->call_count; k++) {
      bool there = !(now.at[i].stripped >> k & 1);
      left = left || there;
      if (there && !has_result(m->calls[k].id)) fail_msg("call %s without its result", m->calls[k].id);
    }
    if (!left) fail_msg("nothing is left in %s, and it stayed", m->id);
  }
}

static void check_prefix(void) {
  for (unsigned i = 0; i < last.count; i++)
    if (i >= now.count || strcmp(last.at[i].id, now.at[i].id) != 0 || last.at[i].stripped != now.at[i].stripped ||
        last.at[i].bare != now.at[i].bare)
      fail_msg("message %u of the last request changed, and no event says so", i);
}

static void say_sent(void) {
  struct ctxp_event ev = {.kind = CTXP_KIND_prompt};
  ctxp_auto_buf list = {0};
  struct ctxp_list refs = {0};
  char call[32];
  unsigned keep = 0;
  while (keep < last.count && keep < now.count && strcmp(last.at[keep].id, now.at[keep].id) == 0) keep++;
  for (unsigned i = keep; i < now.count; i++) {
    struct ctxp_ref ref = {.id = ctxp_str(now.at[i].id)};
    assert_int_equal(ctxp_list_add(&refs, &list, &ctxp_shape_ref, &ref), 0);
  }
  snprintf(call, sizeof(call), "p%llu", (unsigned long long)asks_seq);
  ev.prompt.callId = ctxp_str(call);
  ctxp_set(&ev.prompt, prompt, keep, keep);
  ctxp_set(&ev.prompt, prompt, append, refs);
  push(&ev);
}

static void count_events(void) {
  for (unsigned i = 0; i < tagger.emitted_count; i++) {
    const struct ctxp_event *ev = &tagger.emitted[i].event;
    if (ev->kind == CTXP_KIND_amnesia_remove) claimed += (uint64_t)ev->amnesia_remove.saved, declared = true;
    if (ev->kind == CTXP_KIND_regret && !ctxp_str_is(ev->regret.reason, "read again")) taken_back += ev->regret.tokens;
  }
  tagger.emitted_count = 0;
}

/* tokens of the window that the request does not carry */
static uint64_t lacking(void) {
  uint64_t tokens = 0;
  for (unsigned i = 0, k = 0; i < count; i++) {
    if (k < now.count && strcmp(now.at[k].id, window[i].id) == 0)
      k++;
    else
      tokens += window[i].tokens;
  }
  return tokens;
}

static void one_request(bool may_miss) {
  ask();
  uint64_t seq = asks_seq;
  bool missed = may_miss && draw(8) == 0;
  declared = missed;
  count_events();
  form_request(missed);
  if (missed) {
    struct ctxp_event ev = {.kind = CTXP_KIND_answer_missed};
    ev.answer_missed = (struct ctxp_answer_missed){.askSeq = seq, .reason = CTXP_STR("timeout")};
    push(&ev);
  } else {
    check_pairs();
  }
  static bool after_a_miss; /* what was sent in full goes again */
  if (!declared && !after_a_miss) check_prefix();
  after_a_miss = missed;
  say_sent();
  count_events();
  if (!missed) assert_int_equal(claimed - taken_back, lacking());
}

static void open_stages(bool tail) {
  ctxp_auto_buf options = {0};
  ctxp_test_open(&tagger, &ctxp_stage_amnesia_tagger, "amnesia");
  ctxp_test_open(&writer, &ctxp_stage_write_compressor, "write");
  ctxp_pack_map(&options, 1);
  ctxp_pack_cstr(&options, "policy");
  ctxp_pack_cstr(&options, tail ? "tail" : "seen");
  ctxp_test_options(&tagger, ctxp_buf_raw(&options), (struct ctxp_raw){0});
  count = 0;
  now.count = last.count = 0;
  claimed = taken_back = 0;
  clock_ms = 1756534219000;
  asks_seq = 0;
  ctxp_buf_reset(&script);
}

static int close_stages(void **state) {
  (void)state;
  ctxp_test_close(&tagger);
  ctxp_test_close(&writer);
  ctxp_buf_deinit(&script);
  return 0;
}

static uint64_t session(uint64_t number, bool tail, bool may_miss) {
  seed = number * 977;
  open_stages(tail);
  struct ctxp_event start = {.kind = CTXP_KIND_session_start};
  start.session_start.product = CTXP_STR("pi");
  ctxp_set(&start.session_start, session_start, cwd, CTXP_STR("/home/dev/p"));
  push(&start);
  push_kind(CTXP_KIND_agent_start);
  append(CTXP_ROLE_user, 10);
  for (unsigned i = 0; i < TURNS; i++) {
    one_request(may_miss);
    turn();
    if (draw(8)) continue;
    push_kind(CTXP_KIND_agent_end);
    push_kind(CTXP_KIND_agent_start);
    append(CTXP_ROLE_user, 10);
  }
  return claimed;
}

static void each_request_is_the_one_before_and_a_tail(void **state) {
  uint64_t saved = 0;
  for (uint64_t number = 1; number <= ctxp_test_seeds(60); number++) {
    saved += session(number, *state != NULL, false);
    assert_int_equal(taken_back, 0);
    close_stages(NULL);
  }
  if (*state == NULL) assert_true(saved > 0); /* it was about something; tail: rules name older results, seldom the last */
}

static void what_was_missed_is_taken_back(void **state) {
  uint64_t back = 0;
  for (uint64_t number = 1; number <= ctxp_test_seeds(60); number++) {
    session(number, *state != NULL, true);
    back += taken_back;
    close_stages(NULL);
  }
  if (*state == NULL) assert_true(back > 0);
}

/* ---- the same script through a stage that dies ---- */
struct output {
  struct ctxp_buf bytes;
};

/* delivers event n of the script; what it derives is appended */
static void deliver(struct ctxp_test *t, struct ctxp_raw body, uint64_t seq, struct ctxp_buf *out) {
  struct ctxp_event ev;
  ctxp_test_clear(t);
  assert_int_equal(ctxp_event_decode(body.ptr, body.len, &ev, NULL, NULL), 0);
  ev.seq = seq;
  ctxp_test_push(t, &ev);
  for (unsigned i = 0; i < t->emitted_count; i++) ctxp_buf_add(out, t->emitted[i].body.ptr, t->emitted[i].body.len);
  for (unsigned i = 0; i < t->answer_count; i++) ctxp_buf_add(out, t->answers[i].actions.ptr, t->answers[i].actions.len);
}

static unsigned split(struct ctxp_raw *bodies, unsigned max) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_buf_raw(&script));
  struct ctxp_pack_value v;
  unsigned n = 0;
  while (it.at < it.end) {
    assert_int_equal(ctxp_cursor_next(&it, &v), 0);
    assert_in_range(n, 0, max - 1);
    bodies[n++] = (struct ctxp_raw){(const uint8_t *)v.str.ptr, v.str.len};
  }
  return n;
}

/* dies: at every event, after a checkpoint some events before it */
static void run_script(
    const struct ctxp_stage_ops *ops, const char *node, const struct ctxp_raw *bodies, unsigned n, bool dies, struct ctxp_buf *out) {
  static struct ctxp_test t;
  ctxp_test_open(&t, ops, node);
  ctxp_test_options(&t, (struct ctxp_raw){0}, (struct ctxp_raw){0});
  ctxp_auto_buf again = {0};
  unsigned checkpoint = 0;
  for (unsigned i = 0; i < n; i++) {
    size_t before = out->len;
    deliver(&t, bodies[i], i + 1, out);
    if (!dies || draw(4)) continue;
    if (draw(2)) { /* a checkpoint: what is in the store is of here */
      assert_int_equal(ctxp_stage_save(t.stage), 0);
      checkpoint = i + 1;
      continue;
    }
    t.stage = ctxp_stage_free(t.stage); /* it dies; the store has the state of the checkpoint */
    ctxp_test_reopen(&t);
    ctxp_test_options(&t, (struct ctxp_raw){0}, (struct ctxp_raw){0});
    ctxp_buf_reset(&again);
    for (unsigned k = checkpoint; k <= i; k++) deliver(&t, bodies[k], k + 1, &again);
    size_t tail = out->len - before;
    assert_true(again.len >= tail);
    if (tail) assert_memory_equal(again.ptr + again.len - tail, out->ptr + before, tail);
  }
  ctxp_test_close(&t);
}

static void a_stage_that_dies_anywhere_derives_the_same_bytes(void **state) {
  (void)state;
  static struct ctxp_raw bodies[4096];
  static const struct ctxp_stage_ops *const ops[] = {&ctxp_stage_amnesia_tagger, &ctxp_stage_write_compressor};
  for (uint64_t number = 1; number <= ctxp_test_seeds(12); number++) {
    session(number, false, true);
    unsigned n = split(bodies, 4096);
    for (unsigned s = 0; s < 2; s++) {
      ctxp_auto_buf whole = {0}, died = {0};
      run_script(ops[s], s ? "write" : "amnesia", bodies, n, false, &whole);
      run_script(ops[s], s ? "write" : "amnesia", bodies, n, true, &died);
      assert_int_equal(whole.len, died.len);
      assert_true(whole.len > 0);
      assert_memory_equal(whole.ptr, died.ptr, whole.len);
    }
    close_stages(NULL);
  }
}

int main(void) {
  static int tail;
  const struct CMUnitTest tests[] = {
      {"each request is the one before and a tail: policy seen", each_request_is_the_one_before_and_a_tail, NULL, close_stages, NULL},
      {"each request is the one before and a tail: policy tail", each_request_is_the_one_before_and_a_tail, NULL, close_stages, &tail},
      {"what was missed is taken back: policy seen", what_was_missed_is_taken_back, NULL, close_stages, NULL},
      {"what was missed is taken back: policy tail", what_was_missed_is_taken_back, NULL, close_stages, &tail},
      cmocka_unit_test_teardown(a_stage_that_dies_anywhere_derives_the_same_bytes, close_stages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
