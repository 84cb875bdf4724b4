/* The collector as a source: its sockets, what is done around a commit, its timers, its part of `status`. What clients say is
 * understood in intake.c.
 *
 * Order around a commit: events are appended as they are read; the records of their clients join the same transaction; after it
 * the clients are acknowledged. A crash in between repeats, and the position in the record recognises the repeat. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include "base/clock.h"
#include "base/cleanup.h"
#include "collector/collector.h"
#include "collector/intake.h"
#include "collector/topology_event.h"

#define ACK_AGAIN_MS 1000
#define ACK_AGAIN_WITHIN_MS 5000 /* to clients that spoke so lately */
#define FORGET_MS (60u * 60 * 1000)
#define DAY_MS (UINT64_C(24) * 60 * 60 * 1000)
#define READ_MESSAGES 256u /* of one socket in one round */
#define READ_BYTES (4u << 20)
#define CLOSE_LINGER_MS 200 /* last acknowledgements and answers on their way out */

struct options {
  uint64_t confirm_ms;
};

/* ---- sockets ---- */
static int set_int(void *socket, int option, int value) { return zmq_setsockopt(socket, option, &value, sizeof(value)); }

static int bind_fault(const char *node, const char *endpoint, int code, struct ctxp_error *err) {
  const char *why = code == EADDRINUSE ? "the address is in use by another process; end that one, or name another endpoint under `ingest`" :
      code == EADDRNOTAVAIL            ? "this machine has no such address; name one of its own, or tcp://*:PORT for all" :
      code == EACCES                   ? "this user may not listen there; choose another path, or a port above 1023" :
      code == ENODEV                   ? "there is no such network interface" :
                                         zmq_strerror(code);
  return ctxp_error_set(err, -code, "node '%s': cannot listen on %s: %s", node, endpoint, why);
}

/* maxsize: twice an event, as a batch closes before it; a larger message can only be meant badly */
static int listen_on(void *context, const char *node, const char *endpoint, int64_t maxsize, struct ctxp_curve *curve, void **ret_socket,
    struct ctxp_error *err) {
  void *socket = zmq_socket(context, ZMQ_ROUTER);
  if (!socket) return ctxp_error_set(err, -errno, "node '%s': no socket: %s", node, zmq_strerror(errno));
  *ret_socket = socket; /* closed by the caller, whatever comes */
  bool tcp = strncmp(endpoint, "tcp://", 6) == 0;
  if (set_int(socket, ZMQ_LINGER, 0) < 0 || set_int(socket, ZMQ_SNDHWM, CTXP_INGEST_HWM) < 0 ||
      set_int(socket, ZMQ_RCVHWM, CTXP_INGEST_HWM) < 0 || set_int(socket, ZMQ_ROUTER_HANDOVER, 1) < 0 ||
      zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &maxsize, sizeof(maxsize)) < 0 ||
      (tcp &&
          (set_int(socket, ZMQ_IPV6, strchr(endpoint, '[') != NULL) < 0 || set_int(socket, ZMQ_HEARTBEAT_IVL, 5000) < 0 ||
              set_int(socket, ZMQ_HEARTBEAT_TIMEOUT, 15000) < 0)))
    return ctxp_error_set(err, -errno, "node '%s': socket options: %s", node, zmq_strerror(errno));
  if (curve) {
    int r = ctxp_curve_serve(curve, socket, err);
    if (r < 0) return r;
  }
  return zmq_bind(socket, endpoint) < 0 ? bind_fault(node, endpoint, errno, err) : 0;
}

static int open_curve(struct ctxp_collector *c, const struct ctxp_node_config *config, struct ctxp_error *err) {
  bool needed = false;
  for (char **endpoint = config->ingest; endpoint && *endpoint; endpoint++) needed |= ctxp_curve_needed(*endpoint);
  if (!needed && !config->curve_secret_file) return 0;
  if (!config->curve_secret_file || !config->curve_clients_file)
    return ctxp_error_set(
        err, -EINVAL, "node '%s': an endpoint beyond this machine needs curve_secret_file and curve_clients_file", config->name);
  return ctxp_curve_new(ctxp_node_zmq(c->node), config->curve_secret_file, config->curve_clients_file, &c->curve, err);
}

