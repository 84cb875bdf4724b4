/* A private pipeline for one command: its directories are temporary, and nothing of it is left when the command ends.
 * What a killed one left, the next one removes. */
#pragma once
#include "ctxpipe/launch.h"
#include "ctxpipe/pipeline.h"

struct ctxp_private {
  char dir[256];
  int lock; /* of dir: held as long as this command, or its supervisor, lives */
  struct ctxp_config *config;
  struct ctxp_launch launch;
};
/* prices: a file that goes over the built-in table; sizes: the fold's option of that name; NULL: none. Waits until it accepts events. */
int ctxp_private_open(const char *prices, const char *sizes, struct ctxp_private *ret_private, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Waits until fold and sinks have everything that the collector has. -EINTR: a signal came; <0 with a node's last words: one has failed. */
int ctxp_private_settle(struct ctxp_private *private, struct ctxp_error *err) __attribute__((warn_unused_result));
/* 0, or the last words of a node that has failed. */
int ctxp_private_check(const struct ctxp_private *private, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Ends it and removes its directories, also after a failure. */
int ctxp_private_close(struct ctxp_private *private, struct ctxp_error *err) __attribute__((warn_unused_result));
