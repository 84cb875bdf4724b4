/* Asks: events whose sender waits for an answer, one or a few at the same time, and what became of the answers. */
#include "base/clock.h"
#include "bus/client_int.h"
#include "codec/msgpack.h"
#include <errno.h>

static struct client_ask *find(struct ctxp_client *c, uint64_t seq) {
  for (unsigned i = 0; i < CTXP_CLIENT_ASKS; i++)
    if (c->asks[i].open && c->asks[i].seq == seq) return &c->asks[i];
  return NULL;
}

bool ctxp_client_waits(const struct ctxp_client *c) {
  for (unsigned i = 0; i < CTXP_CLIENT_ASKS; i++)
    if (c->asks[i].open && !c->asks[i].answered && !c->asks[i].refused) return true;
  return false;
}

void ctxp_client_asks_forget(struct ctxp_client *c) {
  for (unsigned i = 0; i < CTXP_CLIENT_ASKS; i++) ctxp_buf_deinit(&c->asks[i].answer);
  memset(c->asks, 0, sizeof(c->asks));
  c->awaited = NULL;
  c->last_ask = 0;
}

void ctxp_client_asks_note(struct ctxp_client *c) {
  for (unsigned i = 0; i < CTXP_CLIENT_ASKS; i++) {
    c->asks[i].entry = c->queue.head;
    while (c->asks[i].open && c->asks[i].entry < c->queue.tail && c->queue.entries[c->asks[i].entry].seq != c->asks[i].seq)
      c->asks[i].entry++;
  }
}

void ctxp_client_asks_renumber(struct ctxp_client *c) {
  for (unsigned i = 0; i < CTXP_CLIENT_ASKS; i++)
    if (c->asks[i].open && c->asks[i].entry < c->queue.tail) c->asks[i].seq = c->queue.entries[c->asks[i].entry].seq;
}

/* ---- outcomes ---- */
/* the one that is remembered of an ask; NULL: none, or too long ago */
static struct ctxp_ingest_outcome *outcome_of(struct ctxp_client *c, uint64_t seq) {
  for (unsigned i = 0; i < c->outcome_count && i < CTXP_INGEST_OUTCOMES; i++)
    if (c->outcomes[i].seq == seq) return &c->outcomes[i];
  return NULL;
}

static void tell_outcome(struct ctxp_client *c, uint64_t seq, enum ctxp_outcome outcome) {
  struct ctxp_ingest_outcome *at = outcome_of(c, seq);
  if (!at) at = &c->outcomes[c->outcome_count++ % CTXP_INGEST_OUTCOMES];
  *at = (struct ctxp_ingest_outcome){seq, outcome};
  ctxp_buf_reset(&c->frame);
  ctxp_ingest_write_outcome(&c->frame, at);
  c->telling = true;
  if (c->state == OPEN) (void)ctxp_client_send_frame(c); /* not sent: the next hello says it again */
}

/* ---- receiving ---- */
void ctxp_client_on_answer(struct ctxp_client *c, const struct ctxp_ingest_answer *a) {
  struct client_ask *ask = find(c, a->seq);
  if (!ask) { /* nobody waits for it any more */
    const struct ctxp_ingest_outcome *known = outcome_of(c, a->seq);
    if (!ctxp_map_bool(a->actions, "unchanged", false)) tell_outcome(c, a->seq, known ? known->outcome : CTXP_OUTCOME_TIMEOUT);
    return;
  }
  ctxp_buf_reset(&ask->answer);
  ctxp_buf_add(&ask->answer, a->actions.ptr, a->actions.len);
  ask->answered = !ask->answer.failed;
}

void ctxp_client_on_ask_refused(struct ctxp_client *c, const struct ctxp_ingest_refused *r) {
  struct client_ask *ask = find(c, r->seq);
  if (!ask) return;
  ask->refused = true;
  ctxp_error_set(&ask->why, 0, "the collector refused the %.*s: %.*s %.*s", (int)r->kind.len, r->kind.ptr, (int)r->field.len,
      r->field.ptr, (int)r->reason.len, r->reason.ptr);
}

