/* The one main of all daemons:
 *   DAEMON --topology FILE --node NAME [--ready-fd N] [--life-fd M] [--log-level error|warn|info|debug] */
#pragma once
#include "runtime/node.h"

int ctxp_daemon_main(const struct ctxp_stage_ops *ops, int argc, char **argv);
/* The same as a function, for a process that was forked for it: the node of a topology that is at hand, until it has ended. */
int ctxp_daemon_run(const struct ctxp_node_options *options, enum ctxp_level level);
/* The hooks of a stage of the registry that is a source; NULL: it is a stage behind upstreams. */
const struct ctxp_source_ops *ctxp_registry_source(const struct ctxp_stage_ops *ops);
int ctxp_daemon_main_source(const struct ctxp_stage_ops *ops, const struct ctxp_source_ops *source, int argc, char **argv);
