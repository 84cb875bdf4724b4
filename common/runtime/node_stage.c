/* The stage's host in a daemon: delivers what the merge gives, stores what is emitted, sends verdicts. */
#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "bus/answers.h"
#include "runtime/node_int.h"

#define WORK_COUNT 2048 /* events taken in one round, so that the loop comes round to its sockets */

int ctxp_node_put_record(struct ctxp_node *node, struct ctxp_record *record) {
  uint64_t prev;
  int r = ctxp_node_redo(node, record);
  if (r != 0) return r < 0 ? r : 0;
  r = ctxp_stream_append(node->stream, record, &prev, &node->error);
  if (r < 0) return r;
  if (!node->pending_bytes) node->pending_since_ms = ctxp_clock_ms();
  node->pending_bytes += record->body.len + 64;
  if (!node->publisher) return 0; /* while a source opens: nobody can have subscribed yet */
  return ctxp_publisher_add(node->publisher, record, prev) < 0 ? ctxp_node_fail(node, -ENOMEM, "out of memory for an event") : 0;
}

static int put_event(struct ctxp_node *node, const struct ctxp_event *event) {
  if (!node->stream)
    return ctxp_node_fail(node, -EINVAL, "node '%s' emits an event, and its stage says that it emits none", node->self->name);
  ctxp_buf_reset(&node->scratch);
  if (ctxp_event_encode(event, &node->scratch) < 0) return ctxp_node_fail(node, -ENOMEM, "out of memory for an event");
  struct ctxp_record record = {
      .cause = event->cause, .ts_ms = event->ts_ms, .topic = ctxp_topic_of(event), .body = ctxp_buf_raw(&node->scratch)};
  return ctxp_node_put_record(node, &record);
}

static int host_emit(void *data, const struct ctxp_event *event) {
  int r = ctxp_node_defer_emit(data, event);
  return r == 1 ? put_event(data, event) : r;
}

int ctxp_node_verdict(struct ctxp_node *node, enum ctxp_verdict_kind kind, uint64_t ask_seq, struct ctxp_raw actions) {
  struct ctxp_verdict verdict = {.node = ctxp_str(node->self->name), .ask_seq = ask_seq, .kind = kind, .actions = actions};
  ctxp_auto_buf out = {0};
  ctxp_verdict_write(&out, &verdict);
  if (ctxp_buf_error(&out) < 0) return ctxp_node_fail(node, -ENOMEM, "out of memory for an answer");
  zmq_send(node->answers, out.ptr, out.len, ZMQ_DONTWAIT); /* lost: it counts as a pass */
  return 0;
}

static int host_answer(void *data, uint64_t ask_seq, struct ctxp_raw actions) {
  struct ctxp_node *node = data;
  if (!node->answers) return ctxp_node_fail(node, -EINVAL, "node '%s' answers, and is no mechanism behind a collector", node->self->name);
  if (ask_seq == node->ask_seq) node->answered = true;
  return ctxp_node_verdict(node, CTXP_VERDICT_ACTIONS, ask_seq, actions);
}

static int host_put(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  struct ctxp_node *node = data;
  node->state_dirty |= !node->saving;
  return ctxp_store_put(node->store, CTXP_DB_STATE, key, value, &node->error);
}

static int host_del(void *data, struct ctxp_raw key) {
  struct ctxp_node *node = data;
  node->state_dirty |= !node->saving;
  return ctxp_store_del(node->store, CTXP_DB_STATE, key, &node->error);
}

static int host_get(void *data, struct ctxp_raw key, struct ctxp_raw *ret_value) {
  struct ctxp_node *node = data;
  int r = ctxp_store_get(node->store, CTXP_DB_STATE, key, &node->value, &node->error);
  if (r == 0) *ret_value = ctxp_buf_raw(&node->value);
  return r;
}

static int host_each(void *data, struct ctxp_raw prefix, int (*visit)(void *, struct ctxp_raw, struct ctxp_raw), void *visit_data) {
  struct ctxp_node *node = data;
  return ctxp_store_each(node->store, CTXP_DB_STATE, prefix, visit, visit_data, &node->error);
}

static void host_refuse(void *data, const char *sentence) { ctxp_node_count_refused(data, sentence); }

const struct ctxp_host_ops ctxp_node_host = {.emit = host_emit,
    .answer = host_answer,
    .put = host_put,
    .del = host_del,
    .get = host_get,
    .each = host_each,
    .refuse = host_refuse,
    .call = ctxp_node_host_call,
    .reply = ctxp_node_host_reply};

/* ---- delivery ---- */
bool ctxp_node_is_ask(const struct ctxp_event *event) {
  return (event->kind == CTXP_KIND_tool_result && event->tool_result.ask) || (event->kind == CTXP_KIND_context && event->context.ask);
}

