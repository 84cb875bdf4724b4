/* The line that says how far an import is: a pure function of the figures. */
#pragma once
#include "ctxpipe/table.h"
#include "feeders/feeder.h"

void ctxp_progress_line(
    const struct ctxp_import_progress *progress, uint64_t elapsed_ms, const struct ctxp_style *style, struct ctxp_buf *out);

/* Shows it on standard error: one line that is drawn again on a terminal, else a line every two seconds. */
struct ctxp_progress {
  struct ctxp_style style;
  uint64_t begun_ms, shown_ms;
  bool drawn;
};
void ctxp_progress_begin(struct ctxp_progress *p);
void ctxp_progress_show(void *p, const struct ctxp_import_progress *progress); /* ctxp_import_options.progress */
void ctxp_progress_end(struct ctxp_progress *p);
