/* Where the events of a file stand, and what the file was up to there.
 *
 * An event's number for the collector is its place in the file and, below it, a check of the text from the file's beginning to the
 * end of the line that gives the event. So the last number that the collector has of a file tells not only how far it was read, but
 * also whether this file is that one: it has grown, or it was rewritten, or it is another copy that went on elsewhere. */
#pragma once
#include "feeders/texts.h"

#define CTXP_CHECK_BITS 23 /* a changed file passes for the same once in 8 million times */
#define CTXP_PLACE_BITS 40 /* files up to a tebibyte */

struct ctxp_text_place { /* a line, or what else gives events */
  uint64_t offset, bytes;
  uint32_t check;
};
struct ctxp_places {
  struct ctxp_text_place *items;
  uint32_t count, cap;
  uint64_t chain; /* hash of all that was read */
};
void ctxp_places_deinit(struct ctxp_places *places);
/* The text that was read next, which gives no events. */
void ctxp_places_pass(struct ctxp_places *places, struct ctxp_str text);
/* The text that was read next, with its place. */
int ctxp_places_add(struct ctxp_places *places, uint64_t offset, uint64_t bytes, struct ctxp_str text) __attribute__((warn_unused_result));
/* The last one that begins at or before a place; NULL: none. */
const struct ctxp_text_place *ctxp_places_find(const struct ctxp_places *places, uint64_t offset);

static inline uint64_t ctxp_place_number(uint64_t place, uint32_t check) { return place << CTXP_CHECK_BITS | check; }
static inline uint64_t ctxp_place_of(uint64_t number) { return number >> CTXP_CHECK_BITS; }
static inline uint32_t ctxp_check_of(uint64_t number) { return (uint32_t)number & ((UINT32_C(1) << CTXP_CHECK_BITS) - 1); }

/* What a number that the collector has says about a file. */
enum ctxp_fit { CTXP_FIT_SAME /* the file holds what was read then */,
  CTXP_FIT_SHORTER /* what was read then went beyond its end */,
  CTXP_FIT_OTHER };
enum ctxp_fit ctxp_places_fit(const struct ctxp_places *places, uint64_t number);
