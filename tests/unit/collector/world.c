#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "collector/collector.h"
#include "world.h"

struct ctxp_node {
  struct world *world;
  void *zmq, *data;
  struct ctxp_store *store;
  struct ctxp_stream *stream;
  struct ctxp_config config;
  struct ctxp_node_config nodes[3];
  struct ctxp_stage *stage;
  struct ctxp_error error;
  struct ctxp_buf body;
};

/* ---- the services of runtime/node.h ---- */
int ctxp_node_append(struct ctxp_node *node, const struct ctxp_event *event, uint64_t *ret_seq) {
  struct ctxp_record record = {.ts_ms = event->ts_ms, .topic = ctxp_topic_of(event)};
  uint64_t prev;
  ctxp_buf_reset(&node->body);
  if (ctxp_event_encode(event, &node->body) < 0) return -ENOMEM;
  record.body = ctxp_buf_raw(&node->body);
  int r = ctxp_stream_append(node->stream, &record, &prev, &node->error);
  if (r == 0) *ret_seq = record.seq;
  return r;
}
void ctxp_node_hurry(struct ctxp_node *node) { (void)node; }
bool ctxp_node_full(const struct ctxp_node *node) { return node->world->full; }
bool ctxp_node_draining(const struct ctxp_node *node) { return (void)node, false; }
struct ctxp_store *ctxp_node_store(struct ctxp_node *node) {
  return node->store;
}
struct ctxp_stream *ctxp_node_stream(struct ctxp_node *node) {
  return node->stream;
}
const struct ctxp_config *ctxp_node_topology(const struct ctxp_node *node) { return &node->config; }
const struct ctxp_node_config *ctxp_node_config(const struct ctxp_node *node) { return &node->nodes[0]; }
void *ctxp_node_zmq(struct ctxp_node *node) { return node->zmq; }
void *ctxp_node_data(struct ctxp_node *node) { return node->data; }
void ctxp_node_set_data(struct ctxp_node *node, void *data) { node->data = data; }
int ctxp_node_fail(struct ctxp_node *node, int code, const char *format, ...) {
  return snprintf(node->error.text, sizeof(node->error.text), "%s", format) < 0 ? -EIO : code;
}
struct ctxp_error *ctxp_node_error(struct ctxp_node *node) {
  return &node->error;
}
void ctxp_node_count_refused(struct ctxp_node *node, const char *sentence) {
  snprintf(node->world->last_refusal, sizeof(node->world->last_refusal), "%s", sentence);
  node->world->refused++;
}
/* ---- two mechanisms, which exist in the topology alone: the test speaks for them ---- */
static const struct ctxp_consume shell_and_context[] = {{CTXP_KIND_tool_result, 1u << CTXP_TOOL_SHELL}, {CTXP_KIND_context, 0}, {0}};
static const struct ctxp_consume only_context[] = {{CTXP_KIND_context, 0}, {0}};
static const struct ctxp_stage_ops digest = {
    .api = CTXP_STAGE_API, .name = "digest", .role = CTXP_ROLE_MECHANISM_NODE, .version = 3, .consumes = shell_and_context};
static const struct ctxp_stage_ops tagger = {
    .api = CTXP_STAGE_API, .name = "tagger", .role = CTXP_ROLE_MECHANISM_NODE, .version = 1, .consumes = only_context};
static char *upstream[] = {(char *)"collector", NULL};

static uint64_t or_default(uint64_t value, uint64_t otherwise) { return value ? value : otherwise; }

static void configure(struct ctxp_node *node, char **ingest) {
  struct world *w = node->world;
  node->nodes[0] = (struct ctxp_node_config){.name = (char *)"collector",
      .ops = &ctxp_stage_collector,
      .ingest = ingest,
      .curve_secret_file = (char *)w->options.secret_file,
      .curve_clients_file = (char *)w->options.clients_file};
  node->nodes[1] = (struct ctxp_node_config){.name = (char *)"bash", .ops = &digest, .subscribe = upstream};
  node->nodes[2] = (struct ctxp_node_config){.name = (char *)"amnesia", .ops = &tagger, .subscribe = upstream};
  node->config = (struct ctxp_config){.run_dir = w->dir,
      .state_dir = w->dir,
      .nodes = node->nodes,
      .node_count = w->options.no_mechanisms ? 1 : 3,
      .max_event_bytes = or_default(w->options.max_event_bytes, 65536),
      .client_days = or_default(w->options.client_days, 30),
      .answer_grace_ms = or_default(w->options.answer_grace_ms, 5000)};
}

