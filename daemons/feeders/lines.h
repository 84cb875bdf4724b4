/* The lines of a file, read with read(2) through one buffer of bounded size: a file that shrinks or vanishes while it is read
 * ends early, and nothing else happens. A file that fits into the buffer is read once however often one goes back. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/error.h"

struct ctxp_lines {
  int fd; /* -1: from memory */
  uint8_t *buf;
  size_t cap, len; /* of the buffer; len: bytes of the file in it */
  uint64_t base; /* place in the file of the buffer's first byte */
  uint64_t at; /* where the next line begins */
  uint64_t number; /* of the next line, from 1 */
  uint64_t size; /* of the file, when it was opened */
  uint64_t modified_ms; /* the same; UTC */
  size_t buffer_bytes, line_bytes; /* limits: of the buffer (until a line is longer), of one line */
};
struct ctxp_line {
  struct ctxp_str text; /* without its end; until the next call */
  uint64_t offset, number;
  uint64_t bytes; /* with its end */
  bool torn; /* the file's last one, without an end */
  bool too_long; /* above the limit: text is empty */
};

/* {.fd = -1} is one that reads nothing; the buffer of the file before is used again. */
int ctxp_lines_open(struct ctxp_lines *lines, const char *path, struct ctxp_error *err) __attribute__((warn_unused_result));
/* The same of bytes in memory, borrowed. */
void ctxp_lines_memory(struct ctxp_lines *lines, struct ctxp_raw bytes);
void ctxp_lines_close(struct ctxp_lines *lines);
void ctxp_lines_deinit(struct ctxp_lines *lines); /* the buffer too */
/* 1: a line; 0: the end; <0: -errno. A byte order mark at the file's start and a CR at a line's end are no part of the text. */
int ctxp_lines_next(struct ctxp_lines *lines, struct ctxp_line *ret) __attribute__((warn_unused_result));
/* Bytes at a place of the file, until the next call. 1: read; 0: the file does not reach so far any more. */
int ctxp_lines_read(struct ctxp_lines *lines, uint64_t offset, size_t len, struct ctxp_str *ret) __attribute__((warn_unused_result));
