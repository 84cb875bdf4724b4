#include "ctxpipe/pipeline.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/builtin.h"
#include "config/faults.h"
#include "ctxpipe/rundir.h"
#include "ctxpipe/table.h"
#include "runtime/control.h"

#define ANSWER_MS 60000 /* a query over a large state is work, but not for ever */
#define CATCH_UP_MS 5000

/* every fault is a sentence of its own, with file, line and column */
static int read_topology(const char *file, bool lean, struct ctxp_config **ret_config, struct ctxp_error *err) {
  ctxp_auto_buf faults = {0}, safe = {0};
  unsigned count = 0;
  int r = (lean ? ctxp_topology_read_lean : ctxp_topology_read)(file, ctxp_registry_get(), ret_config, &faults);
  if (r == 0) return 0;
  for (size_t i = 0; i < faults.len; i++) count += faults.ptr[i] == '\n';
  if (count <= 1) {
    while (faults.len && faults.ptr[faults.len - 1] == '\n') faults.len--;
    return ctxp_error_set(err, r, "%s", ctxp_buf_cstr(&faults));
  }
  ctxp_term_lines(&safe, ctxp_buf_view(&faults));
  fwrite(safe.ptr, 1, safe.len, stderr);
  return ctxp_error_set(err, r, "'%s' has %u faults, listed above; nothing was started", file, count);
}

static int parse_builtin(const struct ctxp_buf *text, struct ctxp_config **ret_config, struct ctxp_error *err) {
  ctxp_auto_buf faults = {0};
  int r = ctxp_buf_error(text);
  if (r == 0) r = ctxp_topology_parse("/built-in", ctxp_buf_view(text), ctxp_registry_get(), ret_config, &faults);
  while (faults.len && faults.ptr[faults.len - 1] == '\n') faults.len--;
  return r < 0 ? ctxp_error_set(err, r, "%s", ctxp_buf_cstr(&faults)) : 0;
}

static int builtin_topology(struct ctxp_config **ret_config, struct ctxp_error *err) {
  ctxp_auto_buf text = {0};
  ctxp_buf_str(&text, ctxp_builtin_topology_text);
  return parse_builtin(&text, ret_config, err);
}

/* the nodes of the built-in topology, without its own directories, retention and prices */
static void put_nodes(struct ctxp_buf *out) {
  static const char *const own[] = {"run_dir:", "state_dir:", "durability:", "retain_hours:", "max_bytes:", "commit_linger_ms:", "prices:"};
  for (const char *line = ctxp_builtin_topology_text; *line;) {
    const char *end = strchr(line, '\n');
    size_t len = end ? (size_t)(end - line) + 1 : strlen(line);
    bool skip = false;
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) skip |= strncmp(line, own[i], strlen(own[i])) == 0;
    if (!skip) ctxp_buf_add(out, line, len);
    line += len;
  }
}

/* one option of a node gets another value */
static int set_option(struct ctxp_node_config *node, const char *name, const char *value) {
  struct ctxp_cursor it = ctxp_cursor(ctxp_buf_raw(&node->options));
  ctxp_auto_buf options = {0};
  struct ctxp_raw old;
  struct ctxp_str key;
  uint32_t left;
  int r = ctxp_map_open(&it, &left);
  if (r < 0) return r;
  ctxp_pack_map(&options, left);
  while ((r = ctxp_map_next(&it, &left, &key, &old)) > 0) {
    ctxp_pack_str(&options, key);
    if (ctxp_str_is(key, name))
      ctxp_pack_cstr(&options, value);
    else
      ctxp_pack_raw(&options, old);
  }
  if (r == 0) r = ctxp_buf_error(&options);
  if (r < 0) return r;
  ctxp_buf_deinit(&node->options);
  node->options = options;
  options = (struct ctxp_buf){0};
  return 0;
}

