/* One line of fact about a written file: [Wrote PATH — WHAT, ~N lines]. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

#define CTXP_FACT_UNITS 220 /* UTF-16 units that a fact may have */

/* What a file says of itself in its first 2000 units: docstring, comment or signature; empty: nothing. Borrowed from content. */
struct ctxp_str ctxp_fact_describe(struct ctxp_str content);
/* The same taken out of a model's reply; empty: it says nothing. Borrowed from `room` (reset before), which fails where memory does. */
struct ctxp_str ctxp_fact_from_reply(struct ctxp_str reply, struct ctxp_str path, struct ctxp_buf *room);
/* A fact is one line: appends s, white space and control characters as single blanks. */
void ctxp_fact_one_line(struct ctxp_str s, struct ctxp_buf *out);
/* The fact about `content` written to `path`, one line of at most CTXP_FACT_UNITS. WHAT may be empty. */
void ctxp_fact_line(struct ctxp_str path, struct ctxp_str what, struct ctxp_str content, struct ctxp_buf *out);
