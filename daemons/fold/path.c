#include "fold/path.h"

static bool absolute(struct ctxp_str p) { return p.len && p.ptr[0] == '/'; }

/* the last part of what is in the buffer */
static struct ctxp_str last_part(const struct ctxp_buf *buf) {
  size_t cut = buf->len;
  while (cut && buf->ptr[cut - 1] != '/') cut--;
  return ctxp_buf_from(buf, cut);
}

/* `..` takes a part away; above the root is the root; a relative path keeps those that it begins with */
static void add_part(struct ctxp_buf *buf, struct ctxp_str part, bool rooted) {
  if (part.len == 0 || ctxp_str_is(part, ".")) return;
  if (ctxp_str_is(part, "..")) {
    struct ctxp_str last = last_part(buf);
    if (rooted && buf->len == 0) return;
    if (buf->len && !ctxp_str_is(last, "..")) {
      buf->len -= last.len;
      if (buf->len) buf->len--; /* the slash before it */
      return;
    }
  }
  if (buf->len || rooted) ctxp_buf_char(buf, '/');
  ctxp_buf_add(buf, part.ptr, part.len);
}

static void add_parts(struct ctxp_buf *buf, struct ctxp_str path, bool rooted) {
  for (size_t at = 0, end; at < path.len; at = end + 1) {
    for (end = at; end < path.len && path.ptr[end] != '/';) end++;
    add_part(buf, (struct ctxp_str){path.ptr + at, end - at}, rooted);
  }
}

struct ctxp_str ctxp_fold_path(struct ctxp_str path, struct ctxp_str cwd, struct ctxp_buf *buf) {
  bool rooted = absolute(path) || absolute(cwd);
  ctxp_buf_reset(buf);
  if (!absolute(path) && absolute(cwd)) add_parts(buf, cwd, true);
  add_parts(buf, path, rooted);
  return buf->len ? ctxp_buf_view(buf) : path;
}
