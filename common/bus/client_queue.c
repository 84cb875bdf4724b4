#include <errno.h>
#include <stdlib.h>
#include "bus/client_queue.h"

static int reserve_entry(struct ctxp_queue *q) {
  if (q->tail < q->cap) return 0;
  if (q->head > q->cap / 2) { /* what went from the front makes room */
    memmove(q->entries, q->entries + q->head, (q->tail - q->head) * sizeof(*q->entries));
    q->sent -= q->head;
    q->tail -= q->head;
    q->head = 0;
    return 0;
  }
  size_t cap = q->cap ? q->cap * 2 : 64;
  struct ctxp_queue_entry *entries = realloc(q->entries, cap * sizeof(*entries));
  if (!entries) return -ENOMEM;
  q->entries = entries;
  q->cap = cap;
  return 0;
}

static void write_wide(uint8_t *at, uint8_t head, uint64_t value, unsigned bytes) {
  at[0] = head;
  for (unsigned i = 0; i < bytes; i++) at[1 + i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

int ctxp_queue_add(struct ctxp_queue *q, const struct ctxp_event *event, uint64_t seq, bool automatic, size_t max_body_bytes) {
  int r = reserve_entry(q);
  if (r < 0) return r;
  size_t before = q->bytes.len;
  if (!ctxp_buf_room(&q->bytes, CTXP_QUEUE_ITEM_HEAD)) r = -ENOMEM;
  if (r == 0) {
    q->bytes.len += CTXP_QUEUE_ITEM_HEAD;
    r = ctxp_event_encode(event, &q->bytes);
  }
  size_t body = q->bytes.len - before - CTXP_QUEUE_ITEM_HEAD;
  if (r == 0 && (body > max_body_bytes || body > UINT32_MAX)) r = -EMSGSIZE;
  if (r < 0) {
    q->bytes.len = before;
    q->bytes.failed = false;
    return r;
  }
  uint8_t *item = q->bytes.ptr + before;
  item[0] = 0x92; /* array of two: uint 64, bin 32 */
  write_wide(item + 1, 0xcf, seq, 8);
  write_wide(item + 10, 0xc6, body, 4);
  q->entries[q->tail++] = (struct ctxp_queue_entry){seq, q->cut + before, (uint32_t)(body + CTXP_QUEUE_ITEM_HEAD), automatic};
  return 0;
}

/* moves what is left to the front once more than half of the bytes are of no use */
static void cut_bytes(struct ctxp_queue *q) {
  size_t gone = q->head < q->tail ? (size_t)(q->entries[q->head].at - q->cut) : q->bytes.len;
  if (gone < q->bytes.len && gone < q->bytes.len / 2 + 65536) return;
  memmove(q->bytes.ptr, q->bytes.ptr + gone, q->bytes.len - gone);
  q->bytes.len -= gone;
  q->cut += gone;
}

size_t ctxp_queue_drop(struct ctxp_queue *q, uint64_t seq) {
  size_t before = q->head;
  while (q->head < q->tail && q->entries[q->head].seq <= seq) q->head++;
  size_t count = q->head - before;
  if (q->sent < q->head) q->sent = q->head;
  if (count) cut_bytes(q);
  if (q->head == q->tail) q->head = q->sent = q->tail = 0;
  return count;
}

uint64_t ctxp_queue_renumber(struct ctxp_queue *q, uint64_t last) {
  for (size_t i = q->head; i < q->tail; i++) {
    struct ctxp_queue_entry *e = &q->entries[i];
    if (e->automatic || e->seq <= last) e->seq = last + 1;
    last = e->seq;
    write_wide(q->bytes.ptr + (e->at - q->cut) + 1, 0xcf, e->seq, 8);
  }
  return last;
}

struct ctxp_raw ctxp_queue_range(const struct ctxp_queue *q, size_t from, size_t to) {
  if (from >= to) return (struct ctxp_raw){0};
  uint64_t begin = q->entries[from].at, end = q->entries[to - 1].at + q->entries[to - 1].len;
  return (struct ctxp_raw){q->bytes.ptr + (begin - q->cut), (size_t)(end - begin)};
}

size_t ctxp_queue_bytes(const struct ctxp_queue *q) {
  return ctxp_queue_range(q, q->head, q->tail).len + (q->tail - q->head) * sizeof(*q->entries);
}

void ctxp_queue_deinit(struct ctxp_queue *q) {
  ctxp_buf_deinit(&q->bytes);
  free(q->entries);
  *q = (struct ctxp_queue){0};
}
