/* From the map of options, as it stands in a topology and in the `topology` event, to a stage's struct. */
#include <errno.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/schema.h"
#include "config/topology.h"

static int wrong(const struct ctxp_option *option, struct ctxp_error *err) {
  ctxp_auto_buf range = {0};
  ctxp_option_range(option, &range);
  return ctxp_error_set(err, -EINVAL, "option '%s' has a value that it cannot have; it takes %s", option->name, ctxp_buf_cstr(&range));
}

static int choice_index(const struct ctxp_option *option, struct ctxp_str text) {
  for (int i = 0; option->choices[i]; i++)
    if (ctxp_str_is(text, option->choices[i])) return i;
  return -1;
}

/* The default, as the option's table writes it, in the form of a given value. */
static bool from_initial(const struct ctxp_option *option, struct ctxp_pack_value *ret) {
  struct ctxp_str text = ctxp_str(option->initial);
  *ret = (struct ctxp_pack_value){.type = CTXP_PACK_STR, .str = text};
  if (option->type == CTXP_OPTION_BOOL) *ret = (struct ctxp_pack_value){.type = CTXP_PACK_BOOL, .b = ctxp_str_is(text, "true")};
  if (option->type == CTXP_OPTION_U64) {
    ret->type = CTXP_PACK_U64;
    return ctxp_schema_u64(text, &ret->u);
  }
  return true;
}

static bool get(const struct ctxp_option *option, struct ctxp_raw options, struct ctxp_pack_value *ret) {
  struct ctxp_raw raw = options.len ? ctxp_map_get(options, option->name) : (struct ctxp_raw){0};
  struct ctxp_cursor it = ctxp_cursor(raw);
  return raw.len ? ctxp_cursor_next(&it, ret) == 0 : from_initial(option, ret);
}

static bool fits(const struct ctxp_option *option, const struct ctxp_pack_value *value) {
  switch (option->type) {
  case CTXP_OPTION_BOOL: return value->type == CTXP_PACK_BOOL;
  case CTXP_OPTION_U64: return value->type == CTXP_PACK_U64 && value->u >= option->min && (!option->max || value->u <= option->max);
  case CTXP_OPTION_ENUM: return value->type == CTXP_PACK_STR && choice_index(option, value->str) >= 0;
  case CTXP_OPTION_STRING:
  case CTXP_OPTION_PATH: break;
  }
  return value->type == CTXP_PACK_STR && (value->str.len == 0 || !memchr(value->str.ptr, 0, value->str.len));
}

/* `texts` has room for all: it does not move */
static void set(const struct ctxp_option *option, const struct ctxp_pack_value *value, void *field, struct ctxp_buf *texts) {
  switch (option->type) {
  case CTXP_OPTION_BOOL: *(bool *)field = value->b; return;
  case CTXP_OPTION_U64: *(uint64_t *)field = value->u; return;
  case CTXP_OPTION_ENUM: *(int *)field = choice_index(option, value->str); return;
  case CTXP_OPTION_STRING:
  case CTXP_OPTION_PATH: break;
  }
  *(const char **)field = (const char *)texts->ptr + texts->len;
  ctxp_buf_add(texts, value->str.ptr, value->str.len);
  ctxp_buf_char(texts, 0);
}

static bool known(const struct ctxp_option *table, struct ctxp_str name) {
  for (; table->name; table++)
    if (ctxp_str_is(name, table->name)) return true;
  return false;
}

static int check_names(const struct ctxp_option *table, struct ctxp_raw options, struct ctxp_error *err) {
  struct ctxp_cursor it = ctxp_cursor(options);
  uint32_t left;
  struct ctxp_str key;
  struct ctxp_raw value;
  if (options.len == 0) return 0;
  if (ctxp_pack_check(options) < 0 || ctxp_map_open(&it, &left) < 0) return ctxp_error_set(err, -EINVAL, "the options are not a map");
  while (ctxp_map_next(&it, &left, &key, &value) > 0)
    if (!known(table, key)) return ctxp_error_set(err, -EINVAL, "unknown option '%s'", ctxp_shown(key).text);
  return 0;
}

static int check_values(const struct ctxp_option *table, struct ctxp_raw options, size_t *ret_bytes, struct ctxp_error *err) {
  for (const struct ctxp_option *it = table; it->name; it++) {
    struct ctxp_pack_value value;
    if (!it->initial && (options.len == 0 || ctxp_map_get(options, it->name).len == 0))
      return ctxp_error_set(err, -EINVAL, "option '%s' is required", it->name);
    if (!get(it, options, &value) || !fits(it, &value)) return wrong(it, err);
    if (value.type == CTXP_PACK_STR) *ret_bytes += value.str.len + 1;
  }
  return 0;
}

int ctxp_options_fill(
    const struct ctxp_option *table, struct ctxp_raw options, void *ret_struct, struct ctxp_buf *arena, struct ctxp_error *err) {
  static const struct ctxp_option none[] = {{0}};
  size_t bytes = 0;
  if (!table) table = none;
  int code = check_names(table, options, err);
  if (code == 0) code = check_values(table, options, &bytes, err);
  if (code < 0) return code;
  struct ctxp_buf texts = {0};
  if (!ctxp_buf_room(&texts, bytes + 1)) return ctxp_error_set(err, -ENOMEM, "out of memory");
  for (const struct ctxp_option *it = table; it->name; it++) {
    struct ctxp_pack_value value;
    if (get(it, options, &value)) set(it, &value, (char *)ret_struct + it->offset, &texts);
  }
  ctxp_buf_deinit(arena);
  *arena = texts;
  return 0;
}
