#include "ctxpipe/feed.h"
#include <errno.h>
#include <zmq.h>
#include "base/clock.h"
#include "base/str.h"
#include "bus/subscribe.h"
#include "codec/msgpack.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/stop.h"

#define STATUS_MS 10000

static int give_out(struct ctxp_sub *sub, int (*event)(void *, const struct ctxp_event *), void *data, struct ctxp_error *err) {
  struct ctxp_item item;
  while (!ctxp_stop && ctxp_sub_peek(sub, &item) > 0) {
    struct ctxp_event ev;
    struct ctxp_fault fault;
    if (ctxp_event_decode(item.body.ptr, item.body.len, &ev, NULL, &fault) < 0)
      return ctxp_error_set(err, -EBADMSG, "event %llu does not decode: %s %s", (unsigned long long)item.seq, fault.field, fault.reason);
    ev.seq = item.seq;
    ev.cause = item.cause;
    ev.ts_ms = item.ts_ms;
    int r = event(data, &ev);
    if (r) return r;
    ctxp_sub_next(sub);
  }
  return 0;
}

static int follow(
    struct ctxp_sub *sub, uint64_t upto, int (*event)(void *, const struct ctxp_event *), void *data, struct ctxp_error *err) {
  for (;;) {
    int r = give_out(sub, event, data, err);
    if (r || ctxp_stop || ctxp_sub_complete(sub) >= upto) return r;
    if (ctxp_sub_state(sub) == CTXP_FLOW_ENDED) return 0;
    zmq_pollitem_t items[CTXP_SUB_ITEMS];
    uint64_t now = ctxp_clock_ms(), next = ctxp_sub_tick(sub, now);
    ctxp_sub_items(sub, items);
    if (zmq_poll(items, CTXP_SUB_ITEMS, next > now ? (next - now > 1000 ? 1000 : (long)(next - now)) : 0) < 0 && errno != EINTR)
      return ctxp_error_set(err, -errno, "could not wait for events: %s", zmq_strerror(errno));
    r = ctxp_sub_ready(sub, items, ctxp_clock_ms(), err);
    if (r < 0) return r;
  }
}

static int head_of(const struct ctxp_feed_options *options, uint64_t *ret_head, struct ctxp_error *err) {
  ctxp_auto_buf status = {0};
  int r = ctxp_pipeline_status(options->config, options->node, STATUS_MS, &status, err);
  if (r == 0) *ret_head = ctxp_map_u64(ctxp_buf_raw(&status), "head", 0);
  return r;
}

int ctxp_feed_run(
    const struct ctxp_feed_options *options, int (*event)(void *, const struct ctxp_event *), void *data, struct ctxp_error *err) {
  ctxp_auto_buf pub = {0}, replay = {0};
  uint64_t upto = UINT64_MAX;
  struct ctxp_sub *sub = NULL;
  int r = options->to_head ? head_of(options, &upto, err) : 0;
  if (r < 0 || upto == 0) return r;
  void *zmq = zmq_ctx_new();
  if (!zmq) return ctxp_error_set(err, -errno, "cannot open a ZeroMQ context: %s", zmq_strerror(errno));
  ctxp_topology_endpoint(options->config, options->node, "pub", &pub);
  ctxp_topology_endpoint(options->config, options->node, "replay", &replay);
  struct ctxp_sub_options sub_options = {.zmq = zmq,
      .node = "ctxpipe",
      .upstream = options->node,
      .pub = ctxp_buf_cstr(&pub),
      .replay = ctxp_buf_cstr(&replay),
      .topics = options->topics,
      .from_now = options->from_now};
  r = ctxp_sub_new(&sub_options, &sub, err);
  if (r == 0) r = follow(sub, upto, event, data, err);
  ctxp_sub_free(sub);
  zmq_ctx_term(zmq);
  return r;
}