static int keep_topology(struct ctxp_node *node, struct ctxp_raw body) {
  ctxp_buf_reset(&node->topology);
  ctxp_buf_add(&node->topology, body.ptr, body.len);
  node->topology_dirty = true;
  return ctxp_buf_error(&node->topology) ? ctxp_node_fail(node, -ENOMEM, "out of memory for the topology") : 0;
}

int ctxp_node_deliver_event(struct ctxp_node *node, const struct ctxp_event *event, const struct upstream *from, bool open) {
  node->ask_seq = open ? event->seq : 0;
  node->answered = false;
  *node->mark = event->cause ? event->cause : event->seq; /* stays where it is, should we die of it */
  int r = ctxp_stage_deliver(node->stage, event);
  if (r == 0) *node->mark = 0;
  if (r == 0 && open && !node->answered) r = ctxp_node_verdict(node, CTXP_VERDICT_PASS, event->seq, (struct ctxp_raw){0});
  if (r < 0 && !node->error.text[0])
    ctxp_node_fail(node, r, "node '%s' cannot do event %llu of '%s': %s", node->self->name, (unsigned long long)event->seq,
        from->config->name, node->last_error[0] ? node->last_error : strerror(-r));
  return r;
}

static int deliver(struct ctxp_node *node, const struct ctxp_item *item, struct upstream *from) {
  struct ctxp_event event;
  struct ctxp_fault fault;
  int r = ctxp_event_read(item->body, &event, &fault);
  if (r < 0) {
    char sentence[CTXP_ERROR_MAX];
    snprintf(sentence, sizeof(sentence), "event %llu of '%s' does not decode: '%s' %s", (unsigned long long)item->seq, from->config->name,
        fault.field, fault.reason);
    ctxp_node_count_refused(node, sentence);
    return r == -EBADMSG ? 0 : ctxp_node_fail(node, r, "%s", sentence);
  }
  event.seq = item->seq;
  event.cause = item->cause;
  event.ts_ms = item->ts_ms;
  if (event.kind == CTXP_KIND_topology && (r = keep_topology(node, item->body)) < 0) return r;
  r = ctxp_node_defer(node, item, &event, from);
  if (r != 0) return r < 0 ? r : 0;
  return ctxp_node_deliver_event(node, &event, from, node->answers && from->collector && ctxp_node_is_ask(&event));
}

/* a hold is said in the stream where it begins */
static int emit_hold(struct ctxp_node *node) {
  struct ctxp_merge_hold_begun begun = ctxp_merge_begun(node->merge);
  struct ctxp_event event = {.kind = CTXP_KIND_hold, .cause = begun.from, .ts_ms = begun.ts_ms};
  ctxp_set(&event.hold, hold, mechanism, ctxp_str(node->upstreams[begun.input].config->name));
  ctxp_set(&event.hold, hold, from, begun.from);
  ctxp_set(&event.hold, hold, to, begun.to);
  return node->stream ? put_event(node, &event) : 0;
}

/* the next event, with the holds that begin before it said: 1, 0 none, <0 */
static int take_next(struct ctxp_node *node, struct ctxp_item *item, unsigned *input) {
  int r;
  while ((r = ctxp_merge_next(node->merge, item, input)) == 2)
    if ((r = emit_hold(node)) < 0) return r;
  return r < 0 && !node->error.text[0] ? ctxp_node_fail(node, r, "a topology event does not decode") : r;
}

int ctxp_node_work(struct ctxp_node *node, uint64_t now_ms, bool *ret_more) {
  struct ctxp_item item;
  unsigned input, count = 0;
  int r = 1;
  while (r == 1 && (count < WORK_COUNT || !ctxp_merge_between(node->merge))) {
    if (ctxp_merge_between(node->merge) && ctxp_node_full(node)) break;
    r = take_next(node, &item, &input);
    if (r != 1 || !ctxp_node_defer_takes(node, &item)) break;
    int done = deliver(node, &item, &node->upstreams[input]);
    if (done < 0) return done;
    node->events++;
    node->input_bytes += item.body.len;
    count++;
    ctxp_merge_take(node->merge);
    if (node->stream && ctxp_merge_between(node->merge) &&
        (ctxp_stream_pending(node->stream) >= node->config->commit_batch || node->pending_bytes >= COMMIT_BYTES))
      break;
  }
  if (r < 0) return r;
  if (count && !node->inputs) node->checkpoint_ms = now_ms; /* from the first input on */
  node->inputs += count;
  *ret_more = r == 1 && !ctxp_node_full(node) && ctxp_node_defer_takes(node, &item);
  return count ? ctxp_node_redo_check(node) : 0;
}
