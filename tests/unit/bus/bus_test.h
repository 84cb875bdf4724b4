/* What the tests of this folder share: a directory of their own, a stream in it, and bodies to put into it. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/clock.h"
#include "bus/stream.h"

struct bus_dir {
  char path[64];
};
struct bus_stream {
  struct ctxp_store *store;
  struct ctxp_stream *stream;
};

static inline void bus_dir_make(struct bus_dir *dir) {
  snprintf(dir->path, sizeof(dir->path), "/tmp/ctxp-bus-XXXXXX");
  assert_non_null(mkdtemp(dir->path));
}
static inline void bus_dir_remove(const struct bus_dir *dir) {
  char command[128];
  snprintf(command, sizeof(command), "rm -rf '%s'", dir->path);
  assert_int_equal(system(command), 0);
}

static inline void bus_open(struct bus_stream *s, const char *dir, uint64_t max_bytes) {
  struct ctxp_store_options options = {.max_bytes = max_bytes};
  struct ctxp_error err = {""};
  if (ctxp_store_open(dir, &options, &s->store, &err) < 0) fail_msg("%s", err.text);
  if (ctxp_stream_open(s->store, max_bytes, &s->stream, &err) < 0) fail_msg("%s", err.text);
}
static inline void bus_close(struct bus_stream *s) {
  s->stream = ctxp_stream_free(s->stream);
  s->store = ctxp_store_free(s->store);
}

/* a body of its own for every number: a session_end whose reason is `text` */
static inline struct ctxp_raw bus_body(struct ctxp_buf *buf, const char *text) {
  struct ctxp_event event = {.kind = CTXP_KIND_session_end};
  ctxp_set(&event.session_end, session_end, reason, ctxp_str(text));
  ctxp_buf_reset(buf);
  assert_int_equal(ctxp_event_encode(&event, buf), 0);
  return ctxp_buf_raw(buf);
}

static inline uint64_t bus_append(struct bus_stream *s, unsigned topic, uint64_t cause, const char *text, uint64_t *ret_prev) {
  ctxp_auto_buf buf = {0};
  struct ctxp_error err = {""};
  uint64_t prev;
  struct ctxp_record record = {.cause = cause, .ts_ms = 1000 + cause, .topic = topic, .body = bus_body(&buf, text)};
  if (ctxp_stream_append(s->stream, &record, &prev, &err) < 0) fail_msg("%s", err.text);
  if (ret_prev) *ret_prev = prev;
  return record.seq;
}
static inline void bus_commit(struct bus_stream *s) {
  struct ctxp_error err = {""};
  if (ctxp_stream_commit(s->stream, ctxp_clock_utc_ms(), &err) < 0) fail_msg("%s", err.text);
}
