#include <errno.h>
#include "mechanisms/clean.h"

#define DISCARDED "[output discarded]"

struct note { /* [OPENER ... NEEDLE ...], `...` without a bracket that closes */
  const char *opener, *needle; /* needle: NULL for none */
  const char *by; /* what stands there then; NULL: the note up to the needle, closed */
};

static struct ctxp_str tidy(struct ctxp_str s) {
  while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '.')) s.len--;
  return s;
}

/* next position at or after `from`, looked for only when the last one is passed: linear whatever the text holds */
static size_t next_at(struct ctxp_str s, const char *needle, size_t from, size_t *cached) {
  if (*cached == SIZE_MAX || *cached >= from) return *cached;
  return *cached = ctxp_str_find(s, ctxp_str(needle), from);
}

static void replace_notes(struct ctxp_str s, const struct note *note, struct ctxp_buf *out) {
  size_t from = 0, at = ctxp_str_find(s, ctxp_str(note->opener), 0), len = strlen(note->opener), no_close = 0, no_hit = 0;
  size_t *close_at = &no_close, *hit_at = &no_hit;
  *close_at = ctxp_str_find(s, CTXP_STR("]"), 0);
  *hit_at = note->needle ? ctxp_str_find(s, ctxp_str(note->needle), 0) : 0;
  for (; at != SIZE_MAX; at = ctxp_str_find(s, ctxp_str(note->opener), at)) {
    size_t close = next_at(s, "]", at + len, close_at);
    size_t hit = note->needle ? next_at(s, note->needle, at + len, hit_at) : at;
    if (close == SIZE_MAX || hit == SIZE_MAX) break;
    if (hit > close) {
      at += len;
      continue;
    }
    ctxp_buf_add(out, s.ptr + from, at - from);
    if (note->by) {
      ctxp_buf_str(out, note->by);
    } else {
      struct ctxp_str kept = tidy((struct ctxp_str){s.ptr + at, hit - at});
      ctxp_buf_add(out, kept.ptr, kept.len);
      ctxp_buf_char(out, ']');
    }
    from = at = close + 1;
  }
  ctxp_buf_add(out, s.ptr + from, s.len - from);
}

/* "Full output saved to: PATH" outside of a bracket */
static void replace_bare(struct ctxp_str s, struct ctxp_buf *out) {
  struct ctxp_str opener = CTXP_STR("Full output saved to:");
  size_t from = 0, at = 0;
  uint32_t c;
  while ((at = ctxp_str_find(s, opener, at)) != SIZE_MAX) {
    size_t end = at + opener.len, path;
    while (end < s.len && s.ptr[end] == ' ') end++;
    for (path = end; end < s.len; end += ctxp_utf8_decode(s.ptr + end, &c))
      if (ctxp_utf8_decode(s.ptr + end, &c), ctxp_js_space(c)) break;
    if (end == path) {
      at = end;
      continue;
    }
    ctxp_buf_add(out, s.ptr + from, at - from);
    ctxp_buf_str(out, DISCARDED);
    from = at = end;
  }
  ctxp_buf_add(out, s.ptr + from, s.len - from);
}

int ctxp_clean_output(struct ctxp_str text, bool whole, struct ctxp_buf *room, struct ctxp_str *ret_text) {
  static const struct note notes[] = {{"[Output truncated:", "Full output saved to:", DISCARDED}, {"[Showing ", "Full output: ", NULL},
      {"[Showing ", "Full output: ", DISCARDED}};
  static const struct note truncated = {"[Output truncated:", NULL, ""};
  ctxp_auto_buf a = {0}, b = {0};
  *ret_text = text;
  if (ctxp_str_find(text, CTXP_STR("Output truncated:"), 0) == SIZE_MAX && ctxp_str_find(text, CTXP_STR("Full output"), 0) == SIZE_MAX)
    return 0;
  replace_notes(text, &notes[0], &a);
  replace_notes(ctxp_buf_view(&a), &notes[whole ? 2 : 1], &b);
  ctxp_buf_reset(&a);
  replace_bare(ctxp_buf_view(&b), &a);
  ctxp_buf_reset(room);
  replace_notes(ctxp_buf_view(&a), &truncated, room);
  if (a.failed || b.failed || room->failed) return -ENOMEM;
  *ret_text = ctxp_buf_view(room);
  return 0;
}

struct ctxp_tail ctxp_output_tail(struct ctxp_str text, uint64_t max_lines, uint64_t max_bytes) {
  struct ctxp_tail tail = {.content = text, .total_lines = ctxp_str_lines(text)};
  tail.lines = tail.total_lines;
  if (tail.total_lines <= max_lines && text.len <= max_bytes) return tail;
  size_t end = text.len && text.ptr[text.len - 1] == '\n' ? text.len - 1 : text.len, start = end, line = end;
  for (tail.lines = 0; tail.lines < max_lines; tail.lines++) { /* line: the start of the next one back */
    if (tail.lines && line == 0) break;
    if (tail.lines) line--; /* over its newline */
    while (line && text.ptr[line - 1] != '\n') line--;
    if (end - line > max_bytes) break;
    start = line;
  }
  if (tail.lines == 0 && max_lines) { /* not even the last line fits */
    start = end - (max_bytes < end ? (size_t)max_bytes : end);
    while (start < end && ((unsigned char)text.ptr[start] & 0xc0) == 0x80) start++;
    tail.lines = start < end;
  }
  tail.content = (struct ctxp_str){text.ptr + start, end - start};
  return tail;
}
