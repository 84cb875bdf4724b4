/* A node's stream on top of its store. The heads (last number, last number of each topic, bytes) are one record of `meta`, written
 * in the transaction that appends; so that after any crash they are those of the last commit. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include "base/hash.h"
#include "bus/stream.h"

#define HEADER 32 /* checksum, cause, ts, topic: before the body */
#define FORMAT 1 /* of the store's content */
#define MARK_MS 60000 /* how often the time of a number is noted, for retention */
#define SCAN_MAX 32768 /* records passed over in one read */
#define TRIM_MAX 4096 /* records deleted in one transaction */

struct heads {
  uint64_t head, bytes, topic[CTXP_TOPICS];
};
struct ctxp_stream {
  struct ctxp_store *store;
  uint64_t id, max_bytes, first, last_mark_ms;
  struct heads committed, working;
  struct ctxp_buf scratch;
};

static struct ctxp_raw key_of(const char *name) { return (struct ctxp_raw){(const uint8_t *)name, strlen(name)}; }

uint64_t ctxp_record_checksum(const struct ctxp_record *record) {
  uint64_t head[4] = {record->seq, record->cause, record->ts_ms, record->topic};
  return ctxp_hash64(record->body.ptr, record->body.len, ctxp_hash64(head, sizeof(head), 0));
}

void ctxp_place_pack(struct ctxp_buf *out, const struct ctxp_place *place) {
  ctxp_pack_array(out, 4);
  ctxp_pack_u64(out, place->stream);
  ctxp_pack_u64(out, place->seq);
  ctxp_pack_u64(out, place->check_seq);
  ctxp_pack_u64(out, place->checksum);
}

int ctxp_place_unpack(struct ctxp_cursor *at, struct ctxp_place *ret_place) {
  struct ctxp_pack_value head, n[4];
  if (ctxp_cursor_next(at, &head) < 0 || head.type != CTXP_PACK_ARRAY || head.count != 4) return -EBADMSG;
  for (int i = 0; i < 4; i++)
    if (ctxp_cursor_next(at, &n[i]) < 0 || n[i].type != CTXP_PACK_U64) return -EBADMSG;
  *ret_place = (struct ctxp_place){n[0].u, n[1].u, n[2].u, n[3].u};
  return 0;
}

struct ctxp_topics ctxp_topics_consumed(const struct ctxp_consume *consumes) {
  struct ctxp_topics set = {0};
  for (unsigned topic = 0; topic < CTXP_TOPICS; topic++)
    if (ctxp_topic_consumed(topic, consumes)) ctxp_topics_add(&set, topic);
  return set;
}

/* ---- open ---- */
static int make_id(struct ctxp_stream *stream, struct ctxp_error *err) {
  uint64_t id = 0;
  while (id == 0)
    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
      return ctxp_error_set(err, -EIO, "no random number for the stream in %s", ctxp_store_dir(stream->store));
  uint64_t meta[2] = {FORMAT, id};
  int r = ctxp_store_put(stream->store, CTXP_DB_META, key_of("stream"), (struct ctxp_raw){(uint8_t *)meta, sizeof(meta)}, err);
  if (r == 0) r = ctxp_store_commit(stream->store, err);
  if (r == 0) stream->id = id;
  return r;
}

static int load_id(struct ctxp_stream *stream, struct ctxp_error *err) {
  uint64_t meta[2] = {0};
  int r = ctxp_store_get(stream->store, CTXP_DB_META, key_of("stream"), &stream->scratch, err);
  if (r == 1) return make_id(stream, err);
  if (r < 0) return r;
  if (stream->scratch.len >= sizeof(meta)) memcpy(meta, stream->scratch.ptr, sizeof(meta));
  if (meta[0] != FORMAT)
    return ctxp_error_set(err, -EBADMSG,
        "the stream in %s has format %llu, this version reads format %d; start it with the version that wrote it, or move the directory "
        "away",
        ctxp_store_dir(stream->store), (unsigned long long)meta[0], FORMAT);
  stream->id = meta[1];
  return 0;
}

static int load_heads(struct ctxp_stream *stream, struct ctxp_error *err) {
  uint64_t first, last;
  int r = ctxp_store_get(stream->store, CTXP_DB_META, key_of("heads"), &stream->scratch, err);
  if (r < 0) return r;
  if (r == 0 && stream->scratch.len <= sizeof(struct heads)) memcpy(&stream->committed, stream->scratch.ptr, stream->scratch.len);
  r = ctxp_store_bounds(stream->store, &first, &last, err);
  if (r < 0) return r;
  if (last > stream->committed.head || (last && last < stream->committed.head))
    return ctxp_error_set(err, -EBADMSG,
        "the stream in %s ends at event %llu and says that it ends at %llu; restore it from a backup, or move the directory away",
        ctxp_store_dir(stream->store), (unsigned long long)last, (unsigned long long)stream->committed.head);
  stream->first = first ? first : stream->committed.head + 1;
  stream->working = stream->committed;
  return 0;
}

