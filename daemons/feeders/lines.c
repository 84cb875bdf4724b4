#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "feeders/lines.h"

#define BUFFER_BYTES ((size_t)16 << 20)
#define LINE_BYTES ((size_t)64 << 20)
#define READ_BYTES ((size_t)64 << 10) /* at once: what is read is looked at while it is in the processor's cache */

int ctxp_lines_open(struct ctxp_lines *lines, const char *path, struct ctxp_error *err) {
  struct stat st;
  ctxp_lines_close(lines);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return ctxp_error_set(err, -errno, "%s: cannot be opened: %s", path, strerror(errno));
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return ctxp_error_set(err, -EINVAL, "%s: is no file", path);
  }
  *lines = (struct ctxp_lines){.fd = fd,
      .buf = lines->buf,
      .cap = lines->cap,
      .number = 1,
      .size = (uint64_t)st.st_size,
      .modified_ms = (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000,
      .buffer_bytes = BUFFER_BYTES,
      .line_bytes = LINE_BYTES};
  return 0;
}

void ctxp_lines_memory(struct ctxp_lines *lines, struct ctxp_raw bytes) {
  union {
    const uint8_t *borrowed;
    uint8_t *kept;
  } memory = {.borrowed = bytes.ptr}; /* never written to, as fd is -1; not to be deinitialised */
  *lines = (struct ctxp_lines){
      .fd = -1, .number = 1, .buf = memory.kept, .len = bytes.len, .cap = bytes.len, .size = bytes.len, .line_bytes = LINE_BYTES};
}

void ctxp_lines_close(struct ctxp_lines *lines) {
  if (lines->fd >= 0) close(lines->fd);
  lines->fd = -1;
}

void ctxp_lines_deinit(struct ctxp_lines *lines) {
  ctxp_lines_close(lines);
  free(lines->buf);
  *lines = (struct ctxp_lines){.fd = -1};
}

/* Makes the buffer hold what follows `offset` (at least one byte more than it does now, if the file has it): what lies before it may
 * go, and the buffer grows up to `limit`. 1: there is more; 0: the file's end, or no room within the limit. */
static int fill(struct ctxp_lines *lines, uint64_t offset, size_t limit) {
  if (lines->fd < 0) return 0;
  uint64_t end = lines->base + lines->len;
  if (offset < lines->base || offset > end) {
    lines->base = end = offset;
    lines->len = 0;
  }
  size_t wanted = lines->buffer_bytes; /* also for a short file: what is not read into is no memory, and the next one may be longer */
  if (lines->len == lines->cap || wanted > lines->cap) {
    size_t drop = (size_t)(offset - lines->base), cap = wanted > lines->cap ? wanted : lines->cap;
    if (lines->len == cap && drop >= cap / 2) {
      memmove(lines->buf, lines->buf + drop, lines->len - drop);
      lines->base = offset;
      lines->len -= drop;
    } else if (lines->len == cap) {
      if (lines->len - drop >= limit) return 0;
      cap *= 2;
    }
    uint8_t *grown = cap > lines->cap ? realloc(lines->buf, cap) : lines->buf;
    if (!grown) return -ENOMEM;
    lines->buf = grown;
    if (cap > lines->cap) lines->cap = cap;
  }
  size_t ask = lines->cap - lines->len;
  ssize_t n;
  do n = pread(lines->fd, lines->buf + lines->len, ask < READ_BYTES ? ask : READ_BYTES, (off_t)end);
  while (n < 0 && errno == EINTR);
  if (n < 0) return -errno;
  lines->len += (size_t)n;
  return n > 0;
}

/* passes over a line above the limit without keeping it */
static int skip_long(struct ctxp_lines *lines, struct ctxp_line *ret) {
  uint64_t at = lines->base + lines->len;
  for (;;) {
    lines->base = at;
    lines->len = 0;
    int r = fill(lines, at, lines->line_bytes);
    if (r < 0) return r;
    const uint8_t *end = r > 0 ? memchr(lines->buf, '\n', lines->len) : NULL;
    at += end ? (size_t)(end - lines->buf) + 1 : lines->len;
    if (end || r == 0) break;
  }
  ret->text = (struct ctxp_str){"", 0};
  ret->too_long = true;
  ret->bytes = at - ret->offset;
  lines->at = at;
  return 1;
}

int ctxp_lines_next(struct ctxp_lines *lines, struct ctxp_line *ret) {
  size_t seen = 0; /* bytes of the line without a newline */
  *ret = (struct ctxp_line){.offset = lines->at, .number = lines->number++};
  for (;;) {
    uint64_t have = lines->at >= lines->base && lines->at <= lines->base + lines->len ? lines->base + lines->len - lines->at : 0;
    const char *start = have ? (const char *)lines->buf + (lines->at - lines->base) : "";
    const char *end = have > seen ? memchr(start + seen, '\n', have - seen) : NULL;
    if (end) {
      ret->text = (struct ctxp_str){start, (size_t)(end - start)};
      ret->bytes = ret->text.len + 1;
      break;
    }
    seen = have;
    int r = seen > lines->line_bytes ? 0 : fill(lines, lines->at, lines->line_bytes + 1);
    if (r < 0) return r;
    if (r > 0) continue;
    if (seen > lines->line_bytes) return skip_long(lines, ret);
    if (seen == 0) return 0;
    start = (const char *)lines->buf + (lines->at - lines->base);
    ret->text = (struct ctxp_str){start, seen};
    ret->bytes = seen;
    ret->torn = true;
    break;
  }
  lines->at += ret->bytes;
  ret->too_long = ret->text.len > lines->line_bytes;
  if (ret->too_long) ret->text.len = 0;
  if (ret->offset == 0 && ret->text.len >= 3 && memcmp(ret->text.ptr, "\xef\xbb\xbf", 3) == 0) ret->text.ptr += 3, ret->text.len -= 3;
  if (ret->text.len && ret->text.ptr[ret->text.len - 1] == '\r') ret->text.len--;
  return 1;
}

int ctxp_lines_read(struct ctxp_lines *lines, uint64_t offset, size_t len, struct ctxp_str *ret) {
  while (offset < lines->base || offset + len > lines->base + lines->len) {
    int r = fill(lines, offset, len);
    if (r <= 0) return r;
  }
  *ret = (struct ctxp_str){(const char *)lines->buf + (offset - lines->base), len};
  return 1;
}
