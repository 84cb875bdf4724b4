/* The script that completes commands, options and files, made from the table. */
#include <stdio.h>
#include <string.h>
#include "ctxpipe/commands.h"

static void options_of(const struct ctxp_command *command, struct ctxp_buf *out) {
  for (const struct ctxp_flag *flag = command->flags; flag && flag->name; flag++) ctxp_buf_printf(out, "--%s ", flag->name);
  ctxp_buf_str(out, "--help");
}

static void commands(struct ctxp_buf *out) {
  for (const struct ctxp_command *const *c = ctxp_commands; *c; c++) ctxp_buf_printf(out, "%s ", (*c)->name);
}

static int run(const struct ctxp_args *args) {
  struct ctxp_error err;
  ctxp_auto_buf out = {0};
  if (strcmp(args->operands[0], "bash") != 0) {
    ctxp_error_set(&err, -1, "completion: there is no script for '%s'; use 'ctxpipe completion bash'", args->operands[0]);
    return ctxp_command_misuse(&err);
  }
  ctxp_buf_str(&out, "# bash completion for ctxpipe; load it with: source <(ctxpipe completion bash)\n_ctxpipe() {\n"
                     "  local word=${COMP_WORDS[COMP_CWORD]} words\n"
                     "  if ((COMP_CWORD == 1)); then\n    words='");
  commands(&out);
  ctxp_buf_str(&out, "--help --version'\n  else\n    case ${COMP_WORDS[1]} in\n");
  for (const struct ctxp_command *const *c = ctxp_commands; *c; c++) {
    ctxp_buf_printf(&out, "    %s) words='", (*c)->name);
    if (strcmp((*c)->name, "help") == 0)
      commands(&out);
    else
      options_of(*c, &out);
    ctxp_buf_str(&out, "' ;;\n");
  }
  ctxp_buf_str(&out, "    esac\n    [[ $word == -* || ${COMP_WORDS[1]} == help ]] || words=''\n  fi\n"
                     "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -o default -F _ctxpipe ctxpipe\n");
  fwrite(out.ptr, 1, out.len, stdout);
  return 0;
}

const struct ctxp_command ctxp_cmd_completion = {
    .name = "completion",
    .summary = "print the script that completes ctxpipe's commands in a shell",
    .operands = "bash",
    .details = "",
    .example = "source <(ctxpipe completion bash)",
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
