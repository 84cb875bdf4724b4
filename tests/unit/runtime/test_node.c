/* Nodes as processes: a source that counts, a fold that derives from it, a sink that writes a file. What is in the file is
 * every event once, however they are killed. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/str.h"
#include "codec/msgpack.h"
#include "runtime/control.h"
#include "runtime/node.h"

#define PATIENCE_MS 20000

/* ---- the stages ---- */
struct count_options {
  uint64_t count;
};
static const struct ctxp_option count_table[] = {
    {"count", CTXP_OPTION_U64, "100", 0, 1000000, "", "events to append in all", NULL, offsetof(struct count_options, count)},
    {.name = NULL}};

static int nothing_open(struct ctxp_stage *stage, struct ctxp_error *err) {
  (void)stage, (void)err;
  return 0;
}
static int nothing_event(struct ctxp_stage *stage, const struct ctxp_event *event) {
  (void)stage, (void)event;
  return 0;
}
static int nothing_save(struct ctxp_stage *stage) {
  (void)stage;
  return 0;
}
static void nothing_close(struct ctxp_stage *stage) { (void)stage; }

static const enum ctxp_kind source_emits[] = {CTXP_KIND_session_end, CTXP_KIND_topology, CTXP_KIND_NONE};
static const struct ctxp_stage_ops source = {.api = CTXP_STAGE_API,
    .name = "collector",
    .summary = "counts",
    .role = CTXP_ROLE_COLLECTOR_NODE,
    .version = 1,
    .emits = source_emits,
    .options = count_table,
    .options_size = sizeof(struct count_options),
    .open = nothing_open,
    .event = nothing_event,
    .save = nothing_save,
    .close = nothing_close};

static int source_open(struct ctxp_node *node, struct ctxp_stage *stage, struct ctxp_error *err) {
  (void)node, (void)stage, (void)err;
  return 0;
}
static unsigned source_items(struct ctxp_node *node, struct ctxp_stage *stage, zmq_pollitem_t *items, unsigned max) {
  (void)node, (void)stage, (void)items, (void)max;
  return 0;
}
static int source_ready(struct ctxp_node *node, struct ctxp_stage *stage, const zmq_pollitem_t *items, unsigned count) {
  (void)node, (void)stage, (void)items, (void)count;
  return 0;
}
/* an event a millisecond, or twenty of many; none while the stream is full */
static int source_tick(struct ctxp_node *node, struct ctxp_stage *stage, uint64_t now_ms, uint64_t *ret_next_ms) {
  const struct count_options *options = ctxp_stage_options(stage);
  struct ctxp_event event = {.kind = CTXP_KIND_session_end, .agent = CTXP_STR("a"), .session = CTXP_STR("s"), .ts_ms = 1000};
  uint64_t seq;
  *ret_next_ms = UINT64_MAX;
  int r = 0;
  if (ctxp_stream_next(ctxp_node_stream(node)) > options->count || ctxp_node_draining(node)) return 0;
  *ret_next_ms = now_ms + 1;
  for (int i = 0; i < (options->count < 10000 ? 1 : 20) && r == 0 && !ctxp_node_full(node); i++)
    if (ctxp_stream_next(ctxp_node_stream(node)) <= options->count) r = ctxp_node_append(node, &event, &seq);
  return r;
}
static void source_close(struct ctxp_node *node, struct ctxp_stage *stage) { (void)node, (void)stage; }
static const struct ctxp_source_ops source_hooks = {
    .open = source_open, .items = source_items, .ready = source_ready, .tick = source_tick, .close = source_close};

struct sum_state {
  uint64_t sum;
};
static uint64_t salt; /* another derivation, when a test sets it before it starts the node */

