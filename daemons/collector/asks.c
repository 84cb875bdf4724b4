#include <errno.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "codec/tools.h"
#include "collector/asks.h"
#include "collector/merge.h"

#define RECORD 'a' /* first byte of a record's key */
#define RECORD_VERSION 1
#define WORKING_MORE_MS 1000 /* beyond a model's own time-out */

/* ---- topology ---- */
static bool subscribes(const struct ctxp_node_config *node, const char *to) {
  for (char **name = node->subscribe; name && *name; name++)
    if (strcmp(*name, to) == 0) return true;
  return false;
}

static struct ctxp_asker asker_of(const struct ctxp_node_config *node, uint64_t grace_ms) {
  struct ctxp_raw options = ctxp_buf_raw(&node->options);
  bool aux = ctxp_str_is(ctxp_map_str(options, "engine"), "aux");
  uint64_t timeout = ctxp_map_u64(options, "timeout_ms", 0);
  return (struct ctxp_asker){node->name, node->ops->consumes, grace_ms, aux && timeout ? timeout + WORKING_MORE_MS : grace_ms};
}

int ctxp_asks_configure(struct ctxp_asks *asks, const struct ctxp_config *config, const char *collector, struct ctxp_error *err) {
  asks->asker_count = 0;
  for (unsigned i = 0; i < config->node_count; i++) {
    const struct ctxp_node_config *node = &config->nodes[i];
    if (node->ops->role != CTXP_ROLE_MECHANISM_NODE || !subscribes(node, collector)) continue;
    if (asks->asker_count == CTXP_MECHANISMS_MAX)
      return ctxp_error_set(err, -E2BIG, "node '%s': a collector answers for at most %d mechanisms", node->name, CTXP_MECHANISMS_MAX);
    asks->askers[asks->asker_count++] = asker_of(node, config->answer_grace_ms);
  }
  return 0;
}

uint64_t ctxp_asks_longest_ms(const struct ctxp_asks *asks) {
  uint64_t longest = 0;
  for (unsigned i = 0; i < asks->asker_count; i++) {
    if (asks->askers[i].grace_ms > longest) longest = asks->askers[i].grace_ms;
    if (asks->askers[i].working_ms > longest) longest = asks->askers[i].working_ms;
  }
  return longest;
}

uint64_t ctxp_asks_need(const struct ctxp_asks *asks, const struct ctxp_event *event) {
  unsigned topic = ctxp_topic_of(event);
  uint64_t need = 0;
  for (unsigned i = 0; i < asks->asker_count; i++)
    if (ctxp_topic_consumed(topic, asks->askers[i].consumes)) need |= UINT64_C(1) << i;
  return need;
}

bool ctxp_asks_full(const struct ctxp_asks *asks) { return HASH_COUNT(asks->open) >= CTXP_ASKS_MAX || asks->bytes >= CTXP_ASKS_BYTES_MAX; }

/* ---- records ---- */
static struct ctxp_raw record_name(uint64_t seq, uint8_t room[9]) {
  room[0] = RECORD;
  for (int i = 0; i < 8; i++) room[1 + i] = (uint8_t)(seq >> (56 - 8 * i));
  return (struct ctxp_raw){room, 9};
}

static int put_record(const struct ctxp_asks *asks, const struct ctxp_ask *ask, struct ctxp_error *err) {
  ctxp_auto_buf value = {0};
  uint8_t room[9];
  ctxp_pack_array(&value, 6);
  ctxp_pack_u64(&value, RECORD_VERSION);
  ctxp_pack_u64(&value, ask->client_seq);
  ctxp_pack_cstr(&value, ask->key);
  ctxp_buf_add(&value, ask->window.ptr, ask->window.len);
  if (value.failed) return ctxp_error_set(err, -ENOMEM, "out of memory for an ask");
  return ctxp_store_put(asks->store, CTXP_DB_CLIENTS, record_name(ask->seq, room), ctxp_buf_raw(&value), err);
}

static void ask_free(struct ctxp_ask *ask) {
  if (!ask) return;
  for (unsigned i = 0; i < CTXP_MECHANISMS_MAX; i++) ctxp_buf_deinit(&ask->actions[i]);
  ctxp_buf_deinit(&ask->window);
  ctxp_buf_deinit(&ask->messages);
  ctxp_buf_deinit(&ask->answer);
  free(ask->key);
  free(ask);
}

static void ask_free_ptr(struct ctxp_ask **ask) { ask_free(*ask); }

static int insert(struct ctxp_asks *asks, struct ctxp_ask *ask) {
  ctxp_map_failed = false;
  HASH_ADD(hh, asks->open, seq, sizeof(ask->seq), ask);
  if (ctxp_map_failed) return -ENOMEM;
  asks->bytes += ask->messages.len;
  return 0;
}

