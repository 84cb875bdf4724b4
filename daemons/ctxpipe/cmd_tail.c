#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/tools.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/feed.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/stop.h"

struct tail {
  const char *session;
  uint64_t left;
};

static int print(void *data, const struct ctxp_event *event) {
  struct tail *tail = data;
  ctxp_auto_buf line = {0};
  if (tail->session && !ctxp_str_is(event->session, tail->session)) return 0;
  int r = ctxp_json_from_event(event, false, &line);
  ctxp_buf_char(&line, '\n');
  if (r < 0 || ctxp_buf_error(&line) < 0) return r < 0 ? r : -ENOMEM;
  fwrite(line.ptr, 1, line.len, stdout);
  fflush(stdout);
  if (ferror(stdout)) return -EPIPE;
  return --tail->left == 0;
}

/* "bash" is that kind, "tool_result/shell" one class of it; what matches nothing is a mistake */
static int add_topics(const char *name, struct ctxp_topics *topics, struct ctxp_error *err) {
  bool any = false;
  for (unsigned t = 0; t < CTXP_TOPICS; t++) {
    char text[CTXP_TOPIC_MAX];
    if (!ctxp_kind_info(ctxp_topic_kind(t))) continue;
    ctxp_topic_text(t, text);
    size_t len = strlen(name);
    if (strncmp(text, name, len) != 0 || (text[len] != '/' && text[len] != 0)) continue;
    ctxp_topics_add(topics, t);
    any = true;
  }
  return any ?
      0 :
      ctxp_error_set(err, -EINVAL, "tail: there is no topic '%s'; a topic is an event's kind, as 'turn', or 'tool_result/shell'", name);
}

static int topics_of(const struct ctxp_args *args, struct ctxp_topics *topics, struct ctxp_error *err) {
  *topics = (struct ctxp_topics){{0}};
  for (unsigned i = 0; i < args->operand_count; i++) {
    int r = add_topics(args->operands[i], topics, err);
    if (r < 0) return r;
  }
  for (unsigned t = 0; t < CTXP_TOPICS && !args->operand_count; t++)
    if (ctxp_kind_info(ctxp_topic_kind(t))) ctxp_topics_add(topics, t);
  return 0;
}

static int follow(const struct ctxp_args *args, const struct ctxp_pipeline *pipeline, struct tail *tail, struct ctxp_error *err) {
  const char *node = ctxp_args_get(args, "node");
  const struct ctxp_node_config *fold = ctxp_pipeline_node(pipeline->config, CTXP_ROLE_FOLD_NODE);
  struct ctxp_feed_options options = {.config = pipeline->config,
      .node = node ? node :
          fold     ? fold->name :
                     NULL,
      .from_now = !ctxp_args_has(args, "from-start"),
      .to_head = ctxp_args_has(args, "no-follow")};
  if (!options.node) return ctxp_error_set(err, -ENOENT, "the topology has no fold; name a node with --node");
  const struct ctxp_node_config *config = ctxp_topology_node(pipeline->config, options.node);
  if (!config || config->ops->role == CTXP_ROLE_SINK_NODE)
    return ctxp_error_set(err, -ENOENT,
        config ? "node '%s' is a sink: it has no stream; name what it reads from" : "there is no node '%s'; 'ctxpipe status' lists them",
        options.node);
  if (options.to_head) options.from_now = false;
  int r = topics_of(args, &options.topics, err);
  r = r < 0 ? r : ctxp_feed_run(&options, print, tail, err);
  return r == -EPIPE ? 0 : r; /* the reader has enough */
}

static int run(const struct ctxp_args *args) {
  struct ctxp_pipeline pipeline;
  struct ctxp_error err = {{0}};
  struct tail tail = {.session = ctxp_args_get(args, "session")};
  int r = ctxp_args_number(args, "count", 1, UINT64_MAX, UINT64_MAX, &tail.left, &err);
  if (r < 0) return ctxp_command_misuse(&err);
  if (ctxp_pipeline_find(args, &pipeline, &err) < 0) return ctxp_command_fail(&err);
  ctxp_stop_on_signals();
  r = follow(args, &pipeline, &tail, &err);
  ctxp_pipeline_deinit(&pipeline);
  if (r < 0 && !err.text[0]) ctxp_error_set(&err, r, "tail: %s", strerror(-r));
  return r < 0 ? ctxp_command_fail(&err) : 0;
}

static const struct ctxp_flag flags[] = {
    CTXP_PIPELINE_FLAGS,
    {.name = "node", .value = "NAME", .help = "whose stream (default: the fold's)"},
    {.name = "from-start", .help = "first everything that is stored, then what comes"},
    {.name = "no-follow", .help = "everything that is stored, then end"},
    {.name = "count", .letter = 'n', .value = "N", .help = "end after so many events"},
    {.name = "session", .value = "ID", .help = "only this session"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_tail = {
    .name = "tail",
    .summary = "print a node's events as JSON lines, as they come",
    .operands = "[TOPIC...]",
    .flags = flags,
    .operands_max = ~0u,
    .example = "ctxpipe tail turn amnesia-remove",
    .run = run,
    .details = "A topic is an event's kind; of tool results also a class, as tool_result/shell. Without topics all are printed.",
};
