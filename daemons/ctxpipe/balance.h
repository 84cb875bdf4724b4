/* The balance of each view and tool, for people. */
#pragma once
#include "ctxpipe/event.h"
#include "ctxpipe/table.h"

/* balance: of the fold's answer to {what: "spend"}. empty: say so where there is nothing; else nothing is printed. -ENOMEM. */
int ctxp_balance_print(struct ctxp_raw balance, bool empty, const struct ctxp_style *style, struct ctxp_buf *out)
    __attribute__((warn_unused_result));
