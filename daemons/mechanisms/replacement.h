/* What takes a shell output's place: the digest by rules, a model's, or the output's tail. */
#pragma once
#include "base/buf.h"
#include "base/str.h"
#include "ctxpipe/stage.h"
#include "mechanisms/engine.h"

enum ctxp_bash_errors { CTXP_ERRORS_KEEP,
  CTXP_ERRORS_DIGEST };
struct ctxp_bash_options {
  struct ctxp_engine engine;
  uint64_t min_tokens, max_summary_tokens, fallback_bytes, max_output_chars;
  int errors;
};
/* the options that ask for what the seed does, to the letter */
bool ctxp_bash_as_seed(const struct ctxp_bash_options *options);

struct ctxp_replacement {
  struct ctxp_buf text;
  uint64_t original_tokens, tokens;
  bool fallback;
  const char *why; /* the content stays */
  const char *by; /* engine */
  struct ctxp_str note; /* why the model had no part in it */
};
/* Of `text`, the cleaned output of the result; original_tokens is set by the caller, `tokens` is for the caller too. */
int ctxp_replacement_by_rules(const struct ctxp_tool_result *result, struct ctxp_str text, const struct ctxp_bash_options *options,
    struct ctxp_replacement *new) __attribute__((warn_unused_result));
int ctxp_replacement_by_model(const struct ctxp_tool_result *result, struct ctxp_str text, const struct ctxp_model_reply *reply,
    const struct ctxp_bash_options *options, struct ctxp_replacement *new) __attribute__((warn_unused_result));
