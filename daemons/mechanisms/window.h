/* Context windows and what a mechanism keeps for each: found by (agent, session, thread), loaded from the stage's store when an
 * event names them, stored by `save` when they changed.
 *
 * A mechanism embeds struct ctxp_window as the first member of its own struct. At most CTXP_WINDOWS_MAX windows stay in memory
 * from one save to the next; what is forgotten there is stored and comes back the same, so that nothing derived depends on when
 * a save was. A window that keeps nothing is not stored. */
#pragma once
#include "base/buf.h"
#include "base/map.h"
#include "ctxpipe/stage.h"

#define CTXP_WINDOWS_MAX 256

struct ctxp_window {
  UT_hash_handle hh;
  struct ctxp_buf names; /* MessagePack array [agent, session, thread]: the key in memory */
  bool changed; /* since the last save */
  bool stored; /* something of it is in the store */
};

struct ctxp_window_ops {
  size_t size; /* of the mechanism's struct */
  int (*load)(void *window, struct ctxp_raw state);
  void (*dump)(const void *window, struct ctxp_buf *out); /* one MessagePack value; failures stick in the buffer */
  bool (*keeps)(const void *window); /* false: nothing worth storing */
  void (*deinit)(void *window);
};

struct ctxp_windows { /* zero is an empty one */
  const struct ctxp_window_ops *ops;
  struct ctxp_window *map;
};

/* The event's window: from memory, from the store, or a new one of zeros. Borrowed until the next save. */
int ctxp_windows_get(struct ctxp_windows *windows, struct ctxp_stage *stage, const struct ctxp_event *ev, void *ret_window)
    __attribute__((warn_unused_result));
/* The same, but 1 and nothing made where there is none. */
int ctxp_windows_find(struct ctxp_windows *windows, struct ctxp_stage *stage, const struct ctxp_event *ev, void *ret_window)
    __attribute__((warn_unused_result));
int ctxp_windows_save(struct ctxp_windows *windows, struct ctxp_stage *stage) __attribute__((warn_unused_result));
void ctxp_windows_deinit(struct ctxp_windows *windows);
/* `save` and `close` of a stage whose state begins with its struct ctxp_windows. */
int ctxp_windows_save_all(struct ctxp_stage *stage);
void ctxp_windows_close(struct ctxp_stage *stage);

/* Does this `answer_missed` speak of this node's part of the answer? */
bool ctxp_missed_here(const struct ctxp_stage *stage, const struct ctxp_answer_missed *said);

/* What every mechanism says beside its figures; why: NULL where it acted. */
#define ctxp_set_verdict(record, shape, is_applied, why) ctxp_set_verdict_by(record, shape, "rules", is_applied, ctxp_str(why))
/* the same of another engine; why: a struct ctxp_str, empty where there is nothing to say */
#define ctxp_set_verdict_by(record, shape, by, is_applied, why) \
  do { \
    struct ctxp_str ctxp_why = (why); \
    ctxp_set(record, shape, engine, ctxp_str(by)); \
    ctxp_set(record, shape, applied, is_applied); \
    if (ctxp_why.len) ctxp_set(record, shape, reason, ctxp_why); \
  } while (0)
