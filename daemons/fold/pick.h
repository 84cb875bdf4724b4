/* Which requests a question is about: of which agent, session and model, and since when. */
#pragma once
#include "fold/savings.h"
#include "fold/spend.h"

#define CTXP_FOLD_NAMES_TOLD 3
struct ctxp_fold_pick { /* empty: all */
  struct ctxp_fold_filter sessions;
  struct ctxp_str model;
  uint64_t since_ms; /* by the requests' own times */
  /* what there is, for the sentence where nothing passes */
  struct ctxp_buf models[CTXP_FOLD_NAMES_TOLD];
  unsigned model_count;
  bool more_models;
  uint64_t last_ms;
};
/* Reads agent, session, model and since (ms) of a query; the texts are borrowed from it. */
struct ctxp_fold_pick ctxp_fold_pick(struct ctxp_raw query);
/* Is it about some requests of a session only? */
static inline bool ctxp_fold_pick_narrows(const struct ctxp_fold_pick *p) { return p->model.len || p->since_ms; }
bool ctxp_fold_pick_counts(const void *pick, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q);
/* Does any counted request of the window pass? Remembers what there is. -ENOMEM. */
int ctxp_fold_pick_look(struct ctxp_fold_pick *p, const struct ctxp_fold_window *w, bool *ret_any) __attribute__((warn_unused_result));
/* -ENOENT with a sentence: no request passed. */
int ctxp_fold_pick_missed(struct ctxp_fold_pick *p, struct ctxp_error *err) __attribute__((warn_unused_result));
void ctxp_fold_pick_deinit(struct ctxp_fold_pick *p);
