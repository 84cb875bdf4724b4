#include "collector/bounds.h"
#include <stdio.h>

static bool refuse(struct ctxp_fault *fault, const char *field, uint64_t value, uint64_t max) {
  snprintf(fault->field, sizeof(fault->field), "%s", field);
  snprintf(fault->reason, sizeof(fault->reason), "is %llu; it can be at most %llu", (unsigned long long)value, (unsigned long long)max);
  return false;
}

static bool usage_within(const struct ctxp_usage *u, struct ctxp_fault *fault) {
  const struct {
    const char *field;
    uint64_t value;
  } all[] = {{"usage.input", u->input}, {"usage.cacheRead", u->cacheRead}, {"usage.cacheWrite5m", u->cacheWrite5m},
      {"usage.cacheWrite1h", u->cacheWrite1h}, {"usage.output", u->output}, {"usage.reasoning", u->reasoning}};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
    if (all[i].value > CTXP_MAX_CLASS_TOKENS) return refuse(fault, all[i].field, all[i].value, CTXP_MAX_CLASS_TOKENS);
  return true;
}

bool ctxp_within_bounds(const struct ctxp_event *ev, struct ctxp_fault *fault) {
  if (ev->session.len == 0 && ev->kind != CTXP_KIND_gap) { /* what was lost may have been of any session */
    snprintf(fault->field, sizeof(fault->field), "session");
    snprintf(fault->reason, sizeof(fault->reason), "is missing; it names the conversation that the event belongs to");
    return false;
  }
  if (ev->kind == CTXP_KIND_prompt) return usage_within(&ev->prompt.usage, fault);
  if (ev->kind == CTXP_KIND_context_message && ev->context_message.tokens > CTXP_MAX_MESSAGE_TOKENS)
    return refuse(fault, "tokens", ev->context_message.tokens, CTXP_MAX_MESSAGE_TOKENS);
  return true;
}
