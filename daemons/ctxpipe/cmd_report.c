#include <errno.h>
#include "ctxpipe/commands.h"
#include "ctxpipe/importing.h"
#include "ctxpipe/private.h"
#include "ctxpipe/spend.h"
#include "ctxpipe/stop.h"

static int ask_fold(struct ctxp_private *private, const struct ctxp_spend_choice *choice, struct ctxp_buf *reply, struct ctxp_error *err) {
  const struct ctxp_node_config *fold = ctxp_pipeline_node(private->config, CTXP_ROLE_FOLD_NODE);
  ctxp_auto_buf query = {0};
  if (!fold) return ctxp_error_set(err, -ENOENT, "the built-in topology has no fold");
  ctxp_spend_query(choice, &query);
  return ctxp_pipeline_query(private->config, fold->name, ctxp_buf_raw(&query), reply, err);
}

static int work(const struct ctxp_args *args, const struct ctxp_spend_choice *choice, struct ctxp_import_result *result,
    struct ctxp_buf *reply, struct ctxp_error *err) {
  struct ctxp_private private;
  int r = ctxp_private_open(ctxp_args_get(args, "prices"), ctxp_args_get(args, "sizes"), &private, err);
  if (r < 0) return r;
  r = ctxp_importing(args, NULL, ctxp_pipeline_node(private.config, CTXP_ROLE_COLLECTOR_NODE)->ingest[0], &private, result, err);
  if (r == 0 && result->files) r = ctxp_private_settle(&private, err);
  if (r == 0 && result->files) r = ask_fold(&private, choice, reply, err);
  struct ctxp_error closing;
  int closed = ctxp_private_close(&private, r < 0 ? &closing : err);
  return r < 0 ? r : closed;
}

/* it went wrong after files were read: their figures are not half a bill */
static void not_printed(const struct ctxp_import_result *result, struct ctxp_error *err) {
  ctxp_auto_buf files = {0};
  struct ctxp_error why = *err;
  ctxp_put_counted(&files, result->files, "file");
  ctxp_error_set(err, -1, "%s; %s had been read, and no figure is printed", why.text, ctxp_buf_cstr(&files));
}

static int run(const struct ctxp_args *args) {
  struct ctxp_spend_choice choice;
  struct ctxp_import_result result = {0};
  struct ctxp_error err;
  ctxp_auto_buf reply = {0};
  static const char *const sizes[] = {"ledger", "estimate", NULL};
  int unused, r = ctxp_spend_choose(args, &choice, &err);
  if (r == 0) r = ctxp_args_choice(args, "sizes", sizes, 0, &unused, &err);
  if (r == 0) r = ctxp_importing_choose(args, &err);
  if (r < 0) return ctxp_command_misuse(&err);
  if (ctxp_importing_check(args, &err) < 0) return ctxp_command_fail(&err);
  ctxp_stop_on_signals();
  r = work(args, &choice, &result, &reply, &err);
  if (r == 0 && result.files) r = ctxp_spend_show(&choice, ctxp_buf_raw(&reply), &result.passed_over, &err);
  bool whole = r == 0 ? ctxp_importing_complain(&result) : false;
  if (r < 0 && result.files) not_printed(&result, &err);
  ctxp_import_result_deinit(&result);
  return r < 0 ? ctxp_command_fail(&err) : whole ? 0 :
                                                   1;
}

static const struct ctxp_flag flags[] = {
    CTXP_SPEND_FLAGS,
    {.name = "prices", .value = "FILE", .help = "a price table that goes over the built-in one"},
    {.name = "sizes",
        .value = "KIND",
        .help = "how large a message is: ledger (default), what the reported input grew by when it came in; estimate, what its text or "
                "the producer says"},
    CTXP_IMPORTING_FORMAT,
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_report = {
    .name = "report",
    .summary = "read transcripts and print what drove the bill and what could be saved",
    .operands = "FILE|DIR...",
    .flags = flags,
    .operands_min = 1,
    .operands_max = ~0u,
    .example = "ctxpipe report ~/.claude/projects",
    .run = run,
    .details =
        "Starts a private pipeline in a temporary directory, imports the files, prints, and leaves nothing behind. A file that cannot be\n"
        "read, in whole or in part, is named; what was good in it counts, and the exit code is 1.\n" CTXP_SPEND_READ,
};
