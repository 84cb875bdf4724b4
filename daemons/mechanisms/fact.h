/* One line of fact about a written file: [Wrote PATH — WHAT, ~N lines]. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

#define CTXP_FACT_UNITS 220 /* UTF-16 units that a fact may have */

/* What a file says of itself in its first 2000 units: docstring, comment or signature; empty: nothing. Borrowed from content. */
struct ctxp_str ctxp_fact_describe(struct ctxp_str content);
/* The fact about `content` written to `path`, one line of at most CTXP_FACT_UNITS. WHAT may be empty. */
void ctxp_fact_line(struct ctxp_str path, struct ctxp_str what, struct ctxp_str content, struct ctxp_buf *out);
