/* A stage: one step of the flow, in one file, that exports one `const struct ctxp_stage_ops`.
 *
 * The host (a daemon, the offline replay, a test) opens it, hands it events in order and stores what it emits. A stage knows no
 * peer, no socket, no clock and no file but its own output; what it derives is a function of the events, its options, the
 * prices and its stored state alone, so that a replay gives the same bytes.
 *
 * Numbers returned: 0 done; < 0 -errno: the event is not done, the host stops the node and will deliver it again. */
#pragma once
#include "ctxpipe/error.h"
#include "ctxpipe/event.h"
#include "ctxpipe/option.h"

#define CTXP_STAGE_API 1

enum ctxp_stage_role { CTXP_ROLE_COLLECTOR_NODE,
  CTXP_ROLE_MECHANISM_NODE,
  CTXP_ROLE_FOLD_NODE,
  CTXP_ROLE_SINK_NODE };

/* Sub-topics of tool_result: the class of its tool. A fixed table (common/codec/tools.h), never an agent's text. */
enum ctxp_tool_class {
  CTXP_TOOL_SHELL,
  CTXP_TOOL_READ,
  CTXP_TOOL_SEARCH,
  CTXP_TOOL_WRITE,
  CTXP_TOOL_SKILL,
  CTXP_TOOL_OTHER,
  CTXP_TOOL_CLASSES
};

struct ctxp_consume { /* kind NONE ends a table */
  enum ctxp_kind kind;
  unsigned classes; /* of tool_result: bits 1 << class; 0: all */
};

struct ctxp_stage; /* the host's; with it a stage asks for the services below */
struct ctxp_prices; /* common/config/prices.h */

/* A question to an auxiliary model behind an OpenAI-compatible endpoint. Texts are borrowed for the call that takes them. */
struct ctxp_model_call {
  const char *url; /* base; /chat/completions is added */
  const char *model;
  const char *key_env, *key_file; /* where the API key stands; "": none */
  struct ctxp_str system, user; /* the two messages */
  uint64_t max_tokens; /* of the reply */
  uint64_t timeout_ms; /* from the event's arrival, waiting for a free call included */
  uint64_t max_inflight; /* calls of this node at the same time */
  bool answers; /* the verdict on the ask needs the reply: the collector is told `working`; else the ask passes at once */
};
enum ctxp_model_outcome { CTXP_MODEL_OK, /* finished, in time, not blank */
  CTXP_MODEL_TIMEOUT,
  CTXP_MODEL_FAILED,
  CTXP_MODEL_LOST, /* nothing is known of it: there is no recorded reply, and none will be asked for */
  CTXP_MODEL_OUTCOMES };
struct ctxp_model_reply {
  enum ctxp_model_outcome outcome;
  struct ctxp_str text; /* of the whole reply; empty unless OK */
  struct ctxp_str why; /* why it is no use; empty if OK */
  uint64_t input_tokens, output_tokens; /* reported, else estimated */
  uint64_t duration_ms;
  uint64_t lost, lost_tokens; /* earlier calls for the same whose replies were not stored, and their input */
};

struct ctxp_stage_ops {
  unsigned api; /* CTXP_STAGE_API; checked at start */
  const char *name; /* the daemon's name in the topology and in libexec */
  const char *summary; /* one line */
  enum ctxp_stage_role role;
  unsigned version; /* of its derivation: raised when the same input gives another output */
  const struct ctxp_consume *consumes;
  const enum ctxp_kind *emits; /* CTXP_KIND_NONE ends; NULL: nothing, no stream of its own */
  const struct ctxp_option *options;
  size_t options_size, state_size; /* state is zeroed before open */
  /* what the table of options cannot say: one sentence that names the option; for `ctxpipe check` and at start. May be NULL */
  int (*check)(const void *options, struct ctxp_error *err);
  int (*open)(struct ctxp_stage *stage, struct ctxp_error *err);
  /* ev is borrowed for the call */
  int (*event)(struct ctxp_stage *stage, const struct ctxp_event *ev);
  /* The event was read and its turn may be a while: starts the model call that `event` will need (ctxp_stage_call), if what is asked
   * depends on the event and the options alone. Keeps nothing. May be NULL. A stage that has it keeps state for each window alone,
   * puts it in `save` alone, and may be given events of different windows in another order than that of their numbers; what it
   * emits is put in order by the host. */
  int (*prepare)(struct ctxp_stage *stage, const struct ctxp_event *ev);
  /* puts what changed since the last save into the store (ctxp_stage_put); the host commits it together with the cursors */
  int (*save)(struct ctxp_stage *stage);
  /* SIGHUP: reopen output files; may be NULL */
  int (*reopen)(struct ctxp_stage *stage, struct ctxp_error *err);
  /* answers a query of `ctxpipe` with one MessagePack value; may be NULL. -ENOENT with a sentence: it has no such thing */
  int (*query)(struct ctxp_stage *stage, struct ctxp_raw query, struct ctxp_buf *reply, struct ctxp_error *err);
  /* takes half-opened state too */
  void (*close)(struct ctxp_stage *stage);
};

/* ---- services ---- */
void *ctxp_stage_state(struct ctxp_stage *stage);
const void *ctxp_stage_options(const struct ctxp_stage *stage); /* in force for the event in hand; may change between events */
const struct ctxp_prices *ctxp_stage_prices(const struct ctxp_stage *stage); /* in force for the event in hand; may be NULL */
const char *ctxp_stage_node(const struct ctxp_stage *stage); /* its name in the topology */

/* Emits an event caused by the event in hand. Where they are empty, ts, agent, session and thread are the causing event's.
 * cause: the causing event's own number if it is the collector's, else its cause. */
int ctxp_stage_emit(struct ctxp_stage *stage, struct ctxp_event *ev) __attribute__((warn_unused_result));
/* A mechanism's verdict on the ask in hand: a map of actions (replace, inject, remove, strip, stripContent). Not called: pass. */
int ctxp_stage_answer(struct ctxp_stage *stage, struct ctxp_raw actions) __attribute__((warn_unused_result));
/* In `prepare`: asks a model, at most once for an event. */
int ctxp_stage_call(struct ctxp_stage *stage, const struct ctxp_model_call *call) __attribute__((warn_unused_result));
/* In `event`: the recorded reply to the call that was made for this event, borrowed for the event; 1: none was made. A recorded reply
 * is the same whenever the event is derived again. */
int ctxp_stage_reply(struct ctxp_stage *stage, struct ctxp_model_reply *ret_reply) __attribute__((warn_unused_result));
/* The stage's own store: ordered by key (at most 255 bytes), committed with the cursors. get: 0, or 1 not there; the value is
 * borrowed until the next call. each: visits the keys with that prefix in order until `visit` returns non-zero. */
int ctxp_stage_put(struct ctxp_stage *stage, struct ctxp_raw key, struct ctxp_raw value) __attribute__((warn_unused_result));
int ctxp_stage_del(struct ctxp_stage *stage, struct ctxp_raw key) __attribute__((warn_unused_result));
int ctxp_stage_get(struct ctxp_stage *stage, struct ctxp_raw key, struct ctxp_raw *ret_value) __attribute__((warn_unused_result));
int ctxp_stage_each(struct ctxp_stage *stage, struct ctxp_raw prefix,
    int (*visit)(void *data, struct ctxp_raw key, struct ctxp_raw value), void *data) __attribute__((warn_unused_result));
/* Counts an input that is not used, and keeps the sentence as the node's last error, for `status`. */
void ctxp_stage_refuse(struct ctxp_stage *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));
