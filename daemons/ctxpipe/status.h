/* How a pipeline is, for people. */
#pragma once
#include "ctxpipe/event.h"
#include "ctxpipe/table.h"

/* status: {nodes: [...], agents: [...]}, as `status --json` has them. -EBADMSG: not such a value. */
int ctxp_status_print(struct ctxp_raw status, const struct ctxp_style *style, struct ctxp_buf *out) __attribute__((warn_unused_result));
