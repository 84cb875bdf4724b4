/* What only the whole topology shows: edges whose ends do not fit, cycles, lonely nodes. (Whose place is whose: topology_places.c.) */
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/topology_read.h"

#define NAMES_MAX 65

static struct ctxp_node_config *node_at(const struct ctxp_reading *r, unsigned i) { return &r->topology->nodes[i]; }
static struct ctxp_place place_at(const struct ctxp_reading *r, unsigned i) { return r->nodes[i]->key->place; }
static void enter(struct ctxp_reading *r, unsigned i) { r->faults->node = ctxp_str(node_at(r, i)->name); }
static void leave(struct ctxp_reading *r) { r->faults->node = (struct ctxp_str){0}; }

/* the node's index, or node_count */
static unsigned find(const struct ctxp_reading *r, struct ctxp_str name) {
  unsigned i = 0;
  while (i < r->topology->node_count && !ctxp_str_is(name, node_at(r, i)->name)) i++;
  return i;
}

static bool has_role(const struct ctxp_reading *r, unsigned i, enum ctxp_stage_role role) {
  return node_at(r, i)->ops && node_at(r, i)->ops->role == role;
}

static bool reads(const struct ctxp_reading *r, unsigned reader, unsigned upstream) {
  for (char **it = node_at(r, reader)->subscribe; it && *it; it++)
    if (strcmp(*it, node_at(r, upstream)->name) == 0) return true;
  return false;
}

/* ---- which nodes there are ---- */
static void check_collectors(struct ctxp_reading *r) {
  unsigned count = 0, unknown = 0;
  for (unsigned i = 0; i < r->topology->node_count; i++) {
    unknown += !node_at(r, i)->ops;
    if (!has_role(r, i, CTXP_ROLE_COLLECTOR_NODE) || count++ == 0) continue;
    enter(r, i);
    ctxp_faults_add(r->faults, place_at(r, i), "a second collector; a topology has one, which all agents feed");
    leave(r);
  }
  const struct ctxp_yaml *nodes = ctxp_yaml_get(r->root, "nodes");
  if (count == 0 && unknown == 0)
    ctxp_faults_add(r->faults, nodes->key->place, "no collector; add 'collector: {daemon: collector, ingest: [ipc://ingest.sock]}'");
}

/* A mechanism that runs twice would count its savings twice; a session has one fold. */
static void check_repeated(struct ctxp_reading *r) {
  for (unsigned i = 0; i < r->topology->node_count; i++) {
    if (!has_role(r, i, CTXP_ROLE_MECHANISM_NODE) && !has_role(r, i, CTXP_ROLE_FOLD_NODE)) continue;
    unsigned first = 0;
    while (node_at(r, first)->ops != node_at(r, i)->ops) first++;
    if (first == i) continue;
    enter(r, i);
    ctxp_faults_add(r->faults, place_at(r, i), "%s already runs as '%s'; a second one would count everything twice",
        node_at(r, i)->ops->name, node_at(r, first)->name);
    leave(r);
  }
}

/* ---- edges ---- */
static bool emits(const struct ctxp_stage_ops *ops, enum ctxp_kind kind) {
  const struct ctxp_kind_info *info = ctxp_kind_info(kind);
  if (ops->role == CTXP_ROLE_COLLECTOR_NODE) /* it passes on what agents send, and its own */
    return info && (info->group == CTXP_GROUP_AGENT || info->group == CTXP_GROUP_COLLECTOR || info->group == CTXP_GROUP_ANY);
  for (const enum ctxp_kind *it = ops->emits; it && *it != CTXP_KIND_NONE; it++)
    if (*it == kind) return true;
  return false;
}

static bool share_events(const struct ctxp_stage_ops *from, const struct ctxp_stage_ops *to) {
  for (const struct ctxp_consume *it = to->consumes; it && it->kind != CTXP_KIND_NONE; it++)
    if (emits(from, it->kind)) return true;
  return false;
}