int ctxp_pipeline_private(const char *dir, const char *prices, const char *sizes, struct ctxp_config **ret_config, struct ctxp_error *err) {
  ctxp_auto_buf text = {0}, run = {0}, state = {0};
  ctxp_auto_free char *file = prices ? realpath(prices, NULL) : NULL;
  if (prices && !file) return ctxp_error_set(err, -errno, "could not read the price table '%s': %s", prices, strerror(errno));
  if (file && (strchr(file, '\n') || !ctxp_utf8_valid(ctxp_str(file))))
    return ctxp_error_set(err, -EINVAL, "the path of the price table '%s' holds a line break or is not UTF-8; rename it",
        ctxp_shown(ctxp_str(prices)).text);
  put_nodes(&text);
  ctxp_buf_printf(&run, "%s/run", dir);
  ctxp_buf_printf(&state, "%s/state", dir);
  ctxp_buf_str(&text, "\nrun_dir: ");
  ctxp_topology_quote_path(ctxp_buf_view(&run), &text);
  ctxp_buf_str(&text, "\nstate_dir: ");
  ctxp_topology_quote_path(ctxp_buf_view(&state), &text);
  ctxp_buf_str(&text, "\nretain_hours: 0\nmax_bytes: 268435456\ndurability: process\ncommit_linger_ms: 20\nprices: [" CTXP_PRICES_BUILTIN);
  if (file) ctxp_buf_str(&text, ", ");
  if (file) ctxp_topology_quote_path(ctxp_str(file), &text);
  ctxp_buf_str(&text, "]\n");
  int r = parse_builtin(&text, ret_config, err);
  if (r < 0) return r;
  for (unsigned i = 0; r == 0 && sizes && i < (*ret_config)->node_count; i++)
    if ((*ret_config)->nodes[i].ops->role == CTXP_ROLE_FOLD_NODE) r = set_option(&(*ret_config)->nodes[i], "sizes", sizes);
  if (r < 0) {
    *ret_config = ctxp_topology_free(*ret_config);
    return ctxp_error_set(err, r, "the fold's options could not be set");
  }
  (*ret_config)->fleeting = true;
  ctxp_topology_leave_out(*ret_config, CTXP_ROLE_SINK_NODE); /* the fold is asked; nobody would read their files */
  return 0;
}

int ctxp_pipeline_config(const struct ctxp_args *args, struct ctxp_config **ret_config, struct ctxp_error *err) {
  const char *file = ctxp_args_get(args, "file");
  return file ? read_topology(file, false, ret_config, err) : builtin_topology(ret_config, err);
}

static int run_dir_of(const struct ctxp_args *args, struct ctxp_buf *ret_dir, struct ctxp_error *err) {
  struct ctxp_config *config;
  const char *dir = ctxp_args_get(args, "run-dir");
  if (dir) {
    ctxp_buf_str(ret_dir, dir);
    return ctxp_buf_error(ret_dir);
  }
  int r = ctxp_pipeline_config(args, &config, err);
  if (r < 0) return r;
  ctxp_buf_str(ret_dir, config->run_dir);
  ctxp_topology_free(config);
  return ctxp_buf_error(ret_dir);
}

int ctxp_pipeline_find(const struct ctxp_args *args, struct ctxp_pipeline *ret_pipeline, struct ctxp_error *err) {
  struct ctxp_pipeline pipeline = {0};
  ctxp_auto_buf dir = {0}, file = {0};
  int r = run_dir_of(args, &dir, err);
  if (r == 0) r = ctxp_rundir_read(ctxp_buf_cstr(&dir), &pipeline.supervisor, err);
  if (r > 0)
    r = ctxp_error_set(
        err, -ENOENT, "no pipeline runs in '%s'; 'ctxpipe up' starts one, -f or --run-dir name another", ctxp_buf_cstr(&dir));
  ctxp_buf_printf(&file, "%s/topology.yaml", ctxp_buf_cstr(&dir));
  if (r == 0) r = read_topology(ctxp_buf_cstr(&file), true, &pipeline.config, err);
  if (r < 0)
    ctxp_pipeline_deinit(&pipeline);
  else
    *ret_pipeline = pipeline;
  return r;
}

void ctxp_pipeline_deinit(struct ctxp_pipeline *pipeline) {
  ctxp_topology_free(pipeline->config);
  ctxp_buf_deinit(&pipeline->supervisor);
  *pipeline = (struct ctxp_pipeline){0};
}

const struct ctxp_node_config *ctxp_pipeline_node(const struct ctxp_config *config, enum ctxp_stage_role role) {
  for (unsigned i = 0; i < config->node_count; i++)
    if (config->nodes[i].ops->role == role) return &config->nodes[i];
  return NULL;
}

static int call(const struct ctxp_config *config, const char *node, const struct ctxp_buf *request, int timeout_ms, struct ctxp_buf *reply,
    struct ctxp_error *err) {
  ctxp_auto_buf endpoint = {0};
  int r = ctxp_buf_error(request);
  if (r < 0) return ctxp_error_set(err, r, "out of memory");
  ctxp_topology_endpoint(config, node, "control", &endpoint);
  ctxp_buf_reset(reply);
  return ctxp_control_call(ctxp_buf_cstr(&endpoint), ctxp_buf_raw(request), timeout_ms, reply, err);
}