static int derive_open(struct ctxp_stage *stage, struct ctxp_error *err) {
  struct sum_state *state = ctxp_stage_state(stage);
  struct ctxp_raw value;
  (void)err;
  if (ctxp_stage_get(stage, ctxp_str_raw(CTXP_STR("sum")), &value) == 0) memcpy(&state->sum, value.ptr, sizeof(state->sum));
  return 0;
}
static int derive_event(struct ctxp_stage *stage, const struct ctxp_event *event) {
  struct sum_state *state = ctxp_stage_state(stage);
  state->sum += event->seq;
  struct ctxp_event out = {.kind = CTXP_KIND_lazy};
  ctxp_set(&out.lazy, lazy, avoidedTokens, state->sum + salt);
  return ctxp_stage_emit(stage, &out);
}
static int derive_save(struct ctxp_stage *stage) {
  struct sum_state *state = ctxp_stage_state(stage);
  return ctxp_stage_put(stage, ctxp_str_raw(CTXP_STR("sum")), (struct ctxp_raw){(uint8_t *)&state->sum, sizeof(state->sum)});
}
static const struct ctxp_consume derive_consumes[] = {{CTXP_KIND_session_end, 0}, {CTXP_KIND_NONE, 0}};
static const enum ctxp_kind derive_emits[] = {CTXP_KIND_lazy, CTXP_KIND_NONE};
static struct ctxp_stage_ops deriver = {.api = CTXP_STAGE_API,
    .name = "deriver",
    .summary = "sums",
    .role = CTXP_ROLE_FOLD_NODE,
    .version = 1,
    .consumes = derive_consumes,
    .emits = derive_emits,
    .state_size = sizeof(struct sum_state),
    .open = derive_open,
    .event = derive_event,
    .save = derive_save,
    .close = nothing_close};

struct sink_options {
  const char *path;
};
struct sink_state {
  int fd;
  uint64_t length;
};
static const struct ctxp_option sink_table[] = {
    {"path", CTXP_OPTION_PATH, "out", 0, 0, "", "the file", NULL, offsetof(struct sink_options, path)}, {.name = NULL}};

static int sink_open(struct ctxp_stage *stage, struct ctxp_error *err) {
  struct sink_state *state = ctxp_stage_state(stage);
  const struct sink_options *options = ctxp_stage_options(stage);
  struct ctxp_raw value;
  state->fd = open(options->path, O_RDWR | O_CREAT, 0600);
  if (state->fd < 0) return ctxp_error_set(err, -errno, "%s: %s", options->path, strerror(errno));
  if (ctxp_stage_get(stage, ctxp_str_raw(CTXP_STR("length")), &value) == 0) memcpy(&state->length, value.ptr, sizeof(state->length));
  return ftruncate(state->fd, (off_t)state->length);
}
static int sink_event(struct ctxp_stage *stage, const struct ctxp_event *event) {
  struct sink_state *state = ctxp_stage_state(stage);
  char line[64];
  int len = snprintf(line, sizeof(line), "%llu %llu\n", (unsigned long long)event->cause, (unsigned long long)event->lazy.avoidedTokens);
  if (pwrite(state->fd, line, (size_t)len, (off_t)state->length) != len) return -EIO;
  state->length += (uint64_t)len;
  return 0;
}
static int sink_save(struct ctxp_stage *stage) {
  struct sink_state *state = ctxp_stage_state(stage);
  if (fdatasync(state->fd) < 0) return -errno;
  return ctxp_stage_put(stage, ctxp_str_raw(CTXP_STR("length")), (struct ctxp_raw){(uint8_t *)&state->length, sizeof(state->length)});
}
static void sink_close(struct ctxp_stage *stage) {
  struct sink_state *state = ctxp_stage_state(stage);
  if (state->fd > 0) close(state->fd);
}
static const struct ctxp_consume sink_consumes[] = {{CTXP_KIND_lazy, 0}, {CTXP_KIND_NONE, 0}};
static const struct ctxp_stage_ops sinker = {.api = CTXP_STAGE_API,
    .name = "sinker",
    .summary = "writes",
    .role = CTXP_ROLE_SINK_NODE,
    .version = 1,
    .consumes = sink_consumes,
    .options = sink_table,
    .options_size = sizeof(struct sink_options),
    .state_size = sizeof(struct sink_state),
    .open = sink_open,
    .event = sink_event,
    .save = sink_save,
    .close = sink_close};

static const struct ctxp_stage_ops *const registry[] = {&source, &deriver, &sinker, NULL};
const struct ctxp_stage_ops *const *ctxp_registry_get(void) { return registry; }

/* ---- running them ---- */
enum { SOURCE,
  DERIVER,
  SINKER,
  NODES };
static const struct {
  const char *name;
  const struct ctxp_stage_ops *ops;
  const struct ctxp_source_ops *hooks;
} nodes[NODES] = {{"collector", &source, &source_hooks}, {"deriver", &deriver, NULL}, {"sinker", &sinker, NULL}};

static char dir[64], topology_file[100];
static pid_t pids[NODES];
static int life[2];
static char said[2000]; /* of a node that did not start */

