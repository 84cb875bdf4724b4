/* The order of the merge is a function of the streams: every order of arrival gives the same. */
#include <string.h>
#include "base/str.h"
#include "bus/merge.h"
#include "bus_test.h"

#define MAX_ITEMS 64

/* one upstream: what it will say, and how much of it has come so far */
struct source {
  struct ctxp_item items[MAX_ITEMS];
  uint64_t reach_after[MAX_ITEMS + 1]; /* its watermark, once so many items have come */
  unsigned count, arrived, taken;
  bool collector;
};

static struct source sources[4];
static struct ctxp_merge *merge;
static struct ctxp_buf topologies[4];

static int peek(void *data, struct ctxp_item *ret) {
  struct source *src = data;
  if (src->taken >= src->arrived) return 0;
  *ret = src->items[src->taken];
  return 1;
}
static void next(void *data) { ((struct source *)data)->taken++; }
static uint64_t reach(void *data) {
  struct source *src = data;
  return src->reach_after[src->arrived];
}

static void add_item(struct source *src, uint64_t number, unsigned topic, struct ctxp_raw body) {
  src->items[src->count] = (struct ctxp_item){.seq = src->collector ? number : src->count + 1,
      .cause = src->collector ? 0 : number,
      .ts_ms = number * 10,
      .topic = topic,
      .body = body};
  src->count++;
  src->reach_after[src->count] = src->collector ? number : number - 1; /* more of this cause may come */
}
static void say_all(struct source *src, uint64_t watermark) { src->reach_after[src->count] = watermark; }

static struct ctxp_raw topology_of(struct ctxp_buf *out, const char *const *names) {
  static const uint8_t empty[] = {0x80};
  struct ctxp_event event = {.kind = CTXP_KIND_topology, .topology.prices = {empty, 1}};
  ctxp_auto_buf list = {0};
  for (; *names; names++) {
    struct ctxp_derivation entry = {.node = ctxp_str(*names), .daemon = CTXP_STR("d"), .version = 1, .options = {empty, 1}};
    assert_int_equal(ctxp_list_add(&event.topology.mechanisms, &list, &ctxp_shape_derivation, &entry), 0);
  }
  ctxp_buf_reset(out);
  assert_int_equal(ctxp_event_encode(&event, out), 0);
  return ctxp_buf_raw(out);
}

static void new_merge(void) {
  static const char *const names[] = {"collector", "m1", "m2", "m3"};
  merge = ctxp_merge_new();
  for (unsigned i = 0; i < 4; i++) {
    struct ctxp_flow flow = {peek, next, reach, &sources[i]};
    sources[i].arrived = sources[i].taken = 0;
    assert_int_equal(ctxp_merge_add(merge, names[i], i ? CTXP_FLOW_MECHANISM : CTXP_FLOW_COLLECTOR, &flow), 0);
  }
}

