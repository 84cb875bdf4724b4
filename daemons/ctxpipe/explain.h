/* One row explained, for people: what the fold answers to {what: "explain"}. */
#pragma once
#include "ctxpipe/table.h"
#include "ctxpipe/event.h"

/* top: requests of each window that are shown, the rest is one line; 0: all. -EBADMSG: not such a reply. */
int ctxp_explain_print(struct ctxp_raw reply, uint64_t top, const struct ctxp_style *style, struct ctxp_buf *out)
    __attribute__((warn_unused_result));
