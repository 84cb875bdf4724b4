#include "ctxpipe/supervise.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "codec/json.h"
#include "config/resolved.h"
#include "ctxpipe/restart.h"
#include "ctxpipe/rundir.h"
#include "ctxpipe/spawn.h"
#include "runtime/mark.h"

#define READY "ready\n" /* a daemon's word on its ready pipe */
#define LOG_CHECK_MS 10000
#define AT_ONCE_MS 5000 /* from the second signal to SIGKILL */
#define LATE_MS 5000 /* beyond drain_s, before the second signal */
#define BROKEN_DRAIN_MS 3000 /* a drain with a node missing cannot complete: those behind it wait in vain */
#define ORPHANS_MS 15000 /* that nodes of a killed supervisor get to end */
#define EXIT_HOPELESS 3 /* CTXP_EXIT_FAILED of runtime/node.h, which is above ZeroMQ and so not included here */

enum node_state { NODE_WAITING,
  NODE_STARTING,
  NODE_READY,
  NODE_BACKOFF,
  NODE_ENDED,
  NODE_FAILED };
static const char *const state_names[] = {"waiting", "starting", "ready", "backoff", "ended", "failed"};

struct node {
  const struct ctxp_node_config *config;
  enum node_state state;
  pid_t pid; /* 0: not running */
  int ready_fd; /* -1: closed */
  uint64_t ready_at, start_at; /* ctxp_clock_ms */
  off_t log_start;
  struct ctxp_restart restart;
  struct ctxp_buf words; /* from the ready pipe */
  struct ctxp_error last; /* its last words, kept when it runs again: status shows them */
  bool recovered; /* it is ready since */
  bool undrained; /* a drain came and it could not do all that it had to */
};
enum phase { STARTING,
  RUNNING,
  DRAINING,
  AT_ONCE,
  KILLING };
static const char *const phase_names[] = {"starting", "ready", "draining", "stopping", "stopping"};

struct supervisor {
  const struct ctxp_supervise_options *options;
  const struct ctxp_config *config;
  struct ctxp_rundir dirs;
  struct node *nodes; /* in the order of starting */
  unsigned count;
  enum phase phase;
  uint64_t deadline, next_log_check;
  int signals, life[2], result;
  bool hurried; /* it was asked to stop at once: nothing is to be complained of */
  struct ctxp_buf topology_file;
  struct ctxp_error *err;
};

__attribute__((format(printf, 3, 4))) static void say(struct supervisor *sv, enum ctxp_say what, const char *format, ...) {
  char line[CTXP_ERROR_MAX + 256];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  sv->options->say(sv->options->data, what, line);
}

/* ---- run_dir/supervisor.json ---- */
static void report(struct supervisor *sv) {
  ctxp_auto_buf out = {0};
  struct ctxp_error err;
  ctxp_buf_printf(&out, "{\"pid\":%d,\"state\":\"%s\",\"topology\":", (int)getpid(), phase_names[sv->phase]);
  ctxp_json_str(&out, ctxp_str(sv->config->file));
  ctxp_buf_str(&out, ",\"nodes\":[");
  for (unsigned i = 0; i < sv->count; i++) {
    const struct node *n = &sv->nodes[i];
    ctxp_buf_printf(&out, "%s{\"node\":\"%s\",\"daemon\":\"%s\",\"pid\":%d,\"state\":\"%s\",\"restarts\":%llu,\"lastError\":", i ? "," : "",
        n->config->name, n->config->ops->name, (int)n->pid, state_names[n->state], (unsigned long long)n->restart.restarts);
    if (n->last.text[0])
      ctxp_json_str(&out, ctxp_str(n->last.text));
    else
      ctxp_buf_str(&out, "null");
    ctxp_buf_char(&out, '}');
  }
  ctxp_buf_str(&out, "]}\n");
  if (ctxp_rundir_write(sv->config->run_dir, "supervisor.json", &out, &err) < 0) say(sv, CTXP_SAY_NODE, "%s", err.text);
}

/* ---- starting and stopping ---- */
static bool is_collector(const struct node *n) { return n->config->ops->role == CTXP_ROLE_COLLECTOR_NODE; }
static bool is_alive(const struct node *n) { return n->pid > 0; }

static void stop_all(struct supervisor *sv, int signal) {
  for (unsigned i = sv->count; i-- > 0;) /* the collector first, then down the flow */
    if (is_alive(&sv->nodes[i])) kill(sv->nodes[i].pid, signal);
}

