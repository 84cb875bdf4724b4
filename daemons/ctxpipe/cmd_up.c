#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/launch.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/table.h"

static void print_line(void *data, const char *line) {
  ctxp_auto_buf out = {0};
  (void)data;
  ctxp_term_text(&out, ctxp_str(line));
  ctxp_buf_char(&out, '\n');
  fwrite(out.ptr, 1, out.len, stdout);
  fflush(stdout);
}

static void say(void *data, enum ctxp_say what, const char *line) {
  (void)what;
  print_line(data, line);
}

static int run(const struct ctxp_args *args) {
  static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
  struct ctxp_config *config;
  struct ctxp_error err;
  int level, r = ctxp_args_choice(args, "log-level", levels, 2, &level, &err);
  if (r < 0) return ctxp_command_misuse(&err);
  if (ctxp_pipeline_config(args, &config, &err) < 0) return ctxp_command_fail(&err);
  if (ctxp_args_has(args, "detach")) {
    struct ctxp_launch_options options = {.config = config, .log_level = levels[level], .detach = true, .line = print_line};
    r = ctxp_launch(&options, NULL, &err);
  } else {
    struct ctxp_supervise_options options = {.config = config, .log_level = levels[level], .life_fd = -1, .say = say};
    r = ctxp_supervise(&options, &err);
  }
  ctxp_topology_free(config);
  return r < 0 ? ctxp_command_fail(&err) : 0;
}

static const struct ctxp_flag flags[] = {
    {.name = "file", .letter = 'f', .value = "FILE", .help = "the topology (default: the built-in one, with a log and snapshots)"},
    {.name = "detach", .letter = 'd', .help = "return when the pipeline accepts events, and leave it running"},
    {.name = "log-level", .value = "LEVEL", .help = "of the daemons: error, warn, info (default) or debug"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_up = {
    .name = "up",
    .summary = "start a pipeline and watch over it",
    .operands = "",
    .flags = flags,
    .run = run,
    .example = "ctxpipe up --detach",
    .details = "Starts the daemons of the topology, says one line for each when it is ready, and 'ready' when all are and events are\n"
               "accepted. A daemon that dies is started again. Ctrl-C, SIGTERM or 'ctxpipe down' drain it; a second signal "
               "stops it at once,\n"
               "and loses nothing either. SIGHUP makes the sinks reopen their files.",
};
