#include "tokens/facts.h"
#include "base/str.h"

#define UNITS_MAX (UINT64_C(1) << 30) /* of a text that was left out; no sender has longer ones */

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
                                                                                          -1; }

/* the hash as ctxp_hash128_hex writes it; false: it is none */
static bool read_hash(struct ctxp_str hex, struct ctxp_hash128 *ret) {
  uint64_t half[2] = {0, 0};
  if (hex.len != CTXP_HASH_HEX - 1) return false;
  for (size_t i = 0; i < hex.len; i++) {
    int value = digit(hex.ptr[i]);
    if (value < 0) return false;
    half[i / 16] = half[i / 16] << 4 | (uint64_t)value;
  }
  *ret = (struct ctxp_hash128){half[0], half[1]};
  return true;
}

struct ctxp_text_facts ctxp_text_facts(const struct ctxp_tool_result *result) {
  struct ctxp_text_facts facts = {.units = result->textUnits, .lines = result->textLines};
  struct ctxp_str text = result->text;
  bool left_out = text.len == 0 && facts.units && facts.units <= UNITS_MAX && facts.lines && facts.lines <= facts.units;
  if (left_out && read_hash(result->textHash, &facts.hash)) return facts;
  return (struct ctxp_text_facts){
      ctxp_hash128(text.ptr, text.len), ctxp_utf16_units(text), ctxp_str_lines(text), ctxp_str_blank(text)};
}

void ctxp_text_leave_out(struct ctxp_tool_result *result, char hex[CTXP_HASH_HEX]) {
  if (result->text.len < CTXP_LEAVE_TEXT_MIN || ctxp_has(result, tool_result, textUnits)) return; /* it was cut: there is more of it */
  struct ctxp_text_facts facts = ctxp_text_facts(result);
  if (facts.blank) return;
  ctxp_hash128_hex(facts.hash, hex);
  ctxp_set(result, tool_result, textHash, ctxp_str(hex));
  ctxp_set(result, tool_result, textUnits, facts.units);
  ctxp_set(result, tool_result, textLines, facts.lines);
  result->text = (struct ctxp_str){"", 0};
}
