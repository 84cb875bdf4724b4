/* The shipped topology (config/default.yaml, its prices built-in) and price table (config/prices.yaml) as texts. */
#pragma once

extern const char ctxp_builtin_topology_text[];
extern const char ctxp_builtin_prices_text[];
