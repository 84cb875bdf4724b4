#include <stdarg.h>
#include <stdio.h>
#include "base/str.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/keyfile.h"
#include "ctxpipe/table.h"

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  ctxp_auto_buf safe = {0};
  char text[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  ctxp_term_lines(&safe, ctxp_str(text));
  fwrite(safe.ptr, 1, safe.len, stdout);
}

static int run(const struct ctxp_args *args) {
  const char *dir = args->operands[0];
  char public[CTXP_KEY_BYTES];
  struct ctxp_error err;
  int there = ctxp_keyfile_server(dir, public, &err);
  if (there < 0) return ctxp_command_fail(&err);
  if (!there)
    say("%s/collector.secret and %s/clients are the collector's:\n"
        "  ingest: [ipc://ingest.sock, \"tcp://*:7717\"]\n  curve: {secret_file: %s/collector.secret, clients_file: %s/clients}\n",
        dir, dir, dir, dir);
  for (unsigned i = 1; i < args->operand_count; i++) {
    if (ctxp_keyfile_client(dir, args->operands[i], public, &err) < 0) return ctxp_command_fail(&err);
    say("%s/%s.client is for a client: ctxpipe send --to tcp://HOST:7717 --keys FILE\n", dir, args->operands[i]);
  }
  if (there && args->operand_count == 1)
    say("%s/collector.secret is there already; name clients to make keys for: ctxpipe keys %s NAME\n", dir, dir);
  if (there && args->operand_count > 1) puts("a running collector lets them in from now on");
  return 0;
}

const struct ctxp_command ctxp_cmd_keys = {
    .name = "keys",
    .summary = "make the keys for connections between machines",
    .operands = "DIR [CLIENT...]",
    .operands_min = 1,
    .operands_max = 256,
    .example = "ctxpipe keys ~/.config/ctxpipe/keys laptop",
    .run = run,
    .details =
        "Makes the collector's key pair in DIR, where there is none, and for each CLIENT one file with all that it needs to "
        "connect. Files are\n"
        "readable by their owner alone, and none is written over. Ingest on tcp:// is encrypted (CURVE), and lets in only the "
        "clients that\n"
        "stand in DIR/clients. The pipeline sees at once what changes there: a new client gets in, and one whose line was taken out\n"
        "does not connect again.",
};
