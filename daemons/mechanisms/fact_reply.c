/* What a model says a file is, taken out of a reply that should be a fact line and may be anything. */
#include "mechanisms/engine.h"
#include "mechanisms/fact.h"

static struct ctxp_str from(struct ctxp_str s, size_t at) { return (struct ctxp_str){s.ptr + at, s.len - at}; }

/* behind PATH and a dash; of another path behind the first dash; empty: there is none */
static struct ctxp_str behind_path(struct ctxp_str s, struct ctxp_str path) {
  static const char *const dashes[] = {" \xe2\x80\x94 ", " \xe2\x80\x93 ", " - "};
  size_t first = SIZE_MAX, len = 0;
  s = ctxp_js_trim(s);
  if (path.len && s.len > path.len && memcmp(s.ptr, path.ptr, path.len) == 0) {
    for (size_t i = 0; i < 3; i++)
      if (ctxp_str_starts(from(s, path.len), dashes[i])) return from(s, path.len + strlen(dashes[i]));
  }
  for (size_t i = 0; i < 3; i++) {
    size_t at = ctxp_str_find(s, ctxp_str(dashes[i]), 0);
    if (at < first) first = at, len = strlen(dashes[i]);
  }
  if (first == SIZE_MAX) return (struct ctxp_str){0};
  return from(s, first + len);
}

/* without ", ~M lines" at its end */
static struct ctxp_str without_count(struct ctxp_str s) {
  size_t at;
  s = ctxp_js_trim(s);
  if (!ctxp_str_ends(s, " lines")) return s;
  for (at = s.len - 6; at && s.ptr[at - 1] >= '0' && s.ptr[at - 1] <= '9';) at--;
  if (at == s.len - 6 || at < 3 || memcmp(s.ptr + at - 3, ", ~", 3) != 0) return s;
  return ctxp_js_trim((struct ctxp_str){s.ptr, at - 3});
}

static bool is_wrapping(char c) { return strchr("\"'`[](){} ", c) != NULL && c; }

static struct ctxp_str unwrapped(struct ctxp_str s) {
  while (s.len && is_wrapping(s.ptr[0])) s = from(s, 1);
  while (s.len && is_wrapping(s.ptr[s.len - 1])) s.len--;
  return s;
}

struct ctxp_str ctxp_fact_from_reply(struct ctxp_str reply, struct ctxp_str path, struct ctxp_buf *room) {
  struct ctxp_str opener = CTXP_STR("[Wrote");
  ctxp_auto_buf path_line = {0};
  ctxp_buf_reset(room);
  ctxp_fact_one_line(ctxp_engine_unfence(reply), room);
  ctxp_fact_one_line(path, &path_line);
  if (path_line.failed) room->failed = true;
  struct ctxp_str s = ctxp_buf_view(room);
  size_t at = ctxp_str_find(s, opener, 0);
  if (at == SIZE_MAX) return without_count(unwrapped(s));
  s = from(s, at + opener.len);
  size_t next = ctxp_str_find(s, opener, 0);
  if (next != SIZE_MAX) s.len = next;
  const char *close = s.len ? memrchr(s.ptr, ']', s.len) : NULL;
  if (close) s.len = (size_t)(close - s.ptr);
  return without_count(behind_path(s, ctxp_buf_view(&path_line)));
}
