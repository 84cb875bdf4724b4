/* A node: one stage (or one source) with its store, stream, publisher, upstreams and control socket, in one loop of one thread.
 *
 * Most daemons are a stage behind upstreams. The collector has no upstream: it is a source, which brings its own sockets into the
 * loop through the hooks below; stream, commits, publishing, replay, control, retention and drain are the node's for both. */
#pragma once
#include <zmq.h>
#include "bus/stream.h"
#include "config/topology.h"
#include "ctxpipe/log.h"
#include "runtime/host.h"

struct ctxp_node;

/* Hooks of a source. `stage` is made, filled with its options and opened before them, as any stage; its `event` is never called.
 * All are called from the loop, one at a time. <0 with the node's sentence set (ctxp_node_fail): the node stops. */
struct ctxp_source_ops {
  /* Binds its sockets. The store and the stream are open; sockets of the node are not yet bound. */
  int (*open)(struct ctxp_node *node, struct ctxp_stage *stage, struct ctxp_error *err);
  /* What to wait for now, at most `max` items; asked before every poll, so a source that cannot take more leaves it out. */
  unsigned (*items)(struct ctxp_node *node, struct ctxp_stage *stage, zmq_pollitem_t *items, unsigned max);
  /* Reads a bounded amount from the items that are ready and appends. Called after every poll in which one is ready. */
  int (*ready)(struct ctxp_node *node, struct ctxp_stage *stage, const zmq_pollitem_t *items, unsigned count);
  /* When its next timer is due, in ctxp_clock_ms; called after every round, and does what is due. UINT64_MAX: none. May be NULL. */
  int (*tick)(struct ctxp_node *node, struct ctxp_stage *stage, uint64_t now_ms, uint64_t *ret_next_ms);
  /* In the transaction that is about to be committed: positions of clients. Called only where something is to be committed. */
  int (*before_commit)(struct ctxp_node *node, struct ctxp_stage *stage);
  /* After commit and publication: acknowledgements. head: the last number that is committed. */
  int (*after_commit)(struct ctxp_node *node, struct ctxp_stage *stage, uint64_t head);
  /* The transaction failed (a full disk) and is undone: nothing since the last after_commit ever was. May be NULL: the node then stops. */
  int (*aborted)(struct ctxp_node *node, struct ctxp_stage *stage);
  /* Drain: stop taking from clients. From then on `items` may still give the answers socket. */
  int (*drain)(struct ctxp_node *node, struct ctxp_stage *stage);
  /* After a drain: true once nothing more will be appended (the node then commits and publishes the end mark). May be NULL: at once. */
  bool (*done)(struct ctxp_node *node, struct ctxp_stage *stage);
  /* The topology was read again (control `reload`); ctxp_node_topology is the new one. May be NULL. */
  int (*reload)(struct ctxp_node *node, struct ctxp_stage *stage, struct ctxp_error *err);
  /* Adds pairs to the map of `status`; returns how many. May be NULL. */
  unsigned (*status)(struct ctxp_node *node, struct ctxp_stage *stage, struct ctxp_buf *out);
  void (*close)(struct ctxp_node *node, struct ctxp_stage *stage); /* takes half-opened state too */
};

/* ---- services for a source ---- */
/* Appends one event, encoded as it stands (with its ts), in the open transaction; event->seq and cause are not looked at.
 * It is committed by the node's rule: no item ready, commit_batch events, commit_interval_ms, about 4 MiB, or ctxp_node_hurry. */
int ctxp_node_append(struct ctxp_node *node, const struct ctxp_event *event, uint64_t *ret_seq) __attribute__((warn_unused_result));
void ctxp_node_hurry(struct ctxp_node *node); /* commit as soon as `ready` returns: an ask has come */
bool ctxp_node_full(const struct ctxp_node *node); /* the stream is at max_bytes and must wait: take no more from clients */
bool ctxp_node_draining(const struct ctxp_node *node);
/* For `before_commit` and for loading at `open`: the store; a put in it opens a transaction, and counts as something to commit. */
struct ctxp_store *ctxp_node_store(struct ctxp_node *node);
struct ctxp_stream *ctxp_node_stream(struct ctxp_node *node);
const struct ctxp_config *ctxp_node_topology(const struct ctxp_node *node);
const struct ctxp_node_config *ctxp_node_config(const struct ctxp_node *node);
void *ctxp_node_zmq(struct ctxp_node *node); /* the context */
void *ctxp_node_data(struct ctxp_node *node); /* the source's own, set in `open` */
void ctxp_node_set_data(struct ctxp_node *node, void *data);
/* Sets the sentence with which the node stops, and returns `code`. */
int ctxp_node_fail(struct ctxp_node *node, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
struct ctxp_error *ctxp_node_error(struct ctxp_node *node); /* where a failing call may write that sentence itself */
void ctxp_node_count_refused(struct ctxp_node *node, const char *sentence); /* shown by `status` */

/* ---- running ---- */
struct ctxp_node_options {
  const struct ctxp_stage_ops *ops;
  const struct ctxp_source_ops *source; /* NULL: a stage behind upstreams */
  const char *topology_file, *name;
  const struct ctxp_config *config; /* the topology, where it is at hand already, borrowed; NULL: it is read from topology_file */
  void (*opened)(void); /* called once it is open, before its work; NULL: nothing is to be done */
  int ready_fd, life_fd; /* -1: none. On ready_fd it says `ready`, and, if it ends with an error, then or instead `error: ` and why */
};
enum { /* exit codes of a daemon */
  CTXP_EXIT_DRAINED = 0,
  CTXP_EXIT_ERROR = 1, /* said in a sentence; another start may go well */
  CTXP_EXIT_FAILED = 3 /* another start meets the same: diverged upstream, a different derivation, damaged store */
};
/* Opens, says ready, runs until drained or failed. Returns an exit code. */
int ctxp_node_run(const struct ctxp_node_options *options);
