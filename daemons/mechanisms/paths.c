#include "base/str.h"
#include "mechanisms/paths.h"

/* takes the last component off what was appended from `start` on; false: there is none that can go */
static bool pop(struct ctxp_buf *out, size_t start) {
  size_t at = out->len;
  while (at > start && out->ptr[at - 1] != '/') at--;
  struct ctxp_str last = ctxp_buf_from(out, at);
  if (!last.len || ctxp_str_is(last, "..")) return false;
  out->len = at > start + 1 ? at - 1 : at; /* the root keeps its slash */
  return true;
}

static void walk(struct ctxp_str path, size_t start, struct ctxp_buf *out) {
  for (size_t i = 0; i < path.len;) {
    const char *slash = memchr(path.ptr + i, '/', path.len - i);
    size_t end = slash ? (size_t)(slash - path.ptr) : path.len;
    struct ctxp_str part = {path.ptr + i, end - i};
    i = end + 1;
    if (!part.len || ctxp_str_is(part, ".")) continue;
    bool rooted = out->len > start && out->ptr[start] == '/';
    if (ctxp_str_is(part, "..") && (pop(out, start) || rooted)) continue;
    if (out->len > start && out->ptr[out->len - 1] != '/') ctxp_buf_char(out, '/');
    ctxp_buf_add(out, part.ptr, part.len);
  }
}

void ctxp_path_normalise(struct ctxp_str cwd, struct ctxp_str path, struct ctxp_buf *out) {
  size_t start = out->len;
  bool absolute = path.len && path.ptr[0] == '/';
  if (absolute || (cwd.len && cwd.ptr[0] == '/')) ctxp_buf_char(out, '/');
  if (!absolute) walk(cwd, start, out);
  walk(path, start, out);
}
