/* Whichever allocation fails, the fold says so and nothing else happens: no crash, no leak, no half event counted as done. The
 * linker gives this program malloc and its kin by way of the counters below. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "codec/json.h"
#include "codec/msgpack.h"
#include "config/prices.h"
#include "runtime/host.h"

extern const struct ctxp_stage_ops ctxp_stage_fold;
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static unsigned long allocations, fail_at; /* 0: none fails */

static int fails(void) { return fail_at && ++allocations == fail_at; }
void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }

static const char *const lines[] = {
    "{\"kind\":\"session_start\",\"product\":\"pi\",\"cwd\":\"/"
    "p\",\"restore\":{\"cumulative\":{\"bash\":0,\"amnesia\":0,\"lazy\":0,\"write\":0,\"total\":0},\"turns\":[]}}",
    "{\"kind\":\"agent_start\",\"tools\":[{\"name\":\"grep\",\"parameters\":{\"a\":1}}]}",
    "{\"kind\":\"context_message\",\"id\":\"a\",\"role\":\"assistant\",\"band\":\"assistant\",\"tokens\":40,\"calls\":[{\"id\":\"k\","
    "\"name\":\"Read\",\"path\":\"x\",\"tokens\":9}]}",
    "{\"kind\":\"context_message\",\"id\":\"b\",\"role\":\"tool\",\"band\":\"file_view\",\"tokens\":30,\"toolCallId\":\"k\"}",
    "{\"kind\":\"prompt\",\"callId\":\"1\",\"model\":\"v/"
    "m\",\"append\":[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"c\"}],\"usage\":{\"input\":100,\"cacheRead\":50}}",
    "{\"kind\":\"bash\",\"toolCallId\":\"z\",\"command\":\"x\",\"originalTokens\":9,\"summaryTokens\":1,\"saved\":8}",
    "{\"kind\":\"turn_end\",\"turn\":0}",
    "{\"kind\":\"prompt\",\"callId\":\"2\",\"model\":\"v/m\",\"keep\":1,\"append\":[{\"id\":\"b\"}],\"usage\":{\"input\":100}}",
    "{\"kind\":\"prompt\",\"thread\":\"t\",\"callId\":\"1\",\"model\":\"v/m\",\"append\":[{\"id\":\"b\"}],\"usage\":{\"input\":900}}",
    "{\"kind\":\"session_end\"}"};
#define LINES (sizeof(lines) / sizeof(lines[0]))

static const char *const questions[] = {"{\"what\":\"spend\",\"by\":\"message\",\"top\":1}",
    "{\"what\":\"spend\",\"by\":\"day\",\"model\":\"v/m\",\"since\":1}", "{\"what\":\"explain\",\"name\":\"/p/x\"}"};
#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

static struct ctxp_buf bodies[LINES + 1], queries[QUESTIONS];

static int emit(void *data, const struct ctxp_event *event) { return (void)data, (void)event, 0; }
static int answer(void *data, uint64_t seq, struct ctxp_raw actions) { return (void)data, (void)seq, (void)actions, 0; }
static int put(void *data, struct ctxp_raw key, struct ctxp_raw value) { return (void)data, (void)key, (void)value, 0; }
static int del(void *data, struct ctxp_raw key) { return (void)data, (void)key, 0; }
static int get(void *data, struct ctxp_raw key, struct ctxp_raw *ret) { return (void)data, (void)key, (void)ret, 1; }
static int each(void *data, struct ctxp_raw prefix, int (*visit)(void *, struct ctxp_raw, struct ctxp_raw), void *with) {
  return (void)data, (void)prefix, (void)visit, (void)with, 0;
}
static void refuse(void *data, const char *sentence) { (void)data, (void)sentence; }
static const struct ctxp_host_ops host = {
    .emit = emit, .answer = answer, .put = put, .del = del, .get = get, .each = each, .refuse = refuse};

static int deliver(struct ctxp_stage *stage, unsigned i) {
  struct ctxp_event ev;
  struct ctxp_fault fault;
  assert_int_equal(ctxp_event_decode(bodies[i].ptr, bodies[i].len, &ev, NULL, &fault), 0);
  ev.seq = i + 1;
  ev.ts_ms = 1000 * (i + 1);
  if (!ev.session.len) ev.session = CTXP_STR("s");
  return ctxp_stage_deliver(stage, &ev);
}

/* 0, or the first error */
static int run(void) {
  struct ctxp_stage *stage = NULL;
  struct ctxp_error err;
  ctxp_auto_buf reply = {0};
  int r = ctxp_stage_new(&ctxp_stage_fold, "fold", (struct ctxp_raw){0}, &host, NULL, &stage, &err);
  if (r < 0) return r;
  r = ctxp_stage_open(stage, &err);
  for (unsigned i = 0; r == 0 && i < LINES; i++) r = deliver(stage, i);
  for (unsigned i = 0; r == 0 && i < QUESTIONS; i++) r = ctxp_stage_query(stage, ctxp_buf_raw(&queries[i]), &reply, &err);
  if (r == 0) r = ctxp_stage_save(stage);
  ctxp_stage_free(stage);
  return r;
}

static void every_allocation_that_fails_is_an_error_like_any_other(void **state) {
  (void)state;
  struct ctxp_error err;
  unsigned long n = 0;
  for (unsigned i = 0; i < LINES; i++) assert_int_equal(ctxp_json_to_event(ctxp_str(lines[i]), &bodies[i], &err), 0);
  for (unsigned i = 0; i < QUESTIONS; i++) assert_int_equal(ctxp_json_to_raw(ctxp_str(questions[i]), &queries[i], &err), 0);
  do {
    allocations = 0;
    fail_at = ++n;
    int r = run();
    fail_at = 0;
    if (allocations >= n && r != -ENOMEM) fail_msg("allocation %lu of %lu failed, and the run ended with %d", n, allocations, r);
    if (allocations < n) assert_int_equal(r, 0);
  } while (allocations >= n);
  assert_true(n > 50); /* it did allocate */
  for (unsigned i = 0; i < LINES; i++) ctxp_buf_deinit(&bodies[i]);
  for (unsigned i = 0; i < QUESTIONS; i++) ctxp_buf_deinit(&queries[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_that_fails_is_an_error_like_any_other)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
