#include <errno.h>
#include <stdio.h>
#include "base/str.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/importing.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/stop.h"

static int import(const struct ctxp_args *args, struct ctxp_import_result *result, struct ctxp_error *err) {
  struct ctxp_pipeline pipeline;
  int r = ctxp_pipeline_find(args, &pipeline, err);
  if (r < 0) return r;
  const struct ctxp_node_config *collector = ctxp_pipeline_node(pipeline.config, CTXP_ROLE_COLLECTOR_NODE);
  r = collector ? ctxp_importing(args, ctxp_args_get(args, "agent"), collector->ingest[0], NULL, result, err) :
                  ctxp_error_set(err, -ENOENT, "the topology has no collector; add a node with 'daemon: collector'");
  ctxp_pipeline_deinit(&pipeline);
  return r;
}

static int run(const struct ctxp_args *args) {
  struct ctxp_import_result result = {0};
  struct ctxp_error err;
  int r = ctxp_importing_choose(args, &err);
  if (r < 0) return ctxp_command_misuse(&err);
  if (ctxp_importing_check(args, &err) < 0) return ctxp_command_fail(&err);
  ctxp_stop_on_signals();
  r = import(args, &result, &err);
  if (r == 0 && result.files) {
    ctxp_auto_buf line = {0};
    ctxp_put_counted(&line, result.events, "new event");
    ctxp_buf_str(&line, " of ");
    ctxp_put_counted(&line, result.sessions, "session");
    ctxp_buf_str(&line, " from ");
    ctxp_put_counted(&line, result.files, "file");
    printf("%s; 'ctxpipe spend' shows the bill\n", ctxp_buf_cstr(&line));
  }
  bool whole = ctxp_importing_complain(&result);
  ctxp_import_result_deinit(&result);
  return r < 0 ? ctxp_command_fail(&err) : whole ? 0 :
                                                   1;
}

static const struct ctxp_flag flags[] = {
    CTXP_PIPELINE_FLAGS,
    CTXP_IMPORTING_FLAGS,
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_import = {
    .name = "import",
    .summary = "bring agents' transcripts into the running pipeline",
    .operands = "FILE|DIR...",
    .flags = flags,
    .operands_min = 1,
    .operands_max = ~0u,
    .example = "ctxpipe import ~/.claude/projects",
    .run = run,
    .details = "Files are read by their content; of folders, .jsonl and .json files and opencode's database. Importing again repeats "
               "nothing; a file that has grown goes on where it ended.",
};
