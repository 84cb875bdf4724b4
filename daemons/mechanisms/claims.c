#include <errno.h>
#include <stdlib.h>
#include "codec/msgpack.h"
#include "mechanisms/claims.h"

void ctxp_claims_drop(struct ctxp_claims *claims, unsigned i) {
  free(claims->at[i].call);
  memmove(claims->at + i, claims->at + i + 1, (--claims->count - i) * sizeof(claims->at[0]));
  claims->base.changed = true;
}

int ctxp_claims_add(struct ctxp_claims *claims, uint64_t ask, struct ctxp_str call, uint64_t saved) {
  char *copy = ctxp_str_dup(call);
  if (!copy) return -ENOMEM;
  if (claims->count == CTXP_CLAIMS_MAX) ctxp_claims_drop(claims, 0);
  claims->at[claims->count++] = (struct ctxp_claim){ask, saved, copy, call.len};
  claims->base.changed = true;
  return 0;
}

static void dump(const void *window, struct ctxp_buf *out) {
  const struct ctxp_claims *claims = window;
  ctxp_pack_array(out, claims->count * 3);
  for (unsigned i = 0; i < claims->count; i++) {
    ctxp_pack_u64(out, claims->at[i].ask);
    ctxp_pack_u64(out, claims->at[i].saved);
    ctxp_pack_str(out, (struct ctxp_str){claims->at[i].call, claims->at[i].call_len});
  }
}

static int load(void *window, struct ctxp_raw state) {
  struct ctxp_cursor it = ctxp_cursor(state);
  struct ctxp_pack_value v[3];
  uint32_t left;
  if (ctxp_array_open(&it, &left) < 0) return -EBADMSG;
  for (; left >= 3; left -= 3) {
    for (unsigned i = 0; i < 3; i++)
      if (ctxp_cursor_next(&it, &v[i]) < 0) return -EBADMSG;
    int r = ctxp_claims_add(window, v[0].u, v[2].str, v[1].u);
    if (r < 0) return r;
  }
  ((struct ctxp_claims *)window)->base.changed = false;
  return 0;
}

static bool keeps(const void *window) { return ((const struct ctxp_claims *)window)->count > 0; }
static void deinit(void *window) {
  struct ctxp_claims *claims = window;
  while (claims->count) ctxp_claims_drop(claims, claims->count - 1);
}
const struct ctxp_window_ops ctxp_claims_ops = {
    .size = sizeof(struct ctxp_claims), .load = load, .dump = dump, .keeps = keeps, .deinit = deinit};
