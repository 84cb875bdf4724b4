/* Token estimates. The ledger's unit is chars4: ceil(n / 4), n in UTF-16 code units, as JavaScript counts. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

struct ctxp_json;

static inline uint64_t ctxp_chars4(uint64_t units) { return (units + 3) / 4; }
static inline uint64_t ctxp_estimate_text(struct ctxp_str text) { return ctxp_chars4(ctxp_utf16_units(text)); }

/* Estimate of a whole message, the value `message` of a JSON text that was read: {role, content} as pi writes it, or {role, text} or
 * {role, blocks: [{text}, {thinking}, {image}, {call: {name, arguments}}]}. One rounding for the message; an image counts 4800
 * units, a call its name and its arguments as compact JSON. */
uint64_t ctxp_estimate_message(struct ctxp_json *json, uint32_t message);
/* For people: 999, 1.0k, 12.7k: from 1000 up in thousands with one decimal, as JavaScript's toFixed(1) rounds. */
void ctxp_tokens_short(struct ctxp_buf *out, uint64_t tokens);
