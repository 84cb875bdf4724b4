/* Importing transcripts: files and folders of agents' own records become events, sent through the client library.
 *
 * A file is read as its format says, auto-detected by content. The client's key is the file's identity, and an event's number a
 * function of its place in the file and of what stands before it, so that importing again repeats nothing and a file that has grown goes
 * on where it ended. Another content under the same identity (a session that went on on two machines, a file that was rewritten) is
 * read as a version of its own; the identities of calls keep what versions have in common from counting twice. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/error.h"
#include "ctxpipe/event.h"

#define CTXP_FORMAT_NAMES "claude-code, codex, gemini-cli, gg, opencode, pi"

struct ctxp_import_progress {
  uint64_t files_done, files_total, bytes_done, bytes_total, events;
};
struct ctxp_import_options { /* borrowed for the call */
  const char *endpoint; /* of the collector's ingest */
  const char *const *paths; /* files and folders */
  unsigned path_count;
  const char *agent; /* NULL: the product's name */
  const char *format; /* NULL: by content; else a format's name */
  void (*progress)(void *data, const struct ctxp_import_progress *progress); /* about ten times a second and at the end; may be NULL */
  void *data;
  uint64_t live_s; /* a file that was written to within so many seconds is still being written: its session is not ended, and its last line
                      may not be whole yet; 0: none is */
  uint64_t since_ms; /* of a database: only the sessions that changed since then, UTC; 0: all */
  bool refused_were_told; /* what was refused when the files were read before */
  bool bare; /* the texts of results are left out where rules take no more of them than their length, lines and hash: for a pipeline that
                nobody will ask for a text (but for those of shells, which are digested) */
  volatile const int *stop; /* set by a signal handler: end early with -EINTR; may be NULL */
  int (*alive)(const void *alive_data, struct ctxp_error *err); /* asked while the collector is silent: < 0 ends the import; may be NULL */
  const void *alive_data;
};
struct ctxp_import_result {
  uint64_t files, sessions, events, refused, lines;
  struct ctxp_buf passed_over; /* MessagePack array of {file, kind, count} */
  struct ctxp_buf faults; /* sentences, one a line: files that could not be read, in whole or in part */
  unsigned fault_count;
  struct ctxp_error refusal; /* the first of what was refused, now or when the same files were read before: kind, field, reason */
  struct ctxp_buf remarks; /* sentences, one a line, about files that were read in whole: of which another version was read before */
};
/* Is there a format of that name? -EINVAL with a sentence that lists them. */
int ctxp_import_check_format(const char *name, struct ctxp_error *err) __attribute__((warn_unused_result));
/* 0: all files were read and everything is acknowledged, though some may have faults; <0 with a sentence: it could not go on
 * (-ETIMEDOUT: the collector is away; -ESTALE: another importer has taken over one of the files).
 * What was good in a faulty file has been sent. */
int ctxp_import_run(const struct ctxp_import_options *options, struct ctxp_import_result *ret_result, struct ctxp_error *err)
    __attribute__((warn_unused_result));
void ctxp_import_result_deinit(struct ctxp_import_result *result);
