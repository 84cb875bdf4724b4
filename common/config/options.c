/* Options of a stage from a MessagePack map: by table, defaults where the map is silent. */
#include <errno.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/topology.h"

/* offset of a text in the arena; the arena may move while it grows, so pointers are set at the end */
static int keep_text(struct ctxp_buf *arena, struct ctxp_str text, size_t *ret_at) {
  *ret_at = arena->len;
  ctxp_buf_add(arena, text.ptr, text.len);
  ctxp_buf_char(arena, 0);
  return ctxp_buf_error(arena);
}

static int choice(const struct ctxp_option *option, struct ctxp_str text, int *ret) {
  for (int i = 0; option->choices[i]; i++)
    if (ctxp_str_is(text, option->choices[i])) return *ret = i, 0;
  return -EINVAL;
}

static int fill_initial(const struct ctxp_option *option, void *at) {
  struct ctxp_str text = ctxp_str(option->initial);
  switch (option->type) {
  case CTXP_OPTION_BOOL: *(bool *)at = ctxp_str_is(text, "true"); return 0;
  case CTXP_OPTION_U64: *(uint64_t *)at = strtoull(option->initial, NULL, 10); return 0;
  case CTXP_OPTION_ENUM: return choice(option, text, at);
  case CTXP_OPTION_STRING: case CTXP_OPTION_PATH: *(const char **)at = option->initial; return 0;
  }
  return -EINVAL;
}

static int fill_given(const struct ctxp_option *option, struct ctxp_raw value, void *at, struct ctxp_buf *arena) {
  struct ctxp_pack_value v;
  struct ctxp_cursor c = ctxp_cursor(value);
  if (ctxp_cursor_next(&c, &v) < 0) return -EINVAL;
  switch (option->type) {
  case CTXP_OPTION_BOOL:
    if (v.type != CTXP_PACK_BOOL) return -EINVAL;
    *(bool *)at = v.b;
    return 0;
  case CTXP_OPTION_U64:
    if (v.type != CTXP_PACK_U64 || v.u < option->min || v.u > option->max) return -EINVAL;
    *(uint64_t *)at = v.u;
    return 0;
  case CTXP_OPTION_ENUM: return v.type == CTXP_PACK_STR ? choice(option, v.str, at) : -EINVAL;
  case CTXP_OPTION_STRING: case CTXP_OPTION_PATH:
    if (v.type != CTXP_PACK_STR) return -EINVAL;
    return keep_text(arena, v.str, (size_t *)at);
  }
  return -EINVAL;
}

static bool is_text(const struct ctxp_option *option) { return option->type == CTXP_OPTION_STRING || option->type == CTXP_OPTION_PATH; }

int ctxp_options_fill(const struct ctxp_option *table, struct ctxp_raw options, void *ret_struct, struct ctxp_buf *arena, struct ctxp_error *err) {
  ctxp_buf_reset(arena);
  for (const struct ctxp_option *option = table; option && option->name; option++) {
    struct ctxp_raw value = ctxp_map_get(options, option->name);
    void *at = (char *)ret_struct + option->offset;
    if (value.len == 0 && !option->initial) return ctxp_error_set(err, -EINVAL, "option '%s' is required", option->name);
    int r = value.len ? fill_given(option, value, at, arena) : fill_initial(option, at);
    if (r < 0) return ctxp_error_set(err, r, "option '%s' has a value that it cannot have", option->name);
  }
  for (const struct ctxp_option *option = table; option && option->name; option++) {
    if (!is_text(option) || ctxp_map_get(options, option->name).len == 0) continue;
    void *at = (char *)ret_struct + option->offset;
    *(const char **)at = (const char *)arena->ptr + *(size_t *)at;
  }
  return 0;
}
