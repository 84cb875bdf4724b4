/* The price table: rates per model and class of token, long-context tier, aliases. Read from YAML (JSON is YAML) in the form
 *
 *   models:
 *     claude-sonnet-4-5-20250929: {input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, cacheWrite1h: 6,
 *       above: {inputTokens: 200000, input: 6, ...}, aliases: [claude-sonnet-4-5], date: 2026-09-01, source: "..."}
 *
 * in US dollars per million tokens; kept as whole nano-dollars per million tokens. Unknown model: no price, never another's. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/error.h"
#include "ctxpipe/event.h"

struct ctxp_rates { /* nano-dollars per million tokens; -1: this class has no price */
  int64_t input, output, cache_read, cache_write_5m, cache_write_1h;
};
struct ctxp_model_price {
  struct ctxp_str model;
  struct ctxp_rates base, above; /* above: for the whole request, when its input of all classes is more than above_tokens */
  uint64_t above_tokens; /* 0: no such tier */
};
struct ctxp_prices;

#define CTXP_PRICES_BUILTIN "built-in" /* in the place of a file: config/prices.yaml as it was compiled in */

/* Reads the files in order, a later row going over an earlier one of the same model. All faults at once, one a line. -EINVAL. */
int ctxp_prices_read(const char *const *files, unsigned count, struct ctxp_prices **ret_prices, struct ctxp_buf *faults)
    __attribute__((warn_unused_result));
/* As it stands in the `topology` event: one MessagePack value {version, models: [...]}, and back. */
int ctxp_prices_encode(const struct ctxp_prices *prices, struct ctxp_buf *out) __attribute__((warn_unused_result));
int ctxp_prices_decode(struct ctxp_raw raw, struct ctxp_prices **ret_prices) __attribute__((warn_unused_result));
/* By name or alias, exactly. NULL: no price. Borrowed. */
const struct ctxp_model_price *ctxp_prices_find(const struct ctxp_prices *prices, struct ctxp_str model);
/* What names the table in a report: the newest `date` in it and a hash of its rows. */
const char *ctxp_prices_version(const struct ctxp_prices *prices);
unsigned ctxp_prices_count(const struct ctxp_prices *prices);
struct ctxp_prices *ctxp_prices_free(struct ctxp_prices *prices);
