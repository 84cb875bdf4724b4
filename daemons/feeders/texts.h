/* Texts of one file as small numbers: each different text once, in an arena. 0 is the empty text. And arrays over such numbers. */
#pragma once
#include "base/buf.h"

struct ctxp_texts {
  struct {
    uint32_t offset, len;
  } * items; /* by number */
  uint32_t count, cap;
  uint32_t *slots, slot_count; /* open addressing; a power of two */
  struct ctxp_buf arena;
};
#define CTXP_NO_NAME UINT32_MAX

void ctxp_texts_deinit(struct ctxp_texts *names);
/* The number of a text, a new one if it is not there yet; CTXP_NO_NAME: out of memory, or 4 GiB of texts. */
uint32_t ctxp_texts_add(struct ctxp_texts *names, struct ctxp_str text);
uint32_t ctxp_texts_find(const struct ctxp_texts *names, struct ctxp_str text); /* CTXP_NO_NAME: not there */
struct ctxp_str ctxp_texts_text(const struct ctxp_texts *names, uint32_t name); /* until the next add */

/* Room for one more element of `size` bytes behind `count`: grows *array by half. 0 or -ENOMEM; new room is zeroed. */
int ctxp_grow(void *array, uint32_t *cap, uint32_t count, size_t size) __attribute__((warn_unused_result));

struct ctxp_slots { /* number -> number; what was never set is 0 */
  uint32_t *values, cap;
};
int ctxp_slots_set(struct ctxp_slots *slots, uint32_t at, uint32_t value) __attribute__((warn_unused_result));
static inline uint32_t ctxp_slots_get(const struct ctxp_slots *slots, uint32_t at) { return at < slots->cap ? slots->values[at] : 0; }
void ctxp_slots_deinit(struct ctxp_slots *slots);