static const char *role_rule(enum ctxp_stage_role from, enum ctxp_stage_role to) {
  switch (to) {
  case CTXP_ROLE_COLLECTOR_NODE: return "the collector is fed by agents alone";
  case CTXP_ROLE_MECHANISM_NODE: return from == CTXP_ROLE_COLLECTOR_NODE ? NULL : "a mechanism reads the collector alone";
  case CTXP_ROLE_FOLD_NODE:
    return from == CTXP_ROLE_COLLECTOR_NODE || from == CTXP_ROLE_MECHANISM_NODE ? NULL :
                                                                                  "the fold reads the collector and the mechanisms";
  case CTXP_ROLE_SINK_NODE: break;
  }
  return from == CTXP_ROLE_FOLD_NODE ? NULL : "a sink reads the fold";
}

static void unknown_upstream(struct ctxp_reading *r, unsigned self, const struct ctxp_yaml *value) {
  const char *names[NAMES_MAX];
  unsigned count = 0;
  for (unsigned i = 0; i < r->topology->node_count && count + 1 < NAMES_MAX; i++)
    if (i != self) names[count++] = node_at(r, i)->name;
  names[count] = NULL;
  ctxp_faults_add(r->faults, value->place, "'subscribe' names '%s', which is no node%s", ctxp_shown(value->text).text,
      ctxp_hint(value->text, names, "nodes are").text);
}

static void check_edge(struct ctxp_reading *r, unsigned self, const struct ctxp_yaml *value) {
  if (value->type != CTXP_YAML_SCALAR || ctxp_yaml_is_null(value)) return; /* there is a fault already */
  unsigned from = find(r, value->text);
  if (from == r->topology->node_count) {
    /* a node that is there but was not readable has its own fault */
    if (!ctxp_yaml_get(ctxp_yaml_get(r->root, "nodes"), value->text.ptr)) unknown_upstream(r, self, value);
    return;
  }
  const struct ctxp_stage_ops *up = node_at(r, from)->ops, *ops = node_at(r, self)->ops;
  if (from == self || !up || !ops) return;
  const char *rule = role_rule(up->role, ops->role);
  if (rule)
    ctxp_faults_add(r->faults, value->place, "'%s' (%s) cannot feed it: %s", node_at(r, from)->name, up->name, rule);
  else if (!share_events(up, ops))
    ctxp_faults_add(
        r->faults, value->place, "'%s' (%s) cannot feed it: it sends no event that %s takes", node_at(r, from)->name, up->name, ops->name);
}

static void check_fed(struct ctxp_reading *r, unsigned self) {
  const struct ctxp_yaml *list = ctxp_yaml_get(r->nodes[self], "subscribe");
  if (has_role(r, self, CTXP_ROLE_COLLECTOR_NODE)) {
    if (list) ctxp_faults_add(r->faults, list->key->place, "the collector subscribes to nothing; agents feed it through 'ingest'");
    return;
  }
  for (const struct ctxp_yaml *it = list && list->type == CTXP_YAML_SEQUENCE ? list->first : NULL; it; it = it->next)
    check_edge(r, self, it);
  if (node_at(r, self)->ops && (!list || (list->type == CTXP_YAML_SEQUENCE && list->count == 0)))
    ctxp_faults_add(r->faults, place_at(r, self), "nothing feeds it; add 'subscribe: [%s]'",
        has_role(r, self, CTXP_ROLE_SINK_NODE) ? "fold" : "collector");
}

/* A misspelt name has its fault; the node that it means is not lonely besides. */
static bool misspelt(const struct ctxp_reading *r, unsigned reader, unsigned upstream) {
  const char *const meant[] = {node_at(r, upstream)->name, NULL};
  for (char **it = node_at(r, reader)->subscribe; it && *it; it++)
    if (find(r, ctxp_str(*it)) == r->topology->node_count && ctxp_nearest(ctxp_str(*it), meant)) return true;
  return false;
}

