/* A node's life: open, say ready, loop, close. One thread; the only thing it waits in is ctxp_poll. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "bus/answers.h"
#include "bus/polling.h"
#include "config/resolved.h"
#include "runtime/mark.h"
#include "runtime/node_int.h"

#define IDLE_MS 60000 /* longest wait, though nothing is due */

int ctxp_node_fail(struct ctxp_node *node, int code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(node->error.text, sizeof(node->error.text), format, args);
  va_end(args);
  return code;
}

struct ctxp_error *ctxp_node_error(struct ctxp_node *node) {
  return &node->error;
}
struct ctxp_store *ctxp_node_store(struct ctxp_node *node) {
  return node->store;
}
struct ctxp_stream *ctxp_node_stream(struct ctxp_node *node) {
  return node->stream;
}
const struct ctxp_config *ctxp_node_topology(const struct ctxp_node *node) { return node->config; }
const struct ctxp_node_config *ctxp_node_config(const struct ctxp_node *node) { return node->self; }
void *ctxp_node_zmq(struct ctxp_node *node) { return node->zmq; }
void *ctxp_node_data(struct ctxp_node *node) { return node->source_data; }
void ctxp_node_set_data(struct ctxp_node *node, void *data) { node->source_data = data; }
void ctxp_node_hurry(struct ctxp_node *node) { node->hurry = true; }
bool ctxp_node_draining(const struct ctxp_node *node) { return node->phase != RUNNING; }
bool ctxp_node_full(const struct ctxp_node *node) {
  return node->stream && !node->config->when_full_drop && ctxp_stream_full(node->stream);
}

void ctxp_node_count_refused(struct ctxp_node *node, const char *sentence) {
  node->refused++;
  snprintf(node->last_error, sizeof(node->last_error), "%s", sentence);
  ctxp_log(CTXP_LOG_DEBUG, "refused", "%s", sentence);
}

int ctxp_node_append(struct ctxp_node *node, const struct ctxp_event *event, uint64_t *ret_seq) {
  ctxp_buf_reset(&node->scratch);
  if (ctxp_event_encode(event, &node->scratch) < 0) return ctxp_node_fail(node, -ENOMEM, "out of memory for an event");
  struct ctxp_record record = {.ts_ms = event->ts_ms, .topic = ctxp_topic_of(event), .body = ctxp_buf_raw(&node->scratch)};
  int r = ctxp_node_put_record(node, &record);
  if (r < 0) return r;
  node->appended++;
  *ret_seq = record.seq;
  return 0;
}

uint64_t ctxp_node_done(const struct ctxp_node *node) {
  if (node->source) return ctxp_stream_head(node->stream);
  uint64_t done = ctxp_merge_done(node->merge), deferred = ctxp_node_deferred_from(node);
  return deferred <= done ? deferred - 1 : done;
}

/* ---- open ---- */
static int read_topology(struct ctxp_node *node) {
  ctxp_auto_buf faults = {0};
  node->config = node->options->config;
  if (!node->config) {
    /* a stage gets its prices with the topology event; only the collector, which sends it, has the tables */
    int (*reader)(const char *, const struct ctxp_stage_ops *const *, struct ctxp_config **, struct ctxp_buf *) =
        node->source ? ctxp_topology_read : ctxp_topology_read_lean;
    if (reader(node->options->topology_file, ctxp_registry_get(), &node->own_config, &faults) < 0)
      return ctxp_node_fail(node, -EINVAL, "%s", ctxp_buf_cstr(&faults));
    int r = node->source ? ctxp_resolved_prices(node->own_config, &node->error) : 0;
    if (r < 0) return r;
    node->config = node->own_config;
  }
  node->self = ctxp_topology_node(node->config, node->options->name);
  if (!node->self) return ctxp_node_fail(node, -ENOENT, "%s: there is no node '%s'", node->options->topology_file, node->options->name);
  if (strcmp(node->self->ops->name, node->ops->name) != 0)
    return ctxp_node_fail(node, -EINVAL, "%s: node '%s' is a '%s', this daemon is a '%s'", node->options->topology_file, node->self->name,
        node->self->ops->name, node->ops->name);
  return 0;
}

