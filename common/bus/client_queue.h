/* What a client keeps until it is acknowledged: events as they will stand in an `events` message, one behind the other, so that a
 * message is a head and one copy. The number of an item has a fixed width and place: an event queued before the collector has
 * said where the key stands gets its number in place. */
#pragma once
#include "base/buf.h"

struct ctxp_queue_entry {
  uint64_t seq;
  uint64_t at; /* since the queue was made, in bytes */
  uint32_t len;
  bool automatic; /* numbered by the client */
};
struct ctxp_queue {
  struct ctxp_buf bytes;
  uint64_t cut; /* bytes that are no longer in `bytes` */
  struct ctxp_queue_entry *entries;
  size_t head, sent, tail, cap; /* entries head..sent are in flight, sent..tail wait */
};

#define CTXP_QUEUE_ITEM_HEAD 15

/* Appends an event, encoded; takes back what it added on failure. -EMSGSIZE: its body is above max_body_bytes. */
int ctxp_queue_add(struct ctxp_queue *queue, const struct ctxp_event *event, uint64_t seq, bool automatic, size_t max_body_bytes)
    __attribute__((warn_unused_result));
/* Drops the entries up to number `seq` from the front; returns how many. */
size_t ctxp_queue_drop(struct ctxp_queue *queue, uint64_t seq);
/* Gives the automatic ones the numbers from last + 1 on, above explicit ones; returns the last number. */
uint64_t ctxp_queue_renumber(struct ctxp_queue *queue, uint64_t last);
/* Bytes from entry `from` to entry `to`, exclusive. */
struct ctxp_raw ctxp_queue_range(const struct ctxp_queue *queue, size_t from, size_t to);
size_t ctxp_queue_bytes(const struct ctxp_queue *queue); /* that it holds, its table counted */
static inline size_t ctxp_queue_flight(const struct ctxp_queue *queue) { return queue->sent - queue->head; }
void ctxp_queue_deinit(struct ctxp_queue *queue);
