/* Deferring: a stage that asks a model does not stop for the reply.
 *
 * Events that wait stand in one queue, in the order of their numbers. The stage prepares each as it is read, so that its call is
 * under way while others are; a reply is stored before it is used. An event is done when its reply is there and no earlier one of
 * its window is open: events of other windows are done, and answered, meanwhile; what they emit waits here for its turn, so
 * that the stream stays in the order of causes. A topology event waits for all before it, and all behind it for it. No checkpoint
 * is made while something done waits for its turn: the state would be ahead of the stream. */
#include "base/clock.h"
#include "base/str.h"
#include "bus/answers.h"
#include "codec/tools.h"
#include "runtime/decision.h"
#include "runtime/node_int.h"
#include <errno.h>
#include <stdlib.h>

#define DEFERRED_MAX 64
#define DEFERRED_BYTES (64u << 20)
#define AHEAD_MS 10000 /* a checkpoint that is due for so long stops doing events ahead of their turn */

enum call_state { CALL_NONE,
  CALL_WAITING, /* for a free call */
  CALL_UNDER_WAY,
  CALL_ENDED };

struct ctxp_deferred {
  struct ctxp_deferred *next;
  struct ctxp_event event; /* borrows from body */
  struct ctxp_buf body;
  struct upstream *from;
  struct ctxp_place place; /* of the upstream, before it */
  bool ask, said /* its verdict is known to the collector */, done;
  /* the call */
  enum call_state state;
  struct ctxp_model_call call; /* its texts in `texts` */
  struct ctxp_buf texts;
  uint64_t deadline_ms, lost, lost_tokens;
  struct ctxp_buf reply; /* the record */
  /* what it emitted ahead of its turn */
  struct ctxp_buf bytes;
  struct ctxp_record *records; /* their bodies are offsets into bytes */
  unsigned record_count, record_cap;
};

static void free_deferred(struct ctxp_deferred *d) {
  if (!d) return;
  ctxp_buf_deinit(&d->body);
  ctxp_buf_deinit(&d->texts);
  ctxp_buf_deinit(&d->reply);
  ctxp_buf_deinit(&d->bytes);
  free(d->records);
  free(d);
}

static int no_memory(struct ctxp_node *node) { return ctxp_node_fail(node, -ENOMEM, "out of memory for an event that waits"); }

void ctxp_node_defer_deinit(struct ctxp_node *node) {
  struct ctxp_defer *defer = &node->defer;
  free_deferred(defer->made);
  for (struct ctxp_deferred *d = defer->first, *next; d; d = next) {
    next = d->next;
    free_deferred(d);
  }
  ctxp_model_free(defer->model);
  *defer = (struct ctxp_defer){0};
}

uint64_t ctxp_node_deferred_from(const struct ctxp_node *node) { return node->defer.first ? node->defer.first->event.seq : UINT64_MAX; }

const struct ctxp_place *ctxp_node_deferred_place(const struct ctxp_node *node, const struct upstream *up) {
  return node->defer.first && node->defer.first->from == up ? &node->defer.first->place : NULL;
}

bool ctxp_node_defer_takes(const struct ctxp_node *node, const struct ctxp_item *item) {
  const struct ctxp_defer *defer = &node->defer;
  if (!defer->first) return true;
  return ctxp_topic_kind(item->topic) != CTXP_KIND_topology && defer->count < DEFERRED_MAX && defer->bytes < DEFERRED_BYTES;
}

/* ---- the stage's services ---- */
static const char *keep_text(struct ctxp_deferred *d, struct ctxp_str text) {
  size_t at = d->texts.len;
  ctxp_buf_add(&d->texts, text.ptr, text.len);
  ctxp_buf_char(&d->texts, 0);
  return (const char *)at; /* an offset: the buffer may still move */
}

static const char *text_at(const struct ctxp_deferred *d, const char *offset) { return (const char *)d->texts.ptr + (size_t)offset; }

static int keep_call(struct ctxp_deferred *d, const struct ctxp_model_call *call) {
  d->call = *call;
  d->call.url = keep_text(d, ctxp_str(call->url));
  d->call.model = keep_text(d, ctxp_str(call->model));
  d->call.key_env = keep_text(d, ctxp_str(call->key_env));
  d->call.key_file = keep_text(d, ctxp_str(call->key_file));
  d->call.system.ptr = keep_text(d, call->system);
  d->call.user.ptr = keep_text(d, call->user);
  if (d->texts.failed) return -ENOMEM;
  d->call.url = text_at(d, d->call.url);
  d->call.model = text_at(d, d->call.model);
  d->call.key_env = text_at(d, d->call.key_env);
  d->call.key_file = text_at(d, d->call.key_file);
  d->call.system.ptr = text_at(d, d->call.system.ptr);
  d->call.user.ptr = text_at(d, d->call.user.ptr);
  return 0;
}

