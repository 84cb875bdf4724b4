/* Reads a topology: keys and values of each part in turn; what concerns several parts is in topology_check.c. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/path.h"
#include "config/topology_read.h"

#define NODES_MAX 64
#define NODE_NAME_MAX 32
#define PRICE_FILES_MAX 16

struct numbers {
  uint64_t max_bytes, retain_hours, drain_s, max_hold_s, commit_batch, commit_interval_ms, commit_linger_ms, max_event_bytes, client_days,
      answer_grace_ms;
  int durability, when_full; /* power, process; wait, drop */
};
static const char *const durabilities[] = {"power", "process", NULL}, *const fulls[] = {"wait", "drop", NULL};

#define NUMBER(field, initial, min, max, unit, help) \
  { #field, CTXP_OPTION_U64, initial, min, max, unit, help, NULL, offsetof(struct numbers, field) }
#define CHOICE(field, initial, choices, help) \
  { #field, CTXP_OPTION_ENUM, initial, 0, 0, "", help, choices, offsetof(struct numbers, field) }
const struct ctxp_option ctxp_topology_options[] = {
    NUMBER(max_bytes, "8589934592", 1u << 20, UINT64_C(1) << 42, "bytes", "what one node's stream may hold on disk"),
    NUMBER(retain_hours, "168", 0, 87600, "hours", "how long events are kept that every reader has; 0: not longer than needed"),
    CHOICE(durability, "power", durabilities, "what an acknowledged event survives: a power cut, or the death of any process"),
    CHOICE(when_full, "wait", fulls,
        "what happens at max_bytes with a reader still behind: agents wait, or the oldest events go and are counted as a gap"),
    NUMBER(commit_batch, "1024", 1, 65536, "events", "most events of one commit"),
    NUMBER(commit_interval_ms, "2", 0, 1000, "ms", "longest time that an event waits for its commit while more events come"),
    NUMBER(commit_linger_ms, "0", 0, 1000, "ms", "how long a commit waits for more events when there are none at hand; an ask never waits"),
    NUMBER(max_event_bytes, "16777216", 4096, 256u << 20, "bytes", "largest event that is taken; larger ones are refused by name"),
    NUMBER(client_days, "30", 1, 3650, "days", "how long an agent's position is remembered after its last event"),
    NUMBER(answer_grace_ms, "250", 10, 60000, "ms", "how long the collector waits for a mechanism's verdict on an ask"),
    NUMBER(max_hold_s, "0", 0, 86400, "s", "how long the fold waits for a mechanism that is down before it passes it over; 0: for ever"),
    NUMBER(drain_s, "30", 1, 3600, "s", "longest time that a stop waits for what is under way"), {0}};
#undef NUMBER
#undef CHOICE

static const char *const top_keys[] = {"version", "run_dir", "state_dir", "nodes", "prices", "max_bytes", "retain_hours", "durability",
    "when_full", "commit_batch", "commit_interval_ms", "commit_linger_ms", "max_event_bytes", "client_days", "answer_grace_ms",
    "max_hold_s", "drain_s", NULL};
static const char *const node_keys[] = {"daemon", "subscribe", "from", "options", "ingest", "curve", NULL};

bool ctxp_reading_push(struct ctxp_reading *r, char ***list, char *text) {
  size_t count = 0;
  while (*list && (*list)[count]) count++;
  char **grown = text ? realloc(*list, (count + 2) * sizeof(*grown)) : NULL;
  if (!grown) {
    free(text);
    r->faults->failed = true;
    return false;
  }
  grown[count] = text;
  grown[count + 1] = NULL;
  *list = grown;
  return true;
}

char *ctxp_reading_path(struct ctxp_reading *r, const struct ctxp_yaml *value, const char *what, const char *base, const char *under) {
  ctxp_auto_buf path = {0};
  struct ctxp_error why;
  if (!ctxp_schema_text(r->faults, value, what)) return NULL;
  int err = ctxp_path_resolve(value->text, base, under, &path, &why);
  if (err == -EINVAL) ctxp_faults_add(r->faults, value->place, "%s: %s", what, why.text);
  char *text = err < 0 ? NULL : ctxp_str_dup(ctxp_buf_view(&path));
  if (err == -ENOMEM || (err == 0 && !text)) r->faults->failed = true;
  return text;
}

/* ---- the head ---- */
static void read_version(struct ctxp_reading *r) {
  const struct ctxp_yaml *version = ctxp_yaml_get(r->root, "version");
  if (!version)
    ctxp_faults_add(r->faults, r->root->place, "'version' is missing; write 'version: 1'");
  else if (version->type != CTXP_YAML_SCALAR || !ctxp_str_is(version->text, "1"))
    ctxp_faults_add(r->faults, version->place, "'version' is '%s'; this program reads version 1",
        version->type == CTXP_YAML_SCALAR ? ctxp_shown(version->text).text : "not a number");
}

static char *directory(struct ctxp_reading *r, const char *key, const char *initial, const char *base) {
  struct ctxp_yaml otherwise = {.type = CTXP_YAML_SCALAR, .text = ctxp_str(initial), .place = r->root->place};
  const struct ctxp_yaml *value = ctxp_yaml_get(r->root, key);
  ctxp_auto_free char *path = ctxp_reading_path(r, value ? value : &otherwise, key, base, "the topology's directory");
  struct stat st;
  if (!path || stat(path, &st) < 0 || S_ISDIR(st.st_mode)) return ctxp_steal(&path);
  ctxp_faults_add(r->faults, (value ? value : r->root)->place, "%s: '%s' is not a directory", key, path);
  return NULL;
}

static void read_directories(struct ctxp_reading *r) {
  const char *runtime = getenv("XDG_RUNTIME_DIR");
  r->topology->state_dir = directory(r, "state_dir", "~/.local/state/ctxpipe", r->dir);
  if (ctxp_yaml_get(r->root, "run_dir") || (runtime && *runtime))
    r->topology->run_dir = directory(r, "run_dir", "${XDG_RUNTIME_DIR}/ctxpipe", r->dir);
  else if (r->topology->state_dir)
    r->topology->run_dir = directory(r, "run_dir", "run", r->topology->state_dir);
}

static void take_numbers(struct ctxp_config *t, const struct numbers *n) {
  t->max_bytes = n->max_bytes;
  t->retain_hours = n->retain_hours;
  t->drain_s = n->drain_s;
  t->max_hold_s = n->max_hold_s;
  t->commit_batch = n->commit_batch;
  t->commit_interval_ms = n->commit_interval_ms;
  t->commit_linger_ms = n->commit_linger_ms;
  t->max_event_bytes = n->max_event_bytes;
  t->client_days = n->client_days;
  t->answer_grace_ms = n->answer_grace_ms;
  t->durability_power = n->durability == 0;
  t->when_full_drop = n->when_full == 1;
}

static const struct ctxp_yaml *at_or(const struct ctxp_yaml *value, const struct ctxp_yaml *otherwise) { return value ? value : otherwise; }

static void read_numbers(struct ctxp_reading *r) {
  ctxp_auto_buf map = {0}, texts = {0};
  struct numbers numbers;
  struct ctxp_error why;
  uint32_t pairs = 0;
  bool good = true;
  size_t mark = ctxp_pack_map_open(&map);
  for (const struct ctxp_option *it = ctxp_topology_options; it->name; it++, pairs++) {
    ctxp_pack_cstr(&map, it->name);
    good &= ctxp_schema_value(r->faults, it, ctxp_yaml_get(r->root, it->name), r->root->place, (struct ctxp_place_of_paths){0}, &map);
  }
  ctxp_pack_close(&map, mark, pairs);
  if (map.failed) r->faults->failed = true;
  if (!good || map.failed) return;
  if (ctxp_options_fill(ctxp_topology_options, ctxp_buf_raw(&map), &numbers, &texts, &why) < 0) {
    r->faults->failed = true;
    return;
  }
  take_numbers(r->topology, &numbers);
  if (numbers.max_event_bytes > numbers.max_bytes)
    ctxp_faults_add(r->faults, at_or(ctxp_yaml_get(r->root, "max_bytes"), ctxp_yaml_get(r->root, "max_event_bytes"))->place,
        "'max_bytes' is %llu, less than the largest event ('max_event_bytes' is %llu); raise it, or lower max_event_bytes",
        (unsigned long long)numbers.max_bytes, (unsigned long long)numbers.max_event_bytes);
}

/* ---- prices ---- */
static void add_price_file(struct ctxp_reading *r, const struct ctxp_yaml *value) {
  if (value->type == CTXP_YAML_SCALAR && ctxp_str_is(value->text, CTXP_PRICES_BUILTIN)) {
    ctxp_reading_push(r, &r->topology->price_files, strdup(CTXP_PRICES_BUILTIN));
    return;
  }
  char *path = ctxp_reading_path(r, value, "prices", r->dir, "the topology's directory");
  if (!path) return;
  if (access(path, R_OK) < 0) {
    ctxp_faults_add(r->faults, value->place, "prices: '%s' cannot be read: %s", path, strerror(errno));
    free(path);
    return;
  }
  ctxp_reading_push(r, &r->topology->price_files, path);
}

static void read_prices(struct ctxp_reading *r, struct ctxp_buf *price_faults) {
  const struct ctxp_yaml *prices = ctxp_yaml_get(r->root, "prices");
  if (!prices || prices->type == CTXP_YAML_BAD) return;
  if (prices->type == CTXP_YAML_SCALAR) {
    add_price_file(r, prices);
  } else if (prices->type == CTXP_YAML_SEQUENCE && prices->count > 0 && prices->count <= PRICE_FILES_MAX) {
    for (const struct ctxp_yaml *it = prices->first; it; it = it->next) add_price_file(r, it);
  } else {
    ctxp_faults_add(
        r->faults, prices->place, "'prices' takes a file, or a list of 1 to %d files, the later over the earlier", PRICE_FILES_MAX);
    return;
  }
  unsigned count = 0;
  while (r->topology->price_files && r->topology->price_files[count]) count++;
  if (count == 0 || r->lean) return;
  int err = ctxp_prices_read((const char *const *)r->topology->price_files, count, &r->topology->prices, price_faults);
  if (err < 0 && price_faults->len == 0) r->faults->failed = true;
}

/* ---- nodes ---- */
static bool name_is_good(struct ctxp_str name) {
  if (name.len == 0 || name.len > NODE_NAME_MAX) return false;
  for (size_t i = 0; i < name.len; i++) {
    char c = name.ptr[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && (i == 0 || (c != '-' && c != '_'))) return false;
  }
  return true;
}

static void read_daemon(struct ctxp_reading *r, struct ctxp_node_config *node, const struct ctxp_yaml *mapping) {
  const char *names[NODES_MAX + 1];
  size_t count = 0;
  const struct ctxp_yaml *daemon = ctxp_yaml_get(mapping, "daemon");
  if (!daemon) {
    ctxp_faults_add(r->faults, mapping->key->place, "'daemon' is missing; it says which program the node runs");
    return;
  }
  if (!ctxp_schema_text(r->faults, daemon, "'daemon'")) return;
  for (const struct ctxp_stage_ops *const *it = r->registry; *it; it++) {
    if (ctxp_str_is(daemon->text, (*it)->name)) node->ops = *it;
    if (count < NODES_MAX) names[count++] = (*it)->name;
  }
  names[count] = NULL;
  if (!node->ops)
    ctxp_faults_add(
        r->faults, daemon->place, "unknown daemon '%s'%s", ctxp_shown(daemon->text).text, ctxp_hint(daemon->text, names, "known are").text);
}

static void add_upstream(struct ctxp_reading *r, struct ctxp_node_config *node, const struct ctxp_yaml *value) {
  if (!ctxp_schema_text(r->faults, value, "a name in 'subscribe'")) return;
  for (char **it = node->subscribe; it && *it; it++) {
    if (!ctxp_str_is(value->text, *it)) continue;
    ctxp_faults_add(r->faults, value->place, "'%s' stands twice in 'subscribe'", ctxp_shown(value->text).text);
    return;
  }
  ctxp_reading_push(r, &node->subscribe, ctxp_str_dup(value->text));
}

static void read_subscribe(struct ctxp_reading *r, struct ctxp_node_config *node, const struct ctxp_yaml *mapping) {
  const struct ctxp_yaml *list = ctxp_yaml_get(mapping, "subscribe");
  if (!list || list->type == CTXP_YAML_BAD) return;
  if (list->type != CTXP_YAML_SEQUENCE || list->count > NODES_MAX) {
    ctxp_faults_add(r->faults, list->place, "'subscribe' takes a list of nodes: [collector]");
    return;
  }
  for (const struct ctxp_yaml *it = list->first; it; it = it->next) add_upstream(r, node, it);
}

static void read_from(struct ctxp_reading *r, struct ctxp_node_config *node, const struct ctxp_yaml *mapping) {
  static const char *const choices[] = {"start", "now", NULL};
  static const struct ctxp_option from = {.name = "from", .type = CTXP_OPTION_ENUM, .initial = "start", .choices = choices};
  const struct ctxp_yaml *value = ctxp_yaml_get(mapping, "from");
  ctxp_auto_buf name = {0};
  node->from_start = true;
  if (!value) return;
  if (node->ops && node->ops->role != CTXP_ROLE_SINK_NODE)
    ctxp_faults_add(r->faults, value->key->place, "'from' is for sinks; a %s always reads from the start", node->ops->name);
  else if (ctxp_schema_value(r->faults, &from, value, mapping->place, (struct ctxp_place_of_paths){0}, &name))
    node->from_start = ctxp_str_is(ctxp_raw_str(ctxp_buf_raw(&name)), "start");
}

/* what the stage knows of its options beyond their table */
static void check_options(struct ctxp_reading *r, const struct ctxp_node_config *node, struct ctxp_place place) {
  ctxp_auto_buf texts = {0};
  ctxp_auto_free void *values = calloc(1, node->ops->options_size);
  struct ctxp_error why;
  int err = !values ? -ENOMEM : ctxp_options_fill(node->ops->options, ctxp_buf_raw(&node->options), values, &texts, &why);
  if (err == 0) err = node->ops->check(values, &why);
  if (err == -EINVAL)
    ctxp_faults_add(r->faults, place, "%s", why.text);
  else if (err < 0)
    r->faults->failed = true;
}

static void read_options(struct ctxp_reading *r, struct ctxp_node_config *node, const struct ctxp_yaml *mapping) {
  const char *base = r->topology->state_dir ? r->topology->state_dir : "/"; /* "/": there is a fault already */
  const struct ctxp_yaml *options = ctxp_yaml_get(mapping, "options");
  if (!node->ops) return;
  bool good = ctxp_schema_options(r->faults, node->ops->options, options, mapping->key->place,
      (struct ctxp_place_of_paths){base, "state_dir"}, &node->options);
  if (node->options.failed) r->faults->failed = true;
  if (good && node->ops->check) check_options(r, node, options ? options->key->place : mapping->key->place);
}

/* state_dir/logs and the supervisor's own log are taken */
static bool name_is_taken(struct ctxp_str name) { return ctxp_str_is(name, "logs") || ctxp_str_is(name, "supervisor"); }

static void read_node(struct ctxp_reading *r, const struct ctxp_yaml *mapping) {
  struct ctxp_node_config *node = &r->topology->nodes[r->topology->node_count];
  r->faults->node = mapping->key->text;
  if (name_is_taken(mapping->key->text)) ctxp_faults_add(r->faults, mapping->key->place, "the name is ctxpipe's own; choose another");
  if (!name_is_good(mapping->key->text))
    ctxp_faults_add(r->faults, mapping->key->place,
        "a node's name has 1 to %d letters, digits, '-' and '_', and begins with a letter or digit", NODE_NAME_MAX);
  if (mapping->type != CTXP_YAML_MAPPING) {
    if (mapping->type != CTXP_YAML_BAD)
      ctxp_faults_add(r->faults, mapping->place, "a node is a mapping: {daemon: NAME, subscribe: [...], options: {...}}");
    return;
  }
  node->name = ctxp_str_dup(mapping->key->text);
  if (!node->name) {
    r->faults->failed = true;
    return;
  }
  node->line = mapping->key->place.line;
  r->nodes[r->topology->node_count++] = mapping;
  ctxp_schema_keys(r->faults, mapping, "key", node_keys);
  read_daemon(r, node, mapping);
  read_subscribe(r, node, mapping);
  read_from(r, node, mapping);
  read_options(r, node, mapping);
  ctxp_reading_ingest(r, node, mapping);
}

static void read_nodes(struct ctxp_reading *r) {
  const struct ctxp_yaml *nodes = ctxp_yaml_get(r->root, "nodes");
  if (!nodes || nodes->type != CTXP_YAML_MAPPING || nodes->count == 0) {
    if (!nodes || nodes->type != CTXP_YAML_BAD)
      ctxp_faults_add(r->faults, (nodes ? nodes : r->root)->place,
          "'nodes' %s; write a mapping: {collector: {daemon: collector, ...}, ...}",
          !nodes                               ? "is missing" :
              nodes->type == CTXP_YAML_MAPPING ? "is empty" :
                                                 "is no mapping");
    return;
  }
  if (nodes->count > NODES_MAX) {
    ctxp_faults_add(r->faults, nodes->place, "%u nodes; at most %d", nodes->count, NODES_MAX);
    return;
  }
  r->topology->nodes = calloc(nodes->count, sizeof(*r->topology->nodes));
  r->nodes = calloc(nodes->count, sizeof(*r->nodes));
  if (!r->topology->nodes || !r->nodes) {
    r->faults->failed = true;
    return;
  }
  for (const struct ctxp_yaml *it = nodes->first; it; it = it->next) read_node(r, it);
  r->faults->node = (struct ctxp_str){0};
}

/* ---- the whole ---- */
static void read_all(struct ctxp_reading *r, struct ctxp_buf *price_faults) {
  if (!r->root) return;
  if (r->root->type != CTXP_YAML_MAPPING) {
    ctxp_faults_add(r->faults, r->root->place, "not a topology; it begins with 'version: 1'");
    return;
  }
  ctxp_schema_keys(r->faults, r->root, "key", top_keys);
  read_version(r);
  read_directories(r);
  read_numbers(r);
  read_nodes(r);
  read_prices(r, price_faults);
  if (r->nodes && !r->faults->failed) ctxp_reading_check(r);
}

static void drop(struct ctxp_config **topology) { ctxp_topology_free(*topology); }

struct source { /* of a topology */
  struct ctxp_str text;
  const struct ctxp_stage_ops *const *registry;
  bool lean;
};

static int parse(
    const struct source *source, struct ctxp_faults *found, struct ctxp_buf *price_faults, struct ctxp_config **ret_config) {
  ctxp_cleanup(drop) struct ctxp_config *topology = calloc(1, sizeof(*topology));
  ctxp_auto_free char *dir = NULL;
  ctxp_cleanup(ctxp_yaml_deinit) struct ctxp_yaml_doc doc = {0};
  if (!topology) return -ENOMEM;
  int err = ctxp_path_locate(found->file, &topology->file, &dir);
  if (err == 0) err = ctxp_yaml_parse(source->text, found, &doc);
  if (err < 0) return err;
  struct ctxp_reading r = {
      .faults = found, .topology = topology, .registry = source->registry, .root = doc.root, .dir = dir, .lean = source->lean};
  read_all(&r, price_faults);
  free(r.nodes);
  err = ctxp_faults_error(found);
  if (err == 0 && price_faults->len) err = -EINVAL;
  if (err == 0) *ret_config = ctxp_steal(&topology);
  return err;
}

static int finish(struct ctxp_faults *found, const struct ctxp_buf *price_faults, int err, struct ctxp_buf *faults) {
  ctxp_faults_write(found, faults);
  ctxp_buf_add(faults, price_faults->ptr, price_faults->len);
  if (err == -ENOMEM && found->count == 0) ctxp_buf_printf(faults, "%s: out of memory\n", found->file);
  return err;
}

static int parse_and_tell(const char *file, const struct source *source, struct ctxp_config **ret_config, struct ctxp_buf *faults) {
  ctxp_cleanup(ctxp_faults_deinit) struct ctxp_faults found = {.file = file};
  ctxp_auto_buf price_faults = {0};
  return finish(&found, &price_faults, parse(source, &found, &price_faults, ret_config), faults);
}

int ctxp_topology_parse(const char *file, struct ctxp_str text, const struct ctxp_stage_ops *const *registry,
    struct ctxp_config **ret_config, struct ctxp_buf *faults) {
  struct source source = {text, registry, false};
  return parse_and_tell(file, &source, ret_config, faults);
}

static int read_file(const char *file, struct source source, struct ctxp_config **ret_config, struct ctxp_buf *faults) {
  ctxp_cleanup(ctxp_faults_deinit) struct ctxp_faults found = {.file = file};
  ctxp_auto_buf text = {0}, none = {0};
  int err = ctxp_yaml_load(file, &found, &text);
  if (err < 0) return finish(&found, &none, err, faults);
  source.text = ctxp_buf_view(&text);
  return parse_and_tell(file, &source, ret_config, faults);
}

int ctxp_topology_read(
    const char *file, const struct ctxp_stage_ops *const *registry, struct ctxp_config **ret_config, struct ctxp_buf *faults) {
  return read_file(file, (struct source){.registry = registry}, ret_config, faults);
}

int ctxp_topology_read_lean(
    const char *file, const struct ctxp_stage_ops *const *registry, struct ctxp_config **ret_config, struct ctxp_buf *faults) {
  return read_file(file, (struct source){.registry = registry, .lean = true}, ret_config, faults);
}

static void free_list(char **list) {
  for (char **it = list; it && *it; it++) free(*it);
  free(list);
}

static void free_node(struct ctxp_node_config *node) {
  free(node->name);
  free_list(node->subscribe);
  free_list(node->ingest);
  free(node->curve_secret_file);
  free(node->curve_clients_file);
  ctxp_buf_deinit(&node->options);
}

void ctxp_topology_leave_out(struct ctxp_config *topology, enum ctxp_stage_role role) {
  unsigned kept = 0;
  for (unsigned i = 0; i < topology->node_count; i++) {
    if (topology->nodes[i].ops->role == role)
      free_node(&topology->nodes[i]);
    else
      topology->nodes[kept++] = topology->nodes[i];
  }
  topology->node_count = kept;
}

struct ctxp_config *ctxp_topology_free(struct ctxp_config *topology) {
  if (!topology) return NULL;
  for (unsigned i = 0; i < topology->node_count; i++) free_node(&topology->nodes[i]);
  free(topology->nodes);
  free_list(topology->price_files);
  ctxp_prices_free(topology->prices);
  free(topology->file);
  free(topology->run_dir);
  free(topology->state_dir);
  free(topology);
  return NULL;
}

const struct ctxp_node_config *ctxp_topology_node(const struct ctxp_config *topology, const char *name) {
  for (unsigned i = 0; i < topology->node_count; i++)
    if (strcmp(topology->nodes[i].name, name) == 0) return &topology->nodes[i];
  return NULL;
}

void ctxp_topology_endpoint(const struct ctxp_config *topology, const char *node, const char *which, struct ctxp_buf *out) {
  ctxp_buf_printf(out, "ipc://%s/%s.%s", topology->run_dir, node, which);
}
