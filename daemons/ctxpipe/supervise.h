/* The supervisor of a pipeline: starts the daemons of a topology, all at once (each waits for what it reads from by itself), starts again
 * what died, and drains them. One thread, one loop over signals and the daemons' ready pipes. It opens neither ZeroMQ nor LMDB: it forks.
 */
#pragma once
#include "ctxpipe/spawn.h"

enum ctxp_say {
  CTXP_SAY_NODE, /* a node is ready, died, was started again: one line */
  CTXP_SAY_READY, /* the collector accepts events */
  CTXP_SAY_END /* how it ended */
};
struct ctxp_supervise_options { /* borrowed for the call */
  const struct ctxp_config *config;
  const char *log_level;
  ctxp_be_node *be; /* the nodes are forks that call it; NULL: they are programs */
  int life_fd; /* its end: nobody wants the pipeline any more, stop at once; -1: none */
  void (*say)(void *data, enum ctxp_say what, const char *line);
  void *data;
};
/* Runs until it has drained after a signal (0), or could not start or go on (<0 with a sentence). */
int ctxp_supervise(const struct ctxp_supervise_options *options, struct ctxp_error *err) __attribute__((warn_unused_result));
