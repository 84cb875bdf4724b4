/* JSON: compact, as JavaScript prints it; keys and units as in event.def. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/error.h"
#include "ctxpipe/event.h"

void ctxp_json_str(struct ctxp_buf *out, struct ctxp_str text); /* quoted; bytes that are not UTF-8 become U+FFFD */
void ctxp_json_f64(struct ctxp_buf *out, double value); /* as JavaScript; what is not finite: null */
void ctxp_json_nano(struct ctxp_buf *out, int64_t nano); /* nano-dollars as decimal dollars, no trailing zeros */
/* One MessagePack value. A key that ends in "Nano" loses that and its number becomes dollars; timestamps become ISO 8601. */
int ctxp_json_from_raw(struct ctxp_raw raw, struct ctxp_buf *out) __attribute__((warn_unused_result));
/* One event as a log line without newline: {"ts","kind", then: of agents' events the window and the fields; of derived ones the
 * fields in the seed's order, then agent, session, thread and ctxpipe's own keys. seed_only: nothing of ctxpipe's own. */
int ctxp_json_from_event(const struct ctxp_event *event, bool seed_only, struct ctxp_buf *out) __attribute__((warn_unused_result));
/* JSON text to one MessagePack value: lone surrogates become U+FFFD, whole numbers from -2^63 to 2^64-1 stay whole. -EBADMSG
 * with what is wrong and at which byte. Depth at most CTXP_DEPTH_MAX. */
int ctxp_json_to_raw(struct ctxp_str text, struct ctxp_buf *out, struct ctxp_error *err) __attribute__((warn_unused_result));
/* One JSON line as events.md has it (ts ISO 8601, money in dollars) to an event body for ctxp_event_decode. -EBADMSG. */
int ctxp_json_to_event(struct ctxp_str line, struct ctxp_buf *out_body, struct ctxp_error *err) __attribute__((warn_unused_result));