static int open_sockets(struct ctxp_collector *c, const struct ctxp_node_config *config, struct ctxp_error *err) {
  ctxp_auto_buf answers = {0};
  unsigned count = 0;
  int64_t maxsize = (int64_t)(c->config->max_event_bytes * 2);
  while (config->ingest && config->ingest[count]) count++;
  if (count == 0 || count > 16) return ctxp_error_set(err, -EINVAL, "node '%s': `ingest` must name 1 to 16 endpoints", config->name);
  c->sockets = calloc(count, sizeof(*c->sockets));
  if (!c->sockets) return ctxp_error_set(err, -ENOMEM, "node '%s': out of memory", config->name);
  int r = open_curve(c, config, err);
  while (r == 0 && c->socket_count < count) {
    const char *endpoint = config->ingest[c->socket_count];
    bool tcp = strncmp(endpoint, "tcp://", 6) == 0; /* with keys no tcp endpoint is open without them, be it of this machine alone */
    struct ctxp_curve *curve = tcp ? c->curve : NULL;
    r = listen_on(ctxp_node_zmq(c->node), config->name, endpoint, maxsize, curve, &c->sockets[c->socket_count++], err);
  }
  ctxp_topology_endpoint(c->config, config->name, "answers", &answers);
  if (r == 0) r = listen_on(ctxp_node_zmq(c->node), config->name, ctxp_buf_cstr(&answers), maxsize, NULL, &c->answers, err);
  return r;
}

static void close_socket(void *socket) {
  if (!socket) return;
  set_int(socket, ZMQ_LINGER, CLOSE_LINGER_MS);
  zmq_close(socket);
}

/* Reads messages of [route, frame] until none waits or it is enough for one round. take: <0 ends it. */
static int read_socket(struct ctxp_collector *c, void *socket, unsigned index, bool answers) {
  size_t bytes = 0;
  int r = 0;
  for (unsigned i = 0; r == 0 && i < READ_MESSAGES && bytes < READ_BYTES; i++) {
    zmq_msg_t route, frame, rest;
    zmq_msg_init(&route);
    zmq_msg_init(&frame);
    bool got = zmq_msg_recv(&route, socket, ZMQ_DONTWAIT) >= 0;
    if (got && zmq_msg_more(&route) && zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) >= 0) {
      struct ctxp_raw message = {zmq_msg_data(&frame), zmq_msg_size(&frame)};
      bytes += message.len;
      r = answers ? ctxp_intake_verdict(c, message) :
                    ctxp_intake_message(c, index, (struct ctxp_raw){zmq_msg_data(&route), zmq_msg_size(&route)}, message);
      for (int more = zmq_msg_more(&frame); more;) { /* frames that this protocol does not have */
        zmq_msg_init(&rest);
        more = zmq_msg_recv(&rest, socket, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&rest);
        zmq_msg_close(&rest);
      }
    }
    zmq_msg_close(&route);
    zmq_msg_close(&frame);
    if (!got) break;
  }
  return r;
}

/* ---- hooks ---- */
static int append_topology(struct ctxp_collector *c) {
  ctxp_auto_buf scratch = {0};
  struct ctxp_event event;
  uint64_t seq;
  int r = ctxp_topology_event(c->config, &scratch, &event);
  if (r < 0) return ctxp_node_fail(c->node, r, "out of memory for the topology event");
  event.ts_ms = ctxp_clock_utc_ms();
  return ctxp_node_append(c->node, &event, &seq);
}

static uint64_t oldest_ms(const struct ctxp_collector *c) {
  uint64_t now = ctxp_clock_utc_ms(), days = c->config->client_days * DAY_MS;
  return now > days ? now - days : 0;
}

