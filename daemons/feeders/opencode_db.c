/* opencode's database. It is read through SQLite, read-only; a session is read within one transaction, so that it is whole while opencode
 * writes. Where nobody has the database open (WAL without its log beside it), it is read as one that does not change, as a plain reader
 * would leave the log's files behind, and read again in the plain way if it did change meanwhile. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "feeders/opencode_store.h"
#include "feeders/texts.h"

#define BUSY_MS 5000

struct session {
  char *id, *directory, *parent;
  uint64_t modified_ms;
};
struct opencode_db {
  char *path;
  sqlite3 *sql;
  struct session *sessions;
  uint32_t count, cap;
  bool still; /* opened as one that does not change */
  struct stat was; /* then */
};

static void finish(sqlite3_stmt **statement) { sqlite3_finalize(*statement); }
#define auto_statement ctxp_cleanup(finish) sqlite3_stmt

static int fault(const struct opencode_db *db, struct ctxp_error *err) {
  int code = db->sql ? sqlite3_errcode(db->sql) : SQLITE_NOMEM;
  if (code == SQLITE_NOMEM) return ctxp_error_set(err, -ENOMEM, "%s: out of memory while reading it", db->path);
  return ctxp_error_set(err, -EIO, "%s: the database cannot be read: %s", db->path, sqlite3_errmsg(db->sql));
}

/* ---- opening ---- */
static bool has_log(const struct opencode_db *db) {
  ctxp_auto_buf path = {0};
  struct stat st;
  ctxp_buf_printf(&path, "%s-wal", db->path);
  return stat(ctxp_buf_cstr(&path), &st) == 0;
}

static bool is_wal(const struct opencode_db *db) {
  unsigned char head[20] = {0};
  ctxp_auto_fclose FILE *file = fopen(db->path, "rbe");
  return file && fread(head, 1, sizeof(head), file) == sizeof(head) && head[18] == 2;
}

static bool changed(const struct opencode_db *db) {
  struct stat now;
  return has_log(db) || stat(db->path, &now) < 0 || now.st_size != db->was.st_size || now.st_mtim.tv_sec != db->was.st_mtim.tv_sec ||
      now.st_mtim.tv_nsec != db->was.st_mtim.tv_nsec;
}

/* file: URI of the path, in which what means something in a URI is escaped */
static void put_uri(const struct opencode_db *db, struct ctxp_buf *out) {
  ctxp_buf_str(out, "file:");
  for (const char *at = db->path; *at; at++) {
    if (*at == '?' || *at == '#' || *at == '%')
      ctxp_buf_printf(out, "%%%02X", (unsigned char)*at);
    else
      ctxp_buf_char(out, *at);
  }
  ctxp_buf_str(out, db->still ? "?mode=ro&immutable=1" : "?mode=ro");
}

static int connect(struct opencode_db *db, bool still, struct ctxp_error *err) {
  ctxp_auto_buf uri = {0};
  sqlite3_close(db->sql);
  db->sql = NULL;
  db->still = still;
  put_uri(db, &uri);
  if (uri.failed) return ctxp_error_set(err, -ENOMEM, "%s: out of memory while reading it", db->path);
  if (sqlite3_open_v2(ctxp_buf_cstr(&uri), &db->sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) != SQLITE_OK) return fault(db, err);
  sqlite3_busy_timeout(db->sql, BUSY_MS);
  return 0;
}

/* Does something with the database; again, if it changed while it was taken for one that does not. */
static int attempt(
    struct opencode_db *db, int (*work)(struct opencode_db *, void *, struct ctxp_error *), void *data, struct ctxp_error *err) {
  int r = work(db, data, err);
  if (!db->still || !changed(db)) return r;
  r = connect(db, false, err);
  return r == 0 ? work(db, data, err) : r;
}

/* ---- sessions ---- */
static void drop_sessions(struct opencode_db *db) {
  for (uint32_t i = 0; i < db->count; i++) {
    free(db->sessions[i].id);
    free(db->sessions[i].directory);
    free(db->sessions[i].parent);
  }
  db->count = 0;
}

static struct ctxp_str column(sqlite3_stmt *row, int at) {
  const char *text = (const char *)sqlite3_column_text(row, at);
  return (struct ctxp_str){text ? text : "", text ? (size_t)sqlite3_column_bytes(row, at) : 0};
}

static int add_session(struct opencode_db *db, sqlite3_stmt *row) {
  if (ctxp_grow(&db->sessions, &db->cap, db->count, sizeof(*db->sessions)) < 0) return -ENOMEM;
  struct session *s = &db->sessions[db->count++];
  sqlite3_int64 modified = sqlite3_column_int64(row, 3);
  *s = (struct session){ctxp_str_dup(column(row, 0)), ctxp_str_dup(column(row, 1)), ctxp_str_dup(column(row, 2)),
      modified > 0 ? (uint64_t)modified : 0};
  return s->id && s->directory && s->parent ? 0 : -ENOMEM;
}

