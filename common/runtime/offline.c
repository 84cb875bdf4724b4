/* One process, no socket: for each event of the collector its mechanisms derive, then the merge (the same as a fold's in a running
 * pipeline) gives the fold what is next, and what the fold emits goes to the sinks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bus/merge.h"
#include "runtime/decision.h"
#include "runtime/host.h"
#include "runtime/memory_store.h"
#include "runtime/offline.h"

#define BATCH_COUNT 1024
#define BATCH_BYTES (1u << 20)

struct offline;

struct place { /* a stage and where what it emits goes */
  struct offline *run;
  char *name;
  const struct ctxp_stage_ops *ops;
  struct ctxp_stage *stage;
  struct ctxp_memory_store *store;
  /* of a mechanism that asks a model: its decisions, and the one about the event in hand */
  struct ctxp_store *decisions;
  struct ctxp_buf decision;
  bool called;
  /* of a mechanism: what it derived from the event in hand */
  struct ctxp_items derived;
  struct ctxp_buf bytes;
  unsigned taken;
  uint64_t seq;
};
struct offline {
  const struct ctxp_offline_options *options;
  struct ctxp_error *err;
  struct place *mechanisms, *sinks, fold;
  unsigned mechanism_count, sink_count;
  struct ctxp_merge *merge;
  struct ctxp_item in_hand; /* the collector's event, for the merge */
  bool in_hand_given;
  uint64_t reached;
  struct ctxp_buf emitted;
  struct ctxp_offline_result result;
};

static int out_of_memory(struct offline *run) { return ctxp_error_set(run->err, -ENOMEM, "out of memory for the replay"); }

/* ---- the host ---- */
/* A mechanism's event waits for the merge. Its bytes may still move: the body's place is kept as an offset. */
static int keep_derived(struct place *at, const struct ctxp_event *event) {
  size_t from = at->bytes.len;
  if (at->derived.count == at->derived.cap) {
    unsigned cap = at->derived.cap ? at->derived.cap * 2 : 16;
    struct ctxp_item *items = realloc(at->derived.at, cap * sizeof(*items));
    if (!items) return out_of_memory(at->run);
    at->derived.at = items;
    at->derived.cap = cap;
  }
  if (ctxp_event_encode(event, &at->bytes) < 0) return out_of_memory(at->run);
  at->derived.at[at->derived.count++] = (struct ctxp_item){.seq = ++at->seq,
      .cause = event->cause,
      .ts_ms = event->ts_ms,
      .topic = ctxp_topic_of(event),
      .body = {(const uint8_t *)from, at->bytes.len - from}};
  at->run->result.derived++;
  return 0;
}

static int deliver(struct offline *run, struct place *to, const struct ctxp_item *item) {
  struct ctxp_event event;
  struct ctxp_fault fault;
  if (ctxp_event_decode(item->body.ptr, item->body.len, &event, NULL, &fault) < 0) {
    run->result.refused++;
    return 0;
  }
  event.seq = item->seq;
  event.cause = item->cause;
  event.ts_ms = item->ts_ms;
  int r = ctxp_stage_deliver(to->stage, &event);
  return r < 0 && !run->err->text[0] ?
      ctxp_error_set(run->err, r, "node '%s' cannot do event %llu: %s", to->name, (unsigned long long)item->seq, strerror(-r)) :
      r;
}

static int to_sinks(struct offline *run, const struct ctxp_event *event) {
  ctxp_buf_reset(&run->emitted);
  if (ctxp_event_encode(event, &run->emitted) < 0) return out_of_memory(run);
  struct ctxp_item item = {.seq = ++run->fold.seq,
      .cause = event->cause,
      .ts_ms = event->ts_ms,
      .topic = ctxp_topic_of(event),
      .body = ctxp_buf_raw(&run->emitted)};
  run->result.emitted++;
  for (unsigned i = 0; i < run->sink_count; i++) {
    int r = deliver(run, &run->sinks[i], &item);
    if (r < 0) return r;
  }
  return 0;
}

