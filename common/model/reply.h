/* What a chat endpoint answered: one JSON object, or the lines of a stream. Hostile until read: bounded by the caller, and nothing
 * of it is used unless it is whole. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/stage.h"

struct ctxp_model_answer {
  bool good; /* finished with `stop`, and not blank */
  const char *why; /* unless good; static */
  bool has_input, has_output; /* reported */
  uint64_t input_tokens, output_tokens;
  uint64_t text_tokens; /* estimate of its text, also of one that is of no use: it was written and is paid for */
};
/* Reads a body. `text` (reset) gets the reply's text, trimmed. -ENOMEM. */
int ctxp_model_read(struct ctxp_str body, struct ctxp_buf *text, struct ctxp_model_answer *ret) __attribute__((warn_unused_result));
/* The request's body. */
void ctxp_model_write(struct ctxp_buf *out, const struct ctxp_model_call *call);