static int commit(struct ctxp_node *node) {
  struct world *w = node->world;
  int crash = w->crash;
  if (crash == WORLD_CRASH_BEFORE_COMMIT) return -EINTR;
  int r = ctxp_source_collector.before_commit(node, node->stage);
  if (r == 0 && crash == WORLD_FAIL_COMMIT) {
    ctxp_stream_abort(node->stream);
    w->aborted++;
    return ctxp_source_collector.aborted(node, node->stage);
  }
  if (r == 0) r = ctxp_stream_commit(node->stream, ctxp_clock_utc_ms(), &node->error);
  if (r == 0 && crash == WORLD_CRASH_BEFORE_ACK) r = -EINTR;
  if (r == 0) w->head = ctxp_stream_head(node->stream);
  return r < 0 ? r : ctxp_source_collector.after_commit(node, node->stage, ctxp_stream_head(node->stream));
}

static int round_once(struct ctxp_node *node) {
  zmq_pollitem_t items[8];
  uint64_t next, now = ctxp_clock_ms();
  unsigned n = ctxp_source_collector.items(node, node->stage, items, 8);
  int ready = zmq_poll(items, (int)n, 5);
  int r = ready > 0 ? ctxp_source_collector.ready(node, node->stage, items, n) : 0;
  if (r == 0) r = ctxp_source_collector.tick(node, node->stage, now, &next);
  return r == 0 && ctxp_store_open_txn(node->store) ? commit(node) : r;
}

static int open_node(struct ctxp_node *node, char **ingest, struct ctxp_error *err) {
  static const struct ctxp_host_ops no_host = {0};
  struct world *w = node->world;
  ctxp_auto_buf options = {0};
  char state[80];
  configure(node, ingest);
  node->zmq = zmq_ctx_new();
  ctxp_pack_map(&options, w->options.confirm_ms ? 1 : 0);
  if (w->options.confirm_ms) ctxp_pack_cstr(&options, "confirm_ms"), ctxp_pack_u64(&options, w->options.confirm_ms);
  snprintf(state, sizeof(state), "%s/state", w->dir);
  struct ctxp_store_options store = {.max_bytes = 64u << 20};
  int r = ctxp_stage_new(&ctxp_stage_collector, "collector", ctxp_buf_raw(&options), &no_host, NULL, &node->stage, err);
  if (r == 0) r = ctxp_store_open(state, &store, &node->store, err);
  if (r == 0) r = ctxp_stream_open(node->store, 64u << 20, &node->stream, err);
  if (r == 0) r = ctxp_source_collector.open(node, node->stage, err);
  return r == 0 ? commit(node) : r;
}

static void close_node(struct ctxp_node *node) {
  if (node->stage) ctxp_source_collector.close(node, node->stage);
  if (node->stream) ctxp_stream_free(node->stream);
  if (node->store) ctxp_store_free(node->store);
  if (node->stage) ctxp_stage_free(node->stage);
  if (node->zmq) zmq_ctx_term(node->zmq);
  ctxp_buf_deinit(&node->body);
}

static void tell(struct world *w, int running) {
  pthread_mutex_lock(&w->mutex);
  w->running = running;
  w->rounds++;
  pthread_cond_broadcast(&w->beat);
  pthread_mutex_unlock(&w->mutex);
}

bool world_ended(struct world *w) { return w->running == WORLD_ENDED; }

static bool is_up(struct world *w, uint64_t unused) { return (void)unused, w->running != 0; }
static bool has_head(struct world *w, uint64_t head) { return w->head >= head; }
static bool has_round(struct world *w, uint64_t round) { return w->rounds >= round; }

static void wait_for(struct world *w, bool (*is)(struct world *, uint64_t), uint64_t what) {
  struct timespec end;
  int r = 0;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 10;
  pthread_mutex_lock(&w->mutex);
  while (r == 0 && !is(w, what)) r = pthread_cond_timedwait(&w->beat, &w->mutex, &end);
  pthread_mutex_unlock(&w->mutex);
  assert_int_equal(r, 0);
}

void world_wait_head(struct world *w, uint64_t head) { wait_for(w, has_head, head); }

void world_wait_round(struct world *w) {
  pthread_mutex_lock(&w->mutex);
  uint64_t now = w->rounds;
  pthread_mutex_unlock(&w->mutex);
  wait_for(w, has_round, now + 2); /* the one under way, and the next */
}

struct start {
  pthread_t thread;
  struct world *world;
  struct ctxp_error err;
  int result;
};

static void *run(void *data) {
  struct start *start = data;
  struct world *w = start->world;
  char *ingest[] = {w->endpoint, NULL};
  struct ctxp_node node = {.world = w};
  start->result = open_node(&node, ingest, &start->err);
  tell(w, start->result < 0 ? -1 : 1);
  int r = start->result;
  while (r == 0 && !w->stop) {
    r = round_once(&node);
    tell(w, 1);
  }
  close_node(&node);
  tell(w, WORLD_ENDED);
  return NULL;
}

