#include <stdio.h>
#include "mechanisms/fact.h"

enum { LOOK_UNITS = 2000,
  TEXT_UNITS = 160,
  NAME_UNITS = 80,
  COMMENT_MIN_UNITS = 5,
  DOTS = 3,
  WHAT_MIN_UNITS = 4 };

#define DASH " \xe2\x80\x94 " /* U+2014, three units with its blanks */
enum { DASH_UNITS = 3 };

static struct ctxp_str from(struct ctxp_str s, size_t at) { return (struct ctxp_str){s.ptr + at, s.len - at}; }

/* the first line: up to a CR or LF */
static struct ctxp_str first_line(struct ctxp_str s) {
  size_t n = 0;
  while (n < s.len && s.ptr[n] != '\n' && s.ptr[n] != '\r') n++;
  return (struct ctxp_str){s.ptr, n};
}

/* takes the next line off; false: at the end */
static bool next_line(struct ctxp_str *rest, struct ctxp_str *ret_line) {
  if (!rest->len) return false;
  const char *end = memchr(rest->ptr, '\n', rest->len);
  size_t n = end ? (size_t)(end - rest->ptr) : rest->len;
  *ret_line = first_line((struct ctxp_str){rest->ptr, n});
  *rest = from(*rest, end ? n + 1 : n);
  return true;
}

/* the first line of the first """ or ''' text that is not too long */
static struct ctxp_str docstring(struct ctxp_str s) {
  for (size_t i = 0; i + 3 <= s.len; i++) {
    if ((s.ptr[i] != '"' && s.ptr[i] != '\'') || s.ptr[i + 1] != s.ptr[i] || s.ptr[i + 2] != s.ptr[i]) continue;
    size_t end = ctxp_str_find(s, (struct ctxp_str){s.ptr + i, 3}, i + 3);
    if (end == SIZE_MAX) break;
    struct ctxp_str text = {s.ptr + i + 3, end - i - 3};
    if (ctxp_utf16_units(text) <= TEXT_UNITS) return ctxp_js_trim(first_line(text));
    i = end + 2;
  }
  return (struct ctxp_str){0};
}

static bool directive(struct ctxp_str line) {
  static const char *const names[] = {
      "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error", "warning", "pragma", "line"};
  size_t at = 1, end;
  while (at < line.len && (line.ptr[at] == ' ' || line.ptr[at] == '\t')) at++;
  for (end = at; end < line.len && line.ptr[end] >= 'a' && line.ptr[end] <= 'z';) end++;
  struct ctxp_str word = {line.ptr + at, end - at};
  bool spaced = at > 1; /* `# if this fails` is a comment, `#if` is not */
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (ctxp_str_is(word, names[i])) return !spaced;
  return false;
}

/* the first line with text of a block comment that begins here, its stars taken off */
static struct ctxp_str block_comment(struct ctxp_str s) {
  size_t end = ctxp_str_find(s, CTXP_STR("*/"), 2);
  struct ctxp_str body = {s.ptr + 2, (end == SIZE_MAX ? s.len : end) - 2}, line;
  while (next_line(&body, &line)) {
    line = ctxp_js_trim(line);
    while (line.len && line.ptr[0] == '*') line = from(line, 1);
    line = ctxp_js_trim(line);
    if (line.len) return line;
  }
  return (struct ctxp_str){0};
}

static struct ctxp_str comment(struct ctxp_str s) {
  struct ctxp_str rest = s, line, text = {0};
  for (const char *at = s.ptr; next_line(&rest, &line); at = rest.ptr) {
    if (line.len && line.ptr[0] == '#') {
      if (ctxp_str_starts(line, "#!") || directive(line) || ctxp_utf16_units(line) - 1 < COMMENT_MIN_UNITS) continue;
      text = ctxp_js_trim(from(line, 1));
    } else if (ctxp_str_starts(line, "//")) {
      text = ctxp_js_trim(from(line, 2));
    } else if (ctxp_str_starts(line, "/*")) {
      text = block_comment(from(s, (size_t)(at - s.ptr)));
    }
    if (text.len) return ctxp_js_trim(ctxp_utf16_prefix(text, TEXT_UNITS));
  }
  return text;
}

