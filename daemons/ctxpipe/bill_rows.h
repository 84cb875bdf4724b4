/* Rows of one grain of the fold's answer to {what: "spend"}, read for a table or for CSV. */
#pragma once
#include "ctxpipe/bill.h"

struct ctxp_bill_row {
  struct ctxp_raw map; /* as the fold packed it; len 0: the row of the others */
  uint64_t billed, own, turns; /* of requests: own is their output, turns their number */
  uint64_t cost; /* in nano-dollars */
  uint64_t share, shown; /* of all billed tokens in tenths of a percent; cost in units of CTXP_COST_UNIT: rounded so that all rows of the
                            grain add up, in the fold's order, so that a row shows the same figure in every table that has it */
  uint64_t error; /* tokens that billed may be off */
  bool priced, partly; /* partly: some of its requests have no price */
  bool has_error;
  unsigned place; /* as the fold ranked it; of the others: how many they are */
};
#define CTXP_COST_DECIMALS 4
#define CTXP_COST_UNIT 100000 /* nano-dollars of the last decimal */

/* Reads, rounds and sorts; one row more than *ret_count is allocated. The caller frees. -EBADMSG: the reply has no such rows. */
int ctxp_bill_rows_read(struct ctxp_raw reply, enum ctxp_grain grain, enum ctxp_bill_sort sort, struct ctxp_bill_row **ret_rows,
    unsigned *ret_count) __attribute__((warn_unused_result));
/* The rows from `top` on become one; returns how many there are then. */
unsigned ctxp_bill_rows_fold(struct ctxp_bill_row *rows, unsigned count, uint64_t top);
/* The figure that the rows are ordered by, for their bars: cost only where all that is billed has a price, names by cost. */
uint64_t ctxp_bill_row_weight(const struct ctxp_bill_row *row, enum ctxp_bill_sort sort, bool by_cost);
/* Is the cost of every row with tokens known? */
bool ctxp_bill_rows_priced(const struct ctxp_bill_row *rows, unsigned count);
/* What a row is called; a band by its wire name. */
struct ctxp_str ctxp_bill_row_name(const struct ctxp_bill_row *row, enum ctxp_grain grain);