static void on_close(struct ctxp_node *node, struct ctxp_stage *stage) {
  (void)stage;
  struct ctxp_collector *c = ctxp_node_data(node);
  if (!c) return;
  for (unsigned i = 0; i < c->socket_count; i++) close_socket(c->sockets[i]);
  free(c->sockets);
  close_socket(c->answers);
  ctxp_curve_free(c->curve);
  ctxp_asks_deinit(&c->asks);
  ctxp_keys_deinit(&c->keys);
  ctxp_buf_deinit(&c->out);
  free(c->passes);
  free(c);
  ctxp_node_set_data(node, NULL);
}

static int on_open(struct ctxp_node *node, struct ctxp_stage *stage, struct ctxp_error *err) {
  const struct options *options = ctxp_stage_options(stage);
  struct ctxp_collector *c = calloc(1, sizeof(*c));
  if (!c) return ctxp_error_set(err, -ENOMEM, "out of memory");
  ctxp_node_set_data(node, c);
  c->node = node;
  c->config = ctxp_node_topology(node);
  c->asks.confirm_ms = options->confirm_ms;
  if (getrandom(&c->instance, sizeof(c->instance), 0) != sizeof(c->instance))
    return ctxp_error_set(err, -EIO, "no random numbers from the kernel");
  uint64_t now = ctxp_clock_ms();
  c->acks_due_ms = now + ACK_AGAIN_MS;
  c->forget_due_ms = now + FORGET_MS;
  int r = ctxp_keys_open(&c->keys, ctxp_node_store(node), oldest_ms(c), err);
  if (r == 0) r = ctxp_asks_configure(&c->asks, c->config, ctxp_node_config(node)->name, err);
  if (r == 0) r = ctxp_asks_open(&c->asks, ctxp_node_store(node), now, err);
  if (r == 0) r = open_sockets(c, ctxp_node_config(node), err);
  if (r == 0 && append_topology(c) < 0) {
    *err = *ctxp_node_error(node);
    r = -EIO;
  }
  return r;
}

static unsigned on_items(struct ctxp_node *node, struct ctxp_stage *stage, zmq_pollitem_t *items, unsigned max) {
  (void)stage;
  struct ctxp_collector *c = ctxp_node_data(node);
  unsigned n = 0;
  if (n < max) items[n++] = (zmq_pollitem_t){.socket = c->answers, .events = ZMQ_POLLIN};
  if (c->curve && n < max) items[n++] = (zmq_pollitem_t){.socket = ctxp_curve_socket(c->curve), .events = ZMQ_POLLIN};
  if (ctxp_node_draining(node) || ctxp_node_full(node)) return n;
  for (unsigned i = 0; i < c->socket_count && n < max; i++) items[n++] = (zmq_pollitem_t){.socket = c->sockets[i], .events = ZMQ_POLLIN};
  return n;
}

static int put_records(struct ctxp_collector *c) { return ctxp_keys_put(&c->keys, ctxp_node_error(c->node)); }

static int on_ready(struct ctxp_node *node, struct ctxp_stage *stage, const zmq_pollitem_t *items, unsigned count) {
  (void)stage;
  struct ctxp_collector *c = ctxp_node_data(node);
  struct ctxp_error sentence;
  int r = 0;
  for (unsigned i = 0; r == 0 && i < count; i++) {
    if (!(items[i].revents & ZMQ_POLLIN)) continue;
    if (items[i].socket == c->answers) {
      r = read_socket(c, c->answers, 0, true);
    } else if (c->curve && items[i].socket == ctxp_curve_socket(c->curve)) {
      if (ctxp_curve_answer(c->curve, &sentence)) ctxp_node_count_refused(node, sentence.text);
    } else {
      for (unsigned s = 0; r == 0 && s < c->socket_count; s++)
        if (c->sockets[s] == items[i].socket) r = read_socket(c, c->sockets[s], s, false);
    }
  }
  /* where nothing but refusals and repeats came, their records alone make the commit that acknowledges them */
  return r == 0 && c->keys.changed && !ctxp_store_open_txn(ctxp_node_store(node)) ? put_records(c) : r;
}

static int on_before_commit(struct ctxp_node *node, struct ctxp_stage *stage) {
  (void)stage;
  return put_records(ctxp_node_data(node));
}