void world_make(struct world *w) {
  strcpy(w->dir, "/tmp/ctxp-collector-XXXXXX");
  assert_non_null(mkdtemp(w->dir));
  pthread_mutex_init(&w->mutex, NULL);
  pthread_cond_init(&w->beat, NULL);
  snprintf(w->endpoint, sizeof(w->endpoint), "ipc://%s/ingest.sock", w->dir);
  snprintf(w->answers, sizeof(w->answers), "ipc://%s/collector.answers", w->dir);
}

int world_try_start(struct world *w, struct ctxp_error *err) {
  struct start *start = calloc(1, sizeof(*start));
  assert_non_null(start);
  start->world = w;
  w->crash = WORLD_RUN;
  w->stop = 0;
  w->running = 0;
  if (w->options.endpoint) snprintf(w->endpoint, sizeof(w->endpoint), "%s", w->options.endpoint);
  assert_int_equal(pthread_create(&start->thread, NULL, run, start), 0);
  w->thread = start;
  wait_for(w, is_up, 0);
  int r = start->result;
  if (r < 0) {
    *err = start->err;
    world_stop(w);
  }
  return r;
}

void world_start(struct world *w) {
  struct ctxp_error err;
  if (world_try_start(w, &err) < 0) fail_msg("%s", err.text);
}

void world_stop(struct world *w) {
  struct start *start = w->thread;
  if (!start) return;
  w->stop = 1;
  pthread_join(start->thread, NULL);
  free(start);
  w->thread = NULL;
}

void world_wait_crash(struct world *w) {
  struct start *start = w->thread;
  pthread_join(start->thread, NULL);
  free(start);
  w->thread = NULL;
}

void world_remove(struct world *w) {
  char command[128];
  world_stop(w);
  if (!w->dir[0]) return;
  snprintf(command, sizeof(command), "rm -rf '%s'", w->dir);
  if (system(command) != 0) fail_msg("could not remove %s", w->dir);
}

/* ---- looking into the stream ---- */
static void each(struct world *w, void (*visit)(void *data, const struct ctxp_event *event), void *data) {
  struct ctxp_store *store;
  struct ctxp_stream *stream;
  struct ctxp_error err;
  struct ctxp_store_options options = {.max_bytes = 64u << 20};
  struct ctxp_record record;
  char state[80];
  static struct ctxp_buf bodies[256]; /* kept, as the events borrow from them */
  snprintf(state, sizeof(state), "%s/state", w->dir);
  if (ctxp_store_open(state, &options, &store, &err) < 0 || ctxp_stream_open(store, 64u << 20, &stream, &err) < 0) fail_msg("%s", err.text);
  for (uint64_t seq = 1; seq <= ctxp_stream_head(stream); seq++) {
    struct ctxp_event event;
    struct ctxp_buf *body = &bodies[seq % 256];
    if (ctxp_stream_get(stream, seq, body, &record, &err) != 0) fail_msg("%s", err.text);
    assert_int_equal(ctxp_event_decode(body->ptr, body->len, &event, NULL, NULL), 0);
    event.seq = seq;
    visit(data, &event);
  }
  ctxp_stream_free(stream);
  ctxp_store_free(store);
}

static void add_name(void *data, const struct ctxp_event *event) {
  struct ctxp_buf *out = data;
  if (event->kind == CTXP_KIND_topology) return;
  if (out->len) ctxp_buf_char(out, ' ');
  ctxp_buf_str(out, ctxp_kind_info(event->kind)->name);
  if (event->kind == CTXP_KIND_turn_end) ctxp_buf_printf(out, ":%llu", (unsigned long long)event->turn_end.turn);
  if (event->kind == CTXP_KIND_answer_missed)
    ctxp_buf_printf(out, ":%.*s", (int)event->answer_missed.reason.len, event->answer_missed.reason.ptr);
  if (event->kind == CTXP_KIND_answer_missed && event->answer_missed.mechanism.len)
    ctxp_buf_printf(out, "/%.*s", (int)event->answer_missed.mechanism.len, event->answer_missed.mechanism.ptr);
}

const char *world_events(struct world *w) {
  static struct ctxp_buf out;
  ctxp_buf_reset(&out);
  each(w, add_name, &out);
  return ctxp_buf_cstr(&out);
}

struct find {
  enum ctxp_kind kind;
  unsigned left;
  bool found;
  struct ctxp_event event;
};

static void find_event(void *data, const struct ctxp_event *event) {
  struct find *find = data;
  if (event->kind != find->kind || find->found) return;
  if (find->left-- == 0) find->found = true, find->event = *event;
}

struct ctxp_event world_event(struct world *w, enum ctxp_kind kind, unsigned n) {
  struct find find = {.kind = kind, .left = n};
  each(w, find_event, &find);
  assert_true(find.found);
  return find.event;
}
