#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "codec/json.h"
#include "codec/msgpack.h"

static const char *escape_of(unsigned char c, char hex[8]) {
  switch (c) {
  case '"': return "\\\"";
  case '\\': return "\\\\";
  case '\b': return "\\b";
  case '\f': return "\\f";
  case '\n': return "\\n";
  case '\r': return "\\r";
  case '\t': return "\\t";
  default: snprintf(hex, 8, "\\u%04x", c); return hex;
  }
}

void ctxp_json_str(struct ctxp_buf *out, struct ctxp_str text) {
  char hex[8];
  size_t plain = 0, i = 0; /* text[plain..i) needs no escape and is not yet written */
  ctxp_buf_char(out, '"');
  while (i < text.len) {
    unsigned char c = (unsigned char)text.ptr[i];
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      i++;
      continue;
    }
    unsigned n = c < 0x80 ? 0 : ctxp_utf8_sequence(text.ptr + i, text.len - i);
    if (n) {
      i += n;
      continue;
    }
    ctxp_buf_add(out, text.ptr + plain, i - plain);
    ctxp_buf_str(out, c < 0x80 ? escape_of(c, hex) : "\xef\xbf\xbd");
    plain = ++i;
  }
  if (i > plain) ctxp_buf_add(out, text.ptr + plain, i - plain);
  ctxp_buf_char(out, '"');
}

/* digits and exponent of the shortest decimal that reads back as the same double */
static int shortest(double value, char digits[24], int *ret_exponent) {
  char text[40];
  for (int precision = 1; precision <= 17; precision++) {
    snprintf(text, sizeof(text), "%.*e", precision - 1, value);
    if (strtod(text, NULL) == value) break;
  }
  int n = 0;
  char *e = strchr(text, 'e');
  for (char *p = text; p < e; p++)
    if (*p >= '0' && *p <= '9') digits[n++] = *p;
  while (n > 1 && digits[n - 1] == '0') n--;
  *ret_exponent = (int)strtol(e + 1, NULL, 10) + 1; /* value = 0.digits * 10^exponent */
  return n;
}

void ctxp_json_f64(struct ctxp_buf *out, double value) {
  if (!isfinite(value)) {
    ctxp_buf_str(out, "null");
    return;
  }
  if (value == 0) {
    ctxp_buf_char(out, '0'); /* -0 too */
    return;
  }
  char digits[24];
  int exponent;
  if (value < 0) ctxp_buf_char(out, '-');
  int n = shortest(fabs(value), digits, &exponent);
  if (exponent > 21 || exponent <= -6) { /* as ECMAScript's Number::toString */
    ctxp_buf_char(out, digits[0]);
    if (n > 1) ctxp_buf_printf(out, ".%.*s", n - 1, digits + 1);
    ctxp_buf_printf(out, "e%c%d", exponent > 0 ? '+' : '-', abs(exponent - 1));
  } else if (exponent <= 0) {
    ctxp_buf_str(out, "0.");
    for (int i = exponent; i < 0; i++) ctxp_buf_char(out, '0');
    ctxp_buf_add(out, digits, (size_t)n);
  } else {
    for (int i = 0; i < exponent || i < n; i++) {
      if (i == exponent) ctxp_buf_char(out, '.');
      ctxp_buf_char(out, i < n ? digits[i] : '0');
    }
  }
}

void ctxp_json_nano(struct ctxp_buf *out, int64_t nano) {
  uint64_t size = nano < 0 ? 0 - (uint64_t)nano : (uint64_t)nano;
  if (nano < 0) ctxp_buf_char(out, '-');
  ctxp_buf_printf(out, "%llu", (unsigned long long)(size / 1000000000u));
  unsigned part = (unsigned)(size % 1000000000u), width = 9;
  if (!part) return;
  for (; part % 10 == 0; part /= 10) width--;
  ctxp_buf_printf(out, ".%0*u", (int)width, part);
}

static void write_time(struct ctxp_buf *out, uint64_t utc_ms) {
  char iso[CTXP_ISO_SIZE];
  ctxp_time_iso(utc_ms, iso);
  ctxp_buf_printf(out, "\"%s\"", iso);
}

