/* The shipped topology (config/default.yaml) and price table (config/prices.yaml) as texts. The topology names the table as
 * `prices.yaml`, beside it. */
#pragma once

extern const char ctxp_builtin_topology_text[];
extern const char ctxp_builtin_prices_text[];
