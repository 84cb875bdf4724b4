/* A node's stream: events numbered 1, 2, 3, ... without holes, append-only, with an id made with it.
 *
 * Appended events are in the store's write transaction until ctxp_stream_commit; only then may they be published. A cursor names
 * a place in a stream by its id, a number, and the checksum of an event at or before that number; a stream in which that event is
 * another one has diverged from what the cursor's owner has read. */
#pragma once
#include "bus/store.h"
#include "codec/msgpack.h"
#include "codec/tools.h"

struct ctxp_record {
  uint64_t seq, cause, ts_ms;
  unsigned topic;
  struct ctxp_raw body; /* a MessagePack map */
};
/* Of number, topic, cause, time and body: equal for an event that was derived again. */
uint64_t ctxp_record_checksum(const struct ctxp_record *record);

struct ctxp_place { /* a cursor, as it is stored and reported */
  uint64_t stream; /* id; 0: nothing read yet */
  uint64_t seq; /* everything up to here is done */
  uint64_t check_seq; /* an event at or before it, 0: none */
  uint64_t checksum; /* of that event */
};
void ctxp_place_pack(struct ctxp_buf *out, const struct ctxp_place *place);
int ctxp_place_unpack(struct ctxp_cursor *at, struct ctxp_place *ret_place) __attribute__((warn_unused_result));

struct ctxp_topics { /* a set of topics */
  uint64_t bits[(CTXP_TOPICS + 63) / 64];
};
static inline bool ctxp_topics_has(const struct ctxp_topics *set, unsigned topic) { return set->bits[topic / 64] >> (topic % 64) & 1u; }
static inline void ctxp_topics_add(struct ctxp_topics *set, unsigned topic) { set->bits[topic / 64] |= UINT64_C(1) << (topic % 64); }
struct ctxp_topics ctxp_topics_consumed(const struct ctxp_consume *consumes);

struct ctxp_stream;

/* store: borrowed, must live longer. */
int ctxp_stream_open(struct ctxp_store *store, uint64_t max_bytes, struct ctxp_stream **ret_stream, struct ctxp_error *err)
    __attribute__((warn_unused_result));
struct ctxp_stream *ctxp_stream_free(struct ctxp_stream *stream);

uint64_t ctxp_stream_id(const struct ctxp_stream *stream);
uint64_t ctxp_stream_first(const struct ctxp_stream *stream); /* first that is retained; head + 1: none is */
uint64_t ctxp_stream_head(const struct ctxp_stream *stream); /* last that is committed; 0: none */
uint64_t ctxp_stream_next(const struct ctxp_stream *stream); /* number of the next one to be appended */
uint64_t ctxp_stream_pending(const struct ctxp_stream *stream); /* appended, not committed */
uint64_t ctxp_stream_topic_head(const struct ctxp_stream *stream, unsigned topic); /* last committed of that topic; 0: none */
uint64_t ctxp_stream_bytes(const struct ctxp_stream *stream); /* counted, of what is committed */

/* Sets record->seq. *ret_prev: the number before it with the same topic, 0: none. */
int ctxp_stream_append(struct ctxp_stream *stream, struct ctxp_record *record, uint64_t *ret_prev, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Commits the store's transaction, with whatever else was put into it. utc_ms: for retention. <0: the stream is as before. */
int ctxp_stream_commit(struct ctxp_stream *stream, uint64_t utc_ms, struct ctxp_error *err) __attribute__((warn_unused_result));
void ctxp_stream_abort(struct ctxp_stream *stream);

/* A committed event; its body is copied into `body`. 1: not there (any more). -EBADMSG: damaged, named in the sentence. */
int ctxp_stream_get(struct ctxp_stream *stream, uint64_t seq, struct ctxp_buf *body, struct ctxp_record *ret_record, struct ctxp_error *err)
    __attribute__((warn_unused_result));

struct ctxp_batch { /* owned by the caller; {0} at first */
  struct ctxp_buf bytes; /* the bodies */
  struct ctxp_record *rows;
  unsigned count, cap;
  uint64_t upto; /* every event of the topics up to here is in `rows` */
  uint64_t upto_cause; /* cause of event `upto` */
};
void ctxp_batch_deinit(struct ctxp_batch *batch);
/* Copies the events after `from`, to `to` at most, of these topics: at least one where there is one, at most max_count or about max_bytes.
 */
int ctxp_stream_read(struct ctxp_stream *stream, uint64_t from, uint64_t to, const struct ctxp_topics *topics, unsigned max_count,
    size_t max_bytes, struct ctxp_batch *batch, struct ctxp_error *err) __attribute__((warn_unused_result));

/* Does the place fit this stream? 0, or 1: diverged, with a sentence that names both (`node`: whose stream this is). */
int ctxp_stream_check(struct ctxp_stream *stream, const struct ctxp_place *place, const char *node, struct ctxp_error *err)
    __attribute__((warn_unused_result));

/* Retention, at most a bounded number of events a call: what is past `done` (the least of all checkpoints) and older than
 * retain_ms, or, where the stream is over max_bytes, whatever is past `done`, and with `drop` what is not, too. Returns in
 * *ret_more whether there is more to delete. Commits on its own: call it with no transaction open. */
struct ctxp_retention {
  uint64_t done, retain_ms, utc_ms;
  bool drop;
};
int ctxp_stream_retain(struct ctxp_stream *stream, const struct ctxp_retention *rule, bool *ret_more, struct ctxp_error *err)
    __attribute__((warn_unused_result));
bool ctxp_stream_full(const struct ctxp_stream *stream); /* at max_bytes, what is pending counted */
