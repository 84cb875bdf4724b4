/* The node's inside, shared by node.c (open, loop), node_stage.c (the stage's host), node_defer.c (events that wait for a model),
 * node_state.c (checkpoints, re-derivation, holds), node_drain.c (ending) and node_status.c (what it answers on its control socket). */
#pragma once
#include "bus/answers.h"
#include "bus/merge.h"
#include "bus/publish.h"
#include "bus/subscribe.h"
#include "model/model.h"
#include "runtime/control_server.h"
#include "runtime/node.h"

#define COMMIT_BYTES (4u << 20) /* appended before a commit is made whatever else */
#define SOURCE_ITEMS 32

enum phase { RUNNING,
  DRAINING,
  ENDED,
  LEAVING };

struct upstream {
  struct ctxp_sub *sub;
  const struct ctxp_node_config *config;
  bool collector;
};

struct ctxp_deferred;
struct ctxp_defer { /* events that wait for their turn */
  struct ctxp_deferred *first, *last;
  struct ctxp_deferred *made; /* by the call of the event that is being prepared */
  struct ctxp_deferred *in_hand; /* that is being done */
  unsigned count, ahead, under_way; /* ahead: done, and not yet in the stream */
  size_t bytes;
  uint64_t forgotten; /* first event of the stream when decisions were last forgotten */
  struct ctxp_model *model; /* NULL: no call was made yet */
};

struct ctxp_node {
  const struct ctxp_node_options *options;
  const struct ctxp_stage_ops *ops;
  const struct ctxp_source_ops *source;
  const struct ctxp_config *config;
  struct ctxp_config *own_config; /* that which was read here; NULL: `config` is borrowed */
  const struct ctxp_node_config *self;
  volatile uint64_t *mark; /* of the collector's event in hand; runtime/mark.h */
  void *zmq, *answers, *source_data;
  struct ctxp_store *store;
  struct ctxp_stream *stream; /* NULL: it emits nothing */
  struct ctxp_publisher *publisher; /* likewise */
  struct ctxp_stage *stage;
  struct ctxp_merge *merge;
  struct upstream *upstreams;
  unsigned upstream_count;
  struct ctxp_control_server *control;
  int signals, life;
  struct ctxp_error error;
  int code; /* with which it stops */

  /* what is appended and not committed */
  size_t pending_bytes;
  uint64_t pending_since_ms;
  uint64_t linger_until_ms; /* a commit waits until then for more; 0: none waits */
  bool hurry, state_dirty, source_opened;
  struct ctxp_buf scratch, value, topology; /* topology: body of the event in force */
  bool topology_dirty;

  /* re-derivation: what the stream held past the checkpoint when the node was opened */
  uint64_t redo_next, redo_last, tail_version, tail_cause;
  bool tail_other, version_stored;

  struct ctxp_defer defer;

  /* the ask in hand */
  uint64_t ask_seq;
  bool answered;

  /* since the last checkpoint */
  uint64_t inputs, input_bytes, checkpoint_ms;
  bool saving;

  /* waiting for an upstream that is down */
  unsigned wait_input;
  uint64_t wait_from, wait_since_ms;

  uint64_t retain_ms; /* when retention is looked at next */
  enum phase phase;
  bool quick, end_told;
  unsigned terms; /* SIGTERMs that came */
  uint64_t leave_ms, report_ms;

  uint64_t started_ms, events, refused;
  uint64_t appended; /* events of a source that no commit has yet */
  char last_error[CTXP_ERROR_MAX];
};

/* node_stage.c */
extern const struct ctxp_host_ops ctxp_node_host;
int ctxp_node_put_record(struct ctxp_node *node, struct ctxp_record *record);
int ctxp_node_work(struct ctxp_node *node, uint64_t now_ms, bool *ret_more); /* takes what is at hand, within a bound */
bool ctxp_node_is_ask(const struct ctxp_event *event);
int ctxp_node_verdict(struct ctxp_node *node, enum ctxp_verdict_kind kind, uint64_t ask_seq, struct ctxp_raw actions);
/* The stage does the event; open: its verdict is to be said, if only as a pass. */
int ctxp_node_deliver_event(struct ctxp_node *node, const struct ctxp_event *event, const struct upstream *from, bool open);