/* what is recorded of the call already */
static int look_up(struct ctxp_node *node, struct ctxp_deferred *d, uint64_t cause) {
  struct ctxp_model_reply reply = {0};
  uint8_t room[CTXP_DECISION_KEY];
  int r = ctxp_store_get(node->store, CTXP_DB_DECISIONS, ctxp_decision_key(cause, room), &d->reply, &node->error);
  d->state = CALL_WAITING;
  if (r == 1) return 0;
  if (r == 0) r = ctxp_decision_unpack(ctxp_buf_raw(&d->reply), &reply);
  if (r < 0)
    return node->error.text[0] ? r :
                                 ctxp_node_fail(node, -EBADMSG, "the decision about event %llu in %s does not decode",
                                     (unsigned long long)cause, ctxp_store_dir(node->store));
  d->lost = reply.lost;
  d->lost_tokens = reply.lost_tokens;
  if (r == 0) d->state = CALL_ENDED;
  return 0;
}

int ctxp_node_host_call(void *data, const struct ctxp_event *event, const struct ctxp_model_call *call) {
  struct ctxp_node *node = data;
  if (node->defer.made) return ctxp_node_fail(node, -EINVAL, "node '%s' asks a model twice for one event", node->self->name);
  struct ctxp_deferred *d = node->defer.made = calloc(1, sizeof(*d));
  if (!d || keep_call(d, call) < 0) return no_memory(node);
  d->deadline_ms = ctxp_clock_ms() + call->timeout_ms;
  return look_up(node, d, event->seq);
}

int ctxp_node_host_reply(void *data, const struct ctxp_event *event, struct ctxp_model_reply *ret_reply) {
  struct ctxp_node *node = data;
  struct ctxp_deferred *d = node->defer.in_hand;
  (void)event;
  if (!d || d->state == CALL_NONE) return 1;
  return ctxp_decision_unpack(ctxp_buf_raw(&d->reply), ret_reply);
}

int ctxp_node_defer_emit(struct ctxp_node *node, const struct ctxp_event *event) {
  struct ctxp_deferred *d = node->defer.in_hand;
  if (!d || d == node->defer.first) return 1;
  size_t from = d->bytes.len;
  if (d->record_count == d->record_cap) {
    unsigned cap = d->record_cap ? d->record_cap * 2 : 4;
    struct ctxp_record *records = realloc(d->records, cap * sizeof(*records));
    if (!records) return no_memory(node);
    d->records = records;
    d->record_cap = cap;
  }
  if (ctxp_event_encode(event, &d->bytes) < 0) return no_memory(node);
  d->records[d->record_count++] = (struct ctxp_record){.cause = event->cause,
      .ts_ms = event->ts_ms,
      .topic = ctxp_topic_of(event),
      .body = {(const uint8_t *)from, d->bytes.len - from}};
  return 0;
}

/* ---- calls ---- */
static int put_decision(struct ctxp_node *node, const struct ctxp_deferred *d, struct ctxp_raw record) {
  uint8_t room[CTXP_DECISION_KEY];
  return ctxp_store_put(node->store, CTXP_DB_DECISIONS, ctxp_decision_key(d->event.seq, room), record, &node->error);
}

static int decide(struct ctxp_node *node, struct ctxp_deferred *d, struct ctxp_model_reply reply) {
  reply.lost = d->lost;
  reply.lost_tokens = d->lost_tokens;
  ctxp_buf_reset(&d->reply);
  ctxp_decision_pack(&d->reply, &reply);
  if (d->reply.failed) return no_memory(node);
  d->state = CALL_ENDED;
  return put_decision(node, d, ctxp_buf_raw(&d->reply));
}

/* replies that came, and calls for which no time is left; *ret_any: something was decided */
static int take_replies(struct ctxp_node *node, uint64_t now_ms, bool *ret_any) {
  struct ctxp_defer *defer = &node->defer;
  struct ctxp_model_reply reply;
  uint64_t seq;
  int r = 0;
  while (r == 0 && defer->model && ctxp_model_take(defer->model, &seq, &reply)) {
    struct ctxp_deferred *d = defer->first;
    while (d && (d->event.seq != seq || d->state != CALL_UNDER_WAY)) d = d->next;
    defer->under_way--;
    if (!d) continue;
    *ret_any = true;
    r = decide(node, d, reply);
  }
  for (struct ctxp_deferred *d = defer->first; r == 0 && d; d = d->next) {
    if (d->state != CALL_WAITING || now_ms < d->deadline_ms) continue;
    *ret_any = true;
    r = decide(node, d, (struct ctxp_model_reply){.outcome = CTXP_MODEL_TIMEOUT, .why = CTXP_STR("no call was free in time")});
  }
  return r;
}

