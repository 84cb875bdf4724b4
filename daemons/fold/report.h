/* What the fold tells: the `spend` event, and the answers to queries.
 *
 * Query {what: "spend", by?, session?, agent?, model?, since? (ms), offsets? (of days: groups.h), top?}: the object of `report --json`, as one MessagePack map:
 *   schema 1 · prices {version}
 *   totals {sessions, requests, requestsUnreported, input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, billed,
 *           costNano, costInputNano, unpricedTokens, unexplainedTokens}
 *   sessions [{agent, session, thread, parentThread, spawnedBy, project, product, models [name], the same figures, first, last (times),
 *              calibration {sizes, estimator, estimated, reported, notRecorded (U),
 *              cameIn (X), misfits, predictionError, growth, models [{model, tokensPer1024Pieces, steps, deviationPermille,
 *              dropsThinking}]}}], one for each window, by first (time), then names
 *   parts [{part, band, own, billed, costNano, costTieredNano, turns, error}]: what is no message, in its band's row too
 *   filter {agent, session, model, since, sinceMs}, where anything is narrowed · bands [{band, own, billed, costNano, costTieredNano,
 *          partlyPriced, messages, turns, first, last, error}]
 *   views [{kind, label, band, the same}] · tools [{tool, asViews, arguments, the same}]
 *   messages [{label, band, tool, agent, session, thread, the same}], with by: message only
 *   days, projects, models, agents [{day | project | model | agent, sessions, the totals' figures, first, last (times),
 *          ofSubagents {requests, billed, costNano, unpricedTokens}}], with that `by` only
 *   cacheBusts [{cause, count, tokens, costNano}] · balance {views, tools} (balance.h) · potential {bash, amnesia, write, lazy: {saved, of}};
 *          nil where only some requests of a session were asked for
 * costNano of a row is nil where no request that had it has a price; error (tokens of `billed`) is nil while sizes are estimates; first and
 * last of a row are numbers of requests in their window, and unattributed input stands in a row of that name.
 *
 * Query {what: "stats", session?, agent?}: {schema, sessions [{agent, session, cumulative {bash, amnesia, lazy, write, total}, restored?,
 *   last {turn, ..., aux, net, carried, carriedCostNano} or nil, turns, aux, regret, net, carried, carriedCostNano, potential}],
 *   all {sessions, cumulative, turns, aux, regret, net, carried, carriedCostNano, potential}}; `all` has nothing of what was restored. */
#pragma once
#include "fold/rows.h"
#include "fold/store.h"

/* Fills a `spend` event; top 0: bands only. lists: buffers that the event's lists borrow from. -ENOMEM. */
int ctxp_fold_spend_event(struct ctxp_fold_window *w, uint64_t top, struct ctxp_spend *ret, struct ctxp_buf lists[CTXP_FOLD_GRAINS])
    __attribute__((warn_unused_result));
/* -ENOENT with a sentence: nothing known passes the filter, or there is no such query. */
int ctxp_fold_query(struct ctxp_stage *stage, struct ctxp_raw query, struct ctxp_buf *reply, struct ctxp_error *err)
    __attribute__((warn_unused_result));
