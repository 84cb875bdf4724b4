#include "ctxpipe/private.h"
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/msgpack.h"
#include "ctxpipe/private_dir.h"
#include "ctxpipe/rundir.h"
#include "ctxpipe/stop.h"
#include "runtime/daemon_main.h"

#define ROUND_MS 1000
#define HEAP_PIECE ((size_t)31 << 20) /* below the threshold from which malloc maps apart */
#define HEAP_PIECES 2
#define NODE_MAPS ((size_t)1 << 20) /* what a node opens of that size stands apart: LMDB has long lists that stay almost empty */
#define HEAP_MAPS (32 << 20) /* the most that malloc allows */
#define HUGE_PAGE ((uintptr_t)2 << 20)

/* The heap's next stretch, asked for in huge pages: a page that is touched first costs more than what is then written into it. Nothing
 * is touched here, so what is not used costs nothing; where the kernel has no huge pages the heap is as it was. */
static void spread_heap(void) {
  void *pieces[HEAP_PIECES];
  mallopt(M_MMAP_THRESHOLD, HEAP_MAPS);
  for (unsigned i = 0; i < HEAP_PIECES; i++) {
    pieces[i] = malloc(HEAP_PIECE);
    uintptr_t from = ((uintptr_t)pieces[i] + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1), to = ((uintptr_t)pieces[i] + HEAP_PIECE) & ~(HUGE_PAGE - 1);
    if (pieces[i] && from < to) (void)madvise((char *)pieces[i] + (from - (uintptr_t)pieces[i]), to - from, MADV_HUGEPAGE);
  }
  for (unsigned i = HEAP_PIECES; i-- > 0;) free(pieces[i]);
}

/* A pipeline of some seconds: its nodes are forks of the supervisor, which has their programs and the topology in its memory already. */
static int be_node(const struct ctxp_config *config, const char *topology, const char *name, int ready_fd, int life_fd) {
  const struct ctxp_stage_ops *ops = ctxp_topology_node(config, name)->ops;
  struct ctxp_node_options options = {.ops = ops,
      .source = ctxp_registry_source(ops),
      .topology_file = topology,
      .config = config,
      .name = name,
      .opened = spread_heap,
      .ready_fd = ready_fd,
      .life_fd = life_fd};
  prctl(PR_SET_NAME, ops->name);
  mallopt(M_MMAP_THRESHOLD, NODE_MAPS);
  return ctxp_daemon_run(&options, CTXP_LOG_WARN);
}

/* For this process and those that are forked from it: what was allocated is kept for what is to come, which is more of the same. */
static void keep_memory(void) {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, HEAP_MAPS);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 1 << 20);
}

int ctxp_private_open(const char *prices, const char *sizes, struct ctxp_private *ret_private, struct ctxp_error *err) {
  struct ctxp_private p = {.launch = {.life = -1}, .lock = -1};
  keep_memory();
  int r = ctxp_private_dir(p.dir, sizeof(p.dir), &p.lock, err);
  if (r < 0) return r;
  r = ctxp_pipeline_private(p.dir, prices, sizes, &p.config, err);
  if (r == 0) {
    struct ctxp_launch_options options = {
        .config = p.config, .log_level = "warn", .be = be_node, .remove_when_done = p.dir, .stop = &ctxp_stop};
    r = ctxp_launch(&options, &p.launch, err);
    if (r == 0) spread_heap(); /* not before: what is forked has its own */
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
