/* MessagePack: writing with msgpack-c's packer into a ctxp_buf, reading with a bounded cursor.
 *
 * The cursor is our own because input is hostile until decoded: msgpack-c's unpacker allocates what a header claims before it has
 * seen the bytes, and builds a tree where most readers want three keys of twelve. The cursor copies nothing and allocates nothing. */
#pragma once
#include <msgpack/pack.h>
#include "base/buf.h"
#include "base/str.h"

#define CTXP_DEPTH_MAX 32 /* levels of nesting that a value may have */

/* ---- writing; failures stick in the buffer ---- */
int ctxp_pack_write(void *buf, const char *bytes, size_t len); /* msgpack_packer_write */
static inline void ctxp_pack_init(msgpack_packer *pk, struct ctxp_buf *buf) { msgpack_packer_init(pk, buf, ctxp_pack_write); }
void ctxp_pack_str(struct ctxp_buf *buf, struct ctxp_str text);
void ctxp_pack_cstr(struct ctxp_buf *buf, const char *text);
void ctxp_pack_u64(struct ctxp_buf *buf, uint64_t value);
void ctxp_pack_i64(struct ctxp_buf *buf, int64_t value);
void ctxp_pack_bool(struct ctxp_buf *buf, bool value);
void ctxp_pack_f64(struct ctxp_buf *buf, double value);
void ctxp_pack_nil(struct ctxp_buf *buf);
void ctxp_pack_map(struct ctxp_buf *buf, uint32_t pairs);
void ctxp_pack_array(struct ctxp_buf *buf, uint32_t count);
void ctxp_pack_bin(struct ctxp_buf *buf, struct ctxp_raw bytes);
void ctxp_pack_time(struct ctxp_buf *buf, uint64_t utc_ms); /* the timestamp extension; ISO 8601 in JSON */
void ctxp_pack_raw(struct ctxp_buf *buf, struct ctxp_raw value); /* an encoded value as it is; absent: nil */
/* a map or an array whose count is known only at its end: reserve, fill, then set it */
size_t ctxp_pack_map_open(struct ctxp_buf *buf); /* returns a mark */
size_t ctxp_pack_array_open(struct ctxp_buf *buf);
void ctxp_pack_close(struct ctxp_buf *buf, size_t mark, uint32_t count);

/* ---- reading ---- */
enum ctxp_pack_type {
  CTXP_PACK_NIL,
  CTXP_PACK_BOOL,
  CTXP_PACK_U64,
  CTXP_PACK_I64 /* negative */,
  CTXP_PACK_F64,
  CTXP_PACK_STR,
  CTXP_PACK_BIN,
  CTXP_PACK_ARRAY,
  CTXP_PACK_MAP,
  CTXP_PACK_EXT
};
struct ctxp_pack_value {
  enum ctxp_pack_type type;
  int8_t ext;
  uint32_t count; /* of an array or map (pairs); its elements follow at the cursor */
  union {
    bool b;
    uint64_t u;
    int64_t i;
    double f;
    struct ctxp_str str; /* STR, BIN, EXT: borrowed */
  };
};
struct ctxp_cursor {
  const uint8_t *at, *end;
};
static inline struct ctxp_cursor ctxp_cursor(struct ctxp_raw raw) {
  return (struct ctxp_cursor){raw.ptr, raw.len ? raw.ptr + raw.len : raw.ptr};
}
/* Reads the head of the next value, and the bytes of a text. A count that the remaining bytes cannot hold is -EBADMSG. */
int ctxp_cursor_next(struct ctxp_cursor *cursor, struct ctxp_pack_value *ret) __attribute__((warn_unused_result));
/* Passes over one whole value and returns its bytes. -EBADMSG: cut off, malformed, or deeper than CTXP_DEPTH_MAX. */
int ctxp_cursor_skip(struct ctxp_cursor *cursor, struct ctxp_raw *ret) __attribute__((warn_unused_result));
/* One whole value that ends where the bytes end, all its texts UTF-8 and its map keys texts. 0 or -EBADMSG. */
int ctxp_pack_check(struct ctxp_raw raw) __attribute__((warn_unused_result));

/* ---- looking into a checked map; what is absent or of another type gives the default ---- */
struct ctxp_raw ctxp_map_get(struct ctxp_raw map, const char *key); /* the last of equal keys; {NULL, 0}: not there */
struct ctxp_str ctxp_map_str(struct ctxp_raw map, const char *key);
uint64_t ctxp_map_u64(struct ctxp_raw map, const char *key, uint64_t missing);
int64_t ctxp_map_i64(struct ctxp_raw map, const char *key, int64_t missing);
bool ctxp_map_bool(struct ctxp_raw map, const char *key, bool missing);
enum ctxp_pack_type ctxp_raw_type(struct ctxp_raw raw); /* NIL for an absent one */
struct ctxp_str ctxp_raw_str(struct ctxp_raw raw);
/* Visits a map: set `it` to ctxp_cursor of it, call open, then next until 0. */
int ctxp_map_open(struct ctxp_cursor *it, uint32_t *ret_pairs) __attribute__((warn_unused_result));
int ctxp_map_next(struct ctxp_cursor *it, uint32_t *pairs_left, struct ctxp_str *ret_key, struct ctxp_raw *ret_value);
int ctxp_array_open(struct ctxp_cursor *it, uint32_t *ret_count) __attribute__((warn_unused_result));
int ctxp_array_next(struct ctxp_cursor *it, uint32_t *left, struct ctxp_raw *ret_value);