/* 1: its tables are not opencode's */
static int list_sessions(struct opencode_db *db, void *data, struct ctxp_error *err) {
  static const char query[] =
      "SELECT id, directory, parent_id, max(time_updated, ifnull((SELECT max(time_updated) FROM message WHERE "
      "session_id = session.id), 0), ifnull((SELECT max(time_updated) FROM part WHERE session_id = session.id), 0)) "
      "FROM session ORDER BY time_created, id";
  static const char contents[] = "SELECT m.id, m.data, p.id, p.data FROM message m LEFT JOIN part p ON p.message_id = m.id LIMIT 1";
  auto_statement *rows = NULL, *probe = NULL;
  (void)data;
  drop_sessions(db);
  if (sqlite3_prepare_v2(db->sql, query, -1, &rows, NULL) != SQLITE_OK ||
      sqlite3_prepare_v2(db->sql, contents, -1, &probe, NULL) != SQLITE_OK)
    return sqlite3_errcode(db->sql) == SQLITE_ERROR ? 1 : fault(db, err);
  int step;
  while ((step = sqlite3_step(rows)) == SQLITE_ROW)
    if (add_session(db, rows) < 0) return ctxp_error_set(err, -ENOMEM, "%s: out of memory while reading it", db->path);
  return step == SQLITE_DONE ? 0 : fault(db, err);
}

int opencode_db_open(const char *path, struct opencode_db **ret_db, struct ctxp_error *err) {
  struct opencode_db *db = calloc(1, sizeof(*db));
  if (db) db->path = ctxp_str_dup(ctxp_str(path));
  int r = db && db->path ? 0 : ctxp_error_set(err, -ENOMEM, "%s: out of memory while reading it", path);
  if (r == 0 && stat(path, &db->was) < 0) r = ctxp_error_set(err, -errno, "%s: cannot be opened: %s", path, strerror(errno));
  if (r == 0) r = connect(db, is_wal(db) && !has_log(db), err);
  if (r == 0) r = attempt(db, list_sessions, NULL, err);
  if (r != 0)
    opencode_db_free(db);
  else
    *ret_db = db;
  return r;
}

struct opencode_db *opencode_db_free(struct opencode_db *db) {
  if (!db) return NULL;
  drop_sessions(db);
  free(db->sessions);
  sqlite3_close(db->sql);
  free(db->path);
  free(db);
  return NULL;
}

unsigned opencode_db_count(const struct opencode_db *db) { return db->count; }

struct ctxp_str opencode_db_session(const struct opencode_db *db, unsigned at, uint64_t *ret_modified_ms) {
  *ret_modified_ms = db->sessions[at].modified_ms;
  return ctxp_str(db->sessions[at].id);
}

/* ---- one session ---- */
struct reading {
  const struct session *session;
  struct opencode_text *text;
};

static int begin(const struct reading *reading) {
  ctxp_auto_buf info = {0};
  ctxp_buf_str(&info, "{\"id\":");
  opencode_quote(&info, ctxp_str(reading->session->id));
  ctxp_buf_str(&info, ",\"directory\":");
  opencode_quote(&info, ctxp_str(reading->session->directory));
  if (reading->session->parent[0]) {
    ctxp_buf_str(&info, ",\"parentID\":");
    opencode_quote(&info, ctxp_str(reading->session->parent));
  }
  ctxp_buf_char(&info, '}');
  opencode_text_begin(reading->text, ctxp_buf_view(&info));
  return ctxp_buf_error(&info);
}

/* one statement is one transaction: messages in their order, each with its parts in theirs */
static int read_session(struct opencode_db *db, void *data, struct ctxp_error *err) {
  static const char query[] = "SELECT m.id, m.data, p.id, p.data FROM message m LEFT JOIN part p ON p.message_id = m.id "
                              "WHERE m.session_id = ? ORDER BY m.time_created, m.id, p.id";
  struct reading *reading = data;
  auto_statement *rows = NULL;
  ctxp_auto_buf last = {0};
  int step, r = begin(reading);
  if (r == 0 &&
      (sqlite3_prepare_v2(db->sql, query, -1, &rows, NULL) != SQLITE_OK ||
          sqlite3_bind_text(rows, 1, reading->session->id, -1, SQLITE_STATIC) != SQLITE_OK))
    return fault(db, err);
  while (r == 0 && (step = sqlite3_step(rows)) != SQLITE_DONE) {
    if (step != SQLITE_ROW) return fault(db, err);
    struct ctxp_str id = column(rows, 0);
    if (!last.len || !ctxp_str_eq(ctxp_buf_view(&last), id)) {
      ctxp_buf_reset(&last);
      ctxp_buf_add(&last, id.ptr, id.len);
      opencode_text_message(reading->text, id, column(rows, 1));
    }
    if (sqlite3_column_type(rows, 2) != SQLITE_NULL) opencode_text_part(reading->text, column(rows, 2), column(rows, 3));
    r = ctxp_buf_error(&last);
  }
  opencode_text_end(reading->text);
  if (r < 0 || reading->text->out->failed) return ctxp_error_set(err, -ENOMEM, "%s: out of memory while reading it", db->path);
  return 0;
}

int opencode_db_read(struct opencode_db *db, unsigned at, struct opencode_text *text, struct ctxp_error *err) {
  struct reading reading = {&db->sessions[at], text};
  return attempt(db, read_session, &reading, err);
}
