#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/status.h"
#include "ctxpipe/table.h"
#include "runtime/control.h"

#define ANSWER_MS 1000 /* all nodes together; one that takes longer is shown as it is: it does not answer */
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const char *const figures[] = {"uptimeMs", "head", "lag", "events", "refused", "dropped", "gaps", "held", "late"};

/* what the supervisor knows of a node */
static struct ctxp_raw supervised(const struct ctxp_pipeline *pipeline, const char *node) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(ctxp_buf_raw(&pipeline->supervisor), "nodes"));
  struct ctxp_raw one;
  uint32_t left;
  if (!it.at || ctxp_array_open(&it, &left) < 0) return (struct ctxp_raw){0};
  while (ctxp_array_next(&it, &left, &one) > 0)
    if (ctxp_str_is(ctxp_map_str(one, "node"), node)) return one;
  return (struct ctxp_raw){0};
}

/* Pairs of a node: what it says itself, and where it says nothing what the supervisor knows. */
static void pack_node(const struct ctxp_node_config *node, struct ctxp_raw says, struct ctxp_raw known, struct ctxp_buf *out) {
  struct ctxp_str state = ctxp_map_str(says, "state"), last = ctxp_map_str(says, "lastError");
  if (!state.len) state = ctxp_str_is(ctxp_map_str(known, "state"), "ready") ? CTXP_STR("silent") : ctxp_map_str(known, "state");
  if (!last.len && ctxp_str_is(state, "silent")) last = CTXP_STR("does not answer; it is stopped, or very busy");
  if (!last.len) last = ctxp_map_str(known, "lastError");
  ctxp_pack_map(out, 4 + COUNT(figures) + 3);
  ctxp_pack_cstr(out, "node");
  ctxp_pack_cstr(out, node->name);
  ctxp_pack_cstr(out, "daemon");
  ctxp_pack_cstr(out, node->ops->name);
  ctxp_pack_cstr(out, "pid");
  ctxp_pack_u64(out, ctxp_map_u64(says.len ? says : known, "pid", 0));
  ctxp_pack_cstr(out, "state");
  ctxp_pack_str(out, state);
  for (size_t i = 0; i < COUNT(figures); i++) {
    ctxp_pack_cstr(out, figures[i]);
    ctxp_pack_u64(out, ctxp_map_u64(says, figures[i], 0));
  }
  ctxp_pack_cstr(out, "restarts");
  ctxp_pack_u64(out, ctxp_map_u64(known, "restarts", 0));
  ctxp_pack_cstr(out, "anonBytes");
  ctxp_pack_u64(out, ctxp_map_u64(says, "anonBytes", 0));
  ctxp_pack_cstr(out, "lastError");
  if (last.len)
    ctxp_pack_str(out, last);
  else
    ctxp_pack_nil(out);
}

struct answers {
  struct ctxp_buf *endpoints;
  struct ctxp_control_asked *asked; /* by node */
  unsigned count;
};

static void answers_deinit(struct answers *a) {
  for (unsigned i = 0; i < a->count && a->endpoints; i++) ctxp_buf_deinit(&a->endpoints[i]);
  for (unsigned i = 0; i < a->count && a->asked; i++) ctxp_buf_deinit(&a->asked[i].reply);
  free(a->endpoints);
  free(a->asked);
}

/* every node that runs, at once: one that is stopped holds up the others no longer than itself */
static int ask_nodes(const struct ctxp_pipeline *pipeline, struct answers *a, struct ctxp_error *err) {
  a->count = pipeline->config->node_count;
  a->endpoints = calloc(a->count, sizeof(*a->endpoints));
  a->asked = calloc(a->count, sizeof(*a->asked));
  if (!a->endpoints || !a->asked) return ctxp_error_set(err, -ENOMEM, "out of memory");
  for (unsigned i = 0; i < a->count; i++) {
    const char *name = pipeline->config->nodes[i].name;
    if (!ctxp_str_is(ctxp_map_str(supervised(pipeline, name), "state"), "ready")) continue;
    ctxp_topology_endpoint(pipeline->config, name, "control", &a->endpoints[i]);
    a->asked[i].endpoint = ctxp_buf_cstr(&a->endpoints[i]);
  }
  return ctxp_control_ask_all(a->asked, a->count, "status", ANSWER_MS, err);
}

