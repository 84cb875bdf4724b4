#include "ctxpipe/restart.h"
#include <string.h>

static bool same_event_again(struct ctxp_restart *restart, uint64_t event) {
  restart->same_event = event && event == restart->event ? restart->same_event + 1 : event ? 1 :
                                                                                             0;
  restart->event = event;
  return restart->same_event >= CTXP_RESTART_DEATHS;
}

static bool early_again(struct ctxp_restart *restart, uint64_t now_ms) {
  if (restart->early == CTXP_RESTART_DEATHS)
    memmove(restart->early_ms, restart->early_ms + 1, --restart->early * sizeof(*restart->early_ms));
  restart->early_ms[restart->early++] = now_ms;
  return restart->early == CTXP_RESTART_DEATHS && now_ms - restart->early_ms[0] <= CTXP_RESTART_WITHIN_MS;
}

enum ctxp_restart_verdict ctxp_restart_died(struct ctxp_restart *restart, const struct ctxp_death *death, uint64_t *ret_delay_ms) {
  bool same = same_event_again(restart, death->event), early = !death->ready && early_again(restart, death->now_ms);
  if (death->ready && death->ready_ms >= CTXP_RESTART_STABLE_MS) restart->delay_ms = 0;
  if (death->ready) restart->early = 0;
  restart->delay_ms = restart->delay_ms ? restart->delay_ms * 2 : CTXP_RESTART_FIRST_MS;
  if (restart->delay_ms > CTXP_RESTART_MAX_MS) restart->delay_ms = CTXP_RESTART_MAX_MS;
  *ret_delay_ms = restart->delay_ms;
  if (death->hopeless || same) return CTXP_RESTART_FAILED;
  restart->restarts++;
  return early ? CTXP_RESTART_EARLY : CTXP_RESTART_AGAIN;
}
