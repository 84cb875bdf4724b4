/* Starting one daemon: where its program is, what it inherits, where its standard error goes. */
#pragma once
#include <sys/types.h>
#include "config/topology.h"
#include "ctxpipe/error.h"

#define CTXP_NODE_LOG_BYTES (4u << 20) /* of a node's log before it becomes NODE.log.1, of which there is one */

/* $CTXPIPE_LIBEXEC, else near the executable (a build folder, an installation that was moved), else where it was installed. -ENOENT with a
 * sentence. */
int ctxp_spawn_find(const char *daemon, struct ctxp_buf *ret_path, struct ctxp_error *err) __attribute__((warn_unused_result));

/* Opens DIR/NODE.log for appending, after rotating one that is full. */
int ctxp_spawn_log(int folder, const char *node, int *ret_fd, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Moves what a running node has written aside when it is too much. The node goes on at the file's beginning. */
void ctxp_spawn_log_bound(int folder, const char *node);
/* The last line written to the log since `since` (a length), without its head of time and level where it has one; "" if none. */
void ctxp_spawn_last_words(int folder, const char *node, off_t since, struct ctxp_buf *out);

/* Is the daemon of a node, in a process of its own: until it has ended, with its exit code. topology: the file that `config` is in. */
typedef int ctxp_be_node(const struct ctxp_config *config, const char *topology, const char *node, int ready_fd, int life_fd);
struct ctxp_spawn { /* borrowed for the call */
  ctxp_be_node *be; /* called in the child, with `config`; NULL: the child runs `program` */
  const struct ctxp_config *config;
  const char *program, *topology, *node, *log_level;
  int log_fd; /* standard output and error */
  int life_fd; /* its end: the supervisor is gone */
  int lock_fd; /* stays open in the child, so that the lock lasts as long as any node */
};
/* ret_ready_fd: the daemon's `ready` line, or `error: ...`, which may also come later, when it ends by an error; then its end. */
int ctxp_spawn_node(const struct ctxp_spawn *spawn, pid_t *ret_pid, int *ret_ready_fd, struct ctxp_error *err)
    __attribute__((warn_unused_result));
