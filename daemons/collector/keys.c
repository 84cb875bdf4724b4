#include <errno.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "bus/ingest.h"
#include "collector/keys.h"

#define AGENTS_MAX 1024 /* names beyond are counted together */
#define OTHERS "(others)"
#define RECORD 'k' /* first byte of a record's key; asks have another */

enum { RECORD_FORGOTTEN,
  RECORD_V1, /* without the first refusal */
  RECORD_V2 };

/* ---- records ---- */
struct record {
  uint64_t version, position, events, refused, seen_ms;
  struct ctxp_str agent, product, refusal;
  struct ctxp_raw chain;
};

static int read_u64(struct ctxp_cursor *c, uint64_t *ret) {
  struct ctxp_pack_value v;
  if (ctxp_cursor_next(c, &v) < 0 || v.type != CTXP_PACK_U64) return -EBADMSG;
  *ret = v.u;
  return 0;
}

static int read_str(struct ctxp_cursor *c, struct ctxp_str *ret) {
  struct ctxp_pack_value v;
  if (ctxp_cursor_next(c, &v) < 0 || v.type != CTXP_PACK_STR) return -EBADMSG;
  *ret = v.str;
  return 0;
}

static int read_record(struct ctxp_raw value, struct record *ret) {
  struct ctxp_cursor c = ctxp_cursor(value);
  uint32_t count;
  *ret = (struct record){0};
  if (ctxp_array_open(&c, &count) < 0 || read_u64(&c, &ret->version) < 0 || read_u64(&c, &ret->position) < 0) return -EBADMSG;
  if (ret->version == RECORD_FORGOTTEN) return 0;
  if ((ret->version != RECORD_V1 || count != 8) && (ret->version != RECORD_V2 || count != 9)) return -EBADMSG;
  if (read_str(&c, &ret->agent) < 0 || read_str(&c, &ret->product) < 0 || read_u64(&c, &ret->events) < 0 ||
      read_u64(&c, &ret->refused) < 0 || read_u64(&c, &ret->seen_ms) < 0)
    return -EBADMSG;
  int r = ctxp_cursor_skip(&c, &ret->chain);
  return r == 0 && ret->version == RECORD_V2 ? read_str(&c, &ret->refusal) : r;
}

static void write_record(struct ctxp_buf *out, const struct ctxp_key *key) {
  ctxp_pack_array(out, 9);
  ctxp_pack_u64(out, RECORD_V2);
  ctxp_pack_u64(out, key->position);
  ctxp_pack_cstr(out, key->agent->name);
  ctxp_pack_cstr(out, key->product);
  ctxp_pack_u64(out, key->events);
  ctxp_pack_u64(out, key->refused);
  ctxp_pack_u64(out, key->seen_ms);
  ctxp_chain_pack(out, &key->chain);
  ctxp_pack_cstr(out, key->refusal);
}

static struct ctxp_raw record_name(struct ctxp_str name, uint8_t room[1 + CTXP_INGEST_KEY_MAX]) {
  room[0] = RECORD;
  memcpy(room + 1, name.ptr, name.len);
  return (struct ctxp_raw){room, 1 + name.len};
}

/* ---- agents ---- */
static struct ctxp_agent *agent_of(struct ctxp_keys *keys, struct ctxp_str name) {
  struct ctxp_agent *agent;
  HASH_FIND(hh, keys->agents, name.ptr, name.len, agent);
  if (agent) return agent;
  if (HASH_COUNT(keys->agents) >= AGENTS_MAX && !ctxp_str_is(name, OTHERS)) return agent_of(keys, CTXP_STR(OTHERS));
  agent = calloc(1, sizeof(*agent));
  if (agent) agent->name = ctxp_str_dup(name);
  ctxp_map_failed = !agent || !agent->name;
  if (!ctxp_map_failed) HASH_ADD_KEYPTR(hh, keys->agents, agent->name, name.len, agent);
  if (!ctxp_map_failed) return agent;
  if (agent) free(agent->name);
  free(agent);
  return NULL;
}

/* ---- open, forget ---- */
struct scan {
  struct ctxp_keys *keys;
  uint64_t oldest_ms;
  bool count;
};

