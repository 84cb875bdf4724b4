/* The lines that a digest shows: what they and the marks between them take, and their text. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

enum ctxp_rank {
  CTXP_RANK_END, /* the last line of all: many a tool's verdict */
  CTXP_RANK_LAST,
  CTXP_RANK_FIRST,
  CTXP_RANK_CONTEXT,
  CTXP_RANK_TOTAL,
  CTXP_RANK_WARNING,
  CTXP_RANK_TAIL,
  CTXP_RANK_HEAD,
  CTXP_RANK_KIND,
  CTXP_RANK_NOISE,
  CTXP_RANK_REPEAT /* of the shape of the line above it */
};

struct ctxp_pick {
  size_t offset, len, units; /* units: as it will be shown, its newline included */
  uint64_t line, shape;
  enum ctxp_rank rank;
  bool must;
  size_t owner; /* of context: offset of the line that it belongs to */
  uint64_t count, last_line; /* of the lines folded into this one; count 1: none */
};
struct ctxp_picks {
  struct ctxp_pick *at;
  size_t count, cap;
};

struct ctxp_outline { /* of the source, and how it is shown */
  struct ctxp_str text;
  uint64_t lines;
  bool compact; /* gaps are marked by their lines' number alone */
};

/* Units that a line of so many takes when it need not survive: longer ones are cut. */
size_t ctxp_pick_units(size_t units);
/* Most UTF-16 units that the picks, in the order of the text, take with their marks. */
size_t ctxp_picks_cost(const struct ctxp_outline *outline, const struct ctxp_picks *picks);
/* Appends them, a newline after each line. */
int ctxp_picks_write(const struct ctxp_outline *outline, const struct ctxp_picks *picks, struct ctxp_buf *out)
    __attribute__((warn_unused_result));
