/* The number of the event that a node has in hand, in a page that is shared with the file RUN_DIR/NODE.event: it outlives the
 * process, so that whoever finds it dead knows at which event it died. */
#pragma once
#include <stdint.h>
#include "ctxpipe/error.h"

/* The place of the number, 0 at first. */
int ctxp_mark_open(const char *run_dir, const char *node, volatile uint64_t **ret_mark, struct ctxp_error *err) __attribute__((warn_unused_result));
void ctxp_mark_close(volatile uint64_t *mark); /* NULL too */
/* What a node left behind; 0: nothing in hand, or no such file. */
uint64_t ctxp_mark_read(const char *run_dir, const char *node);
