/* Taking back: a saving that was claimed for what is in the window all the same. */
#include "base/str.h"
#include "mechanisms/amnesia.h"

/* the message that holds the call, stripped or not */
static struct ctxp_message *owner_of(struct ctxp_amnesia *window, struct ctxp_str call, struct ctxp_message_call **ret_call) {
  for (struct ctxp_message *m = window->messages; m; m = m->hh.next)
    if (m->role == CTXP_ROLE_assistant && (*ret_call = ctxp_amnesia_call(m, call)) != NULL) return m;
  return NULL;
}

/* A result does not come back without its call, nor a call without its result. */
static void widen(struct ctxp_amnesia *window) {
  for (struct ctxp_message *m = window->messages; m; m = m->hh.next) {
    struct ctxp_message_call *call;
    if (m->gone == CTXP_HERE || !m->applied || m->role != CTXP_ROLE_tool) continue;
    struct ctxp_message *owner = owner_of(window, (struct ctxp_str){m->call, m->call_len}, &call);
    if (!owner) continue;
    if (m->wanted) {
      owner->wanted = owner->wanted || (owner->gone != CTXP_HERE && owner->applied);
      call->gone = CTXP_HERE;
    } else if (owner->wanted && call->gone == CTXP_HERE) {
      m->wanted = true;
    }
  }
}

static void put_back(struct ctxp_amnesia *window, struct ctxp_message *message) {
  struct ctxp_result *result = ctxp_amnesia_result(window, (struct ctxp_str){message->call, message->call_len});
  window->gone_count -= message->gone == CTXP_GONE && message->applied;
  message->gone = CTXP_HERE;
  message->regretted = false;
  window->base.changed = true;
  if (!result || message->role != CTXP_ROLE_tool) return;
  result->candidate = true;
  result->removed = result->regretted = false;
}

/* the `wanted` messages are in the window again: one regret for each result that they went with */
static int take_back(struct ctxp_stage *stage, struct ctxp_amnesia *window, const char *reason) {
  widen(window);
  for (struct ctxp_message *message = window->messages; message; message = message->hh.next) {
    if (!message->wanted) continue;
    struct ctxp_event out = {.kind = CTXP_KIND_regret};
    struct ctxp_str call = {message->for_call, message->for_call_len};
    out.regret = (struct ctxp_regret){.mechanism = CTXP_STR("amnesia"), .toolCallId = call, .reason = ctxp_str(reason)};
    for (struct ctxp_message *m = message; m; m = m->hh.next) {
      if (!m->wanted || !ctxp_str_eq(call, (struct ctxp_str){m->for_call, m->for_call_len})) continue;
      if (!m->regretted) out.regret.tokens += m->tokens;
      m->wanted = false;
      put_back(window, m);
    }
    int r = out.regret.tokens ? ctxp_stage_emit(stage, &out) : 0;
    if (r < 0) return r;
  }
  return 0;
}

int ctxp_amnesia_missed(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_answer_missed *said) {
  bool any = false;
  if (!ctxp_missed_here(stage, said)) return 0;
  for (struct ctxp_message *m = window->messages; m; m = m->hh.next) {
    m->wanted = m->gone != CTXP_HERE && m->applied && m->ask == said->askSeq;
    any = any || m->wanted;
    for (unsigned k = 0; k < m->call_count; k++)
      if (m->calls[k].gone != CTXP_HERE && m->calls[k].ask == said->askSeq) {
        m->calls[k].gone = CTXP_HERE;
        window->base.changed = true;
      }
  }
  return any ? take_back(stage, window, "not applied") : 0;
}

/* what was removed and is named in the request that was really sent */
int ctxp_amnesia_came_back(struct ctxp_stage *stage, struct ctxp_amnesia *window) {
  if (!window->gone_count) return 0;
  for (struct ctxp_message *m = window->messages; m; m = m->hh.next) m->wanted = false;
  bool any = false;
  for (unsigned i = 0; i < window->request_count; i++) {
    struct ctxp_message *m = window->request[i];
    m->wanted = m->gone == CTXP_GONE && m->applied;
    any = any || m->wanted;
  }
  return any ? take_back(stage, window, "came back") : 0;
}
