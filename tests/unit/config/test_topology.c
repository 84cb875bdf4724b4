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
#include "support/fail_alloc.h"
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
                         "  log: {daemon: sink-log, subscribe: [fold], form: now}\n"),
      -EINVAL);
  assert_null(config);
  assert_string_equal(ctxp_buf_cstr(&faults),
      "/tmp/topology.yaml:6:65: node 'bash': unknown option 'min_token'; did you mean 'min_tokens'?\n"
      "/tmp/topology.yaml:7:18: node 'fold': unknown daemon 'folt'; did you mean 'fold'?\n"
      "/tmp/topology.yaml:7:47: node 'fold': 'subscribe' names 'bsh', which is no node; did you mean 'bash'?\n"
      "/tmp/topology.yaml:8:46: node 'log': unknown key 'form'; did you mean 'from'?\n");
}

static void an_edge_whose_ends_share_no_event_is_a_fault(void **state) {
  (void)state;
  assert_int_equal(parse("version: 1\nstate_dir: /tmp/state\nrun_dir: /tmp/run\nnodes:\n"
                         "  collector: {daemon: collector, ingest: [ipc://ingest.sock]}\n"
                         "  fold: {daemon: fold, subscribe: [collector]}\n"
                         "  holds: {daemon: sink-holds, subscribe: [fold]}\n"
                         "  snapshot: {daemon: sink-snapshot, subscribe: [fold]}\n"),
      -EINVAL);
  assert_string_equal(ctxp_buf_cstr(&faults),
      "/tmp/topology.yaml:7:43: node 'holds': 'fold' (fold) cannot feed it: it sends no event that sink-holds takes\n"
      "/tmp/topology.yaml:8:3: node 'snapshot': option 'dir' is missing: the folder\n");
}

static void nodes_of_a_role_can_be_left_out(void **state) {
  (void)state;
  assert_int_equal(parse(GOOD), 0);
  ctxp_topology_leave_out(config, CTXP_ROLE_MECHANISM_NODE);
  assert_int_equal(config->node_count, 4);
  assert_string_equal(config->nodes[0].name, "collector");
  assert_string_equal(config->nodes[1].name, "fold");
  ctxp_topology_leave_out(config, CTXP_ROLE_SINK_NODE);
  assert_int_equal(config->node_count, 2);
  assert_null(ctxp_topology_node(config, "snapshot"));
  assert_non_null(ctxp_topology_node(config, "fold"));
}

static void without_a_runtime_directory_the_sockets_are_beside_the_state(void **state) {
  (void)state;
  const char *text = "version: 1\nstate_dir: st\nnodes:\n  collector: {daemon: collector, ingest: [ipc://ingest.sock]}\n"
                     "  fold: {daemon: fold, subscribe: [collector]}\n  log: {daemon: sink-log, subscribe: [fold]}\n";
  unsetenv("XDG_RUNTIME_DIR");
  assert_int_equal(parse(text), 0);
  assert_string_equal(config->state_dir, "/tmp/st");
  assert_string_equal(config->run_dir, "/tmp/st/run");
  setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
  assert_int_equal(parse(text), 0);
  assert_string_equal(config->run_dir, "/run/user/1/ctxpipe");
}

static void a_prefix_of_a_topology_never_crashes_the_reader(void **state) {
  (void)state;
  ctxp_auto_buf text = {0};
  ctxp_buf_str(&text, GOOD);
  for (size_t len = 0; len < sizeof(GOOD) - 1; len++) {
    config = ctxp_topology_free(config);
    ctxp_buf_reset(&faults);
    int r = ctxp_topology_parse("f", (struct ctxp_str){(const char *)text.ptr, len}, fake_registry, &config, &faults);
    assert_true(r == 0 || r == -EINVAL);
    assert_true((r == 0) == (faults.len == 0));
  }
}