/* To a node the end of the life pipe says that nobody waits for its drain. (Two signals in a row may arrive as one.) */
static void at_once(struct supervisor *sv) {
  if (sv->phase >= AT_ONCE) return;
  close(sv->life[1]);
  sv->life[1] = -1;
  stop_all(sv, SIGTERM);
  sv->phase = AT_ONCE;
  sv->deadline = ctxp_clock_ms() + AT_ONCE_MS;
}

/* the start, or a running pipeline, is given up; the first reason counts */
static void give_up(struct supervisor *sv, int code, const char *sentence) {
  if (sv->result == 0) sv->result = ctxp_error_set(sv->err, code, "%s", sentence);
  at_once(sv);
}

static int start_node(struct supervisor *sv, struct node *n, struct ctxp_error *err) {
  ctxp_auto_buf program = {0};
  ctxp_auto_close int log_fd = -1;
  struct stat file;
  int r = sv->options->be ? 0 : ctxp_spawn_find(n->config->ops->name, &program, err);
  if (r == 0) r = ctxp_spawn_log(sv->dirs.logs, n->config->name, &log_fd, err);
  if (r < 0) return r;
  n->log_start = fstat(log_fd, &file) == 0 ? file.st_size : 0;
  ctxp_buf_reset(&n->words);
  struct ctxp_spawn spawn = {.program = ctxp_buf_cstr(&program),
      .be = sv->options->be,
      .config = sv->config,
      .topology = ctxp_buf_cstr(&sv->topology_file),
      .node = n->config->name,
      .log_level = sv->options->log_level,
      .log_fd = log_fd,
      .life_fd = sv->life[0],
      .lock_fd = sv->dirs.nodes_lock};
  r = ctxp_spawn_node(&spawn, &n->pid, &n->ready_fd, err);
  if (r == 0) n->state = NODE_STARTING;
  return r;
}

/* A drain with a node missing cannot complete; those before it wait for it in vain. */
static void drain_without(struct supervisor *sv, struct node *n) {
  uint64_t soon = ctxp_clock_ms() + BROKEN_DRAIN_MS;
  n->undrained = true;
  if (sv->phase == DRAINING && soon < sv->deadline) sv->deadline = soon;
}

/* What is not running, because it waits for its next start or was given up, is started once more and drained when it is ready: its trouble
   may be over. */
static void drain(struct supervisor *sv) {
  struct ctxp_error err;
  if (sv->phase == STARTING) {
    at_once(sv);
    return;
  }
  sv->phase = DRAINING;
  sv->deadline = ctxp_clock_ms() + sv->config->drain_s * 1000 + LATE_MS;
  for (unsigned i = sv->count; i-- > 0;) { /* the collector first, then down the flow */
    struct node *n = &sv->nodes[i];
    if (n->state == NODE_READY)
      kill(n->pid, SIGTERM);
    else if (n->state != NODE_STARTING && start_node(sv, n, &err) < 0)
      drain_without(sv, n);
  }
}

/* one sentence on what a drain left undone; false: nothing */
static bool not_drained(const struct supervisor *sv, struct ctxp_buf *out) {
  for (unsigned i = 0; i < sv->count; i++) {
    const struct node *n = &sv->nodes[i];
    if (n->undrained) ctxp_buf_printf(out, "%s%s", out->len ? ", " : "not drained: ", n->config->name);
  }
  if (!out->len) return false;
  ctxp_buf_str(out, "; nothing is lost, and the next 'ctxpipe up' goes on with it");
  for (unsigned i = 0; i < sv->count; i++)
    if (sv->nodes[i].undrained && sv->nodes[i].last.text[0]) ctxp_buf_printf(out, " (%s)", sv->nodes[i].last.text);
  return true;
}

static void start_or_give_up(struct supervisor *sv, struct node *n) {
  struct ctxp_error err;
  int r = start_node(sv, n, &err);
  if (r < 0) give_up(sv, r, err.text);
}

/* The pipeline is ready when every node is: until then what agents send is kept, and nobody has been told that it may come. */
static void go_on_starting(struct supervisor *sv) {
  if (sv->phase != STARTING) return;
  for (unsigned i = 0; i < sv->count; i++)
    if (sv->nodes[i].state != NODE_READY) return;
  sv->phase = RUNNING;
  report(sv);
  for (unsigned i = 0; i < sv->count; i++)
    if (is_collector(&sv->nodes[i])) say(sv, CTXP_SAY_READY, "ready: the collector accepts events on %s", sv->nodes[i].config->ingest[0]);
}

