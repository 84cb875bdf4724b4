/* Why a row costs what it does: every request that billed it, and how much of each was its part.
 *
 * Query {what: "explain", name, kind? (message, view, tool, part), and what narrows `spend`}: the first kind in that order that has the name.
 *   {schema, kind, name, row {billed, costNano, costTieredNano}, windows [{agent, session, thread, billed, costNano, costTieredNano,
 *    requests [{request, time, timeMs, model, input, cacheRead, cacheWrite5m, cacheWrite1h, window, size, requestCostNano,
 *    billed, costNano, costTieredNano}]}]}
 * billed = (input + cacheRead + cacheWrite5m + cacheWrite1h) x size / window, whole numbers that add up to the row's, which is the same in the
 * bill; money is nil where the request has no price. */
#pragma once
#include "fold/pick.h"

/* -ENOENT with a sentence: nothing has that name, or no request passes. */
int ctxp_fold_explain(struct ctxp_stage *stage, struct ctxp_raw query, struct ctxp_buf *reply, struct ctxp_error *err)
    __attribute__((warn_unused_result));
