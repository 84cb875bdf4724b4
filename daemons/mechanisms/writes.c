#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "mechanisms/writes.h"

struct ctxp_written *ctxp_written_free(struct ctxp_written *w) {
  if (!w) return NULL;
  free(w->call);
  free(w->path);
  free(w->fact);
  free(w);
  return NULL;
}

void ctxp_writes_forget(struct ctxp_writes *writes, struct ctxp_written *w) {
  HASH_DEL(writes->all, w);
  ctxp_written_free(w);
}

struct ctxp_written *ctxp_writes_find(struct ctxp_writes *writes, struct ctxp_str call) {
  struct ctxp_written *w;
  HASH_FIND(hh, writes->all, call.ptr, call.len, w);
  return w;
}

int ctxp_writes_add(struct ctxp_writes *writes, struct ctxp_written *w) {
  struct ctxp_written *old = ctxp_writes_find(writes, ctxp_written_call(w));
  if (old) ctxp_writes_forget(writes, old);
  if (HASH_COUNT(writes->all) >= CTXP_WRITES_MAX) ctxp_writes_forget(writes, writes->all);
  ctxp_map_failed = false;
  HASH_ADD_KEYPTR(hh, writes->all, w->call, w->call_len, w);
  if (!ctxp_map_failed) return 0;
  ctxp_written_free(w);
  return -ENOMEM;
}

/* ---- the window in the store: [[call, path, fact, hash, original, factTokens, ask, step, superseded, byModel], ...] ---- */
enum { STORED_FIELDS = 10,
  STORED_BEFORE = 9 /* without byModel */ };

static void dump(const void *window, struct ctxp_buf *out) {
  const struct ctxp_writes *writes = window;
  ctxp_pack_array(out, HASH_COUNT(writes->all));
  for (const struct ctxp_written *w = writes->all; w; w = w->hh.next) {
    ctxp_pack_array(out, STORED_FIELDS);
    ctxp_pack_str(out, ctxp_written_call(w));
    ctxp_pack_str(out, ctxp_written_path(w));
    ctxp_pack_cstr(out, w->fact);
    ctxp_pack_cstr(out, w->hash);
    ctxp_pack_u64(out, w->original_tokens);
    ctxp_pack_u64(out, w->fact_tokens);
    ctxp_pack_u64(out, w->ask);
    ctxp_pack_u64(out, (uint64_t)w->step);
    ctxp_pack_bool(out, w->superseded);
    ctxp_pack_bool(out, w->by_model);
  }
}

struct ctxp_written *ctxp_written_new(struct ctxp_str call, struct ctxp_str path, struct ctxp_str fact) {
  struct ctxp_written *w = calloc(1, sizeof(*w));
  if (!w) return NULL;
  *w = (struct ctxp_written){
      .call = ctxp_str_dup(call), .path = ctxp_str_dup(path), .fact = ctxp_str_dup(fact), .call_len = call.len, .path_len = path.len};
  if (w->call && w->path && w->fact) return w;
  ctxp_written_free(w);
  return NULL;
}

static int load_write(struct ctxp_writes *writes, struct ctxp_raw raw) {
  struct ctxp_cursor it = ctxp_cursor(raw);
  struct ctxp_pack_value v[STORED_FIELDS] = {0};
  uint32_t left;
  if (ctxp_array_open(&it, &left) < 0 || left > STORED_FIELDS || left < STORED_BEFORE) return -EBADMSG;
  for (unsigned i = 0; i < left; i++)
    if (ctxp_cursor_next(&it, &v[i]) < 0) return -EBADMSG;
  struct ctxp_written *w = ctxp_written_new(v[0].str, v[1].str, v[2].str);
  if (!w) return -ENOMEM;
  snprintf(w->hash, sizeof(w->hash), "%.*s", (int)v[3].str.len, v[3].str.ptr);
  w->original_tokens = v[4].u;
  w->fact_tokens = v[5].u;
  w->ask = v[6].u;
  w->step = (enum ctxp_write_step)v[7].u;
  w->superseded = v[8].b;
  w->by_model = left == STORED_FIELDS && v[9].b;
  return ctxp_writes_add(writes, w);
}

static int load(void *window, struct ctxp_raw state) {
  struct ctxp_cursor it = ctxp_cursor(state);
  struct ctxp_raw one;
  uint32_t left;
  if (ctxp_array_open(&it, &left) < 0) return -EBADMSG;
  while (left) {
    if (ctxp_array_next(&it, &left, &one) < 0) return -EBADMSG;
    int r = load_write(window, one);
    if (r < 0) return r;
  }
  return 0;
}

static bool keeps(const void *window) { return ((const struct ctxp_writes *)window)->all != NULL; }
static void deinit(void *window) {
  struct ctxp_writes *writes = window;
  while (writes->all) ctxp_writes_forget(writes, writes->all);
}
const struct ctxp_window_ops ctxp_writes_ops = {
    .size = sizeof(struct ctxp_writes), .load = load, .dump = dump, .keeps = keeps, .deinit = deinit};
