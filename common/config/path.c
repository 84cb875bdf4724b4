#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "config/faults.h"
#include "config/path.h"

#define NAME_BYTES 64

static bool name_char(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

static const char *variable(struct ctxp_str name) {
  char text[NAME_BYTES];
  if (name.len >= sizeof(text)) return NULL;
  memcpy(text, name.ptr, name.len);
  text[name.len] = 0;
  const char *value = getenv(text);
  return value && *value ? value : NULL;
}

/* `~` alone or before a slash, at the start of the path */
static int expand_home(struct ctxp_str text, struct ctxp_buf *out, size_t *at, struct ctxp_error *why) {
  if (*at >= text.len || text.ptr[*at] != '~') return 0;
  if (*at + 1 < text.len && text.ptr[*at + 1] != '/')
    return ctxp_error_set(why, -EINVAL, "'~' stands alone or before '/'; another user's home is not looked up");
  const char *home = variable(CTXP_STR("HOME"));
  if (!home) return ctxp_error_set(why, -EINVAL, "'~' cannot be replaced, because HOME is not set; write an absolute path");
  ctxp_buf_str(out, home);
  (*at)++;
  return 0;
}

/* `inside`: what stands between the braces */
static int expand_variable(struct ctxp_str inside, bool at_start, struct ctxp_buf *out, struct ctxp_error *why) {
  struct ctxp_str name = {inside.ptr, 0};
  while (name.len < inside.len && name_char(inside.ptr[name.len])) name.len++;
  struct ctxp_str rest = {inside.ptr + name.len, inside.len - name.len};
  bool digit = name.len && name.ptr[0] >= '0' && name.ptr[0] <= '9';
  if (name.len == 0 || digit || name.len >= NAME_BYTES || (rest.len && !ctxp_str_starts(rest, ":-")))
    return ctxp_error_set(why, -EINVAL, "'${%s}' is not a variable; write ${NAME} or ${NAME:-text}", ctxp_shown(inside).text);
  const char *value = variable(name);
  if (value) {
    ctxp_buf_str(out, value);
    return 0;
  }
  if (rest.len == 0) {
    struct ctxp_shown shown = ctxp_shown(name);
    return ctxp_error_set(why, -EINVAL, "variable %s is not set; set it, or write ${%s:-text}", shown.text, shown.text);
  }
  struct ctxp_str otherwise = {rest.ptr + 2, rest.len - 2};
  size_t from = 0;
  if (memchr(otherwise.ptr, '$', otherwise.len))
    return ctxp_error_set(why, -EINVAL, "the text of '${%s}' holds a '$'; only plain text can stand there", ctxp_shown(inside).text);
  int err = at_start ? expand_home(otherwise, out, &from, why) : 0;
  if (err == 0) ctxp_buf_add(out, otherwise.ptr + from, otherwise.len - from);
  return err;
}

static int expand_dollar(struct ctxp_str text, struct ctxp_buf *out, size_t *at, bool at_start, struct ctxp_error *why) {
  struct ctxp_str rest = {text.ptr + *at, text.len - *at};
  if (ctxp_str_starts(rest, "$$")) {
    ctxp_buf_char(out, '$');
    *at += 2;
    return 0;
  }
  if (!ctxp_str_starts(rest, "${")) return ctxp_error_set(why, -EINVAL, "a lone '$'; write ${NAME} for a variable, $$ for a dollar sign");
  size_t end = ctxp_str_find(rest, CTXP_STR("}"), 0);
  if (end == SIZE_MAX) return ctxp_error_set(why, -EINVAL, "'${' without '}'");
  *at += end + 1;
  return expand_variable((struct ctxp_str){rest.ptr + 2, end - 2}, at_start, out, why);
}

int ctxp_path_expand(struct ctxp_str text, struct ctxp_buf *out, struct ctxp_error *why) {
  size_t at = 0, start = out->len;
  int err = expand_home(text, out, &at, why);
  while (err == 0 && at < text.len) {
    if (text.ptr[at] == '$')
      err = expand_dollar(text, out, &at, out->len == start, why);
    else
      ctxp_buf_char(out, text.ptr[at++]);
  }
  if (err < 0) return err;
  if (out->failed) return -ENOMEM;
  struct ctxp_str whole = ctxp_buf_from(out, start);
  if (whole.len == 0) return ctxp_error_set(why, -EINVAL, "an empty path");
  if (!ctxp_utf8_valid(whole))
    return ctxp_error_set(why, -EINVAL, "'%s' is not UTF-8 after its variables were replaced", ctxp_shown(whole).text);
  if (memchr(whole.ptr, '\n', whole.len)) return ctxp_error_set(why, -EINVAL, "'%s' holds a line break", ctxp_shown(whole).text);
  return 0;
}

/* Takes the last part off, but nothing of the first `floor` bytes. false: there is none above it. */
static bool up(struct ctxp_buf *out, size_t floor) {
  if (out->len <= floor) return false;
  while (out->ptr[out->len - 1] != '/') out->len--;
  out->len--;
  return true;
}

/* Appends the parts of `path`, each with a slash before it; false: it climbs above `floor`. Above the root there is the root. */
static bool add_parts(struct ctxp_str path, size_t floor, bool absolute, struct ctxp_buf *out) {
  for (size_t at = 0; at < path.len;) {
    size_t end = ctxp_str_find(path, CTXP_STR("/"), at);
    if (end == SIZE_MAX) end = path.len;
    struct ctxp_str part = {path.ptr + at, end - at};
    at = end + 1;
    if (part.len == 0 || ctxp_str_is(part, ".")) continue;
    if (!ctxp_str_is(part, "..")) {
      ctxp_buf_char(out, '/');
      ctxp_buf_add(out, part.ptr, part.len);
    } else if (!out->failed && !up(out, floor) && !absolute) {
      return false;
    }
  }
  return true;
}

int ctxp_path_resolve(struct ctxp_str text, const char *base, const char *under, struct ctxp_buf *out, struct ctxp_error *why) {
  ctxp_auto_buf path = {0};
  int err = ctxp_path_expand(text, &path, why);
  if (err < 0) return err;
  struct ctxp_str whole = ctxp_buf_view(&path);
  bool absolute = whole.ptr[0] == '/';
  size_t start = out->len;
  if (!absolute) ctxp_buf_str(out, strcmp(base, "/") == 0 ? "" : base);
  size_t floor = out->len;
  if (!add_parts(whole, floor, absolute, out)) {
    out->len = start;
    return ctxp_error_set(why, -EINVAL, "'%s' leaves %s; write an absolute path for a place outside it", ctxp_shown(whole).text, under);
  }
  if (!absolute && out->len == floor && floor > start) return ctxp_buf_error(out); /* the base itself */
  if (out->len == start) ctxp_buf_char(out, '/');
  return ctxp_buf_error(out);
}

int ctxp_path_locate(const char *file, char **ret_file, char **ret_dir) {
  ctxp_auto_buf path = {0};
  if (file[0] != '/') {
    ctxp_auto_free char *cwd = getcwd(NULL, 0);
    if (!cwd) return -errno;
    if (strcmp(cwd, "/") != 0) ctxp_buf_str(&path, cwd);
  }
  add_parts(ctxp_str(file), 0, true, &path);
  if (path.failed) return -ENOMEM;
  size_t len = path.len;
  while (len > 0 && path.ptr[len - 1] != '/') len--;
  ctxp_auto_free char *whole = path.len ? ctxp_str_dup(ctxp_buf_view(&path)) : strdup("/");
  char *dir = len > 1 ? ctxp_str_dup((struct ctxp_str){(const char *)path.ptr, len - 1}) : strdup("/");
  if (!whole || !dir) {
    free(dir);
    return -ENOMEM;
  }
  *ret_file = ctxp_steal(&whole);
  *ret_dir = dir;
  return 0;
}

void ctxp_path_escape(struct ctxp_str path, struct ctxp_buf *out) {
  for (size_t i = 0; i < path.len; i++) {
    if (path.ptr[i] == '$') ctxp_buf_char(out, '$');
    ctxp_buf_char(out, path.ptr[i]);
  }
}