/* ---- calls ---- */
static bool is_answered(const struct ctxp_client *c) { return c->awaited->answered || c->awaited->refused; }

int ctxp_client_post(
    struct ctxp_client *c, const struct ctxp_event *event, int timeout_ms, uint64_t *ret_ask, struct ctxp_error *err) {
  struct ctxp_event ev = *event;
  struct client_ask *ask = c->asks;
  if (ev.kind != CTXP_KIND_tool_result && ev.kind != CTXP_KIND_context)
    return ctxp_error_set(err, -EINVAL, "client '%s': only a tool_result or a context can ask", c->key);
  if (ev.kind == CTXP_KIND_tool_result) ctxp_set(&ev.tool_result, tool_result, ask, true);
  if (ev.kind == CTXP_KIND_context) ctxp_set(&ev.context, context, ask, true);
  while (ask < c->asks + CTXP_CLIENT_ASKS && ask->open) ask++;
  if (ask == c->asks + CTXP_CLIENT_ASKS)
    return ctxp_error_set(err, -EBUSY, "client '%s': %d asks are open already; wait for the answer of one", c->key, CTXP_CLIENT_ASKS);
  int r = ctxp_client_send(c, &ev, 0, timeout_ms, err);
  if (r != 0) return r < 0 ? r : 2;
  ask->seq = c->last;
  ask->open = true;
  ask->answered = ask->refused = false;
  *ret_ask = (uint64_t)(ask - c->asks) + 1; /* its place: its number may change until the first welcome */
  return 0;
}

int ctxp_client_await(struct ctxp_client *c, uint64_t number, int timeout_ms, struct ctxp_raw *ret_answer, struct ctxp_error *err) {
  if (number == 0 || number > CTXP_CLIENT_ASKS || !c->asks[number - 1].open)
    return ctxp_error_set(err, -EINVAL, "client '%s': no such ask is open", c->key);
  struct client_ask *ask = c->awaited = &c->asks[number - 1];
  int r = ctxp_client_pump_until(c, is_answered, timeout_ms, err);
  ask->open = false;
  c->last_ask = ask->seq;
  if (r < 0) return r;
  if (ask->refused) return ctxp_error_set(err, -EBADMSG, "%s", ask->why.text);
  bool changed = r == 0 && !ctxp_map_bool(ctxp_buf_raw(&ask->answer), "unchanged", false);
  if (r > 0 || changed) tell_outcome(c, ask->seq, changed ? CTXP_OUTCOME_APPLIED : CTXP_OUTCOME_TIMEOUT);
  if (r > 0) return 1;
  *ret_answer = ctxp_buf_raw(&ask->answer);
  return 0;
}

int ctxp_client_ask(
    struct ctxp_client *c, const struct ctxp_event *event, int timeout_ms, struct ctxp_raw *ret_answer, struct ctxp_error *err) {
  uint64_t end = ctxp_clock_ms() + (timeout_ms > 0 ? (uint64_t)timeout_ms : 0), number;
  int r = ctxp_client_post(c, event, timeout_ms, &number, err);
  if (r != 0) return r;
  uint64_t now = ctxp_clock_ms();
  return ctxp_client_await(c, number, now < end ? (int)(end - now) : 0, ret_answer, err);
}

int ctxp_client_missed(struct ctxp_client *c, const char *reason, struct ctxp_error *err) {
  if (c->state == DEAD) return ctxp_error_set(err, c->dead_code, "%s", c->dead.text);
  if (c->last_ask == 0) return ctxp_error_set(err, -EINVAL, "client '%s': no answer has come that could have been missed", c->key);
  enum ctxp_outcome outcome = ctxp_outcome_parse(ctxp_str(reason));
  if (outcome == CTXP_OUTCOMES || outcome == CTXP_OUTCOME_APPLIED)
    return ctxp_error_set(
        err, -EINVAL, "client '%s': an answer is missed by timeout, lost, superseded or refused, not by '%s'", c->key, reason);
  tell_outcome(c, c->last_ask, outcome);
  return ctxp_client_pump(c, 0, true, err);
}
