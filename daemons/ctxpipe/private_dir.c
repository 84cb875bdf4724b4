/* The directory of a private pipeline, and what killed ones have left. */
#include "ctxpipe/private_dir.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/cleanup.h"
#include "ctxpipe/launch.h"

#define PREFIX "ctxpipe-"
#define SUFFIX "XXXXXX"
#define BELOW "/" PREFIX SUFFIX /* the private directory, and in it the longest name of a socket */
#define SOCKET_BELOW BELOW "/run/collector.control"

/* The lock of a private directory says that its report lives; of the nodes', that some of its daemons still do. -1: held, or gone */
static int try_lock(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static void sweep_one(const char *dir) {
  ctxp_auto_buf nodes = {0};
  struct stat st;
  ctxp_auto_close int lock = try_lock(dir, O_RDONLY | O_DIRECTORY);
  if (lock < 0 || fstat(lock, &st) < 0 || st.st_uid != geteuid()) return;
  ctxp_buf_printf(&nodes, "%s/state/nodes.lock", dir);
  ctxp_auto_close int ended = try_lock(ctxp_buf_cstr(&nodes), O_RDWR);
  if (ended < 0 && errno != ENOENT && errno != ENOTDIR) return;
  int removed = ctxp_remove_tree(dir);
  (void)removed; /* the next one tries again */
}

/* What reports that were killed have left; a live one holds its lock. */
static void sweep(const char *tmp) {
  DIR *folder = opendir(tmp);
  struct dirent *entry;
  while (folder && (entry = readdir(folder))) {
    ctxp_auto_buf path = {0};
    if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 || strlen(entry->d_name) != strlen(PREFIX SUFFIX)) continue;
    ctxp_buf_printf(&path, "%s/%s", tmp, entry->d_name);
    if (!path.failed) sweep_one(ctxp_buf_cstr(&path));
  }
  if (folder) closedir(folder);
}

/* 1: a sweep came between making it and locking it */
static int make_locked(const char *tmp, char *dir, size_t size, int *lock) {
  struct stat made, there;
  snprintf(dir, size, "%s" BELOW, tmp);
  int r = mkdtemp(dir) ? 0 : -errno;
  if (r == 0) *lock = try_lock(dir, O_RDONLY | O_DIRECTORY);
  if (r == 0 && (*lock < 0 || fstat(*lock, &made) < 0 || stat(dir, &there) < 0 || made.st_ino != there.st_ino)) r = 1;
  if (r) dir[0] = 0;
  if (r) ctxp_close_ptr(lock);
  return r;
}

int ctxp_private_dir(char *dir, size_t size, int *ret_lock, struct ctxp_error *err) {
  const char *named = getenv("TMPDIR"), *tmp = named && named[0] == '/' ? named : "/tmp";
  size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof(SOCKET_BELOW);
  if (strlen(tmp) > most)
    return ctxp_error_set(err, -ENAMETOOLONG,
        "TMPDIR is '%s', and a socket in it would have too long a path; set TMPDIR to a directory whose path has at most %zu bytes, as "
        "/tmp",
        tmp, most);
  sweep(tmp);
  int r = 1;
  for (int i = 0; i < 10 && r == 1; i++) r = make_locked(tmp, dir, size, ret_lock);
  if (r == 0) return 0;
  return ctxp_error_set(err, r > 0 ? -EBUSY : r,
      "could not make a temporary directory in '%s': %s; set TMPDIR to one that you may write in", tmp, strerror(r > 0 ? EBUSY : -r));
}
