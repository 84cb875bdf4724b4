/* A shell output made ready to be replaced: nothing in it points back at the bytes that will be gone. And the plain cut, its tail. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

/* The agent's own notes about a longer output elsewhere lose their paths; whole: those that say which lines are shown go whole, as the
 * seed has it, else they keep that. *ret_text is `text` itself where there were none, else
 * borrowed from `room`. -ENOMEM. */
int ctxp_clean_output(struct ctxp_str text, bool whole, struct ctxp_buf *room, struct ctxp_str *ret_text)
    __attribute__((warn_unused_result));

struct ctxp_tail {
  struct ctxp_str content; /* borrowed from the text */
  uint64_t lines, total_lines;
};
/* The last lines of the text, at most max_lines and max_bytes; of a last line that is longer its end, from a whole character on.
 * A text within both limits is returned as it is. */
struct ctxp_tail ctxp_output_tail(struct ctxp_str text, uint64_t max_lines, uint64_t max_bytes);
