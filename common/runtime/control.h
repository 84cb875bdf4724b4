/* The control socket of a node: one MessagePack map each way. {op, ...} -> {ok: true, data} or {ok: false, error}.
 *
 *   status                      figures of the node (keys of `status --json`)
 *   query {query}               the stage's query; data: its value
 *   wait {cause}                replies once everything caused by the collector's events up to `cause` is done (a sink: durably written)
 *   drain {quick?}              ends; quick: without waiting for upstreams to end
 *   level {level}               error, warn, info or debug
 *   reload                      reads the topology file again: subscribers for retention; a collector appends its topology event
 *   reopen                      as SIGHUP */
#pragma once
#include "base/buf.h"
#include "ctxpipe/error.h"

/* Calls a node and waits for the reply. 0: `reply` holds the value of `data`. -EREMOTEIO: the node said no, err has its sentence.
 * -ETIMEDOUT: no reply within timeout_ms (-1: for ever). */
int ctxp_control_call(const char *endpoint, struct ctxp_raw request, int timeout_ms, struct ctxp_buf *reply, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* The same for requests that are a name alone: status, drain, reload, reopen. */
int ctxp_control_op(const char *endpoint, const char *op, int timeout_ms, struct ctxp_buf *reply, struct ctxp_error *err)
    __attribute__((warn_unused_result));

struct ctxp_control_asked {
  const char *endpoint; /* borrowed; NULL: not asked */
  struct ctxp_buf reply; /* the value of `data` */
  struct ctxp_error err; /* where result is <0, as of ctxp_control_call */
  int result;
};
/* Asks several nodes the same request, a name alone, at once; all of them have the same timeout_ms. <0: nobody could be asked. */
int ctxp_control_ask_all(struct ctxp_control_asked *asked, unsigned count, const char *op, int timeout_ms, struct ctxp_error *err)
    __attribute__((warn_unused_result));
