#include <errno.h>
#include <msgpack/timestamp.h>
#include <string.h>
#include "codec/msgpack.h"

int ctxp_pack_write(void *buf, const char *bytes, size_t len) {
  ctxp_buf_add(buf, bytes, len);
  return ctxp_buf_error(buf);
}

#define PACKER(pk, buf) \
  msgpack_packer pk; \
  ctxp_pack_init(&pk, buf)

/* head and bytes in one reservation: most of an event is texts */
void ctxp_pack_str(struct ctxp_buf *buf, struct ctxp_str text) {
  uint8_t *at = text.len > UINT32_MAX ? NULL : ctxp_buf_room(buf, text.len + 5);
  if (!at) {
    buf->failed = true;
    return;
  }
  unsigned bytes = text.len < 32 ? 0 : text.len < 256 ? 1 :
      text.len < 65536                                ? 2 :
                                                        4;
  at[0] = bytes == 0 ? (uint8_t)(0xa0 | text.len) : bytes == 1 ? 0xd9 :
      bytes == 2                                               ? 0xda :
                                                                 0xdb;
  for (unsigned i = 0; i < bytes; i++) at[1 + i] = (uint8_t)(text.len >> (8 * (bytes - 1 - i)));
  if (text.len) memcpy(at + 1 + bytes, text.ptr, text.len);
  buf->len += 1 + bytes + text.len;
}
void ctxp_pack_cstr(struct ctxp_buf *buf, const char *text) { ctxp_pack_str(buf, ctxp_str(text)); }
void ctxp_pack_u64(struct ctxp_buf *buf, uint64_t value) {
  PACKER(pk, buf);
  msgpack_pack_uint64(&pk, value);
}
void ctxp_pack_i64(struct ctxp_buf *buf, int64_t value) {
  PACKER(pk, buf);
  msgpack_pack_int64(&pk, value);
}
void ctxp_pack_bool(struct ctxp_buf *buf, bool value) { ctxp_buf_char(buf, value ? (char)0xc3 : (char)0xc2); }
void ctxp_pack_f64(struct ctxp_buf *buf, double value) {
  PACKER(pk, buf);
  msgpack_pack_double(&pk, value);
}
void ctxp_pack_nil(struct ctxp_buf *buf) { ctxp_buf_char(buf, (char)0xc0); }
void ctxp_pack_map(struct ctxp_buf *buf, uint32_t pairs) {
  PACKER(pk, buf);
  msgpack_pack_map(&pk, pairs);
}
void ctxp_pack_array(struct ctxp_buf *buf, uint32_t count) {
  PACKER(pk, buf);
  msgpack_pack_array(&pk, count);
}
void ctxp_pack_bin(struct ctxp_buf *buf, struct ctxp_raw bytes) {
  PACKER(pk, buf);
  msgpack_pack_bin(&pk, bytes.len);
  ctxp_buf_add(buf, bytes.ptr, bytes.len);
}
void ctxp_pack_time(struct ctxp_buf *buf, uint64_t utc_ms) {
  PACKER(pk, buf);
  msgpack_timestamp time = {.tv_sec = (int64_t)(utc_ms / 1000), .tv_nsec = (uint32_t)(utc_ms % 1000) * 1000000u};
  msgpack_pack_timestamp(&pk, &time);
}
void ctxp_pack_raw(struct ctxp_buf *buf, struct ctxp_raw value) {
  if (value.len)
    ctxp_buf_add(buf, value.ptr, value.len);
  else
    ctxp_pack_nil(buf);
}

/* map 32 / array 32: the head has the same length whatever the count */
static size_t open32(struct ctxp_buf *buf, uint8_t head) {
  uint8_t bytes[5] = {head, 0, 0, 0, 0};
  size_t mark = buf->len;
  ctxp_buf_add(buf, bytes, sizeof(bytes));
  return mark;
}
size_t ctxp_pack_map_open(struct ctxp_buf *buf) { return open32(buf, 0xdf); }
size_t ctxp_pack_array_open(struct ctxp_buf *buf) { return open32(buf, 0xdd); }
void ctxp_pack_close(struct ctxp_buf *buf, size_t mark, uint32_t count) {
  if (buf->failed) return;
  uint8_t *at = buf->ptr + mark + 1;
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(count >> (24 - 8 * i));
}

static uint64_t big_endian(const uint8_t *at, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; i++) value = value << 8 | at[i];
  return value;
}

static double bits_f64(uint64_t bits, unsigned bytes) {
  double d;
  float f;
  if (bytes == 8) {
    memcpy(&d, &bits, 8);
    return d;
  }
  uint32_t half = (uint32_t)bits;
  memcpy(&f, &half, 4);
  return (double)f;
}

static int take_bytes(struct ctxp_cursor *c, size_t len, struct ctxp_pack_value *ret) {
  if ((size_t)(c->end - c->at) < len) return -EBADMSG;
  ret->str = (struct ctxp_str){(const char *)c->at, len};
  c->at += len;
  return 0;
}

