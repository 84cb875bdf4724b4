/* How long a value is as compact JSON, without writing it. */
#include <stdlib.h>
#include "base/cleanup.h"
#include "codec/json.h"
#include "codec/json_read.h"

/* a character within a string, as JSON.stringify writes it; lone surrogates as their six-unit escape */
static unsigned stringified(uint32_t c) {
  if (c == '"' || c == '\\' || c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t') return 2;
  if (c < 0x20 || (c >= 0xd800 && c <= 0xdfff)) return 6;
  return c >= 0x10000 ? 2 : 1;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
      c >= 'A' && c <= 'F'                                     ? c - 'A' + 10 :
                                                                 0;
}

static uint32_t escaped_unit(const char *p) {
  return (uint32_t)(hex_digit(p[2]) << 12 | hex_digit(p[3]) << 8 | hex_digit(p[4]) << 4 | hex_digit(p[5]));
}

static size_t string_units(struct ctxp_str in) {
  size_t units = 2 + ctxp_utf16_units(in);
  const char *end = in.ptr + in.len;
  for (const char *p = in.ptr; p < end && (p = memchr(p, '\\', (size_t)(end - p)));) {
    if (end - p >= 6 && p[1] == 'u') {
      uint32_t c = escaped_unit(p);
      bool pair = c >= 0xd800 && c <= 0xdbff && end - p >= 12 && p[6] == '\\' && p[7] == 'u' && escaped_unit(p + 6) >= 0xdc00 &&
          escaped_unit(p + 6) <= 0xdfff;
      units -= pair ? 12 - 2 : 6 - stringified(c);
      p += pair ? 12 : 6;
    } else {
      if (end - p >= 2 && p[1] == '/') units--; /* the others are two units either way */
      p += 2;
    }
  }
  return units;
}

static size_t number_units(struct ctxp_json *json, struct ctxp_str text) {
  struct ctxp_number n = ctxp_number_read(text);
  ctxp_auto_buf out = {0};
  const uint64_t exact = UINT64_C(9007199254740992);
  if (n.type == CTXP_NUMBER_BAD) return text.len;
  if (text.len < 16 && n.type != CTXP_NUMBER_F64 && !memchr(text.ptr, '.', text.len) && !memchr(text.ptr, 'e', text.len) &&
      !memchr(text.ptr, 'E', text.len))
    return n.type == CTXP_NUMBER_U64 && n.u == 0 ? 1 : text.len;
  if (n.type == CTXP_NUMBER_U64 && n.u <= exact)
    ctxp_buf_printf(&out, "%llu", (unsigned long long)n.u);
  else
    ctxp_json_f64(&out, n.type == CTXP_NUMBER_U64 ? (double)n.u : n.type == CTXP_NUMBER_I64 ? (double)n.i :
                                                                                              n.f);
  if (out.failed) json->failed = true;
  return out.len;
}

struct member {
  struct ctxp_str key;
  uint32_t value;
};
static int by_key(const void *a, const void *b) {
  const struct member *x = a, *y = b;
  int order = ctxp_str_cmp(x->key, y->key);
  return order ? order : (x->value > y->value) - (x->value < y->value);
}

static size_t object_units(struct ctxp_json *json, uint32_t object) {
  uint32_t count = ctxp_json_size(json, object), n = 0;
  ctxp_auto_free struct member *members = count ? malloc(sizeof(*members) * count) : NULL;
  struct ctxp_str key;
  size_t units = 2;
  if (count && !members) json->failed = true;
  if (!members) return units;
  for (uint32_t it = object; ctxp_json_member(json, object, &it, &key);) members[n++] = (struct member){key, it};
  if (n > 1) qsort(members, n, sizeof(*members), by_key);
  unsigned kept = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i + 1 < n && ctxp_str_eq(members[i].key, members[i + 1].key)) continue;
    units += (kept++ ? 1 : 0) + string_units(ctxp_json_escaped(json, members[i].value - 2)) + 1 +
        ctxp_json_compact_units(json, members[i].value);
  }
  return units;
}

size_t ctxp_json_compact_units(struct ctxp_json *json, uint32_t value) {
  switch (ctxp_json_type(json, value)) {
  case CTXP_JSON_ABSENT: return 0;
  case CTXP_JSON_NULL: return 4;
  case CTXP_JSON_BOOL: return ctxp_json_bool(json, value, false) ? 4 : 5;
  case CTXP_JSON_NUMBER: return number_units(json, ctxp_json_source(json, value));
  case CTXP_JSON_STRING: return string_units(ctxp_json_escaped(json, value));
  case CTXP_JSON_OBJECT: return object_units(json, value);
  case CTXP_JSON_ARRAY: break;
  }
  size_t units = 2, count = 0;
  for (uint32_t it = value; ctxp_json_each(json, value, &it); count++) units += ctxp_json_compact_units(json, it) + (count ? 1 : 0);
  return units;
}
