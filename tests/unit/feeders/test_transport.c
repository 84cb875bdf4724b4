/* The importer against a real collector: nothing is lost and nothing comes twice, also where the collector dies in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../collector/world.h"
#include "reference.h"

static const char *samples;

struct job {
  struct ctxp_import_options options;
  struct ctxp_import_result result;
  struct ctxp_error err;
  int r;
};

static void *run(void *data) {
  struct job *job = data;
  job->r = ctxp_import_run(&job->options, &job->result, &job->err);
  return NULL;
}

static void prepare(struct world *w, struct job *job) {
  memset(w, 0, sizeof(*w));
  w->options.max_event_bytes = 1 << 20;
  world_make(w);
  *job = (struct job){.options = {.endpoint = w->endpoint, .paths = &samples, .path_count = 1}};
}

static uint64_t expected_events(void) {
  struct ref *ref = calloc(1, sizeof(*ref));
  struct ctxp_import_sink sink;
  struct ctxp_import_result result = {0};
  const struct ctxp_import_options options = {.paths = &samples, .path_count = 1};
  ref_init(ref, &sink);
  assert_int_equal(ctxp_import_files(&options, &sink, &result, NULL), 0);
  assert_int_equal(result.files, 3);
  uint64_t events = result.events;
  ctxp_import_result_deinit(&result);
  ref_deinit(ref);
  free(ref);
  return events;
}

#define MANY 70 /* more than there are clients at a time */

/* each of them twice, as a copy under another name */
static void write_many(const char *dir) {
  for (unsigned i = 0; i < 2 * MANY; i++) {
    char path[128];
    snprintf(path, sizeof(path), "%s/%c%03u.jsonl", dir, i < MANY ? 'a' : 'b', i % MANY);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file,
        "{\"type\":\"session\",\"version\":3,\"id\":\"s%u\",\"cwd\":\"/x\",\"timestamp\":\"2026-01-01T00:00:00Z\"}\n"
        "{\"type\":\"message\",\"id\":\"m\",\"parentId\":null,\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n",
        i % MANY);
    fclose(file);
  }
}

static unsigned stored(struct world *w) {
  unsigned count = 0;
  for (const char *at = world_events(w); at && *at; count++) {
    at = strchr(at, ' ');
    if (at) at++;
  }
  return count;
}

static void the_samples_arrive_once_however_often_they_are_imported(void **state) {
  (void)state;
  struct world w;
  struct job job;
  prepare(&w, &job);
  world_start(&w);
  for (unsigned i = 0; i < 3; i++) {
    run(&job);
    if (job.r < 0) fail_msg("%s", job.err.text);
    assert_int_equal(job.result.events, i ? 0 : expected_events());
    assert_int_equal(job.result.refused, 0);
    ctxp_import_result_deinit(&job.result);
  }
  world_stop(&w);
  assert_int_equal(stored(&w), expected_events());
  world_remove(&w);
}

static void many_small_sessions_and_their_copies_arrive_once(void **state) {
  (void)state;
  struct world w;
  struct job job;
  char dir[] = "/tmp/ctxp-many-XXXXXX", command[64];
  assert_non_null(mkdtemp(dir));
  write_many(dir);
  prepare(&w, &job);
  const char *path = dir;
  job.options.paths = &path;
  world_start(&w);
  for (unsigned i = 0; i < 2; i++) {
    run(&job);
    if (job.r < 0) fail_msg("%s", job.err.text);
    assert_int_equal(job.result.files, 2 * MANY);
    assert_int_equal(job.result.sessions, MANY);
    assert_int_equal(job.result.events, i ? 0 : MANY * 5); /* start, work, message, and the two ends */
    ctxp_import_result_deinit(&job.result);
  }
  world_stop(&w);
  assert_int_equal(stored(&w), MANY * 5);
  world_remove(&w);
  snprintf(command, sizeof(command), "rm -r '%s'", dir);
  assert_int_equal(system(command), 0); /* NOLINT: a path of the test's own */
}

static void a_collector_that_dies_in_between_gets_the_rest(void **state) {
  (void)state;
  static const enum world_crash crashes[] = {WORLD_CRASH_BEFORE_COMMIT, WORLD_CRASH_BEFORE_ACK};
  for (unsigned i = 0; i < 2; i++) {
    struct world w;
    struct job job;
    pthread_t thread;
    prepare(&w, &job);
    world_start(&w);
    w.crash = crashes[i];
    assert_int_equal(pthread_create(&thread, NULL, run, &job), 0);
    world_wait_crash(&w);
    w.crash = WORLD_RUN;
    world_start(&w);
    pthread_join(thread, NULL);
    if (job.r < 0) fail_msg("%s", job.err.text);
    ctxp_import_result_deinit(&job.result);
    world_stop(&w);
    assert_int_equal(stored(&w), expected_events());
    world_remove(&w);
  }
}

static void a_stop_ends_the_wait_for_a_collector(void **state) {
  (void)state;
  struct world w;
  struct job job;
  int stop = 1;
  prepare(&w, &job);
  job.options.stop = &stop;
  run(&job);
  assert_int_equal(job.r, -EINTR);
  assert_string_equal(job.err.text, "the import was stopped");
  ctxp_import_result_deinit(&job.result);
  world_remove(&w);
}

int main(int argc, char **argv) {
  samples = argc > 1 ? argv[1] : "samples";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_samples_arrive_once_however_often_they_are_imported),
      cmocka_unit_test(many_small_sessions_and_their_copies_arrive_once),
      cmocka_unit_test(a_collector_that_dies_in_between_gets_the_rest),
      cmocka_unit_test(a_stop_ends_the_wait_for_a_collector),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