static int open_signals(struct ctxp_node *node) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* a limit of file size is an error like a full disk */
  if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || (node->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) < 0)
    return ctxp_node_fail(node, -errno, "cannot take signals: %s", strerror(errno));
  return 0;
}

static int open_store(struct ctxp_node *node) {
  ctxp_auto_buf dir = {0};
  struct ctxp_store_options options = {
      .max_bytes = node->config->max_bytes, .power = node->config->durability_power, .fleeting = node->config->fleeting};
  ctxp_buf_printf(&dir, "%s/%s", node->config->state_dir, node->self->name);
  int r = ctxp_store_open(ctxp_buf_cstr(&dir), &options, &node->store, &node->error);
  if (r == 0 && (node->source || node->ops->emits)) r = ctxp_stream_open(node->store, node->config->max_bytes, &node->stream, &node->error);
  return r;
}

static int open_publisher(struct ctxp_node *node) {
  ctxp_auto_buf pub = {0}, replay = {0};
  if (!node->stream) return 0;
  ctxp_topology_endpoint(node->config, node->self->name, "pub", &pub);
  ctxp_topology_endpoint(node->config, node->self->name, "replay", &replay);
  struct ctxp_publisher_options options = {
      .zmq = node->zmq, .node = node->self->name, .pub = ctxp_buf_cstr(&pub), .replay = ctxp_buf_cstr(&replay), .stream = node->stream};
  int r = ctxp_publisher_new(&options, &node->publisher, &node->error);
  if (r == 0) r = ctxp_node_subscribers(node);
  if (r == 0) ctxp_publisher_set(node->publisher, ctxp_node_done(node), CTXP_FLOW_LIVE);
  return r;
}

static int open_control(struct ctxp_node *node) {
  ctxp_auto_buf endpoint = {0};
  ctxp_topology_endpoint(node->config, node->self->name, "control", &endpoint);
  return ctxp_control_server_new(node->zmq, ctxp_buf_cstr(&endpoint), ctxp_node_control, node, &node->control, &node->error);
}

static int flow_peek(void *data, struct ctxp_item *ret_item) { return ctxp_sub_peek(((struct upstream *)data)->sub, ret_item); }
static void flow_next(void *data) { ctxp_sub_next(((struct upstream *)data)->sub); }
static uint64_t flow_reach(void *data) {
  struct upstream *up = data;
  return up->collector ? ctxp_sub_complete(up->sub) : ctxp_sub_watermark(up->sub);
}

static int open_upstream(struct ctxp_node *node, struct upstream *up, const char *name, bool behind_collector) {
  ctxp_auto_buf pub = {0}, replay = {0};
  up->config = ctxp_topology_node(node->config, name);
  if (!up->config)
    return ctxp_node_fail(node, -ENOENT, "node '%s' subscribes to '%s', which is not in the topology", node->self->name, name);
  up->collector = up->config->ops->role == CTXP_ROLE_COLLECTOR_NODE;
  ctxp_topology_endpoint(node->config, name, "pub", &pub);
  ctxp_topology_endpoint(node->config, name, "replay", &replay);
  struct ctxp_sub_options options = {.zmq = node->zmq,
      .node = node->self->name,
      .upstream = name,
      .pub = ctxp_buf_cstr(&pub),
      .replay = ctxp_buf_cstr(&replay),
      .topics = ctxp_topics_consumed(node->ops->consumes),
      .place = ctxp_node_loaded_place(node, name),
      .from_now = !node->self->from_start};
  if (up->collector) ctxp_topics_add(&options.topics, CTXP_KIND_topology);
  int r = ctxp_sub_new(&options, &up->sub, &node->error);
  if (r < 0) return r;
  struct ctxp_flow flow = {flow_peek, flow_next, flow_reach, up};
  enum ctxp_flow_role role = up->collector                                  ? CTXP_FLOW_COLLECTOR :
      up->config->ops->role == CTXP_ROLE_MECHANISM_NODE && behind_collector ? CTXP_FLOW_MECHANISM :
                                                                              CTXP_FLOW_OTHER;
  return ctxp_merge_add(node->merge, name, role, &flow) < 0 ? ctxp_node_fail(node, -ENOMEM, "out of memory for the upstreams") : 0;
}