/* ---- what daemons say and how they end ---- */
static void became_ready(struct supervisor *sv, struct node *n) {
  n->state = NODE_READY;
  n->ready_at = ctxp_clock_ms();
  n->recovered = true;
  if (sv->phase == DRAINING) kill(n->pid, SIGTERM);
  say(sv, CTXP_SAY_NODE, "%-12s %-18s %s, pid %d", n->config->name, n->config->ops->name, n->restart.restarts ? "ready again" : "ready",
      (int)n->pid);
  go_on_starting(sv);
  report(sv);
}

static void close_ready(struct node *n) {
  if (n->ready_fd >= 0) close(n->ready_fd);
  n->ready_fd = -1;
}

static void read_ready(struct supervisor *sv, struct node *n) {
  char block[512];
  ssize_t got;
  while ((got = read(n->ready_fd, block, sizeof(block))) > 0)
    if (n->words.len < 4096) ctxp_buf_add(&n->words, block, (size_t)got);
  if (ctxp_str_starts(ctxp_buf_view(&n->words), READY) && n->state == NODE_STARTING) became_ready(sv, n);
  if (got == 0) close_ready(n); /* it is ending; what it said is kept for its death */
}

/* what it said why it ends, on the pipe that no full disk stops */
static bool said_why(const struct node *n, struct ctxp_buf *words) {
  struct ctxp_str said = ctxp_buf_view(&n->words);
  if (ctxp_str_starts(said, READY)) said.ptr += strlen(READY), said.len -= strlen(READY);
  if (!ctxp_str_starts(said, "error: ")) return false;
  ctxp_buf_add(words, said.ptr + 7, said.len - 7);
  while (words->len && words->ptr[words->len - 1] == '\n') words->len--;
  return true;
}

/* one sentence on why: what it said on its ready pipe, else the last line of its log, else how it ended */
static void last_words(struct supervisor *sv, struct node *n, int status) {
  ctxp_auto_buf words = {0};
  char how[80];
  n->recovered = false;
  if (WIFSIGNALED(status))
    snprintf(how, sizeof(how), "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    snprintf(how, sizeof(how), "ended with exit code %d", WEXITSTATUS(status));
  if (!said_why(n, &words) && (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)) /* somebody else's doing, which its log cannot know */
    ctxp_spawn_last_words(sv->dirs.logs, n->config->name, n->log_start, &words);
  if (ctxp_str_starts(ctxp_buf_view(&words), "node '") && !WIFSIGNALED(status))
    ctxp_error_set(&n->last, 0, "%s", ctxp_buf_cstr(&words)); /* its own sentence says all */
  else
    ctxp_error_set(&n->last, 0, "node '%s' %s%s%s", n->config->name, how, words.len ? ": " : "", ctxp_buf_cstr(&words));
}

static void name_event(struct node *n, uint64_t event) {
  struct ctxp_error why = n->last;
  ctxp_error_set(&n->last, 0, "%s (%d times at event %llu of the collector)", why.text, CTXP_RESTART_DEATHS, (unsigned long long)event);
}

static void died(struct supervisor *sv, struct node *n, int status) {
  uint64_t now = ctxp_clock_ms(), delay;
  struct ctxp_death death = {.now_ms = now,
      .ready = n->state == NODE_READY,
      .ready_ms = now - n->ready_at,
      .event = ctxp_mark_read(sv->config->run_dir, n->config->name),
      .hopeless = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_HOPELESS};
  if (n->ready_fd >= 0) read_ready(sv, n);
  last_words(sv, n, status);
  enum ctxp_restart_verdict verdict = ctxp_restart_died(&n->restart, &death, &delay);
  if (sv->phase == STARTING && verdict != CTXP_RESTART_AGAIN) {
    n->state = NODE_FAILED;
    give_up(sv, -ECHILD, n->last.text);
  } else if (verdict == CTXP_RESTART_FAILED) {
    n->state = NODE_FAILED;
    if (!death.hopeless) name_event(n, death.event);
    say(sv, CTXP_SAY_NODE, "%s; it is not started again, what it would read is kept", n->last.text);
  } else {
    n->state = NODE_BACKOFF;
    n->start_at = now + delay;
    say(sv, CTXP_SAY_NODE, "%s; started again in %llu ms", n->last.text, (unsigned long long)delay);
  }
}

static void reap(struct supervisor *sv) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    for (unsigned i = 0; i < sv->count; i++) {
      struct node *n = &sv->nodes[i];
      if (n->pid != pid) continue;
      n->pid = 0;
      if (sv->phase <= RUNNING) {
        died(sv, n, status);
      } else {
        bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (sv->phase == DRAINING && n->ready_fd >= 0) read_ready(sv, n);
        if (sv->phase == DRAINING && !well) last_words(sv, n, status);
        if (sv->phase == DRAINING && (!well || n->state == NODE_STARTING)) drain_without(sv, n);
        n->state = NODE_ENDED;
      }
      close_ready(n);
    }
  }
  report(sv);
}

