#include <stdio.h>
#include "base/str.h"
#include "feeders/opencode_store.h"

void opencode_quote(struct ctxp_buf *out, struct ctxp_str text) {
  ctxp_buf_char(out, '"');
  for (size_t i = 0; i < text.len; i++) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c == '"' || c == '\\')
      ctxp_buf_char(out, '\\'), ctxp_buf_char(out, (char)c);
    else if (c < 0x20)
      ctxp_buf_printf(out, "\\u%04x", c);
    else
      ctxp_buf_char(out, (char)c);
  }
  ctxp_buf_char(out, '"');
}

void opencode_compact(struct ctxp_str source, struct ctxp_buf *out) {
  bool quoted = false;
  for (size_t i = 0, from = 0; i <= source.len; i++) {
    char c = i < source.len ? source.ptr[i] : ' ';
    if (quoted && c == '\\') {
      i++;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      if (i > from) ctxp_buf_add(out, source.ptr + from, i - from);
      from = i + 1;
    }
  }
}

/* the object, its id behind what it has itself: of equal keys the last counts */
static bool add_object(struct opencode_text *text, struct ctxp_str id, struct ctxp_str object) {
  object = ctxp_js_trim(object);
  if (ctxp_json_load(text->json, object, NULL) < 0 || ctxp_json_type(text->json, 0) != CTXP_JSON_OBJECT) {
    text->bad++;
    return false;
  }
  opencode_compact((struct ctxp_str){object.ptr, object.len - 1}, text->out);
  ctxp_buf_str(text->out, ctxp_json_size(text->json, 0) ? ",\"id\":" : "\"id\":");
  opencode_quote(text->out, id);
  ctxp_buf_char(text->out, '}');
  return true;
}

void opencode_text_begin(struct opencode_text *text, struct ctxp_str info) {
  text->messages = text->parts = text->bad = 0;
  text->open = false;
  ctxp_buf_reset(text->out);
  ctxp_buf_str(text->out, "{\"info\":");
  opencode_compact(info, text->out);
  ctxp_buf_str(text->out, ",\"messages\":[");
}

void opencode_text_message(struct opencode_text *text, struct ctxp_str id, struct ctxp_str object) {
  size_t mark = text->out->len;
  ctxp_buf_str(text->out, text->messages ? "]},{\"info\":" : "{\"info\":");
  text->open = add_object(text, id, object);
  if (text->open) {
    ctxp_buf_str(text->out, ",\"parts\":[");
    text->messages++;
    text->parts = 0;
  } else {
    text->out->len = mark;
  }
}

void opencode_text_part(struct opencode_text *text, struct ctxp_str id, struct ctxp_str object) {
  size_t mark = text->out->len;
  if (!text->open) return;
  if (text->parts) ctxp_buf_char(text->out, ',');
  if (add_object(text, id, object))
    text->parts++;
  else
    text->out->len = mark;
}

void opencode_text_end(struct opencode_text *text) { ctxp_buf_str(text->out, text->messages ? "]}]}" : "]}"); }
