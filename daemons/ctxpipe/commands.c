/* The table of commands, in the order of the help. */
#include <string.h>
#include "ctxpipe/commands.h"

const struct ctxp_command *const ctxp_commands[] = {
    &ctxp_cmd_report,
    &ctxp_cmd_up,
    &ctxp_cmd_down,
    &ctxp_cmd_status,
    &ctxp_cmd_stats,
    &ctxp_cmd_spend,
    &ctxp_cmd_import,
    &ctxp_cmd_watch,
    &ctxp_cmd_send,
    &ctxp_cmd_tail,
    &ctxp_cmd_show,
    &ctxp_cmd_logs,
    &ctxp_cmd_replay,
    &ctxp_cmd_check,
    &ctxp_cmd_graph,
    &ctxp_cmd_options,
    &ctxp_cmd_prices,
    &ctxp_cmd_keys,
    &ctxp_cmd_completion,
    &ctxp_cmd_help,
    NULL,
};

const struct ctxp_command *ctxp_command_find(const char *name) {
  for (const struct ctxp_command *const *c = ctxp_commands; *c; c++)
    if (strcmp((*c)->name, name) == 0) return *c;
  return NULL;
}
