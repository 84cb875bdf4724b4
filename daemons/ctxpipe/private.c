#include "ctxpipe/private.h"
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
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/msgpack.h"
#include "ctxpipe/rundir.h"
#include "ctxpipe/stop.h"

#define ROUND_MS 1000

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
static int make_locked(const char *tmp, struct ctxp_private *p) {
  struct stat made, there;
  snprintf(p->dir, sizeof(p->dir), "%s" BELOW, tmp);
  int r = mkdtemp(p->dir) ? 0 : -errno;
  if (r == 0) p->lock = try_lock(p->dir, O_RDONLY | O_DIRECTORY);
  if (r == 0 && (p->lock < 0 || fstat(p->lock, &made) < 0 || stat(p->dir, &there) < 0 || made.st_ino != there.st_ino)) r = 1;
  if (r) p->dir[0] = 0;
  if (r) ctxp_close_ptr(&p->lock);
  return r;
}

static int make_dir(struct ctxp_private *p, struct ctxp_error *err) {
  const char *named = getenv("TMPDIR"), *tmp = named && named[0] == '/' ? named : "/tmp";
  size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof(SOCKET_BELOW);
  if (strlen(tmp) > most)
    return ctxp_error_set(err, -ENAMETOOLONG,
        "TMPDIR is '%s', and a socket in it would have too long a path; set TMPDIR to a directory whose path has at most %zu bytes, as /tmp", tmp,
        most);
  sweep(tmp);
  int r = 1;
  for (int i = 0; i < 10 && r == 1; i++) r = make_locked(tmp, p);
  if (r == 0) return 0;
  return ctxp_error_set(err, r > 0 ? -EBUSY : r, "could not make a temporary directory in '%s': %s; set TMPDIR to one that you may write in", tmp,
      strerror(r > 0 ? EBUSY : -r));
}

int ctxp_private_open(const char *prices, struct ctxp_private *ret_private, struct ctxp_error *err) {
  struct ctxp_private p = {.launch = {.life = -1}, .lock = -1};
  int r = make_dir(&p, err);
  if (r < 0) return r;
  r = ctxp_pipeline_private(p.dir, prices, &p.config, err);
  if (r == 0) {
    struct ctxp_launch_options options = {.config = p.config, .log_level = "warn", .remove_when_done = p.dir, .stop = &ctxp_stop};
    r = ctxp_launch(&options, &p.launch, err);
  }
  *ret_private = p;
  if (r < 0) {
    struct ctxp_error unused; /* the first reason is the one that counts */
    int closed = ctxp_private_close(ret_private, &unused);
    (void)closed;
  }
  return r;
}

int ctxp_private_check(const struct ctxp_private *private, struct ctxp_error *err) {
  ctxp_auto_buf map = {0};
  struct ctxp_raw node;
  uint32_t left;
  int r = ctxp_rundir_read(private->config->run_dir, &map, err);
  if (r < 0) return r;
  if (r > 0) return ctxp_error_set(err, -ECHILD, "the private pipeline has ended before its time");
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(ctxp_buf_raw(&map), "nodes"));
  if (!it.at || ctxp_array_open(&it, &left) < 0) return 0;
  while (ctxp_array_next(&it, &left, &node) > 0) {
    struct ctxp_str last = ctxp_map_str(node, "lastError");
    if (ctxp_str_is(ctxp_map_str(node, "state"), "failed")) return ctxp_error_set(err, -ECHILD, "%.*s", (int)last.len, last.ptr);
  }
  return 0;
}

static int settle_node(struct ctxp_private *p, const char *node, uint64_t cause, struct ctxp_error *err) {
  for (;;) {
    if (ctxp_stop) return ctxp_error_set(err, -EINTR, "stopped");
    int r = ctxp_pipeline_wait(p->config, node, cause, ROUND_MS, err);
    if (r == 0 || (r != -ETIMEDOUT && r != -EINTR)) return r;
    r = ctxp_private_check(p, err);
    if (r < 0) return r;
  }
}

int ctxp_private_settle(struct ctxp_private *private, struct ctxp_error *err) {
  const struct ctxp_node_config *collector = ctxp_pipeline_node(private->config, CTXP_ROLE_COLLECTOR_NODE);
  ctxp_auto_buf status = {0};
  if (!collector) return ctxp_error_set(err, -ENOENT, "the built-in topology has no collector");
  int r = ctxp_pipeline_status(private->config, collector->name, 30000, &status, err);
  uint64_t head = r == 0 ? ctxp_map_u64(ctxp_buf_raw(&status), "head", 0) : 0;
  for (unsigned i = 0; i < private->config->node_count && r == 0; i++) {
    const struct ctxp_node_config *node = &private->config->nodes[i];
    if (node->ops->role == CTXP_ROLE_FOLD_NODE || node->ops->role == CTXP_ROLE_SINK_NODE) r = settle_node(private, node->name, head, err);
  }
  return r;
}

int ctxp_private_close(struct ctxp_private *private, struct ctxp_error *err) {
  int r = ctxp_launch_end(&private->launch, !ctxp_stop, err);
  int removed = private->dir[0] ? ctxp_remove_tree(private->dir) : 0; /* where the supervisor could not */
  ctxp_close_ptr(&private->lock);
  ctxp_topology_free(private->config);
  if (removed < 0 && r == 0) r = ctxp_error_set(err, removed, "could not remove '%s'", private->dir);
  private->config = NULL;
  return r;
}
