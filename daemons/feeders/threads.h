/* The windows of one file while its events are made: which are open, in which turn, with which request. Shared by the formats.
 *
 * Every event has its fixed slot within its line, whether the events before it are needed or not, so that its number does not depend
 * on what an earlier run, with less of the file, has sent. */
#pragma once
#include "feeders/format.h"
#include "feeders/window.h"

enum { CTXP_SLOT_START,
  CTXP_SLOT_TURN_END,
  CTXP_SLOT_AGENT_END,
  CTXP_SLOT_AGENT_START,
  CTXP_SLOT_PROMPT,
  CTXP_SLOT_OWN };

struct ctxp_thread {
  uint32_t name; /* 0: the main one */
  struct ctxp_window window;
  uint64_t turn;
  bool started, in_turn, in_agent;
};

struct ctxp_threads {
  struct ctxp_feed *feed;
  struct ctxp_error *err;
  const struct ctxp_texts *names;
  struct ctxp_thread *items;
  uint32_t count, cap;
  uint32_t last; /* that was got */
  struct ctxp_slots number_of; /* by name, + 1 */
  struct ctxp_slots places; /* of messages in windows */
};

void ctxp_threads_deinit(struct ctxp_threads *threads);
int ctxp_threads_get(struct ctxp_threads *threads, uint32_t name, struct ctxp_thread **ret)
    __attribute__((warn_unused_result)); /* until the next get */
/* base: the line's place + 1 */
int ctxp_threads_send(struct ctxp_threads *threads, const struct ctxp_thread *thread, uint64_t base, unsigned slot,
    struct ctxp_event *event) __attribute__((warn_unused_result));
int ctxp_threads_end_turn(struct ctxp_threads *threads, struct ctxp_thread *thread, uint64_t base, unsigned slot)
    __attribute__((warn_unused_result));
/* A person's message, or what stands for it: the work before it ends, new work begins. */
/* skills: the section of skills that came with it; may be empty. */
int ctxp_threads_start_agent(struct ctxp_threads *threads, struct ctxp_thread *thread, uint64_t base, struct ctxp_str skills)
    __attribute__((warn_unused_result));
/* Closes all that is open (unless the file is still being written), with numbers behind the `used` slots of the last line. Where a shorter
 * version of the file ended
 * (`again`), only what was sent then. */
int ctxp_threads_close(struct ctxp_threads *threads, uint64_t offset, uint64_t bytes, unsigned used, bool again)
    __attribute__((warn_unused_result));
/* Did an earlier run end the file at this line? */
static inline bool ctxp_threads_ended_at(const struct ctxp_threads *threads, uint64_t offset, uint64_t bytes, unsigned used) {
  return threads->feed->position >= offset + 1 + used && threads->feed->position <= offset + bytes;
}
