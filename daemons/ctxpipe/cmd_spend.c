#include <errno.h>
#include "ctxpipe/commands.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/spend.h"

static int show(const struct ctxp_args *args, const struct ctxp_spend_choice *choice, struct ctxp_error *err) {
  struct ctxp_pipeline pipeline;
  ctxp_auto_buf query = {0}, reply = {0};
  int r = ctxp_pipeline_find(args, &pipeline, err);
  if (r < 0) return r;
  ctxp_spend_query(choice, &query);
  r = ctxp_pipeline_ask_fold(pipeline.config, ctxp_buf_raw(&query), &reply, err);
  if (r == 0) r = ctxp_spend_show(choice, ctxp_buf_raw(&reply), NULL, err);
  ctxp_pipeline_deinit(&pipeline);
  return r;
}

static int run(const struct ctxp_args *args) {
  struct ctxp_spend_choice choice;
  struct ctxp_error err;
  int r = ctxp_spend_choose(args, &choice, &err);
  if (r < 0) return ctxp_command_misuse(&err);
  return show(args, &choice, &err) < 0 ? ctxp_command_fail(&err) : 0;
}

static const struct ctxp_flag flags[] = {
    CTXP_PIPELINE_FLAGS,
    CTXP_SPEND_FLAGS,
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_spend = {
    .name = "spend",
    .summary = "show which material drove the bill",
    .operands = "",
    .flags = flags,
    .example = "ctxpipe spend --by view --top 10",
    .run = run,
    .details =
        "Every request's reported input tokens are split over the messages in it, and summed by band, view, tool or message. 'own' "
        "counts a message\n"
        "once: what it cost to bring in. 'billed' counts it in every request that carried it: what it cost to keep.\n"
        "Of a narrowed bill 'own' is that of the messages in its requests, whenever they came in: 'billed' may be less.\n" CTXP_SPEND_READ,
};