static int on_after_commit(struct ctxp_node *node, struct ctxp_stage *stage, uint64_t head) {
  (void)stage, (void)head;
  struct ctxp_collector *c = ctxp_node_data(node);
  struct ctxp_key *key;
  while ((key = ctxp_keys_take(&c->keys))) ctxp_intake_ack(c, key);
  for (unsigned i = 0; i < c->pass_count; i++) ctxp_intake_pass(c, c->passes[i].key, c->passes[i].client_seq);
  c->pass_count = 0;
  return 0;
}

/* Whoever sent what is undone is forgotten, with its connection: it is greeted when it speaks again, and goes on from its record. */
static int on_aborted(struct ctxp_node *node, struct ctxp_stage *stage) {
  (void)stage;
  struct ctxp_collector *c = ctxp_node_data(node);
  c->pass_count = 0;
  ctxp_keys_revert(&c->keys);
  return ctxp_asks_revert(&c->asks, ctxp_clock_ms(), ctxp_node_error(node));
}

static bool busy(void *data, const struct ctxp_key *key) {
  const struct ctxp_asks *asks = data;
  struct ctxp_ask *ask, *next;
  HASH_ITER(hh, asks->open, ask, next)
  if (strcmp(ask->key, key->name) == 0) return true;
  return false;
}

static void acks_again(struct ctxp_collector *c) {
  struct ctxp_key *key, *next;
  uint64_t now = ctxp_clock_utc_ms();
  HASH_ITER(hh, c->keys.by_name, key, next)
  if (key->conn && !key->changed && now < key->seen_ms + ACK_AGAIN_WITHIN_MS) ctxp_intake_ack(c, key);
}

static int on_tick(struct ctxp_node *node, struct ctxp_stage *stage, uint64_t now_ms, uint64_t *ret_next_ms) {
  (void)stage;
  struct ctxp_collector *c = ctxp_node_data(node);
  int r = ctxp_intake_due(c, now_ms, ret_next_ms);
  if (r < 0) return r;
  if (now_ms >= c->acks_due_ms) {
    acks_again(c);
    c->acks_due_ms = now_ms + ACK_AGAIN_MS;
  }
  if (now_ms >= c->forget_due_ms) {
    r = ctxp_keys_forget(&c->keys, oldest_ms(c), ctxp_node_error(node));
    if (r < 0) return r;
    c->forget_due_ms = now_ms + FORGET_MS;
  }
  ctxp_keys_trim(&c->keys, busy, &c->asks);
  if (HASH_COUNT(c->keys.by_name) && c->acks_due_ms < *ret_next_ms) *ret_next_ms = c->acks_due_ms;
  if (c->forget_due_ms < *ret_next_ms) *ret_next_ms = c->forget_due_ms;
  return 0;
}

static int on_drain(struct ctxp_node *node, struct ctxp_stage *stage) {
  (void)node, (void)stage; /* `items` leaves the clients out from here on; what they have not been acknowledged they keep */
  return 0;
}

static bool on_done(struct ctxp_node *node, struct ctxp_stage *stage) {
  (void)stage;
  struct ctxp_collector *c = ctxp_node_data(node);
  struct ctxp_ask *ask, *next;
  HASH_ITER(hh, c->asks.open, ask, next)
  if (ask->state == CTXP_ASK_WAITING) return false;
  return true;
}

static int on_reload(struct ctxp_node *node, struct ctxp_stage *stage, struct ctxp_error *err) {
  (void)stage;
  struct ctxp_collector *c = ctxp_node_data(node);
  int r = ctxp_intake_miss_waiting(c, "superseded"); /* who answers, and in which order, may be another */
  c->config = ctxp_node_topology(node);
  if (r == 0) r = ctxp_asks_configure(&c->asks, c->config, ctxp_node_config(node)->name, err);
  return r < 0 ? r : append_topology(c);
}

static unsigned put_u64(struct ctxp_buf *out, const char *key, uint64_t value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_u64(out, value);
  return 1;
}

