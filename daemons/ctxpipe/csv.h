#pragma once
#include "ctxpipe/bill.h"

/* The rows of one grain (of none: views), with a header. -EBADMSG: not a reply to {what: "spend"}. */
int ctxp_csv_print(struct ctxp_raw reply, const struct ctxp_bill_options *options, struct ctxp_buf *out)
    __attribute__((warn_unused_result));