static int open_answers(struct ctxp_node *node, const char *collector) {
  ctxp_auto_buf endpoint = {0};
  int linger = 200, mark = CTXP_ANSWERS_HWM;
  ctxp_topology_endpoint(node->config, collector, "answers", &endpoint);
  node->answers = zmq_socket(node->zmq, ZMQ_DEALER);
  if (!node->answers) return ctxp_node_fail(node, -errno, "cannot open a socket: %s", zmq_strerror(errno));
  zmq_setsockopt(node->answers, ZMQ_LINGER, &linger, sizeof(linger));
  zmq_setsockopt(node->answers, ZMQ_SNDHWM, &mark, sizeof(mark));
  return zmq_connect(node->answers, ctxp_buf_cstr(&endpoint)) < 0 ?
      ctxp_node_fail(node, -errno, "cannot connect to %s: %s", ctxp_buf_cstr(&endpoint), zmq_strerror(errno)) :
      0;
}

static int open_upstreams(struct ctxp_node *node) {
  char **names = node->self->subscribe;
  unsigned count = 0;
  const char *collector = NULL;
  for (; names && names[count]; count++) {
    const struct ctxp_node_config *config = ctxp_topology_node(node->config, names[count]);
    if (config && config->ops->role == CTXP_ROLE_COLLECTOR_NODE) collector = names[count];
  }
  node->upstreams = calloc(count ? count : 1, sizeof(*node->upstreams));
  node->merge = ctxp_merge_new();
  if (!node->upstreams || !node->merge) return ctxp_node_fail(node, -ENOMEM, "out of memory for the upstreams");
  int r = 0;
  for (unsigned i = 0; i < count && r == 0; i++) {
    node->upstream_count = i + 1;
    r = open_upstream(node, &node->upstreams[i], names[i], collector != NULL);
  }
  if (r == 0 && collector && node->ops->role == CTXP_ROLE_MECHANISM_NODE) r = open_answers(node, collector);
  return r < 0 ? r : ctxp_node_load_holds(node);
}

static int open_node(struct ctxp_node *node) {
  int r = read_topology(node);
  if (r == 0) r = open_signals(node);
  if (r == 0) r = open_store(node);
  if (r == 0) r = ctxp_mark_open(node->config->run_dir, node->self->name, &node->mark, &node->error);
  if (r < 0) return r;
  node->zmq = zmq_ctx_new();
  if (!node->zmq) return ctxp_node_fail(node, -errno, "cannot open a ZeroMQ context: %s", zmq_strerror(errno));
  zmq_ctx_set(node->zmq, ZMQ_IO_THREADS, 1);
  r = ctxp_stage_new(node->ops, node->self->name, ctxp_buf_raw(&node->self->options), &ctxp_node_host, node, &node->stage, &node->error);
  if (r == 0) r = ctxp_node_load(node);
  if (r == 0) r = ctxp_stage_open(node->stage, &node->error);
  if (r == 0 && !node->source) r = open_upstreams(node);
  if (r == 0 && node->source) {
    node->source_opened = true; /* close takes half-opened state too */
    r = node->source->open(node, node->stage, &node->error);
  }
  if (r == 0) r = open_publisher(node);
  if (r == 0) r = open_control(node);
  if (r == 0) r = ctxp_node_commit(node, ctxp_clock_ms()); /* what was put while opening */
  return r;
}

/* ---- the loop ---- */
static void on_signals(struct ctxp_node *node, uint64_t now_ms) {
  struct signalfd_siginfo info;
  struct ctxp_error err;
  while (read(node->signals, &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGHUP) {
      if (ctxp_node_reopen(node, &err) < 0) ctxp_log(CTXP_LOG_ERROR, "reopen", "%s", err.text);
    } else if (info.ssi_signo == SIGTERM || node->options->life_fd < 0) { /* a terminal's SIGINT is the supervisor's to pass on */
      if (node->terms++)
        node->phase = LEAVING;
      else
        ctxp_node_drain(node, now_ms, false);
    }
  }
}

