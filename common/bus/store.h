/* One LMDB environment a node, opened by that process only.
 *
 * Every value carries a checksum over its key and itself, checked when it is read. A read copies and ends its transaction
 * before anybody else acts, so that no reader is open while the map is written. At most one write transaction is open; `put`
 * and `del` open it where none is. What goes wrong with the disk comes back as a sentence that names the directory. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/error.h"

enum ctxp_db { CTXP_DB_EVENTS,
  CTXP_DB_META,
  CTXP_DB_STATE,
  CTXP_DB_DECISIONS,
  CTXP_DB_CLIENTS,
  CTXP_DB_COUNT };

struct ctxp_store_options {
  uint64_t max_bytes; /* of the stream; the map is larger, so that state fits beside it */
  bool power; /* true: every commit is synced; false: once a second (ctxp_store_tick) */
  bool fleeting; /* never synced, not at its end either: nobody reads it after a power cut */
  bool read_only; /* nothing is made or written; the lock is taken all the same */
};
struct ctxp_store;

/* Makes the directory (0700) where it is missing. -EWOULDBLOCK: another process has it. */
int ctxp_store_open(const char *dir, const struct ctxp_store_options *options, struct ctxp_store **ret_store, struct ctxp_error *err)
    __attribute__((warn_unused_result));
struct ctxp_store *ctxp_store_free(struct ctxp_store *store); /* what is not committed is dropped */
const char *ctxp_store_dir(const struct ctxp_store *store);

int ctxp_store_begin(struct ctxp_store *store, struct ctxp_error *err) __attribute__((warn_unused_result)); /* nothing, where one is open */
bool ctxp_store_open_txn(const struct ctxp_store *store); /* is one open? */
/* <0: nothing of the transaction is stored. 0 where none is open. */
int ctxp_store_commit(struct ctxp_store *store, struct ctxp_error *err) __attribute__((warn_unused_result));
void ctxp_store_abort(struct ctxp_store *store);
/* Syncs what was committed without, when a second is over. Returns when it wants to be called again (ctxp_clock_ms), or UINT64_MAX. */
int ctxp_store_tick(struct ctxp_store *store, uint64_t now_ms, uint64_t *ret_next_ms, struct ctxp_error *err)
    __attribute__((warn_unused_result));

/* Keys of 1 to 255 bytes; of CTXP_DB_EVENTS they are numbers, for which stream.h is the way in. */
int ctxp_store_put(struct ctxp_store *store, enum ctxp_db db, struct ctxp_raw key, struct ctxp_raw value, struct ctxp_error *err)
    __attribute__((warn_unused_result));
int ctxp_store_del(struct ctxp_store *store, enum ctxp_db db, struct ctxp_raw key, struct ctxp_error *err)
    __attribute__((warn_unused_result)); /* not there: 0 */
/* Copies the value into `out` (reset before). Sees what is not yet committed. 1: not there. -EBADMSG: its checksum is wrong. */
int ctxp_store_get(struct ctxp_store *store, enum ctxp_db db, struct ctxp_raw key, struct ctxp_buf *out, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Visits the keys with that prefix in order, until `visit` returns non-zero, which is then returned. Key and value are copies:
 * `visit` may put and del. */
int ctxp_store_each(struct ctxp_store *store, enum ctxp_db db, struct ctxp_raw prefix,
    int (*visit)(void *data, struct ctxp_raw key, struct ctxp_raw value), void *data, struct ctxp_error *err)
    __attribute__((warn_unused_result));

/* ---- numbered records, for stream.c ---- */
/* What a record of `len` bytes takes up: in a leaf, or in pages of its own. */
static inline uint64_t ctxp_store_cost(size_t len) { return len <= 2000 ? len + 24 : (len + 16 + 4095) / 4096 * 4096; }
/* Room for a record's `len` bytes behind the last one; valid until the next call. */
int ctxp_store_reserve(struct ctxp_store *store, uint64_t number, size_t len, uint8_t **ret_room, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Visits committed records from `from` on, borrowed for the call of `visit`, which must not touch the store. */
int ctxp_store_scan(struct ctxp_store *store, uint64_t from, int (*visit)(void *data, uint64_t number, struct ctxp_raw record), void *data,
    struct ctxp_error *err) __attribute__((warn_unused_result));
/* Number of the first (last) committed record; 0: there is none. */
int ctxp_store_bounds(struct ctxp_store *store, uint64_t *ret_first, uint64_t *ret_last, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Deletes the records below `number`, until `max` of them or `enough` bytes are gone; counts what they took. Opens a write transaction. */
int ctxp_store_trim(struct ctxp_store *store, uint64_t number, unsigned max, uint64_t enough, uint64_t *ret_bytes, uint64_t *ret_count,
    struct ctxp_error *err) __attribute__((warn_unused_result));
