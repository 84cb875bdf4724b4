/* What a supervisor leaves in run_dir for its nodes: the topology with all paths absolute, and beside it the price table as it was
 * read when the pipeline started. A node that is started again derives with the same prices, whatever became of the files. */
#pragma once
#include "config/topology.h"

#define CTXP_RESOLVED_TOPOLOGY "topology.yaml"
#define CTXP_RESOLVED_PRICES "prices.msgpack"

/* The texts of both files. -ENOMEM. */
int ctxp_resolved_write(const struct ctxp_config *config, struct ctxp_buf *ret_topology, struct ctxp_buf *ret_prices)
    __attribute__((warn_unused_result));
/* Takes the prices over into a topology that names none; it stays without where there is no such file, or an empty one. */
int ctxp_resolved_prices(struct ctxp_config *config, struct ctxp_error *err) __attribute__((warn_unused_result));