static int host_emit(void *data, const struct ctxp_event *event) {
  struct place *at = data;
  if (at == &at->run->fold) return to_sinks(at->run, event);
  if (at->ops->role == CTXP_ROLE_MECHANISM_NODE) return keep_derived(at, event);
  return ctxp_error_set(at->run->err, -EINVAL, "node '%s' emits an event, and nobody reads from it", at->name);
}
static int host_answer(void *data, uint64_t ask_seq, struct ctxp_raw actions) {
  (void)data, (void)ask_seq, (void)actions; /* the agent has had it */
  return 0;
}
static int host_put(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  struct place *at = data;
  return ctxp_memory_store_put(at->store, key, value) < 0 ? out_of_memory(at->run) : 0;
}
static int host_del(void *data, struct ctxp_raw key) {
  ctxp_memory_store_del(((struct place *)data)->store, key);
  return 0;
}
static int host_get(void *data, struct ctxp_raw key, struct ctxp_raw *ret_value) {
  return ctxp_memory_store_get(((struct place *)data)->store, key, ret_value);
}
static int host_each(void *data, struct ctxp_raw prefix, int (*visit)(void *, struct ctxp_raw, struct ctxp_raw), void *visit_data) {
  return ctxp_memory_store_each(((struct place *)data)->store, prefix, visit, visit_data);
}
static void host_refuse(void *data, const char *sentence) {
  (void)sentence; /* the node that ran said it */
  ((struct place *)data)->run->result.refused++;
}
static int lost(struct place *at, const struct ctxp_model_reply *begun) {
  struct ctxp_model_reply reply = {.outcome = CTXP_MODEL_LOST, .why = CTXP_STR("no reply is recorded")};
  reply.lost = begun->lost;
  reply.lost_tokens = begun->lost_tokens;
  at->run->result.undecided++;
  ctxp_buf_reset(&at->decision);
  ctxp_decision_pack(&at->decision, &reply);
  return at->decision.failed ? out_of_memory(at->run) : 0;
}
static int host_call(void *data, const struct ctxp_event *event, const struct ctxp_model_call *call) {
  struct place *at = data;
  struct ctxp_model_reply reply = {0};
  uint8_t room[CTXP_DECISION_KEY];
  (void)call;
  at->called = true;
  int r = at->decisions ?
      ctxp_store_get(at->decisions, CTXP_DB_DECISIONS, ctxp_decision_key(event->seq, room), &at->decision, at->run->err) :
      1;
  if (r == 0) r = ctxp_decision_unpack(ctxp_buf_raw(&at->decision), &reply);
  if (r == -EBADMSG && !at->run->err->text[0])
    return ctxp_error_set(
        at->run->err, r, "the decision of node '%s' about event %llu does not decode", at->name, (unsigned long long)event->seq);
  return r == 1 ? lost(at, &reply) : r;
}
static int host_reply(void *data, const struct ctxp_event *event, struct ctxp_model_reply *ret_reply) {
  struct place *at = data;
  (void)event;
  return at->called ? ctxp_decision_unpack(ctxp_buf_raw(&at->decision), ret_reply) : 1;
}
static const struct ctxp_host_ops host = {.emit = host_emit,
    .answer = host_answer,
    .put = host_put,
    .del = host_del,
    .get = host_get,
    .each = host_each,
    .refuse = host_refuse,
    .call = host_call,
    .reply = host_reply};

/* ---- the merge's flows ---- */
static int collector_peek(void *data, struct ctxp_item *ret_item) {
  struct offline *run = data;
  if (run->in_hand_given) return 0;
  *ret_item = run->in_hand;
  return 1;
}
static void collector_next(void *data) { ((struct offline *)data)->in_hand_given = true; }
static uint64_t collector_reach(void *data) { return ((struct offline *)data)->reached; }

static int mechanism_peek(void *data, struct ctxp_item *ret_item) {
  struct place *at = data;
  if (at->taken == at->derived.count) return 0;
  *ret_item = at->derived.at[at->taken];
  ret_item->body.ptr = at->bytes.ptr + (size_t)ret_item->body.ptr;
  return 1;
}
static void mechanism_next(void *data) { ((struct place *)data)->taken++; }
static uint64_t mechanism_reach(void *data) { return ((struct place *)data)->run->reached; }