static void hurry(struct supervisor *sv) {
  sv->hurried = true;
  at_once(sv);
}

/* Nobody is missing, and yet it takes too long: those that still run have not done all. */
static void drain_is_late(struct supervisor *sv) {
  bool missing = false;
  for (unsigned i = 0; i < sv->count; i++) missing |= sv->nodes[i].undrained;
  for (unsigned i = 0; i < sv->count && !missing; i++) sv->nodes[i].undrained = is_alive(&sv->nodes[i]);
  at_once(sv);
}

static void on_signal(struct supervisor *sv) {
  struct signalfd_siginfo info;
  while (read(sv->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
    switch (info.ssi_signo) {
    case SIGCHLD: reap(sv); break;
    case SIGHUP: stop_all(sv, SIGHUP); break; /* they reopen their files */
    default:
      if (sv->phase < DRAINING)
        drain(sv);
      else
        hurry(sv);
      report(sv);
    }
  }
}

/* ---- time ---- */
static void on_time(struct supervisor *sv) {
  uint64_t now = ctxp_clock_ms();
  for (unsigned i = 0; i < sv->count && sv->phase <= RUNNING; i++) {
    struct node *n = &sv->nodes[i];
    if (n->state == NODE_BACKOFF && now >= n->start_at) start_or_give_up(sv, n);
  }
  if (sv->phase > RUNNING && now >= sv->deadline) {
    if (sv->phase == DRAINING)
      drain_is_late(sv);
    else
      stop_all(sv, SIGKILL);
    if (sv->phase == AT_ONCE && now >= sv->deadline) sv->phase = KILLING;
  }
  if (now >= sv->next_log_check) {
    for (unsigned i = 0; i < sv->count; i++) ctxp_spawn_log_bound(sv->dirs.logs, sv->nodes[i].config->name);
    sv->next_log_check = now + LOG_CHECK_MS;
  }
}

static int wait_ms(const struct supervisor *sv) {
  uint64_t now = ctxp_clock_ms(), next = sv->next_log_check;
  if (sv->phase > RUNNING && sv->deadline < next) next = sv->phase == KILLING ? now + 1000 : sv->deadline;
  for (unsigned i = 0; i < sv->count && sv->phase <= RUNNING; i++)
    if (sv->nodes[i].state == NODE_BACKOFF && sv->nodes[i].start_at < next) next = sv->nodes[i].start_at;
  return next > now ? (int)(next - now) : 0;
}

static bool any_alive(const struct supervisor *sv) {
  for (unsigned i = 0; i < sv->count; i++)
    if (is_alive(&sv->nodes[i])) return true;
  return false;
}

static void loop(struct supervisor *sv) {
  struct pollfd fds[2 + 256];
  while (sv->phase <= RUNNING || any_alive(sv)) {
    unsigned count = 2;
    fds[0] = (struct pollfd){.fd = sv->signals, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = sv->phase < AT_ONCE ? sv->options->life_fd : -1, .events = POLLIN};
    for (unsigned i = 0; i < sv->count && count < sizeof(fds) / sizeof(*fds); i++)
      fds[count++] = (struct pollfd){.fd = sv->nodes[i].ready_fd, .events = POLLIN};
    if (poll(fds, count, wait_ms(sv)) < 0 && errno != EINTR) {
      give_up(sv, -errno, strerror(errno));
      return;
    }
    for (unsigned i = 2; i < count; i++)
      if (fds[i].revents && sv->nodes[i - 2].ready_fd >= 0) read_ready(sv, &sv->nodes[i - 2]);
    if (fds[1].revents) hurry(sv);
    if (fds[0].revents) on_signal(sv);
    on_time(sv);
  }
}

/* ---- the whole ---- */
static const enum ctxp_stage_role start_order[] = {
    CTXP_ROLE_SINK_NODE, CTXP_ROLE_FOLD_NODE, CTXP_ROLE_MECHANISM_NODE, CTXP_ROLE_COLLECTOR_NODE};

static int order_nodes(struct supervisor *sv) {
  sv->nodes = calloc(sv->config->node_count ? sv->config->node_count : 1, sizeof(*sv->nodes));
  if (!sv->nodes) return ctxp_error_set(sv->err, -ENOMEM, "out of memory");
  for (size_t role = 0; role < sizeof(start_order) / sizeof(*start_order); role++)
    for (unsigned i = 0; i < sv->config->node_count; i++)
      if (sv->config->nodes[i].ops->role == start_order[role])
        sv->nodes[sv->count++] = (struct node){.config = &sv->config->nodes[i], .ready_fd = -1};
  return sv->count <= 256 ? 0 : ctxp_error_set(sv->err, -E2BIG, "the topology has %u nodes; at most 256 can be supervised", sv->count);
}

static int write_resolved(struct supervisor *sv) {
  ctxp_auto_buf topology = {0}, prices = {0};
  const char *dir = sv->config->run_dir;
  ctxp_buf_printf(&sv->topology_file, "%s/" CTXP_RESOLVED_TOPOLOGY, dir);
  int r = ctxp_resolved_write(sv->config, &topology, &prices);
  if (r < 0) return ctxp_error_set(sv->err, r, "out of memory");
  r = ctxp_rundir_write(dir, CTXP_RESOLVED_PRICES, &prices, sv->err);
  return r < 0 ? r : ctxp_rundir_write(dir, CTXP_RESOLVED_TOPOLOGY, &topology, sv->err);
}

static int prepare(struct supervisor *sv) {
  sigset_t mask;
  int r = ctxp_rundir_open(sv->config, ORPHANS_MS, &sv->dirs, sv->err);
  if (r == 0) r = order_nodes(sv);
  if (r == 0) r = write_resolved(sv);
  if (r < 0) return r;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigaddset(&mask, SIGTERM);
  sigaddset(&mask, SIGINT);
  sigaddset(&mask, SIGHUP);
  signal(SIGPIPE, SIG_IGN); /* whoever listens to `say` may have gone */
  sv->signals = sigprocmask(SIG_BLOCK, &mask, NULL) < 0 ? -1 : signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  if (sv->signals < 0 || pipe2(sv->life, O_CLOEXEC) < 0) return ctxp_error_set(sv->err, -errno, "could not supervise: %s", strerror(errno));
  return 0;
}

/* For whoever asked for the end and is not our parent: run_dir/ended.json. */
static void say_end(struct supervisor *sv) {
  ctxp_auto_buf out = {0}, sentence = {0};
  struct ctxp_error err;
  if (!sv->hurried && sv->result == 0 && not_drained(sv, &sentence))
    sv->result = ctxp_error_set(sv->err, -EAGAIN, "%s", ctxp_buf_cstr(&sentence));
  for (unsigned i = 0; i < sv->count && sv->result == 0; i++)
    if (sv->nodes[i].last.text[0] && !sv->nodes[i].recovered) say(sv, CTXP_SAY_END, "%s", sv->nodes[i].last.text);
  ctxp_buf_printf(&out, "{\"pid\":%d,\"error\":", (int)getpid());
  ctxp_json_str(&out, ctxp_str(sv->result < 0 ? sv->err->text : ""));
  ctxp_buf_str(&out, "}\n");
  if (ctxp_rundir_write(sv->config->run_dir, CTXP_RUNDIR_ENDED, &out, &err) < 0) say(sv, CTXP_SAY_END, "%s", err.text);
}

static void finish(struct supervisor *sv) {
  ctxp_auto_buf path = {0};
  if (sv->nodes) say_end(sv);
  for (unsigned i = 0; i < sv->count; i++) ctxp_buf_deinit(&sv->nodes[i].words);
  ctxp_buf_printf(&path, "%s/supervisor.json", sv->config->run_dir);
  if (sv->nodes) unlink(ctxp_buf_cstr(&path)); /* else another supervisor's */
  free(sv->nodes);
  ctxp_close_ptr(&sv->signals);
  ctxp_close_ptr(&sv->life[0]);
  ctxp_close_ptr(&sv->life[1]);
  ctxp_rundir_close(&sv->dirs);
  ctxp_buf_deinit(&sv->topology_file);
}

int ctxp_supervise(const struct ctxp_supervise_options *options, struct ctxp_error *err) {
  struct supervisor sv = {
      .options = options, .config = options->config, .signals = -1, .life = {-1, -1}, .dirs = {{-1, -1}, -1, -1}, .err = err};
  int r = prepare(&sv);
  if (r == 0) {
    sv.next_log_check = ctxp_clock_ms() + LOG_CHECK_MS;
    report(&sv);
    for (unsigned i = 0; i < sv.count && sv.phase == STARTING; i++) start_or_give_up(&sv, &sv.nodes[i]);
    loop(&sv);
  } else {
    sv.result = r;
  }
  finish(&sv);
  return sv.result;
}
