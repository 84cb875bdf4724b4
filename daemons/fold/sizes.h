/* The one place where the size of a message comes from: the estimate of its definition (`sizes: estimate`). Everything else in
 * the fold asks here, so that another source of sizes changes nothing but this. */
#pragma once
#include "ctxpipe/event.h"

static inline uint64_t ctxp_fold_size(const struct ctxp_context_message *definition) { return definition->tokens; }
#define CTXP_FOLD_ESTIMATOR "chars4" /* what the producers' estimates are, named beside the figures */
