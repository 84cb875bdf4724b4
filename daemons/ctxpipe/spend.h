/* What `spend` and `report` share: the same flags, the same query, the same output. */
#pragma once
#include "ctxpipe/bill.h"
#include "ctxpipe/command.h"

#define CTXP_SPEND_FLAGS \
  {.name = "by", \
      .value = "GRAIN", \
      .help = "only one table: band, view, tool or message; or day, project, model, agent or session"}, \
      {.name = "since", .value = "WHEN", .help = "only requests from then on: 7d, 12h, 2026-11-30, 2026-11-30T08:00"}, \
      {.name = "model", .value = "NAME", .help = "only requests to this model"}, \
      {.name = "agent", .value = "NAME", .help = "only this agent"}, {.name = "session", .value = "ID", .help = "only this session"}, \
      {.name = "sort", .value = "BY", .help = "order of the tables: cost (default), billed, own, turns or name"}, \
      {.name = "top", .letter = 'n', .value = "N", .help = "rows of each table (default 20); with --json: only so many, else all"}, \
      {.name = "explain", \
          .value = "NAME", \
          .help = "every request that billed a message, view or tool (message:NAME, view:NAME, tool:NAME to tell them apart)"}, \
      {.name = "balance", .help = "only what mechanisms kept out of each view and tool, less what that cost"}, \
      {.name = "csv", .help = "print the rows of --by (default view) as CSV, complete"}, { \
    .name = "json", .help = "print one JSON object, complete; with --by message, day, project, model or agent it has their rows too" \
  }

/* how the tables are to be read, for the help of each command that prints them */
#define CTXP_SPEND_READ \
  "'share' is a row's part of all billed tokens, not of the cost. Rows are ordered by cost where they have a price, then by billed\n" \
  "tokens. '+-' is how far 'billed' may be off. A cost with '>' is that of the priced part alone. Days are those of the local time\n" \
  "zone (TZ). By day, project, model, agent and session the cost is that of input and output, elsewhere of the input."

struct ctxp_spend_choice {
  const char *session, *agent, *model; /* NULL: all */
  const char *explain; /* NULL: the bill */
  uint64_t since_ms; /* 0: all */
  struct ctxp_bill_options bill;
  bool json, csv, limited; /* limited: --top was given */
};
int ctxp_spend_choose(const struct ctxp_args *args, struct ctxp_spend_choice *ret_choice, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* The fold's query. */
void ctxp_spend_query(const struct ctxp_spend_choice *choice, struct ctxp_buf *out);
/* Prints the fold's reply to standard output. passed_over: {0} for none of an importer. */
int ctxp_spend_show(const struct ctxp_spend_choice *choice, struct ctxp_raw reply, const struct ctxp_buf *passed_over,
    struct ctxp_error *err) __attribute__((warn_unused_result));