static bool name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || (c & 0x80);
}

static struct ctxp_str signature(struct ctxp_str s) {
  static const char *const words[] = {"class", "def", "const", "export", "function", "async"};
  struct ctxp_str line;
  while (next_line(&s, &line)) {
    line = ctxp_js_trim(line);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
      if (!ctxp_str_starts(line, words[i])) continue;
      size_t word = strlen(words[i]), name = word, end;
      while (name < line.len && (line.ptr[name] == ' ' || line.ptr[name] == '\t')) name++;
      for (end = name; end < line.len && name_byte(line.ptr[end]);) end++;
      if (name == word || end == name) continue;
      return ctxp_js_trim((struct ctxp_str){line.ptr, end + ctxp_utf16_prefix(from(line, end), NAME_UNITS).len});
    }
  }
  return (struct ctxp_str){0};
}

struct ctxp_str ctxp_fact_describe(struct ctxp_str content) {
  struct ctxp_str head = ctxp_utf16_prefix(content, LOOK_UNITS);
  struct ctxp_str what = docstring(head);
  if (!what.len) what = comment(head);
  return what.len ? what : signature(head);
}

/* the end of s, at most that many units */
static struct ctxp_str utf16_suffix(struct ctxp_str s, size_t units) {
  size_t all = ctxp_utf16_units(s);
  if (all <= units) return s;
  struct ctxp_str cut = ctxp_utf16_prefix(s, all - units);
  if (ctxp_utf16_units(cut) < all - units) { /* the limit is inside a pair: the whole character goes */
    cut.len += ctxp_utf8_sequence(s.ptr + cut.len, s.len - cut.len);
  }
  return from(s, cut.len);
}

void ctxp_fact_one_line(struct ctxp_str s, struct ctxp_buf *out) {
  bool blank = true; /* none at the start */
  for (size_t i = 0; i < s.len;) {
    unsigned n = ctxp_utf8_sequence(s.ptr + i, s.len - i);
    uint32_t c = ' ';
    if (n) ctxp_utf8_decode(s.ptr + i, &c);
    bool space = c < ' ' || c == 0x7f || ctxp_js_space(c);
    if (space && !blank) ctxp_buf_char(out, ' ');
    if (!space) ctxp_buf_add(out, s.ptr + i, n);
    blank = space;
    i += n ? n : 1;
  }
  if (blank && out->len && out->ptr[out->len - 1] == ' ') out->len--;
}

void ctxp_fact_line(struct ctxp_str path, struct ctxp_str what, struct ctxp_str content, struct ctxp_buf *out) {
  ctxp_auto_buf path_line = {0}, what_line = {0};
  char tail[40];
  ctxp_fact_one_line(path, &path_line);
  ctxp_fact_one_line(what, &what_line);
  path = ctxp_buf_view(&path_line);
  what = ctxp_buf_view(&what_line);
  size_t fixed =
      strlen("[Wrote ") + (size_t)snprintf(tail, sizeof(tail), ", ~%llu lines]", (unsigned long long)ctxp_str_count(content, '\n') + 1);
  size_t room = CTXP_FACT_UNITS - fixed, path_units = ctxp_utf16_units(path), what_units = ctxp_utf16_units(what);
  bool cut = what.len && path_units + DASH_UNITS + what_units > room;
  if (cut && room < path_units + DASH_UNITS + WHAT_MIN_UNITS) what.len = 0;
  ctxp_buf_str(out, "[Wrote ");
  if (path_units > room) {
    ctxp_buf_str(out, "...");
    path = utf16_suffix(path, room - DOTS);
  }
  ctxp_buf_add(out, path.ptr, path.len);
  if (what.len) {
    ctxp_buf_str(out, DASH);
    if (cut) what = ctxp_utf16_prefix(what, room - path_units - DASH_UNITS - DOTS);
    ctxp_buf_add(out, what.ptr, what.len);
    if (cut) ctxp_buf_str(out, "...");
  }
  ctxp_buf_str(out, tail);
  if (path_line.failed || what_line.failed) out->failed = true;
}
