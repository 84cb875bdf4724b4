/* JSON to MessagePack: any value, and events with their units (ISO times, decimal dollars). And how long a value is as compact JSON. */
#include <errno.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/cleanup.h"
#include "codec/json.h"
#include "codec/json_read.h"
#include "codec/msgpack.h"

/* ---- any value ---- */
static int pack_number(const struct ctxp_json *json, uint32_t value, struct ctxp_buf *out, struct ctxp_error *err) {
  struct ctxp_number n = ctxp_number_read(ctxp_json_source(json, value));
  switch (n.type) {
  case CTXP_NUMBER_U64: ctxp_pack_u64(out, n.u); return 0;
  case CTXP_NUMBER_I64: ctxp_pack_i64(out, n.i); return 0;
  case CTXP_NUMBER_F64: ctxp_pack_f64(out, n.f); return 0;
  case CTXP_NUMBER_BAD: break;
  }
  return ctxp_error_set(err, -EBADMSG, "not JSON at byte %u: no such number", json->at[value] + 1);
}

static int pack_string(struct ctxp_json *json, uint32_t value, struct ctxp_buf *out, struct ctxp_error *err) {
  struct ctxp_str escaped = ctxp_json_escaped(json, value), text = ctxp_json_text(json, value);
  if (escaped.len && !text.ptr) return ctxp_error_set(err, -ENOMEM, "out of memory while reading JSON");
  for (size_t i = 0; (i = ctxp_str_find(escaped, CTXP_STR("\\"), i)) != SIZE_MAX; i += 2) {
    bool known = i + 1 < escaped.len && memchr("\"\\/bfnrtu", escaped.ptr[i + 1], 9);
    if (known && escaped.ptr[i + 1] == 'u')
      for (size_t d = i + 2; d < i + 6; d++)
        known = known && d < escaped.len && strchr("0123456789abcdefABCDEF", escaped.ptr[d]) && escaped.ptr[d];
    if (!known)
      return ctxp_error_set(err, -EBADMSG, "not JSON at byte %zu: no such escape", (size_t)(escaped.ptr - json->text.ptr) + i + 1);
  }
  ctxp_pack_str(out, text);
  return 0;
}

static int pack_value(struct ctxp_json *json, uint32_t value, unsigned depth, struct ctxp_buf *out, struct ctxp_error *err) {
  enum ctxp_json_type type = ctxp_json_type(json, value);
  struct ctxp_str key;
  int r = 0;
  if ((type == CTXP_JSON_OBJECT || type == CTXP_JSON_ARRAY) && depth == CTXP_DEPTH_MAX)
    return ctxp_error_set(err, -EBADMSG, "the JSON value has more than %d levels", CTXP_DEPTH_MAX);
  switch (type) {
  case CTXP_JSON_ABSENT:
  case CTXP_JSON_NULL: ctxp_pack_nil(out); return 0;
  case CTXP_JSON_BOOL: ctxp_pack_bool(out, ctxp_json_bool(json, value, false)); return 0;
  case CTXP_JSON_NUMBER: return pack_number(json, value, out, err);
  case CTXP_JSON_STRING: return pack_string(json, value, out, err);
  case CTXP_JSON_ARRAY:
    ctxp_pack_array(out, ctxp_json_size(json, value));
    for (uint32_t it = value; r == 0 && ctxp_json_each(json, value, &it);) r = pack_value(json, it, depth + 1, out, err);
    return r;
  case CTXP_JSON_OBJECT:
    ctxp_pack_map(out, ctxp_json_size(json, value));
    for (uint32_t it = value; r == 0 && ctxp_json_member(json, value, &it, &key);) {
      r = pack_string(json, it - 2, out, err);
      if (r == 0) r = pack_value(json, it, depth + 1, out, err);
    }
    return r;
  }
  return 0;
}

int ctxp_json_pack(struct ctxp_json *json, uint32_t value, struct ctxp_buf *out, struct ctxp_error *err) {
  int r = pack_value(json, value, 0, out, err);
  if (r == 0 && (json->failed || ctxp_buf_error(out) < 0)) r = ctxp_error_set(err, -ENOMEM, "out of memory while reading JSON");
  return r;
}

int ctxp_json_to_raw(struct ctxp_str text, struct ctxp_buf *out, struct ctxp_error *err) {
  ctxp_cleanup(ctxp_json_deinit) struct ctxp_json json = {0};
  int r = ctxp_json_load(&json, text, err);
  return r < 0 ? r : ctxp_json_pack(&json, 0, out, err);
}

/* ---- events ---- */
static int pack_record(
    struct ctxp_json *json, uint32_t object, const struct ctxp_shape *shape, unsigned depth, struct ctxp_buf *out, struct ctxp_error *err);

/* the field that this key of the JSON form names; money has its name without "Nano" there */
static const struct ctxp_field *field_of(const struct ctxp_shape *shape, struct ctxp_str key) {
  for (unsigned i = 0; i < shape->count; i++) {
    size_t cut = shape->fields[i].type == CTXP_TYPE_NANO ? 4 : 0;
    if (ctxp_str_eq((struct ctxp_str){shape->fields[i].name, shape->fields[i].name_len - cut}, key)) return &shape->fields[i];
  }
  return NULL;
}

