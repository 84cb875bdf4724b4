/* Offline: the collector's stored stream through mechanisms, fold and sinks in one process, without a socket. What the sinks
 * write is byte for byte what the running pipeline wrote.
 *
 * Mechanisms, fold, their options and the prices come from the stream's `topology` events; holds and the replies of models from the
 * recorded decisions of the fold and the mechanisms: nobody is asked again, and a reply that was never recorded is lost. The nodes of the
 * state directory must not be running: their locks are taken. */
#pragma once
#include "ctxpipe/error.h"
#include "ctxpipe/stage.h"
#include "base/buf.h"

struct ctxp_offline_sink {
  const char *name; /* node name */
  const struct ctxp_stage_ops *ops;
  struct ctxp_raw options; /* MessagePack map, complete or {0} for defaults */
};
struct ctxp_offline_options {
  const char *state_dir; /* holds NODE/ directories */
  const char *collector, *fold; /* node names; NULL: "collector", "fold" */
  const struct ctxp_stage_ops *const *registry; /* NULL-terminated */
  const struct ctxp_offline_sink *sinks;
  unsigned sink_count;
};
struct ctxp_offline_result {
  uint64_t events, derived, emitted; /* of the collector, of the mechanisms, of the fold */
  uint64_t first; /* number of the first event that is retained: above 1, and the replay lacks what came before */
  uint64_t refused; /* inputs that a stage did not use */
  uint64_t undecided; /* calls of which no reply is recorded: what was derived without them may be otherwise in the pipeline */
};
/* query: asked of the fold at the end, its reply in `reply`; {0}: none. */
int ctxp_offline_run(const struct ctxp_offline_options *options, struct ctxp_raw query, struct ctxp_buf *reply,
    struct ctxp_offline_result *ret_result, struct ctxp_error *err) __attribute__((warn_unused_result));