static void take_out(struct ctxp_asks *asks, struct ctxp_ask *ask) {
  asks->bytes -= ask->messages.len;
  HASH_DEL(asks->open, ask);
  ask_free(ask);
}

struct load {
  struct ctxp_asks *asks;
  uint64_t now_ms;
};

static int load_record(void *data, struct ctxp_raw name, struct ctxp_raw value) {
  struct load *load = data;
  struct ctxp_cursor c = ctxp_cursor(value);
  struct ctxp_pack_value version, client_seq, key;
  uint32_t count;
  if (name.len != 9 || ctxp_array_open(&c, &count) < 0 || count != 6 || ctxp_cursor_next(&c, &version) < 0 || version.u != RECORD_VERSION)
    return -EBADMSG;
  if (ctxp_cursor_next(&c, &client_seq) < 0 || ctxp_cursor_next(&c, &key) < 0 || key.type != CTXP_PACK_STR) return -EBADMSG;
  ctxp_cleanup(ask_free_ptr) struct ctxp_ask *ask = calloc(1, sizeof(*ask));
  if (!ask) return -ENOMEM;
  for (int i = 0; i < 8; i++) ask->seq = ask->seq << 8 | name.ptr[1 + i];
  ask->client_seq = client_seq.u;
  ask->state = CTXP_ASK_RESTORED;
  ask->arrived_ms = load->now_ms;
  ask->until_ms = load->now_ms + load->asks->confirm_ms;
  ask->key = ctxp_str_dup(key.str);
  ctxp_buf_add(&ask->window, c.at, (size_t)(c.end - c.at));
  if (!ask->key || ask->window.failed) return -ENOMEM;
  int r = insert(load->asks, ask);
  if (r == 0) ask = NULL;
  return r;
}

int ctxp_asks_open(struct ctxp_asks *asks, struct ctxp_store *store, uint64_t now_ms, struct ctxp_error *err) {
  struct load load = {asks, now_ms};
  const uint8_t prefix[1] = {RECORD};
  asks->store = store;
  int r = ctxp_store_each(store, CTXP_DB_CLIENTS, (struct ctxp_raw){prefix, 1}, load_record, &load, err);
  if (r == -EBADMSG)
    return ctxp_error_set(
        err, r, "%s: the record of an ask cannot be read; the store is damaged or of a later version", ctxp_store_dir(store));
  return r == -ENOMEM ? ctxp_error_set(err, r, "out of memory for the asks of %s", ctxp_store_dir(store)) : r;
}

void ctxp_asks_deinit(struct ctxp_asks *asks) {
  struct ctxp_ask *ask, *next;
  HASH_ITER(hh, asks->open, ask, next)
  take_out(asks, ask);
}

/* ---- one ask ---- */
int ctxp_asks_add(struct ctxp_asks *asks, const struct ctxp_event *event, uint64_t seq, const char *key, uint64_t client_seq, uint64_t need,
    uint64_t now_ms, struct ctxp_error *err) {
  ctxp_cleanup(ask_free_ptr) struct ctxp_ask *ask = calloc(1, sizeof(*ask));
  if (!ask) return ctxp_error_set(err, -ENOMEM, "out of memory for an ask");
  ask->seq = seq;
  ask->client_seq = client_seq;
  ask->need = need;
  ask->arrived_ms = now_ms;
  ask->key = ctxp_str_dup(ctxp_str(key));
  ctxp_pack_str(&ask->window, event->agent);
  ctxp_pack_str(&ask->window, event->session);
  ctxp_pack_str(&ask->window, event->thread);
  if (event->kind == CTXP_KIND_context && (need & (need - 1))) {
    ctxp_buf_add(&ask->messages, event->context.messages.ptr, event->context.messages.len);
    ask->message_count = event->context.messages.count;
  }
  if (!ask->key || ask->window.failed || ask->messages.failed) return ctxp_error_set(err, -ENOMEM, "out of memory for an ask");
  int r = put_record(asks, ask, err);
  if (r == 0 && insert(asks, ask) < 0) r = ctxp_error_set(err, -ENOMEM, "out of memory for an ask");
  if (r == 0) ask = NULL;
  return r;
}

struct ctxp_ask *ctxp_asks_find(const struct ctxp_asks *asks, uint64_t seq) {
  struct ctxp_ask *ask;
  HASH_FIND(hh, asks->open, &seq, sizeof(seq), ask);
  return ask;
}

struct ctxp_ask *ctxp_asks_of(const struct ctxp_asks *asks, const char *key, uint64_t client_seq) {
  struct ctxp_ask *ask, *next;
  HASH_ITER(hh, asks->open, ask, next)
  if (ask->client_seq == client_seq && strcmp(ask->key, key) == 0) return ask;
  return NULL;
}

