/* The bill by what requests have in common: day, project (the working directory), model, agent. Each request is in one group, so the
 * groups add up to the total. */
#pragma once
#include "fold/pick.h"

enum ctxp_fold_group_by { CTXP_FOLD_NO_GROUPS,
  CTXP_FOLD_BY_DAY,
  CTXP_FOLD_BY_PROJECT,
  CTXP_FOLD_BY_MODEL,
  CTXP_FOLD_BY_AGENT,
  CTXP_FOLD_GROUP_BYS };
struct ctxp_fold_group {
  struct ctxp_str key; /* empty: not said */
  uint64_t hash, sessions, last_session; /* last_session: number of the one that was counted last */
  struct ctxp_fold_figures figures, of_threads; /* of_threads: the part that sub-agents had */
};
struct ctxp_fold_groups {
  enum ctxp_fold_group_by by;
  struct ctxp_raw offsets; /* for days: [[from (ms), seconds east of UTC], ...], ascending; empty: UTC */
  struct ctxp_fold_arena arena;
  CTXP_FOLD_ARRAY(struct ctxp_fold_group, groups);
  struct ctxp_fold_index index;
  uint32_t last; /* the group of the request before */
};
/* What `by` of a query says; NO_GROUPS: another thing. */
enum ctxp_fold_group_by ctxp_fold_group_by(struct ctxp_str by);
/* Adds the requests of a window that pass. -ENOMEM. */
int ctxp_fold_groups_add(struct ctxp_fold_groups *g, const struct ctxp_fold_window *w, const struct ctxp_fold_pick *pick)
    __attribute__((warn_unused_result));
/* The key of the list in a report: days, projects, ...; and of a group's name in its row. */
extern const char *const ctxp_fold_group_lists[CTXP_FOLD_GROUP_BYS], *const ctxp_fold_group_names[CTXP_FOLD_GROUP_BYS];
/* Days in their order, all others by cost, then by billed tokens, then by name. */
void ctxp_fold_groups_rank(struct ctxp_fold_groups *g);
void ctxp_fold_groups_deinit(struct ctxp_fold_groups *g);
