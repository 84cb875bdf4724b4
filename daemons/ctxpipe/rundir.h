/* The directories of a pipeline: made, checked to be ours alone, locked. And the small file in which its supervisor says how it is. */
#pragma once
#include <sys/types.h>
#include "config/topology.h"

struct ctxp_rundir {
  int supervisor_lock[2]; /* run_dir, state_dir: this process supervises them; -1: not held */
  int nodes_lock; /* of state_dir: inherited by the nodes, so held while any lives */
  int logs; /* state_dir/logs */
};
/* Makes both directories (0700) and takes the locks. -EBUSY: another supervisor has them; all with a sentence. Waits for nodes that
 * an earlier, killed supervisor left behind and that are about to end: at most wait_ms. */
int ctxp_rundir_open(const struct ctxp_config *config, unsigned wait_ms, struct ctxp_rundir *ret_dirs, struct ctxp_error *err)
    __attribute__((warn_unused_result));
void ctxp_rundir_close(struct ctxp_rundir *dirs);

#define CTXP_RUNDIR_ENDED "ended.json"
/* What the supervisor `pid` said when it ended, for one that asked for it: 0, it ended as it was asked; <0 with its sentence. */
int ctxp_rundir_ended(const char *run_dir, pid_t pid, struct ctxp_error *err) __attribute__((warn_unused_result));

/* Replaces run_dir/NAME as a whole. */
int ctxp_rundir_write(const char *run_dir, const char *name, const struct ctxp_buf *text, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* run_dir/supervisor.json as one MessagePack map {pid, state, topology, nodes: [{node, daemon, pid, state, restarts, lastError}]}. 1: no
 * supervisor runs there. */
int ctxp_rundir_read(const char *run_dir, struct ctxp_buf *ret_map, struct ctxp_error *err) __attribute__((warn_unused_result));
