/* Times as people say them, in the local time zone (TZ). */
#pragma once
#include "base/buf.h"
#include "ctxpipe/error.h"

/* A time of `--since`: how long before now (30m, 12h, 7d, 2w), a local day (2026-11-30: from its midnight), a local time
 * (2026-11-30T08:00), or a time with its zone (2026-11-30T08:00:00Z). -EINVAL with a sentence; command: for the sentence. */
int ctxp_when(const char *text, const char *command, uint64_t now_ms, uint64_t *ret_utc_ms, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Appends [[from (ms), seconds east of UTC], ...] of the zone's changes in the years before now and the one after it, packed. */
void ctxp_when_offsets(uint64_t now_ms, struct ctxp_buf *out);
/* "2026-11-30 08:00 CET" */
void ctxp_put_local(struct ctxp_buf *out, uint64_t utc_ms);
void ctxp_put_local_short(struct ctxp_buf *out, uint64_t utc_ms); /* "11-30 08:00" */
/* "CET, UTC+01:00": the zone as it is at that time; "UTC" */
void ctxp_put_zone(struct ctxp_buf *out, uint64_t utc_ms);
