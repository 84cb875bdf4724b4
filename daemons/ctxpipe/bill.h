/* The bill, for people: what the fold answers to {what: "spend"} as tables. */
#pragma once
#include "ctxpipe/error.h"
#include "ctxpipe/event.h"
#include "ctxpipe/table.h"

enum ctxp_grain { CTXP_GRAIN_BAND,
  CTXP_GRAIN_VIEW,
  CTXP_GRAIN_TOOL,
  CTXP_GRAIN_MESSAGE,
  CTXP_GRAIN_DAY, /* from here on: not what was in the requests, but the requests themselves */
  CTXP_GRAIN_PROJECT,
  CTXP_GRAIN_MODEL,
  CTXP_GRAIN_AGENT,
  CTXP_GRAIN_SESSION,
  CTXP_GRAINS };
extern const char *const ctxp_grain_names[]; /* as --by takes them; NULL-terminated */

enum ctxp_bill_sort { CTXP_SORT_RANK, /* as the fold ranks: by cost, then by billed tokens; days in their order */
  CTXP_SORT_COST,
  CTXP_SORT_BILLED,
  CTXP_SORT_OWN,
  CTXP_SORT_TURNS,
  CTXP_SORT_NAME };
extern const char *const ctxp_bill_sort_names[]; /* as --sort takes them, from CTXP_SORT_COST on; NULL-terminated */

struct ctxp_bill_options {
  enum ctxp_bill_sort sort;
  int grain; /* one of enum ctxp_grain; -1: band, view and tool */
  uint64_t top; /* rows of a grain; the rest is one row, so that every table adds up */
  bool balance; /* that alone */
  uint64_t now_ms; /* for the zone of days */
};
/* reply: a checked MessagePack map. passed_over: an array of {file, kind, count}; {0}: none. -EBADMSG: not such a reply. */
int ctxp_bill_print(struct ctxp_raw reply, struct ctxp_raw passed_over, const struct ctxp_bill_options *options,
    const struct ctxp_style *style, struct ctxp_buf *out) __attribute__((warn_unused_result));