int ctxp_stream_open(struct ctxp_store *store, uint64_t max_bytes, struct ctxp_stream **ret_stream, struct ctxp_error *err) {
  struct ctxp_stream *stream = calloc(1, sizeof(*stream));
  if (!stream) return ctxp_error_set(err, -ENOMEM, "out of memory for the stream in %s", ctxp_store_dir(store));
  stream->store = store;
  stream->max_bytes = max_bytes;
  int r = load_id(stream, err);
  if (r == 0) r = load_heads(stream, err);
  if (r < 0) {
    ctxp_stream_free(stream);
    return r;
  }
  *ret_stream = stream;
  return 0;
}

struct ctxp_stream *ctxp_stream_free(struct ctxp_stream *stream) {
  if (!stream) return NULL;
  ctxp_buf_deinit(&stream->scratch);
  free(stream);
  return NULL;
}

uint64_t ctxp_stream_id(const struct ctxp_stream *stream) { return stream->id; }
uint64_t ctxp_stream_first(const struct ctxp_stream *stream) { return stream->first; }
uint64_t ctxp_stream_head(const struct ctxp_stream *stream) { return stream->committed.head; }
uint64_t ctxp_stream_next(const struct ctxp_stream *stream) { return stream->working.head + 1; }
uint64_t ctxp_stream_pending(const struct ctxp_stream *stream) { return stream->working.head - stream->committed.head; }
uint64_t ctxp_stream_topic_head(const struct ctxp_stream *stream, unsigned topic) { return stream->committed.topic[topic]; }
uint64_t ctxp_stream_bytes(const struct ctxp_stream *stream) { return stream->committed.bytes; }
bool ctxp_stream_full(const struct ctxp_stream *stream) { return stream->working.bytes >= stream->max_bytes; }

/* ---- append and commit ---- */
int ctxp_stream_append(struct ctxp_stream *stream, struct ctxp_record *record, uint64_t *ret_prev, struct ctxp_error *err) {
  uint8_t *room;
  uint64_t seq = stream->working.head + 1;
  int r = ctxp_store_reserve(stream->store, seq, HEADER + record->body.len, &room, err);
  if (r < 0) return r;
  record->seq = seq;
  uint64_t header[4] = {ctxp_record_checksum(record), record->cause, record->ts_ms, record->topic};
  memcpy(room, header, HEADER);
  memcpy(room + HEADER, record->body.ptr, record->body.len);
  *ret_prev = stream->working.topic[record->topic];
  stream->working.topic[record->topic] = seq;
  stream->working.head = seq;
  stream->working.bytes += ctxp_store_cost(HEADER + record->body.len);
  return 0;
}

/* at which time a number was the head; big-endian, so that marks are in order */
static int put_mark(struct ctxp_stream *stream, uint64_t utc_ms, struct ctxp_error *err) {
  uint8_t key[12] = "mark";
  uint64_t seq = __builtin_bswap64(stream->working.head);
  if (stream->last_mark_ms && utc_ms < stream->last_mark_ms + MARK_MS) return 0;
  memcpy(key + 4, &seq, sizeof(seq));
  stream->last_mark_ms = utc_ms;
  return ctxp_store_put(
      stream->store, CTXP_DB_META, (struct ctxp_raw){key, sizeof(key)}, (struct ctxp_raw){(uint8_t *)&utc_ms, sizeof(utc_ms)}, err);
}

static int put_heads(struct ctxp_stream *stream, struct ctxp_error *err) {
  return ctxp_store_put(
      stream->store, CTXP_DB_META, key_of("heads"), (struct ctxp_raw){(uint8_t *)&stream->working, sizeof(stream->working)}, err);
}

int ctxp_stream_commit(struct ctxp_stream *stream, uint64_t utc_ms, struct ctxp_error *err) {
  int r = 0;
  if (ctxp_stream_pending(stream)) {
    r = put_mark(stream, utc_ms, err);
    if (r == 0) r = put_heads(stream, err);
  }
  if (r == 0) r = ctxp_store_commit(stream->store, err);
  if (r < 0) {
    ctxp_stream_abort(stream);
    return r;
  }
  stream->committed = stream->working;
  return 0;
}

void ctxp_stream_abort(struct ctxp_stream *stream) {
  ctxp_store_abort(stream->store);
  stream->working = stream->committed;
}