static void on_life(struct ctxp_node *node, uint64_t now_ms) {
  char byte;
  if (read(node->life, &byte, 1) != 0) return;
  ctxp_log(CTXP_LOG_WARN, "node", "the supervisor is gone");
  node->life = -1;
  ctxp_node_drain(node, now_ms, true);
}

struct polled {
  zmq_pollitem_t items[4 + CTXP_PUBLISHER_ITEMS + SOURCE_ITEMS + 2 * 64];
  struct ctxp_poll known;
  unsigned publisher, source, source_count, upstreams, count;
};

/* In a pipeline of some seconds, where nobody waits for an answer: while a commit waits for more, what comes in waits too, and is taken
 * with one look instead of one for each message. Its sockets and the kernel hold it meanwhile, within their limits. */
static bool rests(const struct ctxp_node *node, uint64_t now_ms) {
  return node->config->fleeting && !node->source && now_ms < node->linger_until_ms;
}

static void gather(struct ctxp_node *node, struct polled *p, uint64_t now_ms) {
  p->items[0] = (zmq_pollitem_t){.fd = node->signals, .events = ZMQ_POLLIN};
  p->items[1] = ctxp_control_server_item(node->control);
  p->items[2] = (zmq_pollitem_t){.fd = node->life >= 0 ? node->life : node->signals, .events = ZMQ_POLLIN};
  int calls = ctxp_node_defer_fd(node);
  p->items[3] = (zmq_pollitem_t){.fd = calls >= 0 ? calls : node->signals, .events = ZMQ_POLLIN};
  p->publisher = p->count = 4;
  if (node->publisher) ctxp_publisher_items(node->publisher, p->items + p->count);
  if (node->publisher) p->count += CTXP_PUBLISHER_ITEMS;
  p->source = p->count;
  p->source_count = node->source ? node->source->items(node, node->stage, p->items + p->count, SOURCE_ITEMS) : 0;
  p->upstreams = p->count += p->source_count;
  for (unsigned i = 0; i < node->upstream_count && i < 64; i++, p->count += CTXP_SUB_ITEMS)
    ctxp_sub_items(node->upstreams[i].sub, p->items + p->count);
  for (unsigned i = p->upstreams; i < p->count && rests(node, now_ms); i++) p->items[i].events = 0;
}

static int dispatch_source(struct ctxp_node *node, const struct polled *p, bool *ret_any) {
  for (unsigned i = 0; i < p->source_count; i++) *ret_any |= p->items[p->source + i].revents != 0;
  return *ret_any ? node->source->ready(node, node->stage, p->items + p->source, p->source_count) : 0;
}

static int dispatch(struct ctxp_node *node, const struct polled *p, uint64_t now_ms, bool *ret_source) {
  int r = 0;
  if (p->items[0].revents) on_signals(node, now_ms);
  if (p->items[2].revents && node->life >= 0) on_life(node, now_ms);
  if (p->items[1].revents) ctxp_control_server_ready(node->control);
  if (node->publisher) r = ctxp_publisher_ready(node->publisher, p->items + p->publisher, now_ms, &node->error);
  if (r == 0) r = dispatch_source(node, p, ret_source);
  for (unsigned i = 0; i < node->upstream_count && i < 64 && r == 0; i++)
    r = ctxp_sub_ready(node->upstreams[i].sub, p->items + p->upstreams + CTXP_SUB_ITEMS * i, now_ms, &node->error);
  return r;
}

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* what is due now; *ret_next: when it must be looked at again */
static int timers(struct ctxp_node *node, uint64_t now_ms, uint64_t *ret_next) {
  uint64_t at = UINT64_MAX, next = now_ms + IDLE_MS;
  bool more = false;
  int r = ctxp_store_tick(node->store, now_ms, &at, &node->error);
  next = earlier(next, at);
  if (r == 0 && node->publisher) next = earlier(next, ctxp_publisher_tick(node->publisher, now_ms));
  for (unsigned i = 0; i < node->upstream_count; i++) next = earlier(next, ctxp_sub_tick(node->upstreams[i].sub, now_ms));
  if (r == 0 && node->source && node->source->tick) {
    r = node->source->tick(node, node->stage, now_ms, &at);
    next = earlier(next, at);
  }
  if (r == 0 && !node->source) {
    r = ctxp_node_hold(node, now_ms, &at);
    next = earlier(next, at);
  }
  if (r == 0) r = ctxp_node_retain(node, now_ms, &more);
  if (node->stream && !ctxp_store_open_txn(node->store)) next = earlier(next, node->retain_ms);
  *ret_next = more ? now_ms : next;
  return r;
}

