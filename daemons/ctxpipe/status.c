#include "ctxpipe/status.h"
#include <errno.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void put_node(struct ctxp_table *table, struct ctxp_raw node) {
  ctxp_auto_buf uptime = {0}, memory = {0};
  static const char *const counts[] = {"head", "lag", "events", "refused", "dropped", "gaps", "held", "late", "restarts"};
  ctxp_table_text(table, ctxp_map_str(node, "node"));
  ctxp_table_text(table, ctxp_map_str(node, "daemon"));
  ctxp_table_text(table, ctxp_map_str(node, "state"));
  ctxp_put_duration(&uptime, ctxp_map_u64(node, "uptimeMs", 0));
  ctxp_table_text(table, ctxp_buf_view(&uptime));
  for (size_t i = 0; i < COUNT(counts); i++) ctxp_table_count(table, ctxp_map_u64(node, counts[i], 0));
  ctxp_put_bytes(&memory, ctxp_map_u64(node, "anonBytes", 0));
  ctxp_table_text(table, ctxp_buf_view(&memory));
}

static int put_nodes(struct ctxp_raw list, const struct ctxp_style *style, struct ctxp_buf *out) {
  static const struct ctxp_column columns[] = {{"node", CTXP_COLUMN_TEXT}, {"daemon", CTXP_COLUMN_TEXT}, {"state", CTXP_COLUMN_TEXT},
      {"up", CTXP_COLUMN_NUMBER}, {"head", CTXP_COLUMN_NUMBER}, {"lag", CTXP_COLUMN_NUMBER}, {"events", CTXP_COLUMN_NUMBER},
      {"refused", CTXP_COLUMN_NUMBER}, {"dropped", CTXP_COLUMN_NUMBER}, {"gaps", CTXP_COLUMN_NUMBER}, {"held", CTXP_COLUMN_NUMBER},
      {"late", CTXP_COLUMN_NUMBER}, {"restarts", CTXP_COLUMN_NUMBER}, {"memory", CTXP_COLUMN_NUMBER}};
  struct ctxp_table table = {.columns = columns, .column_count = COUNT(columns)};
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_raw node;
  uint32_t left;
  int r = ctxp_array_open(&it, &left);
  if (r < 0) return r;
  while (ctxp_array_next(&it, &left, &node) > 0) put_node(&table, node);
  r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  it = ctxp_cursor(list);
  if (r < 0 || ctxp_array_open(&it, &left) < 0) return r;
  while (ctxp_array_next(&it, &left, &node) > 0) {
    struct ctxp_str last = ctxp_map_str(node, "lastError");
    if (!last.len) continue;
    ctxp_term_text(out, ctxp_map_str(node, "node"));
    ctxp_buf_str(out, ": ");
    ctxp_term_text(out, last);
    ctxp_buf_char(out, '\n');
  }
  return 0;
}

#define AGENTS_SHOWN 20

struct agent {
  struct ctxp_raw map;
  struct ctxp_buf seen; /* ISO 8601, which is in order as text */
  uint64_t events;
  unsigned place;
};

/* Those that did something first, the last seen before: a name costs nothing but a hello, and must not hide them. */
static int by_use(const void *a, const void *b) {
  const struct agent *x = a, *y = b;
  if ((x->events == 0) != (y->events == 0)) return x->events == 0 ? 1 : -1;
  int order = ctxp_str_cmp(ctxp_buf_view(&y->seen), ctxp_buf_view(&x->seen));
  if (order) return order;
  return x->place < y->place ? -1 : 1;
}

static int read_agents(struct ctxp_raw list, struct agent **ret_agents, unsigned *ret_count) {
  struct ctxp_cursor it = ctxp_cursor(list);
  uint32_t left;
  *ret_agents = NULL;
  *ret_count = 0;
  if (ctxp_array_open(&it, &left) < 0 || !left) return 0;
  struct agent *agents = calloc(left, sizeof(*agents));
  if (!agents) return -ENOMEM;
  unsigned count = 0;
  for (struct ctxp_raw map; ctxp_array_next(&it, &left, &map) > 0; count++) {
    struct agent *agent = &agents[count];
    struct ctxp_raw at = ctxp_map_get(map, "lastSeen");
    agent->map = map;
    agent->place = count;
    agent->events = ctxp_map_u64(map, "events", 0) + ctxp_map_u64(map, "refused", 0);
    if (at.len && ctxp_json_from_raw(at, &agent->seen) < 0) ctxp_buf_reset(&agent->seen);
  }
  qsort(agents, count, sizeof(*agents), by_use);
  *ret_agents = agents;
  *ret_count = count;
  return 0;
}

static void put_agent(struct ctxp_table *table, const struct agent *agent) {
  static const char *const counts[] = {"events", "refused", "answered", "passed", "missed"};
  struct ctxp_str seen = ctxp_buf_view(&agent->seen);
  if (seen.len > 2 && seen.ptr[0] == '"') seen = (struct ctxp_str){seen.ptr + 1, seen.len - 2};
  ctxp_table_text(table, ctxp_map_str(agent->map, "agent"));
  ctxp_table_text(table, seen);
  for (size_t i = 0; i < COUNT(counts); i++) ctxp_table_count(table, ctxp_map_u64(agent->map, counts[i], 0));
}

static int put_agents(struct ctxp_raw list, const struct ctxp_style *style, struct ctxp_buf *out) {
  static const struct ctxp_column columns[] = {{"agent", CTXP_COLUMN_TEXT}, {"last seen", CTXP_COLUMN_TEXT}, {"events", CTXP_COLUMN_NUMBER},
      {"refused", CTXP_COLUMN_NUMBER}, {"answered", CTXP_COLUMN_NUMBER}, {"passed", CTXP_COLUMN_NUMBER}, {"missed", CTXP_COLUMN_NUMBER}};
  struct ctxp_table table = {.columns = columns, .column_count = COUNT(columns)};
  struct agent *agents;
  unsigned count, idle = 0;
  int r = read_agents(list, &agents, &count);
  if (r < 0 || !count) return r;
  ctxp_put_heading(out, style, "Agents");
  for (unsigned i = 0; i < count && i < AGENTS_SHOWN; i++) put_agent(&table, &agents[i]);
  for (unsigned i = AGENTS_SHOWN; i < count; i++) idle += !agents[i].events;
  r = ctxp_table_print(&table, style, out);
  if (count > AGENTS_SHOWN)
    ctxp_buf_printf(out, "%u more, %u of them without an event; --json has them\n", count - AGENTS_SHOWN, idle);
  ctxp_table_deinit(&table);
  for (unsigned i = 0; i < count; i++) ctxp_buf_deinit(&agents[i].seen);
  free(agents);
  return r;
}

int ctxp_status_print(struct ctxp_raw status, const struct ctxp_style *style, struct ctxp_buf *out) {
  int r = put_nodes(ctxp_map_get(status, "nodes"), style, out);
  return r < 0 ? r : put_agents(ctxp_map_get(status, "agents"), style, out);
}