static int pack_money(
    struct ctxp_json *json, uint32_t value, const struct ctxp_field *field, struct ctxp_buf *out, struct ctxp_error *err) {
  int64_t nano;
  if (ctxp_json_type(json, value) != CTXP_JSON_NUMBER) return pack_value(json, value, 0, out, err);
  int r = ctxp_nano_read(ctxp_json_source(json, value), &nano);
  if (r < 0)
    return ctxp_error_set(
        err, -EBADMSG, "`%.*s` at byte %u is no amount of dollars below 9 billion", field->name_len - 4, field->name, json->at[value] + 1);
  ctxp_pack_i64(out, nano);
  return 0;
}

static int pack_time(struct ctxp_json *json, uint32_t value, const char *name, struct ctxp_buf *out, struct ctxp_error *err) {
  uint64_t ms;
  if (ctxp_json_type(json, value) != CTXP_JSON_STRING) return pack_value(json, value, 0, out, err);
  struct ctxp_str text = ctxp_json_text(json, value);
  if (ctxp_time_parse(text, &ms) < 0)
    return ctxp_error_set(err, -EBADMSG, "`%s` at byte %u is no time like 2026-08-30T06:10:19.549Z", name, json->at[value] + 1);
  ctxp_pack_u64(out, ms);
  return 0;
}

static int pack_list(
    struct ctxp_json *json, uint32_t array, const struct ctxp_shape *shape, unsigned depth, struct ctxp_buf *out, struct ctxp_error *err) {
  int r = 0;
  ctxp_pack_array(out, ctxp_json_size(json, array));
  for (uint32_t it = array; r == 0 && ctxp_json_each(json, array, &it);) r = pack_record(json, it, shape, depth + 1, out, err);
  return r;
}

static int pack_field(
    struct ctxp_json *json, uint32_t value, const struct ctxp_field *field, unsigned depth, struct ctxp_buf *out, struct ctxp_error *err) {
  if (field->type == CTXP_TYPE_NANO) return pack_money(json, value, field, out, err);
  if (field->type == CTXP_TYPE_TIME) return pack_time(json, value, field->name, out, err);
  if (field->type == CTXP_TYPE_REC) return pack_record(json, value, field->shape, depth, out, err);
  if (field->type == CTXP_TYPE_LIST && ctxp_json_type(json, value) == CTXP_JSON_ARRAY)
    return pack_list(json, value, field->shape, depth, out, err);
  return pack_value(json, value, depth, out, err);
}

/* a value of the wrong type goes through as it is: the event decoder names it */
static int pack_record(
    struct ctxp_json *json, uint32_t object, const struct ctxp_shape *shape, unsigned depth, struct ctxp_buf *out, struct ctxp_error *err) {
  if (ctxp_json_type(json, object) != CTXP_JSON_OBJECT) return pack_value(json, object, depth, out, err);
  struct ctxp_str key;
  int r = 0;
  ctxp_pack_map(out, ctxp_json_size(json, object));
  for (uint32_t it = object; r == 0 && ctxp_json_member(json, object, &it, &key);) {
    const struct ctxp_field *field = field_of(shape, key);
    ctxp_pack_str(out, field ? (struct ctxp_str){field->name, field->name_len} : key);
    r = field ? pack_field(json, it, field, depth + 1, out, err) : pack_value(json, it, depth + 1, out, err);
  }
  return r;
}

int ctxp_json_to_event(struct ctxp_str line, struct ctxp_buf *out_body, struct ctxp_error *err) {
  ctxp_cleanup(ctxp_json_deinit) struct ctxp_json json = {0};
  struct ctxp_str key;
  int r = ctxp_json_load(&json, line, err);
  if (r < 0) return r;
  if (ctxp_json_type(&json, 0) != CTXP_JSON_OBJECT) return ctxp_error_set(err, -EBADMSG, "an event must be a JSON object");
  const struct ctxp_kind_info *info = ctxp_kind_info(ctxp_kind_parse(ctxp_json_text(&json, ctxp_json_get(&json, 0, "kind"))));
  ctxp_pack_map(out_body, ctxp_json_size(&json, 0));
  for (uint32_t it = 0; r == 0 && ctxp_json_member(&json, 0, &it, &key);) {
    const struct ctxp_field *field = info ? field_of(info->shape, key) : NULL;
    ctxp_pack_str(out_body, field ? (struct ctxp_str){field->name, field->name_len} : key);
    if (ctxp_str_is(key, "ts"))
      r = pack_time(&json, it, "ts", out_body, err);
    else
      r = field ? pack_field(&json, it, field, 1, out_body, err) : pack_value(&json, it, 1, out_body, err);
  }
  if (r == 0 && json.failed) return ctxp_error_set(err, -ENOMEM, "out of memory while reading JSON");
  return r < 0 ? r : ctxp_buf_error(out_body);
}
