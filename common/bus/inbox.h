/* What a subscriber has at hand of one upstream. Blocks are received messages with the events found in them. Those above `complete`
 * are held; when `complete` moves on, their events go, sorted by number, into the ready queue, and a block is let go of when
 * its last event was taken. */
#pragma once
#include <zmq.h>
#include "bus/wire.h"

struct ctxp_block {
  struct ctxp_block *next;
  zmq_msg_t msg;
  struct ctxp_items items; /* borrow from msg */
  size_t bytes;
  uint64_t prev; /* of the first event, in its topic */
  unsigned topic; /* of a live message: of all its events */
  bool counted; /* in ready_bytes */
  unsigned left; /* events in the ready queue; the block itself counts as one while somebody holds it */
};
struct ctxp_ready {
  struct ctxp_item item;
  struct ctxp_block *block;
};
struct ctxp_inbox {
  struct ctxp_block *held, **held_tail, *spare;
  size_t held_bytes, ready_bytes;
  unsigned spare_count;
  struct ctxp_ready *ready;
  size_t ready_at, ready_count, ready_cap;
  struct ctxp_ready last; /* the event taken last, still there; block NULL: none */
};

void ctxp_inbox_init(struct ctxp_inbox *inbox);
void ctxp_inbox_deinit(struct ctxp_inbox *inbox);
/* An empty block, held by the caller until let_go. NULL: out of memory. */
struct ctxp_block *ctxp_inbox_block(struct ctxp_inbox *inbox);
void ctxp_inbox_let_go(struct ctxp_inbox *inbox, struct ctxp_block *block);
static inline uint64_t ctxp_block_last(const struct ctxp_block *block) { return block->items.at[block->items.count - 1].seq; }

void ctxp_inbox_hold(struct ctxp_inbox *inbox, struct ctxp_block *block); /* takes the caller's hold over */
void ctxp_inbox_drop_held(struct ctxp_inbox *inbox);
/* The block's events in (above, upto] go into the ready queue. -ENOMEM. */
int ctxp_inbox_release(struct ctxp_inbox *inbox, struct ctxp_block *block, uint64_t above, uint64_t upto)
    __attribute__((warn_unused_result));
/* Everything up to `upto` is there: what is held in (above, upto] becomes ready (take), or was replayed and is dropped. -ENOMEM. */
int ctxp_inbox_advance(struct ctxp_inbox *inbox, uint64_t above, uint64_t upto, bool take) __attribute__((warn_unused_result));

static inline size_t ctxp_inbox_count(const struct ctxp_inbox *inbox) { return inbox->ready_count - inbox->ready_at; }
static inline const struct ctxp_item *ctxp_inbox_first(const struct ctxp_inbox *inbox) {
  return inbox->ready_at < inbox->ready_count ? &inbox->ready[inbox->ready_at].item : NULL;
}
void ctxp_inbox_next(struct ctxp_inbox *inbox); /* the first becomes the last */
void ctxp_inbox_forget_last(struct ctxp_inbox *inbox);
