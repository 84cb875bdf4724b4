/* What a node answers on its control socket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cleanup.h"
#include "config/resolved.h"
#include "runtime/node_int.h"

static uint64_t anonymous_bytes(void) {
  ctxp_auto_fclose FILE *file = fopen("/proc/self/status", "re");
  char line[128];
  while (file && fgets(line, sizeof(line), file))
    if (strncmp(line, "RssAnon:", 8) == 0) return strtoull(line + 8, NULL, 10) * 1024;
  return 0;
}

static const char *state_name(const struct ctxp_node *node) {
  static const char *const names[] = {"running", "draining", "ended", "leaving"};
  if (node->phase != RUNNING || node->source) return names[node->phase];
  struct ctxp_sub_figures figures;
  for (unsigned i = 0; i < node->upstream_count; i++) {
    ctxp_sub_figures(node->upstreams[i].sub, &figures);
    if (!figures.live && figures.head > ctxp_sub_place(node->upstreams[i].sub).seq) return "catching up";
  }
  return "running";
}

struct sums {
  uint64_t lag, gaps, held, lost, refused;
};

static struct sums sum_upstreams(const struct ctxp_node *node) {
  struct sums sums = {0};
  for (unsigned i = 0; i < node->upstream_count; i++) {
    struct ctxp_sub_figures figures;
    ctxp_sub_figures(node->upstreams[i].sub, &figures);
    uint64_t at = ctxp_sub_place(node->upstreams[i].sub).seq, lag = figures.head > at ? figures.head - at : 0;
    if (lag > sums.lag) sums.lag = lag;
    sums.gaps += figures.gaps;
    sums.held += figures.held;
    sums.lost += figures.lost;
    sums.refused += figures.refused;
  }
  return sums;
}

static void pair_u64(struct ctxp_buf *out, const char *key, uint64_t value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_u64(out, value);
}
static void pair_str(struct ctxp_buf *out, const char *key, const char *value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_cstr(out, value);
}

static int status(struct ctxp_node *node, struct ctxp_buf *out) {
  struct sums sums = sum_upstreams(node);
  uint64_t refused = node->refused + sums.refused + (node->publisher ? ctxp_publisher_refused(node->publisher) : 0);
  size_t mark = ctxp_pack_map_open(out);
  uint32_t pairs = 17;
  pair_str(out, "node", node->self->name);
  pair_str(out, "daemon", node->ops->name);
  pair_u64(out, "pid", (uint64_t)getpid());
  pair_str(out, "state", state_name(node));
  pair_u64(out, "uptimeMs", ctxp_clock_ms() - node->started_ms);
  pair_u64(out, "head", node->stream ? ctxp_stream_head(node->stream) : ctxp_node_done(node));
  pair_u64(out, "done", ctxp_node_done(node));
  pair_u64(out, "lag", sums.lag);
  pair_u64(out, "events", node->events);
  pair_u64(out, "refused", refused);
  pair_u64(out, "dropped", sums.lost);
  pair_u64(out, "gaps", sums.gaps);
  pair_u64(out, "held", sums.held);
  pair_u64(out, "late", node->merge ? ctxp_merge_late(node->merge) : 0);
  pair_u64(out, "anonBytes", anonymous_bytes());
  pair_u64(out, "streamBytes", node->stream ? ctxp_stream_bytes(node->stream) : 0);
  pair_str(out, "lastError", node->last_error);
  if (node->tail_other) { /* a tail of another derivation version was taken as it stood */
    pair_u64(out, "tailVersion", node->tail_version);
    pairs++;
  }
  if (node->source && node->source->status) pairs += node->source->status(node, node->stage, out);
  ctxp_pack_close(out, mark, pairs);
  return 0;
}

/* ---- wait ---- */
int ctxp_node_waits(struct ctxp_node *node, uint64_t now_ms) {
  uint64_t least = ctxp_control_server_waits(node->control), done;
  if (least == UINT64_MAX) return 0;
  done = ctxp_node_done(node);
  if (least > done || ctxp_store_open_txn(node->store)) return 0;
  if (!node->stream && node->inputs) { /* a sink: what it wrote is made durable first */
    int r = ctxp_node_checkpoint(node, now_ms, false);
    if (r < 0) return r;
  }
  ctxp_control_server_done(node->control, done);
  return 0;
}