static void write_ext(struct ctxp_buf *out, const struct ctxp_pack_value *v) {
  const uint8_t *p = (const uint8_t *)v->str.ptr;
  uint64_t bits = 0;
  if (v->ext != -1 || (v->str.len != 4 && v->str.len != 8)) {
    ctxp_buf_str(out, "null");
    return;
  }
  for (size_t i = 0; i < v->str.len; i++) bits = bits << 8 | p[i];
  if (v->str.len == 4)
    write_time(out, bits * 1000);
  else
    write_time(out, (bits & UINT64_C(0x3ffffffff)) * 1000 + (bits >> 34) / 1000000);
}

static int write_value(struct ctxp_cursor *c, struct ctxp_buf *out, bool money, unsigned depth);

static int write_map(struct ctxp_cursor *c, uint32_t pairs, struct ctxp_buf *out, unsigned depth) {
  ctxp_buf_char(out, '{');
  for (uint32_t i = 0; i < pairs; i++) {
    struct ctxp_pack_value key;
    if (ctxp_cursor_next(c, &key) < 0 || key.type != CTXP_PACK_STR) return -EBADMSG;
    bool money = ctxp_str_ends(key.str, "Nano") && key.str.len > 4;
    if (money) key.str.len -= 4;
    if (i) ctxp_buf_char(out, ',');
    ctxp_json_str(out, key.str);
    ctxp_buf_char(out, ':');
    int r = write_value(c, out, money, depth + 1);
    if (r < 0) return r;
  }
  ctxp_buf_char(out, '}');
  return 0;
}

static int write_array(struct ctxp_cursor *c, uint32_t count, struct ctxp_buf *out, unsigned depth) {
  ctxp_buf_char(out, '[');
  for (uint32_t i = 0; i < count; i++) {
    if (i) ctxp_buf_char(out, ',');
    int r = write_value(c, out, false, depth + 1);
    if (r < 0) return r;
  }
  ctxp_buf_char(out, ']');
  return 0;
}

static int write_value(struct ctxp_cursor *c, struct ctxp_buf *out, bool money, unsigned depth) {
  struct ctxp_pack_value v;
  int r = ctxp_cursor_next(c, &v);
  if (r < 0) return r;
  if (depth > CTXP_DEPTH_MAX) return -EBADMSG;
  switch (v.type) {
  case CTXP_PACK_NIL: ctxp_buf_str(out, "null"); return 0;
  case CTXP_PACK_BOOL: ctxp_buf_str(out, v.b ? "true" : "false"); return 0;
  case CTXP_PACK_U64:
    if (money && v.u <= INT64_MAX)
      ctxp_json_nano(out, (int64_t)v.u);
    else
      ctxp_buf_printf(out, "%llu", (unsigned long long)v.u);
    return 0;
  case CTXP_PACK_I64:
    if (money)
      ctxp_json_nano(out, v.i);
    else
      ctxp_buf_printf(out, "%lld", (long long)v.i);
    return 0;
  case CTXP_PACK_F64: ctxp_json_f64(out, v.f); return 0;
  case CTXP_PACK_STR:
  case CTXP_PACK_BIN: ctxp_json_str(out, v.str); return 0;
  case CTXP_PACK_ARRAY: return write_array(c, v.count, out, depth);
  case CTXP_PACK_MAP: return write_map(c, v.count, out, depth);
  case CTXP_PACK_EXT: write_ext(out, &v); return 0;
  }
  return -EBADMSG;
}

int ctxp_json_from_raw(struct ctxp_raw raw, struct ctxp_buf *out) {
  struct ctxp_cursor c = ctxp_cursor(raw);
  int r = write_value(&c, out, false, 0);
  return r < 0 ? r : ctxp_buf_error(out);
}

static int write_record(const struct ctxp_shape *shape, const void *record, struct ctxp_buf *out);

static int write_list(struct ctxp_list list, const struct ctxp_field *field, struct ctxp_buf *out) {
  struct ctxp_cursor c = ctxp_cursor((struct ctxp_raw){list.ptr, list.len});
  (void)field;
  return write_array(&c, list.count, out, 1);
}

