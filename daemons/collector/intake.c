/* Clients' messages: hello, events, confirmations. An event is decoded where it lies in ZeroMQ's message, checked as a whole, and
 * encoded once, into the store. Nothing that a client sends stops the stream: what is wrong is refused by name, counted, and
 * passed by the acknowledgement. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "collector/intake.h"
#include "collector/bounds.h"

/* ---- words to clients ---- */
void ctxp_intake_send(struct ctxp_collector *c, const struct ctxp_conn *conn) {
  if (!conn || c->out.failed) return; /* what is not said is said again: by timers, and after the next hello */
  void *socket = c->sockets[conn->socket];
  if (zmq_send(socket, conn->route, conn->route_len, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) return;
  (void)zmq_send(socket, c->out.ptr, c->out.len, ZMQ_DONTWAIT);
}

void ctxp_intake_ack(struct ctxp_collector *c, const struct ctxp_key *key) {
  ctxp_buf_reset(&c->out);
  ctxp_ingest_write_ack(&c->out, key->committed, c->instance);
  ctxp_intake_send(c, key->conn);
}

static void say(struct ctxp_collector *c, const struct ctxp_conn *conn, enum ctxp_ingest_op op) {
  ctxp_buf_reset(&c->out);
  ctxp_ingest_write_bare(&c->out, op);
  ctxp_intake_send(c, conn);
}

static void answer(struct ctxp_collector *c, const struct ctxp_key *key, uint64_t client_seq, struct ctxp_raw actions) {
  struct ctxp_ingest_answer a = {client_seq, c->instance, actions};
  ctxp_buf_reset(&c->out);
  ctxp_ingest_write_answer(&c->out, &a);
  ctxp_intake_send(c, key->conn);
}

static void say_unchanged(struct ctxp_collector *c, const struct ctxp_key *key, uint64_t client_seq) {
  static const uint8_t unchanged[] = "\x81\xa9unchanged\xc3";
  answer(c, key, client_seq, (struct ctxp_raw){unchanged, sizeof(unchanged) - 1});
}

void ctxp_intake_pass(struct ctxp_collector *c, struct ctxp_key *key, uint64_t client_seq) {
  say_unchanged(c, key, client_seq);
  key->agent->passed++;
  c->asks.passed++;
}

static void welcome(struct ctxp_collector *c, const struct ctxp_key *key, uint64_t position) {
  struct ctxp_ingest_welcome w = {key->nonce, ctxp_stream_id(ctxp_node_stream(c->node)), c->instance, position, CTXP_INGEST_WINDOW,
      CTXP_INGEST_WINDOW_BYTES, c->config->max_event_bytes, ctxp_asks_longest_ms(&c->asks), key->since_refused,
      key->since_refused ? ctxp_str(key->refusal) : CTXP_STR("")};
  ctxp_buf_reset(&c->out);
  ctxp_ingest_write_welcome(&c->out, &w);
  ctxp_intake_send(c, key->conn);
}

/* ---- refusals ---- */
static void tell_refused(
    struct ctxp_collector *c, const struct ctxp_conn *conn, uint64_t seq, struct ctxp_str kind, const char *field, const char *reason) {
  struct ctxp_ingest_refused r = {seq, kind, ctxp_str(field), ctxp_str(reason)};
  ctxp_buf_reset(&c->out);
  ctxp_ingest_write_refused(&c->out, &r);
  ctxp_intake_send(c, conn);
}

static int refuse(
    struct ctxp_collector *c, struct ctxp_key *key, uint64_t seq, struct ctxp_str kind, const char *field, const char *reason) {
  char sentence[512];
  key->refused++;
  key->agent->refused++;
  snprintf(sentence, sizeof(sentence), "agent '%s', client '%s', event %llu (%.*s): %s %s", key->agent->name, key->name,
      (unsigned long long)seq, (int)(kind.len < 40 ? kind.len : 40), kind.len ? kind.ptr : "", field, reason);
  ctxp_node_count_refused(c->node, sentence);
  tell_refused(c, key->conn, seq, kind, field, reason);
  if (!kind.len) kind = CTXP_STR("event");
  snprintf(sentence, sizeof(sentence), "%.*s: %s%s%s", (int)(kind.len < 40 ? kind.len : 40), kind.ptr, field, field[0] ? " " : "", reason);
  ctxp_key_note_refusal(key, ctxp_str(sentence));
  return 0;
}

/* a message that is of no use as a whole */
static int refuse_message(struct ctxp_collector *c, unsigned socket, struct ctxp_raw route, const char *field, const char *reason) {
  char sentence[256];
  struct ctxp_conn stranger = {.socket = socket, .route_len = (uint8_t)(route.len < 255 ? route.len : 255)};
  const struct ctxp_conn *known = ctxp_keys_conn(&c->keys, socket, route);
  memcpy(stranger.route, route.ptr, stranger.route_len);
  if (known) known->key->agent->refused++;
  snprintf(sentence, sizeof(sentence), "a message of %s: %s", known ? known->key->name : "a client that has not said hello", reason);
  ctxp_node_count_refused(c->node, sentence);
  tell_refused(c, &stranger, 0, CTXP_STR(""), field, reason);
  return 0;
}

/* A refused prompt is missing in its window as one that was lost; one that cannot even be read might be any. */
static int refuse_body(
    struct ctxp_collector *c, struct ctxp_key *key, uint64_t seq, struct ctxp_raw body, const char *field, const char *reason) {
  if (ctxp_pack_check(body) < 0 || ctxp_raw_type(body) != CTXP_PACK_MAP) {
    ctxp_chain_break_all(&key->chain);
    return refuse(c, key, seq, CTXP_STR(""), field, reason);
  }
  struct ctxp_str kind = ctxp_map_str(body, "kind");
  if (ctxp_str_is(kind, "prompt")) {
    struct ctxp_event window = {
        .agent = ctxp_map_str(body, "agent"), .session = ctxp_map_str(body, "session"), .thread = ctxp_map_str(body, "thread")};
    if (window.agent.len == 0) window.agent = ctxp_str(key->agent->name);
    ctxp_chain_break(&key->chain, &window);
  }
  return refuse(c, key, seq, kind, field, reason);
}

/* ---- asks ---- */
static int append(struct ctxp_collector *c, struct ctxp_event *event, uint64_t *ret_seq) {
  if (event->ts_ms == 0) event->ts_ms = ctxp_clock_utc_ms();
  return ctxp_node_append(c->node, event, ret_seq);
}

/* no part of its answer was applied */
static int miss(struct ctxp_collector *c, struct ctxp_ask *ask, const char *reason) {
  struct ctxp_event event;
  struct ctxp_key *key = ctxp_keys_find(&c->keys, ctxp_str(ask->key));
  uint64_t seq;
  int r = ctxp_ask_missed(ask, reason, NULL, &event);
  if (r == 0) r = append(c, &event, &seq);
  if (r < 0) return r;
  if (key) {
    ctxp_key_close_ask(key, ask->client_seq, ask->seq, true);
    key->agent->missed++;
  }
  c->asks.missed++;
  return ctxp_asks_close(&c->asks, ask, ctxp_node_error(c->node));
}

static int applied(struct ctxp_collector *c, struct ctxp_key *key, struct ctxp_ask *ask) {
  if (ask->state == CTXP_ASK_WAITING) return 0; /* by an answer that was never given */
  ctxp_key_close_ask(key, ask->client_seq, ask->seq, false);
  key->agent->answered++;
  c->asks.answered++;
  return ctxp_asks_close(&c->asks, ask, ctxp_node_error(c->node));
}

/* It was said to be applied, and now is not: its window is that of the ask, in the stream. */
static int take_back(struct ctxp_collector *c, struct ctxp_key *key, struct ctxp_closed_ask *closed, const char *reason) {
  ctxp_auto_buf body = {0};
  struct ctxp_record record;
  struct ctxp_event ask;
  uint64_t seq;
  int r = ctxp_stream_get(ctxp_node_stream(c->node), closed->seq, &body, &record, ctxp_node_error(c->node));
  if (r < 0) return r;
  closed->missed = true;
  if (r > 0 || ctxp_event_decode(body.ptr, body.len, &ask, NULL, NULL) < 0) return 0; /* so old that nobody has it */
  struct ctxp_event event = {.kind = CTXP_KIND_answer_missed, .agent = ask.agent, .session = ask.session, .thread = ask.thread};
  ctxp_set(&event.answer_missed, answer_missed, askSeq, closed->seq);
  ctxp_set(&event.answer_missed, answer_missed, reason, ctxp_str(reason));
  key->agent->missed++;
  key->agent->answered--;
  c->asks.missed++;
  c->asks.answered--;
  return append(c, &event, &seq);
}

static int on_outcome(struct ctxp_collector *c, struct ctxp_key *key, const struct ctxp_ingest_outcome *o) {
  struct ctxp_ask *ask = ctxp_asks_of(&c->asks, key->name, o->seq);
  struct ctxp_closed_ask *closed = ask ? NULL : ctxp_key_closed_ask(key, o->seq);
  if (ask) return o->outcome == CTXP_OUTCOME_APPLIED ? applied(c, key, ask) : miss(c, ask, ctxp_outcome_name(o->outcome));
  return closed && !closed->missed && o->outcome != CTXP_OUTCOME_APPLIED ? take_back(c, key, closed, ctxp_outcome_name(o->outcome)) : 0;
}

static int on_outcomes(struct ctxp_collector *c, struct ctxp_key *key, struct ctxp_list outcomes) {
  struct ctxp_ingest_outcome outcome;
  int r = 0;
  while (r == 0 && ctxp_ingest_next_outcome(&outcomes, &outcome) > 0) r = on_outcome(c, key, &outcome);
  return r;
}

/* everybody has spoken, or is out of time */
static int resolve(struct ctxp_collector *c, struct ctxp_ask *ask, uint64_t now_ms) {
  struct ctxp_key *key = ctxp_keys_find(&c->keys, ctxp_str(ask->key));
  int actions = ctxp_ask_merge(&c->asks, ask);
  if (actions < 0) return ctxp_node_fail(c->node, actions, "out of memory for an answer");
  if (actions == 0) {
    if (key) {
      ctxp_intake_pass(c, key, ask->client_seq);
      ctxp_key_close_ask(key, ask->client_seq, ask->seq, true); /* a late answer_missed has nothing to undo */
    }
    return ctxp_asks_close(&c->asks, ask, ctxp_node_error(c->node));
  }
  ask->state = CTXP_ASK_SENT;
  ask->until_ms = now_ms + c->asks.confirm_ms;
  if (key) answer(c, key, ask->client_seq, ctxp_buf_raw(&ask->answer));
  return 0;
}

int ctxp_intake_verdict(struct ctxp_collector *c, struct ctxp_raw message) {
  struct ctxp_verdict verdict;
  struct ctxp_ask *ask;
  if (ctxp_verdict_read(message, &verdict) < 0) {
    ctxp_node_count_refused(c->node, "a message on the answers socket is no verdict of this version");
    return 0;
  }
  int r = ctxp_asks_verdict(&c->asks, &verdict, &ask);
  if (r < 0) return ctxp_node_fail(c->node, r, "out of memory for a verdict");
  return r > 0 ? resolve(c, ask, ctxp_clock_ms()) : 0;
}

/* Those whose time is over count as a pass, and are told, as what they may still say is applied by nobody. */
static int give_up_on(struct ctxp_collector *c, struct ctxp_ask *ask, uint64_t now_ms) {
  for (unsigned i = 0; i < c->asks.asker_count; i++) {
    uint64_t bit = UINT64_C(1) << i, seq;
    struct ctxp_event event;
    if (!(ask->need & ~ask->spoken & bit) || ctxp_ask_deadline(&c->asks, ask, i) > now_ms) continue;
    int r = ctxp_ask_missed(ask, "timeout", c->asks.askers[i].node, &event);
    if (r == 0) r = append(c, &event, &seq);
    if (r < 0) return r;
    ask->spoken |= bit;
  }
  return ask->spoken == ask->need ? resolve(c, ask, now_ms) : 0;
}

int ctxp_intake_due(struct ctxp_collector *c, uint64_t now_ms, uint64_t *ret_next_ms) {
  struct ctxp_ask *ask, *next;
  uint64_t soonest = UINT64_MAX;
  HASH_ITER(hh, c->asks.open, ask, next) {
    uint64_t seq = ask->seq, due = ctxp_ask_due(&c->asks, ask);
    int r = due > now_ms ? 0 : ask->state == CTXP_ASK_WAITING ? give_up_on(c, ask, now_ms) :
                                                                miss(c, ask, "lost");
    if (r < 0) return r;
    ask = ctxp_asks_find(&c->asks, seq); /* it may be closed by now */
    due = ask ? ctxp_ask_due(&c->asks, ask) : UINT64_MAX;
    if (due < soonest) soonest = due;
  }
  *ret_next_ms = soonest;
  return 0;
}

int ctxp_intake_miss_waiting(struct ctxp_collector *c, const char *reason) {
  struct ctxp_ask *ask, *next;
  HASH_ITER(hh, c->asks.open, ask, next) {
    if (ask->state != CTXP_ASK_WAITING) continue;
    struct ctxp_key *key = ctxp_keys_find(&c->keys, ctxp_str(ask->key));
    if (key) say_unchanged(c, key, ask->client_seq);
    int r = miss(c, ask, reason);
    if (r < 0) return r;
  }
  return 0;
}

/* what a client that has come (back) should hear of its open asks */
static int greet_asks(struct ctxp_collector *c, struct ctxp_key *key) {
  struct ctxp_ask *ask, *next;
  HASH_ITER(hh, c->asks.open, ask, next) {
    if (strcmp(ask->key, key->name) != 0 || ask->state == CTXP_ASK_WAITING) continue;
    if (ask->state == CTXP_ASK_SENT) {
      answer(c, key, ask->client_seq, ctxp_buf_raw(&ask->answer));
      continue;
    }
    say_unchanged(c, key, ask->client_seq); /* it may still wait for what the run before had promised */
    int r = miss(c, ask, "lost");
    if (r < 0) return r;
  }
  return 0;
}

/* nobody can act on it: answered as soon as it is committed */
static int queue_pass(struct ctxp_collector *c, struct ctxp_key *key, uint64_t client_seq, uint64_t seq) {
  if (c->pass_count == c->pass_cap) {
    unsigned cap = c->pass_cap ? c->pass_cap * 2 : 64;
    struct ctxp_pass *more = realloc(c->passes, cap * sizeof(*more));
    if (!more) return ctxp_node_fail(c->node, -ENOMEM, "out of memory for an ask");
    c->passes = more;
    c->pass_cap = cap;
  }
  c->passes[c->pass_count++] = (struct ctxp_pass){key, client_seq};
  ctxp_key_close_ask(key, client_seq, seq, true); /* a late answer_missed has nothing to undo */
  return 0;
}

/* ---- one event ---- */
static bool *ask_flag(struct ctxp_event *ev) {
  if (ev->kind == CTXP_KIND_tool_result && ev->tool_result.ask) return &ev->tool_result.ask;
  return ev->kind == CTXP_KIND_context && ev->context.ask ? &ev->context.ask : NULL;
}

static int take_ask(struct ctxp_collector *c, struct ctxp_key *key, uint64_t client_seq, struct ctxp_event *ev, bool *flag) {
  uint64_t seq, need = ctxp_asks_need(&c->asks, ev);
  if (need && ctxp_asks_full(&c->asks)) need = 0, *flag = false; /* nobody acts on what nobody could be answered */
  int r = append(c, ev, &seq);
  if (r < 0) return r;
  ctxp_node_hurry(c->node);
  if (need == 0) return queue_pass(c, key, client_seq, seq);
  return ctxp_asks_add(&c->asks, ev, seq, key->name, client_seq, need, ctxp_clock_ms(), ctxp_node_error(c->node));
}

/* The client names the ask by its own number; the stream has the collector's. */
static int take_missed(struct ctxp_collector *c, struct ctxp_key *key, uint64_t client_seq, struct ctxp_event *ev) {
  struct ctxp_ask *ask = ctxp_asks_of(&c->asks, key->name, ev->answer_missed.askSeq);
  struct ctxp_closed_ask *closed = ask ? NULL : ctxp_key_closed_ask(key, ev->answer_missed.askSeq);
  uint64_t seq;
  if (!ask && !closed)
    return refuse(
        c, key, client_seq, CTXP_STR("answer_missed"), "askSeq", "names no ask of this client that is open or was answered lately");
  if (closed && closed->missed) return 0; /* the stream says so already, or there was nothing to miss */
  ev->answer_missed.askSeq = closed ? closed->seq : ask->seq;
  ev->answer_missed.mechanism = (struct ctxp_str){0};
  ev->answer_missed.has &= ~(UINT64_C(1) << CTXP_IX_answer_missed_mechanism);
  int r = append(c, ev, &seq);
  if (r < 0) return r;
  key->agent->missed++;
  c->asks.missed++;
  if (closed) {
    key->agent->answered--;
    c->asks.answered--;
    closed->missed = true;
    return 0;
  }
  ctxp_key_close_ask(key, ask->client_seq, ask->seq, true);
  return ctxp_asks_close(&c->asks, ask, ctxp_node_error(c->node));
}

static int take(struct ctxp_collector *c, struct ctxp_key *key, uint64_t client_seq, struct ctxp_event *ev) {
  struct ctxp_str kind = ctxp_str(ctxp_kind_info(ev->kind)->name);
  enum ctxp_group group = ctxp_kind_info(ev->kind)->group;
  uint64_t seq;
  if (group != CTXP_GROUP_AGENT && group != CTXP_GROUP_ANY)
    return refuse(c, key, client_seq, kind, "kind", "is no event that an agent sends");
  if (ev->agent.len == 0) ev->agent = ctxp_str(key->agent->name);
  if (ev->kind == CTXP_KIND_gap) ctxp_chain_break(&key->chain, ev);
  if (ev->kind == CTXP_KIND_prompt && !ctxp_chain_prompt(&key->chain, ev))
    return refuse(c, key, client_seq, kind, "keep", "builds on a prompt that is missing after a gap; send the whole `request`");
  if (ev->kind == CTXP_KIND_answer_missed) return take_missed(c, key, client_seq, ev);
  bool *flag = ask_flag(ev);
  return flag ? take_ask(c, key, client_seq, ev, flag) : append(c, ev, &seq);
}

static int take_body(struct ctxp_collector *c, struct ctxp_key *key, uint64_t client_seq, struct ctxp_raw body) {
  struct ctxp_event ev;
  struct ctxp_fault fault;
  char limit[96];
  unsigned unknown = 0;
  key->position = client_seq;
  if (body.len > c->config->max_event_bytes) {
    snprintf(limit, sizeof(limit), "has %zu bytes, above the limit of %llu (max_event_bytes)", body.len,
        (unsigned long long)c->config->max_event_bytes);
    return refuse_body(c, key, client_seq, body, "", limit);
  }
  if (ctxp_event_decode(body.ptr, body.len, &ev, &unknown, &fault) < 0 || !ctxp_within_bounds(&ev, &fault))
    return refuse_body(c, key, client_seq, body, fault.field, fault.reason);
  uint64_t refused = key->refused;
  int r = take(c, key, client_seq, &ev);
  if (r < 0 || key->refused != refused) return r;
  key->events++;
  key->agent->events++;
  key->unknown_keys += unknown;
  key->agent->unknown_keys += unknown;
  return 0;
}

/* ---- messages ---- */
static int on_events(struct ctxp_collector *c, struct ctxp_conn *conn, struct ctxp_ingest_events *events) {
  struct ctxp_key *key = conn->key;
  uint64_t seq;
  struct ctxp_raw body;
  int r = 0, more;
  if (events->prev > key->position) { /* something before it did not arrive */
    if (!key->rewinding) welcome(c, key, key->committed), c->losses++;
    key->rewinding = true;
    return 0;
  }
  key->rewinding = false;
  key->seen_ms = key->agent->seen_ms = ctxp_clock_utc_ms();
  ctxp_key_change(&c->keys, key); /* a repeat is acknowledged again */
  while (r == 0 && (more = ctxp_ingest_item(&events->items, &seq, &body)) != 0) {
    if (more < 0)
      return refuse_message(
          c, conn->socket, (struct ctxp_raw){conn->route, conn->route_len}, "", "events must be pairs of a number and a binary value");
    if (seq <= key->position)
      c->repeats++;
    else
      r = take_body(c, key, seq, body);
  }
  return r;
}

/* The client has as acknowledged what this stream does not hold: it was another stream, or this one has been set back. */
static void adopt(struct ctxp_collector *c, struct ctxp_key *key, const struct ctxp_ingest_hello *hello) {
  if (hello->stream == ctxp_stream_id(ctxp_node_stream(c->node)))
    ctxp_log(CTXP_LOG_ERROR, "ingest",
        "client '%s' was acknowledged %llu, the stream has it to %llu only: it was restored from a backup or lost its end; what is between "
        "is lost",
        key->name, (unsigned long long)hello->base, (unsigned long long)key->position);
  ctxp_chain_break_all(&key->chain);
  key->position = hello->base;
  ctxp_key_change(&c->keys, key);
}

static int on_hello(struct ctxp_collector *c, unsigned socket, struct ctxp_raw route, struct ctxp_ingest_hello *hello) {
  struct ctxp_conn old;
  struct ctxp_key *key = ctxp_keys_get(&c->keys, hello->key, hello->agent, hello->product, ctxp_node_error(c->node));
  if (!key) return -ENOMEM;
  int r = ctxp_keys_bind(&c->keys, key, socket, route, &old);
  if (r < 0) return ctxp_node_fail(c->node, r, "out of memory for a connection");
  if (r > 0) say(c, &old, CTXP_INGEST_SUPERSEDED);
  key->nonce = hello->nonce;
  key->rewinding = false;
  key->seen_ms = key->agent->seen_ms = ctxp_clock_utc_ms();
  if (hello->base > key->position) adopt(c, key, hello);
  welcome(c, key, key->committed > hello->base ? key->committed : hello->base);
  r = on_outcomes(c, key, hello->outcomes);
  return r < 0 ? r : greet_asks(c, key);
}

static int greet(struct ctxp_collector *c, unsigned socket, struct ctxp_raw route) {
  struct ctxp_conn stranger = {.socket = socket, .route_len = (uint8_t)(route.len < 255 ? route.len : 255)};
  memcpy(stranger.route, route.ptr, stranger.route_len);
  say(c, &stranger, CTXP_INGEST_GREET);
  return 0;
}

int ctxp_intake_message(struct ctxp_collector *c, unsigned socket, struct ctxp_raw route, struct ctxp_raw message) {
  struct ctxp_conn *conn = ctxp_keys_conn(&c->keys, socket, route);
  struct ctxp_ingest m;
  const char *reason;
  if (message.len == 0) return conn ? 0 : greet(c, socket, route); /* a new connection shows itself */
  int r = ctxp_ingest_decode(message, &m, &reason);
  if (r < 0) return refuse_message(c, socket, route, r == -EPROTO ? "protocol" : "", reason);
  switch (m.op) {
  case CTXP_INGEST_HELLO: return on_hello(c, socket, route, &m.hello);
  case CTXP_INGEST_EVENTS: return conn ? on_events(c, conn, &m.events) : greet(c, socket, route);
  case CTXP_INGEST_OUTCOME: return conn ? on_outcomes(c, conn->key, m.outcomes) : greet(c, socket, route);
  case CTXP_INGEST_GREET:
  case CTXP_INGEST_WELCOME:
  case CTXP_INGEST_ACK:
  case CTXP_INGEST_REFUSED:
  case CTXP_INGEST_ANSWER:
  case CTXP_INGEST_SUPERSEDED:
  case CTXP_INGEST_OPS: break;
  }
  return refuse_message(c, socket, route, "", "is one that only a collector sends");
}
