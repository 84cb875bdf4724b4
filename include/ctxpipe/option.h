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

/* Rows of a table, of a member of the stage's options struct `whole` that has the option's name. */
#define CTXP_NUMBER_OPTION(whole, member, by_default, least, most, in_units, says) \
  { .name = #member, \
    .type = CTXP_OPTION_U64, \
    .initial = by_default, \
    .min = least, \
    .max = most, \
    .unit = in_units, \
    .help = says, \
    .offset = offsetof(whole, member) }
#define CTXP_CHOICE_OPTION(whole, member, by_default, list, says) \
  { .name = #member, .type = CTXP_OPTION_ENUM, .initial = by_default, .unit = "", .help = says, .choices = list, .offset = offsetof(whole, member) }
#define CTXP_BOOL_OPTION(whole, member, by_default, says) \
  { .name = #member, .type = CTXP_OPTION_BOOL, .initial = by_default, .unit = "", .help = says, .offset = offsetof(whole, member) }
