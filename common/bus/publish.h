/* The publishing side of a stream: an XPUB socket for what is new, a ROUTER for replays and the subscribers' checkpoints.
 *
 * Events are added as they are appended and sent by `flush`, after the commit: those of one topic together, bounded in count and
 * bytes, then the head. A new subscription gets a head. Nothing here waits: a full socket drops, and readers repair by replay. */
#pragma once
#include <zmq.h>
#include "bus/wire.h"

struct ctxp_publisher;
struct ctxp_publisher_options { /* texts borrowed for the call */
  void *zmq;
  const char *node, *pub, *replay; /* endpoints to bind */
  struct ctxp_stream *stream; /* borrowed */
};

int ctxp_publisher_new(const struct ctxp_publisher_options *options, struct ctxp_publisher **ret_publisher, struct ctxp_error *err)
    __attribute__((warn_unused_result));
struct ctxp_publisher *ctxp_publisher_free(struct ctxp_publisher *publisher);

/* An event that was just appended, and the one before it with its topic. */
int ctxp_publisher_add(struct ctxp_publisher *publisher, const struct ctxp_record *record, uint64_t prev)
    __attribute__((warn_unused_result));
void ctxp_publisher_drop(struct ctxp_publisher *publisher); /* what was added since the last flush: its commit failed */
/* What heads and replays say from now on. Every event that derives from the collector's up to `watermark` is committed. */
void ctxp_publisher_set(struct ctxp_publisher *publisher, uint64_t watermark, enum ctxp_flow_state state);
uint64_t ctxp_publisher_watermark(const struct ctxp_publisher *publisher);
/* Sends what was added, then the head. */
void ctxp_publisher_flush(struct ctxp_publisher *publisher, uint64_t now_ms);
/* Sends a head where the last one is a second old; returns when the next is due. */
uint64_t ctxp_publisher_tick(struct ctxp_publisher *publisher, uint64_t now_ms);

#define CTXP_PUBLISHER_ITEMS 2
void ctxp_publisher_items(struct ctxp_publisher *publisher, zmq_pollitem_t items[CTXP_PUBLISHER_ITEMS]);
/* Serves a bounded number of subscriptions, requests and reports. <0: the stream cannot be read. */
int ctxp_publisher_ready(struct ctxp_publisher *publisher, const zmq_pollitem_t items[CTXP_PUBLISHER_ITEMS], uint64_t now_ms,
    struct ctxp_error *err) __attribute__((warn_unused_result));

/* The subscribers that the topology names; the checkpoints of those that stay are kept. */
int ctxp_publisher_subscribers(struct ctxp_publisher *publisher, const char *const *names, unsigned count)
    __attribute__((warn_unused_result));
uint64_t ctxp_publisher_done(const struct ctxp_publisher *publisher); /* the least of their checkpoints; the head, where there are none */
bool ctxp_publisher_all_ended(const struct ctxp_publisher *publisher); /* each has reported the end mark as its checkpoint */
unsigned ctxp_publisher_refused(const struct ctxp_publisher *publisher); /* requests that did not decode */
