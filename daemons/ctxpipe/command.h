/* The commands of `ctxpipe`: one table in main.c. Help, shell completion and the manual page are made from it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "ctxpipe/error.h"

#define CTXP_FLAGS_MAX 24

struct ctxp_flag {
  const char *name; /* long form, without dashes; NULL ends a table */
  char letter; /* short form, or 0 */
  const char *value; /* what its value is called in the help: FILE, N, ...; NULL: a switch */
  const char *help; /* one sentence */
};

struct ctxp_args;
struct ctxp_command {
  const char *name, *summary;
  const char *operands; /* as the usage line shows them: "FILE|DIR..."; "" for none */
  const char *details; /* a paragraph or more for --help; "" for none */
  const char *example; /* one line, as typed */
  const struct ctxp_flag *flags; /* --help is added to every command */
  unsigned operands_min, operands_max;
  int (*run)(const struct ctxp_args *args); /* the exit code: 0 only when it did what was asked, 2 for a wrong command line */
};

struct ctxp_args {
  const struct ctxp_command *command;
  const char *values[CTXP_FLAGS_MAX]; /* by place in the table of flags; "" for a switch; NULL: not given */
  const char *const *operands; /* NULL-terminated */
  unsigned operand_count;
};

/* Reads the words after the command's name. 0; -EINVAL with a sentence that names the next step. operands: borrows from argv,
 * which it reorders. */
int ctxp_args_read(const struct ctxp_command *command, int argc, char **argv, struct ctxp_args *ret_args, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* The value of a flag of the command's own table; NULL: not given. */
const char *ctxp_args_get(const struct ctxp_args *args, const char *flag);
bool ctxp_args_has(const struct ctxp_args *args, const char *flag);
/* A whole number from min to max; `missing` where it was not given. -EINVAL with a sentence. */
int ctxp_args_number(const struct ctxp_args *args, const char *flag, uint64_t min, uint64_t max, uint64_t missing, uint64_t *ret_number,
    struct ctxp_error *err) __attribute__((warn_unused_result));
/* One of `choices`; `missing` where it was not given. -EINVAL with a sentence that lists them. */
int ctxp_args_choice(const struct ctxp_args *args, const char *flag, const char *const *choices, int missing, int *ret_index,
    struct ctxp_error *err) __attribute__((warn_unused_result));
/* The nearest of the names, where it is near enough to be meant; else NULL. names: count structs of `stride` bytes that begin with the
 * name. */
const char *ctxp_args_suggest(const char *word, const void *names, size_t stride, unsigned count);

/* The text of `ctxpipe COMMAND --help`. */
void ctxp_command_help(const struct ctxp_command *command, struct ctxp_buf *out);
/* Prints "ctxpipe: SENTENCE" to standard error (control characters made visible) and returns the exit code: 1, what was asked could
 * not be done; */
int ctxp_command_fail(const struct ctxp_error *err);
/* 2, it could not be understood: the command line itself is wrong. */
int ctxp_command_misuse(const struct ctxp_error *err);

extern const struct ctxp_command *const ctxp_commands[]; /* NULL-terminated, in the order of the help */
const struct ctxp_command *ctxp_command_find(const char *name);
