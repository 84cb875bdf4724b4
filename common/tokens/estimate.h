/* Token estimates. The ledger's unit is chars4: ceil(n / 4), n in UTF-16 code units, as JavaScript counts. */
#pragma once
#include "base/str.h"

static inline uint64_t ctxp_chars4(uint64_t units) { return (units + 3) / 4; }
static inline uint64_t ctxp_estimate_text(struct ctxp_str text) { return ctxp_chars4(ctxp_utf16_units(text)); }
