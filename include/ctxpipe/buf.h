/* A growing byte buffer. Failure to allocate sticks: append freely, check `failed` (or ctxp_buf_error) once at the end. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "ctxpipe/event.h"
#pragma GCC visibility push(default)

struct ctxp_buf { /* {0} is an empty one */
  uint8_t *ptr;
  size_t len, cap;
  bool failed;
};

/* Room for `len` more bytes at ptr + len of the buffer, not yet counted; NULL: out of memory, sticks. */
uint8_t *ctxp_buf_room(struct ctxp_buf *buf, size_t len);
void ctxp_buf_add(struct ctxp_buf *buf, const void *bytes, size_t len);
void ctxp_buf_str(struct ctxp_buf *buf, const char *text); /* without its NUL */
void ctxp_buf_char(struct ctxp_buf *buf, char c);
void ctxp_buf_printf(struct ctxp_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The content as a C string, owned by the buffer; "" if it failed. */
const char *ctxp_buf_cstr(struct ctxp_buf *buf);
void ctxp_buf_deinit(struct ctxp_buf *buf);
static inline void ctxp_buf_reset(struct ctxp_buf *buf) {
  buf->len = 0;
  buf->failed = false;
}
static inline int ctxp_buf_error(const struct ctxp_buf *buf) { return buf->failed ? -12 /* -ENOMEM */ : 0; }
static inline struct ctxp_raw ctxp_buf_raw(const struct ctxp_buf *buf) { return (struct ctxp_raw){buf->ptr, buf->len}; }
static inline struct ctxp_str ctxp_buf_view(const struct ctxp_buf *buf) { return (struct ctxp_str){(const char *)buf->ptr, buf->len}; }
/* what was added from the offset `from` on, which is at most len */
static inline struct ctxp_str ctxp_buf_from(const struct ctxp_buf *buf, size_t from) {
  if (!buf->ptr) return (struct ctxp_str){NULL, 0}; /* an offset to NULL is undefined, be it 0 */
  return (struct ctxp_str){(const char *)buf->ptr + from, buf->len - from};
}
#define ctxp_auto_buf __attribute__((cleanup(ctxp_buf_deinit))) struct ctxp_buf
#pragma GCC visibility pop