/* ---- opening ---- */
static const struct ctxp_stage_ops *daemon_of(const struct offline *run, struct ctxp_str name) {
  for (const struct ctxp_stage_ops *const *ops = run->options->registry; *ops; ops++)
    if (ctxp_str_is(name, (*ops)->name)) return *ops;
  return NULL;
}

/* The store of a mechanism that asks a model; none where it never ran. */
static int open_decisions(struct offline *run, struct place *at) {
  ctxp_auto_buf dir = {0};
  struct ctxp_store_options options = {.read_only = true};
  if (at->ops->role != CTXP_ROLE_MECHANISM_NODE || !at->ops->prepare) return 0;
  ctxp_buf_printf(&dir, "%s/%s", run->options->state_dir, at->name);
  int r = ctxp_store_open(ctxp_buf_cstr(&dir), &options, &at->decisions, run->err);
  if (r == -ENOENT) run->err->text[0] = 0;
  return r == -ENOENT ? 0 : r;
}

static int open_place(
    struct offline *run, struct place *at, struct ctxp_str name, const struct ctxp_stage_ops *ops, struct ctxp_raw options) {
  *at = (struct place){.run = run, .ops = ops, .name = ctxp_str_dup(name), .store = ctxp_memory_store_new()};
  if (!at->name || !at->store) return out_of_memory(run);
  int r = ctxp_stage_new(ops, at->name, options, &host, at, &at->stage, run->err);
  if (r == 0) r = open_decisions(run, at);
  return r < 0 ? r : ctxp_stage_open(at->stage, run->err);
}

static void close_place(struct place *at) {
  ctxp_stage_free(at->stage);
  ctxp_memory_store_free(at->store);
  ctxp_store_free(at->decisions);
  ctxp_buf_deinit(&at->decision);
  free(at->derived.at);
  ctxp_buf_deinit(&at->bytes);
  free(at->name);
}

static int open_sinks(struct offline *run) {
  const struct ctxp_offline_options *options = run->options;
  run->sinks = calloc(options->sink_count ? options->sink_count : 1, sizeof(*run->sinks));
  if (!run->sinks) return out_of_memory(run);
  for (unsigned i = 0; i < options->sink_count; i++) {
    run->sink_count = i + 1;
    int r = open_place(run, &run->sinks[i], ctxp_str(options->sinks[i].name), options->sinks[i].ops, options->sinks[i].options);
    if (r < 0) return r;
  }
  return 0;
}

/* places keep still: stages hold their addresses */
#define MECHANISMS_MAX 256

static int open_mechanism(struct offline *run, const struct ctxp_derivation *entry) {
  for (unsigned i = 0; i < run->mechanism_count; i++)
    if (ctxp_str_is(entry->node, run->mechanisms[i].name)) return 0;
  const struct ctxp_stage_ops *ops = daemon_of(run, entry->daemon);
  if (!ops)
    return ctxp_error_set(
        run->err, -ENOENT, "the stream names the daemon '%.*s', which this build does not have", (int)entry->daemon.len, entry->daemon.ptr);
  if (run->mechanism_count == MECHANISMS_MAX)
    return ctxp_error_set(run->err, -E2BIG, "the stream names more than %d mechanisms", MECHANISMS_MAX);
  struct place *at = &run->mechanisms[run->mechanism_count++];
  int r = open_place(run, at, entry->node, ops, entry->options);
  struct ctxp_flow flow = {mechanism_peek, mechanism_next, mechanism_reach, at};
  if (r == 0 && ctxp_merge_add(run->merge, at->name, CTXP_FLOW_MECHANISM, &flow) < 0) r = out_of_memory(run);
  return r;
}