int ctxp_pipeline_query(
    const struct ctxp_config *config, const char *node, struct ctxp_raw query, struct ctxp_buf *ret_reply, struct ctxp_error *err) {
  ctxp_auto_buf request = {0};
  ctxp_pack_map(&request, 2);
  ctxp_pack_cstr(&request, "op");
  ctxp_pack_cstr(&request, "query");
  ctxp_pack_cstr(&request, "query");
  ctxp_pack_raw(&request, query);
  return call(config, node, &request, ANSWER_MS, ret_reply, err);
}

int ctxp_pipeline_wait(const struct ctxp_config *config, const char *node, uint64_t cause, int timeout_ms, struct ctxp_error *err) {
  ctxp_auto_buf request = {0}, reply = {0};
  ctxp_pack_map(&request, 2);
  ctxp_pack_cstr(&request, "op");
  ctxp_pack_cstr(&request, "wait");
  ctxp_pack_cstr(&request, "cause");
  ctxp_pack_u64(&request, cause);
  return call(config, node, &request, timeout_ms, &reply, err);
}

int ctxp_pipeline_status(
    const struct ctxp_config *config, const char *node, int timeout_ms, struct ctxp_buf *ret_reply, struct ctxp_error *err) {
  ctxp_auto_buf request = {0};
  ctxp_pack_map(&request, 1);
  ctxp_pack_cstr(&request, "op");
  ctxp_pack_cstr(&request, "status");
  return call(config, node, &request, timeout_ms, ret_reply, err);
}

/* What the supervisor says of a node that it has given up; `name` empty: of any. false: there is none. */
static bool given_up(const struct ctxp_config *config, const char *name, struct ctxp_error *ret_why) {
  ctxp_auto_buf supervisor = {0};
  struct ctxp_raw node;
  uint32_t left;
  if (ctxp_rundir_read(config->run_dir, &supervisor, ret_why) != 0) return false;
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(ctxp_buf_raw(&supervisor), "nodes"));
  if (ctxp_array_open(&it, &left) < 0) return false;
  while (ctxp_array_next(&it, &left, &node) > 0) {
    if (!ctxp_str_is(ctxp_map_str(node, "state"), "failed") || (*name && !ctxp_str_is(ctxp_map_str(node, "node"), name))) continue;
    struct ctxp_str last = ctxp_map_str(node, "lastError");
    ctxp_error_set(ret_why, -ESRCH, "%.*s", (int)last.len, last.ptr);
    return true;
  }
  return false;
}

/* What was acknowledged before the question is in the answer, unless the fold is far behind: then it is said, and what it has is shown. */
static void catch_up(const struct ctxp_config *config, const char *fold) {
  const struct ctxp_node_config *collector = ctxp_pipeline_node(config, CTXP_ROLE_COLLECTOR_NODE);
  ctxp_auto_buf status = {0};
  struct ctxp_error err;
  if (given_up(config, "", &err)) {
    fprintf(stderr, "ctxpipe: the figures are those before a node was given up: %s\n", err.text);
    return;
  }
  int r = collector ? ctxp_pipeline_status(config, collector->name, CATCH_UP_MS, &status, &err) : -ENOENT;
  if (r == 0) r = ctxp_pipeline_wait(config, fold, ctxp_map_u64(ctxp_buf_raw(&status), "head", 0), CATCH_UP_MS, &err);
  if (r < 0)
    fprintf(stderr, "ctxpipe: the figures are those of a moment ago, the fold is still behind; 'ctxpipe status' shows by how much\n");
}

int ctxp_pipeline_ask_fold(const struct ctxp_config *config, struct ctxp_raw query, struct ctxp_buf *ret_reply, struct ctxp_error *err) {
  const struct ctxp_node_config *fold = ctxp_pipeline_node(config, CTXP_ROLE_FOLD_NODE);
  if (!fold) return ctxp_error_set(err, -ENOENT, "the topology has no fold; add a node with 'daemon: fold'");
  if (given_up(config, fold->name, err)) return -ESRCH;
  catch_up(config, fold->name);
  return ctxp_pipeline_query(config, fold->name, query, ret_reply, err);
}
