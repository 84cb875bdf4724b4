/* What `import` and `report` share: the importer with its flags, its progress on standard error and its complaints. */
#pragma once
#include "ctxpipe/command.h"
#include "ctxpipe/private.h"
#include "ctxpipe/progress.h"

#define CTXP_IMPORTING_FORMAT \
  { .name = "format", .value = "NAME", .help = "read every file as this format instead of by its content: " CTXP_FORMAT_NAMES }

#define CTXP_IMPORTING_FLAGS \
  {.name = "agent", .value = "NAME", .help = "the agent that the sessions are booked on (default: the product's name)"}, \
      CTXP_IMPORTING_FORMAT

/* Is --format one that there is? -EINVAL with a sentence. */
int ctxp_importing_choose(const struct ctxp_args *args, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Is any operand there, before anything is started for them? Those that are not are the importer's to name. */
int ctxp_importing_check(const struct ctxp_args *args, struct ctxp_error *err) __attribute__((warn_unused_result));
/* The operands are the files and folders; agent: what the sessions are booked on, NULL: the product's name; private: the pipeline that
 * nobody else asks, or NULL. -ENOENT with a sentence: there is no transcript in them. 0 with no file read: those there are have faults,
 * which are left to complain of.
 */
int ctxp_importing(const struct ctxp_args *args, const char *agent, const char *endpoint, const struct ctxp_private *private,
    struct ctxp_import_result *ret_result, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Prints what could not be read, in whole or in part, or was refused, to standard error. true: there was nothing to complain of. */
bool ctxp_importing_complain(const struct ctxp_import_result *result);