/* Where nothing more is at hand, is it still worth waiting for? Fewer commits are fewer messages to everybody behind. */
static bool lingers(struct ctxp_node *node, uint64_t now_ms) {
  bool waits = ctxp_store_open_txn(node->store) || ctxp_node_unsaid(node);
  if (!waits || !node->config->commit_linger_ms || node->phase != RUNNING) return false;
  if (!node->linger_until_ms) node->linger_until_ms = now_ms + node->config->commit_linger_ms;
  return now_ms < node->linger_until_ms;
}

/* is what was appended to be committed now? */
static bool commit_due(struct ctxp_node *node, uint64_t now_ms, bool more) {
  uint64_t pending = node->stream ? ctxp_stream_pending(node->stream) : 0;
  if (node->hurry || node->pending_bytes >= COMMIT_BYTES || pending >= node->config->commit_batch) return true;
  if (!more) return !lingers(node, now_ms);
  uint64_t longest =
      node->config->commit_interval_ms > node->config->commit_linger_ms ? node->config->commit_interval_ms : node->config->commit_linger_ms;
  return pending && now_ms >= node->pending_since_ms + longest;
}

/* one round of work: take, commit, checkpoint. *ret_more: come back at once; *ret_next: when calls are to be looked at again */
static int work(struct ctxp_node *node, uint64_t now_ms, bool source_ready, bool *ret_more, uint64_t *ret_next) {
  bool more = source_ready;
  int r = node->source ? 0 : ctxp_node_work(node, now_ms, &more);
  *ret_next = UINT64_MAX;
  unsigned deferred = node->defer.count;
  if (r == 0 && !node->source) r = ctxp_node_defer_step(node, now_ms, ret_next);
  more |= node->defer.count < deferred; /* there is room again, or a topology event's turn has come */
  if (r == 0 && commit_due(node, now_ms, more)) r = ctxp_node_commit(node, now_ms);
  if (r == 0 && ctxp_node_checkpoint_due(node, now_ms)) r = ctxp_node_checkpoint(node, now_ms, false);
  if (r == 0) r = ctxp_node_waits(node, now_ms);
  *ret_more = more || (ctxp_store_open_txn(node->store) && !node->linger_until_ms);
  return r;
}

/* A source outlives a full disk: the transaction is undone, for its clients too; nothing was acknowledged, so they come again. */
static int undo(struct ctxp_node *node, int code) {
  bool full = code == -ENOSPC || code == -EDQUOT || code == -EFBIG;
  if (!full || !node->source || !node->source->aborted || node->phase != RUNNING) return code;
  ctxp_stream_abort(node->stream);
  ctxp_publisher_drop(node->publisher);
  node->pending_bytes = node->appended = 0;
  node->hurry = false;
  node->linger_until_ms = 0;
  if (strcmp(node->last_error, node->error.text) != 0)
    ctxp_log(CTXP_LOG_ERROR, "store", "%s; nothing is acknowledged until there is room", node->error.text);
  snprintf(node->last_error, sizeof(node->last_error), "%s", node->error.text);
  node->error.text[0] = 0;
  return node->source->aborted(node, node->stage);
}

