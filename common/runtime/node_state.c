/* What a node keeps: commits, checkpoints, re-derivation after a crash, holds, retention.
 *
 * A checkpoint is the stage's state, the cursor of every upstream, the topology event in force and the length of the own stream, in
 * one transaction. After a crash the inputs are read again from there; what is derived again is in the stream already, past the
 * checkpoint's length, and is compared with it byte for byte instead of being appended twice. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "runtime/node_int.h"

#define CHECKPOINT_MS 1000
#define CHECKPOINT_INPUTS 32768
#define CHECKPOINT_BYTES (UINT64_C(32) << 20)
#define CHECKPOINT_FORMAT 1
#define RETAIN_MS 5000
#define RETAIN_TIGHT_MS 50
#define HOUR_MS UINT64_C(3600000)

static struct ctxp_raw key_of(const char *name) { return (struct ctxp_raw){(const uint8_t *)name, strlen(name)}; }

/* ---- loading ---- */
static int bad_checkpoint(struct ctxp_node *node) {
  return ctxp_node_fail(node, -EBADMSG,
      "the checkpoint in %s does not decode; restore it from a backup, or move the directory away to start afresh",
      ctxp_store_dir(node->store));
}

/* [format, done, own head, inputs [[name, place], ...]] of the last checkpoint in node->value; at: behind its third element */
static int open_checkpoint(struct ctxp_node *node, uint64_t *ret_done, uint64_t *ret_own, struct ctxp_cursor *ret_at) {
  struct ctxp_pack_value value;
  uint64_t n[3];
  *ret_done = *ret_own = 0;
  int r = ctxp_store_get(node->store, CTXP_DB_META, key_of("checkpoint"), &node->value, &node->error);
  if (r != 0) return r;
  struct ctxp_cursor at = ctxp_cursor(ctxp_buf_raw(&node->value));
  if (ctxp_cursor_next(&at, &value) < 0 || value.type != CTXP_PACK_ARRAY || value.count != 4) return bad_checkpoint(node);
  for (int i = 0; i < 3; i++) {
    if (ctxp_cursor_next(&at, &value) < 0 || value.type != CTXP_PACK_U64) return bad_checkpoint(node);
    n[i] = value.u;
  }
  if (n[0] != CHECKPOINT_FORMAT)
    return ctxp_node_fail(node, -EBADMSG,
        "the checkpoint in %s has format %llu, this version reads format %d; start it with the version that wrote it",
        ctxp_store_dir(node->store), (unsigned long long)n[0], CHECKPOINT_FORMAT);
  *ret_done = n[1];
  *ret_own = n[2];
  *ret_at = at;
  return 0;
}

struct ctxp_place ctxp_node_loaded_place(struct ctxp_node *node, const char *upstream) {
  struct ctxp_pack_value list, pair, name;
  struct ctxp_place place;
  struct ctxp_cursor at;
  uint64_t done, own;
  if (open_checkpoint(node, &done, &own, &at) != 0 || ctxp_cursor_next(&at, &list) < 0 || list.type != CTXP_PACK_ARRAY)
    return (struct ctxp_place){0};
  for (uint32_t i = list.count; i > 0; i--) {
    if (ctxp_cursor_next(&at, &pair) < 0 || pair.type != CTXP_PACK_ARRAY || pair.count != 2) break;
    if (ctxp_cursor_next(&at, &name) < 0 || name.type != CTXP_PACK_STR || ctxp_place_unpack(&at, &place) < 0) break;
    if (ctxp_str_is(name.str, upstream)) return place;
  }
  return (struct ctxp_place){0};
}

static int load_topology(struct ctxp_node *node) {
  struct ctxp_event event;
  int r = ctxp_store_get(node->store, CTXP_DB_META, key_of("topology"), &node->topology, &node->error);
  if (r == 1) {
    ctxp_buf_reset(&node->topology);
    return 0;
  }
  if (r < 0) return r;
  if (ctxp_event_decode(node->topology.ptr, node->topology.len, &event, NULL, NULL) < 0) return bad_checkpoint(node);
  return ctxp_stage_configure(node->stage, &event);
}

