/* When a node that died is started again: a pure function of its deaths, so that it can be tested without a process. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define CTXP_RESTART_FIRST_MS 100 /* the first delay; each death doubles it */
#define CTXP_RESTART_MAX_MS 30000
#define CTXP_RESTART_STABLE_MS 30000 /* ready for so long: the next death is a first one again */
#define CTXP_RESTART_DEATHS 5 /* before ready within a minute, or at the same input event */
#define CTXP_RESTART_WITHIN_MS 60000

struct ctxp_restart { /* {0}: it has not died yet */
  uint64_t early_ms[CTXP_RESTART_DEATHS]; /* the last deaths before ready */
  unsigned early, same_event;
  uint64_t delay_ms, event, restarts;
};
struct ctxp_death {
  uint64_t now_ms;
  bool ready; /* it had said ready, */
  uint64_t ready_ms; /* so long ago */
  bool hopeless; /* its exit code says that another start meets the same */
  uint64_t event; /* number of the input event that it had in hand; 0: none, or not known */
};
enum ctxp_restart_verdict {
  CTXP_RESTART_AGAIN, /* after *ret_delay_ms */
  CTXP_RESTART_FAILED, /* never: hopeless, or five deaths at one input event */
  CTXP_RESTART_EARLY /* five deaths before ready within a minute: stops a start; after that, as AGAIN */
};
enum ctxp_restart_verdict ctxp_restart_died(struct ctxp_restart *restart, const struct ctxp_death *death, uint64_t *ret_delay_ms);
