/* The collector as it runs: its own process, the runtime's node, the topology file. argv[1]: the collector; argv[2]: bash-digest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/str.h"
#include "bus/stream.h"
#include "ctxpipe/client.h"
#include "runtime/control.h"

#define WAIT 20000

static const char *collector_program, *digest_program;

struct child {
  pid_t pid;
  char said[1200]; /* on its ready descriptor */
};
struct fixture {
  char dir[64], topology[96], endpoint[96], control[96];
  struct child collector, digest;
  struct ctxp_client *client;
};

static int setup(void **state) {
  struct fixture *f = calloc(1, sizeof(*f));
  strcpy(f->dir, "/tmp/ctxp-daemon-XXXXXX");
  assert_non_null(mkdtemp(f->dir));
  snprintf(f->topology, sizeof(f->topology), "%s/topology.yaml", f->dir);
  snprintf(f->endpoint, sizeof(f->endpoint), "ipc://%s/run/ingest.sock", f->dir);
  snprintf(f->control, sizeof(f->control), "ipc://%s/run/collector.control", f->dir);
  FILE *file = fopen(f->topology, "w");
  assert_non_null(file);
  fprintf(file,
      "version: 1\nrun_dir: %s/run\nstate_dir: %s/state\ndurability: process\nanswer_grace_ms: 10000\nnodes:\n"
      "  collector: {daemon: collector, ingest: [ipc://ingest.sock]}\n"
      "  bash: {daemon: bash-digest, subscribe: [collector]}\n"
      "  fold: {daemon: fold, subscribe: [collector, bash]}\n"
      "  log: {daemon: sink-log, subscribe: [fold], options: {path: events.jsonl}}\n",
      f->dir, f->dir);
  fclose(file);
  char path[96];
  snprintf(path, sizeof(path), "%s/run", f->dir);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(path, sizeof(path), "%s/state", f->dir);
  assert_int_equal(mkdir(path, 0700), 0);
  *state = f;
  return 0;
}

static void end(struct child *child) {
  if (child->pid <= 0) return;
  kill(child->pid, SIGKILL);
  waitpid(child->pid, NULL, 0);
  child->pid = 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  char command[128];
  ctxp_client_free(f->client);
  end(&f->collector);
  end(&f->digest);
  snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
  int r = system(command);
  free(f);
  return r;
}

/* returns when it has said something on the ready descriptor, or closed it */
static void start(struct fixture *f, struct child *child, const char *program, const char *node) {
  int pipe_fds[2];
  assert_int_equal(pipe(pipe_fds), 0);
  child->pid = fork();
  assert_true(child->pid >= 0);
  if (child->pid == 0) {
    char fd[16];
    snprintf(fd, sizeof(fd), "%d", pipe_fds[1]);
    close(pipe_fds[0]);
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    execl(program, program, "--topology", f->topology, "--node", node, "--ready-fd", fd, (char *)NULL);
    _exit(127);
  }
  close(pipe_fds[1]);
  size_t len = 0;
  ssize_t got;
  while (!memchr(child->said, '\n', len) && (got = read(pipe_fds[0], child->said + len, sizeof(child->said) - 1 - len)) > 0)
    len += (size_t)got;
  child->said[len] = 0;
  close(pipe_fds[0]);
}

static void start_collector(struct fixture *f) {
  start(f, &f->collector, collector_program, "collector");
  assert_string_equal(f->collector.said, "ready\n");
}

static struct ctxp_client *client(struct fixture *f, size_t batch) {
  struct ctxp_error err;
  struct ctxp_client_options o = {.endpoint = f->endpoint, .key = "k", .agent = "pi@dev", .product = "pi", .batch_bytes = batch};
  if (ctxp_client_new(&o, &f->client, &err) < 0) fail_msg("%s", err.text);
  return f->client;
}

static void send_turn(struct ctxp_client *c, uint64_t number) {
  struct ctxp_error err = {{0}};
  struct ctxp_event ev = {.kind = CTXP_KIND_turn_end, .session = CTXP_STR("s"), .turn_end = {.turn = number}};
  if (ctxp_client_send(c, &ev, 0, WAIT, &err) != 0) fail_msg("not sent: %s", err.text);
}

static void flush(struct ctxp_client *c) {
  struct ctxp_error err = {{0}};
  if (ctxp_client_flush(c, WAIT, &err) != 0) fail_msg("not flushed: %s", err.text);
}

