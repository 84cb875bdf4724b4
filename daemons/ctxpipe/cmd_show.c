#include <errno.h>
#include <stdio.h>
#include "base/str.h"
#include "codec/tools.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/feed.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/stop.h"
#include "ctxpipe/table.h"

struct show {
  struct ctxp_str id, session;
  struct ctxp_buf text;
  uint64_t units; /* full length where the text was cut by its sender */
  bool found;
};

/* A later result with the same id has taken it over, so the last one counts. */
static int look(void *data, const struct ctxp_event *event) {
  struct show *show = data;
  if (event->kind != CTXP_KIND_tool_result || !ctxp_str_eq(event->tool_result.toolCallId, show->id)) return 0;
  if (show->session.len && !ctxp_str_eq(event->session, show->session)) return 0;
  ctxp_buf_reset(&show->text);
  ctxp_buf_add(&show->text, event->tool_result.text.ptr, event->tool_result.text.len);
  show->units = ctxp_has(&event->tool_result, tool_result, textUnits) ? event->tool_result.textUnits : 0;
  show->found = true;
  return ctxp_buf_error(&show->text);
}

static int find(const struct ctxp_args *args, struct show *show, struct ctxp_error *err) {
  struct ctxp_pipeline pipeline;
  int r = ctxp_pipeline_find(args, &pipeline, err);
  if (r < 0) return r;
  const struct ctxp_node_config *collector = ctxp_pipeline_node(pipeline.config, CTXP_ROLE_COLLECTOR_NODE);
  struct ctxp_feed_options options = {.config = pipeline.config, .node = collector ? collector->name : "", .to_head = true};
  for (unsigned t = 0; t < CTXP_TOPICS; t++)
    if (ctxp_topic_kind(t) == CTXP_KIND_tool_result) ctxp_topics_add(&options.topics, t);
  r = collector ? ctxp_feed_run(&options, look, show, err) : ctxp_error_set(err, -ENOENT, "the topology has no collector");
  ctxp_pipeline_deinit(&pipeline);
  if (r == 0 && !show->found)
    r = ctxp_error_set(err, -ENOENT,
        "no tool result '%s' is in the collector's stream; its id stands in the log, and 'retain_hours' says how long texts are kept",
        show->id.ptr);
  return r;
}

/* the text as it was; made safe only where it goes to a terminal */
static void print(const struct show *show) {
  struct ctxp_style style = ctxp_style_of(stdout);
  ctxp_auto_buf safe = {0};
  if (style.columns) ctxp_term_lines(&safe, ctxp_buf_view(&show->text));
  const struct ctxp_buf *text = style.columns ? &safe : &show->text;
  fwrite(text->ptr, 1, text->len, stdout);
  if (style.columns && text->len && text->ptr[text->len - 1] != '\n') putchar('\n');
  size_t have = ctxp_utf16_units(ctxp_buf_view(&show->text));
  if (show->units > have)
    fprintf(stderr, "ctxpipe: the agent sent %zu of %llu characters of this result; the rest was never in the pipeline\n", have,
        (unsigned long long)show->units);
}

static int run(const struct ctxp_args *args) {
  struct show show = {.id = ctxp_str(args->operands[0]), .session = ctxp_str(ctxp_args_get(args, "session"))};
  struct ctxp_error err;
  ctxp_stop_on_signals();
  int r = find(args, &show, &err);
  if (r == 0) print(&show);
  ctxp_buf_deinit(&show.text);
  return r < 0 ? ctxp_command_fail(&err) : 0;
}

static const struct ctxp_flag flags[] = {
    CTXP_PIPELINE_FLAGS,
    {.name = "session", .value = "ID", .help = "only in this session"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_show = {
    .name = "show",
    .summary = "print the original of a digested or removed result",
    .operands = "ID",
    .flags = flags,
    .operands_min = 1,
    .operands_max = 1,
    .example = "ctxpipe show TOOL_CALL_ID",
    .run = run,
    .details = "ID is the tool call's id, as the log lines and the agent's messages have it.",
};
