/* The request of a call, against that of the call before it in the same window: how much is kept, what is appended. Messages are
 * numbers of the format's own. */
#pragma once
#include "feeders/texts.h"

struct ctxp_window {
  uint32_t *items, count, cap;
};
void ctxp_window_deinit(struct ctxp_window *window);
/* `places` (shared by the windows of a file) says where a message stood last. */
static inline bool ctxp_window_has(const struct ctxp_window *window, const struct ctxp_slots *places, uint32_t message) {
  uint32_t at = ctxp_slots_get(places, message);
  return at < window->count && window->items[at] == message;
}
/* The request becomes the first `from` messages of the last one, then `tail`. *ret_keep: how many really stay, which is more if the
 * tail begins with what followed; the messages from there on are the new ones. */
int ctxp_window_set(struct ctxp_window *window, struct ctxp_slots *places, uint32_t from, const uint32_t *tail, uint32_t count,
    uint32_t *ret_keep) __attribute__((warn_unused_result));
