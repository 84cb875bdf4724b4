/* Faults of the files that a person writes: one line each, with its place, in the order of the file.
 *
 *   FILE:LINE:COLUMN: node 'NAME': what is wrong; what would be right
 *
 * A reader goes on after a fault, so that one run shows them all. */
#pragma once
#include "base/buf.h"

struct ctxp_place { /* from 1; line 0: the file as a whole */
  unsigned line, column;
};
struct ctxp_fault_line {
  struct ctxp_place place;
  char *text;
};
struct ctxp_faults {
  const char *file; /* as the person named it; borrowed */
  const char *noun; /* what `node` names; NULL: a node */
  struct ctxp_str node; /* whose part is being read; empty: none */
  struct ctxp_fault_line *lines;
  size_t count, cap, more; /* more: beyond the bound, only counted */
  bool failed; /* out of memory */
};

void ctxp_faults_add(struct ctxp_faults *faults, struct ctxp_place place, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Appends the lines in the order of their places; equal places in the order of finding. */
void ctxp_faults_write(struct ctxp_faults *faults, struct ctxp_buf *out);
/* 0: none; -EINVAL: there are some; -ENOMEM */
int ctxp_faults_error(const struct ctxp_faults *faults) __attribute__((warn_unused_result));
void ctxp_faults_deinit(struct ctxp_faults *faults);

/* A text from outside for use within a sentence: control characters shown as ?, a long one cut. ctxp_shown(text).text lives to
 * the end of the statement. */
struct ctxp_shown {
  char text[84];
};
struct ctxp_shown ctxp_shown(struct ctxp_str text);

/* The end of a sentence about an unknown name: "; did you mean 'x'?", or, where nothing is near, "; LEAD: a, b, c".
 * names: NULL-terminated. */
struct ctxp_hint {
  char text[400];
};
struct ctxp_hint ctxp_hint(struct ctxp_str name, const char *const *names, const char *lead);
/* The nearest of the names by edits (insert, delete, replace, swap of neighbours), or NULL: none is near enough. */
const char *ctxp_nearest(struct ctxp_str name, const char *const *names);