static void every_failing_allocation_is_an_error(void **state) {
  (void)state;
  for (unsigned n = 1;; n++) {
    assert_true(n < 5000);
    fail_alloc_at(n);
    int r = parse(GOOD);
    bool happened = fail_alloc_happened();
    fail_alloc_at(0);
    if (!happened) break;
    assert_int_equal(r, -ENOMEM);
    assert_null(config);
  }
  assert_int_equal(parse(GOOD), 0);
}

/* ---- options ---- */
static void options_are_filled_from_a_map_and_the_defaults(void **state) {
  (void)state;
  struct fake_bash_options options;
  ctxp_auto_buf map = {0}, arena = {0};
  struct ctxp_error err;
  ctxp_pack_map(&map, 2);
  ctxp_pack_cstr(&map, "engine");
  ctxp_pack_cstr(&map, "aux");
  ctxp_pack_cstr(&map, "url");
  ctxp_pack_cstr(&map, "http://x");
  assert_int_equal(ctxp_options_fill(fake_registry[1]->options, ctxp_buf_raw(&map), &options, &arena, &err), 0);
  assert_int_equal(options.min_tokens, 2000);
  assert_int_equal(options.engine, 1);
  assert_false(options.keep_errors);
  assert_string_equal(options.url, "http://x");
  assert_string_equal(options.key_file, "");
}

static void options_that_are_wrong_leave_the_old_ones(void **state) {
  (void)state;
  struct fake_bash_options options;
  ctxp_auto_buf map = {0}, arena = {0};
  struct ctxp_error err;
  assert_int_equal(ctxp_options_fill(fake_registry[1]->options, (struct ctxp_raw){0}, &options, &arena, &err), 0);
  const char *url = options.url;
  ctxp_pack_map(&map, 2);
  ctxp_pack_cstr(&map, "url");
  ctxp_pack_cstr(&map, "new");
  ctxp_pack_cstr(&map, "min_tokens");
  ctxp_pack_u64(&map, 1000001);
  assert_int_equal(ctxp_options_fill(fake_registry[1]->options, ctxp_buf_raw(&map), &options, &arena, &err), -EINVAL);
  assert_string_equal(err.text, "option 'min_tokens' has a value that it cannot have; it takes 0 to 1000000 tokens");
  assert_ptr_equal(options.url, url);
  assert_string_equal(options.url, "");
  assert_int_equal(options.min_tokens, 2000);
}

static void an_option_that_is_unknown_or_missing_is_named(void **state) {
  (void)state;
  const char *dir;
  struct fake_bash_options options;
  ctxp_auto_buf map = {0}, arena = {0};
  struct ctxp_error err;
  ctxp_pack_map(&map, 1);
  ctxp_pack_cstr(&map, "other");
  ctxp_pack_u64(&map, 1);
  assert_int_equal(ctxp_options_fill(fake_registry[1]->options, ctxp_buf_raw(&map), &options, &arena, &err), -EINVAL);
  assert_string_equal(err.text, "unknown option 'other'");
  assert_int_equal(ctxp_options_fill(fake_registry[5]->options, (struct ctxp_raw){0}, &dir, &arena, &err), -EINVAL);
  assert_string_equal(err.text, "option 'dir' is required");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(a_good_topology_is_read_with_defaults_and_absolute_paths, teardown),
      cmocka_unit_test_teardown(what_is_written_reads_back_equal, teardown),
      cmocka_unit_test_teardown(all_faults_are_named_in_one_run, teardown),
      cmocka_unit_test_teardown(an_edge_whose_ends_share_no_event_is_a_fault, teardown),
      cmocka_unit_test_teardown(nodes_of_a_role_can_be_left_out, teardown),
      cmocka_unit_test_teardown(without_a_runtime_directory_the_sockets_are_beside_the_state, teardown),
      cmocka_unit_test_teardown(a_prefix_of_a_topology_never_crashes_the_reader, teardown),
      cmocka_unit_test_teardown(every_failing_allocation_is_an_error, teardown),
      cmocka_unit_test(options_are_filled_from_a_map_and_the_defaults),
      cmocka_unit_test(options_that_are_wrong_leave_the_old_ones),
      cmocka_unit_test(an_option_that_is_unknown_or_missing_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