static int write_field(const struct ctxp_field *field, const void *at, struct ctxp_buf *out) {
  struct ctxp_cursor c;
  switch (field->type) {
  case CTXP_TYPE_STR: ctxp_json_str(out, *(const struct ctxp_str *)at); return 0;
  case CTXP_TYPE_U64: ctxp_buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at); return 0;
  case CTXP_TYPE_I64: ctxp_buf_printf(out, "%lld", (long long)*(const int64_t *)at); return 0;
  case CTXP_TYPE_BOOL: ctxp_buf_str(out, *(const bool *)at ? "true" : "false"); return 0;
  case CTXP_TYPE_TIME: write_time(out, *(const uint64_t *)at); return 0;
  case CTXP_TYPE_NANO: ctxp_json_nano(out, *(const int64_t *)at); return 0;
  case CTXP_TYPE_ENUM: ctxp_json_str(out, ctxp_str(field->names->wire[*(const unsigned *)at])); return 0;
  case CTXP_TYPE_REC: return write_record(field->shape, at, out);
  case CTXP_TYPE_LIST:
  case CTXP_TYPE_STRS: return write_list(*(const struct ctxp_list *)at, field, out);
  case CTXP_TYPE_RAW: c = ctxp_cursor(*(const struct ctxp_raw *)at); return write_value(&c, out, false, 0);
  }
  return -EBADMSG;
}

/* own: fields that are ctxpipe's, else the others; each with a comma before it unless it is the first */
static int write_fields(const struct ctxp_shape *shape, const void *record, bool own, bool *first, struct ctxp_buf *out) {
  uint64_t has;
  memcpy(&has, record, sizeof(has));
  for (unsigned i = 0; i < shape->count; i++) {
    const struct ctxp_field *field = &shape->fields[i];
    if (!((has | shape->required) >> i & 1) || (field->need == CTXP_NEED_OWN) != own) continue;
    size_t cut = field->type == CTXP_TYPE_NANO ? 4 : 0; /* "Nano" */
    ctxp_buf_printf(out, "%s\"%.*s\":", *first ? "" : ",", (int)(field->name_len - cut), field->name);
    *first = false;
    int r = write_field(field, (const char *)record + field->offset, out);
    if (r < 0) return r;
  }
  return 0;
}

static int write_record(const struct ctxp_shape *shape, const void *record, struct ctxp_buf *out) {
  bool first = true;
  ctxp_buf_char(out, '{');
  int r = write_fields(shape, record, false, &first, out);
  if (r < 0) return r;
  r = write_fields(shape, record, true, &first, out);
  ctxp_buf_char(out, '}');
  return r;
}

static void write_window(const struct ctxp_event *event, struct ctxp_buf *out) {
  ctxp_buf_str(out, ",\"agent\":");
  ctxp_json_str(out, event->agent);
  ctxp_buf_str(out, ",\"session\":");
  ctxp_json_str(out, event->session);
  ctxp_buf_str(out, ",\"thread\":");
  ctxp_json_str(out, event->thread);
}

int ctxp_json_from_event(const struct ctxp_event *event, bool seed_only, struct ctxp_buf *out) {
  const struct ctxp_kind_info *info = ctxp_kind_info(event->kind);
  if (!info) return -EINVAL;
  bool derived = info->group == CTXP_GROUP_MECHANISM || info->group == CTXP_GROUP_FOLD, first = false;
  ctxp_buf_str(out, "{\"ts\":");
  write_time(out, event->ts_ms);
  ctxp_buf_printf(out, ",\"kind\":\"%s\"", info->name);
  if (!derived) write_window(event, out);
  int r = write_fields(info->shape, &event->session_start, false, &first, out);
  if (r < 0) return r;
  if (derived && !seed_only) {
    write_window(event, out);
    r = write_fields(info->shape, &event->session_start, true, &first, out);
    if (r < 0) return r;
  }
  ctxp_buf_char(out, '}');
  return ctxp_buf_error(out);
}
