/* The one main of all daemons:
 *   DAEMON --topology FILE --node NAME [--ready-fd N] [--life-fd M] [--log-level error|warn|info|debug] */
#pragma once
#include "runtime/node.h"

int ctxp_daemon_main(const struct ctxp_stage_ops *ops, int argc, char **argv);
int ctxp_daemon_main_source(const struct ctxp_stage_ops *ops, const struct ctxp_source_ops *source, int argc, char **argv);
