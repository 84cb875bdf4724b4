/* A collector's client: one DEALER, a queue of what is not acknowledged, and no thread of its own.
 *
 * The socket is IMMEDIATE, so that nothing is queued for a connection that does not exist, and PROBE_ROUTER, so that each new
 * connection shows at the collector by an empty message. The collector greets a connection that it does not know; the client says
 * hello; the collector welcomes it with the position of its key; the client goes on from there. Every way in which a connection
 * or a collector can die ends at that greeting. Where none comes and acknowledgements stay out, the client says hello again by
 * itself, at growing intervals, and sends nothing else until it is welcomed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "bus/client_int.h"

#define BUFFER_BYTES (32u << 20)
#define MESSAGE_BYTES (256u << 10) /* of an `events` message, unless one event is larger */
#define MESSAGE_EVENTS 1024u
#define EVENT_BYTES_UNTIL_WELCOME (16u << 20)
#define SILENCE_MS 1000u /* then hello again, doubling */
#define SILENCE_MAX_MS 30000u
#define OUTCOME_LINGER_MS 200 /* at the end, for an outcome on its way */

/* ---- making one ---- */
static int bad_option(struct ctxp_error *err, const char *what) { return ctxp_error_set(err, -EINVAL, "client: %s", what); }

static int check_options(const struct ctxp_client_options *o, struct ctxp_error *err) {
  size_t key = o->key ? strlen(o->key) : 0, agent = o->agent ? strlen(o->agent) : 0;
  if (!o->endpoint) return bad_option(err, "an endpoint is required, such as ipc:///run/user/1000/ctxpipe/ingest.sock");
  if (key == 0 || key > CTXP_INGEST_KEY_MAX) return bad_option(err, "the key must have 1 to 200 bytes");
  if (agent == 0 || agent > CTXP_INGEST_KEY_MAX) return bad_option(err, "the agent's name must have 1 to 200 bytes");
  if (o->product && strlen(o->product) > CTXP_INGEST_KEY_MAX) return bad_option(err, "the product's name may have 200 bytes");
  if (!ctxp_utf8_valid(ctxp_str(o->key)) || !ctxp_utf8_valid(ctxp_str(o->agent)) || !ctxp_utf8_valid(ctxp_str(o->product)))
    return bad_option(err, "key, agent and product must be UTF-8");
  if (!!o->server_key != !!o->public_key || !!o->server_key != !!o->secret_key)
    return bad_option(err, "encryption needs the server's key and the client's own two");
  return 0;
}

static int set_int(void *socket, int option, int value) { return zmq_setsockopt(socket, option, &value, sizeof(value)); }

static int set_curve(void *socket, const struct ctxp_client_options *o, struct ctxp_error *err) {
  if (!o->server_key) return 0;
  if (zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, o->server_key, strlen(o->server_key)) < 0)
    return bad_option(err, "the server's key is not 40 characters of Z85");
  if (zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, o->public_key, strlen(o->public_key)) < 0)
    return bad_option(err, "the public key is not 40 characters of Z85");
  if (zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, o->secret_key, strlen(o->secret_key)) < 0)
    return bad_option(err, "the secret key is not 40 characters of Z85");
  return 0;
}

static int open_socket(struct ctxp_client *c, const struct ctxp_client_options *o, struct ctxp_error *err) {
  c->context = zmq_ctx_new();
  c->socket = c->context ? zmq_socket(c->context, ZMQ_DEALER) : NULL;
  if (!c->socket) return ctxp_error_set(err, -ENOMEM, "client: no socket: %s", zmq_strerror(errno));
  bool tcp = strncmp(o->endpoint, "tcp://", 6) == 0;
  if (set_int(c->socket, ZMQ_LINGER, 0) < 0 || set_int(c->socket, ZMQ_IMMEDIATE, 1) < 0 || set_int(c->socket, ZMQ_PROBE_ROUTER, 1) < 0 ||
      set_int(c->socket, ZMQ_SNDHWM, CTXP_INGEST_HWM) < 0 || set_int(c->socket, ZMQ_RCVHWM, CTXP_INGEST_HWM) < 0 ||
      set_int(c->socket, ZMQ_RECONNECT_IVL, 20) < 0 || set_int(c->socket, ZMQ_RECONNECT_IVL_MAX, 1000) < 0 ||
      (tcp && (set_int(c->socket, ZMQ_HEARTBEAT_IVL, 5000) < 0 || set_int(c->socket, ZMQ_HEARTBEAT_TIMEOUT, 15000) < 0)))
    return ctxp_error_set(err, -errno, "client: socket options: %s", zmq_strerror(errno));
  int r = set_curve(c->socket, o, err);
  if (r < 0) return r;
  if (o->server_key && (r = ctxp_handshake_watch(&c->handshake, c->context, c->socket)) < 0)
    return ctxp_error_set(err, r, "client: cannot watch the connection: %s", zmq_strerror(-r));
  if (zmq_connect(c->socket, o->endpoint) < 0)
    return ctxp_error_set(err, -errno, "client: cannot connect to %s: %s", o->endpoint, zmq_strerror(errno));
  return 0;
}

