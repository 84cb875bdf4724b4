/* The digest of a shell output by rules: what must survive, and as much of the rest as the budget allows, in source order, with
 * what was left out marked in source lines. Deterministic, linear in the text, and bounded in memory by the limits. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

struct ctxp_digest_limits { /* UTF-16 units of the whole digest */
  size_t soft; /* the aim: lines that need not survive are shown only below it */
  size_t firm; /* lines that must survive are shown each by itself only below it, above it same-shaped ones are folded into one */
  size_t hard; /* what the lines that must survive may take when all that can be folded is */
};
struct ctxp_digest {
  uint64_t lines; /* of the source */
  size_t first_must; /* offset of the first line that must survive; SIZE_MAX: there is none */
};

/* Appends the digest of `text` to out; `head` is its first line. 1: what must survive does not fit into the hard limit, even with
 * same-shaped lines folded into one; out is unchanged, *ret_digest is set. -ENOMEM. */
int ctxp_digest_make(struct ctxp_str text, struct ctxp_str head, struct ctxp_digest_limits limits, struct ctxp_buf *out,
    struct ctxp_digest *ret_digest) __attribute__((warn_unused_result));
