#include "ctxpipe/spawn.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/str.h"

/* ---- programs ---- */
static bool try_program(struct ctxp_buf *path, const char *folder, const char *daemon) {
  ctxp_buf_reset(path);
  ctxp_buf_printf(path, "%s/%s", folder, daemon);
  return access(ctxp_buf_cstr(path), X_OK) == 0;
}

/* beside the executable, in the build's own layout, or in an installation that was moved or staged */
static bool find_near(struct ctxp_buf *path, const char *daemon) {
  static const char *const near[] = {".", "../programs", "../libexec/ctxpipe"};
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (n <= 0) return false;
  self[n] = 0;
  char *slash = strrchr(self, '/');
  if (slash) *slash = 0;
  for (size_t i = 0; i < sizeof(near) / sizeof(*near); i++) {
    ctxp_auto_buf folder = {0};
    ctxp_buf_printf(&folder, "%s/%s", self, near[i]);
    if (try_program(path, ctxp_buf_cstr(&folder), daemon)) return true;
  }
  return false;
}

int ctxp_spawn_find(const char *daemon, struct ctxp_buf *ret_path, struct ctxp_error *err) {
  const char *libexec = getenv("CTXPIPE_LIBEXEC");
  if (libexec && *libexec) {
    if (try_program(ret_path, libexec, daemon)) return 0;
    return ctxp_error_set(
        err, -ENOENT, "the program '%s' is not in '%s'; unset CTXPIPE_LIBEXEC or point it at ctxpipe's daemons", daemon, libexec);
  }
  if (find_near(ret_path, daemon) || try_program(ret_path, CTXP_LIBEXEC, daemon)) return 0;
  return ctxp_error_set(err, -ENOENT, "the program '%s' was not found beside ctxpipe nor in '%s'; install ctxpipe, or set CTXPIPE_LIBEXEC",
      daemon, CTXP_LIBEXEC);
}

/* ---- logs ---- */
static void log_name(const char *node, const char *suffix, struct ctxp_buf *out) { ctxp_buf_printf(out, "%s.log%s", node, suffix); }

int ctxp_spawn_log(int folder, const char *node, int *ret_fd, struct ctxp_error *err) {
  ctxp_auto_buf name = {0}, old = {0};
  struct stat file;
  log_name(node, "", &name);
  log_name(node, ".1", &old);
  if (fstatat(folder, ctxp_buf_cstr(&name), &file, AT_SYMLINK_NOFOLLOW) == 0 && file.st_size > (off_t)CTXP_NODE_LOG_BYTES)
    (void)renameat(folder, ctxp_buf_cstr(&name), folder, ctxp_buf_cstr(&old)); /* or it grows on */
  int fd = openat(folder, ctxp_buf_cstr(&name), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    return ctxp_error_set(err, -errno, "could not open the log of node '%s', '%s': %s", node, ctxp_buf_cstr(&name), strerror(errno));
  *ret_fd = fd;
  return 0;
}

void ctxp_spawn_log_bound(int folder, const char *node) {
  ctxp_auto_buf name = {0}, old = {0};
  struct stat file;
  log_name(node, "", &name);
  log_name(node, ".1", &old);
  ctxp_auto_close int from = openat(folder, ctxp_buf_cstr(&name), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (from < 0 || fstat(from, &file) < 0 || file.st_size <= (off_t)CTXP_NODE_LOG_BYTES) return;
  ctxp_auto_close int to = openat(folder, ctxp_buf_cstr(&old), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  char block[65536];
  ssize_t n;
  off_t at = 0;
  while (to >= 0 && (n = pread(from, block, sizeof(block), at)) > 0) {
    if (write(to, block, (size_t)n) != n) break; /* what does not fit on the disk is given up: a log must not fill it */
    at += n;
  }
  if (ftruncate(from, 0) < 0) return;
}

void ctxp_spawn_last_words(int folder, const char *node, off_t since, struct ctxp_buf *out) {
  ctxp_auto_buf name = {0};
  char tail[2049];
  struct stat file;
  log_name(node, "", &name);
  ctxp_auto_close int fd = openat(folder, ctxp_buf_cstr(&name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 || fstat(fd, &file) < 0 || file.st_size <= since) return;
  off_t from = file.st_size - (off_t)(sizeof(tail) - 1) > since ? file.st_size - (off_t)(sizeof(tail) - 1) : since;
  ssize_t n = pread(fd, tail, sizeof(tail) - 1, from);
  while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == ' ')) n--;
  if (n <= 0) return;
  tail[n] = 0;
  char *line = strrchr(tail, '\n');
  line = line ? line + 1 : tail;
  char *sentence = strstr(line, ": "); /* TIME LEVEL NODE TOPIC: sentence */
  ctxp_buf_str(out, line[0] == '2' && sentence ? sentence + 2 : line);
}

/* ---- processes ---- */
enum { READY_FD = 3,
  LIFE_FD = 4,
  LOCK_FD = 5 };

/* In the child, after fork: nothing but system calls. */
static void become(const struct ctxp_spawn *spawn, int ready_fd, char *const argv[]) {
  struct sigaction reset = {.sa_handler = SIG_DFL};
  sigset_t none;
  /* above the numbers they are to get, so that no dup2 closes one of them */
  int high[] = {fcntl(spawn->log_fd, F_DUPFD, 10), fcntl(ready_fd, F_DUPFD, 10), fcntl(spawn->life_fd, F_DUPFD, 10),
      fcntl(spawn->lock_fd, F_DUPFD, 10)};
  int null = open("/dev/null", O_RDONLY);
  setpgid(0, 0); /* an interrupt from the terminal is the supervisor's */
  for (int signal = 1; signal < NSIG; signal++) sigaction(signal, &reset, NULL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (dup2(null, 0) < 0 || dup2(high[0], 1) < 0 || dup2(high[0], 2) < 0 || dup2(high[1], READY_FD) < 0 || dup2(high[2], LIFE_FD) < 0 ||
      dup2(high[3], LOCK_FD) < 0 || close_range(LOCK_FD + 1, ~0u, 0) < 0)
    _exit(126);
  if (spawn->be) _exit(spawn->be(spawn->config, spawn->topology, spawn->node, READY_FD, LIFE_FD));
  execv(spawn->program, argv);
  dprintf(READY_FD, "error: could not run '%s': %s\n", spawn->program, strerror(errno));
  _exit(127);
}

int ctxp_spawn_node(const struct ctxp_spawn *spawn, pid_t *ret_pid, int *ret_ready_fd, struct ctxp_error *err) {
  const char *const words[] = {spawn->program, "--topology", spawn->topology, "--node", spawn->node, "--ready-fd", "3", "--life-fd", "4",
      "--log-level", spawn->log_level, NULL};
  char *argv[sizeof(words) / sizeof(*words)];
  int ready[2];
  memcpy(argv, words, sizeof(words));
  if (pipe2(ready, O_CLOEXEC) < 0) return ctxp_error_set(err, -errno, "could not start node '%s': %s", spawn->node, strerror(errno));
  pid_t pid = fork();
  if (pid == 0) become(spawn, ready[1], argv);
  close(ready[1]);
  if (pid < 0) {
    close(ready[0]);
    return ctxp_error_set(err, -errno, "could not start node '%s': %s", spawn->node, strerror(errno));
  }
  fcntl(ready[0], F_SETFL, O_NONBLOCK);
  *ret_pid = pid;
  *ret_ready_fd = ready[0];
  return 0;
}
