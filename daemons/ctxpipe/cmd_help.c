#include <stdio.h>
#include "ctxpipe/commands.h"

static void list(struct ctxp_buf *out) {
  ctxp_buf_str(out, "ctxpipe: what could be kept out of a coding agent's context window, and which material drove the bill\n\n"
                    "Usage: ctxpipe COMMAND [OPTIONS] [...]\n\nCommands:\n");
  for (const struct ctxp_command *const *c = ctxp_commands; *c; c++) ctxp_buf_printf(out, "  %-12s %s\n", (*c)->name, (*c)->summary);
  ctxp_buf_str(out, "\n'ctxpipe COMMAND --help' explains one, with an example. 'ctxpipe --version' prints the version.\n");
}

static int run(const struct ctxp_args *args) {
  ctxp_auto_buf text = {0};
  if (args->operand_count == 0) {
    list(&text);
  } else {
    const struct ctxp_command *command = ctxp_command_find(args->operands[0]);
    struct ctxp_error err;
    if (!command) {
      ctxp_error_set(&err, -1, "there is no command '%s'; 'ctxpipe help' lists the commands", args->operands[0]);
      return ctxp_command_misuse(&err);
    }
    ctxp_command_help(command, &text);
  }
  fwrite(text.ptr, 1, text.len, stdout);
  return 0;
}

const struct ctxp_command ctxp_cmd_help = {
    .name = "help",
    .summary = "list the commands, or explain one",
    .operands = "[COMMAND]",
    .details = "",
    .example = "ctxpipe help report",
    .operands_max = 1,
    .run = run,
};
