/* The topology file: which nodes there are, what each reads from, with which options. The only list of edges. */
#pragma once
#include "base/buf.h"
#include "config/prices.h"
#include "ctxpipe/stage.h"

struct ctxp_node_config {
  char *name;
  const struct ctxp_stage_ops *ops; /* its daemon, from the registry */
  char **subscribe; /* names of its upstreams, in order; NULL-terminated */
  bool from_start; /* a sink new to its upstream: from what is retained (default), or from now */
  struct ctxp_buf options; /* MessagePack map: name to value, complete (defaults filled in), paths absolute */
  unsigned line; /* where it stands in the file */
  /* collector only */
  char **ingest; /* endpoints, absolute; NULL-terminated */
  /* CURVE of a node whose endpoints are tcp (file paths), or NULL */
  char *curve_secret_file, *curve_clients_file;
};

struct ctxp_config { /* `struct ctxp_topology` is the event of that name */
  char *file, *run_dir, *state_dir; /* absolute */
  uint64_t max_bytes, retain_hours, drain_s, max_hold_s, commit_batch, commit_interval_ms, commit_linger_ms, max_event_bytes, client_days,
      answer_grace_ms;
  bool durability_power, when_full_drop;
  bool fleeting; /* nothing of it is wanted after its end; not in the file, set by whoever makes such a pipeline */
  struct ctxp_node_config *nodes; /* in the order of the file */
  unsigned node_count;
  struct ctxp_prices *prices; /* NULL: none named, or not read */
  char **price_files; /* absolute, or CTXP_PRICES_BUILTIN; NULL-terminated */
};

/* The daemons that this build knows: NULL-terminated. */
extern const struct ctxp_stage_ops *const *ctxp_registry_get(void);

/* Reads and checks everything that can be known before a process is started. Every fault of the file is one line in `faults`:
 * FILE:LINE:COLUMN: node 'NAME': what is wrong; what would be right. -EINVAL: there were faults; -ENOENT, ...: with its line too. */
int ctxp_topology_read(const char *file, const struct ctxp_stage_ops *const *registry, struct ctxp_config **ret_config,
    struct ctxp_buf *faults) __attribute__((warn_unused_result));
/* The same from a text; `file` names it, and its directory is where relative files are looked for. */
int ctxp_topology_parse(const char *file, struct ctxp_str text, const struct ctxp_stage_ops *const *registry,
    struct ctxp_config **ret_config, struct ctxp_buf *faults) __attribute__((warn_unused_result));
/* For a daemon: the same without the price tables, which are named and not read (`prices` stays NULL). */
int ctxp_topology_read_lean(const char *file, const struct ctxp_stage_ops *const *registry, struct ctxp_config **ret_config,
    struct ctxp_buf *faults) __attribute__((warn_unused_result));
/* Appends the canonical form: all paths absolute, all defaults written out; reads back as the same topology. -ENOMEM. */
int ctxp_topology_write(const struct ctxp_config *config, struct ctxp_buf *out) __attribute__((warn_unused_result));
/* A path as a text of a topology that reads back as it is: quoted, its variables and control characters escaped. */
void ctxp_topology_quote_path(struct ctxp_str path, struct ctxp_buf *out);
/* The numbers of the whole pipeline: the keys beside `nodes`, with unit, range and default. */
extern const struct ctxp_option ctxp_topology_options[];
/* Takes the nodes of a role out. What they read must be read by somebody else, or be asked in another way. */
void ctxp_topology_leave_out(struct ctxp_config *config, enum ctxp_stage_role role);
struct ctxp_config *ctxp_topology_free(struct ctxp_config *config);
const struct ctxp_node_config *ctxp_topology_node(const struct ctxp_config *config, const char *name); /* NULL: none */

/* Endpoints: one place that knows them. ipc://RUN_DIR/NODE.pub, .replay, .control; the collector's .answers. */
void ctxp_topology_endpoint(const struct ctxp_config *config, const char *node, const char *which, struct ctxp_buf *out);

/* Fills a stage's options struct from a map of options (NULL values: defaults); texts are owned by `arena`, which must live as long.
 * On success the arena's former content is given up; on a fault (-EINVAL: unknown, missing, ill-typed, out of range) struct and arena stay
 * as they were. */
int ctxp_options_fill(const struct ctxp_option *table, struct ctxp_raw options, void *ret_struct, struct ctxp_buf *arena,
    struct ctxp_error *err) __attribute__((warn_unused_result));