/* ---- read ---- */
/* the record without its checksum; -EBADMSG where that is wrong */
static int open_record(struct ctxp_stream *stream, uint64_t seq, struct ctxp_raw bytes, struct ctxp_record *ret, struct ctxp_error *err) {
  uint64_t header[4] = {0};
  if (bytes.len >= HEADER) memcpy(header, bytes.ptr, HEADER);
  if (bytes.len >= HEADER && header[3] < CTXP_TOPICS) {
    *ret = (struct ctxp_record){seq, header[1], header[2], (unsigned)header[3], {bytes.ptr + HEADER, bytes.len - HEADER}};
    if (ctxp_record_checksum(ret) == header[0]) return 0;
  }
  return ctxp_error_set(err, -EBADMSG,
      "%s/data.mdb is damaged: event %llu does not have its checksum; restore it from a backup, or move the directory away to start afresh",
      ctxp_store_dir(stream->store), (unsigned long long)seq);
}

struct one {
  struct ctxp_stream *stream;
  uint64_t seq;
  struct ctxp_buf *body;
  struct ctxp_record *ret;
  struct ctxp_error *err;
  bool found;
};

static int visit_one(void *data, uint64_t number, struct ctxp_raw bytes) {
  struct one *one = data;
  if (number != one->seq) return 1;
  int r = open_record(one->stream, number, bytes, one->ret, one->err);
  if (r < 0) return r;
  ctxp_buf_reset(one->body);
  ctxp_buf_add(one->body, one->ret->body.ptr, one->ret->body.len);
  one->ret->body = ctxp_buf_raw(one->body);
  one->found = true;
  return ctxp_buf_error(one->body) ? ctxp_error_set(one->err, -ENOMEM, "out of memory for event %llu", (unsigned long long)number) : 1;
}

int ctxp_stream_get(
    struct ctxp_stream *stream, uint64_t seq, struct ctxp_buf *body, struct ctxp_record *ret_record, struct ctxp_error *err) {
  struct one one = {stream, seq, body, ret_record, err, false};
  int r = ctxp_store_scan(stream->store, seq, visit_one, &one, err);
  return r < 0 ? r : one.found ? 0 :
                                 1;
}

struct reading {
  struct ctxp_stream *stream;
  uint64_t to;
  const struct ctxp_topics *topics;
  unsigned max_count, scanned;
  size_t max_bytes;
  struct ctxp_batch *batch;
  struct ctxp_error *err;
};

static int add_row(struct reading *reading, uint64_t number, struct ctxp_raw bytes) {
  struct ctxp_batch *batch = reading->batch;
  struct ctxp_record record;
  int r = open_record(reading->stream, number, bytes, &record, reading->err);
  if (r < 0) return r;
  if (batch->count == batch->cap) {
    unsigned cap = batch->cap ? batch->cap * 2 : 64;
    struct ctxp_record *rows = realloc(batch->rows, cap * sizeof(*rows));
    if (!rows) return ctxp_error_set(reading->err, -ENOMEM, "out of memory for a batch of events");
    batch->rows = rows;
    batch->cap = cap;
  }
  ctxp_buf_add(&batch->bytes, record.body.ptr, record.body.len);
  record.body.ptr = NULL; /* the buffer may still move */
  batch->rows[batch->count++] = record;
  return ctxp_buf_error(&batch->bytes) ? ctxp_error_set(reading->err, -ENOMEM, "out of memory for a batch of events") : 0;
}

static int visit_reading(void *data, uint64_t number, struct ctxp_raw bytes) {
  struct reading *reading = data;
  struct ctxp_batch *batch = reading->batch;
  uint64_t header[4];
  if (number > reading->to || reading->scanned++ >= SCAN_MAX) return 1;
  if (bytes.len < HEADER) return open_record(reading->stream, number, bytes, &(struct ctxp_record){0}, reading->err);
  memcpy(header, bytes.ptr, HEADER);
  bool wanted = header[3] >= CTXP_TOPICS || ctxp_topics_has(reading->topics, (unsigned)header[3]); /* a damaged one: found out below */
  if (wanted && batch->count && (batch->count >= reading->max_count || batch->bytes.len + bytes.len > reading->max_bytes)) return 1;
  int r = wanted ? add_row(reading, number, bytes) : 0;
  if (r < 0) return r;
  batch->upto = number;
  batch->upto_cause = header[1];
  return 0;
}

int ctxp_stream_read(struct ctxp_stream *stream, uint64_t from, uint64_t to, const struct ctxp_topics *topics, unsigned max_count,
    size_t max_bytes, struct ctxp_batch *batch, struct ctxp_error *err) {
  struct reading reading = {stream, to, topics, max_count, 0, max_bytes, batch, err};
  ctxp_buf_reset(&batch->bytes);
  batch->count = 0;
  batch->upto = from;
  batch->upto_cause = 0;
  int r = ctxp_store_scan(stream->store, from + 1, visit_reading, &reading, err);
  if (r < 0) return r;
  const uint8_t *at = batch->bytes.ptr;
  for (unsigned i = 0; i < batch->count; i++) {
    batch->rows[i].body.ptr = at;
    at += batch->rows[i].body.len;
  }
  return 0;
}