static void agent_status(const struct ctxp_agent *agent, struct ctxp_buf *out) {
  size_t mark = ctxp_pack_map_open(out);
  unsigned n = 2;
  ctxp_pack_cstr(out, "agent");
  ctxp_pack_cstr(out, agent->name);
  ctxp_pack_cstr(out, "lastSeen");
  ctxp_pack_time(out, agent->seen_ms);
  n += put_u64(out, "clients", agent->clients);
  n += put_u64(out, "events", agent->events);
  n += put_u64(out, "refused", agent->refused);
  n += put_u64(out, "answered", agent->answered);
  n += put_u64(out, "passed", agent->passed);
  n += put_u64(out, "missed", agent->missed);
  n += put_u64(out, "unknownKeys", agent->unknown_keys);
  ctxp_pack_close(out, mark, n);
}

static unsigned on_status(struct ctxp_node *node, struct ctxp_stage *stage, struct ctxp_buf *out) {
  (void)stage;
  struct ctxp_collector *c = ctxp_node_data(node);
  struct ctxp_agent *agent, *next;
  ctxp_pack_cstr(out, "agents");
  ctxp_pack_array(out, HASH_COUNT(c->keys.agents));
  HASH_ITER(hh, c->keys.agents, agent, next)
  agent_status(agent, out);
  ctxp_pack_cstr(out, "ingest");
  ctxp_pack_map(out, 5);
  put_u64(out, "openAsks", HASH_COUNT(c->asks.open));
  put_u64(out, "repeats", c->repeats);
  put_u64(out, "losses", c->losses);
  put_u64(out, "forgottenClients", c->keys.forgotten);
  put_u64(out, "refusedConnections", c->curve ? ctxp_curve_refused(c->curve) : 0);
  return 2;
}

const struct ctxp_source_ops ctxp_source_collector = {.open = on_open,
    .items = on_items,
    .ready = on_ready,
    .tick = on_tick,
    .before_commit = on_before_commit,
    .after_commit = on_after_commit,
    .aborted = on_aborted,
    .drain = on_drain,
    .done = on_done,
    .reload = on_reload,
    .status = on_status,
    .close = on_close};

/* ---- the stage: a name, options and what it emits; it derives nothing ---- */
static int stage_open(struct ctxp_stage *stage, struct ctxp_error *err) {
  (void)stage, (void)err;
  return 0;
}
static int stage_event(struct ctxp_stage *stage, const struct ctxp_event *ev) {
  (void)stage, (void)ev;
  return -ENOTSUP; /* nothing is upstream of a collector */
}
static int stage_save(struct ctxp_stage *stage) {
  (void)stage;
  return 0;
}
static void stage_close(struct ctxp_stage *stage) { (void)stage; }

static const enum ctxp_kind emits[] = {
    CTXP_KIND_session_start, CTXP_KIND_session_end, CTXP_KIND_agent_start, CTXP_KIND_agent_end, CTXP_KIND_turn_start, CTXP_KIND_turn_end,
    CTXP_KIND_tool_result, CTXP_KIND_context, CTXP_KIND_write_injected, CTXP_KIND_context_message, CTXP_KIND_prompt, CTXP_KIND_compaction,
    CTXP_KIND_evict, CTXP_KIND_gap, CTXP_KIND_answer_missed, CTXP_KIND_topology, CTXP_KIND_NONE};
static const struct ctxp_consume consumes[] = {{CTXP_KIND_NONE, 0}};
static const struct ctxp_option option_table[] = {
    {.name = "confirm_ms",
        .type = CTXP_OPTION_U64,
        .initial = "10000",
        .min = 100,
        .max = 600000,
        .unit = "ms",
        .help = "how long an agent may take to say that it applied an answer, before the answer counts as missed",
        .offset = offsetof(struct options, confirm_ms)},
    {.name = NULL}};

const struct ctxp_stage_ops ctxp_stage_collector = {.api = CTXP_STAGE_API,
    .name = "collector",
    .summary = "takes agents' events, gives each its place in one stream, and answers agents that ask",
    .role = CTXP_ROLE_COLLECTOR_NODE,
    .version = 1,
    .consumes = consumes,
    .emits = emits,
    .options = option_table,
    .options_size = sizeof(struct options),
    .open = stage_open,
    .event = stage_event,
    .save = stage_save,
    .close = stage_close};