static int forget(struct ctxp_keys *keys, struct ctxp_raw name, uint64_t position) {
  ctxp_auto_buf value = {0};
  struct ctxp_error err;
  ctxp_pack_array(&value, 2);
  ctxp_pack_u64(&value, RECORD_FORGOTTEN);
  ctxp_pack_u64(&value, position);
  keys->forgotten++;
  return value.failed ? -ENOMEM : ctxp_store_put(keys->store, CTXP_DB_CLIENTS, name, ctxp_buf_raw(&value), &err);
}

static int visit_record(void *data, struct ctxp_raw name, struct ctxp_raw value) {
  struct scan *scan = data;
  struct record record;
  struct ctxp_str text = {(const char *)name.ptr + 1, name.len - 1};
  if (read_record(value, &record) < 0) return -EBADMSG;
  if (record.version == RECORD_FORGOTTEN) return 0;
  struct ctxp_agent *agent = scan->count ? agent_of(scan->keys, record.agent) : NULL;
  if (scan->count && !agent) return -ENOMEM;
  if (agent) {
    agent->events += record.events;
    agent->refused += record.refused;
    if (record.seen_ms > agent->seen_ms) agent->seen_ms = record.seen_ms;
  }
  return record.seen_ms < scan->oldest_ms && !ctxp_keys_find(scan->keys, text) ? forget(scan->keys, name, record.position) : 0;
}

static int scan_records(struct ctxp_keys *keys, uint64_t oldest_ms, bool count, struct ctxp_error *err) {
  struct scan scan = {keys, oldest_ms, count};
  const uint8_t prefix[1] = {RECORD};
  int r = ctxp_store_each(keys->store, CTXP_DB_CLIENTS, (struct ctxp_raw){prefix, 1}, visit_record, &scan, err);
  if (r == -EBADMSG)
    return ctxp_error_set(
        err, r, "%s: a client's record cannot be read; the store is damaged or of a later version", ctxp_store_dir(keys->store));
  return r == -ENOMEM ? ctxp_error_set(err, r, "out of memory for the clients of %s", ctxp_store_dir(keys->store)) : r;
}

int ctxp_keys_open(struct ctxp_keys *keys, struct ctxp_store *store, uint64_t oldest_ms, struct ctxp_error *err) {
  *keys = (struct ctxp_keys){.store = store};
  return scan_records(keys, oldest_ms, true, err);
}

int ctxp_keys_forget(struct ctxp_keys *keys, uint64_t oldest_ms, struct ctxp_error *err) {
  return scan_records(keys, oldest_ms, false, err);
}

/* ---- connections ---- */
static size_t conn_id(uint8_t room[256], unsigned socket, struct ctxp_raw route) {
  room[0] = (uint8_t)socket;
  size_t len = route.len < 255 ? route.len : 255;
  memcpy(room + 1, route.ptr, len);
  return 1 + len;
}

struct ctxp_conn *ctxp_keys_conn(const struct ctxp_keys *keys, unsigned socket, struct ctxp_raw route) {
  uint8_t id[256];
  struct ctxp_conn *conn;
  size_t len = conn_id(id, socket, route);
  HASH_FIND(hh, keys->conns, id, len, conn);
  return conn;
}

static void unbind(struct ctxp_keys *keys, struct ctxp_conn *conn) {
  if (!conn) return;
  conn->key->conn = NULL;
  if (conn->key->agent->clients) conn->key->agent->clients--;
  HASH_DEL(keys->conns, conn);
  free(conn);
}

int ctxp_keys_bind(struct ctxp_keys *keys, struct ctxp_key *key, unsigned socket, struct ctxp_raw route, struct ctxp_conn *ret_old) {
  struct ctxp_conn *conn = ctxp_keys_conn(keys, socket, route);
  if (conn && conn->key == key) return 0;
  unbind(keys, conn); /* it goes on as another client */
  conn = calloc(1, sizeof(*conn));
  ctxp_map_failed = !conn;
  if (!conn) return -ENOMEM;
  *conn = (struct ctxp_conn){.key = key, .socket = socket, .route_len = (uint8_t)(route.len < 255 ? route.len : 255)};
  memcpy(conn->route, route.ptr, conn->route_len);
  size_t len = conn_id(conn->id, socket, route);
  HASH_ADD(hh, keys->conns, id, len, conn);
  if (ctxp_map_failed) {
    free(conn);
    return -ENOMEM;
  }
  bool had = key->conn != NULL;
  if (had) *ret_old = *key->conn;
  unbind(keys, key->conn);
  key->conn = conn;
  key->agent->clients++;
  return had ? 1 : 0;
}