static int dup_text(char **at, const char *text) {
  char *copy = ctxp_str_dup(ctxp_str(text));
  if (!copy) return -ENOMEM;
  free(*at);
  *at = copy;
  return 0;
}

int ctxp_client_new(const struct ctxp_client_options *o, struct ctxp_client **ret_client, struct ctxp_error *err) {
  int r = check_options(o, err);
  if (r < 0) return r;
  struct ctxp_client *c = calloc(1, sizeof(*c));
  if (!c) return ctxp_error_set(err, -ENOMEM, "client: out of memory");
  c->refused = o->refused;
  c->data = o->data;
  c->buffer_bytes = o->buffer_bytes ? o->buffer_bytes : BUFFER_BYTES;
  c->batch_bytes = o->batch_bytes;
  c->silence_ms = SILENCE_MS;
  c->heard_ms = ctxp_clock_ms();
  if (dup_text(&c->key, o->key) < 0 || dup_text(&c->agent, o->agent) < 0 || dup_text(&c->product, o->product ? o->product : "") < 0)
    r = ctxp_error_set(err, -ENOMEM, "client: out of memory");
  if (r == 0) r = open_socket(c, o, err);
  if (r < 0) {
    ctxp_client_free(c);
    return r;
  }
  *ret_client = c;
  return 0;
}

struct ctxp_client *ctxp_client_free(struct ctxp_client *c) {
  if (!c) return NULL;
  if (c->socket) {
    if (c->telling) set_int(c->socket, ZMQ_LINGER, OUTCOME_LINGER_MS);
    zmq_close(c->socket);
  }
  ctxp_handshake_deinit(&c->handshake);
  if (c->context) zmq_ctx_term(c->context);
  ctxp_queue_deinit(&c->queue);
  ctxp_client_asks_forget(c);
  ctxp_buf_deinit(&c->frame);
  free(c->key);
  free(c->agent);
  free(c->product);
  free(c);
  return NULL;
}

/* ---- sending ---- */
static int die(struct ctxp_client *c, int code, const char *why, struct ctxp_str detail) {
  c->state = DEAD;
  c->dead_code = code;
  return ctxp_error_set(&c->dead, code, "client '%s': %s%.*s", c->key, why, (int)(detail.len < 400 ? detail.len : 400), detail.ptr);
}

int ctxp_client_send_frame(struct ctxp_client *c) {
  if (c->frame.failed) return -ENOMEM;
  return zmq_send(c->socket, c->frame.ptr, c->frame.len, ZMQ_DONTWAIT) < 0 ? 1 : 0;
}

static int say_hello(struct ctxp_client *c) {
  struct ctxp_ingest_hello hello = {
      CTXP_STR("libctxpipe"), ctxp_str(c->key), ctxp_str(c->agent), ctxp_str(c->product), ++c->nonce, c->welcome.stream, c->base, {0}};
  unsigned n = c->outcome_count < CTXP_INGEST_OUTCOMES ? c->outcome_count : CTXP_INGEST_OUTCOMES;
  ctxp_buf_reset(&c->frame);
  ctxp_ingest_write_hello(&c->frame, &hello, c->outcomes, n);
  int r = ctxp_client_send_frame(c);
  if (r == 0) c->state = GREETING;
  c->heard_ms = ctxp_clock_ms();
  return r < 0 ? r : 0;
}

/* end of the next message: entries sent..end */
static size_t next_message(const struct ctxp_client *c) {
  const struct ctxp_queue *q = &c->queue;
  size_t flight = ctxp_queue_range(q, q->head, q->sent).len, bytes = 0, end = q->sent;
  while (end < q->tail && end - q->sent < MESSAGE_EVENTS && end - q->head < c->welcome.window) {
    size_t len = q->entries[end].len;
    bool alone = end == q->head;
    if (!alone && flight + bytes + len > c->welcome.window_bytes) break;
    if (end > q->sent && bytes + len > MESSAGE_BYTES) break;
    bytes += len;
    end++;
  }
  return end;
}