static void status(struct fixture *f, struct ctxp_buf *reply) {
  struct ctxp_error err;
  if (ctxp_control_op(f->control, "status", WAIT, reply, &err) < 0) fail_msg("%s", err.text);
}

/* the turns in the stored stream, each once and in order, and how many there are */
static uint64_t stored_turns(struct fixture *f) {
  struct ctxp_store_options options = {.max_bytes = UINT64_C(8) << 30};
  struct ctxp_store *store;
  struct ctxp_stream *stream;
  struct ctxp_record record;
  struct ctxp_error err;
  struct ctxp_event event;
  ctxp_auto_buf body = {0};
  char dir[96];
  uint64_t turns = 0;
  snprintf(dir, sizeof(dir), "%s/state/collector", f->dir);
  if (ctxp_store_open(dir, &options, &store, &err) < 0 || ctxp_stream_open(store, options.max_bytes, &stream, &err) < 0)
    fail_msg("%s", err.text);
  for (uint64_t seq = 1; seq <= ctxp_stream_head(stream); seq++) {
    assert_int_equal(ctxp_stream_get(stream, seq, &body, &record, &err), 0);
    assert_int_equal(ctxp_event_decode(body.ptr, body.len, &event, NULL, NULL), 0);
    if (event.kind == CTXP_KIND_turn_end) assert_int_equal(event.turn_end.turn, ++turns);
  }
  ctxp_stream_free(stream);
  ctxp_store_free(store);
  return turns;
}

static void a_killed_collector_loses_nothing_and_counts_nothing_twice(void **state) {
  struct fixture *f = *state;
  start_collector(f);
  struct ctxp_client *c = client(f, 2048);
  for (uint64_t i = 1; i <= 20000; i++) {
    send_turn(c, i);
    if (i % 6000 == 0) {
      end(&f->collector);
      start_collector(f);
    }
  }
  flush(c);
  end(&f->collector);
  assert_int_equal(stored_turns(f), 20000);
}

static void status_has_the_figures_of_each_agent(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  ctxp_auto_buf reply = {0};
  struct ctxp_raw agent;
  uint32_t left;
  start_collector(f);
  struct ctxp_client *c = client(f, 0);
  send_turn(c, 1);
  struct ctxp_event bad = {.kind = CTXP_KIND_session_end, .session = CTXP_STR("\xff")};
  assert_int_equal(ctxp_client_send(c, &bad, 0, WAIT, &err), 0);
  struct ctxp_event ask = {.kind = CTXP_KIND_tool_result,
      .session = CTXP_STR("s"),
      .tool_result = {.toolCallId = CTXP_STR("c"), .tool = CTXP_STR("ls"), .text = CTXP_STR("x")}};
  struct ctxp_raw answer;
  assert_int_equal(ctxp_client_ask(c, &ask, WAIT, &answer, &err), 0);
  assert_true(ctxp_map_bool(answer, "unchanged", false));
  status(f, &reply);
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(ctxp_buf_raw(&reply), "agents"));
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  assert_int_equal(left, 1);
  assert_int_equal(ctxp_array_next(&it, &left, &agent), 1);
  assert_true(ctxp_str_is(ctxp_map_str(agent, "agent"), "pi@dev"));
  assert_int_equal(ctxp_map_u64(agent, "events", 99), 2);
  assert_int_equal(ctxp_map_u64(agent, "refused", 99), 1);
  assert_int_equal(ctxp_map_u64(agent, "passed", 99), 1);
  assert_int_equal(ctxp_map_u64(agent, "answered", 99), 0);
  assert_int_equal(ctxp_map_u64(agent, "missed", 99), 0);
  assert_int_equal(ctxp_map_u64(agent, "clients", 99), 1);
  assert_int_equal(ctxp_map_u64(ctxp_buf_raw(&reply), "refused", 99), 1);
  assert_int_equal(ctxp_map_u64(ctxp_buf_raw(&reply), "head", 99), 3); /* the topology, the turn, the ask */
}

