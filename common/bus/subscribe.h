/* The reading side of one upstream: its events in the order of their numbers, without a hole.
 *
 * It begins apart from the live messages: it reads by replay from its place to the head, in bounded batches, then subscribes.
 * Live events are held until a head says that everything of the topics up to there has come; what is missing is replayed. One that
 * falls far behind leaves the live messages and begins again like that, so that nothing here grows with its delay. A publisher
 * that was started anew has to prove that the place still fits its stream. */
#pragma once
#include <zmq.h>
#include "bus/wire.h"

struct ctxp_sub;
struct ctxp_sub_options { /* texts borrowed for the call */
  void *zmq;
  const char *node, *upstream; /* names: who reads, from whom */
  const char *pub, *replay; /* endpoints to connect to */
  struct ctxp_topics topics;
  struct ctxp_place place; /* where to go on; .stream 0: at the start */
  bool from_now; /* with .stream 0: at the first head that comes */
};

int ctxp_sub_new(const struct ctxp_sub_options *options, struct ctxp_sub **ret_sub, struct ctxp_error *err)
    __attribute__((warn_unused_result));
struct ctxp_sub *ctxp_sub_free(struct ctxp_sub *sub);

#define CTXP_SUB_ITEMS 2
/* What to wait for now; one that has enough at hand waits for nothing. */
void ctxp_sub_items(struct ctxp_sub *sub, zmq_pollitem_t items[CTXP_SUB_ITEMS]);
/* Reads a bounded number of messages. <0: diverged (-ESTALE), or a frame of another version (-EPROTO), with its sentence. */
int ctxp_sub_ready(struct ctxp_sub *sub, const zmq_pollitem_t items[CTXP_SUB_ITEMS], uint64_t now_ms, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Repeats what was not answered; returns when it is to be called again. */
uint64_t ctxp_sub_tick(struct ctxp_sub *sub, uint64_t now_ms);

/* The next event: 1, borrowed until `next`; 0: none at hand. `gap` of the upstream's stream comes as an event of that kind. */
int ctxp_sub_peek(struct ctxp_sub *sub, struct ctxp_item *ret_item);
void ctxp_sub_next(struct ctxp_sub *sub);
uint64_t ctxp_sub_complete(const struct ctxp_sub *sub); /* every event of the topics up to here was given out or is at hand */
uint64_t ctxp_sub_watermark(const struct ctxp_sub *sub); /* the same, in numbers of the collector */
/* Of the upstream, once everything that it says was given out; LIVE before. */
enum ctxp_flow_state ctxp_sub_state(const struct ctxp_sub *sub);
enum ctxp_flow_state ctxp_sub_state_seen(const struct ctxp_sub *sub); /* of its last head */
struct ctxp_place ctxp_sub_place(const struct ctxp_sub *sub); /* after what was passed by `next` */
/* true: others wait for this one, so it reads on though it has much at hand */
void ctxp_sub_hungry(struct ctxp_sub *sub, bool hungry);
/* Tells the upstream a checkpoint. */
void ctxp_sub_report(struct ctxp_sub *sub, const struct ctxp_place *place, bool ended);

struct ctxp_sub_figures {
  uint64_t head; /* last one heard of */
  uint64_t gaps; /* holes in the live messages, repaired */
  uint64_t held; /* events at hand */
  uint64_t refused; /* messages that did not decode */
  uint64_t lost; /* events that the upstream no longer had */
  bool live;
};
void ctxp_sub_figures(const struct ctxp_sub *sub, struct ctxp_sub_figures *ret);
const char *ctxp_sub_upstream(const struct ctxp_sub *sub);
