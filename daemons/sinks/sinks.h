/* The sinks' operations, for the registry and the tests. */
#pragma once
#include "ctxpipe/stage.h"

extern const struct ctxp_stage_ops ctxp_stage_sink_log, ctxp_stage_sink_snapshot;