static void write_topology(uint64_t count, const char *more) {
  FILE *file = fopen(topology_file, "w");
  assert_non_null(file);
  fprintf(file, "version: 1\nrun_dir: %s/run\nstate_dir: %s/state\ndrain_s: 15\n%snodes:\n", dir, dir, more);
  fprintf(file, "  collector: {daemon: collector, ingest: [ipc://ingest.sock], options: {count: %llu}}\n", (unsigned long long)count);
  fprintf(file, "  deriver: {daemon: deriver, subscribe: [collector]}\n  sinker: {daemon: sinker, subscribe: [deriver]}\n");
  fclose(file);
}

static int setup(void **state) {
  (void)state;
  char path[100];
  snprintf(dir, sizeof(dir), "/tmp/ctxp-node-XXXXXX");
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof(path), "%s/run", dir);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(path, sizeof(path), "%s/state", dir);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(topology_file, sizeof(topology_file), "%s/t.yaml", dir);
  assert_int_equal(pipe(life), 0);
  fcntl(life[1], F_SETFD, FD_CLOEXEC);
  salt = 0;
  deriver.version = 1;
  memset(pids, 0, sizeof(pids));
  return 0;
}
static int teardown(void **state) {
  (void)state;
  char command[120];
  for (int i = 0; i < NODES; i++)
    if (pids[i]) {
      kill(pids[i], SIGKILL);
      waitpid(pids[i], NULL, 0);
    }
  close(life[0]);
  if (life[1] >= 0) close(life[1]);
  snprintf(command, sizeof(command), "rm -rf '%s'", dir);
  return system(command) == 0 ? 0 : -1;
}

static void run_child(int i, int ready) {
  char path[100];
  snprintf(path, sizeof(path), "%s/stderr.%s", dir, nodes[i].name);
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(fd, STDERR_FILENO);
  close(life[1]); /* or the pipe would never end */
  struct ctxp_node_options options = {.ops = nodes[i].ops,
      .source = nodes[i].hooks,
      .topology_file = topology_file,
      .name = nodes[i].name,
      .ready_fd = ready,
      .life_fd = life[0]};
  _exit(ctxp_node_run(&options));
}

/* true: it said ready; else what it said is in `said` */
static bool start(int i) {
  int ready[2];
  size_t len = 0;
  ssize_t got;
  assert_int_equal(pipe(ready), 0);
  fflush(NULL);
  pids[i] = fork();
  assert_true(pids[i] >= 0);
  if (pids[i] == 0) {
    close(ready[0]);
    run_child(i, ready[1]);
  }
  close(ready[1]);
  while (len < sizeof(said) - 1 && !memchr(said, '\n', len) && (got = read(ready[0], said + len, sizeof(said) - 1 - len)) > 0)
    len += (size_t)got;
  said[len] = 0;
  close(ready[0]);
  return strcmp(said, "ready\n") == 0;
}
static void start_all(void) {
  for (int i = NODES; i-- > 0;)
    if (!start(i)) fail_msg("%s: %s", nodes[i].name, said);
}
static void kill_node(int i) {
  kill(pids[i], SIGKILL);
  waitpid(pids[i], NULL, 0);
  pids[i] = 0;
}
static int exit_code(int i) {
  int status;
  assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
  pids[i] = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int call(int i, const char *op, const char *key, uint64_t value, struct ctxp_buf *reply, struct ctxp_error *err) {
  ctxp_auto_buf request = {0};
  char endpoint[120];
  ctxp_pack_map(&request, 2);
  ctxp_pack_cstr(&request, "op");
  ctxp_pack_cstr(&request, op);
  ctxp_pack_cstr(&request, key);
  ctxp_pack_u64(&request, value);
  snprintf(endpoint, sizeof(endpoint), "ipc://%s/run/%s.control", dir, nodes[i].name);
  return ctxp_control_call(endpoint, ctxp_buf_raw(&request), PATIENCE_MS, reply, err);
}
static void wait_for(int i, uint64_t cause) {
  ctxp_auto_buf reply = {0};
  struct ctxp_error err = {""};
  if (call(i, "wait", "cause", cause, &reply, &err) < 0) fail_msg("%s: %s", nodes[i].name, err.text);
}
static uint64_t figure(int i, const char *key) {
  ctxp_auto_buf reply = {0};
  struct ctxp_error err = {""};
  if (call(i, "status", "x", 0, &reply, &err) < 0) fail_msg("%s: %s", nodes[i].name, err.text);
  return ctxp_map_u64(ctxp_buf_raw(&reply), key, UINT64_MAX);
}
static void drain(void) {
  ctxp_auto_buf reply = {0};
  struct ctxp_error err = {""};
  if (call(SOURCE, "drain", "x", 0, &reply, &err) < 0) fail_msg("%s", err.text);
}

/* the file holds causes 1..count once and in order; from `salted` on with the salt */
static void check_file(uint64_t count, uint64_t salted, uint64_t by) {
  char path[100];
  unsigned long long cause, tokens;
  uint64_t sum = 0, lines = 0;
  snprintf(path, sizeof(path), "%s/state/out", dir);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fscanf(file, "%llu %llu", &cause, &tokens) == 2) {
    lines++;
    sum += lines;
    assert_int_equal(cause, lines);
    assert_int_equal(tokens, sum + (lines >= salted ? by : 0));
  }
  fclose(file);
  assert_int_equal(lines, count);
}
static bool stderr_has(int i, const char *text) {
  char path[100], content[4000];
  snprintf(path, sizeof(path), "%s/stderr.%s", dir, nodes[i].name);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  content[fread(content, 1, sizeof(content) - 1, file)] = 0;
  fclose(file);
  return strstr(content, text) != NULL;
}