/* that they begin is stored before they do: one whose reply is not stored is known by it */
static int put_begun(struct ctxp_node *node, unsigned *ret_count) {
  unsigned under_way = node->defer.under_way;
  for (struct ctxp_deferred *d = node->defer.first; d; d = d->next) {
    ctxp_auto_buf record = {0};
    if (d->state != CALL_WAITING || under_way >= d->call.max_inflight) continue;
    ctxp_decision_pack_begun(&record, d->lost + 1, d->lost_tokens + ctxp_model_input_estimate(&d->call));
    int r = record.failed ? no_memory(node) : put_decision(node, d, ctxp_buf_raw(&record));
    if (r < 0) return r;
    under_way++;
    (*ret_count)++;
  }
  return 0;
}

static int start_calls(struct ctxp_node *node, uint64_t now_ms) {
  struct ctxp_defer *defer = &node->defer;
  unsigned count = 0;
  int r = put_begun(node, &count);
  if (r < 0 || count == 0) return r;
  if (!defer->model && !(defer->model = ctxp_model_new(&node->error))) return -ENOMEM;
  r = ctxp_node_commit(node, now_ms);
  for (struct ctxp_deferred *d = defer->first; r == 0 && d && count; d = d->next) {
    if (d->state != CALL_WAITING || defer->under_way >= d->call.max_inflight) continue;
    if (ctxp_model_start(defer->model, d->event.seq, &d->call, ctxp_clock_ms(), d->deadline_ms) < 0) r = no_memory(node);
    d->state = CALL_UNDER_WAY;
    defer->under_way++;
    count--;
  }
  return r;
}

/* ---- doing ---- */
static bool same_window(const struct ctxp_event *a, const struct ctxp_event *b) {
  return ctxp_str_eq(a->session, b->session) && ctxp_str_eq(a->thread, b->thread) && ctxp_str_eq(a->agent, b->agent);
}

static bool may_be_done(const struct ctxp_node *node, const struct ctxp_deferred *d) {
  if (d->done || d->state == CALL_WAITING || d->state == CALL_UNDER_WAY) return false;
  for (const struct ctxp_deferred *before = node->defer.first; before != d; before = before->next)
    if (!before->done && same_window(&before->event, &d->event)) return false;
  return true;
}

static int do_event(struct ctxp_node *node, struct ctxp_deferred *d) {
  node->defer.in_hand = d;
  int r = ctxp_node_deliver_event(node, &d->event, d->from, d->ask && !d->said);
  node->defer.in_hand = NULL;
  d->done = d->said = true;
  return r;
}

static int put_records(struct ctxp_node *node, struct ctxp_deferred *d) {
  int r = 0;
  for (unsigned i = 0; i < d->record_count && r == 0; i++) {
    d->records[i].body.ptr = d->bytes.ptr + (size_t)d->records[i].body.ptr;
    r = ctxp_node_put_record(node, &d->records[i]);
  }
  return r;
}

static void take_first(struct ctxp_node *node) {
  struct ctxp_defer *defer = &node->defer;
  struct ctxp_deferred *d = defer->first;
  defer->first = d->next;
  if (!defer->first) defer->last = NULL;
  defer->count--;
  defer->bytes -= d->body.len;
  free_deferred(d);
}

/* what is first in the queue, as far as it goes */
static int do_in_turn(struct ctxp_node *node) {
  struct ctxp_defer *defer = &node->defer;
  int r = 0;
  while (r == 0 && defer->first) {
    if (defer->first->done) {
      r = put_records(node, defer->first);
      defer->ahead--;
    } else if (may_be_done(node, defer->first)) {
      r = do_event(node, defer->first);
    } else {
      break;
    }
    if (r == 0) take_first(node);
  }
  return r;
}

static int run(struct ctxp_node *node, uint64_t now_ms) {
  struct ctxp_defer *defer = &node->defer;
  bool was = defer->first != NULL;
  int r = do_in_turn(node);
  bool ahead = !node->inputs || now_ms < node->checkpoint_ms + AHEAD_MS;
  for (struct ctxp_deferred *d = defer->first ? defer->first->next : NULL; r == 0 && ahead && d; d = d->next) {
    if (!may_be_done(node, d)) continue;
    defer->ahead++;
    r = do_event(node, d);
  }
  return r == 0 && was ? ctxp_node_redo_check(node) : r;
}

/* an ask that waits: a verdict that cannot change is said, else that a model is asked */
static int say_working(struct ctxp_node *node, struct ctxp_deferred *d) {
  if (!d->ask || d->done) return 0;
  d->said = d->state != CALL_NONE && !d->call.answers;
  return ctxp_node_verdict(node, d->said ? CTXP_VERDICT_PASS : CTXP_VERDICT_WORKING, d->event.seq, (struct ctxp_raw){0});
}