static void check_read(struct ctxp_reading *r, unsigned self) {
  bool read = false;
  unsigned fold = r->topology->node_count;
  for (unsigned i = 0; i < r->topology->node_count; i++) {
    if (i != self && (reads(r, i, self) || misspelt(r, i, self))) read = true;
    if (fold == r->topology->node_count && has_role(r, i, CTXP_ROLE_FOLD_NODE)) fold = i;
  }
  if (has_role(r, self, CTXP_ROLE_MECHANISM_NODE) && !read && fold < r->topology->node_count)
    ctxp_faults_add(r->faults, place_at(r, self), "nothing reads it; add '%s' to the 'subscribe' list of '%s'", node_at(r, self)->name,
        node_at(r, fold)->name);
  else if (node_at(r, self)->ops && !has_role(r, self, CTXP_ROLE_SINK_NODE) && !read)
    ctxp_faults_add(r->faults, place_at(r, self), "nothing reads it; add a %s that does, or take it out",
        has_role(r, self, CTXP_ROLE_FOLD_NODE) ? "sink" : "fold");
}

/* The fold merges by the collector's numbers: without its stream there is nothing to merge into. */
static void check_fold(struct ctxp_reading *r, unsigned self) {
  bool reads_collector = false, collector = false;
  if (!has_role(r, self, CTXP_ROLE_FOLD_NODE) || !node_at(r, self)->subscribe) return;
  for (unsigned i = 0; i < r->topology->node_count; i++) {
    if (!has_role(r, i, CTXP_ROLE_COLLECTOR_NODE)) continue;
    collector = true;
    if (reads(r, self, i) || misspelt(r, self, i)) reads_collector = true;
  }
  const struct ctxp_yaml *list = ctxp_yaml_get(r->nodes[self], "subscribe");
  if (collector && !reads_collector) ctxp_faults_add(r->faults, list->place, "the fold reads the collector too; add it to 'subscribe'");
}

/* ---- cycles: depth first; what is met again on the way is named with the way ---- */
struct walk {
  unsigned way[NAMES_MAX], depth;
  bool on_way[NAMES_MAX], done[NAMES_MAX];
};

static void cycle_found(struct ctxp_reading *r, const struct walk *w, unsigned back) {
  ctxp_auto_buf text = {0};
  unsigned from = 0;
  while (w->way[from] != back) from++;
  for (unsigned i = from; i < w->depth; i++) ctxp_buf_printf(&text, "%s -> ", node_at(r, w->way[i])->name);
  ctxp_buf_str(&text, node_at(r, back)->name);
  ctxp_faults_add(r->faults, place_at(r, back), "a cycle: %s (each reads the next); events flow one way", ctxp_buf_cstr(&text));
}

static void walk_from(struct ctxp_reading *r, struct walk *w, unsigned self) {
  w->way[w->depth++] = self;
  w->on_way[self] = true;
  for (unsigned i = 0; i < r->topology->node_count; i++) {
    if (!reads(r, self, i)) continue;
    if (w->on_way[i])
      cycle_found(r, w, i);
    else if (!w->done[i])
      walk_from(r, w, i);
  }
  w->on_way[self] = false;
  w->done[self] = true;
  w->depth--;
}

static void check_cycles(struct ctxp_reading *r) {
  struct walk w = {{0}, 0, {0}, {0}};
  for (unsigned i = 0; i < r->topology->node_count; i++)
    if (!w.done[i]) walk_from(r, &w, i);
}

void ctxp_reading_check(struct ctxp_reading *r) {
  check_collectors(r);
  check_repeated(r);
  bool placed = r->topology->run_dir && r->topology->state_dir;
  bool all_read = ctxp_yaml_get(r->root, "nodes")->count == r->topology->node_count; /* a node that could not be read may be the reader */
  for (unsigned i = 0; i < r->topology->node_count; i++) {
    enter(r, i);
    check_fed(r, i);
    if (all_read) check_read(r, i);
    check_fold(r, i);
    if (placed) ctxp_reading_check_places(r, i);
    leave(r);
  }
  check_cycles(r);
  if (placed) ctxp_reading_check_sockets(r);
}
