#include "fold/pick.h"
#include <errno.h>
#include "base/clock.h"
#include "codec/msgpack.h"

struct ctxp_fold_pick ctxp_fold_pick(struct ctxp_raw query) {
  return (struct ctxp_fold_pick){.sessions = {ctxp_map_str(query, "agent"), ctxp_map_str(query, "session")},
      .model = ctxp_map_str(query, "model"),
      .since_ms = ctxp_map_u64(query, "since", 0)};
}

bool ctxp_fold_pick_counts(const void *pick, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q) {
  const struct ctxp_fold_pick *p = pick;
  if (q->ts_ms < p->since_ms) return false;
  return p->model.len == 0 || (q->model != CTXP_FOLD_OPEN && ctxp_str_eq(w->models.at[q->model], p->model));
}

static int remember_model(struct ctxp_fold_pick *p, struct ctxp_str model) {
  for (unsigned i = 0; i < p->model_count; i++)
    if (ctxp_str_eq(ctxp_buf_view(&p->models[i]), model)) return 0;
  p->more_models |= p->model_count == CTXP_FOLD_NAMES_TOLD;
  if (p->model_count == CTXP_FOLD_NAMES_TOLD) return 0;
  ctxp_buf_add(&p->models[p->model_count], model.ptr, model.len);
  return ctxp_buf_error(&p->models[p->model_count++]);
}

int ctxp_fold_pick_look(struct ctxp_fold_pick *p, const struct ctxp_fold_window *w, bool *ret_any) {
  int r = 0;
  *ret_any = false;
  for (uint32_t i = 0; i < w->requests.count; i++) {
    const struct ctxp_fold_request *q = &w->requests.at[i];
    if (!(q->flags & CTXP_FOLD_COUNTED)) continue;
    if (q->ts_ms > p->last_ms) p->last_ms = q->ts_ms;
    *ret_any |= ctxp_fold_pick_counts(p, w, q);
  }
  for (uint32_t m = 0; r == 0 && p->model.len && m < w->models.count; m++) r = remember_model(p, w->models.at[m]);
  return r;
}

static bool model_known(const struct ctxp_fold_pick *p) {
  for (unsigned i = 0; i < p->model_count; i++)
    if (ctxp_str_eq(ctxp_buf_view(&p->models[i]), p->model)) return true;
  return p->more_models; /* perhaps among those that are not told */
}

int ctxp_fold_pick_missed(struct ctxp_fold_pick *p, struct ctxp_error *err) {
  char since[CTXP_ISO_SIZE], last[CTXP_ISO_SIZE];
  ctxp_auto_buf there = {0};
  for (unsigned i = 0; i < p->model_count; i++)
    ctxp_buf_printf(&there, "%s'%s'", i ? ", " : "; there is ", ctxp_buf_cstr(&p->models[i]));
  if (p->model_count && p->more_models) ctxp_buf_str(&there, " and more");
  if (!p->model_count) ctxp_buf_str(&there, "; no request says its model");
  ctxp_time_iso(p->since_ms, since);
  ctxp_time_iso(p->last_ms, last);
  if (p->model.len && !(p->since_ms && model_known(p)))
    return ctxp_error_set(err, -ENOENT, "no request of model '%.*s' is known%s", (int)p->model.len, p->model.ptr, ctxp_buf_cstr(&there));
  if (p->last_ms == 0) return ctxp_error_set(err, -ENOENT, "no request at or after %s is known; there are none yet", since);
  return ctxp_error_set(err, -ENOENT, "no request%s%.*s%s at or after %s is known; the last of all was at %s",
      p->model.len ? " of model '" : "", (int)p->model.len, p->model.ptr, p->model.len ? "'" : "", since, last);
}

void ctxp_fold_pick_deinit(struct ctxp_fold_pick *p) {
  for (unsigned i = 0; i < CTXP_FOLD_NAMES_TOLD; i++) ctxp_buf_deinit(&p->models[i]);
}
