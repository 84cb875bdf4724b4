/* The lines of a shell output as a terminal would leave them: escape sequences and control characters gone, what a carriage
 * return overwrote told apart from what stayed. One pass, in linear time, whatever the bytes are. */
#pragma once
#include "base/buf.h"
#include "base/str.h"
#include "mechanisms/digest_rules.h"

enum { CTXP_LETTERS = 27 };
struct ctxp_matcher { /* where the phrases of each letter begin; made once for a digest */
  uint16_t from[CTXP_LETTERS + 1];
};
void ctxp_matcher_init(struct ctxp_matcher *matcher);

struct ctxp_line {
  struct ctxp_str text; /* as shown; borrowed until the next call */
  uint64_t number; /* of the source line, from 1 */
  size_t offset, len; /* the piece of the source that it came from */
  bool overwritten; /* a carriage return and more text came after it in the same source line */
};
struct ctxp_lines { /* a reader */
  struct ctxp_str source;
  size_t at, newline; /* newline: where the line at `at` ends; not above `at`: not looked for yet */
  uint64_t number;
  struct ctxp_buf shown;
};
void ctxp_digest_lines_init(struct ctxp_lines *lines, struct ctxp_str source);
/* 1: read; 0: at the end; -ENOMEM */
int ctxp_digest_lines_next(struct ctxp_lines *lines, struct ctxp_line *ret_line);
void ctxp_digest_lines_deinit(struct ctxp_lines *lines);

enum ctxp_line_class ctxp_line_classify(const struct ctxp_matcher *matcher, struct ctxp_str line);
/* A unified diff says how many lines its hunk quotes: what they say is not said by the command. */
struct ctxp_hunk {
  uint64_t old_left, new_left;
};
/* Is the line inside of a hunk? Takes note of a hunk's head; call it for every line, in order. */
bool ctxp_hunk_quotes(struct ctxp_hunk *hunk, struct ctxp_str line);
/* Equal for lines that differ in numbers, addresses, paths, names with colons, [tags], quoted texts and blanks only (digest_shape.c). */
uint64_t ctxp_line_shape(struct ctxp_str line);
