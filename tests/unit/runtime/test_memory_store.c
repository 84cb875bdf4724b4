/* The store in memory against a plain array: the same pairs in the same order after any puts and deletes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "runtime/memory_store.h"

#define KEYS 300

static struct ctxp_memory_store *store;
static unsigned model[KEYS]; /* value of a key; 0: not there */

static int setup(void **state) {
  (void)state;
  store = ctxp_memory_store_new();
  memset(model, 0, sizeof(model));
  return store ? 0 : -1;
}
static int teardown(void **state) {
  (void)state;
  store = ctxp_memory_store_free(store);
  return 0;
}

static struct ctxp_raw key_of(unsigned i, char text[16]) {
  snprintf(text, 16, "%c/%03u", i < KEYS / 2 ? 'a' : 'b', i);
  return (struct ctxp_raw){(const uint8_t *)text, strlen(text)};
}
static struct ctxp_raw raw(const void *bytes, size_t len) { return (struct ctxp_raw){bytes, len}; }

struct visit {
  unsigned next, limit, seen;
};
static int visit(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  struct visit *v = data;
  char text[16];
  unsigned got;
  while (v->next < v->limit && !model[v->next]) v->next++;
  assert_true(v->next < v->limit);
  struct ctxp_raw expected = key_of(v->next, text);
  assert_int_equal(key.len, expected.len);
  assert_memory_equal(key.ptr, expected.ptr, key.len);
  assert_int_equal(value.len, sizeof(got));
  memcpy(&got, value.ptr, sizeof(got));
  assert_int_equal(got, model[v->next]);
  v->next++;
  v->seen++;
  return 0;
}

static void check(const char *prefix, unsigned from, unsigned limit) {
  struct visit v = {.next = from, .limit = limit};
  unsigned there = 0;
  for (unsigned i = from; i < limit; i++) there += model[i] != 0;
  assert_int_equal(ctxp_memory_store_each(store, raw(prefix, strlen(prefix)), visit, &v), 0);
  assert_int_equal(v.seen, there);
}

static void it_holds_the_same_as_an_array_after_any_puts_and_deletes(void **state) {
  (void)state;
  uint64_t seed = 7;
  for (unsigned step = 1; step <= 20000; step++) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    unsigned i = (unsigned)(seed >> 33) % KEYS, got;
    char text[16];
    struct ctxp_raw key = key_of(i, text), value;
    if (seed >> 63) {
      assert_int_equal(ctxp_memory_store_put(store, key, raw(&step, sizeof(step))), 0);
      model[i] = step;
    } else {
      ctxp_memory_store_del(store, key);
      model[i] = 0;
    }
    assert_int_equal(ctxp_memory_store_get(store, key, &value), model[i] == 0);
    if (model[i]) {
      memcpy(&got, value.ptr, sizeof(got));
      assert_int_equal(got, model[i]);
    }
    if (step % 500 == 0) {
      check("", 0, KEYS);
      check("a/", 0, KEYS / 2);
      check("b/", KEYS / 2, KEYS);
    }
  }
}

static int delete_it(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  (void)value;
  (*(unsigned *)data)++;
  ctxp_memory_store_del(store, key);
  return 0;
}

static void a_visitor_may_delete_what_it_visits(void **state) {
  (void)state;
  char text[16];
  unsigned one = 1, visited = 0;
  for (unsigned i = 0; i < 20; i++) assert_int_equal(ctxp_memory_store_put(store, key_of(i, text), raw(&one, sizeof(one))), 0);
  assert_int_equal(ctxp_memory_store_each(store, raw("a/", 2), delete_it, &visited), 0);
  assert_int_equal(visited, 20);
  check("", 0, KEYS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(it_holds_the_same_as_an_array_after_any_puts_and_deletes, setup, teardown),
      cmocka_unit_test_setup_teardown(a_visitor_may_delete_what_it_visits, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