static int send_events(struct ctxp_client *c, size_t end) {
  struct ctxp_queue *q = &c->queue;
  struct ctxp_raw items = ctxp_queue_range(q, q->sent, end);
  ctxp_buf_reset(&c->frame);
  ctxp_ingest_write_events(&c->frame, q->sent > q->head ? q->entries[q->sent - 1].seq : c->base, (uint32_t)(end - q->sent));
  if (c->frame.failed) return -ENOMEM;
  zmq_msg_t msg;
  if (zmq_msg_init_size(&msg, c->frame.len + items.len) < 0) return -ENOMEM;
  memcpy(zmq_msg_data(&msg), c->frame.ptr, c->frame.len);
  memcpy((uint8_t *)zmq_msg_data(&msg) + c->frame.len, items.ptr, items.len);
  if (zmq_msg_send(&msg, c->socket, ZMQ_DONTWAIT) < 0) {
    zmq_msg_close(&msg);
    return 1;
  }
  q->sent = end;
  return 0;
}

/* Sends what may be sent. all: a part of a batch, too. */
static int push(struct ctxp_client *c, bool all) {
  struct ctxp_queue *q = &c->queue;
  while (c->state == OPEN && q->sent < q->tail) {
    if (!all && ctxp_queue_range(q, q->sent, q->tail).len < c->batch_bytes) break;
    size_t end = next_message(c);
    if (end == q->sent) break; /* the window is full */
    int r = send_events(c, end);
    if (r != 0) return r < 0 ? r : 0;
  }
  return 0;
}

/* ---- receiving ---- */
static void drop_acked(struct ctxp_client *c, uint64_t seq) {
  c->acked += ctxp_queue_drop(&c->queue, seq);
  if (seq > c->base) c->base = seq;
}

static void on_welcome(struct ctxp_client *c, const struct ctxp_ingest_welcome *w) {
  bool first = c->welcome.stream == 0;
  if (!first && w->position > c->last) {
    die(c, -ESTALE, "another client has used this key in the meantime", CTXP_STR(""));
    return;
  }
  c->state = OPEN;
  c->welcome = *w;
  c->welcome.refusal = CTXP_STR(""); /* it was borrowed */
  if (first) {
    c->refused_before = w->refused;
    ctxp_error_write(&c->refusal, "%.*s", (int)(w->refusal.len < 400 ? w->refusal.len : 400), w->refusal.ptr);
    c->base = w->position;
    while (
        c->queue.head < c->queue.tail && !c->queue.entries[c->queue.head].automatic && c->queue.entries[c->queue.head].seq <= w->position)
      c->acked += ctxp_queue_drop(&c->queue, c->queue.entries[c->queue.head].seq);
    ctxp_client_asks_note(c);
    c->last = ctxp_queue_renumber(&c->queue, w->position);
    ctxp_client_asks_renumber(c);
  }
  drop_acked(c, w->position);
  c->queue.sent = c->queue.head; /* what the collector does not have goes out again */
}

static void on_refused(struct ctxp_client *c, const struct ctxp_ingest_refused *r) {
  if (r->seq == 0) {
    ctxp_buf_reset(&c->frame);
    ctxp_buf_printf(&c->frame, "%.*s %.*s", (int)r->field.len, r->field.ptr, (int)r->reason.len, r->reason.ptr);
    die(c, -EPROTO, "refused by the collector: ", ctxp_buf_view(&c->frame));
    return;
  }
  if (r->seq <= c->refused_upto || r->seq > c->last) return;
  c->refused_upto = r->seq;
  c->refusals++;
  ctxp_client_on_ask_refused(c, r);
  if (c->refused) c->refused(c->data, r->seq, r->kind, r->field, r->reason);
}