static int open_derived(struct offline *run, const struct ctxp_record *record) {
  struct ctxp_event event;
  struct ctxp_derivation entry;
  int r = 0;
  if (ctxp_event_decode(record->body.ptr, record->body.len, &event, NULL, NULL) < 0)
    return ctxp_error_set(run->err, -EBADMSG, "event %llu does not decode", (unsigned long long)record->seq);
  for (struct ctxp_list list = event.topology.mechanisms; r == 0 && ctxp_list_next(&list, &ctxp_shape_derivation, &entry) > 0;)
    r = open_mechanism(run, &entry);
  if (r < 0 || run->fold.stage || !ctxp_has(&event.topology, topology, fold)) return r;
  entry = event.topology.fold;
  const struct ctxp_stage_ops *ops = daemon_of(run, entry.daemon);
  if (!ops)
    return ctxp_error_set(
        run->err, -ENOENT, "the stream names the daemon '%.*s', which this build does not have", (int)entry.daemon.len, entry.daemon.ptr);
  return open_place(run, &run->fold, entry.node, ops, entry.options);
}

/* Reads the events of these topics and gives each to `visit`. */
static int read_all(struct offline *run, struct ctxp_stream *stream, const struct ctxp_topics *topics,
    int (*visit)(struct offline *, const struct ctxp_record *)) {
  struct ctxp_batch batch = {0};
  uint64_t head = ctxp_stream_head(stream), from = ctxp_stream_first(stream) - 1;
  int r = 0;
  while (r == 0 && from < head) {
    r = ctxp_stream_read(stream, from, head, topics, BATCH_COUNT, BATCH_BYTES, &batch, run->err);
    for (unsigned i = 0; i < batch.count && r == 0; i++) r = visit(run, &batch.rows[i]);
    from = batch.upto;
  }
  ctxp_batch_deinit(&batch);
  return r;
}

static int visit_hold(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  struct offline *run = data;
  struct ctxp_str name = ctxp_map_str(value, "mechanism");
  (void)key;
  for (unsigned i = 0; i < run->mechanism_count; i++)
    if (ctxp_str_is(name, run->mechanisms[i].name))
      return ctxp_merge_hold(run->merge, i + 1, ctxp_map_u64(value, "from", 0), ctxp_map_u64(value, "to", 0));
  return 0;
}

static int load_holds(struct offline *run) {
  ctxp_auto_buf dir = {0};
  struct ctxp_store *store;
  struct ctxp_store_options options = {.read_only = true};
  ctxp_buf_printf(&dir, "%s/%s", run->options->state_dir, run->options->fold ? run->options->fold : "fold");
  int r = ctxp_store_open(ctxp_buf_cstr(&dir), &options, &store, run->err);
  if (r == -ENOENT) {
    run->err->text[0] = 0;
    return 0; /* it never ran: there is no decision of it */
  }
  if (r < 0) return r;
  r = ctxp_store_each(store, CTXP_DB_DECISIONS, (struct ctxp_raw){(const uint8_t *)"hold/", 5}, visit_hold, run, run->err);
  ctxp_store_free(store);
  return r;
}

/* ---- running ---- */
static int merge_event(struct offline *run) {
  struct ctxp_item item;
  unsigned input;
  int r;
  while ((r = ctxp_merge_next(run->merge, &item, &input)) > 0) {
    if (r == 2) {
      struct ctxp_merge_hold_begun begun = ctxp_merge_begun(run->merge);
      struct ctxp_event event = {.kind = CTXP_KIND_hold, .cause = begun.from, .ts_ms = begun.ts_ms};
      ctxp_set(&event.hold, hold, mechanism, ctxp_str(run->mechanisms[begun.input - 1].name));
      ctxp_set(&event.hold, hold, from, begun.from);
      ctxp_set(&event.hold, hold, to, begun.to);
      if ((r = to_sinks(run, &event)) < 0) return r;
      continue;
    }
    if ((r = deliver(run, &run->fold, &item)) < 0) return r;
    ctxp_merge_take(run->merge);
  }
  return r;
}

