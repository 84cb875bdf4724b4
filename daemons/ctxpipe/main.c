/* ctxpipe: the command. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "ctxpipe/commands.h"

static int unknown_command(const char *word) {
  struct ctxp_error err;
  const char *names[64];
  unsigned count = 0;
  for (; ctxp_commands[count]; count++) names[count] = ctxp_commands[count]->name;
  const char *near = ctxp_args_suggest(word, names, sizeof(*names), count);
  if (near)
    ctxp_error_set(&err, -1, "unknown command '%s'; did you mean '%s'?", word, near);
  else
    ctxp_error_set(&err, -1, "unknown command '%s'; 'ctxpipe help' lists the commands", word);
  return ctxp_command_misuse(&err);
}

static bool asks_for_help(int argc, char **argv) {
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
  return false;
}

/* what was printed must have arrived: a full disk behind a redirection is a failure of the command */
static int finish(int code) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  struct ctxp_error err;
  ctxp_error_set(&err, -1, "could not write the output: %s", strerror(errno));
  return code ? code : ctxp_command_fail(&err);
}

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "help";
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
    puts("ctxpipe " CTXP_VERSION);
    return finish(0);
  }
  const struct ctxp_command *command = ctxp_command_find(word);
  if (!command) return unknown_command(word);
  int rest = argc > 2 ? argc - 2 : 0;
  if (asks_for_help(rest, argv + argc - rest)) {
    ctxp_auto_buf text = {0};
    ctxp_command_help(command, &text);
    fwrite(text.ptr, 1, text.len, stdout);
    return finish(0);
  }
  struct ctxp_args args;
  struct ctxp_error err;
  if (ctxp_args_read(command, rest, argv + argc - rest, &args, &err) < 0) return ctxp_command_misuse(&err);
  return finish(command->run(&args));
}