/* ---- tests ---- */
static void every_event_is_in_the_file_once_though_each_node_is_killed_in_turn(void **state) {
  (void)state;
  write_topology(1500, "");
  start_all();
  for (uint64_t at = 100; at <= 1300; at += 150) {
    int victim = (int)(at / 150) % NODES;
    wait_for(DERIVER, at);
    kill_node(victim);
    if (!start(victim)) fail_msg("%s: %s", nodes[victim].name, said);
  }
  wait_for(SINKER, 1500);
  check_file(1500, UINT64_MAX, 0);
  assert_int_equal(figure(DERIVER, "head"), 1500);
}

static void a_drain_goes_through_the_pipeline_and_all_leave(void **state) {
  (void)state;
  write_topology(300, "");
  start_all();
  wait_for(DERIVER, 10);
  uint64_t from = ctxp_clock_ms();
  drain();
  for (int i = 0; i < NODES; i++) assert_int_equal(exit_code(i), CTXP_EXIT_DRAINED);
  assert_true(ctxp_clock_ms() - from < 10000); /* and not after drain_s */
  start_all(); /* goes on where it ended */
  wait_for(SINKER, 300);
  check_file(300, UINT64_MAX, 0);
}

static void terminating_all_at_once_loses_nothing(void **state) {
  (void)state;
  write_topology(400, "");
  start_all();
  wait_for(DERIVER, 50);
  for (int i = 0; i < NODES; i++) kill(pids[i], SIGTERM);
  for (int i = 0; i < NODES; i++) assert_int_equal(exit_code(i), CTXP_EXIT_DRAINED);
  start_all();
  wait_for(SINKER, 400);
  check_file(400, UINT64_MAX, 0);
}

static void one_that_is_terminated_alone_leaves_and_comes_back(void **state) {
  (void)state;
  write_topology(3000, "");
  start_all();
  wait_for(DERIVER, 50);
  kill(pids[DERIVER], SIGTERM);
  assert_int_equal(exit_code(DERIVER), CTXP_EXIT_DRAINED);
  assert_true(start(DERIVER));
  wait_for(SINKER, 2500);
}

/* derives events 1..100 and dies before the checkpoint, which comes a second after its first input */
static void derive_and_die(void) {
  write_topology(100, "");
  assert_true(start(DERIVER));
  assert_true(start(SOURCE));
  wait_for(DERIVER, 100);
  kill_node(DERIVER);
}

static void what_is_derived_again_is_recognised_and_not_appended_twice(void **state) {
  (void)state;
  derive_and_die();
  assert_true(start(DERIVER));
  wait_for(DERIVER, 100);
  assert_int_equal(figure(DERIVER, "head"), 100);
  assert_int_equal(figure(DERIVER, "events"), 100); /* it did derive them again */
  assert_true(start(SINKER));
  wait_for(SINKER, 100);
  check_file(100, UINT64_MAX, 0);
}

static void a_different_derivation_of_the_same_version_fails_and_is_named(void **state) {
  (void)state;
  derive_and_die();
  salt = 1;
  start(DERIVER);
  assert_int_equal(exit_code(DERIVER), CTXP_EXIT_FAILED);
  assert_true(stderr_has(DERIVER,
      "node 'deriver' derives another event from event 1 than it did before (lazy/ differs from event 1 of its stream, same version 1)"));
}

