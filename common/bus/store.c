/* One LMDB environment a node.
 *
 * MDB_NOLOCK is safe here and cheaper than LMDB's reader table: one process (flock) and one thread open it, and every read
 * transaction ends before the next write transaction is committed, so there is never a reader that a writer could overtake.
 *
 * LMDB maps its file, and touching a page beyond the file's end is a SIGBUS. So the file is kept longer (sparse, it costs no
 * blocks) than any transaction can reach: a file shorter than its own meta page says was cut, and is refused at open. */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "bus/store.h"

#define GROWTH (UINT64_C(16) << 20) /* the file grows by this, ahead of need */
#define SUM_SIZE sizeof(uint64_t)
#define SYNC_MS 1000

struct ctxp_store {
  char *dir;
  int lock, file; /* file: the data file, for its length */
  MDB_env *env;
  MDB_txn *writer, *reader; /* reader: reset when it is not in use */
  MDB_dbi dbs[CTXP_DB_COUNT];
  bool power, fleeting, read_only, dirty;
  uint64_t last_sync_ms, length, page_bytes, txn_bytes; /* txn_bytes: what the open transaction may add to the file at most */
};

static const char *const names[CTXP_DB_COUNT] = {"events", "meta", "state", "decisions", "clients"};

const char *ctxp_store_dir(const struct ctxp_store *store) { return store->dir; }

static bool disk_full(const char *dir) {
  struct statvfs st;
  return statvfs(dir, &st) == 0 && (uint64_t)st.f_bavail * st.f_frsize < (UINT64_C(1) << 20);
}

/* as far into the file as the transaction may write */
static uint64_t reach_of(const struct ctxp_store *store) {
  MDB_envinfo info;
  if (!store->env || mdb_env_info(store->env, &info)) return 0;
  return ((uint64_t)info.me_last_pgno + 1) * store->page_bytes + store->txn_bytes + GROWTH / 4;
}

static bool file_limited(const struct ctxp_store *store) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && reach_of(store) > limit.rlim_cur;
}

/* LMDB's own codes to -errno, with a sentence. EIO is what it says of a write that was cut short. */
static int fail(const struct ctxp_store *store, int code, const char *doing, struct ctxp_error *err) {
  const char *dir = store->dir;
  if (code == ENOSPC || code == EDQUOT || (code == EIO && disk_full(dir)))
    return ctxp_error_set(err, -ENOSPC, "cannot %s in %s: no space is left on the disk; free some, and start again", doing, dir);
  if (code == EFBIG || (code == EIO && file_limited(store)))
    return ctxp_error_set(err, -EFBIG, "cannot %s in %s: the file has reached the process's limit of file size (ulimit -f)", doing, dir);
  if (code == MDB_MAP_FULL)
    return ctxp_error_set(err, -ENOSPC, "cannot %s in %s: the store is full; raise max_bytes in the topology", doing, dir);
  if (code == MDB_CORRUPTED || code == MDB_PAGE_NOTFOUND || code == MDB_INVALID || code == MDB_VERSION_MISMATCH || code == MDB_PANIC)
    return ctxp_error_set(err, -EBADMSG,
        "cannot %s: %s/data.mdb is damaged (%s); restore it from a backup, or move the directory away to start afresh", doing, dir,
        mdb_strerror(code));
  if (code == EACCES || code == EPERM || code == EROFS)
    return ctxp_error_set(err, -code, "cannot %s in %s: %s; it must be a directory that this user may write", doing, dir, strerror(code));
  return ctxp_error_set(err, code > 0 ? -code : -EIO, "cannot %s in %s: %s", doing, dir, mdb_strerror(code));
}

static int make_dir(struct ctxp_store *store, struct ctxp_error *err) {
  struct stat st;
  if (store->read_only || mkdir(store->dir, 0700) == 0) return 0;
  if (errno != EEXIST) return fail(store, errno, "make the state directory", err);
  if (stat(store->dir, &st) < 0) return fail(store, errno, "open the state directory", err);
  return S_ISDIR(st.st_mode) ? 0 : ctxp_error_set(err, -ENOTDIR, "%s is not a directory; a node's state directory must be one", store->dir);
}

