#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "bus/inbox.h"

#define SPARE_MAX 64 /* blocks kept for the next messages */

void ctxp_inbox_init(struct ctxp_inbox *inbox) {
  *inbox = (struct ctxp_inbox){0};
  inbox->held_tail = &inbox->held;
}

static void block_free(struct ctxp_block *block) {
  free(block->items.at);
  free(block);
}

void ctxp_inbox_deinit(struct ctxp_inbox *inbox) {
  ctxp_inbox_drop_held(inbox);
  while (ctxp_inbox_first(inbox)) ctxp_inbox_next(inbox);
  ctxp_inbox_forget_last(inbox);
  for (struct ctxp_block *block = inbox->spare, *next; block; block = next) {
    next = block->next;
    block_free(block);
  }
  free(inbox->ready);
}

struct ctxp_block *ctxp_inbox_block(struct ctxp_inbox *inbox) {
  struct ctxp_block *block = inbox->spare;
  if (block) {
    inbox->spare = block->next;
    inbox->spare_count--;
  } else if (!(block = calloc(1, sizeof(*block)))) {
    return NULL;
  }
  block->next = NULL;
  block->left = 1;
  block->bytes = 0;
  block->counted = false;
  block->items.count = 0;
  zmq_msg_init(&block->msg);
  return block;
}

void ctxp_inbox_let_go(struct ctxp_inbox *inbox, struct ctxp_block *block) {
  if (--block->left > 0) return;
  zmq_msg_close(&block->msg);
  if (block->counted) inbox->ready_bytes -= block->bytes;
  if (inbox->spare_count == SPARE_MAX) {
    block_free(block);
    return;
  }
  block->next = inbox->spare;
  inbox->spare = block;
  inbox->spare_count++;
}

void ctxp_inbox_hold(struct ctxp_inbox *inbox, struct ctxp_block *block) {
  *inbox->held_tail = block;
  inbox->held_tail = &block->next;
  inbox->held_bytes += block->bytes;
}

void ctxp_inbox_drop_held(struct ctxp_inbox *inbox) {
  for (struct ctxp_block *block = inbox->held, *next; block; block = next) {
    next = block->next;
    ctxp_inbox_let_go(inbox, block);
  }
  inbox->held = NULL;
  inbox->held_tail = &inbox->held;
  inbox->held_bytes = 0;
}

static int make_room(struct ctxp_inbox *inbox, size_t more) {
  if (inbox->ready_at == inbox->ready_count) inbox->ready_at = inbox->ready_count = 0;
  if (inbox->ready_at > 4096 && inbox->ready_at > inbox->ready_count / 2) {
    memmove(inbox->ready, inbox->ready + inbox->ready_at, ctxp_inbox_count(inbox) * sizeof(*inbox->ready));
    inbox->ready_count -= inbox->ready_at;
    inbox->ready_at = 0;
  }
  if (inbox->ready_count + more <= inbox->ready_cap) return 0;
  size_t cap = inbox->ready_cap ? inbox->ready_cap : 64;
  while (cap < inbox->ready_count + more) cap *= 2;
  struct ctxp_ready *ready = realloc(inbox->ready, cap * sizeof(*ready));
  if (!ready) return -ENOMEM;
  inbox->ready = ready;
  inbox->ready_cap = cap;
  return 0;
}

int ctxp_inbox_release(struct ctxp_inbox *inbox, struct ctxp_block *block, uint64_t above, uint64_t upto) {
  if (make_room(inbox, block->items.count) < 0) return -ENOMEM;
  if (!block->counted) inbox->ready_bytes += block->bytes;
  block->counted = true;
  for (unsigned i = 0; i < block->items.count; i++) {
    if (block->items.at[i].seq <= above || block->items.at[i].seq > upto) continue;
    inbox->ready[inbox->ready_count++] = (struct ctxp_ready){block->items.at[i], block};
    block->left++;
  }
  return 0;
}

static int by_seq(const void *a, const void *b) {
  uint64_t x = ((const struct ctxp_ready *)a)->item.seq, y = ((const struct ctxp_ready *)b)->item.seq;
  return x < y ? -1 : x > y;
}

/* the end of the queue that is above a number: messages of one topic each, one behind the other */
static void sort_end(struct ctxp_inbox *inbox, uint64_t above) {
  size_t first = inbox->ready_count;
  bool sorted = true;
  while (first > inbox->ready_at && inbox->ready[first - 1].item.seq > above) first--;
  for (size_t i = first + 1; i < inbox->ready_count && sorted; i++) sorted = inbox->ready[i - 1].item.seq < inbox->ready[i].item.seq;
  if (!sorted) qsort(inbox->ready + first, inbox->ready_count - first, sizeof(*inbox->ready), by_seq);
}

int ctxp_inbox_advance(struct ctxp_inbox *inbox, uint64_t above, uint64_t upto, bool take) {
  struct ctxp_block **at = &inbox->held;
  while (*at) {
    struct ctxp_block *block = *at;
    int r = take && block->items.at[0].seq <= upto ? ctxp_inbox_release(inbox, block, above, upto) : 0;
    if (r < 0) return r;
    if (ctxp_block_last(block) > upto) {
      at = &block->next;
      continue;
    }
    *at = block->next;
    inbox->held_bytes -= block->bytes;
    ctxp_inbox_let_go(inbox, block);
  }
  inbox->held_tail = at;
  sort_end(inbox, above);
  return 0;
}

void ctxp_inbox_forget_last(struct ctxp_inbox *inbox) {
  if (inbox->last.block) ctxp_inbox_let_go(inbox, inbox->last.block);
  inbox->last.block = NULL;
}

void ctxp_inbox_next(struct ctxp_inbox *inbox) {
  ctxp_inbox_forget_last(inbox);
  inbox->last = inbox->ready[inbox->ready_at++];
}
