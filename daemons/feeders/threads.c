#include <errno.h>
#include <stdlib.h>
#include "feeders/threads.h"

#define CLOSING 3 /* events that close a thread */

void ctxp_threads_deinit(struct ctxp_threads *threads) {
  for (uint32_t i = 0; i < threads->count; i++) ctxp_window_deinit(&threads->items[i].window);
  free(threads->items);
  ctxp_slots_deinit(&threads->number_of);
  ctxp_slots_deinit(&threads->places);
}

int ctxp_threads_get(struct ctxp_threads *threads, uint32_t name, struct ctxp_thread **ret) {
  uint32_t known = ctxp_slots_get(&threads->number_of, name);
  if (!known) {
    if (ctxp_grow(&threads->items, &threads->cap, threads->count, sizeof(*threads->items)) < 0) return -ENOMEM;
    threads->items[threads->count++] = (struct ctxp_thread){.name = name};
    known = threads->count;
    if (ctxp_slots_set(&threads->number_of, name, known) < 0) return -ENOMEM;
  }
  threads->last = known - 1;
  *ret = &threads->items[known - 1];
  return 0;
}

int ctxp_threads_send(
    struct ctxp_threads *threads, const struct ctxp_thread *thread, uint64_t base, unsigned slot, struct ctxp_event *event) {
  threads->feed->seq = base + slot;
  threads->feed->thread = ctxp_texts_text(threads->names, thread->name);
  return ctxp_feed_send(threads->feed, event, threads->err);
}

int ctxp_threads_end_turn(struct ctxp_threads *threads, struct ctxp_thread *thread, uint64_t base, unsigned slot) {
  if (!thread->in_turn) return 0;
  struct ctxp_event ev = {.kind = CTXP_KIND_turn_end, .turn_end = {.turn = thread->turn}};
  thread->in_turn = false;
  return ctxp_threads_send(threads, thread, base, slot, &ev);
}

static int end_agent(struct ctxp_threads *threads, struct ctxp_thread *thread, uint64_t base, unsigned slot) {
  if (!thread->in_agent) return 0;
  struct ctxp_event ev = {.kind = CTXP_KIND_agent_end};
  thread->in_agent = false;
  return ctxp_threads_send(threads, thread, base, slot, &ev);
}

int ctxp_threads_start_agent(struct ctxp_threads *threads, struct ctxp_thread *thread, uint64_t base, struct ctxp_str skills) {
  struct ctxp_event ev = {.kind = CTXP_KIND_agent_start};
  if (skills.len) ctxp_set(&ev.agent_start, agent_start, skillsText, skills);
  int r = ctxp_threads_end_turn(threads, thread, base, CTXP_SLOT_TURN_END);
  if (r == 0) r = end_agent(threads, thread, base, CTXP_SLOT_AGENT_END);
  if (r == 0) r = ctxp_threads_send(threads, thread, base, CTXP_SLOT_AGENT_START, &ev);
  thread->in_agent = true;
  return r;
}

static int end_session(struct ctxp_threads *threads, struct ctxp_thread *thread, uint64_t base, unsigned slot) {
  struct ctxp_event ev = {.kind = CTXP_KIND_session_end};
  int r = ctxp_threads_end_turn(threads, thread, base, slot);
  if (r == 0) r = end_agent(threads, thread, base, slot + 1);
  if (r == 0) r = ctxp_threads_send(threads, thread, base, slot + 2, &ev);
  thread->started = false;
  return r;
}

/* The thread that spoke last is closed last: whatever an earlier run found closed already, the file's last number is then the same. */
int ctxp_threads_close(struct ctxp_threads *threads, uint64_t offset, uint64_t bytes, unsigned used, bool again) {
  uint64_t base = offset + 1, position = threads->feed->position;
  unsigned slot = used;
  int r = 0;
  if (threads->count == 0 || used + CLOSING > bytes || (threads->feed->live && !again)) return 0;
  for (uint32_t i = 0; r == 0 && i < threads->count; i++) {
    if (i == threads->last) continue;
    bool room = slot + 2 * CLOSING <= bytes && !(again && base + slot > position);
    if (room && threads->items[i].started) r = end_session(threads, &threads->items[i], base, slot);
    if (slot + 2 * CLOSING <= bytes) slot += CLOSING;
  }
  struct ctxp_thread *last = &threads->items[threads->last];
  return r == 0 && last->started && !(again && base + slot > position) ? end_session(threads, last, base, slot) : r;
}
