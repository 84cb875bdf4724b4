/* Options of a stage: one table, from which parsing, `ctxpipe check`, `ctxpipe options` and the documentation come. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum ctxp_option_type {
  CTXP_OPTION_BOOL, /* bool */
  CTXP_OPTION_U64, /* uint64_t, min..max */
  CTXP_OPTION_STRING, /* const char * */
  CTXP_OPTION_ENUM, /* int: index into `choices` */
  CTXP_OPTION_PATH /* const char *: relative ones are under state_dir, `~` and ${VAR} are replaced, `..` may not leave it */
};

struct ctxp_option {
  const char *name; /* snake_case, with its unit; NULL ends the table */
  enum ctxp_option_type type;
  const char *initial; /* default, as one would write it; NULL: required */
  uint64_t min, max; /* U64 */
  const char *unit; /* tokens, bytes, ms, ... or "" */
  const char *help; /* one sentence */
  const char *const *choices; /* ENUM: NULL-terminated */
  size_t offset; /* in the stage's options struct */
};
