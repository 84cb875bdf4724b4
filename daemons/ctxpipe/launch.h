/* A supervisor in a process of its own, and the wait until it is ready. To be called before this process has any ZeroMQ context. */
#pragma once
#include <sys/types.h>
#include "ctxpipe/supervise.h"

struct ctxp_launch_options { /* borrowed for the call */
  const struct ctxp_config *config;
  const char *log_level;
  ctxp_be_node *be; /* as the supervisor has it */
  bool detach; /* outlives this process (its own session; what it says also goes to state_dir/logs/supervisor.log); else it
                              ends with it */
  const char *remove_when_done; /* a directory that the supervisor removes when its nodes have ended; NULL: none */
  void (*line)(void *data, const char *line); /* what it says until it is ready; may be NULL */
  void *data;
  volatile const int *stop; /* set by a signal handler: give the start up; may be NULL */
};
struct ctxp_launch {
  pid_t pid; /* of a supervisor that does not outlive us */
  int life; /* closing it ends that supervisor */
};
/* 0: the pipeline accepts events. <0 with the reason; nothing is left running then. ret_launch: only without `detach`. */
int ctxp_launch(const struct ctxp_launch_options *options, struct ctxp_launch *ret_launch, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Drains it and waits for its end; drain false: stops it at once. -ECHILD with a sentence: it did not end well. */
int ctxp_launch_end(struct ctxp_launch *launch, bool drain, struct ctxp_error *err) __attribute__((warn_unused_result));

/* Removes a directory and what is in it, never following a link. */
int ctxp_remove_tree(const char *path) __attribute__((warn_unused_result));