static int run_event(struct offline *run, const struct ctxp_record *record) {
  struct ctxp_item item = {record->seq, 0, record->ts_ms, record->topic, record->body};
  struct ctxp_event event;
  int r = 0;
  run->result.events++;
  if (ctxp_event_decode(record->body.ptr, record->body.len, &event, NULL, NULL) < 0) {
    run->result.refused++;
    return 0;
  }
  event.seq = record->seq;
  event.ts_ms = record->ts_ms;
  for (unsigned i = 0; i < run->mechanism_count && r == 0; i++) {
    struct place *at = &run->mechanisms[i];
    at->derived.count = at->taken = 0;
    ctxp_buf_reset(&at->bytes);
    at->called = false;
    r = ctxp_stage_prepare(at->stage, &event);
    if (r == 0) r = ctxp_stage_deliver(at->stage, &event);
    if (r < 0 && !run->err->text[0])
      ctxp_error_set(run->err, r, "node '%s' cannot do event %llu: %s", at->name, (unsigned long long)record->seq, strerror(-r));
  }
  run->in_hand = item;
  run->in_hand_given = record->topic != CTXP_KIND_topology && !ctxp_topic_consumed(record->topic, run->fold.ops->consumes);
  run->reached = record->seq;
  return r < 0 ? r : merge_event(run);
}

static int save_all(struct offline *run) {
  for (unsigned i = 0; i < run->sink_count; i++) {
    int r = ctxp_stage_save(run->sinks[i].stage);
    if (r < 0) return run->err->text[0] ? r : ctxp_error_set(run->err, r, "node '%s' cannot save: %s", run->sinks[i].name, strerror(-r));
  }
  return 0;
}

static int run_stream(struct offline *run, struct ctxp_stream *stream) {
  struct ctxp_flow flow = {collector_peek, collector_next, collector_reach, run};
  struct ctxp_topics topologies = {0}, all;
  ctxp_topics_add(&topologies, CTXP_KIND_topology);
  memset(&all, 0xff, sizeof(all));
  run->in_hand_given = true;
  run->result.first = ctxp_stream_first(stream);
  if (ctxp_merge_add(run->merge, "collector", CTXP_FLOW_COLLECTOR, &flow) < 0) return out_of_memory(run);
  int r = read_all(run, stream, &topologies, open_derived);
  if (r == 0 && !run->fold.stage)
    r = ctxp_error_set(run->err, -ENODATA, "the stream in %s names no fold: there is nothing to replay", run->options->state_dir);
  if (r == 0) r = load_holds(run);
  if (r == 0) r = open_sinks(run);
  if (r == 0) r = read_all(run, stream, &all, run_event);
  return r < 0 ? r : save_all(run);
}

static int open_and_run(struct offline *run) {
  const struct ctxp_offline_options *options = run->options;
  ctxp_auto_buf dir = {0};
  struct ctxp_store_options store_options = {.read_only = true};
  struct ctxp_store *store;
  struct ctxp_stream *stream = NULL;
  ctxp_buf_printf(&dir, "%s/%s", options->state_dir, options->collector ? options->collector : "collector");
  int r = ctxp_store_open(ctxp_buf_cstr(&dir), &store_options, &store, run->err);
  if (r < 0) return r;
  r = ctxp_stream_open(store, UINT64_MAX, &stream, run->err);
  if (r == 0) r = run_stream(run, stream);
  ctxp_stream_free(stream);
  ctxp_store_free(store);
  return r;
}

int ctxp_offline_run(const struct ctxp_offline_options *options, struct ctxp_raw query, struct ctxp_buf *reply,
    struct ctxp_offline_result *ret_result, struct ctxp_error *err) {
  struct ctxp_error own = {""}, *e = err ? err : &own;
  struct offline run = {
      .options = options, .err = e, .merge = ctxp_merge_new(), .mechanisms = calloc(MECHANISMS_MAX, sizeof(struct place))};
  e->text[0] = 0;
  int r = run.merge && run.mechanisms ? open_and_run(&run) : out_of_memory(&run);
  if (r == 0 && query.len) r = ctxp_stage_query(run.fold.stage, query, reply, e);
  for (unsigned i = 0; i < run.mechanism_count; i++) close_place(&run.mechanisms[i]);
  for (unsigned i = 0; i < run.sink_count; i++) close_place(&run.sinks[i]);
  close_place(&run.fold);
  free(run.mechanisms);
  free(run.sinks);
  ctxp_merge_free(run.merge);
  ctxp_buf_deinit(&run.emitted);
  if (r == 0 && ret_result) *ret_result = run.result;
  return r;
}
