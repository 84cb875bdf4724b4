/* opencode's own storage, session by session, each as the JSON text that `opencode export` would print: {info, messages: [{info, parts}]}.
 * The reader of that text does the rest, so that a session is the same one however it was come by.
 *
 * Newer versions keep a database, opencode.db (tables session, message and part, the latter two with their JSON in `data`). Older ones keep
 * a JSON file for each: storage/session/PROJECT/SESSION.json, storage/message/SESSION/MESSAGE.json, storage/part/MESSAGE/PART.json; before
 * that, storage/session/info/SESSION.json, storage/session/message/SESSION/MESSAGE.json, storage/session/part/SESSION/MESSAGE/PART.json. */
#pragma once
#include "base/buf.h"
#include "codec/json_read.h"
#include "ctxpipe/error.h"

/* A text being put together. Rows and files that are no JSON objects are left out. */
struct opencode_text {
  struct ctxp_buf *out;
  struct ctxp_json *json; /* scratch */
  unsigned messages, parts; /* parts: of the last message */
  unsigned bad; /* what was left out */
  bool open; /* the last message was none of those */
};
void opencode_text_begin(struct opencode_text *text, struct ctxp_str info); /* info: JSON object */
/* The ids are as the storage has them, which overrules what the object says. */
void opencode_text_message(struct opencode_text *text, struct ctxp_str id, struct ctxp_str object);
void opencode_text_part(struct opencode_text *text, struct ctxp_str id, struct ctxp_str object);
void opencode_text_end(struct opencode_text *text);
/* Appends JSON without the blanks between its tokens. */
void opencode_compact(struct ctxp_str json, struct ctxp_buf *out);
/* Appends a JSON string. */
void opencode_quote(struct ctxp_buf *out, struct ctxp_str text);

/* ---- the database: never written to, safe while opencode runs ---- */
struct opencode_db;
/* 1: it is a database, but none of opencode's; <0: with a sentence that names the file. */
int opencode_db_open(const char *path, struct opencode_db **ret_db, struct ctxp_error *err) __attribute__((warn_unused_result));
struct opencode_db *opencode_db_free(struct opencode_db *db);
unsigned opencode_db_count(const struct opencode_db *db); /* sessions, in the order of their beginning */
struct ctxp_str opencode_db_session(const struct opencode_db *db, unsigned at, uint64_t *ret_modified_ms);
int opencode_db_read(struct opencode_db *db, unsigned at, struct opencode_text *text, struct ctxp_error *err)
    __attribute__((warn_unused_result));

/* ---- files ---- */
/* Is `path` a session's own file in such a storage? Then its text is made. 1: it is none; <0: with a sentence. */
int opencode_files_read(const char *path, struct opencode_text *text, uint64_t *ret_modified_ms, struct ctxp_error *err)
    __attribute__((warn_unused_result));
/* Does this folder belong to such a storage, and hold only what is read by way of its sessions? */
bool opencode_files_inner(const char *folder);