/* node_defer.c */
bool ctxp_node_defer_takes(const struct ctxp_node *node, const struct ctxp_item *item); /* false: it has to wait outside */
/* 1: the event is done, or waits here for its turn; 0: it is to be done now, without a reply. */
int ctxp_node_defer(struct ctxp_node *node, const struct ctxp_item *item, const struct ctxp_event *event, struct upstream *from);
int ctxp_node_defer_emit(struct ctxp_node *node, const struct ctxp_event *event); /* 1: it is its turn, append it */
int ctxp_node_defer_step(struct ctxp_node *node, uint64_t now_ms, uint64_t *ret_next_ms); /* replies, calls, turns */
int ctxp_node_defer_fd(const struct ctxp_node *node); /* -1: no call was made yet */
uint64_t ctxp_node_deferred_from(const struct ctxp_node *node); /* number of the first that waits; UINT64_MAX: none */
const struct ctxp_place *ctxp_node_deferred_place(const struct ctxp_node *node, const struct upstream *up); /* before it; NULL: none */
int ctxp_node_forget_decisions(struct ctxp_node *node); /* about what the stream no longer holds */
void ctxp_node_defer_deinit(struct ctxp_node *node);
int ctxp_node_host_call(void *data, const struct ctxp_event *event, const struct ctxp_model_call *call);
int ctxp_node_host_reply(void *data, const struct ctxp_event *event, struct ctxp_model_reply *ret_reply);

/* node_state.c */
int ctxp_node_load(struct ctxp_node *node); /* checkpoint and tail; before the upstreams are opened */
int ctxp_node_load_holds(struct ctxp_node *node); /* into the merge */
struct ctxp_place ctxp_node_loaded_place(struct ctxp_node *node, const char *upstream);
bool ctxp_node_unsaid(const struct ctxp_node *node); /* the watermark is beyond the one that was published */
int ctxp_node_commit(struct ctxp_node *node, uint64_t now_ms); /* what is pending, and says the head where it moved */
int ctxp_node_checkpoint(struct ctxp_node *node, uint64_t now_ms, bool ended);
bool ctxp_node_checkpoint_due(const struct ctxp_node *node, uint64_t now_ms);
uint64_t ctxp_node_checkpoint_next(const struct ctxp_node *node);
int ctxp_node_redo(struct ctxp_node *node, const struct ctxp_record *record); /* 1: it is in the stream already; 0: append it */
int ctxp_node_redo_check(struct ctxp_node *node); /* nothing that the stream holds was left out */
int ctxp_node_hold(struct ctxp_node *node, uint64_t now_ms, uint64_t *ret_next_ms);
int ctxp_node_retain(struct ctxp_node *node, uint64_t now_ms, bool *ret_more);

/* node_drain.c */
void ctxp_node_drain(struct ctxp_node *node, uint64_t now_ms, bool quick);
int ctxp_node_drain_step(struct ctxp_node *node, uint64_t now_ms, bool idle, uint64_t *ret_next_ms);
enum ctxp_flow_state ctxp_node_flow_state(const struct ctxp_node *node);

/* node_status.c */
int ctxp_node_control(void *data, struct ctxp_raw request, struct ctxp_buf *reply, struct ctxp_error *err);
int ctxp_node_waits(struct ctxp_node *node, uint64_t now_ms); /* replies to those whose cause is done */
int ctxp_node_reload(struct ctxp_node *node, struct ctxp_error *err);
int ctxp_node_reopen(struct ctxp_node *node, struct ctxp_error *err);
int ctxp_node_subscribers(struct ctxp_node *node);
uint64_t ctxp_node_done(const struct ctxp_node *node);
