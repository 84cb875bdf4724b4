/* Rows of one grain of the fold's answer to {what: "spend"}, read for a table or for CSV. */
#pragma once
#include "ctxpipe/bill.h"

struct ctxp_bill_row {
  struct ctxp_raw map; /* as the fold packed it; len 0: the row of the others */
  uint64_t billed, own, turns, share, cost; /* cost in nano-dollars; share and, in tables, cost are rounded with the other rows' */
  bool priced;
  unsigned place; /* as the fold ranked it; of the others: how many they are */
};
/* Reads and sorts; one row more than *ret_count is allocated. The caller frees. -EBADMSG: the reply has no such rows. */
int ctxp_bill_rows_read(struct ctxp_raw reply, enum ctxp_grain grain, enum ctxp_bill_sort sort, struct ctxp_bill_row **ret_rows,
    unsigned *ret_count) __attribute__((warn_unused_result));
/* What a row is called; a band by its wire name. */
struct ctxp_str ctxp_bill_row_name(const struct ctxp_bill_row *row, enum ctxp_grain grain);
