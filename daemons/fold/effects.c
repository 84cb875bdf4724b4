/* The log of what mechanisms did to a window; balance.c sums it up. */
#include "fold/ledger.h"

void ctxp_fold_effect(struct ctxp_fold_window *w, const struct ctxp_fold_effect *effect) {
  if (!ctxp_fold_grow(&w->effects, sizeof(*w->effects.at))) {
    w->effects_failed = true;
    return;
  }
  if (w->effects.count < w->effects.dirty) w->effects.dirty = w->effects.count;
  w->effects.at[w->effects.count++] = *effect;
}

/* a model is asked before there is a verdict, by the same event */
void ctxp_fold_effect_verdict(struct ctxp_fold_window *w, unsigned mechanism, uint64_t ts_ms, struct ctxp_str call) {
  for (uint32_t i = w->effects.count; i-- > 0;) {
    struct ctxp_fold_effect *e = &w->effects.at[i];
    if (e->kind != CTXP_FOLD_ASKED || e->mechanism != mechanism || e->ts_ms != ts_ms || !ctxp_fold_hash_none(e->call)) return;
    e->call = ctxp_hash128(call.ptr, call.len);
    if (i < w->effects.dirty) w->effects.dirty = i;
  }
}
