/* Buffers, errors, log lines, hashes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/str.h"
#include "ctxpipe/error.h"
#include "ctxpipe/log.h"

_Thread_local bool ctxp_map_failed;

uint8_t *ctxp_buf_room(struct ctxp_buf *buf, size_t len) {
  if (buf->failed) return NULL;
  if (buf->cap && len <= buf->cap - buf->len) return buf->ptr + buf->len;
  size_t cap = buf->cap ? buf->cap : 256;
  if (len > SIZE_MAX / 2 - buf->len) goto fail;
  while (cap - buf->len < len) cap *= 2;
  uint8_t *ptr = realloc(buf->ptr, cap);
  if (!ptr) goto fail;
  buf->ptr = ptr;
  buf->cap = cap;
  return ptr + buf->len;
fail:
  buf->failed = true;
  return NULL;
}

void ctxp_buf_add(struct ctxp_buf *buf, const void *bytes, size_t len) {
  if (len == 0) return;
  uint8_t *room = ctxp_buf_room(buf, len);
  if (!room) return;
  memcpy(room, bytes, len);
  buf->len += len;
}

void ctxp_buf_str(struct ctxp_buf *buf, const char *text) { ctxp_buf_add(buf, text, strlen(text)); }

void ctxp_buf_char(struct ctxp_buf *buf, char c) { ctxp_buf_add(buf, &c, 1); }

void ctxp_buf_printf(struct ctxp_buf *buf, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  va_end(args);
  uint8_t *room = len < 0 ? NULL : ctxp_buf_room(buf, (size_t)len + 1);
  if (room) {
    vsnprintf((char *)room, (size_t)len + 1, format, again);
    buf->len += (size_t)len;
  } else {
    buf->failed = true;
  }
  va_end(again);
}

const char *ctxp_buf_cstr(struct ctxp_buf *buf) {
  uint8_t *room = ctxp_buf_room(buf, 1);
  if (!room) return "";
  *room = 0;
  return (const char *)buf->ptr;
}

void ctxp_buf_deinit(struct ctxp_buf *buf) {
  free(buf->ptr);
  *buf = (struct ctxp_buf){0};
}

void ctxp_error_write(struct ctxp_error *err, const char *format, ...) {
  if (!err) return;
  va_list args;
  va_start(args, format);
  int len = vsnprintf(err->text, sizeof(err->text), format, args);
  va_end(args);
  if (len < 0) {
    err->text[0] = 0;
  } else if ((size_t)len >= sizeof(err->text)) {
    size_t end = sizeof(err->text) - 1; /* cut at a character */
    while (end > 0 && ((unsigned char)err->text[end - 1] & 0xc0) == 0x80) end--;
    if (end > 0 && (unsigned char)err->text[end - 1] >= 0xc0) end--;
    err->text[end] = 0;
  }
}

static const char *log_node = "ctxpipe";
static enum ctxp_level log_level = CTXP_LOG_INFO;

void ctxp_log_set(const char *node, enum ctxp_level level) {
  log_node = node;
  log_level = level;
}

enum ctxp_level ctxp_log_level(void) { return log_level; }

void ctxp_log(enum ctxp_level level, const char *topic, const char *format, ...) {
  static const char *const names[] = {"error", "warn", "info", "debug"};
  if (level > log_level) return;
  char line[2048], iso[CTXP_ISO_SIZE];
  ctxp_time_iso(ctxp_clock_utc_ms(), iso);
  int head = snprintf(line, sizeof(line), "%s %s %s %s: ", iso, names[level], log_node, topic);
  if (head < 0 || (size_t)head >= sizeof(line) - 1) return;
  va_list args;
  va_start(args, format);
  int len = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, format, args);
  va_end(args);
  if (len < 0) return;
  size_t end = (size_t)head + (size_t)len;
  if (end > sizeof(line) - 2) end = sizeof(line) - 2;
  for (size_t i = (size_t)head; i < end; i++)
    if (line[i] == '\n') line[i] = ' ';
  line[end] = '\n';
  ssize_t written = write(STDERR_FILENO, line, end + 1);
  (void)written; /* nowhere left to say so */
}

uint64_t ctxp_hash64(const void *bytes, size_t len, uint64_t seed) { return XXH3_64bits_withSeed(bytes, len, seed); }

struct ctxp_hash128 ctxp_hash128(const void *bytes, size_t len) {
  XXH128_hash_t hash = XXH3_128bits(bytes, len);
  return (struct ctxp_hash128){hash.high64, hash.low64};
}

void ctxp_hash128_hex(struct ctxp_hash128 hash, char ret_text[CTXP_HASH_HEX]) {
  snprintf(ret_text, CTXP_HASH_HEX, "%016llx%016llx", (unsigned long long)hash.hi, (unsigned long long)hash.lo);
}
