/* A model's digest of a shell output, held to the guarantees: what must survive is added from the source itself, the exit code
 * comes from the event, and a verdict of the model's own is left out. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

/* Appends the digest to out. exit_note: what the event says of the exit, or empty. hard: UTF-16 units that the added lines may
 * take. 1: nothing of the reply is left, and nothing must survive; 2: what must survive does not fit. -ENOMEM. */
int ctxp_digest_reply(struct ctxp_str source, struct ctxp_str reply, struct ctxp_str exit_note, size_t hard, struct ctxp_buf *out)
    __attribute__((warn_unused_result));
