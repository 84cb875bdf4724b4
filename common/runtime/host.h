/* The host side of a stage: one vtable of services, so that the same stage runs in a daemon, in the offline replay and in a test. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/stage.h"

struct ctxp_host_ops { /* data: the host's own */
  int (*emit)(void *data, const struct ctxp_event *event); /* complete: cause, ts and window are set */
  int (*answer)(void *data, uint64_t ask_seq, struct ctxp_raw actions);
  int (*put)(void *data, struct ctxp_raw key, struct ctxp_raw value);
  int (*del)(void *data, struct ctxp_raw key);
  int (*get)(void *data, struct ctxp_raw key, struct ctxp_raw *ret_value);
  int (*each)(void *data, struct ctxp_raw prefix, int (*visit)(void *, struct ctxp_raw, struct ctxp_raw), void *visit_data);
  void (*refuse)(void *data, const char *sentence);
  /* of the event in hand; NULL in a host that calls no model: `event` then finds that no call was made */
  int (*call)(void *data, const struct ctxp_event *event, const struct ctxp_model_call *call);
  int (*reply)(void *data, const struct ctxp_event *event, struct ctxp_model_reply *ret_reply);
};

/* Checks the operations (api, required slots), allocates state and options. options: a MessagePack map, {0}: defaults. */
int ctxp_stage_new(const struct ctxp_stage_ops *ops, const char *node, struct ctxp_raw options, const struct ctxp_host_ops *host,
    void *data, struct ctxp_stage **ret_stage, struct ctxp_error *err) __attribute__((warn_unused_result));
int ctxp_stage_open(struct ctxp_stage *stage, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Takes options and prices from a `topology` event without delivering it: the one in force at the checkpoint, before open. */
int ctxp_stage_configure(struct ctxp_stage *stage, const struct ctxp_event *topology) __attribute__((warn_unused_result));
/* Delivers one event: a `topology` event first sets the options (of the entry with this node's name) and the prices, then goes to
 * the stage if it consumes that kind. */
int ctxp_stage_deliver(struct ctxp_stage *stage, const struct ctxp_event *event) __attribute__((warn_unused_result));
/* Lets the stage ask what it will need for an event that is delivered later, under the options in force. */
int ctxp_stage_prepare(struct ctxp_stage *stage, const struct ctxp_event *event) __attribute__((warn_unused_result));
int ctxp_stage_save(struct ctxp_stage *stage) __attribute__((warn_unused_result));
int ctxp_stage_query(struct ctxp_stage *stage, struct ctxp_raw query, struct ctxp_buf *reply, struct ctxp_error *err)
    __attribute__((warn_unused_result));
const struct ctxp_stage_ops *ctxp_stage_ops(const struct ctxp_stage *stage);
struct ctxp_stage *ctxp_stage_free(struct ctxp_stage *stage); /* closes it */
