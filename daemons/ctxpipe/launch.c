#include "ctxpipe/launch.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "ctxpipe/spawn.h"

/* The supervisor tells its starter, in lines: L what it does, R it is ready, E why it could not start. */
struct teller {
  int fd; /* -1: it has told how it began */
  const char *state_dir; /* where its log is; NULL: it keeps none */
};

static void tell(struct teller *t, char what, const char *line) {
  if (t->fd < 0) return;
  dprintf(t->fd, "%c%s\n", what, line);
  if (what == 'L') return;
  close(t->fd);
  t->fd = -1;
}

/* a log like that of a node: from the first line, so that the start can be read when nobody listens any more */
static void log_line(const char *state_dir, const char *line) {
  ctxp_auto_buf path = {0};
  char iso[CTXP_ISO_SIZE];
  struct ctxp_error unused;
  ctxp_buf_printf(&path, "%s/logs", state_dir);
  ctxp_auto_close int folder = open(ctxp_buf_cstr(&path), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  ctxp_auto_close int fd = -1;
  if (folder < 0 || ctxp_spawn_log(folder, "supervisor", &fd, &unused) < 0) return;
  ctxp_time_iso(ctxp_clock_utc_ms(), iso);
  dprintf(fd, "%s %s\n", iso, line);
}

static void say(void *data, enum ctxp_say what, const char *line) {
  struct teller *t = data;
  if (t->state_dir) log_line(t->state_dir, line);
  tell(t, what == CTXP_SAY_READY ? 'R' : 'L', line);
}

/* standard streams of a process that nobody watches */
static void redirect(void) {
  int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  if (null > STDERR_FILENO) close(null);
}

static void be_supervisor(const struct ctxp_launch_options *options, int tell_fd, int life_fd) {
  struct teller teller = {.fd = tell_fd, .state_dir = options->detach ? options->config->state_dir : NULL};
  struct ctxp_error err = {{0}};
  struct ctxp_supervise_options supervise = {
      .config = options->config, .log_level = options->log_level, .be = options->be, .life_fd = life_fd, .say = say, .data = &teller};
  setsid();
  redirect();
  int r = ctxp_supervise(&supervise, &err);
  if (options->remove_when_done && ctxp_remove_tree(options->remove_when_done) < 0 && r == 0)
    r = ctxp_error_set(&err, -EIO, "could not remove '%s'", options->remove_when_done);
  if (r < 0 && teller.fd >= 0)
    tell(&teller, 'E', err.text);
  else if (r < 0)
    say(&teller, CTXP_SAY_END, err.text);
  else
    tell(&teller, 'E', "it was stopped before it was ready");
  _exit(r < 0);
}

static void spawn_supervisor(const struct ctxp_launch_options *options, int tell[2], int life[2]) {
  close(tell[0]);
  close(life[1]);
  if (options->detach) {
    pid_t again = fork();
    if (again > 0) _exit(0);
    if (again < 0) _exit(1);
    close(life[0]);
    life[0] = -1;
  }
  be_supervisor(options, tell[1], life[0]);
}

/* 1: it is ready; 0: not yet; <0 with its reason */
static int one_line(const struct ctxp_launch_options *options, char *line, struct ctxp_error *err) {
  if (line[0] == 'E') return ctxp_error_set(err, -ECHILD, "%s", line + 1);
  if (options->line) options->line(options->data, line + 1);
  return line[0] == 'R';
}

static int listen_to(const struct ctxp_launch_options *options, int fd, struct ctxp_error *err) {
  char block[4096];
  size_t held = 0;
  for (;;) {
    struct pollfd item = {.fd = fd, .events = POLLIN};
    if (options->stop && *options->stop) return ctxp_error_set(err, -EINTR, "stopped before the pipeline was ready");
    if (poll(&item, 1, options->stop ? 200 : -1) < 0 && errno != EINTR)
      return ctxp_error_set(err, -errno, "could not wait for the pipeline: %s", strerror(errno));
    if (!item.revents) continue;
    ssize_t n = read(fd, block + held, sizeof(block) - held - 1);
    if (n <= 0) return ctxp_error_set(err, -ECHILD, "the supervisor ended before the pipeline was ready");
    held += (size_t)n;
    block[held] = 0;
    char *line = block, *end;
    while ((end = strchr(line, '\n'))) {
      *end = 0;
      int r = one_line(options, line, err);
      if (r) return r < 0 ? r : 0;
      line = end + 1;
    }
    held -= (size_t)(line - block);
    if (held == sizeof(block) - 1) held = 0; /* no line of ours is so long */
    memmove(block, line, held);
  }
}

int ctxp_launch(const struct ctxp_launch_options *options, struct ctxp_launch *ret_launch, struct ctxp_error *err) {
  int tell_fds[2], life[2];
  if (pipe2(tell_fds, O_CLOEXEC) < 0) return ctxp_error_set(err, -errno, "could not start the supervisor: %s", strerror(errno));
  if (pipe2(life, O_CLOEXEC) < 0) {
    close(tell_fds[0]);
    close(tell_fds[1]);
    return ctxp_error_set(err, -errno, "could not start the supervisor: %s", strerror(errno));
  }
  fflush(NULL); /* what is buffered is printed once */
  pid_t pid = fork();
  if (pid == 0) spawn_supervisor(options, tell_fds, life);
  close(tell_fds[1]);
  close(life[0]);
  struct ctxp_launch launch = {.pid = pid, .life = life[1]};
  int r = pid < 0 ? ctxp_error_set(err, -errno, "could not start the supervisor: %s", strerror(errno)) : 0;
  if (r == 0 && options->detach) {
    (void)waitpid(pid, NULL, 0); /* its own child says how it went */
    close(life[1]);
    r = listen_to(options, tell_fds[0], err);
  } else if (r == 0) {
    r = listen_to(options, tell_fds[0], err);
    if (r < 0) {
      struct ctxp_error unused;
      int ended = ctxp_launch_end(&launch, false, &unused); /* the first reason is the one that counts */
      (void)ended;
    } else {
      *ret_launch = launch;
    }
  } else {
    close(life[1]);
  }
  close(tell_fds[0]);
  return r;
}

int ctxp_launch_end(struct ctxp_launch *launch, bool drain, struct ctxp_error *err) {
  int status;
  if (launch->pid <= 0) return 0;
  if (drain) kill(launch->pid, SIGTERM);
  if (!drain) ctxp_close_ptr(&launch->life);
  while (waitpid(launch->pid, &status, 0) < 0)
    if (errno != EINTR) return ctxp_error_set(err, -errno, "could not wait for the pipeline's end: %s", strerror(errno));
  if (drain) ctxp_close_ptr(&launch->life);
  *launch = (struct ctxp_launch){.life = -1};
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : ctxp_error_set(err, -ECHILD, "the private pipeline did not end well");
}

static int remove_one(const char *path, const struct stat *file, int type, struct FTW *at) {
  (void)file;
  (void)type;
  (void)at;
  return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

int ctxp_remove_tree(const char *path) {
  struct stat there;
  if (lstat(path, &there) < 0) return errno == ENOENT ? 0 : -errno;
  return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) ? -EIO : 0;
}
