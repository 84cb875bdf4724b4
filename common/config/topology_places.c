/* Whose place is whose. What ctxpipe makes itself in run_dir and state_dir is said once, in owner_of; a path that a person chooses,
 * for a sink's output or a socket of ingest, is asked of it. By the text of the paths: the disk knows links, and changes. */
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/topology_read.h"

static struct ctxp_node_config *node_at(const struct ctxp_reading *r, unsigned i) { return &r->topology->nodes[i]; }
static bool is_sink(const struct ctxp_reading *r, unsigned i) {
  return node_at(r, i)->ops && node_at(r, i)->ops->role == CTXP_ROLE_SINK_NODE;
}

/* What comes after `dir` and its slash; ptr NULL: `path` is not below it. len 0: it is `dir` itself. */
static struct ctxp_str below(struct ctxp_str path, const char *dir) {
  size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
  if (path.len < len || memcmp(path.ptr, dir, len) != 0 || (path.len > len && path.ptr[len] != '/')) return (struct ctxp_str){NULL, 0};
  return path.len == len ? (struct ctxp_str){path.ptr + len, 0} : (struct ctxp_str){path.ptr + len + 1, path.len - len - 1};
}

static struct ctxp_str first_part(struct ctxp_str path) {
  size_t slash = ctxp_str_find(path, CTXP_STR("/"), 0);
  return slash == SIZE_MAX ? path : (struct ctxp_str){path.ptr, slash};
}

/* NODE.WHAT -> WHAT, where it is a name of that node's; len 0: it is none */
static struct ctxp_str suffix_of(struct ctxp_str name, const char *node) {
  size_t len = strlen(node);
  if (!name.ptr || name.len <= len + 1 || memcmp(name.ptr, node, len) != 0 || name.ptr[len] != '.') return (struct ctxp_str){"", 0};
  return (struct ctxp_str){name.ptr + len + 1, name.len - len - 1};
}

static bool one_of(struct ctxp_str name, const char *const *names) {
  for (; *names; names++)
    if (ctxp_str_is(name, *names)) return true;
  return false;
}

/* ---- the rule ---- */
static bool owner_in_run_dir(const struct ctxp_config *t, struct ctxp_str name, struct ctxp_buf *whose) {
  static const char *const own[] = {
      "supervisor.lock", "supervisor.json", ".supervisor.json.new", "topology.yaml", ".topology.yaml.new", "ended.json",
      ".ended.json.new", NULL};
  static const char *const sockets[] = {"pub", "replay", "control", "answers", NULL}, *const files[] = {"event", NULL};
  name = first_part(name);
  if (one_of(name, own)) return ctxp_buf_str(whose, "the supervisor's own"), true;
  for (unsigned i = 0; i < t->node_count; i++) {
    struct ctxp_str suffix = suffix_of(name, t->nodes[i].name);
    bool socket = one_of(suffix, sockets);
    if (socket || one_of(suffix, files))
      return ctxp_buf_printf(whose, "a %s of the node '%s'", socket ? "socket" : "file", t->nodes[i].name), true;
  }
  return false;
}

static bool owner_in_state_dir(const struct ctxp_config *t, struct ctxp_str name, struct ctxp_buf *whose) {
  static const char *const own[] = {"supervisor.lock", "nodes.lock", NULL}, *const logs[] = {"logs", NULL};
  name = first_part(name);
  if (one_of(name, own)) return ctxp_buf_str(whose, "the supervisor's own"), true;
  if (one_of(name, logs)) return ctxp_buf_str(whose, "where the logs of the nodes are"), true;
  for (unsigned i = 0; i < t->node_count; i++)
    if (ctxp_str_is(name, t->nodes[i].name))
      return ctxp_buf_printf(whose, "where the node '%s' keeps its stream", t->nodes[i].name), true;
  return false;
}

static struct ctxp_str option_path(const struct ctxp_reading *r, unsigned i, const struct ctxp_option *option) {
  if (option->type != CTXP_OPTION_PATH) return (struct ctxp_str){"", 0};
  return ctxp_map_str(ctxp_buf_raw(&node_at(r, i)->options), option->name);
}

/* the path itself, or what a rotation of it is called: PATH.1, PATH.2, ... */
static bool is_or_rotates_to(struct ctxp_str path, struct ctxp_str written) {
  if (path.len < written.len || memcmp(path.ptr, written.ptr, written.len) != 0) return false;
  if (path.len == written.len) return true;
  size_t at = written.len + 1;
  while (at < path.len && path.ptr[at] >= '0' && path.ptr[at] <= '9') at++;
  return path.len > written.len + 1 && path.ptr[written.len] == '.' && at == path.len;
}

static bool written_by_sink(const struct ctxp_reading *r, unsigned before, struct ctxp_str path, struct ctxp_buf *whose) {
  for (unsigned i = 0; i < before; i++)
    for (const struct ctxp_option *it = is_sink(r, i) ? node_at(r, i)->ops->options : NULL; it && it->name; it++) {
      struct ctxp_str written = option_path(r, i, it);
      if (written.len && (is_or_rotates_to(path, written) || is_or_rotates_to(written, path)))
        return ctxp_buf_printf(whose, "what '%s' writes", node_at(r, i)->name), true;
    }
  return false;
}

