#include <errno.h>
#include "mechanisms/digest_json.h"

enum { LONG_LINE = 400, /* bytes of a line, on average, from which on it is laid out */
  WIDTH = 160, /* of an object or array that stays on one line */
  INDENT_MAX = 6,
  DEPTH_MAX = 200 };

struct layout {
  struct ctxp_str text;
  size_t at;
  struct ctxp_buf *out;
  char open[DEPTH_MAX];
  unsigned depth;
  bool value; /* something stands on the line */
};

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* the end of the string that begins there; 0: it does not end */
static size_t string_end(struct ctxp_str s, size_t at) {
  for (size_t i = at + 1; i < s.len; i++) {
    if (s.ptr[i] == '\\')
      i++;
    else if (s.ptr[i] == '"')
      return i + 1;
    else if ((unsigned char)s.ptr[i] < 0x20)
      return 0;
  }
  return 0;
}

/* the end of the object or array that begins there if it is a small one, or 0 */
static size_t small_end(struct ctxp_str s, size_t at) {
  struct ctxp_str piece = {s.ptr, s.len - at > WIDTH ? at + WIDTH : s.len};
  unsigned depth = 0;
  for (size_t i = at; i < piece.len;) {
    char c = piece.ptr[i];
    if (c == '"') {
      if (!(i = string_end(piece, i))) return 0;
      continue;
    }
    if (c == '{' || c == '[') depth++;
    if ((c == '}' || c == ']') && --depth == 0) return i + 1;
    if (c == '\n') return 0;
    i++;
  }
  return 0;
}

static void new_line(struct layout *l) {
  ctxp_buf_char(l->out, '\n');
  for (unsigned i = 0; i < l->depth && i < INDENT_MAX; i++) ctxp_buf_char(l->out, ' ');
}

static void copy_to(struct layout *l, size_t end) {
  ctxp_buf_add(l->out, l->text.ptr + l->at, end - l->at);
  l->at = end;
  l->value = true;
}

/* 1: it is none of JSON's */
static int open_bracket(struct layout *l) {
  size_t end = small_end(l->text, l->at);
  if (end) return copy_to(l, end), 0;
  if (l->depth == DEPTH_MAX) return 1;
  l->open[l->depth] = l->text.ptr[l->at];
  copy_to(l, l->at + 1);
  l->depth++;
  new_line(l);
  return 0;
}

static int close_bracket(struct layout *l) {
  if (!l->depth || (l->text.ptr[l->at] == '}') != (l->open[l->depth - 1] == '{')) return 1;
  l->depth--;
  new_line(l);
  copy_to(l, l->at + 1);
  return 0;
}

/* true, null, a number */
static int word(struct layout *l) {
  size_t end = l->at;
  while (end < l->text.len && !is_space(l->text.ptr[end]) && !strchr(",:{}[]\"", l->text.ptr[end])) end++;
  for (size_t i = l->at; i < end; i++)
    if (!strchr("truefalsn0123456789+-.E", l->text.ptr[i])) return 1;
  return end == l->at ? 1 : (copy_to(l, end), 0);
}

static int token(struct layout *l) {
  char c = l->text.ptr[l->at];
  if (!l->depth && c != '{' && c != '[') return 1; /* documents of nothing but a value are not laid out */
  if (!l->depth && l->value) new_line(l);
  size_t end;
  switch (c) {
  case '{':
  case '[': return open_bracket(l);
  case '}':
  case ']': return close_bracket(l);
  case '"':
    if (!(end = string_end(l->text, l->at))) return 1;
    return copy_to(l, end), 0;
  case ',':
    copy_to(l, l->at + 1);
    new_line(l);
    return 0;
  case ':':
    copy_to(l, l->at + 1);
    ctxp_buf_char(l->out, ' ');
    return 0;
  default: return word(l);
  }
}

int ctxp_digest_json(struct ctxp_str text, struct ctxp_buf *out) {
  size_t before = out->len;
  struct layout l = {.text = text, .out = out};
  int r = 0;
  if (ctxp_str_lines(text) > text.len / LONG_LINE) return 1;
  while (r == 0 && l.at < text.len) {
    if (is_space(text.ptr[l.at]))
      l.at++;
    else
      r = token(&l);
  }
  if (out->failed) return -ENOMEM;
  if (r == 0 && l.depth == 0 && out->len > before) return 0;
  out->len = before;
  return 1;
}