/* {schema, pid, state, nodes: [...], agents: [...]} */
static int pack_status(const struct ctxp_pipeline *pipeline, const struct answers *a, struct ctxp_buf *out) {
  struct ctxp_raw supervisor = ctxp_buf_raw(&pipeline->supervisor), agents = {0};
  ctxp_pack_map(out, 5);
  ctxp_pack_cstr(out, "schema");
  ctxp_pack_u64(out, 1);
  ctxp_pack_cstr(out, "pid");
  ctxp_pack_u64(out, ctxp_map_u64(supervisor, "pid", 0));
  ctxp_pack_cstr(out, "state");
  ctxp_pack_str(out, ctxp_map_str(supervisor, "state"));
  ctxp_pack_cstr(out, "nodes");
  ctxp_pack_array(out, a->count);
  for (unsigned i = 0; i < a->count; i++) {
    const struct ctxp_node_config *node = &pipeline->config->nodes[i];
    struct ctxp_raw says = a->asked[i].endpoint && a->asked[i].result == 0 ? ctxp_buf_raw(&a->asked[i].reply) : (struct ctxp_raw){0};
    pack_node(node, says, supervised(pipeline, node->name), out);
    if (ctxp_map_get(says, "agents").len) agents = ctxp_map_get(says, "agents");
  }
  ctxp_pack_cstr(out, "agents");
  if (agents.len)
    ctxp_pack_raw(out, agents);
  else
    ctxp_pack_array(out, 0);
  return ctxp_buf_error(out);
}

static int collect(const struct ctxp_pipeline *pipeline, struct ctxp_buf *out, struct ctxp_error *err) {
  ctxp_cleanup(answers_deinit) struct answers answers = {0};
  int r = ask_nodes(pipeline, &answers, err);
  if (r == 0 && pack_status(pipeline, &answers, out) < 0) r = ctxp_error_set(err, -ENOMEM, "out of memory");
  return r;
}

static int render(bool json, struct ctxp_raw status, struct ctxp_buf *out, struct ctxp_error *err) {
  struct ctxp_style style = ctxp_style_of(stdout);
  int r = json ? ctxp_json_from_raw(status, out) : ctxp_status_print(status, &style, out);
  if (json) ctxp_buf_char(out, '\n');
  return r < 0 ? ctxp_error_set(err, r, "status: a node's answer could not be read; its version and this one's differ") : 0;
}

/* 0 only for a pipeline whose nodes all run */
static bool all_well(struct ctxp_raw status) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(status, "nodes"));
  struct ctxp_raw node;
  uint32_t left;
  if (ctxp_array_open(&it, &left) < 0) return false;
  while (ctxp_array_next(&it, &left, &node) > 0) {
    struct ctxp_str state = ctxp_map_str(node, "state");
    if (ctxp_str_is(state, "failed") || ctxp_str_is(state, "backoff") || ctxp_str_is(state, "silent")) return false;
  }
  return true;
}

static int run(const struct ctxp_args *args) {
  struct ctxp_pipeline pipeline;
  struct ctxp_error err;
  ctxp_auto_buf status = {0}, out = {0};
  int r = ctxp_pipeline_find(args, &pipeline, &err);
  if (r < 0) return ctxp_command_fail(&err);
  r = collect(&pipeline, &status, &err);
  if (r == 0) r = render(ctxp_args_has(args, "json"), ctxp_buf_raw(&status), &out, &err);
  ctxp_pipeline_deinit(&pipeline);
  if (r < 0) return ctxp_command_fail(&err);
  fwrite(out.ptr, 1, out.len, stdout);
  return all_well(ctxp_buf_raw(&status)) ? 0 : 1;
}

static const struct ctxp_flag flags[] = {
    CTXP_PIPELINE_FLAGS,
    {.name = "json", .help = "print one JSON object"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_status = {
    .name = "status",
    .summary = "show how the nodes and the agents of a running pipeline are",
    .operands = "",
    .flags = flags,
    .example = "ctxpipe status",
    .run = run,
    .details = "The exit code is 1 when a node has failed, is being started again, or does not answer.",
};
