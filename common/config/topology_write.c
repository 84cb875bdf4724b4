/* The canonical form of a topology: everything written out, paths absolute, defaults filled in. */
#include <errno.h>
#include <inttypes.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/path.h"
#include "config/topology.h"

/* What YAML reads differently inside double quotes, or not at all. */
static bool needs_escape(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff;
}

static void quoted(struct ctxp_buf *out, struct ctxp_str text) {
  ctxp_buf_char(out, '"');
  for (size_t at = 0; at < text.len;) {
    uint32_t c;
    unsigned n = ctxp_utf8_decode(text.ptr + at, &c);
    if (c == '"' || c == '\\') ctxp_buf_char(out, '\\');
    if (needs_escape(c))
      ctxp_buf_printf(out, "\\u%04" PRIx32, c);
    else
      ctxp_buf_add(out, text.ptr + at, n);
    at += n;
  }
  ctxp_buf_char(out, '"');
}

void ctxp_topology_quote_path(struct ctxp_str path, struct ctxp_buf *out) {
  ctxp_auto_buf escaped = {0};
  ctxp_path_escape(path, &escaped);
  if (escaped.failed)
    out->failed = true;
  else
    quoted(out, ctxp_buf_view(&escaped));
}

static void quoted_path(struct ctxp_buf *out, const char *path) { ctxp_topology_quote_path(ctxp_str(path), out); }

static void list(
    struct ctxp_buf *out, const char *indent, const char *key, char *const *items, void (*item)(struct ctxp_buf *, const char *)) {
  if (!items || !*items) return;
  ctxp_buf_printf(out, "%s%s: [", indent, key);
  for (char *const *it = items; *it; it++) {
    if (it != items) ctxp_buf_str(out, ", ");
    item(out, *it);
  }
  ctxp_buf_str(out, "]\n");
}

static void plain(struct ctxp_buf *out, const char *text) { quoted(out, ctxp_str(text)); }

static void endpoint(struct ctxp_buf *out, const char *text) {
  if (ctxp_str_starts(ctxp_str(text), "ipc://"))
    quoted_path(out, text);
  else
    plain(out, text);
}

static void numbers(struct ctxp_buf *out, const struct ctxp_config *t) {
  const struct {
    const char *name;
    uint64_t value;
  } rows[] = {{"max_bytes", t->max_bytes}, {"retain_hours", t->retain_hours}, {"commit_batch", t->commit_batch},
      {"commit_interval_ms", t->commit_interval_ms}, {"commit_linger_ms", t->commit_linger_ms}, {"max_event_bytes", t->max_event_bytes},
      {"client_days", t->client_days}, {"answer_grace_ms", t->answer_grace_ms}, {"max_hold_s", t->max_hold_s}, {"drain_s", t->drain_s}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) ctxp_buf_printf(out, "%s: %" PRIu64 "\n", rows[i].name, rows[i].value);
  ctxp_buf_printf(out, "durability: %s\nwhen_full: %s\n", t->durability_power ? "power" : "process", t->when_full_drop ? "drop" : "wait");
}

static void option(struct ctxp_buf *out, const struct ctxp_option *it, struct ctxp_raw options) {
  struct ctxp_str text = ctxp_map_str(options, it->name);
  ctxp_buf_printf(out, "      %s: ", it->name);
  switch (it->type) {
  case CTXP_OPTION_BOOL: ctxp_buf_str(out, ctxp_map_bool(options, it->name, false) ? "true" : "false"); break;
  case CTXP_OPTION_U64: ctxp_buf_printf(out, "%" PRIu64, ctxp_map_u64(options, it->name, 0)); break;
  case CTXP_OPTION_PATH: ctxp_topology_quote_path(text, out); break;
  case CTXP_OPTION_ENUM:
  case CTXP_OPTION_STRING: quoted(out, text); break;
  }
  ctxp_buf_char(out, '\n');
}

static void node(struct ctxp_buf *out, const struct ctxp_node_config *n) {
  ctxp_buf_printf(out, "  %s:\n    daemon: %s\n", n->name, n->ops->name);
  list(out, "    ", "ingest", n->ingest, endpoint);
  if (n->curve_secret_file) {
    ctxp_buf_str(out, "    curve:\n      secret_file: ");
    quoted_path(out, n->curve_secret_file);
    ctxp_buf_str(out, "\n      clients_file: ");
    quoted_path(out, n->curve_clients_file);
    ctxp_buf_char(out, '\n');
  }
  list(out, "    ", "subscribe", n->subscribe, plain);
  if (n->ops->role == CTXP_ROLE_SINK_NODE) ctxp_buf_printf(out, "    from: %s\n", n->from_start ? "start" : "now");
  if (n->ops->options && n->ops->options->name) ctxp_buf_str(out, "    options:\n");
  for (const struct ctxp_option *it = n->ops->options; it && it->name; it++) option(out, it, ctxp_buf_raw(&n->options));
}

int ctxp_topology_write(const struct ctxp_config *topology, struct ctxp_buf *out) {
  ctxp_buf_str(out, "version: 1\nrun_dir: ");
  quoted_path(out, topology->run_dir);
  ctxp_buf_str(out, "\nstate_dir: ");
  quoted_path(out, topology->state_dir);
  ctxp_buf_char(out, '\n');
  numbers(out, topology);
  ctxp_buf_str(out, "nodes:\n");
  for (unsigned i = 0; i < topology->node_count; i++) node(out, &topology->nodes[i]);
  list(out, "", "prices", topology->price_files, quoted_path);
  return ctxp_buf_error(out);
}