static int loop(struct ctxp_node *node) {
  struct polled p = {.count = 0};
  bool more = true;
  uint64_t next = 0;
  int r = 0;
  while (r == 0 && node->phase != LEAVING) {
    uint64_t now = ctxp_clock_ms(), drain_next, calls_next = UINT64_MAX;
    bool source_ready = false;
    gather(node, &p, now);
    int wait = more || next <= now ? 0 : next - now > IDLE_MS ? IDLE_MS :
                                                                (int)(next - now);
    if (ctxp_poll(&p.known, p.items, p.count, wait) < 0 && errno != EINTR)
      return ctxp_node_fail(node, -errno, "cannot wait: %s", zmq_strerror(errno));
    now = ctxp_clock_ms();
    r = dispatch(node, &p, now, &source_ready);
    if (r == 0) r = work(node, now, source_ready, &more, &calls_next);
    if (r == 0) r = timers(node, now, &next);
    if (r < 0) r = undo(node, r);
    if (r == 0) r = ctxp_node_drain_step(node, now, !more && !node->linger_until_ms && !node->defer.first, &drain_next);
    next = earlier(next, calls_next);
    if (node->linger_until_ms) next = earlier(next, node->linger_until_ms);
    if (r == 0) next = earlier(earlier(next, drain_next), ctxp_node_checkpoint_next(node));
  }
  return r;
}

static void close_node(struct ctxp_node *node) {
  if (node->source_opened) node->source->close(node, node->stage);
  ctxp_node_defer_deinit(node);
  ctxp_stage_free(node->stage);
  ctxp_control_server_free(node->control);
  for (unsigned i = 0; i < node->upstream_count; i++) ctxp_sub_free(node->upstreams[i].sub);
  free(node->upstreams);
  ctxp_merge_free(node->merge);
  ctxp_publisher_free(node->publisher);
  if (node->answers) zmq_close(node->answers);
  if (node->zmq) zmq_ctx_term(node->zmq); /* no longer than the sockets linger */
  ctxp_stream_free(node->stream);
  ctxp_store_free(node->store); /* last: the lock is held until the sockets are closed */
  ctxp_mark_close(node->mark);
  if (node->signals >= 0) close(node->signals);
  ctxp_buf_deinit(&node->scratch);
  ctxp_buf_deinit(&node->value);
  ctxp_buf_deinit(&node->topology);
  ctxp_topology_free(node->own_config);
}

static void tell(int fd, const char *head, const char *text) {
  char line[CTXP_ERROR_MAX + 16];
  if (fd < 0) return;
  int len = snprintf(line, sizeof(line), "%s%s\n", head, text);
  for (int i = 0; i < len - 1; i++)
    if (line[i] == '\n') line[i] = ' ';
  ssize_t written = write(fd, line, len < (int)sizeof(line) ? (size_t)len : sizeof(line) - 1);
  (void)written; /* whoever waits sees the end of the pipe */
}

static int exit_code(int code) {
  if (code >= 0) return CTXP_EXIT_DRAINED;
  return code == -ESTALE || code == -EBADMSG || code == -ENOTRECOVERABLE || code == -EPROTO ? CTXP_EXIT_FAILED : CTXP_EXIT_ERROR;
}

int ctxp_node_run(const struct ctxp_node_options *options) {
  struct ctxp_node *node = calloc(1, sizeof(*node));
  if (!node) return CTXP_EXIT_ERROR;
  *node = (struct ctxp_node){.options = options,
      .ops = options->ops,
      .source = options->source,
      .signals = -1,
      .life = options->life_fd,
      .started_ms = ctxp_clock_ms()};
  int r = open_node(node);
  if (r >= 0) {
    tell(options->ready_fd, "ready", "");
    if (options->opened) options->opened();
    r = loop(node);
  }
  if (r < 0) {
    const char *why = node->error.text[0] ? node->error.text : strerror(-r);
    ctxp_log(CTXP_LOG_ERROR, "node", "%s", why);
    tell(options->ready_fd, "error: ", why); /* where the disk is full the log cannot say it */
  }
  if (options->ready_fd >= 0) close(options->ready_fd);
  close_node(node);
  free(node);
  return exit_code(r);
}