/* what the stream holds past the checkpoint, and which derivation wrote it */
static int load_tail(struct ctxp_node *node, uint64_t own) {
  struct ctxp_record record;
  if (!node->stream) return 0;
  node->redo_next = own + 1;
  node->redo_last = ctxp_stream_head(node->stream);
  if (node->redo_last < own)
    return ctxp_node_fail(node, -EBADMSG,
        "the stream in %s ends at event %llu and the checkpoint beside it at %llu; restore both from one backup",
        ctxp_store_dir(node->store), (unsigned long long)node->redo_last, (unsigned long long)own);
  int r = ctxp_store_get(node->store, CTXP_DB_META, key_of("derivation"), &node->value, &node->error);
  if (r < 0) return r;
  node->tail_version = node->ops->version;
  if (r == 0 && node->value.len == sizeof(node->tail_version)) memcpy(&node->tail_version, node->value.ptr, sizeof(node->tail_version));
  node->version_stored = r == 0 && node->tail_version == node->ops->version;
  if (node->redo_next > node->redo_last || node->version_stored) return 0;
  r = ctxp_stream_get(node->stream, node->redo_last, &node->value, &record, &node->error);
  node->tail_other = r == 0;
  node->tail_cause = r == 0 ? record.cause : 0;
  return r < 0 ? r : 0;
}

int ctxp_node_load(struct ctxp_node *node) {
  struct ctxp_cursor at;
  uint64_t done, own;
  int r = open_checkpoint(node, &done, &own, &at);
  if (r < 0) return r;
  if (node->source) own = ctxp_stream_head(node->stream); /* its stream is what it was given: nothing to derive again */
  r = load_topology(node);
  return r < 0 ? r : load_tail(node, own);
}

/* ---- holds ---- */
struct holds {
  struct ctxp_node *node;
  int code;
};

static int visit_hold(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  struct holds *holds = data;
  struct ctxp_node *node = holds->node;
  struct ctxp_str name = ctxp_map_str(value, "mechanism");
  (void)key;
  for (unsigned i = 0; i < node->upstream_count && holds->code == 0; i++)
    if (ctxp_str_is(name, node->upstreams[i].config->name))
      holds->code = ctxp_merge_hold(node->merge, i, ctxp_map_u64(value, "from", 0), ctxp_map_u64(value, "to", 0));
  return holds->code;
}

int ctxp_node_load_holds(struct ctxp_node *node) {
  struct holds holds = {node, 0};
  struct ctxp_cursor at;
  uint64_t done, own;
  int r = open_checkpoint(node, &done, &own, &at);
  if (r < 0) return r;
  r = ctxp_store_each(node->store, CTXP_DB_DECISIONS, key_of("hold/"), visit_hold, &holds, &node->error);
  if (r == 0) r = ctxp_merge_restore(node->merge, done, ctxp_buf_raw(&node->topology));
  return r < 0 && !node->error.text[0] ? bad_checkpoint(node) : r;
}

static int decide_hold(struct ctxp_node *node, unsigned input, uint64_t from, uint64_t to) {
  const char *name = node->upstreams[input].config->name;
  uint64_t order = __builtin_bswap64(from);
  ctxp_auto_buf key = {0}, value = {0};
  ctxp_buf_str(&key, "hold/");
  ctxp_buf_add(&key, &order, sizeof(order));
  ctxp_buf_str(&key, name);
  ctxp_pack_map(&value, 3);
  ctxp_pack_cstr(&value, "mechanism");
  ctxp_pack_cstr(&value, name);
  ctxp_pack_cstr(&value, "from");
  ctxp_pack_u64(&value, from);
  ctxp_pack_cstr(&value, "to");
  ctxp_pack_u64(&value, to);
  if (ctxp_buf_error(&key) < 0 || ctxp_buf_error(&value) < 0) return ctxp_node_fail(node, -ENOMEM, "out of memory for a hold");
  int r = ctxp_store_put(node->store, CTXP_DB_DECISIONS, ctxp_buf_raw(&key), ctxp_buf_raw(&value), &node->error);
  if (r == 0) r = ctxp_node_commit(node, ctxp_clock_ms()); /* stored before it is used */
  if (r == 0 && ctxp_merge_hold(node->merge, input, from, to) < 0) r = ctxp_node_fail(node, -ENOMEM, "out of memory for a hold");
  if (r == 0)
    ctxp_log(
        CTXP_LOG_WARN, "merge", "node '%s' is passed over for events %llu to %llu", name, (unsigned long long)from, (unsigned long long)to);
  return r;
}

int ctxp_node_hold(struct ctxp_node *node, uint64_t now_ms, uint64_t *ret_next_ms) {
  uint64_t from, to, limit_ms = node->config->max_hold_s * 1000;
  unsigned input;
  bool waits = ctxp_merge_waits(node->merge, &input, &from, &to);
  for (unsigned i = 0; i < node->upstream_count; i++) ctxp_sub_hungry(node->upstreams[i].sub, waits && i == input);
  *ret_next_ms = UINT64_MAX;
  if (!waits || limit_ms == 0 || node->upstreams[input].config->ops->role != CTXP_ROLE_MECHANISM_NODE) {
    node->wait_from = 0;
    return 0;
  }
  if (node->wait_from != from || node->wait_input != input) {
    node->wait_from = from;
    node->wait_input = input;
    node->wait_since_ms = now_ms;
  }
  *ret_next_ms = node->wait_since_ms + limit_ms;
  if (now_ms < *ret_next_ms) return 0;
  *ret_next_ms = now_ms;
  node->wait_from = 0;
  return decide_hold(node, input, from, to > from ? to : from);
}