static int on_message(struct ctxp_client *c, struct ctxp_raw message) {
  struct ctxp_ingest m;
  const char *reason;
  if (ctxp_ingest_decode(message, &m, &reason) < 0) return die(c, -EPROTO, "the collector's message is malformed: ", ctxp_str(reason));
  c->heard_ms = ctxp_clock_ms();
  c->silence_ms = SILENCE_MS;
  switch (m.op) {
  case CTXP_INGEST_GREET: return say_hello(c);
  case CTXP_INGEST_WELCOME:
    if (m.welcome.nonce == c->nonce) on_welcome(c, &m.welcome);
    break;
  case CTXP_INGEST_ACK:
    if (c->state == OPEN && m.ack.instance == c->welcome.instance) drop_acked(c, m.ack.seq);
    break;
  case CTXP_INGEST_REFUSED: on_refused(c, &m.refused); break;
  case CTXP_INGEST_ANSWER:
    if (c->state == OPEN && m.answer.instance == c->welcome.instance) ctxp_client_on_answer(c, &m.answer);
    break;
  case CTXP_INGEST_SUPERSEDED: die(c, -ESTALE, "another client uses this key now", CTXP_STR("")); break;
  case CTXP_INGEST_HELLO:
  case CTXP_INGEST_EVENTS:
  case CTXP_INGEST_OUTCOME:
  case CTXP_INGEST_OPS: break; /* a client's own */
  }
  return 0;
}

static int receive(struct ctxp_client *c) {
  while (c->state != DEAD) {
    zmq_msg_t msg;
    zmq_msg_init(&msg);
    if (zmq_msg_recv(&msg, c->socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&msg);
      break;
    }
    int r = on_message(c, (struct ctxp_raw){zmq_msg_data(&msg), zmq_msg_size(&msg)});
    zmq_msg_close(&msg);
    if (r == -ENOMEM) return r;
  }
  return c->state == DEAD ? c->dead_code : 0;
}

static bool waiting(const struct ctxp_client *c) {
  return c->state == GREETING || ctxp_queue_flight(&c->queue) > 0 || ctxp_client_waits(c);
}

/* One round: takes what has come, at most wait_ms from now, sends what may go, and mends a silence. */
int ctxp_client_pump(struct ctxp_client *c, uint64_t wait_ms, bool all, struct ctxp_error *err) {
  int r = receive(c);
  if (r == 0) r = push(c, all);
  if (r == 0 && wait_ms) {
    bool blocked = c->state == OPEN && c->queue.sent < c->queue.tail && next_message(c) > c->queue.sent;
    zmq_pollitem_t item = {.socket = c->socket, .events = blocked ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN};
    zmq_poll(&item, 1, (long)(wait_ms < 100 ? wait_ms : 100)); /* interrupted: one round less */
    r = receive(c);
    if (r == 0) r = push(c, all);
  }
  if (r == 0 && waiting(c) && c->state != CONNECTING && ctxp_clock_ms() - c->heard_ms > c->silence_ms) {
    c->silence_ms = c->silence_ms * 2 < SILENCE_MAX_MS ? c->silence_ms * 2 : SILENCE_MAX_MS;
    r = say_hello(c);
  }
  if (r < 0 && c->state == DEAD) return ctxp_error_set(err, r, "%s", c->dead.text);
  return r < 0 ? ctxp_error_set(err, r, "client '%s': out of memory", c->key) : 0;
}

int ctxp_client_pump_until(struct ctxp_client *c, bool (*done)(const struct ctxp_client *), int timeout_ms, struct ctxp_error *err) {
  uint64_t end = ctxp_clock_ms() + (timeout_ms > 0 ? (uint64_t)timeout_ms : 0);
  for (;;) {
    uint64_t now = ctxp_clock_ms();
    int r = ctxp_client_pump(c, done(c) || now >= end ? 0 : end - now, true, err);
    if (r < 0) return r;
    if (done(c)) return 0;
    if (c->state != OPEN && (r = ctxp_handshake_check(&c->handshake, err)) < 0) return r;
    if (ctxp_clock_ms() >= end) return 1;
  }
}

/* ---- calls ---- */
static bool is_open(const struct ctxp_client *c) { return c->state == OPEN; }
static bool is_flushed(const struct ctxp_client *c) { return c->queue.head == c->queue.tail; }
static bool has_room(const struct ctxp_client *c) { return ctxp_queue_bytes(&c->queue) < c->buffer_bytes; }

int ctxp_client_hello(struct ctxp_client *c, int timeout_ms, uint64_t *ret_position, struct ctxp_error *err) {
  int r = ctxp_client_pump_until(c, is_open, timeout_ms, err);
  if (r == 0) *ret_position = c->base;
  return r;
}

int ctxp_client_flush(struct ctxp_client *c, int timeout_ms, struct ctxp_error *err) {
  return ctxp_client_pump_until(c, is_flushed, timeout_ms, err);
}