static void a_second_collector_on_the_same_directories_says_so_and_ends(void **state) {
  struct fixture *f = *state;
  char expected[256];
  int code;
  start_collector(f);
  start(f, &f->digest, collector_program, "collector");
  snprintf(expected, sizeof(expected),
      "error: %s/state/collector is in use by another process, pid %d; stop that one first (ctxpipe down), or name another state_dir\n",
      f->dir, (int)f->collector.pid);
  assert_string_equal(f->digest.said, expected);
  assert_int_equal(waitpid(f->digest.pid, &code, 0), f->digest.pid);
  f->digest.pid = 0;
  assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 1);
  send_turn(client(f, 0), 1); /* and the first one goes on */
  flush(f->client);
}

static void limit_files(struct child *child, rlim_t bytes) {
  struct rlimit limit = {bytes, RLIM_INFINITY};
  assert_int_equal(prlimit(child->pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

/* a limit on the size of files is, to a process, a disk that can be filled and emptied at will */
static void while_the_disk_is_full_nothing_is_acknowledged_and_then_it_goes_on(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  ctxp_auto_buf reply = {0};
  start_collector(f);
  struct ctxp_client *c = client(f, 0);
  send_turn(c, 1);
  flush(c);
  limit_files(&f->collector, 4096);
  for (uint64_t i = 2; i <= 50; i++) send_turn(c, i);
  assert_int_equal(ctxp_client_flush(c, 300, &err), 1);
  status(f, &reply);
  assert_true(ctxp_str_find(ctxp_map_str(ctxp_buf_raw(&reply), "lastError"), CTXP_STR("limit of file size"), 0) != SIZE_MAX);
  struct ctxp_client_counts counts;
  ctxp_client_counts(c, &counts);
  assert_int_equal(counts.acked, 1);
  limit_files(&f->collector, RLIM_INFINITY);
  flush(c);
  ctxp_client_counts(c, &counts);
  assert_int_equal(counts.acked, 50);
  ctxp_buf_reset(&reply);
  status(f, &reply);
  assert_int_equal(ctxp_map_u64(ctxp_buf_raw(&reply), "events", 0), 51); /* the topology and each turn, once */
  end(&f->collector);
  assert_int_equal(stored_turns(f), 50);
}

static void a_large_shell_result_is_answered_by_the_mechanism(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err = {{0}};
  struct ctxp_raw answer;
  ctxp_auto_buf text = {0}, reply = {0};
  start_collector(f);
  start(f, &f->digest, digest_program, "bash");
  assert_string_equal(f->digest.said, "ready\n");
  for (int i = 0; i < 2000; i++) ctxp_buf_printf(&text, "compiling module %d of the tree\n", i);
  struct ctxp_event start_event = {.kind = CTXP_KIND_session_start, .session = CTXP_STR("s"), .session_start = {.product = CTXP_STR("pi")}};
  struct ctxp_event ask = {.kind = CTXP_KIND_tool_result,
      .session = CTXP_STR("s"),
      .tool_result = {.toolCallId = CTXP_STR("c"), .tool = CTXP_STR("bash"), .text = ctxp_buf_view(&text)}};
  ctxp_set(&ask.tool_result, tool_result, exitCode, 0);
  struct ctxp_client *c = client(f, 0);
  assert_int_equal(ctxp_client_send(c, &start_event, 0, WAIT, &err), 0);
  assert_int_equal(ctxp_client_ask(c, &ask, WAIT, &answer, &err), 0);
  struct ctxp_str digest = ctxp_map_str(ctxp_map_get(answer, "replace"), "text");
  assert_true(digest.len > 0 && digest.len < text.len / 4);
  send_turn(c, 1);
  flush(c);
  status(f, &reply);
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(ctxp_buf_raw(&reply), "agents"));
  struct ctxp_raw agent;
  uint32_t left;
  assert_int_equal(ctxp_array_open(&it, &left), 0);
  assert_int_equal(ctxp_array_next(&it, &left, &agent), 1);
  assert_int_equal(ctxp_map_u64(agent, "answered", 99), 1);
  assert_int_equal(ctxp_map_u64(agent, "missed", 99), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(int argc, char **argv) {
  if (argc != 3) return 2;
  collector_program = argv[1];
  digest_program = argv[2];
  const struct CMUnitTest tests[] = {
      CASE(a_killed_collector_loses_nothing_and_counts_nothing_twice),
      CASE(status_has_the_figures_of_each_agent),
      CASE(a_second_collector_on_the_same_directories_says_so_and_ends),
      CASE(while_the_disk_is_full_nothing_is_acknowledged_and_then_it_goes_on),
      CASE(a_large_shell_result_is_answered_by_the_mechanism),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
