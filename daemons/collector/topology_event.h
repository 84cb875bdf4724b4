/* The `topology` event: what derives from here on, and with which options and prices. */
#pragma once
#include "config/topology.h"

/* Fills *ret_event, borrowing from config and from `scratch`. -ENOMEM. */
int ctxp_topology_event(const struct ctxp_config *config, struct ctxp_buf *scratch, struct ctxp_event *ret_event)
    __attribute__((warn_unused_result));
