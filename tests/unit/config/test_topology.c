#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/topology.h"
#include "unit/config/fake_registry.h"

#define GOOD \
  "version: 1\n" \
  "state_dir: /tmp/state\n" \
  "run_dir: /tmp/run\n" \
  "nodes:\n" \
  "  collector: {daemon: collector, ingest: [ipc://ingest.sock, 'tcp://127.0.0.1:7117']}\n" \
  "  bash: {daemon: bash-digest, subscribe: [collector], options: {min_tokens: 100, key_file: keys/k$$y}}\n" \
  "  lazy: {daemon: lazy-estimator, subscribe: [collector]}\n" \
  "  fold: {daemon: fold, subscribe: [collector, lazy, bash]}\n" \
  "  log: {daemon: sink-log, subscribe: [fold], from: now}\n" \
  "  snapshot: {daemon: sink-snapshot, subscribe: [fold], options: {dir: \"snap\\\"shots\\u00e9\"}}\n"

static struct ctxp_config *config;
static struct ctxp_buf faults;

static int parse(const char *text) {
  config = ctxp_topology_free(config);
  ctxp_buf_reset(&faults);
  return ctxp_topology_parse("/tmp/topology.yaml", ctxp_str(text), fake_registry, &config, &faults);
}

static int teardown(void **state) {
  (void)state;
  config = ctxp_topology_free(config);
  ctxp_buf_deinit(&faults);
  return 0;
}

static struct ctxp_raw options_of(const char *node) { return ctxp_buf_raw(&ctxp_topology_node(config, node)->options); }

static void a_good_topology_is_read_with_defaults_and_absolute_paths(void **state) {
  (void)state;
  assert_int_equal(parse(GOOD), 0);
  assert_int_equal(faults.len, 0);
  assert_int_equal(config->node_count, 6);
  assert_string_equal(config->nodes[3].subscribe[1], "lazy");
  assert_string_equal(config->nodes[3].subscribe[2], "bash");
  assert_null(config->nodes[3].subscribe[3]);
  assert_int_equal(config->max_bytes, 8589934592);
  assert_true(config->durability_power);
  assert_string_equal(config->nodes[0].ingest[0], "ipc:///tmp/run/ingest.sock");
  assert_string_equal(config->nodes[0].ingest[1], "tcp://127.0.0.1:7117");
  assert_false(ctxp_topology_node(config, "log")->from_start);
  assert_true(ctxp_topology_node(config, "snapshot")->from_start);
  assert_int_equal(ctxp_map_u64(options_of("bash"), "min_tokens", 0), 100);
  assert_true(ctxp_str_is(ctxp_map_str(options_of("bash"), "key_file"), "/tmp/state/keys/k$y"));
  assert_true(ctxp_str_is(ctxp_map_str(options_of("bash"), "engine"), "rules"));
  assert_true(ctxp_str_is(ctxp_map_str(options_of("log"), "path"), "/tmp/state/events.jsonl"));
  assert_null(config->prices);
  ctxp_auto_buf endpoint = {0};
  ctxp_topology_endpoint(config, "fold", "replay", &endpoint);
  assert_string_equal(ctxp_buf_cstr(&endpoint), "ipc:///tmp/run/fold.replay");
}

static void what_is_written_reads_back_equal(void **state) {
  (void)state;
  ctxp_auto_buf first = {0}, second = {0};
  assert_int_equal(parse(GOOD), 0);
  assert_int_equal(ctxp_topology_write(config, &first), 0);
  assert_int_equal(parse(ctxp_buf_cstr(&first)), 0);
  assert_int_equal(ctxp_topology_write(config, &second), 0);
  assert_string_equal(ctxp_buf_cstr(&first), ctxp_buf_cstr(&second));
  assert_true(ctxp_str_is(ctxp_map_str(options_of("snapshot"), "dir"), "/tmp/state/snap\"shots\u00e9"));
  assert_true(ctxp_str_is(ctxp_map_str(options_of("bash"), "key_file"), "/tmp/state/keys/k$y"));
}

static void all_faults_are_named_in_one_run(void **state) {
  (void)state;
  assert_int_equal(parse("version: 1\nstate_dir: /tmp/state\nrun_dir: /tmp/run\nnodes:\n"
                         "  collector: {daemon: collector, ingest: [ipc://ingest.sock]}\n"
                         "  bash: {daemon: bash-digest, subscribe: [collector], options: {min_token: 5}}\n"
                         "  fold: {daemon: folt, subscribe: [collector, bsh]}\n"
                         "  log: {daemon: sink-log, subscribe: [fold], form: now}\n"), -EINVAL);
  assert_null(config);
  assert_string_equal(ctxp_buf_cstr(&faults),
                      "/tmp/topology.yaml:6:65: node 'bash': unknown option 'min_token'; did you mean 'min_tokens'?\n"
                      "/tmp/topology.yaml:7:18: node 'fold': unknown daemon 'folt'; did you mean 'fold'?\n"
                      "/tmp/topology.yaml:7:47: node 'fold': 'subscribe' names 'bsh', which is no node; did you mean 'bash'?\n"
                      "/tmp/topology.yaml:8:46: node 'log': unknown key 'form'; did you mean 'from'?\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_teardown(a_good_topology_is_read_with_defaults_and_absolute_paths, teardown),
    cmocka_unit_test_teardown(what_is_written_reads_back_equal, teardown),
    cmocka_unit_test_teardown(all_faults_are_named_in_one_run, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
