#include <errno.h>
#include <stdlib.h>
#include "base/hash.h"
#include "base/str.h"
#include "feeders/texts.h"

int ctxp_grow(void *array, uint32_t *cap, uint32_t count, size_t size) {
  if (count < *cap) return 0;
  void *old, *grown;
  uint32_t wanted = count < 32 ? 64 : count + count / 2;
  memcpy(&old, array, sizeof(old));
  if (wanted <= count || (size_t)wanted > SIZE_MAX / size || !(grown = realloc(old, wanted * size))) return -ENOMEM;
  memset((char *)grown + *cap * size, 0, (wanted - *cap) * size);
  memcpy(array, &grown, sizeof(grown));
  *cap = wanted;
  return 0;
}

int ctxp_slots_set(struct ctxp_slots *slots, uint32_t at, uint32_t value) {
  if (at >= slots->cap && ctxp_grow(&slots->values, &slots->cap, at, sizeof(*slots->values)) < 0) return -ENOMEM;
  slots->values[at] = value;
  return 0;
}

void ctxp_slots_deinit(struct ctxp_slots *slots) {
  free(slots->values);
  *slots = (struct ctxp_slots){0};
}

void ctxp_texts_deinit(struct ctxp_texts *names) {
  free(names->items);
  free(names->slots);
  ctxp_buf_deinit(&names->arena);
  *names = (struct ctxp_texts){0};
}

struct ctxp_str ctxp_texts_text(const struct ctxp_texts *names, uint32_t name) {
  if (name >= names->count || names->items[name].len == 0) return (struct ctxp_str){"", 0};
  return (struct ctxp_str){(const char *)names->arena.ptr + names->items[name].offset, names->items[name].len};
}

/* the slot that holds the text, or the free one where it belongs */
static uint32_t slot_of(const struct ctxp_texts *names, struct ctxp_str text) {
  uint32_t at = (uint32_t)ctxp_hash64(text.ptr, text.len, 0) & (names->slot_count - 1);
  while (names->slots[at] && !ctxp_str_eq(ctxp_texts_text(names, names->slots[at]), text)) at = (at + 1) & (names->slot_count - 1);
  return at;
}

static int more_slots(struct ctxp_texts *names) {
  if (names->slot_count && names->count < names->slot_count / 2) return 0;
  struct ctxp_texts wider = *names;
  wider.slot_count = names->slot_count ? names->slot_count * 2 : 256;
  wider.slots = calloc(wider.slot_count, sizeof(*wider.slots));
  if (!wider.slots) return -ENOMEM;
  for (uint32_t i = 1; i < names->count; i++) wider.slots[slot_of(&wider, ctxp_texts_text(names, i))] = i;
  free(names->slots);
  *names = wider;
  return 0;
}

uint32_t ctxp_texts_find(const struct ctxp_texts *names, struct ctxp_str text) {
  if (text.len == 0) return 0;
  uint32_t name = names->slot_count ? names->slots[slot_of(names, text)] : 0;
  return name ? name : CTXP_NO_NAME;
}

uint32_t ctxp_texts_add(struct ctxp_texts *names, struct ctxp_str text) {
  if (names->count == 0) {
    if (ctxp_grow(&names->items, &names->cap, 0, sizeof(*names->items)) < 0) return CTXP_NO_NAME;
    names->count = 1;
  }
  if (text.len == 0) return 0;
  if (more_slots(names) < 0) return CTXP_NO_NAME;
  uint32_t slot = slot_of(names, text);
  if (names->slots[slot]) return names->slots[slot];
  if (names->arena.len + text.len > UINT32_MAX || ctxp_grow(&names->items, &names->cap, names->count, sizeof(*names->items)) < 0)
    return CTXP_NO_NAME;
  names->items[names->count].offset = (uint32_t)names->arena.len;
  names->items[names->count].len = (uint32_t)text.len;
  ctxp_buf_add(&names->arena, text.ptr, text.len);
  if (names->arena.failed) return CTXP_NO_NAME;
  return names->slots[slot] = names->count++;
}
