/* A registry like the real one, with the options that the tests of the reader need. */
#pragma once
#include "ctxpipe/stage.h"

extern const struct ctxp_stage_ops *const fake_registry[];

struct fake_bash_options {
  uint64_t min_tokens;
  int engine;
  bool keep_errors;
  const char *url, *key_file;
};
struct fake_log_options {
  const char *path;
  uint64_t rotate_bytes;
};
