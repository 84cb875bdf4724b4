/* Calls of chat endpoints, asynchronous in the one thread of their node: libcurl's multi interface, whose sockets are behind one
 * descriptor that the node's loop waits for.
 *
 * A call ends once: by a complete reply, by a failure, or at its deadline, whatever the other side does. At most
 * CTXP_MODEL_REPLY_MAX bytes of a reply are taken; no redirect is followed; nothing but http and https is spoken. The API key is
 * read from its place when the call is made, and is in no sentence. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/error.h"
#include "ctxpipe/stage.h"

#define CTXP_MODEL_REPLY_MAX (1u << 20)

struct ctxp_model;
/* NULL with a sentence: out of memory or descriptors, or no libcurl. */
struct ctxp_model *ctxp_model_new(struct ctxp_error *err);
struct ctxp_model *ctxp_model_free(struct ctxp_model *model); /* what is under way is dropped */

/* Starts a call that ends at deadline_ms (ctxp_clock_ms) at the latest. What the call holds is copied. What cannot even be started
 * ends as failed; -ENOMEM. */
int ctxp_model_start(struct ctxp_model *model, uint64_t id, const struct ctxp_model_call *call, uint64_t now_ms, uint64_t deadline_ms)
    __attribute__((warn_unused_result));
int ctxp_model_fd(const struct ctxp_model *model); /* readable: call `work` */
/* Does what is at hand without waiting; returns when it is to be called again at the latest. */
uint64_t ctxp_model_work(struct ctxp_model *model, uint64_t now_ms);
/* The next call that has ended, borrowed until the next call of `take`; false: none. */
bool ctxp_model_take(struct ctxp_model *model, uint64_t *ret_id, struct ctxp_model_reply *ret_reply);
/* What a call costs of which nothing was reported. */
uint64_t ctxp_model_input_estimate(const struct ctxp_model_call *call);