/* collector: 1 topology (m2, m1), 2, 4, 6 topology (m1, m3), 7; mechanisms derive from these and from 3 and 5, which have another topic */
static int setup(void **state) {
  (void)state;
  memset(sources, 0, sizeof(sources));
  sources[0].collector = true;
  add_item(&sources[0], 1, CTXP_KIND_topology, topology_of(&topologies[0], (const char *const[]){"m2", "m1", NULL}));
  add_item(&sources[0], 2, CTXP_KIND_prompt, (struct ctxp_raw){0});
  add_item(&sources[0], 4, CTXP_KIND_prompt, (struct ctxp_raw){0});
  add_item(&sources[0], 6, CTXP_KIND_topology, topology_of(&topologies[1], (const char *const[]){"m1", "m3", NULL}));
  add_item(&sources[0], 7, CTXP_KIND_prompt, (struct ctxp_raw){0});
  say_all(&sources[0], 8);
  add_item(&sources[1], 2, CTXP_KIND_bash, (struct ctxp_raw){0});
  add_item(&sources[1], 2, CTXP_KIND_bash, (struct ctxp_raw){0});
  add_item(&sources[1], 3, CTXP_KIND_bash, (struct ctxp_raw){0});
  add_item(&sources[1], 7, CTXP_KIND_bash, (struct ctxp_raw){0});
  say_all(&sources[1], 8);
  add_item(&sources[2], 2, CTXP_KIND_lazy, (struct ctxp_raw){0});
  add_item(&sources[2], 5, CTXP_KIND_lazy, (struct ctxp_raw){0});
  add_item(&sources[2], 7, CTXP_KIND_lazy, (struct ctxp_raw){0}); /* it is no longer named: passed over */
  say_all(&sources[2], 8);
  add_item(&sources[3], 2, CTXP_KIND_write, (struct ctxp_raw){0}); /* not named yet: passed over */
  add_item(&sources[3], 6, CTXP_KIND_write, (struct ctxp_raw){0});
  add_item(&sources[3], 7, CTXP_KIND_write, (struct ctxp_raw){0});
  say_all(&sources[3], 8);
  new_merge();
  return 0;
}
static int teardown(void **state) {
  (void)state;
  merge = ctxp_merge_free(merge);
  for (int i = 0; i < 4; i++) ctxp_buf_deinit(&topologies[i]);
  return 0;
}

static void drain_into(struct ctxp_buf *out) {
  struct ctxp_item item;
  unsigned input;
  int r;
  while ((r = ctxp_merge_next(merge, &item, &input)) > 0) {
    if (r == 2) {
      struct ctxp_merge_hold_begun begun = ctxp_merge_begun(merge);
      ctxp_buf_printf(out, "hold %u %llu-%llu@%llu ", begun.input, (unsigned long long)begun.from, (unsigned long long)begun.to,
          (unsigned long long)begun.ts_ms);
      continue;
    }
    ctxp_buf_printf(out, "%u:%llu ", input, (unsigned long long)(input ? item.cause : item.seq));
    ctxp_merge_take(merge);
  }
  assert_int_equal(r, 0);
}

#define EXPECTED "0:1 0:2 2:2 1:2 1:2 1:3 0:4 2:5 0:6 3:6 0:7 1:7 3:7 "

static void the_order_is_by_cause_then_by_the_topology_in_force(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  for (int i = 0; i < 4; i++) sources[i].arrived = sources[i].count;
  drain_into(&out);
  assert_string_equal(ctxp_buf_cstr(&out), EXPECTED);
  assert_int_equal(ctxp_merge_done(merge), 8);
  assert_int_equal(ctxp_merge_skipped(merge), 2);
  assert_true(ctxp_merge_between(merge));
}

static uint64_t seed;
static unsigned draw(unsigned below) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(seed >> 33) % below;
}

static void every_order_of_arrival_gives_the_same_order(void **state) {
  (void)state;
  for (seed = 1; seed < 5000; seed++) {
    uint64_t round = seed;
    ctxp_auto_buf out = {0};
    merge = ctxp_merge_free(merge);
    new_merge();
    for (;;) {
      unsigned left = 0;
      for (int i = 0; i < 4; i++) left += sources[i].count - sources[i].arrived;
      if (!left) break;
      unsigned i = draw(4);
      if (sources[i].arrived < sources[i].count) sources[i].arrived += 1 + draw(sources[i].count - sources[i].arrived);
      drain_into(&out);
    }
    drain_into(&out);
    assert_string_equal(ctxp_buf_cstr(&out), EXPECTED);
    assert_int_equal(ctxp_merge_done(merge), 8);
    seed = round;
  }
}

