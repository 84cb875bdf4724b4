/* The savings, for people: what the fold answers to {what: "stats"}. */
#pragma once
#include "ctxpipe/event.h"
#include "ctxpipe/table.h"

/* ctxwm saved 12.7k tok (bash 12.7k · amnesia 0 · lazy 877 · write 0) */
void ctxp_savings_line(struct ctxp_raw cumulative, struct ctxp_buf *out);
/* {bash: {saved, of}, ...} as a table of its own heading; nothing where it is absent. */
int ctxp_savings_potential(struct ctxp_raw potential, const struct ctxp_style *style, struct ctxp_buf *out)
    __attribute__((warn_unused_result));
/* The whole reply: the line, all sessions' sums, the last turn where it is one session, one row a session, what could be saved. */
int ctxp_savings_print(struct ctxp_raw reply, bool potential, const struct ctxp_style *style, struct ctxp_buf *out)
    __attribute__((warn_unused_result));
