/* Following a node's stream from a command: its events in order, from the start (by replay) or from now on. */
#pragma once
#include "bus/wire.h"
#include "config/topology.h"

struct ctxp_feed_options { /* borrowed for the call */
  const struct ctxp_config *config;
  const char *node;
  struct ctxp_topics topics;
  bool from_now;
  bool to_head; /* end when everything that was there at the beginning has been given out */
};
/* Calls `event` with each until it returns non-zero (that is returned), the end as the options say or a signal has come (0). */
int ctxp_feed_run(const struct ctxp_feed_options *options, int (*event)(void *data, const struct ctxp_event *event), void *data,
    struct ctxp_error *err) __attribute__((warn_unused_result));