int ctxp_asks_close(struct ctxp_asks *asks, struct ctxp_ask *ask, struct ctxp_error *err) {
  uint8_t room[9];
  int r = ctxp_store_del(asks->store, CTXP_DB_CLIENTS, record_name(ask->seq, room), err);
  take_out(asks, ask);
  return r;
}

int ctxp_asks_revert(struct ctxp_asks *asks, uint64_t now_ms, struct ctxp_error *err) {
  ctxp_asks_deinit(asks);
  return ctxp_asks_open(asks, asks->store, now_ms, err);
}

static int asker_index(const struct ctxp_asks *asks, struct ctxp_str node) {
  for (unsigned i = 0; i < asks->asker_count; i++)
    if (ctxp_str_is(node, asks->askers[i].node)) return (int)i;
  return -1;
}

int ctxp_asks_verdict(struct ctxp_asks *asks, const struct ctxp_verdict *verdict, struct ctxp_ask **ret_ask) {
  struct ctxp_ask *ask = ctxp_asks_find(asks, verdict->ask_seq);
  int i = asker_index(asks, verdict->node);
  if (!ask || i < 0 || ask->state != CTXP_ASK_WAITING) return 0;
  uint64_t bit = UINT64_C(1) << i;
  if (!(ask->need & bit) || (ask->spoken & bit)) return 0;
  if (verdict->kind == CTXP_VERDICT_WORKING) return ask->working |= bit, 0;
  if (verdict->kind == CTXP_VERDICT_ACTIONS) ctxp_buf_add(&ask->actions[i], verdict->actions.ptr, verdict->actions.len);
  if (ask->actions[i].failed) return -ENOMEM;
  ask->spoken |= bit;
  *ret_ask = ask;
  return ask->spoken == ask->need;
}

int ctxp_ask_merge(const struct ctxp_asks *asks, struct ctxp_ask *ask) {
  struct ctxp_raw actions[CTXP_MECHANISMS_MAX];
  unsigned said = 0, last = 0;
  for (unsigned i = 0; i < asks->asker_count; i++) {
    actions[i] = ctxp_buf_raw(&ask->actions[i]);
    if (actions[i].len) said++, last = i;
  }
  ctxp_buf_reset(&ask->answer);
  if (said == 0) return 0;
  if (said > 1)
    return ctxp_merge(
        (struct ctxp_list){ask->messages.ptr, ask->messages.len, ask->message_count}, actions, asks->asker_count, &ask->answer);
  struct ctxp_cursor c = ctxp_cursor(actions[last]); /* one alone is the answer as it is */
  uint32_t pairs;
  if (ctxp_map_open(&c, &pairs) < 0) return 0;
  ctxp_buf_add(&ask->answer, actions[last].ptr, actions[last].len);
  return ask->answer.failed ? -ENOMEM : pairs > 0;
}

uint64_t ctxp_ask_deadline(const struct ctxp_asks *asks, const struct ctxp_ask *ask, unsigned i) {
  return ask->arrived_ms + ((ask->working >> i & 1) ? asks->askers[i].working_ms : asks->askers[i].grace_ms);
}

uint64_t ctxp_ask_due(const struct ctxp_asks *asks, const struct ctxp_ask *ask) {
  uint64_t due = UINT64_MAX;
  if (ask->state != CTXP_ASK_WAITING) return ask->until_ms;
  for (unsigned i = 0; i < asks->asker_count; i++) {
    if (!((ask->need & ~ask->spoken) >> i & 1)) continue;
    uint64_t at = ctxp_ask_deadline(asks, ask, i);
    if (at < due) due = at;
  }
  return due;
}

int ctxp_ask_missed(const struct ctxp_ask *ask, const char *reason, const char *mechanism, struct ctxp_event *ret) {
  struct ctxp_cursor c = ctxp_cursor(ctxp_buf_raw(&ask->window));
  struct ctxp_str *const parts[3] = {&ret->agent, &ret->session, &ret->thread};
  struct ctxp_pack_value v;
  *ret = (struct ctxp_event){.kind = CTXP_KIND_answer_missed};
  for (int i = 0; i < 3; i++) {
    if (ctxp_cursor_next(&c, &v) < 0 || v.type != CTXP_PACK_STR) return -EBADMSG;
    *parts[i] = v.str;
  }
  ctxp_set(&ret->answer_missed, answer_missed, askSeq, ask->seq);
  ctxp_set(&ret->answer_missed, answer_missed, reason, ctxp_str(reason));
  if (mechanism) ctxp_set(&ret->answer_missed, answer_missed, mechanism, ctxp_str(mechanism));
  return 0;
}
