#include <errno.h>
#include <stdio.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/savings.h"

static void pack_query(const struct ctxp_args *args, struct ctxp_buf *out) {
  const char *session = ctxp_args_get(args, "session"), *agent = ctxp_args_get(args, "agent");
  const char *const pairs[][2] = {{"what", "stats"}, {"session", session}, {"agent", agent}};
  ctxp_pack_map(out, 1u + (session != NULL) + (agent != NULL));
  for (size_t i = 0; i < 3; i++) {
    if (!pairs[i][1]) continue;
    ctxp_pack_cstr(out, pairs[i][0]);
    ctxp_pack_cstr(out, pairs[i][1]);
  }
}

/* where the lines are written, as the first thing one looks for after the figures */
static void put_logs(const struct ctxp_config *config, struct ctxp_buf *out) {
  for (unsigned i = 0; i < config->node_count; i++) {
    struct ctxp_str path = ctxp_map_str(ctxp_buf_raw(&config->nodes[i].options), "path");
    if (!ctxp_str_is(ctxp_str(config->nodes[i].ops->name), "sink-log") || !path.len) continue;
    ctxp_buf_str(out, "log: ");
    ctxp_term_text(out, path);
    ctxp_buf_char(out, '\n');
  }
}

/* of one session what its agent shows, what was restored included; of several their sum */
static struct ctxp_raw line_of(struct ctxp_raw reply) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(reply, "sessions"));
  struct ctxp_raw one;
  uint32_t count;
  bool single = it.at && ctxp_array_open(&it, &count) >= 0 && count == 1 && ctxp_array_next(&it, &count, &one) >= 0;
  return ctxp_map_get(single ? one : ctxp_map_get(reply, "all"), "cumulative");
}

static int render(const struct ctxp_args *args, const struct ctxp_config *config, struct ctxp_raw reply, struct ctxp_buf *out) {
  struct ctxp_style style = ctxp_style_of(stdout);
  int r = 0;
  if (ctxp_args_has(args, "json")) {
    r = ctxp_json_from_raw(reply, out);
    ctxp_buf_char(out, '\n');
  } else if (ctxp_args_has(args, "line")) {
    ctxp_savings_line(line_of(reply), out);
    ctxp_buf_char(out, '\n');
  } else {
    r = ctxp_savings_print(reply, ctxp_args_has(args, "potential"), &style, out);
    put_logs(config, out);
  }
  return r < 0 ? r : ctxp_buf_error(out);
}

static int show(const struct ctxp_args *args, struct ctxp_error *err) {
  struct ctxp_pipeline pipeline;
  ctxp_auto_buf query = {0}, reply = {0}, out = {0};
  int r = ctxp_pipeline_find(args, &pipeline, err);
  if (r < 0) return r;
  pack_query(args, &query);
  r = ctxp_pipeline_ask_fold(pipeline.config, ctxp_buf_raw(&query), &reply, err);
  if (r == 0 && render(args, pipeline.config, ctxp_buf_raw(&reply), &out) < 0)
    r = ctxp_error_set(err, -EBADMSG, "the fold's answer could not be read; its version and this one's differ");
  if (r == 0) fwrite(out.ptr, 1, out.len, stdout);
  ctxp_pipeline_deinit(&pipeline);
  return r;
}

static int run(const struct ctxp_args *args) {
  struct ctxp_error err;
  return show(args, &err) < 0 ? ctxp_command_fail(&err) : 0;
}

static const struct ctxp_flag flags[] = {
    CTXP_PIPELINE_FLAGS,
    {.name = "session", .value = "ID", .help = "only this session, with its last turn"},
    {.name = "agent", .value = "NAME", .help = "only this agent"},
    {.name = "potential", .help = "also what could be saved for agents that do not ask"},
    {.name = "line", .help = "print the one line that an agent shows"},
    {.name = "json", .help = "print one JSON object, complete"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_stats = {
    .name = "stats",
    .summary = "show what was kept out of the windows, by mechanism",
    .operands = "",
    .flags = flags,
    .example = "ctxpipe stats --potential",
    .run = run,
    .details = "Tokens are estimates of one per four characters. Only what was applied counts: a removal, a digest or a fact that the "
               "agent put in place.\n"
               "'net' subtracts what auxiliary models used and what was taken back; 'carried' counts a removal in every request that it "
               "was kept out of.",
};
