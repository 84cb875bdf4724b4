/* The table of commands, in the order of the help. */
#include <string.h>
#include "ctxpipe/commands.h"

const struct ctxp_command *const ctxp_commands[] = {
  &ctxp_cmd_completion, &ctxp_cmd_help, NULL,
};

const struct ctxp_command *ctxp_command_find(const char *name) {
  for (const struct ctxp_command *const *c = ctxp_commands; *c; c++)
    if (strcmp((*c)->name, name) == 0) return *c;
  return NULL;
}