/* ---- deriving again ---- */
static int differs(struct ctxp_node *node, const struct ctxp_record *mine, uint64_t seq) {
  char topic[CTXP_TOPIC_MAX];
  ctxp_topic_text(mine->topic, topic);
  return ctxp_node_fail(node, -ENOTRECOVERABLE,
      "node '%s' derives another event from event %llu than it did before (%s differs from event %llu of its stream, same version %u): "
      "this is "
      "a fault of ctxpipe; the stream is left as it was",
      node->self->name, (unsigned long long)mine->cause, topic, (unsigned long long)seq, node->ops->version);
}

int ctxp_node_redo(struct ctxp_node *node, const struct ctxp_record *record) {
  struct ctxp_record stored;
  if (node->redo_next > node->redo_last) return 0;
  if (node->tail_other) {
    if (record->cause <= node->tail_cause) return 1;
    node->redo_next = node->redo_last + 1;
    return 0;
  }
  int r = ctxp_stream_get(node->stream, node->redo_next, &node->value, &stored, &node->error);
  if (r < 0) return r;
  bool same = r == 0 && stored.topic == record->topic && stored.cause == record->cause && stored.ts_ms == record->ts_ms &&
      stored.body.len == record->body.len && memcmp(stored.body.ptr, record->body.ptr, record->body.len) == 0;
  if (!same) return differs(node, record, node->redo_next);
  node->redo_next++;
  return 1;
}

int ctxp_node_redo_check(struct ctxp_node *node) {
  struct ctxp_record stored;
  if (!node->stream || node->tail_other || node->redo_next > node->redo_last) return 0;
  int r = ctxp_stream_get(node->stream, node->redo_next, &node->value, &stored, &node->error);
  if (r < 0) return r;
  return r == 0 && stored.cause <= ctxp_node_done(node) ? differs(node, &stored, node->redo_next) : 0;
}

/* ---- commits ---- */
static int store_version(struct ctxp_node *node) {
  uint64_t version = node->ops->version;
  if (node->version_stored || node->source) return 0;
  int r = ctxp_store_put(
      node->store, CTXP_DB_META, key_of("derivation"), (struct ctxp_raw){(uint8_t *)&version, sizeof(version)}, &node->error);
  node->version_stored = r == 0;
  return r;
}

/* the transaction as it stands, and what is to be published */
static int commit_txn(struct ctxp_node *node, uint64_t now_ms) {
  bool appended = node->stream && ctxp_stream_pending(node->stream);
  int r = appended ? store_version(node) : 0;
  if (r == 0 && node->source && node->source_opened && node->source->before_commit) r = node->source->before_commit(node, node->stage);
  if (r == 0)
    r = node->stream ? ctxp_stream_commit(node->stream, ctxp_clock_utc_ms(), &node->error) : ctxp_store_commit(node->store, &node->error);
  if (r < 0) {
    if (node->publisher) ctxp_publisher_drop(node->publisher);
    return r;
  }
  node->pending_bytes = 0;
  node->events += node->appended;
  node->appended = 0;
  node->hurry = false;
  node->linger_until_ms = 0;
  if (node->publisher) {
    ctxp_publisher_set(node->publisher, ctxp_node_done(node), ctxp_node_flow_state(node));
    ctxp_publisher_flush(node->publisher, now_ms);
  }
  if (node->source && node->source_opened && node->source->after_commit)
    r = node->source->after_commit(node, node->stage, ctxp_stream_head(node->stream));
  return r;
}

bool ctxp_node_unsaid(const struct ctxp_node *node) {
  return node->publisher && ctxp_publisher_watermark(node->publisher) != ctxp_node_done(node);
}

int ctxp_node_commit(struct ctxp_node *node, uint64_t now_ms) {
  if (node->state_dirty) return ctxp_node_checkpoint(node, now_ms, false); /* state without its cursors would be of another time */
  if (ctxp_store_open_txn(node->store)) return commit_txn(node, now_ms);
  node->linger_until_ms = 0;
  if (ctxp_node_unsaid(node)) {
    ctxp_publisher_set(node->publisher, ctxp_node_done(node), ctxp_node_flow_state(node));
    ctxp_publisher_flush(node->publisher, now_ms);
  }
  return 0;
}

