/* The order in which a node with several upstreams takes their events: the collector's event n, then what n caused, by the
 * mechanisms in the order of the topology event in force, then by other upstreams in the order of `subscribe`; n only when every
 * one that takes part has said all that it derives from it. So the order is a function of the streams alone, however they arrive.
 *
 * A mechanism takes part from the topology event that first names it to the one that no longer does; what it derived from other
 * events is passed over. A hold is a recorded decision that takes one out of the part from `from` to `to` as well. */
#pragma once
#include "bus/wire.h"

struct ctxp_merge;

struct ctxp_flow { /* one upstream, as a reader gives it */
  int (*peek)(void *data, struct ctxp_item *ret_item); /* 1: the next event, 0: none at hand */
  void (*next)(void *data);
  uint64_t (*reach)(void *data); /* every event with a cause up to here (of the collector: a number) was given out or is at hand */
  void *data;
};
enum ctxp_flow_role { CTXP_FLOW_COLLECTOR,
  CTXP_FLOW_MECHANISM,
  CTXP_FLOW_OTHER };

struct ctxp_merge *ctxp_merge_new(void);
struct ctxp_merge *ctxp_merge_free(struct ctxp_merge *merge);
/* In the order of `subscribe`. name: copied. */
int ctxp_merge_add(struct ctxp_merge *merge, const char *name, enum ctxp_flow_role role, const struct ctxp_flow *flow)
    __attribute__((warn_unused_result));
/* After a restart: what was done, and the topology event in force (a body; {0}: none). */
int ctxp_merge_restore(struct ctxp_merge *merge, uint64_t done, struct ctxp_raw topology) __attribute__((warn_unused_result));
/* input takes no part in the causes from..to. In rising order of `from` for one input. */
int ctxp_merge_hold(struct ctxp_merge *merge, unsigned input, uint64_t from, uint64_t to) __attribute__((warn_unused_result));

/* 1: *ret_item is the next event, of input *ret_input, borrowed until `take`; 0: none for now; 2: a hold begins here, before
 * anything of the next cause (ctxp_merge_begun says which; it is said once). <0: a topology event that does not decode. */
int ctxp_merge_next(struct ctxp_merge *merge, struct ctxp_item *ret_item, unsigned *ret_input) __attribute__((warn_unused_result));
void ctxp_merge_take(struct ctxp_merge *merge);
struct ctxp_merge_hold_begun {
  unsigned input;
  uint64_t from, to, ts_ms; /* ts_ms: of the event that it begins at */
};
struct ctxp_merge_hold_begun ctxp_merge_begun(const struct ctxp_merge *merge);

bool ctxp_merge_between(const struct ctxp_merge *merge); /* no cause is half done: a checkpoint may be made */
uint64_t ctxp_merge_done(const struct ctxp_merge *merge); /* everything that causes up to here caused was taken */
uint64_t ctxp_merge_late(const struct ctxp_merge *merge); /* events that came for causes in which their input was held */
uint64_t ctxp_merge_skipped(const struct ctxp_merge *merge); /* events of causes in which their input took no part */
/* What is waited for: an event is at hand for cause *ret_from, and `input` has not said all up to there. false: nothing waits.
 * *ret_to: how far one could go without it. */
bool ctxp_merge_waits(const struct ctxp_merge *merge, unsigned *ret_input, uint64_t *ret_from, uint64_t *ret_to);