void ctxp_batch_deinit(struct ctxp_batch *batch) {
  ctxp_buf_deinit(&batch->bytes);
  free(batch->rows);
  *batch = (struct ctxp_batch){0};
}

int ctxp_stream_check(struct ctxp_stream *stream, const struct ctxp_place *place, const char *node, struct ctxp_error *err) {
  ctxp_auto_buf body = {0};
  struct ctxp_record record;
  if (place->stream == 0) return 0;
  if (place->stream != stream->id)
    return ctxp_error_set(err, 1,
        "the stream of node '%s' is %016llx, and what was read up to event %llu was %016llx: it was deleted or replaced", node,
        (unsigned long long)stream->id, (unsigned long long)place->seq, (unsigned long long)place->stream);
  if (place->seq > stream->committed.head)
    return ctxp_error_set(err, 1,
        "the stream %016llx of node '%s' ends at event %llu, and it was read up to event %llu: it was restored or lost its end",
        (unsigned long long)stream->id, node, (unsigned long long)stream->committed.head, (unsigned long long)place->seq);
  if (place->check_seq == 0 || place->check_seq < stream->first) return 0;
  int r = ctxp_stream_get(stream, place->check_seq, &body, &record, err);
  if (r < 0) return r;
  if (r == 0 && ctxp_record_checksum(&record) == place->checksum) return 0;
  return ctxp_error_set(err, 1,
      "event %llu of stream %016llx of node '%s' is another one than was read: the stream was restored and then went on differently",
      (unsigned long long)place->check_seq, (unsigned long long)stream->id, node);
}

/* ---- retention ---- */
struct aging {
  uint64_t before_ms, seq;
  struct ctxp_stream *stream;
  struct ctxp_error *err;
};

static int visit_mark(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  struct aging *aging = data;
  uint64_t seq, at;
  if (key.len != 12 || value.len != sizeof(at)) return 0;
  memcpy(&at, value.ptr, sizeof(at));
  memcpy(&seq, key.ptr + 4, sizeof(seq));
  if (at > aging->before_ms) return 1;
  aging->seq = __builtin_bswap64(seq);
  /* a mark below what is retained has nothing left to say */
  return aging->seq < aging->stream->first ? ctxp_store_del(aging->stream->store, CTXP_DB_META, key, aging->err) : 0;
}

/* the last number that was stored at least retain_ms ago */
static int old_enough(struct ctxp_stream *stream, const struct ctxp_retention *rule, uint64_t *ret_seq, struct ctxp_error *err) {
  struct aging aging = {.before_ms = rule->utc_ms > rule->retain_ms ? rule->utc_ms - rule->retain_ms : 0, .stream = stream, .err = err};
  *ret_seq = stream->committed.head;
  if (rule->retain_ms == 0) return 0;
  int r = ctxp_store_each(stream->store, CTXP_DB_META, key_of("mark"), visit_mark, &aging, err);
  *ret_seq = aging.seq;
  return r < 0 ? r : 0;
}

static int trim(struct ctxp_stream *stream, uint64_t below, uint64_t enough, struct ctxp_error *err) {
  uint64_t count, bytes;
  int r = ctxp_store_trim(stream->store, below, TRIM_MAX, enough, &bytes, &count, err);
  if (r < 0) return r;
  stream->working.bytes -= bytes < stream->working.bytes ? bytes : stream->working.bytes;
  r = put_heads(stream, err);
  if (r == 0) r = ctxp_store_commit(stream->store, err);
  if (r < 0) {
    ctxp_stream_abort(stream);
    return r;
  }
  stream->committed = stream->working;
  stream->first += count;
  return 0;
}

int ctxp_stream_retain(struct ctxp_stream *stream, const struct ctxp_retention *rule, bool *ret_more, struct ctxp_error *err) {
  uint64_t old, head = stream->committed.head, room = stream->max_bytes - stream->max_bytes / 4;
  int r = old_enough(stream, rule, &old, err);
  if (r < 0) return r;
  /* a quarter is kept free, so that a full stream is not trimmed event by event */
  uint64_t excess = stream->committed.bytes > room ? stream->committed.bytes - room : 0;
  uint64_t upto = old < rule->done ? old : rule->done, enough = UINT64_MAX;
  if (upto < stream->first && excess) {
    upto = rule->drop && ctxp_stream_full(stream) ? head : rule->done;
    enough = excess;
  }
  if (upto > head) upto = head;
  *ret_more = false;
  if (upto < stream->first) return ctxp_store_commit(stream->store, err);
  r = trim(stream, upto + 1, enough, err);
  *ret_more = r == 0 && upto >= stream->first && (enough == UINT64_MAX || stream->committed.bytes > room);
  return r;
}