/* Appends whose `path` is already: ctxpipe's own, or that of a sink among the first `sinks` nodes. false: nobody's. */
static bool owner_of(struct ctxp_reading *r, struct ctxp_str path, unsigned sinks, struct ctxp_buf *whose) {
  const struct ctxp_config *t = r->topology;
  struct ctxp_str in_run = below(path, t->run_dir), in_state = below(path, t->state_dir);
  if (in_run.ptr && below(ctxp_str(t->run_dir), t->state_dir).len) in_state.len = 0; /* run_dir is in state_dir: its rule is the nearer */
  bool taken = (in_run.ptr && in_run.len && owner_in_run_dir(t, in_run, whose)) ||
      (in_state.ptr && in_state.len && owner_in_state_dir(t, in_state, whose)) || written_by_sink(r, sinks, path, whose);
  if (whose->failed) r->faults->failed = true;
  return taken;
}

/* ---- outputs of sinks ---- */
static struct ctxp_place option_place(const struct ctxp_reading *r, unsigned i, const struct ctxp_option *option) {
  const struct ctxp_yaml *value = ctxp_yaml_get(ctxp_yaml_get(r->nodes[i], "options"), option->name);
  return value ? value->place : r->nodes[i]->key->place;
}

static void check_output(struct ctxp_reading *r, unsigned self, const struct ctxp_option *option, struct ctxp_str path) {
  const struct ctxp_config *t = r->topology;
  struct ctxp_place place = option_place(r, self, option);
  ctxp_auto_buf whose = {0};
  if (ctxp_str_is(path, t->state_dir))
    ctxp_faults_add(r->faults, place, "'%s' is state_dir itself; write a name in it", option->name);
  else if (owner_of(r, path, self, &whose))
    ctxp_faults_add(
        r->faults, place, "'%s' is '%s', and that is %s; choose another place", option->name, ctxp_shown(path).text, ctxp_buf_cstr(&whose));
  else if (below(path, t->run_dir).ptr && !below(ctxp_str(t->state_dir), t->run_dir).ptr)
    ctxp_faults_add(
        r->faults, place, "'%s' is in run_dir, which is the sockets' and may be emptied by a restart; choose another place", option->name);
}

/* ---- sockets ---- */
#define SOCKET_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

static void too_long(struct ctxp_reading *r, struct ctxp_place place, size_t len, const char *what) {
  ctxp_faults_add(
      r->faults, place, "the path of %s has %zu bytes, and the system allows %zu; choose a shorter run_dir", what, len, SOCKET_MAX);
}

/* Binding a socket takes away what is there, be it what it may. */
static bool would_replace(const char *path) {
  struct stat there;
  return lstat(path, &there) == 0 && !S_ISSOCK(there.st_mode);
}

static void check_ingest(struct ctxp_reading *r, unsigned self) {
  const struct ctxp_yaml *list = ctxp_yaml_get(r->nodes[self], "ingest");
  for (char **it = node_at(r, self)->ingest; it && *it; it++) {
    ctxp_auto_buf whose = {0};
    if (!ctxp_str_starts(ctxp_str(*it), "ipc://")) continue;
    const char *path = *it + 6;
    if (strlen(path) > SOCKET_MAX) too_long(r, list->place, strlen(path), "an ingest socket");
    if (owner_of(r, ctxp_str(path), r->topology->node_count, &whose))
      ctxp_faults_add(r->faults, list->place, "ingest: '%s' is %s; choose another name",
          ctxp_shown(ctxp_str(path)).text, ctxp_buf_cstr(&whose));
    else if (would_replace(path))
      ctxp_faults_add(r->faults, list->place, "ingest: '%s' is there already and is no socket; choose another name, or move it away",
          ctxp_shown(ctxp_str(path)).text);
  }
}

void ctxp_reading_check_sockets(struct ctxp_reading *r) {
  size_t longest = 0;
  const char *which = "";
  for (unsigned i = 0; i < r->topology->node_count; i++) {
    size_t len = strlen(r->topology->run_dir) + 1 + strlen(node_at(r, i)->name) + strlen(".control"); /* .answers is as long */
    if (len > longest) longest = len, which = node_at(r, i)->name;
  }
  const struct ctxp_yaml *run_dir = ctxp_yaml_get(r->root, "run_dir");
  char what[64];
  snprintf(what, sizeof(what), "the socket '%s.control'", which);
  if (longest > SOCKET_MAX) too_long(r, (run_dir ? run_dir : r->root)->place, longest, what);
}

/* ---- one node ---- */
void ctxp_reading_check_places(struct ctxp_reading *r, unsigned node) {
  struct ctxp_str run_dir = below(ctxp_str(r->topology->run_dir), r->topology->state_dir);
  for (const struct ctxp_option *it = is_sink(r, node) ? node_at(r, node)->ops->options : NULL; it && it->name; it++)
    if (option_path(r, node, it).len) check_output(r, node, it, option_path(r, node, it));
  check_ingest(r, node);
  if (run_dir.len && ctxp_str_is(first_part(run_dir), node_at(r, node)->name))
    ctxp_faults_add(r->faults, r->nodes[node]->key->place, "its state would be in run_dir (%s); give the node another name",
        r->topology->run_dir);
}