static int put_checkpoint(struct ctxp_node *node, struct ctxp_place *places) {
  ctxp_auto_buf out = {0};
  ctxp_pack_array(&out, 4);
  ctxp_pack_u64(&out, CHECKPOINT_FORMAT);
  ctxp_pack_u64(&out, ctxp_node_done(node));
  /* while the tail is derived again the checkpoint may not claim what was not reached */
  bool redoing = node->stream && node->redo_next <= node->redo_last;
  ctxp_pack_u64(&out, !node->stream ? 0 : redoing ? node->redo_next - 1 :
                                                    ctxp_stream_next(node->stream) - 1);
  ctxp_pack_array(&out, node->upstream_count);
  for (unsigned i = 0; i < node->upstream_count; i++) {
    const struct ctxp_place *deferred = ctxp_node_deferred_place(node, &node->upstreams[i]);
    places[i] = deferred ? *deferred : ctxp_sub_place(node->upstreams[i].sub);
    ctxp_pack_array(&out, 2);
    ctxp_pack_cstr(&out, node->upstreams[i].config->name);
    ctxp_place_pack(&out, &places[i]);
  }
  if (ctxp_buf_error(&out) < 0) return ctxp_node_fail(node, -ENOMEM, "out of memory for a checkpoint");
  int r = ctxp_store_put(node->store, CTXP_DB_META, key_of("checkpoint"), ctxp_buf_raw(&out), &node->error);
  if (r == 0 && node->topology_dirty)
    r = ctxp_store_put(node->store, CTXP_DB_META, key_of("topology"), ctxp_buf_raw(&node->topology), &node->error);
  return r;
}

int ctxp_node_checkpoint(struct ctxp_node *node, uint64_t now_ms, bool ended) {
  if (node->source) return ctxp_node_commit(node, now_ms);
  if (node->defer.ahead) return commit_txn(node, now_ms); /* the state is ahead of the stream: what it is will be derived again */
  struct ctxp_place *places = calloc(node->upstream_count ? node->upstream_count : 1, sizeof(*places));
  if (!places) return ctxp_node_fail(node, -ENOMEM, "out of memory for a checkpoint");
  node->saving = true;
  int r = ctxp_stage_save(node->stage);
  node->saving = false;
  if (r < 0 && !node->error.text[0])
    ctxp_node_fail(node, r, "node '%s' cannot save its state: %s", node->self->name, node->last_error[0] ? node->last_error : strerror(-r));
  if (r == 0) r = put_checkpoint(node, places);
  node->state_dirty = false;
  if (r == 0) r = commit_txn(node, now_ms);
  if (r == 0) {
    node->inputs = node->input_bytes = 0;
    node->checkpoint_ms = now_ms;
    node->topology_dirty = false;
    for (unsigned i = 0; i < node->upstream_count; i++) ctxp_sub_report(node->upstreams[i].sub, &places[i], ended);
  }
  free(places);
  return r;
}

bool ctxp_node_checkpoint_due(const struct ctxp_node *node, uint64_t now_ms) {
  if (node->source || !node->inputs || node->defer.ahead) return false;
  return now_ms >= node->checkpoint_ms + CHECKPOINT_MS || node->inputs >= CHECKPOINT_INPUTS || node->input_bytes >= CHECKPOINT_BYTES;
}

uint64_t ctxp_node_checkpoint_next(const struct ctxp_node *node) {
  return node->source || !node->inputs || node->defer.ahead ? UINT64_MAX : node->checkpoint_ms + CHECKPOINT_MS;
}

/* ---- retention ---- */
int ctxp_node_retain(struct ctxp_node *node, uint64_t now_ms, bool *ret_more) {
  *ret_more = false;
  if (!node->stream || ctxp_store_open_txn(node->store)) return 0;
  bool at_once = node->config->when_full_drop && ctxp_stream_full(node->stream); /* nobody is held, so nothing else keeps the limit */
  if (now_ms < node->retain_ms && !at_once) return 0;
  uint64_t done = node->publisher ? ctxp_publisher_done(node->publisher) : ctxp_stream_head(node->stream);
  uint64_t own = node->redo_next <= node->redo_last ? node->redo_next - 1 : ctxp_stream_head(node->stream);
  struct ctxp_retention rule = {.done = done < own ? done : own,
      .retain_ms = node->config->retain_hours * HOUR_MS,
      .utc_ms = ctxp_clock_utc_ms(),
      .drop = node->config->when_full_drop};
  int r = ctxp_stream_retain(node->stream, &rule, ret_more, &node->error);
  if (r == 0) r = ctxp_node_forget_decisions(node);
  bool tight = ctxp_stream_bytes(node->stream) > node->config->max_bytes / 2;
  node->retain_ms = *ret_more ? now_ms : now_ms + (tight ? RETAIN_TIGHT_MS : RETAIN_MS);
  return r;
}