static void a_tail_of_another_version_is_taken_as_it_stands(void **state) {
  (void)state;
  derive_and_die();
  salt = 1;
  deriver.version = 2;
  assert_true(start(DERIVER));
  wait_for(DERIVER, 100);
  assert_int_equal(figure(DERIVER, "tailVersion"), 1);
  assert_int_equal(figure(DERIVER, "head"), 100);
  kill_node(SOURCE);
  write_topology(120, "");
  assert_true(start(SOURCE));
  assert_true(start(SINKER));
  wait_for(SINKER, 120);
  check_file(120, 101, 1);
}

static void a_second_node_on_the_same_directory_says_so_and_leaves_the_first_alone(void **state) {
  (void)state;
  write_topology(50, "");
  start_all();
  pid_t first = pids[DERIVER];
  assert_false(start(DERIVER));
  assert_int_equal(exit_code(DERIVER), CTXP_EXIT_ERROR);
  pids[DERIVER] = first;
  assert_non_null(strstr(said, "error: "));
  assert_non_null(strstr(said, "/state/deriver is in use by another process"));
  wait_for(SINKER, 50);
}

static void nodes_leave_when_their_supervisor_is_gone(void **state) {
  (void)state;
  write_topology(50, "");
  start_all();
  wait_for(SINKER, 50);
  close(life[1]);
  life[1] = -1;
  for (int i = 0; i < NODES; i++) assert_int_equal(exit_code(i), CTXP_EXIT_DRAINED);
}

static void a_small_stream_waits_for_its_readers_and_everything_arrives(void **state) {
  (void)state;
  write_topology(20000, "max_bytes: 1048576\nmax_event_bytes: 65536\nretain_hours: 0\ndurability: process\n");
  start_all();
  wait_for(SINKER, 20000);
  check_file(20000, UINT64_MAX, 0);
  assert_true(figure(SOURCE, "streamBytes") <= 1048576 + 65536);
}

static void what_is_not_understood_is_answered_with_a_sentence(void **state) {
  (void)state;
  ctxp_auto_buf reply = {0}, request = {0};
  struct ctxp_error err = {""};
  char endpoint[120];
  write_topology(0, "");
  assert_true(start(SOURCE));
  assert_int_equal(call(SOURCE, "dance", "x", 0, &reply, &err), -EREMOTEIO);
  assert_string_equal(err.text, "'dance' is no request; it must be status, query, wait, drain, level, reload or reopen");
  assert_int_equal(call(SOURCE, "query", "x", 0, &reply, &err), -EREMOTEIO);
  assert_string_equal(err.text, "node 'collector' (collector) answers no queries");
  ctxp_pack_u64(&request, 7);
  snprintf(endpoint, sizeof(endpoint), "ipc://%s/run/collector.control", dir);
  assert_int_equal(ctxp_control_call(endpoint, ctxp_buf_raw(&request), PATIENCE_MS, &reply, &err), -EREMOTEIO);
  assert_string_equal(err.text, "a control request must be one MessagePack map");
  snprintf(endpoint, sizeof(endpoint), "ipc://%s/run/nobody.control", dir);
  assert_int_equal(ctxp_control_op(endpoint, "status", 50, &reply, &err), -ETIMEDOUT);
}

int main(void) {
#define NODE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      NODE_TEST(every_event_is_in_the_file_once_though_each_node_is_killed_in_turn),
      NODE_TEST(a_drain_goes_through_the_pipeline_and_all_leave),
      NODE_TEST(terminating_all_at_once_loses_nothing),
      NODE_TEST(one_that_is_terminated_alone_leaves_and_comes_back),
      NODE_TEST(what_is_derived_again_is_recognised_and_not_appended_twice),
      NODE_TEST(a_different_derivation_of_the_same_version_fails_and_is_named),
      NODE_TEST(a_tail_of_another_version_is_taken_as_it_stands),
      NODE_TEST(a_second_node_on_the_same_directory_says_so_and_leaves_the_first_alone),
      NODE_TEST(nodes_leave_when_their_supervisor_is_gone),
      NODE_TEST(a_small_stream_waits_for_its_readers_and_everything_arrives),
      NODE_TEST(what_is_not_understood_is_answered_with_a_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