/* ---- reload, reopen, level ---- */
int ctxp_node_subscribers(struct ctxp_node *node) {
  const struct ctxp_config *config = node->config;
  const char **names = calloc(config->node_count ? config->node_count : 1, sizeof(*names));
  unsigned count = 0;
  if (!names) return ctxp_node_fail(node, -ENOMEM, "out of memory for the subscribers");
  for (unsigned i = 0; i < config->node_count; i++)
    for (char **name = config->nodes[i].subscribe; name && *name; name++)
      if (strcmp(*name, node->self->name) == 0) names[count++] = config->nodes[i].name;
  int r = ctxp_publisher_subscribers(node->publisher, names, count);
  free(names);
  return r < 0 ? ctxp_node_fail(node, r, "out of memory for the subscribers") : 0;
}

int ctxp_node_reload(struct ctxp_node *node, struct ctxp_error *err) {
  struct ctxp_config *config, *before = node->own_config;
  ctxp_auto_buf faults = {0};
  if (ctxp_topology_read(node->options->topology_file, ctxp_registry_get(), &config, &faults) < 0)
    return ctxp_error_set(err, -EINVAL, "%s", ctxp_buf_cstr(&faults));
  if (node->source && ctxp_resolved_prices(config, err) < 0) {
    ctxp_topology_free(config);
    return -EINVAL;
  }
  const struct ctxp_node_config *self = ctxp_topology_node(config, node->options->name);
  bool whole = self != NULL;
  for (unsigned i = 0; i < node->upstream_count && whole; i++) whole = ctxp_topology_node(config, node->upstreams[i].config->name) != NULL;
  if (!whole) {
    ctxp_topology_free(config);
    return ctxp_error_set(err, -ENOENT, "node '%s' or one that it subscribes to is no longer in %s: it must be ended, not reloaded",
        node->options->name, node->options->topology_file);
  }
  for (unsigned i = 0; i < node->upstream_count; i++)
    node->upstreams[i].config = ctxp_topology_node(config, node->upstreams[i].config->name);
  node->config = node->own_config = config;
  node->self = self;
  int r = node->publisher ? ctxp_node_subscribers(node) : 0;
  if (r < 0) *err = node->error;
  if (r == 0 && node->source && node->source->reload) r = node->source->reload(node, node->stage, err);
  ctxp_topology_free(before);
  return r;
}

int ctxp_node_reopen(struct ctxp_node *node, struct ctxp_error *err) { return node->ops->reopen ? node->ops->reopen(node->stage, err) : 0; }

static int set_level(struct ctxp_raw request, const char *node, struct ctxp_error *err) {
  static const char *const names[] = {"error", "warn", "info", "debug"};
  struct ctxp_str level = ctxp_map_str(request, "level");
  for (int i = 0; i < 4; i++)
    if (ctxp_str_is(level, names[i])) {
      ctxp_log_set(node, (enum ctxp_level)i);
      return 0;
    }
  return ctxp_error_set(err, -EINVAL, "'%.*s' is no level; it must be error, warn, info or debug", (int)level.len, level.ptr);
}

int ctxp_node_control(void *data, struct ctxp_raw request, struct ctxp_buf *reply, struct ctxp_error *err) {
  struct ctxp_node *node = data;
  struct ctxp_str op = ctxp_map_str(request, "op");
  if (ctxp_str_is(op, "status")) return status(node, reply);
  if (ctxp_str_is(op, "wait")) return 1;
  int r = 0;
  if (ctxp_str_is(op, "query")) return ctxp_stage_query(node->stage, ctxp_map_get(request, "query"), reply, err);
  if (ctxp_str_is(op, "drain"))
    ctxp_node_drain(node, ctxp_clock_ms(), ctxp_map_bool(request, "quick", false));
  else if (ctxp_str_is(op, "level"))
    r = set_level(request, node->options->name, err);
  else if (ctxp_str_is(op, "reload"))
    r = ctxp_node_reload(node, err);
  else if (ctxp_str_is(op, "reopen"))
    r = ctxp_node_reopen(node, err);
  else
    r = ctxp_error_set(
        err, -EINVAL, "'%.*s' is no request; it must be status, query, wait, drain, level, reload or reopen", (int)op.len, op.ptr);
  if (r == 0) ctxp_pack_bool(reply, true);
  return r;
}
