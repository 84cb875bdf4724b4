/* The table of one grain. */
#pragma once
#include "ctxpipe/bill_rows.h"

/* Bands, views, tools or messages. -EBADMSG, -ENOMEM. */
int ctxp_bill_material(struct ctxp_raw reply, enum ctxp_grain grain, const struct ctxp_bill_options *options,
    const struct ctxp_style *style, struct ctxp_buf *out) __attribute__((warn_unused_result));
/* Days, projects, models or agents. */
int ctxp_bill_groups(struct ctxp_raw reply, enum ctxp_grain grain, const struct ctxp_bill_options *options,
    const struct ctxp_style *style, struct ctxp_buf *out) __attribute__((warn_unused_result));
/* Sessions, each with its sub-agents below the thread that spawned them. */
int ctxp_bill_sessions(struct ctxp_raw reply, const struct ctxp_bill_options *options, const struct ctxp_style *style, struct ctxp_buf *out)
    __attribute__((warn_unused_result));

/* ---- cells that all of them have ---- */
void ctxp_bill_put_heading(struct ctxp_buf *out, const struct ctxp_style *style, const char *text, const struct ctxp_bill_options *options,
    unsigned count);
void ctxp_bill_cell_cost(struct ctxp_table *table, const struct ctxp_bill_row *row); /* $1.2345; >$1.2345: a part has no price; -: all */
void ctxp_bill_cell_share(struct ctxp_table *table, uint64_t tenths);
/* "cost: of what has a price alone", where the whole bill does not say it. */
void ctxp_bill_put_incomplete(struct ctxp_raw reply, const struct ctxp_bill_row *rows, unsigned count, struct ctxp_buf *out);