/* ---- keys ---- */
static void key_free(struct ctxp_keys *keys, struct ctxp_key *key) {
  unbind(keys, key->conn);
  HASH_DEL(keys->by_name, key); /* NOLINT: the analyser loses track in uthash */
  free(key->name);
  free(key->product);
  free(key);
}

struct ctxp_key *ctxp_keys_find(const struct ctxp_keys *keys, struct ctxp_str name) {
  struct ctxp_key *key;
  HASH_FIND(hh, keys->by_name, name.ptr, name.len, key);
  return key;
}

static void remember(struct ctxp_key *key) {
  key->since_events = key->events;
  key->since_refused = key->refused;
  key->since_unknown = key->unknown_keys;
}

static int load(struct ctxp_keys *keys, struct ctxp_str name, struct ctxp_key *key, struct ctxp_error *err) {
  uint8_t room[1 + CTXP_INGEST_KEY_MAX];
  struct record record;
  int r = ctxp_store_get(keys->store, CTXP_DB_CLIENTS, record_name(name, room), &keys->scratch, err);
  if (r != 0) return r < 0 ? r : 0;
  if (read_record(ctxp_buf_raw(&keys->scratch), &record) < 0 ||
      (record.version != RECORD_FORGOTTEN && ctxp_chain_unpack(record.chain, &key->chain) < 0))
    return ctxp_error_set(
        err, -EBADMSG, "%s: the record of client '%.*s' cannot be read", ctxp_store_dir(keys->store), (int)name.len, name.ptr);
  key->position = key->committed = record.position;
  key->events = record.events;
  key->refused = record.refused;
  key->seen_ms = record.seen_ms;
  ctxp_key_note_refusal(key, record.refusal);
  remember(key);
  return 0;
}

static struct ctxp_key *key_new(struct ctxp_keys *keys, struct ctxp_str name, struct ctxp_error *err) {
  struct ctxp_key *key = calloc(1, sizeof(*key));
  if (key) key->name = ctxp_str_dup(name);
  int r = key && key->name ? load(keys, name, key, err) :
                             ctxp_error_set(err, -ENOMEM, "out of memory for client '%.*s'", (int)name.len, name.ptr);
  ctxp_map_failed = false;
  if (r == 0) HASH_ADD_KEYPTR(hh, keys->by_name, key->name, name.len, key);
  if (r == 0 && !ctxp_map_failed) return key;
  if (r == 0) ctxp_error_set(err, -ENOMEM, "out of memory for client '%.*s'", (int)name.len, name.ptr);
  if (key) free(key->name);
  free(key);
  return NULL;
}

struct ctxp_key *ctxp_keys_get(
    struct ctxp_keys *keys, struct ctxp_str name, struct ctxp_str agent_name, struct ctxp_str product, struct ctxp_error *err) {
  struct ctxp_key *key = ctxp_keys_find(keys, name);
  bool fresh = !key;
  if (!key) key = key_new(keys, name, err);
  if (!key) return NULL;
  if (!fresh) { /* last in the order of hellos; the table has room, as it was in it */
    HASH_DEL(keys->by_name, key);
    ctxp_map_failed = false;
    HASH_ADD_KEYPTR(hh, keys->by_name, key->name, name.len, key);
  }
  struct ctxp_agent *agent = agent_of(keys, agent_name);
  char *text = ctxp_str_dup(product);
  if (!agent || !text) {
    free(text);
    if (fresh) key_free(keys, key);
    ctxp_error_set(err, -ENOMEM, "out of memory for client '%.*s'", (int)name.len, name.ptr);
    return NULL;
  }
  if (key->conn && key->agent != agent) {
    if (key->agent->clients) key->agent->clients--;
    agent->clients++;
  }
  key->agent = agent;
  free(key->product);
  key->product = text;
  return key;
}

