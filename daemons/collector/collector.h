/* The collector: gives every agent's event its place. A source of the node (common/runtime/node.h). */
#pragma once
#include "runtime/node.h"

extern const struct ctxp_stage_ops ctxp_stage_collector;
extern const struct ctxp_source_ops ctxp_source_collector;
