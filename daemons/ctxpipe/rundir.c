#include "ctxpipe/rundir.h"
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"

/* the folder and those above it */
static int make(const char *path, struct ctxp_error *err) {
  ctxp_auto_free char *copy = ctxp_str_dup(ctxp_str(path));
  if (!copy) return ctxp_error_set(err, -ENOMEM, "out of memory");
  for (char *slash = copy;; *slash = '/') {
    slash = strchr(slash + 1, '/');
    if (slash) *slash = 0;
    if (mkdir(copy, 0700) < 0 && errno != EEXIST)
      return ctxp_error_set(err, -errno, "could not make the directory '%s': %s", copy, strerror(errno));
    if (!slash) return 0;
  }
}

static int check(const char *what, const char *path, struct ctxp_error *err) {
  struct stat dir;
  if (lstat(path, &dir) < 0) return ctxp_error_set(err, -errno, "%s '%s': %s", what, path, strerror(errno));
  if (!S_ISDIR(dir.st_mode))
    return ctxp_error_set(err, -ENOTDIR, "%s '%s' is %s; name a directory", what, path, S_ISLNK(dir.st_mode) ? "a link" : "no directory");
  if (dir.st_uid != geteuid())
    return ctxp_error_set(err, -EPERM, "%s '%s' belongs to another user; name a directory of your own", what, path);
  if (dir.st_mode & 077) return ctxp_error_set(err, -EPERM, "%s '%s' is open to others; run: chmod 700 '%s'", what, path, path);
  if (access(path, W_OK | X_OK) < 0) return ctxp_error_set(err, -errno, "%s '%s' cannot be written: %s", what, path, strerror(errno));
  return 0;
}

static int open_lock(const char *dir, const char *name, int *ret_fd, struct ctxp_error *err) {
  ctxp_auto_buf path = {0};
  ctxp_buf_printf(&path, "%s/%s", dir, name);
  *ret_fd = open(ctxp_buf_cstr(&path), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  return *ret_fd < 0 ? ctxp_error_set(err, -errno, "could not open '%s': %s", ctxp_buf_cstr(&path), strerror(errno)) : 0;
}

static int lock_supervisor(const char *dir, int *ret_fd, struct ctxp_error *err) {
  int r = open_lock(dir, "supervisor.lock", ret_fd, err);
  if (r < 0) return r;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}; /* of the open file: it can be asked for without taking it */
  if (fcntl(*ret_fd, F_OFD_SETLK, &lock) == 0) return 0;
  return ctxp_error_set(err, -EBUSY, "a pipeline already runs in '%s'; 'ctxpipe down' ends it, 'ctxpipe status' shows it", dir);
}

static void alarmed(int signal) { (void)signal; }

/* flock, but for at most wait_ms: an alarm that interrupts the call, so that nobody sleeps and asks again */
static int lock_within(int fd, unsigned wait_ms) {
  struct sigaction alarm_action = {.sa_handler = alarmed}, before; /* no SA_RESTART */
  struct itimerval timer = {.it_value = {wait_ms / 1000, (suseconds_t)(wait_ms % 1000) * 1000}, .it_interval = {0, 100000}}, off = {0};
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return 0;
  sigaction(SIGALRM, &alarm_action, &before);
  setitimer(ITIMER_REAL, &timer, NULL);
  int r = flock(fd, LOCK_EX) < 0 ? -errno : 0;
  setitimer(ITIMER_REAL, &off, NULL);
  sigaction(SIGALRM, &before, NULL);
  return r;
}

void ctxp_rundir_close(struct ctxp_rundir *dirs) {
  ctxp_close_ptr(&dirs->supervisor_lock[0]);
  ctxp_close_ptr(&dirs->supervisor_lock[1]);
  ctxp_close_ptr(&dirs->nodes_lock);
  ctxp_close_ptr(&dirs->logs);
  *dirs = (struct ctxp_rundir){{-1, -1}, -1, -1};
}