void ctxp_key_change(struct ctxp_keys *keys, struct ctxp_key *key) {
  key->put = false;
  if (key->changed) return;
  key->changed = true;
  key->next_changed = keys->changed;
  keys->changed = key;
}

int ctxp_keys_put(struct ctxp_keys *keys, struct ctxp_error *err) {
  uint8_t room[1 + CTXP_INGEST_KEY_MAX];
  for (struct ctxp_key *key = keys->changed; key; key = key->next_changed) {
    if (key->put) continue;
    ctxp_buf_reset(&keys->scratch);
    write_record(&keys->scratch, key);
    int r = keys->scratch.failed ?
        ctxp_error_set(err, -ENOMEM, "out of memory for client '%s'", key->name) :
        ctxp_store_put(keys->store, CTXP_DB_CLIENTS, record_name(ctxp_str(key->name), room), ctxp_buf_raw(&keys->scratch), err);
    if (r < 0) return r;
    key->put = true;
  }
  return 0;
}

struct ctxp_key *ctxp_keys_take(struct ctxp_keys *keys) {
  struct ctxp_key *key = keys->changed;
  if (!key) return NULL;
  keys->changed = key->next_changed;
  key->changed = false;
  key->committed = key->position;
  remember(key);
  return key;
}

void ctxp_keys_revert(struct ctxp_keys *keys) {
  struct ctxp_key *key;
  while ((key = keys->changed)) {
    keys->changed = key->next_changed;
    key->agent->events -= key->events - key->since_events;
    key->agent->refused -= key->refused - key->since_refused;
    key->agent->unknown_keys -= key->unknown_keys - key->since_unknown;
    key_free(keys, key);
  }
}

void ctxp_key_note_refusal(struct ctxp_key *key, struct ctxp_str words) {
  if (key->refusal[0] || !words.len) return;
  size_t len = words.len < sizeof(key->refusal) - 1 ? words.len : sizeof(key->refusal) - 1;
  while (len && !ctxp_utf8_valid((struct ctxp_str){words.ptr, len})) len--;
  memcpy(key->refusal, words.ptr, len);
  key->refusal[len] = 0;
}

void ctxp_key_close_ask(struct ctxp_key *key, uint64_t client_seq, uint64_t seq, bool missed) {
  key->closed[key->closed_count++ % CTXP_CLOSED_ASKS] = (struct ctxp_closed_ask){client_seq, seq, missed};
}

struct ctxp_closed_ask *ctxp_key_closed_ask(struct ctxp_key *key, uint64_t client_seq) {
  unsigned count = key->closed_count < CTXP_CLOSED_ASKS ? key->closed_count : CTXP_CLOSED_ASKS;
  for (unsigned i = 0; i < count; i++)
    if (key->closed[i].client_seq == client_seq) return &key->closed[i];
  return NULL;
}

void ctxp_keys_trim(struct ctxp_keys *keys, bool (*busy)(void *data, const struct ctxp_key *key), void *data) {
  struct ctxp_key *key, *next;
  unsigned above = HASH_COUNT(keys->by_name) > CTXP_KEYS_MAX ? HASH_COUNT(keys->by_name) - CTXP_KEYS_MAX : 0;
  HASH_ITER(hh, keys->by_name, key, next) {
    if (above == 0) return;
    if (key->changed || busy(data, key)) continue;
    key_free(keys, key);
    above--;
  }
}

void ctxp_keys_deinit(struct ctxp_keys *keys) {
  struct ctxp_key *key, *next;
  struct ctxp_agent *agent, *next_agent;
  HASH_ITER(hh, keys->by_name, key, next)
  key_free(keys, key);
  HASH_ITER(hh, keys->agents, agent, next_agent) {
    HASH_DEL(keys->agents, agent);
    free(agent->name);
    free(agent);
  }
  ctxp_buf_deinit(&keys->scratch);
  *keys = (struct ctxp_keys){0};
}
