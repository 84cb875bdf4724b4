#include <errno.h>
#include "codec/msgpack.h"
#include "feeders/content.h"
#include "tokens/estimate.h"
#include "tokens/pieces.h"

static void add_units(struct ctxp_content *sum, size_t units) {
  sum->units += units;
  sum->tokens += ctxp_chars4(units);
}

static void add_string(struct ctxp_json *json, uint32_t string, struct ctxp_content *sum) {
  add_units(sum, ctxp_json_units(json, string));
  sum->pieces += ctxp_pieces(ctxp_json_text(json, string));
  sum->texts++;
}

void ctxp_content_block(struct ctxp_json *json, uint32_t block, struct ctxp_content *sum) {
  static const struct ctxp_str keys[] = {{"type", 4}, {"text", 4}, {"thinking", 8}, {"tool_name", 9}};
  uint32_t at[4];
  ctxp_json_pick(json, block, keys, 4, at);
  struct ctxp_str type = ctxp_json_text(json, at[0]);
  if (ctxp_str_is(type, "text") || ctxp_str_is(type, "input_text") || ctxp_str_is(type, "output_text")) {
    add_string(json, at[1], sum);
  } else if (ctxp_str_is(type, "thinking")) {
    add_units(sum, ctxp_json_units(json, at[2]));
  } else if (ctxp_str_is(type, "image") || ctxp_str_is(type, "document") || ctxp_str_is(type, "input_image")) {
    sum->tokens += CTXP_IMAGE_TOKENS;
    sum->pieces += CTXP_PIECES_IMAGE;
    sum->images++;
  } else if (ctxp_str_is(type, "tool_reference")) {
    add_string(json, at[3], sum);
  }
}

void ctxp_content_all(struct ctxp_json *json, uint32_t content, struct ctxp_content *sum) {
  if (ctxp_json_type(json, content) == CTXP_JSON_STRING) add_string(json, content, sum);
  for (uint32_t it = content; ctxp_json_each(json, content, &it);) {
    if (ctxp_json_type(json, it) == CTXP_JSON_STRING)
      add_string(json, it, sum);
    else
      ctxp_content_block(json, it, sum);
  }
}

uint64_t ctxp_content_call_pieces(struct ctxp_json *json, uint32_t name, uint32_t arguments) {
  return ctxp_pieces(ctxp_json_text(json, name)) + ctxp_pieces(ctxp_json_source(json, arguments)) + 2 * CTXP_PIECES_REPLY_TEXT;
}

int ctxp_content_text(struct ctxp_json *scratch, struct ctxp_str source, struct ctxp_buf *out) {
  ctxp_buf_reset(out);
  if (source.len >= 2 && source.ptr[0] == '"') {
    ctxp_json_unescape((struct ctxp_str){source.ptr + 1, source.len - 2}, out);
    return ctxp_buf_error(out);
  }
  if (source.len == 0) return 0;
  int r = ctxp_json_load(scratch, source, NULL);
  if (r < 0) return r == -ENOMEM ? r : 0; /* the file changed since it was indexed */
  bool first = true;
  for (uint32_t it = 0; ctxp_json_each(scratch, 0, &it);) {
    uint32_t text = ctxp_json_type(scratch, it) == CTXP_JSON_STRING ? it : ctxp_json_get(scratch, it, "text");
    if (ctxp_json_type(scratch, text) != CTXP_JSON_STRING) continue;
    if (!first) ctxp_buf_char(out, '\n');
    first = false;
    ctxp_json_unescape(ctxp_json_escaped(scratch, text), out);
  }
  return ctxp_buf_error(out);
}

static const struct { struct ctxp_str from, to; } arguments[] = {
    {{"command", 7}, {"command", 7}},
    {{"file_path", 9}, {"path", 4}},
    {{"path", 4}, {"path", 4}},
    {{"notebook_path", 13}, {"path", 4}},
    {{"content", 7}, {"content", 7}},
    {{"pattern", 7}, {"pattern", 7}},
    {{"query", 5}, {"query", 5}},
    {{"url", 3}, {"url", 3}},
    {{"offset", 6}, {"offset", 6}},
    {{"limit", 5}, {"limit", 5}},
    {{"glob", 4}, {"glob", 4}},
    {{"skill", 5}, {"skill", 5}},
};
#define ARGUMENTS (sizeof(arguments) / sizeof(arguments[0]))

uint32_t ctxp_content_path(struct ctxp_json *json, uint32_t object) {
  static const struct ctxp_str keys[] = {{"path", 4}, {"file_path", 9}, {"notebook_path", 13}};
  uint32_t at[3];
  ctxp_json_pick(json, object, keys, 3, at);
  for (unsigned i = 0; i < 3; i++)
    if (ctxp_json_type(json, at[i]) == CTXP_JSON_STRING) return at[i];
  return CTXP_JSON_NONE;
}

int ctxp_content_input(struct ctxp_json *scratch, struct ctxp_str source, struct ctxp_buf *out) {
  struct ctxp_str key;
  uint32_t pairs = 0;
  int r = ctxp_json_load(scratch, source, NULL);
  if (r == -ENOMEM) return r;
  size_t mark = ctxp_pack_map_open(out);
  for (uint32_t it = 0; r == 0 && ctxp_json_member(scratch, 0, &it, &key);) {
    enum ctxp_json_type type = ctxp_json_type(scratch, it);
    if (type == CTXP_JSON_OBJECT || type == CTXP_JSON_ARRAY) continue;
    for (size_t i = 0; i < ARGUMENTS; i++) {
      if (!ctxp_str_eq(key, arguments[i].from)) continue;
      size_t before = out->len;
      ctxp_pack_str(out, arguments[i].to);
      if (ctxp_json_pack(scratch, it, out, NULL) < 0)
        out->len = before;
      else
        pairs++;
      break;
    }
  }
  ctxp_pack_close(out, mark, pairs);
  return scratch->failed ? -ENOMEM : ctxp_buf_error(out);
}
