#include "fold/groups.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "codec/msgpack.h"

const char *const ctxp_fold_group_lists[CTXP_FOLD_GROUP_BYS] = {"", "days", "projects", "models", "agents"};
const char *const ctxp_fold_group_names[CTXP_FOLD_GROUP_BYS] = {"", "day", "project", "model", "agent"};

enum ctxp_fold_group_by ctxp_fold_group_by(struct ctxp_str by) {
  for (unsigned i = 1; i < CTXP_FOLD_GROUP_BYS; i++)
    if (ctxp_str_is(by, ctxp_fold_group_names[i])) return (enum ctxp_fold_group_by)i;
  return CTXP_FOLD_NO_GROUPS;
}

/* ---- the group of a request ---- */
static int64_t offset_at(struct ctxp_raw offsets, uint64_t ms) {
  struct ctxp_cursor it = ctxp_cursor(offsets);
  struct ctxp_raw pair, value;
  uint32_t left, inner;
  int64_t seconds = 0;
  bool first = true;
  if (!offsets.len || ctxp_array_open(&it, &left) < 0) return 0;
  for (; ctxp_array_next(&it, &left, &pair) > 0; first = false) {
    struct ctxp_cursor in = ctxp_cursor(pair);
    struct ctxp_pack_value from;
    if (ctxp_array_open(&in, &inner) < 0 || inner != 2 || ctxp_cursor_next(&in, &from) < 0 || ctxp_cursor_skip(&in, &value) < 0) return 0;
    if (!first && (from.type != CTXP_PACK_U64 || from.u > ms)) break;
    in = ctxp_cursor(value);
    if (ctxp_cursor_next(&in, &from) < 0) return 0;
    seconds = from.type == CTXP_PACK_U64 ? (int64_t)from.u : from.type == CTXP_PACK_I64 ? from.i : 0;
  }
  return seconds;
}

static struct ctxp_str day_of(const struct ctxp_fold_groups *g, uint64_t ms, char text[32]) {
  int64_t offset = offset_at(g->offsets, ms);
  time_t seconds = (time_t)((int64_t)(ms / 1000) + (offset > 86400 || offset < -86400 ? 0 : offset));
  struct tm tm;
  if (!gmtime_r(&seconds, &tm)) return (struct ctxp_str){"", 0};
  snprintf(text, 32, "%04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
  return ctxp_str(text);
}

static struct ctxp_str key_of(
    const struct ctxp_fold_groups *g, const struct ctxp_fold_window *w, const struct ctxp_fold_request *q, char text[32]) {
  if (g->by == CTXP_FOLD_BY_DAY) return day_of(g, q->ts_ms, text);
  if (g->by == CTXP_FOLD_BY_AGENT) return w->session->agent;
  if (g->by == CTXP_FOLD_BY_MODEL) return q->model == CTXP_FOLD_OPEN ? (struct ctxp_str){"", 0} : w->models.at[q->model];
  return w->cwd.len ? w->cwd : w->session->cwd;
}

static bool index_grow(struct ctxp_fold_groups *g) {
  struct ctxp_fold_index *index = &g->index;
  if (index->slots && (index->count + 1) * UINT64_C(4) <= index->mask * UINT64_C(3)) return true;
  struct ctxp_fold_index grown = {.mask = index->slots ? index->mask * 2 + 1 : 63, .count = index->count};
  grown.slots = calloc((size_t)grown.mask + 1, sizeof(*grown.slots));
  if (!grown.slots) return false;
  for (uint32_t i = 0; i < g->groups.count; i++) {
    uint32_t at = (uint32_t)g->groups.at[i].hash & grown.mask;
    while (grown.slots[at]) at = (at + 1) & grown.mask;
    grown.slots[at] = i + 1;
  }
  free(index->slots);
  *index = grown;
  return true;
}

/* NULL: out of memory */
static struct ctxp_fold_group *group_of(struct ctxp_fold_groups *g, struct ctxp_str key) {
  bool failed = false;
  if (g->last < g->groups.count && ctxp_str_eq(g->groups.at[g->last].key, key)) return &g->groups.at[g->last];
  if (!index_grow(g) || !ctxp_fold_grow(&g->groups, sizeof(*g->groups.at))) return NULL;
  uint64_t hash = ctxp_hash64(key.ptr, key.len, 0);
  uint32_t at = (uint32_t)hash & g->index.mask;
  for (; g->index.slots[at]; at = (at + 1) & g->index.mask) {
    g->last = g->index.slots[at] - 1;
    if (ctxp_str_eq(g->groups.at[g->last].key, key)) return &g->groups.at[g->last];
  }
  struct ctxp_fold_group *group = &g->groups.at[g->groups.count];
  *group = (struct ctxp_fold_group){.key = ctxp_fold_arena_str(&g->arena, key, &failed), .hash = hash};
  if (failed) return NULL;
  g->last = g->groups.count++;
  g->index.slots[at] = g->groups.count;
  g->index.count++;
  return group;
}

int ctxp_fold_groups_add(struct ctxp_fold_groups *g, const struct ctxp_fold_window *w, const struct ctxp_fold_pick *pick) {
  for (uint32_t i = 0; i < w->requests.count; i++) {
    const struct ctxp_fold_request *q = &w->requests.at[i];
    struct ctxp_fold_figures one;
    char text[32];
    if (!(q->flags & CTXP_FOLD_COUNTED) || !ctxp_fold_pick_counts(pick, w, q)) continue;
    struct ctxp_fold_group *group = group_of(g, key_of(g, w, q, text));
    if (!group) return -ENOMEM;
    ctxp_fold_figures_of(q, &one);
    ctxp_fold_figures_add(&group->figures, &one);
    if (w->thread.len) ctxp_fold_figures_add(&group->of_threads, &one);
    group->sessions += group->last_session != w->session->number;
    group->last_session = w->session->number;
  }
  return 0;
}

/* ---- order ---- */
static int compare_days(const void *a, const void *b) {
  return ctxp_str_cmp(((const struct ctxp_fold_group *)a)->key, ((const struct ctxp_fold_group *)b)->key);
}

static int compare_bills(const void *a, const void *b) {
  const struct ctxp_fold_group *x = a, *y = b;
  uint64_t billed = ctxp_fold_billed(&x->figures), other = ctxp_fold_billed(&y->figures);
  if (x->figures.cost_nano != y->figures.cost_nano) return x->figures.cost_nano > y->figures.cost_nano ? -1 : 1;
  if (billed != other) return billed > other ? -1 : 1;
  return ctxp_str_cmp(x->key, y->key);
}

void ctxp_fold_groups_rank(struct ctxp_fold_groups *g) {
  if (g->groups.count > 1)
    qsort(g->groups.at, g->groups.count, sizeof(*g->groups.at), g->by == CTXP_FOLD_BY_DAY ? compare_days : compare_bills);
}

void ctxp_fold_groups_deinit(struct ctxp_fold_groups *g) {
  ctxp_fold_arena_deinit(&g->arena);
  free(g->groups.at);
  free(g->index.slots);
}
