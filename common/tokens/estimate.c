#include "codec/json_read.h"
#include "tokens/estimate.h"

#define IMAGE_UNITS 4800

/* the arguments of a call and its name */
static size_t call_units(struct ctxp_json *json, uint32_t call) {
  return ctxp_json_units(json, ctxp_json_get(json, call, "name")) + ctxp_json_compact_units(json, ctxp_json_get(json, call, "arguments"));
}

static size_t block_units(struct ctxp_json *json, uint32_t block, bool assistant) {
  static const struct ctxp_str keys[] = {{"type", 4}, {"text", 4}, {"thinking", 8}, {"image", 5}, {"call", 4}};
  uint32_t at[5];
  ctxp_json_pick(json, block, keys, 5, at);
  struct ctxp_str type = ctxp_json_text(json, at[0]);
  bool any = at[0] == CTXP_JSON_NONE; /* without a type its key says what it is */
  if (ctxp_str_is(type, "text") || (any && at[1] != CTXP_JSON_NONE)) return ctxp_json_units(json, at[1]);
  if (!assistant) return ctxp_str_is(type, "image") || (any && at[3] != CTXP_JSON_NONE) ? IMAGE_UNITS : 0;
  if (ctxp_str_is(type, "thinking") || (any && at[2] != CTXP_JSON_NONE)) return ctxp_json_units(json, at[2]);
  if (ctxp_str_is(type, "toolCall")) return call_units(json, block);
  return any && at[4] != CTXP_JSON_NONE ? call_units(json, at[4]) : 0;
}

/* a text, or blocks */
static size_t content_units(struct ctxp_json *json, uint32_t content, bool assistant) {
  size_t units = ctxp_json_units(json, content);
  for (uint32_t block = content; ctxp_json_each(json, content, &block);) units += block_units(json, block, assistant);
  return units;
}

/* newer system messages: named sections and tools that came in */
static size_t system_units(struct ctxp_json *json, uint32_t message) {
  uint32_t sections = ctxp_json_get(json, message, "sections"), added = ctxp_json_get(json, message, "toolsAdded");
  size_t units = 0;
  struct ctxp_str key;
  for (uint32_t it = sections; ctxp_json_member(json, sections, &it, &key);) units += ctxp_json_units(json, it);
  for (uint32_t it = sections; ctxp_json_each(json, sections, &it);)
    units += ctxp_json_units(json, it) + ctxp_json_units(json, ctxp_json_get(json, it, "text"));
  return units + (ctxp_json_size(json, added) ? ctxp_json_compact_units(json, added) : 0);
}

uint64_t ctxp_estimate_message(struct ctxp_json *json, uint32_t message) {
  static const struct ctxp_str keys[] = {
      {"role", 4}, {"content", 7}, {"text", 4}, {"blocks", 6}, {"command", 7}, {"output", 6}, {"summary", 7}};
  uint32_t at[7];
  ctxp_json_pick(json, message, keys, 7, at);
  struct ctxp_str role = ctxp_json_text(json, at[0]);
  size_t units = 0;
  if (ctxp_str_is(role, "bashExecution") || ctxp_str_is(role, "shell"))
    units = ctxp_json_units(json, at[4]) + ctxp_json_units(json, at[5]);
  else if (ctxp_str_is(role, "branchSummary") || ctxp_str_is(role, "compactionSummary"))
    units = ctxp_json_units(json, at[6]);
  else
    for (unsigned i = 1; i <= 3; i++) units += content_units(json, at[i], ctxp_str_is(role, "assistant"));
  if (ctxp_str_is(role, "system")) units += system_units(json, message);
  return ctxp_chars4(units);
}

void ctxp_tokens_short(struct ctxp_buf *out, uint64_t tokens) {
  if (tokens < 1000) {
    ctxp_buf_printf(out, "%llu", (unsigned long long)tokens);
    return;
  }
  /* toFixed(1) takes the nearest tenth of the double n / 1000, exactly, and the upper one of two equally near ones; printf takes
   * the even one, so a tie (a multiple of 250 that is no multiple of 500 below: x.25, x.75) is moved up by hand */
  bool tie = tokens % 500 == 250;
  uint64_t tenths = tokens / 100 + 1;
  if (tie)
    ctxp_buf_printf(out, "%llu.%lluk", (unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10));
  else
    ctxp_buf_printf(out, "%.1fk", (double)tokens / 1000);
}