static int take_count(const struct ctxp_cursor *c, uint64_t count, unsigned per_element, struct ctxp_pack_value *ret) {
  if (count * per_element > (size_t)(c->end - c->at)) return -EBADMSG; /* each element has at least one byte */
  ret->count = (uint32_t)count;
  return 0;
}

/* heads whose length or value stands in the `bytes` bytes behind them */
static int wide(struct ctxp_cursor *c, uint8_t head, struct ctxp_pack_value *ret) {
  static const uint8_t widths[32] = {/* c4 */ [4] = 1, 2, 4, 1, 2, 4, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 0, 0, 0, 0, 0, 1, 2, 4, 2, 4, 2, 4};
  unsigned width = widths[head - 0xc0];
  if ((size_t)(c->end - c->at) < width) return -EBADMSG;
  uint64_t value = big_endian(c->at, width);
  c->at += width;
  switch (head) {
  case 0xc4:
  case 0xc5:
  case 0xc6: ret->type = CTXP_PACK_BIN; return take_bytes(c, value, ret);
  case 0xc7:
  case 0xc8:
  case 0xc9:
    ret->type = CTXP_PACK_EXT;
    if (c->at == c->end) return -EBADMSG;
    ret->ext = (int8_t)*c->at++;
    return take_bytes(c, value, ret);
  case 0xca:
  case 0xcb:
    ret->type = CTXP_PACK_F64;
    ret->f = bits_f64(value, width);
    return 0;
  case 0xcc:
  case 0xcd:
  case 0xce:
  case 0xcf:
    ret->type = CTXP_PACK_U64;
    ret->u = value;
    return 0;
  case 0xd0:
  case 0xd1:
  case 0xd2:
  case 0xd3:
    ret->i = width == 1 ? (int8_t)value : width == 2 ? (int16_t)value :
        width == 4                                   ? (int32_t)value :
                                                       (int64_t)value;
    ret->type = ret->i < 0 ? CTXP_PACK_I64 : CTXP_PACK_U64;
    return 0;
  case 0xd9:
  case 0xda:
  case 0xdb: ret->type = CTXP_PACK_STR; return take_bytes(c, value, ret);
  case 0xdc:
  case 0xdd: ret->type = CTXP_PACK_ARRAY; return take_count(c, value, 1, ret);
  case 0xde:
  case 0xdf: ret->type = CTXP_PACK_MAP; return take_count(c, value, 2, ret);
  default: return -EBADMSG;
  }
}

int ctxp_cursor_next(struct ctxp_cursor *c, struct ctxp_pack_value *ret) {
  if (c->at >= c->end) return -EBADMSG;
  uint8_t head = *c->at++;
  if (head < 0x80) return ret->type = CTXP_PACK_U64, ret->u = head, 0;
  if (head < 0x90) return ret->type = CTXP_PACK_MAP, take_count(c, head & 15, 2, ret);
  if (head < 0xa0) return ret->type = CTXP_PACK_ARRAY, take_count(c, head & 15, 1, ret);
  if (head < 0xc0) return ret->type = CTXP_PACK_STR, take_bytes(c, head & 31, ret);
  if (head >= 0xe0) return ret->type = CTXP_PACK_I64, ret->i = (int8_t)head, 0;
  if (head == 0xc0) return ret->type = CTXP_PACK_NIL, 0;
  if (head == 0xc1) return -EBADMSG;
  if (head <= 0xc3) return ret->type = CTXP_PACK_BOOL, ret->b = head == 0xc3, 0;
  if (head >= 0xd4 && head <= 0xd8) {
    if (c->at == c->end) return -EBADMSG;
    ret->type = CTXP_PACK_EXT;
    ret->ext = (int8_t)*c->at++;
    return take_bytes(c, (size_t)1 << (head - 0xd4), ret);
  }
  return wide(c, head, ret);
}

/* One pass over a value with a stack of what is left at each level. checked: texts are UTF-8, keys of maps are texts. */
static int walk(struct ctxp_cursor *c, bool checked) {
  struct level {
    uint64_t left;
    bool map;
  } stack[CTXP_DEPTH_MAX + 1];
  unsigned depth = 0;
  stack[0] = (struct level){1, false};
  for (;;) {
    while (stack[depth].left == 0)
      if (depth-- == 0) return 0;
    bool key = stack[depth].map && stack[depth].left % 2 == 0;
    stack[depth].left--;
    struct ctxp_pack_value v;
    int r = ctxp_cursor_next(c, &v);
    if (r < 0) return r;
    if (checked && key && v.type != CTXP_PACK_STR) return -EBADMSG;
    if (checked && v.type == CTXP_PACK_STR && !ctxp_utf8_valid(v.str)) return -EBADMSG;
    if (v.type != CTXP_PACK_ARRAY && v.type != CTXP_PACK_MAP) continue;
    if (depth == CTXP_DEPTH_MAX) return -EBADMSG;
    bool map = v.type == CTXP_PACK_MAP;
    stack[++depth] = (struct level){map ? 2 * (uint64_t)v.count : v.count, map};
  }
}

