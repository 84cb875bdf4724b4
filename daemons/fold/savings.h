/* What the fold tells of the ledger: `stats`, and the potential savings with what they are of. And the walk over all sessions that
 * both queries make. */
#pragma once
#include "ctxpipe/buf.h"
#include "fold/store.h"

struct ctxp_fold_filter { /* empty: all */
  struct ctxp_str agent, session;
};
/* Visits the sessions that pass, in order of appearance; what was loaded for it is unloaded again. */
int ctxp_fold_each_session(struct ctxp_stage *stage, const struct ctxp_fold_filter *filter,
    int (*visit)(void *data, struct ctxp_stage *stage, struct ctxp_fold_session *session), void *data) __attribute__((warn_unused_result));
int ctxp_fold_each_window(struct ctxp_stage *stage, struct ctxp_fold_session *session,
    int (*visit)(void *data, struct ctxp_fold_window *window), void *data) __attribute__((warn_unused_result));

/* -ENOENT with a sentence that names some of what is there: no session passes, and so every figure would be a zero. */
int ctxp_fold_check_filter(struct ctxp_stage *stage, const struct ctxp_fold_filter *filter, struct ctxp_error *err)
    __attribute__((warn_unused_result));

struct ctxp_fold_potential { /* by mechanism */
  uint64_t saved[CTXP_FOLD_MECHANISMS], of[CTXP_FOLD_MECHANISMS];
};
/* Adds the estimate of what the mechanisms look at in a window: shell results; read, search and skill results; written contents. */
void ctxp_fold_look(const struct ctxp_fold_window *w, struct ctxp_fold_potential *seen);
/* Adds a session's potential savings; seen: of its windows. */
void ctxp_fold_add_potential(struct ctxp_fold_potential *sum, const struct ctxp_fold_session *s, const struct ctxp_fold_potential *seen);
void ctxp_fold_pack_potential(struct ctxp_buf *out, const struct ctxp_fold_potential *p);
int ctxp_fold_stats(struct ctxp_stage *stage, const struct ctxp_fold_filter *filter, struct ctxp_buf *reply, struct ctxp_error *err)
    __attribute__((warn_unused_result));