static int take_lock(struct ctxp_store *store, struct ctxp_error *err) {
  ctxp_auto_buf path = {0};
  char pid[16] = "";
  ctxp_buf_printf(&path, "%s/lock", store->dir);
  store->lock = open(ctxp_buf_cstr(&path), store->read_only ? O_RDONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (store->lock < 0) return fail(store, errno, "lock the state directory", err);
  if (flock(store->lock, LOCK_EX | LOCK_NB) < 0) {
    if (errno != EWOULDBLOCK) return fail(store, errno, "lock the state directory", err);
    ssize_t got = pread(store->lock, pid, sizeof(pid) - 1, 0);
    return ctxp_error_set(err, -EWOULDBLOCK,
        "%s is in use by another process%s%s; stop that one first (ctxpipe down), or name another state_dir", store->dir,
        got > 0 ? ", pid " : "", pid);
  }
  if (store->read_only) return 0;
  int len = snprintf(pid, sizeof(pid), "%d", (int)getpid());
  if (ftruncate(store->lock, 0) < 0 || pwrite(store->lock, pid, (size_t)len, 0) != len) return fail(store, errno, "write the lock", err);
  return 0;
}

/* the data file is at least as long as its meta page says; LMDB itself does not look */
static int check_length(struct ctxp_store *store, struct ctxp_error *err) {
  MDB_envinfo info;
  MDB_stat stat_env;
  struct stat st;
  int r = mdb_env_info(store->env, &info);
  if (r == 0) r = mdb_env_stat(store->env, &stat_env);
  if (r == 0 && fstat(store->file, &st) < 0) r = errno;
  if (r) return fail(store, r, "open the store", err);
  store->page_bytes = stat_env.ms_psize;
  store->length = (uint64_t)st.st_size;
  uint64_t needed = ((uint64_t)info.me_last_pgno + 1) * store->page_bytes;
  if (needed <= store->length) return 0;
  return ctxp_error_set(err, -EBADMSG,
      "%s/data.mdb was cut: it has %llu bytes and must have %llu; restore it from a backup, or move the directory away to start afresh",
      store->dir, (unsigned long long)store->length, (unsigned long long)needed);
}

/* before LMDB maps it: two whole meta pages, or nothing at all */
static int check_header(struct ctxp_store *store, const char *path, struct ctxp_error *err) {
  struct stat st;
  if (stat(path, &st) < 0) return errno == ENOENT ? 0 : fail(store, errno, "open the store", err);
  if (st.st_size == 0 || st.st_size >= 2 * sysconf(_SC_PAGESIZE)) return 0;
  return ctxp_error_set(err, -EBADMSG,
      "%s was cut: it has %lld bytes, less than its header; restore it from a backup, or move the directory away to start afresh", path,
      (long long)st.st_size);
}

static int open_env(struct ctxp_store *store, uint64_t max_bytes, struct ctxp_error *err) {
  ctxp_auto_buf path = {0};
  ctxp_buf_printf(&path, "%s/data.mdb", store->dir);
  int r = check_header(store, ctxp_buf_cstr(&path), err);
  if (r < 0) return r;
  unsigned flags = MDB_NOLOCK | MDB_NOTLS | (store->power ? 0 : MDB_NOSYNC) | (store->read_only ? MDB_RDONLY : 0);
  r = mdb_env_create(&store->env);
  if (r == 0) r = mdb_env_set_maxdbs(store->env, CTXP_DB_COUNT);
  /* pages of two versions of a tree, free pages, and the stage's state need room beside what is counted */
  if (r == 0) r = mdb_env_set_mapsize(store->env, (size_t)(max_bytes + max_bytes / 2 + (UINT64_C(1) << 30)));
  if (r == 0) r = mdb_env_open(store->env, store->dir, flags, 0600);
  if (r) return fail(store, r, "open the store", err);
  store->file = open(ctxp_buf_cstr(&path), (store->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  if (store->file < 0) return fail(store, errno, "open the store", err);
  return check_length(store, err);
}

static int open_dbs(struct ctxp_store *store, struct ctxp_error *err) {
  MDB_txn *txn;
  int r = mdb_txn_begin(store->env, NULL, store->read_only ? MDB_RDONLY : 0, &txn);
  if (r) return fail(store, r, "open the store", err);
  for (int i = 0; i < CTXP_DB_COUNT && r == 0; i++)
    r = mdb_dbi_open(txn, names[i], (store->read_only ? 0 : MDB_CREATE) | (i == CTXP_DB_EVENTS ? MDB_INTEGERKEY : 0), &store->dbs[i]);
  if (r)
    mdb_txn_abort(txn);
  else
    r = mdb_txn_commit(txn);
  if (r == 0) r = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &store->reader);
  if (r) return fail(store, r, store->read_only && r == MDB_NOTFOUND ? "find a stream" : "open the store", err);
  mdb_txn_reset(store->reader);
  return 0;
}

int ctxp_store_open(const char *dir, const struct ctxp_store_options *options, struct ctxp_store **ret_store, struct ctxp_error *err) {
  struct ctxp_store *store = calloc(1, sizeof(*store));
  if (!store) return ctxp_error_set(err, -ENOMEM, "out of memory for the store in %s", dir);
  *store = (struct ctxp_store){.lock = -1,
      .file = -1,
      .power = options->power && !options->fleeting,
      .fleeting = options->fleeting,
      .read_only = options->read_only,
      .dir = strdup(dir)};
  int r = store->dir ? make_dir(store, err) : ctxp_error_set(err, -ENOMEM, "out of memory for the store in %s", dir);
  if (r == 0) r = take_lock(store, err);
  if (r == 0) r = open_env(store, options->max_bytes, err);
  if (r == 0) r = open_dbs(store, err);
  if (r < 0) {
    ctxp_store_free(store);
    return r;
  }
  *ret_store = store;
  return 0;
}

struct ctxp_store *ctxp_store_free(struct ctxp_store *store) {
  if (!store) return NULL;
  ctxp_store_abort(store);
  if (store->reader) mdb_txn_abort(store->reader);
  if (store->env && store->dirty) mdb_env_sync(store->env, 1);
  if (store->env) mdb_env_close(store->env);
  if (store->file >= 0) close(store->file);
  if (store->lock >= 0) close(store->lock); /* last: whoever gets the lock finds the environment closed */
  free(store->dir);
  free(store);
  return NULL;
}

/* ---- transactions ---- */
int ctxp_store_begin(struct ctxp_store *store, struct ctxp_error *err) {
  if (store->writer) return 0;
  int r = mdb_txn_begin(store->env, NULL, 0, &store->writer);
  store->txn_bytes = 0;
  return r ? fail(store, r, "begin a transaction", err) : 0;
}

bool ctxp_store_open_txn(const struct ctxp_store *store) { return store->writer != NULL; }

/* best effort: where the file cannot grow the commit itself will say why */
static void grow(struct ctxp_store *store) {
  uint64_t reach = reach_of(store);
  if (reach <= store->length) return;
  uint64_t length = (reach / GROWTH + 1) * GROWTH;
  if (ftruncate(store->file, (off_t)length) == 0) store->length = length;
}

int ctxp_store_commit(struct ctxp_store *store, struct ctxp_error *err) {
  if (!store->writer) return 0;
  grow(store);
  MDB_txn *txn = ctxp_steal(&store->writer);
  int r = mdb_txn_commit(txn);
  if (r) return fail(store, r, "commit", err);
  store->dirty = !store->power && !store->fleeting;
  return 0;
}

void ctxp_store_abort(struct ctxp_store *store) {
  if (store->writer) mdb_txn_abort(store->writer);
  store->writer = NULL;
}

int ctxp_store_tick(struct ctxp_store *store, uint64_t now_ms, uint64_t *ret_next_ms, struct ctxp_error *err) {
  *ret_next_ms = store->dirty ? store->last_sync_ms + SYNC_MS : UINT64_MAX;
  if (!store->dirty || now_ms < store->last_sync_ms + SYNC_MS) return 0;
  int r = mdb_env_sync(store->env, 1);
  if (r) return fail(store, r, "sync the store", err);
  store->dirty = false;
  store->last_sync_ms = now_ms;
  *ret_next_ms = UINT64_MAX;
  return 0;
}

static MDB_txn *read_begin(struct ctxp_store *store, int *ret_code) {
  if (store->writer) return store->writer;
  *ret_code = mdb_txn_renew(store->reader);
  return *ret_code ? NULL : store->reader;
}

static void read_end(struct ctxp_store *store, MDB_txn *txn) {
  if (txn == store->reader) mdb_txn_reset(txn);
}

/* ---- keys and values ---- */
static uint64_t sum_of(struct ctxp_raw key, struct ctxp_raw value) {
  return ctxp_hash64(value.ptr, value.len, ctxp_hash64(key.ptr, key.len, 0));
}

static int put_room(
    struct ctxp_store *store, enum ctxp_db db, MDB_val *key, size_t len, unsigned flags, uint8_t **ret_room, struct ctxp_error *err) {
  int r = ctxp_store_begin(store, err);
  if (r < 0) return r;
  MDB_val room = {len, NULL};
  r = mdb_put(store->writer, store->dbs[db], key, &room, flags | MDB_RESERVE);
  if (r) return fail(store, r, "write", err);
  store->txn_bytes += len + 6 * store->page_bytes; /* a put may copy each page down to its leaf, and split some */
  *ret_room = room.mv_data;
  return 0;
}

int ctxp_store_put(struct ctxp_store *store, enum ctxp_db db, struct ctxp_raw key, struct ctxp_raw value, struct ctxp_error *err) {
  uint8_t *room = NULL;
  MDB_val k = {key.len, (void *)key.ptr};
  if (key.len < 1 || key.len > 255) return ctxp_error_set(err, -EINVAL, "a key of %zu bytes: 1 to 255 are possible", key.len);
  int r = put_room(store, db, &k, SUM_SIZE + value.len, 0, &room, err);
  if (r < 0 || !room) return r;
  uint64_t sum = sum_of(key, value);
  memcpy(room, &sum, SUM_SIZE);
  if (value.len) memcpy(room + SUM_SIZE, value.ptr, value.len);
  return 0;
}

int ctxp_store_del(struct ctxp_store *store, enum ctxp_db db, struct ctxp_raw key, struct ctxp_error *err) {
  MDB_val k = {key.len, (void *)key.ptr};
  int r = ctxp_store_begin(store, err);
  if (r < 0) return r;
  r = mdb_del(store->writer, store->dbs[db], &k, NULL);
  store->txn_bytes += 6 * store->page_bytes;
  return r && r != MDB_NOTFOUND ? fail(store, r, "delete", err) : 0;
}

static int take_value(struct ctxp_store *store, enum ctxp_db db, MDB_val key, MDB_val value, struct ctxp_buf *out, struct ctxp_error *err) {
  struct ctxp_raw k = {key.mv_data, key.mv_size}, v = {value.mv_data, value.mv_size};
  uint64_t sum = 0;
  if (v.len >= SUM_SIZE) {
    memcpy(&sum, v.ptr, SUM_SIZE);
    v = (struct ctxp_raw){v.ptr + SUM_SIZE, v.len - SUM_SIZE};
  }
  if (value.mv_size < SUM_SIZE || sum != sum_of(k, v))
    return ctxp_error_set(err, -EBADMSG,
        "%s/data.mdb is damaged: a record of '%s' does not have its checksum; restore it from a backup, or move the directory away to "
        "start afresh",
        store->dir, names[db]);
  ctxp_buf_reset(out);
  ctxp_buf_add(out, v.ptr, v.len);
  return ctxp_buf_error(out) ? ctxp_error_set(err, -ENOMEM, "out of memory for a record of %s", store->dir) : 0;
}

int ctxp_store_get(struct ctxp_store *store, enum ctxp_db db, struct ctxp_raw key, struct ctxp_buf *out, struct ctxp_error *err) {
  MDB_val k = {key.len, (void *)key.ptr}, v;
  int r = 0;
  MDB_txn *txn = read_begin(store, &r);
  if (!txn) return fail(store, r, "read", err);
  r = mdb_get(txn, store->dbs[db], &k, &v);
  int result = r == MDB_NOTFOUND ? 1 : r ? fail(store, r, "read", err) :
                                           take_value(store, db, k, v, out, err);
  read_end(store, txn);
  return result;
}

/* copies the first pair at or (after: strictly) behind the key; 1: none */
static int each_step(
    struct ctxp_store *store, enum ctxp_db db, bool after, struct ctxp_buf *key, struct ctxp_buf *value, struct ctxp_error *err) {
  MDB_cursor *cursor = NULL;
  int r = 0;
  MDB_txn *txn = read_begin(store, &r);
  if (!txn || (r = mdb_cursor_open(txn, store->dbs[db], &cursor))) return fail(store, r, "read", err);
  MDB_val k = {key->len, key->ptr}, v;
  r = mdb_cursor_get(cursor, &k, &v, k.mv_size ? MDB_SET_RANGE : MDB_FIRST);
  if (r == 0 && after && k.mv_size == key->len && memcmp(k.mv_data, key->ptr, k.mv_size) == 0)
    r = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
  int result = r == MDB_NOTFOUND ? 1 : r ? fail(store, r, "read", err) :
                                           take_value(store, db, k, v, value, err);
  if (result == 0) {
    ctxp_buf_reset(key);
    ctxp_buf_add(key, k.mv_data, k.mv_size);
  }
  mdb_cursor_close(cursor);
  read_end(store, txn);
  return result;
}

int ctxp_store_each(struct ctxp_store *store, enum ctxp_db db, struct ctxp_raw prefix,
    int (*visit)(void *data, struct ctxp_raw key, struct ctxp_raw value), void *data, struct ctxp_error *err) {
  ctxp_auto_buf own = {0}, key = {0}, value = {0}; /* own: the prefix may be borrowed from what `visit` changes */
  ctxp_buf_add(&own, prefix.ptr, prefix.len);
  ctxp_buf_add(&key, prefix.ptr, prefix.len);
  int r = ctxp_buf_error(&own);
  for (bool after = false; r == 0; after = true) {
    r = each_step(store, db, after, &key, &value, err);
    if (r != 0) return r < 0 ? r : 0;
    if (own.len && (key.len < own.len || memcmp(key.ptr, own.ptr, own.len) != 0)) return 0;
    r = visit(data, ctxp_buf_raw(&key), ctxp_buf_raw(&value));
  }
  return r;
}

/* ---- numbered records ---- */
int ctxp_store_reserve(struct ctxp_store *store, uint64_t number, size_t len, uint8_t **ret_room, struct ctxp_error *err) {
  MDB_val key = {sizeof(number), &number};
  return put_room(store, CTXP_DB_EVENTS, &key, len, MDB_APPEND, ret_room, err);
}

/* always of the last commit, also while a write transaction is open */
static int committed_cursor(struct ctxp_store *store, MDB_cursor **ret_cursor, struct ctxp_error *err) {
  int r = mdb_txn_renew(store->reader);
  if (r) return fail(store, r, "read", err);
  r = mdb_cursor_open(store->reader, store->dbs[CTXP_DB_EVENTS], ret_cursor);
  if (r) mdb_txn_reset(store->reader);
  return r ? fail(store, r, "read", err) : 0;
}

static void cursor_end(struct ctxp_store *store, MDB_cursor *cursor) {
  mdb_cursor_close(cursor);
  mdb_txn_reset(store->reader);
}

int ctxp_store_scan(struct ctxp_store *store, uint64_t from, int (*visit)(void *data, uint64_t number, struct ctxp_raw record), void *data,
    struct ctxp_error *err) {
  MDB_cursor *cursor = NULL;
  int r = committed_cursor(store, &cursor, err), stop = 0;
  if (r < 0) return r;
  MDB_val k = {sizeof(from), &from}, v;
  for (r = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE); r == 0; r = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) {
    uint64_t number;
    memcpy(&number, k.mv_data, sizeof(number));
    stop = visit(data, number, (struct ctxp_raw){v.mv_data, v.mv_size});
    if (stop) break;
  }
  cursor_end(store, cursor);
  if (stop) return stop;
  return r == MDB_NOTFOUND ? 0 : fail(store, r, "read", err);
}

int ctxp_store_bounds(struct ctxp_store *store, uint64_t *ret_first, uint64_t *ret_last, struct ctxp_error *err) {
  MDB_cursor *cursor = NULL;
  MDB_val k, v;
  uint64_t first = 0, last = 0;
  int r = committed_cursor(store, &cursor, err);
  if (r < 0) return r;
  r = mdb_cursor_get(cursor, &k, &v, MDB_FIRST);
  if (r == 0) memcpy(&first, k.mv_data, sizeof(first));
  if (r == 0) r = mdb_cursor_get(cursor, &k, &v, MDB_LAST);
  if (r == 0) memcpy(&last, k.mv_data, sizeof(last));
  cursor_end(store, cursor);
  if (r && r != MDB_NOTFOUND) return fail(store, r, "read", err);
  *ret_first = first;
  *ret_last = last;
  return 0;
}

int ctxp_store_trim(struct ctxp_store *store, uint64_t number, unsigned max, uint64_t enough, uint64_t *ret_bytes, uint64_t *ret_count,
    struct ctxp_error *err) {
  MDB_cursor *cursor = NULL;
  MDB_val k, v;
  uint64_t bytes = 0, count = 0, at;
  int r = ctxp_store_begin(store, err);
  if (r < 0) return r;
  r = mdb_cursor_open(store->writer, store->dbs[CTXP_DB_EVENTS], &cursor);
  if (r) return fail(store, r, "delete", err);
  while (r == 0 && count < max && bytes < enough && (r = mdb_cursor_get(cursor, &k, &v, MDB_FIRST)) == 0) {
    memcpy(&at, k.mv_data, sizeof(at));
    if (at >= number) break;
    bytes += ctxp_store_cost(v.mv_size);
    count++;
    r = mdb_cursor_del(cursor, 0);
  }
  mdb_cursor_close(cursor);
  store->txn_bytes += count * 4 * store->page_bytes;
  if (r && r != MDB_NOTFOUND) return fail(store, r, "delete", err);
  *ret_bytes = bytes;
  *ret_count = count;
  return 0;
}