static void a_restart_at_any_checkpoint_goes_on_with_the_same_order(void **state) {
  (void)state;
  unsigned checkpoints = 0;
  for (unsigned stop = 0; stop < 14; stop++) {
    ctxp_auto_buf out = {0}, topology = {0};
    struct ctxp_item item;
    unsigned input, taken[4], n = 0;
    merge = ctxp_merge_free(merge);
    new_merge();
    for (int i = 0; i < 4; i++) sources[i].arrived = sources[i].count;
    for (; n < stop && ctxp_merge_next(merge, &item, &input) == 1; n++) {
      ctxp_buf_printf(&out, "%u:%llu ", input, (unsigned long long)(input ? item.cause : item.seq));
      if (item.topic == CTXP_KIND_topology) ctxp_buf_reset(&topology), ctxp_buf_add(&topology, item.body.ptr, item.body.len);
      ctxp_merge_take(merge);
    }
    if (!ctxp_merge_between(merge)) continue;
    checkpoints++;
    uint64_t done = ctxp_merge_done(merge);
    for (int i = 0; i < 4; i++) taken[i] = sources[i].taken;
    merge = ctxp_merge_free(merge);
    new_merge();
    for (int i = 0; i < 4; i++) {
      sources[i].arrived = sources[i].count;
      sources[i].taken = taken[i];
    }
    assert_int_equal(ctxp_merge_restore(merge, done, ctxp_buf_raw(&topology)), 0);
    drain_into(&out);
    assert_string_equal(ctxp_buf_cstr(&out), EXPECTED);
  }
  assert_int_equal(checkpoints, 8); /* before the first, and after each of the causes 1 to 7 */
}

static void one_that_is_silent_holds_the_others_and_is_named(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  unsigned input;
  uint64_t from, to;
  for (int i = 0; i < 4; i++) sources[i].arrived = i == 1 ? 0 : sources[i].count;
  sources[1].reach_after[0] = 1;
  drain_into(&out);
  assert_string_equal(ctxp_buf_cstr(&out), "0:1 ");
  assert_true(ctxp_merge_waits(merge, &input, &from, &to));
  assert_int_equal(input, 1);
  assert_int_equal(from, 2);
  assert_int_equal(to, 8);
}

#define HELD "0:1 hold 1 2-5@20 0:2 2:2 0:4 2:5 0:6 3:6 0:7 1:7 3:7 "

static void a_hold_passes_it_over_and_what_comes_later_is_late(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  for (int i = 0; i < 4; i++) sources[i].arrived = i == 1 ? 0 : sources[i].count;
  sources[1].reach_after[0] = 1;
  drain_into(&out);
  assert_int_equal(ctxp_merge_hold(merge, 1, 2, 5), 0);
  drain_into(&out);
  assert_string_equal(ctxp_buf_cstr(&out), "0:1 hold 1 2-5@20 0:2 2:2 0:4 2:5 ");
  assert_int_equal(ctxp_merge_done(merge), 5);
  sources[1].arrived = sources[1].count;
  drain_into(&out);
  assert_string_equal(ctxp_buf_cstr(&out), HELD);
  assert_int_equal(ctxp_merge_late(merge), 3);
}

static void a_recorded_hold_gives_the_same_order_though_nobody_is_late(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  for (int i = 0; i < 4; i++) sources[i].arrived = sources[i].count;
  assert_int_equal(ctxp_merge_hold(merge, 1, 2, 5), 0);
  drain_into(&out);
  assert_string_equal(ctxp_buf_cstr(&out), HELD);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_order_is_by_cause_then_by_the_topology_in_force, setup, teardown),
      cmocka_unit_test_setup_teardown(every_order_of_arrival_gives_the_same_order, setup, teardown),
      cmocka_unit_test_setup_teardown(a_restart_at_any_checkpoint_goes_on_with_the_same_order, setup, teardown),
      cmocka_unit_test_setup_teardown(one_that_is_silent_holds_the_others_and_is_named, setup, teardown),
      cmocka_unit_test_setup_teardown(a_hold_passes_it_over_and_what_comes_later_is_late, setup, teardown),
      cmocka_unit_test_setup_teardown(a_recorded_hold_gives_the_same_order_though_nobody_is_late, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
