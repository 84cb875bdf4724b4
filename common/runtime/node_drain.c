/* Ending. A node that has done all that its upstreams had to say, and whose upstreams say that this was the end, makes its last
 * checkpoint, reports it with the end mark and says the end itself; it leaves when all its subscribers have reported theirs. So
 * a whole pipeline drains from its source on. A node that is asked to end while its upstreams go on leaves after a short while with
 * a checkpoint and no end mark: it will come back, or it is no longer wanted. */
#include "base/clock.h"
#include "runtime/node_int.h"

#define ALONE_MS 1500 /* longer than heads are apart: by then an upstream that ends too has said so */
#define REPORT_MS 1000

static bool upstream_ends(const struct ctxp_node *node) {
  for (unsigned i = 0; i < node->upstream_count; i++)
    if (ctxp_sub_state_seen(node->upstreams[i].sub) != CTXP_FLOW_LIVE) return true;
  return false;
}

static bool upstreams_ended(const struct ctxp_node *node) {
  for (unsigned i = 0; i < node->upstream_count; i++)
    if (ctxp_sub_state(node->upstreams[i].sub) != CTXP_FLOW_ENDED) return false;
  return node->upstream_count > 0;
}

enum ctxp_flow_state ctxp_node_flow_state(const struct ctxp_node *node) {
  if (node->end_told) return CTXP_FLOW_ENDED;
  return node->phase != RUNNING || upstream_ends(node) ? CTXP_FLOW_DRAINING : CTXP_FLOW_LIVE;
}

static void say_state(struct ctxp_node *node, uint64_t now_ms) {
  if (!node->publisher || ctxp_store_open_txn(node->store)) return; /* the commit will say it */
  ctxp_publisher_set(node->publisher, ctxp_node_done(node), ctxp_node_flow_state(node));
  ctxp_publisher_flush(node->publisher, now_ms);
}

void ctxp_node_drain(struct ctxp_node *node, uint64_t now_ms, bool quick) {
  node->quick |= quick;
  if (node->phase != RUNNING) return;
  node->phase = DRAINING;
  node->leave_ms = now_ms + (node->source ? node->config->drain_s * 1000 : ALONE_MS);
  if (node->source && node->source->drain && node->source->drain(node, node->stage) < 0)
    ctxp_log(CTXP_LOG_ERROR, "drain", "%s", node->error.text);
  say_state(node, now_ms);
}

/* the last checkpoint, then the end mark */
static int end(struct ctxp_node *node, uint64_t now_ms) {
  int r = ctxp_node_checkpoint(node, now_ms, true);
  if (r < 0) return r;
  node->phase = ENDED;
  node->end_told = true;
  node->leave_ms = now_ms + node->config->drain_s * 1000;
  node->report_ms = now_ms + REPORT_MS;
  say_state(node, now_ms);
  return 0;
}

static int leave_alone(struct ctxp_node *node, uint64_t now_ms) {
  int r = ctxp_node_checkpoint(node, now_ms, false);
  node->phase = LEAVING;
  return r;
}

static int step_draining(struct ctxp_node *node, uint64_t now_ms, bool idle) {
  if (node->source) {
    bool done = !node->source->done || node->source->done(node, node->stage);
    return idle && (done || node->quick || now_ms >= node->leave_ms) ? end(node, now_ms) : 0;
  }
  if (upstream_ends(node) && node->leave_ms < now_ms + ALONE_MS && !node->quick) node->leave_ms = now_ms + node->config->drain_s * 1000;
  return node->quick || now_ms >= node->leave_ms ? leave_alone(node, now_ms) : 0;
}

static void step_ended(struct ctxp_node *node, uint64_t now_ms) {
  if (!node->publisher || node->quick || now_ms >= node->leave_ms || ctxp_publisher_all_ended(node->publisher)) {
    node->phase = LEAVING;
    return;
  }
  if (now_ms < node->report_ms) return;
  node->report_ms = now_ms + REPORT_MS; /* the first may have gone to an upstream that was not there */
  for (unsigned i = 0; i < node->upstream_count; i++) {
    struct ctxp_place place = ctxp_sub_place(node->upstreams[i].sub);
    ctxp_sub_report(node->upstreams[i].sub, &place, true);
  }
}

int ctxp_node_drain_step(struct ctxp_node *node, uint64_t now_ms, bool idle, uint64_t *ret_next_ms) {
  int r = 0;
  if (node->phase < ENDED && idle && upstreams_ended(node)) r = end(node, now_ms);
  if (r == 0 && node->phase == DRAINING) r = step_draining(node, now_ms, idle);
  if (r == 0 && node->phase == ENDED) step_ended(node, now_ms);
  *ret_next_ms = node->phase == DRAINING ? node->leave_ms :
      node->phase == ENDED               ? (node->leave_ms < node->report_ms ? node->leave_ms : node->report_ms) :
                                           UINT64_MAX;
  if (node->phase == LEAVING) *ret_next_ms = now_ms;
  return r;
}