static int open_logs(const char *state_dir, int *ret_fd, struct ctxp_error *err) {
  ctxp_auto_buf path = {0};
  ctxp_buf_printf(&path, "%s/logs", state_dir);
  int r = make(ctxp_buf_cstr(&path), err);
  if (r < 0) return r;
  *ret_fd = open(ctxp_buf_cstr(&path), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  return *ret_fd < 0 ? ctxp_error_set(err, -errno, "could not open '%s': %s", ctxp_buf_cstr(&path), strerror(errno)) : 0;
}

int ctxp_rundir_open(const struct ctxp_config *config, unsigned wait_ms, struct ctxp_rundir *ret_dirs, struct ctxp_error *err) {
  struct ctxp_rundir dirs = {{-1, -1}, -1, -1};
  int r = make(config->run_dir, err);
  if (r == 0) r = make(config->state_dir, err);
  if (r == 0) r = check("run_dir", config->run_dir, err);
  if (r == 0) r = check("state_dir", config->state_dir, err);
  if (r == 0) r = lock_supervisor(config->run_dir, &dirs.supervisor_lock[0], err);
  if (r == 0 && strcmp(config->run_dir, config->state_dir) != 0) r = lock_supervisor(config->state_dir, &dirs.supervisor_lock[1], err);
  if (r == 0) r = open_lock(config->state_dir, "nodes.lock", &dirs.nodes_lock, err);
  if (r == 0 && lock_within(dirs.nodes_lock, wait_ms) < 0)
    r = ctxp_error_set(
        err, -EBUSY, "nodes of an earlier pipeline still run on '%s'; wait until they have ended", config->state_dir);
  if (r == 0) r = open_logs(config->state_dir, &dirs.logs, err);
  if (r < 0)
    ctxp_rundir_close(&dirs);
  else
    *ret_dirs = dirs;
  return r;
}

int ctxp_rundir_write(const char *run_dir, const char *name, const struct ctxp_buf *text, struct ctxp_error *err) {
  ctxp_auto_buf path = {0}, beside = {0};
  ctxp_buf_printf(&path, "%s/%s", run_dir, name);
  ctxp_buf_printf(&beside, "%s/.%s.new", run_dir, name);
  ctxp_auto_close int fd = open(ctxp_buf_cstr(&beside), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 || write(fd, text->ptr, text->len) != (ssize_t)text->len || rename(ctxp_buf_cstr(&beside), ctxp_buf_cstr(&path)) < 0)
    return ctxp_error_set(err, errno ? -errno : -EIO, "could not write '%s': %s", ctxp_buf_cstr(&path), strerror(errno));
  return 0;
}

static int not_ours(const char *run_dir, struct ctxp_error *err) {
  struct stat dir;
  if (stat(run_dir, &dir) < 0 || dir.st_uid == geteuid())
    return ctxp_error_set(err, -EACCES, "'%s' cannot be looked into: %s", run_dir, strerror(EACCES));
  struct passwd *owner = getpwuid(dir.st_uid);
  return ctxp_error_set(err, -EACCES,
      "'%s' belongs to %s (user %u), who alone can ask a pipeline there; --run-dir or -f name one of your own", run_dir,
      owner ? owner->pw_name : "another user", (unsigned)dir.st_uid);
}

/* 1: nobody supervises this directory */
static int is_free(const char *run_dir, struct ctxp_error *err) {
  ctxp_auto_buf path = {0};
  ctxp_buf_printf(&path, "%s/supervisor.lock", run_dir);
  ctxp_auto_close int fd = open(ctxp_buf_cstr(&path), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fd < 0 && errno == EACCES) return not_ours(run_dir, err);
  return fd < 0 || fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK;
}

/* 1: there is none */
static int read_json(const char *run_dir, const char *name, struct ctxp_buf *ret_map, struct ctxp_error *err) {
  ctxp_auto_buf path = {0}, text = {0};
  char block[4096];
  ssize_t n;
  ctxp_buf_printf(&path, "%s/%s", run_dir, name);
  ctxp_auto_close int fd = open(ctxp_buf_cstr(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno == ENOENT ? 1 : ctxp_error_set(err, -errno, "could not read '%s': %s", ctxp_buf_cstr(&path), strerror(errno));
  while ((n = read(fd, block, sizeof(block))) > 0 && text.len < (4u << 20)) ctxp_buf_add(&text, block, (size_t)n);
  return ctxp_json_to_raw(ctxp_buf_view(&text), ret_map, err);
}

int ctxp_rundir_read(const char *run_dir, struct ctxp_buf *ret_map, struct ctxp_error *err) {
  int r = is_free(run_dir, err);
  return r ? r : read_json(run_dir, "supervisor.json", ret_map, err);
}

int ctxp_rundir_ended(const char *run_dir, pid_t pid, struct ctxp_error *err) {
  ctxp_auto_buf map = {0};
  int r = read_json(run_dir, CTXP_RUNDIR_ENDED, &map, err);
  if (r < 0) return r;
  if (r > 0 || ctxp_map_u64(ctxp_buf_raw(&map), "pid", 0) != (uint64_t)pid)
    return ctxp_error_set(err, -ECHILD,
        "the supervisor (pid %d) ended without a word: it was killed, or could not write its last words; the next 'ctxpipe up' goes on "
        "from what is stored",
        (int)pid);
  struct ctxp_str sentence = ctxp_map_str(ctxp_buf_raw(&map), "error");
  return sentence.len ? ctxp_error_set(err, -EAGAIN, "%.*s", (int)sentence.len, sentence.ptr) : 0;
}
