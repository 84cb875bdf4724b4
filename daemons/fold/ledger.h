/* The savings ledger: what was kept out of the window, per turn and since the session began.
 *
 * A turn has what was applied since the last turn of its thread ended; a session's sums are over its threads. What the agent did
 * not ask for is potential and in no total. `carried` is what stays out: the tokens that the requests of a turn would have carried
 * had nothing been done, priced as the rest of each request was (its input cost times their share of it). Lazily loaded
 * descriptions are not in it: they are an estimate of what was not injected, counted once a run.
 *
 * A resumed or copied conversation tells of the same calls again, under another session's name. What is potential counts once for
 * ever: of a tool call by its id within the agent, of a run or a turn by the responses in it, as the bill does. What was applied
 * really kept tokens out, and always counts. */
#pragma once
#include "fold/window.h"

struct ctxp_fold_closed_turn {
  uint64_t turn, saved[CTXP_FOLD_MECHANISMS], aux, carried, carried_cost_nano;
  int64_t net;
  bool carried_priced;
};
struct ctxp_fold_session {
  struct ctxp_hash128 key;
  uint64_t number; /* in order of appearance, from 1 */
  struct ctxp_fold_arena arena;
  struct ctxp_str agent, session, product, cwd; /* product, cwd: as the last start said */
  CTXP_FOLD_ARRAY(struct ctxp_hash128, windows); /* its threads', in order of appearance */
  uint64_t saved[CTXP_FOLD_MECHANISMS], restored[CTXP_FOLD_MECHANISMS];
  int64_t restored_rest; /* what the restored total has beyond its parts: a snapshot's total is taken as it was given */
  uint64_t turns, aux, regret, carried, carried_cost_nano;
  struct ctxp_fold_closed_turn last; /* if turns > 0 */
  uint64_t potential[CTXP_FOLD_MECHANISMS], looked_at[CTXP_FOLD_MECHANISMS]; /* by the mechanisms' own figures */
  uint64_t offered_lazy; /* catalogues and skills of its runs */
  bool has_restored, carried_priced, recorded, changed;
  uint32_t loaded_windows;
  UT_hash_handle hh;
};

/* An event of a mechanism, applied or potential. -ENOMEM, -EBADMSG. */
int ctxp_fold_ledger_take(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_event *ev)
    __attribute__((warn_unused_result));
/* A response came, billed here or (own: false) before. */
void ctxp_fold_ledger_response(struct ctxp_fold_window *w, bool own);
/* A request was formed: what it would have carried. q: its figures. -ENOMEM. */
int ctxp_fold_ledger_request(struct ctxp_fold_window *w, const struct ctxp_fold_request *q) __attribute__((warn_unused_result));
/* Notes an effect; a failure is in w->effects_failed. */
void ctxp_fold_effect(struct ctxp_fold_window *w, const struct ctxp_fold_effect *effect);
/* What the mechanism asked a model for by the event of that time was for this call. */
void ctxp_fold_effect_verdict(struct ctxp_fold_window *w, unsigned mechanism, uint64_t ts_ms, struct ctxp_str call);
/* Is there anything that no turn has? */
bool ctxp_fold_ledger_pending(const struct ctxp_fold_window *w);
/* Ends a turn that is nothing but a copy of one that was counted: true, and there is no event of it. */
bool ctxp_fold_ledger_copied_turn(struct ctxp_fold_window *w, uint64_t turn);
/* Ends a turn and fills its event. */
void ctxp_fold_ledger_turn(struct ctxp_fold_window *w, uint64_t turn, struct ctxp_turn *ret);
/* Takes what `agent_start` offers: tools and skills, the denominator of lazy. -ENOMEM. */
int ctxp_fold_ledger_offer(struct ctxp_fold_window *w, const struct ctxp_agent_start *start) __attribute__((warn_unused_result));
/* Checks {cumulative, turns} and takes the sums over; appends the snapshot as it is told (at most the last 40 turns) to out.
 * 0; >0: it does not fit, with a sentence in *ret_fault, and nothing was taken. -ENOMEM. */
int ctxp_fold_ledger_restore(struct ctxp_fold_session *s, struct ctxp_raw restore, struct ctxp_buf *out, const char **ret_fault)
    __attribute__((warn_unused_result));
void ctxp_fold_session_free(struct ctxp_fold_session *s);
