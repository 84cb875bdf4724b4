/* JSON on long lines, laid out: what is small stays on a line of its own, what is not goes on lines below, so that the digest sees
 * records of one shape, and an error as a line among them. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

/* Appends the text laid out. 1: it is none of JSON's, or its lines are short already; out is unchanged. -ENOMEM. Every character but
 * white space between values is kept, in its order. */
int ctxp_digest_json(struct ctxp_str text, struct ctxp_buf *out) __attribute__((warn_unused_result));
