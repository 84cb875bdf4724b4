#include <errno.h>
#include <stdlib.h>
#include "base/hash.h"
#include "feeders/places.h"

void ctxp_places_deinit(struct ctxp_places *places) {
  free(places->items);
  *places = (struct ctxp_places){0};
}

void ctxp_places_pass(struct ctxp_places *places, struct ctxp_str text) {
  places->chain = ctxp_hash64(text.ptr, text.len, places->chain ^ text.len);
}

int ctxp_places_add(struct ctxp_places *places, uint64_t offset, uint64_t bytes, struct ctxp_str text) {
  if (ctxp_grow(&places->items, &places->cap, places->count, sizeof(*places->items)) < 0) return -ENOMEM;
  ctxp_places_pass(places, text);
  places->items[places->count++] = (struct ctxp_text_place){offset, bytes, ctxp_check_of(places->chain)};
  return 0;
}

const struct ctxp_text_place *ctxp_places_find(const struct ctxp_places *places, uint64_t offset) {
  uint32_t low = 0, high = places->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (places->items[middle].offset <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? &places->items[low - 1] : NULL;
}

enum ctxp_fit ctxp_places_fit(const struct ctxp_places *places, uint64_t number) {
  if (number == 0) return CTXP_FIT_SAME;
  uint64_t offset = ctxp_place_of(number) - 1; /* numbers begin at 1 */
  const struct ctxp_text_place *place = ctxp_places_find(places, offset);
  bool inside = place && offset - place->offset < place->bytes;
  if (inside) return place->check == ctxp_check_of(number) ? CTXP_FIT_SAME : CTXP_FIT_OTHER;
  bool last = !place || place == &places->items[places->count - 1];
  return last ? CTXP_FIT_SHORTER : CTXP_FIT_OTHER;
}
