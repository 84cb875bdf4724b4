#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "config/faults.h"

#define FAULTS_MAX 200 /* a file with more is not this kind of file at all */
#define NAME_MAX_COMPARED 64

static bool grow(struct ctxp_faults *faults) {
  if (faults->count < faults->cap) return true;
  size_t cap = faults->cap ? faults->cap * 2 : 16;
  struct ctxp_fault_line *lines = realloc(faults->lines, cap * sizeof(*lines));
  if (!lines) return false;
  faults->lines = lines;
  faults->cap = cap;
  return true;
}

void ctxp_faults_add(struct ctxp_faults *faults, struct ctxp_place place, const char *format, ...) {
  if (faults->count >= FAULTS_MAX) {
    faults->more++;
    return;
  }
  ctxp_auto_buf text = {0};
  if (faults->node.len) ctxp_buf_printf(&text, "%s '%s': ", faults->noun ? faults->noun : "node", ctxp_shown(faults->node).text);
  char sentence[1200];
  va_list args;
  va_start(args, format);
  int len = vsnprintf(sentence, sizeof(sentence), format, args);
  va_end(args);
  ctxp_buf_str(&text, len < 0 ? "a fault that cannot be shown" : sentence);
  char *copy = text.failed ? NULL : ctxp_str_dup(ctxp_buf_view(&text));
  if (!copy || !grow(faults)) {
    free(copy);
    faults->failed = true;
    return;
  }
  faults->lines[faults->count++] = (struct ctxp_fault_line){place, copy};
}

static bool after(struct ctxp_place a, struct ctxp_place b) { return a.line != b.line ? a.line > b.line : a.column > b.column; }

/* insertion keeps the order of finding among equals; the count is bounded */
static void sort(struct ctxp_faults *faults) {
  for (size_t i = 1; i < faults->count; i++) {
    struct ctxp_fault_line line = faults->lines[i];
    size_t at = i;
    for (; at > 0 && after(faults->lines[at - 1].place, line.place); at--) faults->lines[at] = faults->lines[at - 1];
    faults->lines[at] = line;
  }
}

void ctxp_faults_write(struct ctxp_faults *faults, struct ctxp_buf *out) {
  sort(faults);
  for (size_t i = 0; i < faults->count; i++) {
    const struct ctxp_fault_line *line = &faults->lines[i];
    ctxp_buf_str(out, faults->file);
    if (line->place.line) ctxp_buf_printf(out, ":%u:%u", line->place.line, line->place.column);
    ctxp_buf_printf(out, ": %s\n", line->text);
  }
  if (faults->more) ctxp_buf_printf(out, "%s: %zu more faults\n", faults->file, faults->more);
}

int ctxp_faults_error(const struct ctxp_faults *faults) { return faults->failed ? -ENOMEM : faults->count ? -EINVAL :
                                                                                                            0; }

void ctxp_faults_deinit(struct ctxp_faults *faults) {
  for (size_t i = 0; i < faults->count; i++) free(faults->lines[i].text);
  free(faults->lines);
  *faults = (struct ctxp_faults){0};
}

struct ctxp_shown ctxp_shown(struct ctxp_str text) {
  struct ctxp_shown shown = {{0}};
  size_t len = 0, at = 0;
  while (at < text.len) {
    unsigned n = ctxp_utf8_sequence(text.ptr + at, text.len - at);
    if (len + (n ? n : 1) > sizeof(shown.text) - 5) { /* room for the dots and the NUL */
      memcpy(shown.text + len, "...", 4);
      return shown;
    }
    unsigned char c = (unsigned char)text.ptr[at];
    if (n <= 1) {
      shown.text[len++] = n == 0 || c < 0x20 || c == 0x7f ? '?' : (char)c;
    } else if (n == 2 && c == 0xc2 && (unsigned char)text.ptr[at + 1] < 0xa0) { /* C1 controls */
      shown.text[len++] = '?';
    } else {
      memcpy(shown.text + len, text.ptr + at, n);
      len += n;
    }
    at += n ? n : 1;
  }
  return shown;
}

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

/* optimal string alignment distance, three rows of the table at a time */
static unsigned distance(struct ctxp_str a, struct ctxp_str b) {
  unsigned rows[3][NAME_MAX_COMPARED + 1];
  for (unsigned j = 0; j <= b.len; j++) rows[0][j] = j;
  for (unsigned i = 1; i <= a.len; i++) {
    unsigned *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
    now[0] = i;
    for (unsigned j = 1; j <= b.len; j++) {
      unsigned cost = a.ptr[i - 1] != b.ptr[j - 1];
      now[j] = least(least(before[j] + 1, now[j - 1] + 1), before[j - 1] + cost);
      if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1]) now[j] = least(now[j], earlier[j - 2] + 1);
    }
  }
  return rows[a.len % 3][b.len];
}

static bool holds(struct ctxp_str a, struct ctxp_str b) { return b.len >= 3 && ctxp_str_find(a, b, 0) != SIZE_MAX; }

const char *ctxp_nearest(struct ctxp_str name, const char *const *names) {
  const char *best = NULL;
  unsigned best_distance = 0;
  if (name.len == 0 || name.len > NAME_MAX_COMPARED) return NULL;
  for (; *names; names++) {
    struct ctxp_str known = ctxp_str(*names);
    if (known.len > NAME_MAX_COMPARED) continue;
    unsigned far = distance(name, known), limit = (unsigned)(known.len > name.len ? known.len : name.len) / 3;
    bool near = far <= (limit ? limit : 1) && far < known.len;
    if (!near && !holds(known, name) && !holds(name, known)) continue;
    if (!best || far < best_distance) {
      best = *names;
      best_distance = far;
    }
  }
  return best;
}

struct ctxp_hint ctxp_hint(struct ctxp_str name, const char *const *names, const char *lead) {
  struct ctxp_hint hint = {{0}};
  const char *near = ctxp_nearest(name, names);
  if (near) {
    snprintf(hint.text, sizeof(hint.text), "; did you mean '%s'?", near);
    return hint;
  }
  size_t len = (size_t)snprintf(hint.text, sizeof(hint.text), "; %s:%s", lead, *names ? "" : " none");
  for (const char *sep = " "; *names; names++, sep = ", ") {
    size_t need = strlen(sep) + strlen(*names);
    if (len + need > sizeof(hint.text) - 6) {
      memcpy(hint.text + len, ", ...", 6);
      break;
    }
    len += (size_t)snprintf(hint.text + len, sizeof(hint.text) - len, "%s%s", sep, *names);
  }
  return hint;
}