static bool sendable(enum ctxp_kind kind) {
  const struct ctxp_kind_info *info = ctxp_kind_info(kind);
  return info && (info->group == CTXP_GROUP_AGENT || info->group == CTXP_GROUP_ANY);
}

static int enqueue(struct ctxp_client *c, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err) {
  struct ctxp_event ev = *event;
  if (ev.agent.len == 0) ev.agent = ctxp_str(c->agent);
  size_t limit = c->welcome.stream ? c->welcome.max_event_bytes : EVENT_BYTES_UNTIL_WELCOME;
  if (limit > c->buffer_bytes) limit = c->buffer_bytes;
  uint64_t number = seq ? seq : c->last + 1;
  int r = ctxp_queue_add(&c->queue, &ev, number, seq == 0, limit);
  if (r == -EMSGSIZE)
    return ctxp_error_set(err, r,
        "client '%s': the %s event is above the limit of %zu bytes; cut its text and give the full length in textUnits", c->key,
        ctxp_kind_info(ev.kind)->name, limit);
  if (r < 0) return ctxp_error_set(err, r, "client '%s': out of memory", c->key);
  c->last = number;
  c->sent++;
  return 0;
}

int ctxp_client_send(struct ctxp_client *c, const struct ctxp_event *event, uint64_t seq, int timeout_ms, struct ctxp_error *err) {
  if (!sendable(event->kind))
    return ctxp_error_set(err, -EINVAL, "client '%s': event %d is of no kind that an agent sends", c->key, (int)event->kind);
  if (c->state == DEAD) return ctxp_error_set(err, c->dead_code, "%s", c->dead.text);
  if (seq && c->welcome.stream && seq <= c->base) return 0; /* the collector has it */
  if (seq && seq <= c->last)
    return ctxp_error_set(
        err, -EINVAL, "client '%s': number %llu is not above %llu", c->key, (unsigned long long)seq, (unsigned long long)c->last);
  if (!has_room(c)) {
    int full = ctxp_client_pump_until(c, has_room, timeout_ms, err);
    if (full != 0) return full;
  }
  int r = enqueue(c, event, seq, err);
  if (r < 0) return r;
  bool batch = c->batch_bytes && ctxp_queue_range(&c->queue, c->queue.sent, c->queue.tail).len < c->batch_bytes;
  return batch ? 0 : ctxp_client_pump(c, 0, c->batch_bytes == 0, err);
}

int ctxp_client_number(struct ctxp_client *c, uint64_t seq, struct ctxp_error *err) {
  if (seq <= c->last)
    return ctxp_error_set(
        err, -EINVAL, "client '%s': number %llu is not above %llu", c->key, (unsigned long long)seq, (unsigned long long)c->last);
  c->last = seq - 1;
  return 0;
}

int ctxp_client_rekey(
    struct ctxp_client *c, const char *key, const char *agent, const char *product, int timeout_ms, struct ctxp_error *err) {
  struct ctxp_client_options o = {.endpoint = "", .key = key, .agent = agent ? agent : c->agent, .product = product};
  int r = check_options(&o, err);
  if (r == 0) r = ctxp_client_flush(c, timeout_ms, err);
  if (r != 0) return r;
  if (dup_text(&c->key, key) < 0 || (agent && dup_text(&c->agent, agent) < 0) || (product && dup_text(&c->product, product) < 0))
    return ctxp_error_set(err, -ENOMEM, "client: out of memory");
  c->welcome = (struct ctxp_ingest_welcome){0};
  c->base = c->last = c->refused_upto = c->sent = c->acked = c->refusals = c->refused_before = 0;
  c->outcome_count = 0;
  ctxp_client_asks_forget(c);
  if (c->state == CONNECTING) return 0;
  r = say_hello(c);
  return r < 0 ? ctxp_error_set(err, r, "client '%s': out of memory", c->key) : 0;
}

void ctxp_client_counts(const struct ctxp_client *c, struct ctxp_client_counts *ret) {
  *ret = (struct ctxp_client_counts){c->sent, c->acked, c->refusals, c->base, ctxp_queue_bytes(&c->queue)};
}

uint64_t ctxp_client_refused_before(const struct ctxp_client *c, struct ctxp_str *ret_first) {
  *ret_first = c->refused_before ? ctxp_str(c->refusal.text) : CTXP_STR("");
  return c->refused_before;
}