static int enqueue(struct ctxp_node *node, struct ctxp_deferred *d, const struct ctxp_item *item, const struct ctxp_event *event,
    struct upstream *from) {
  struct ctxp_defer *defer = &node->defer;
  ctxp_buf_add(&d->body, item->body.ptr, item->body.len);
  if (d->body.failed || ctxp_event_decode(d->body.ptr, d->body.len, &d->event, NULL, NULL) < 0) {
    free_deferred(d);
    return no_memory(node);
  }
  d->event.seq = event->seq;
  d->event.cause = event->cause;
  d->event.ts_ms = event->ts_ms;
  d->from = from;
  d->place = ctxp_sub_place(from->sub);
  d->ask = node->answers && from->collector && ctxp_node_is_ask(event);
  if (defer->last)
    defer->last->next = d;
  else
    defer->first = d;
  defer->last = d;
  defer->count++;
  defer->bytes += d->body.len;
  return 0;
}

int ctxp_node_defer(struct ctxp_node *node, const struct ctxp_item *item, const struct ctxp_event *event, struct upstream *from) {
  struct ctxp_defer *defer = &node->defer;
  uint64_t now_ms = ctxp_clock_ms();
  if (!node->ops->prepare) return 0;
  *node->mark = event->seq;
  int r = ctxp_stage_prepare(node->stage, event);
  *node->mark = 0;
  struct ctxp_deferred *d = defer->made;
  defer->made = NULL;
  if (r < 0 || (!d && !defer->first)) {
    free_deferred(d);
    return r < 0 && !node->error.text[0] ? ctxp_node_fail(node, r, "node '%s' cannot prepare event %llu", node->self->name,
                                               (unsigned long long)event->seq) :
                                           r;
  }
  if (!d && !(d = calloc(1, sizeof(*d)))) return no_memory(node);
  if ((r = enqueue(node, d, item, event, from)) < 0) return r;
  if (defer->first == d && may_be_done(node, d)) { /* its reply was recorded: this is its turn */
    r = do_event(node, d);
    if (r == 0) take_first(node);
    return r < 0 ? r : 1;
  }
  r = run(node, now_ms);
  if (r == 0 && defer->last == d) r = say_working(node, d);
  return r < 0 ? r : 1;
}

int ctxp_node_defer_step(struct ctxp_node *node, uint64_t now_ms, uint64_t *ret_next_ms) {
  struct ctxp_defer *defer = &node->defer;
  bool any = false;
  *ret_next_ms = UINT64_MAX;
  if (!defer->first) return 0;
  if (defer->model) *ret_next_ms = ctxp_model_work(defer->model, now_ms);
  int r = take_replies(node, now_ms, &any);
  if (r == 0 && any) r = ctxp_node_commit(node, now_ms); /* stored before it is used */
  if (r == 0) r = run(node, now_ms);
  if (r == 0) r = start_calls(node, now_ms);
  if (defer->model) *ret_next_ms = ctxp_model_work(defer->model, ctxp_clock_ms());
  for (const struct ctxp_deferred *d = defer->first; d; d = d->next)
    if (d->state == CALL_WAITING && d->deadline_ms < *ret_next_ms) *ret_next_ms = d->deadline_ms;
  return r;
}

int ctxp_node_defer_fd(const struct ctxp_node *node) { return node->defer.model ? ctxp_model_fd(node->defer.model) : -1; }

/* ---- retention: a decision is kept as long as what was derived by it ---- */
struct forget {
  struct ctxp_node *node;
  uint64_t below;
};

static int forget_one(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  struct forget *forget = data;
  (void)value;
  if (ctxp_decision_cause(key) >= forget->below) return 1; /* they come in order */
  return ctxp_store_del(forget->node->store, CTXP_DB_DECISIONS, key, &forget->node->error);
}

int ctxp_node_forget_decisions(struct ctxp_node *node) {
  struct ctxp_record record;
  uint64_t first = node->stream ? ctxp_stream_first(node->stream) : 0;
  if (!node->ops->prepare || first <= node->defer.forgotten || first > ctxp_stream_head(node->stream)) return 0;
  int r = ctxp_stream_get(node->stream, first, &node->value, &record, &node->error);
  if (r != 0) return r < 0 ? r : 0;
  struct forget forget = {node, record.cause};
  r = ctxp_store_each(node->store, CTXP_DB_DECISIONS, CTXP_DECISION_PREFIX, forget_one, &forget, &node->error);
  node->defer.forgotten = first;
  return r < 0 ? r : 0;
}