int ctxp_cursor_skip(struct ctxp_cursor *cursor, struct ctxp_raw *ret) {
  const uint8_t *from = cursor->at;
  struct ctxp_cursor next = *cursor;
  struct ctxp_pack_value v;
  int r = ctxp_cursor_next(&next, &v);
  if (r == 0 && ((v.type != CTXP_PACK_ARRAY && v.type != CTXP_PACK_MAP) || v.count == 0))
    *cursor = next; /* most values hold no others */
  else if (r == 0)
    r = walk(cursor, false);
  if (r < 0) return r;
  *ret = (struct ctxp_raw){from, (size_t)(cursor->at - from)};
  return 0;
}

int ctxp_pack_check(struct ctxp_raw raw) {
  struct ctxp_cursor c = ctxp_cursor(raw);
  int r = walk(&c, true);
  return r < 0 ? r : c.at == c.end ? 0 :
                                     -EBADMSG;
}

static int open_container(struct ctxp_cursor *it, enum ctxp_pack_type type, uint32_t *ret_count) {
  struct ctxp_pack_value v;
  int r = ctxp_cursor_next(it, &v);
  if (r < 0) return r;
  if (v.type != type) return -EBADMSG;
  *ret_count = v.count;
  return 0;
}
int ctxp_map_open(struct ctxp_cursor *it, uint32_t *ret_pairs) { return open_container(it, CTXP_PACK_MAP, ret_pairs); }
int ctxp_array_open(struct ctxp_cursor *it, uint32_t *ret_count) { return open_container(it, CTXP_PACK_ARRAY, ret_count); }

int ctxp_map_next(struct ctxp_cursor *it, uint32_t *pairs_left, struct ctxp_str *ret_key, struct ctxp_raw *ret_value) {
  struct ctxp_pack_value v;
  if (*pairs_left == 0) return 0;
  int r = ctxp_cursor_next(it, &v);
  if (r < 0) return r;
  if (v.type != CTXP_PACK_STR) return -EBADMSG;
  *ret_key = v.str;
  r = ctxp_cursor_skip(it, ret_value);
  if (r < 0) return r;
  (*pairs_left)--;
  return 1;
}

int ctxp_array_next(struct ctxp_cursor *it, uint32_t *left, struct ctxp_raw *ret_value) {
  if (*left == 0) return 0;
  int r = ctxp_cursor_skip(it, ret_value);
  if (r < 0) return r;
  (*left)--;
  return 1;
}

struct ctxp_raw ctxp_map_get(struct ctxp_raw map, const char *key) {
  struct ctxp_raw found = {0}, value;
  struct ctxp_cursor it = ctxp_cursor(map);
  struct ctxp_str name;
  uint32_t left;
  if (map.len == 0 || ctxp_map_open(&it, &left) < 0) return found;
  while (ctxp_map_next(&it, &left, &name, &value) > 0)
    if (ctxp_str_is(name, key)) found = value;
  return found;
}

static bool head_of(struct ctxp_raw raw, struct ctxp_pack_value *ret) {
  struct ctxp_cursor c = ctxp_cursor(raw);
  return raw.len != 0 && ctxp_cursor_next(&c, ret) == 0;
}

enum ctxp_pack_type ctxp_raw_type(struct ctxp_raw raw) {
  struct ctxp_pack_value v;
  return head_of(raw, &v) ? v.type : CTXP_PACK_NIL;
}

struct ctxp_str ctxp_raw_str(struct ctxp_raw raw) {
  struct ctxp_pack_value v;
  return head_of(raw, &v) && v.type == CTXP_PACK_STR ? v.str : (struct ctxp_str){0};
}

struct ctxp_str ctxp_map_str(struct ctxp_raw map, const char *key) {
  return ctxp_raw_str(ctxp_map_get(map, key));
}

uint64_t ctxp_map_u64(struct ctxp_raw map, const char *key, uint64_t missing) {
  struct ctxp_pack_value v;
  return head_of(ctxp_map_get(map, key), &v) && v.type == CTXP_PACK_U64 ? v.u : missing;
}

int64_t ctxp_map_i64(struct ctxp_raw map, const char *key, int64_t missing) {
  struct ctxp_pack_value v;
  if (!head_of(ctxp_map_get(map, key), &v)) return missing;
  if (v.type == CTXP_PACK_I64) return v.i;
  return v.type == CTXP_PACK_U64 && v.u <= INT64_MAX ? (int64_t)v.u : missing;
}

bool ctxp_map_bool(struct ctxp_raw map, const char *key, bool missing) {
  struct ctxp_pack_value v;
  return head_of(ctxp_map_get(map, key), &v) && v.type == CTXP_PACK_BOOL ? v.b : missing;
}
