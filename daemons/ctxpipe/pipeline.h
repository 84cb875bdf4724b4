/* A running pipeline, as the other commands find it: through the resolved topology in its run_dir. */
#pragma once
#include "config/topology.h"
#include "ctxpipe/command.h"

struct ctxp_pipeline {
  struct ctxp_config *config; /* of run_dir/topology.yaml: what runs, not what the file says now */
  struct ctxp_buf supervisor; /* MessagePack map of run_dir/supervisor.json */
};
/* The flags that name a pipeline; to be put first in a command's own table. */
#define CTXP_PIPELINE_FLAGS \
  {.name = "file", .letter = 'f', .value = "FILE", .help = "the topology that it was started with (default: the built-in one)"}, \
  { .name = "run-dir", .value = "DIR", .help = "its run_dir, instead of a topology" }

/* The topology that -f names, or the built-in one. Faults are printed as one sentence each. */
int ctxp_pipeline_config(const struct ctxp_args *args, struct ctxp_config **ret_config, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* -ENOENT with a sentence: none runs there. */
int ctxp_pipeline_find(const struct ctxp_args *args, struct ctxp_pipeline *ret_pipeline, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* The built-in topology in a temporary directory, with nothing kept beyond what is needed. prices: goes over the built-in table; sizes:
 * the fold's option of that name; both may be NULL. */
int ctxp_pipeline_private(const char *dir, const char *prices, const char *sizes, struct ctxp_config **ret_config, struct ctxp_error *err)
    __attribute__((warn_unused_result));
void ctxp_pipeline_deinit(struct ctxp_pipeline *pipeline);
/* The first node of a role; NULL: none. */
const struct ctxp_node_config *ctxp_pipeline_node(const struct ctxp_config *config, enum ctxp_stage_role role);
/* Asks a node's stage. The reply is the query's value. */
int ctxp_pipeline_query(const struct ctxp_config *config, const char *node, struct ctxp_raw query, struct ctxp_buf *ret_reply,
    struct ctxp_error *err) __attribute__((warn_unused_result));
/* Asks the fold, once it has what the collector has by now. */
int ctxp_pipeline_ask_fold(const struct ctxp_config *config, struct ctxp_raw query, struct ctxp_buf *ret_reply, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Waits until a node has done everything that the collector's events up to `cause` bring about. */
int ctxp_pipeline_wait(const struct ctxp_config *config, const char *node, uint64_t cause, int timeout_ms, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* The figures of a node, or of the collector: its head. */
int ctxp_pipeline_status(const struct ctxp_config *config, const char *node, int timeout_ms, struct ctxp_buf *ret_reply,
    struct ctxp_error *err) __attribute__((warn_unused_result));
