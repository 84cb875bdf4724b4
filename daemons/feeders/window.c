#include <errno.h>
#include <stdlib.h>
#include "feeders/window.h"

void ctxp_window_deinit(struct ctxp_window *window) {
  free(window->items);
  *window = (struct ctxp_window){0};
}

int ctxp_window_set(
    struct ctxp_window *window, struct ctxp_slots *places, uint32_t from, const uint32_t *tail, uint32_t count, uint32_t *ret_keep) {
  uint32_t keep = from, used = 0;
  while (used < count && keep < window->count && window->items[keep] == tail[used]) keep++, used++;
  window->count = keep;
  for (; used < count; used++, window->count++) {
    if (ctxp_grow(&window->items, &window->cap, window->count, sizeof(*window->items)) < 0) return -ENOMEM;
    if (ctxp_slots_set(places, tail[used], window->count) < 0) return -ENOMEM;
    window->items[window->count] = tail[used];
  }
  *ret_keep = keep;
  return 0;
}
