/* What is known of a tool result's text: from the text itself, or, where the sender left it out, from what it says of it instead
 * (textHash, textUnits, textLines). Who needs no more than this treats both alike. */
#pragma once
#include "base/hash.h"
#include "ctxpipe/event.h"

struct ctxp_text_facts {
  struct ctxp_hash128 hash;
  uint64_t units, lines; /* UTF-16 units */
  bool blank;
};
struct ctxp_text_facts ctxp_text_facts(const struct ctxp_tool_result *result);

#define CTXP_LEAVE_TEXT_MIN 512 /* bytes; shorter ones are hardly longer than what would be said of them */
/* Leaves the text out, if it is worth it. hex: room for the hash, borrowed by the result. */
void ctxp_text_leave_out(struct ctxp_tool_result *result, char hex[CTXP_HASH_HEX]);
