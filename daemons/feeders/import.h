/* The importer without its transport: the files, their formats, and a sink that knows for each file how much of it it has. */
#pragma once
#include "feeders/feeder.h"
#include "feeders/format.h"

struct ctxp_import_sink {
  /* Begins with a file: *ret_position is the last number that is known of this key. */
  int (*open)(void *data, const char *key, const char *product, const char *agent, uint64_t *ret_position, struct ctxp_error *err);
  /* A file of this key comes soon, after others: its position may be asked for meanwhile. NULL: that takes no time. */
  int (*expect)(void *data, const char *key, const char *product, const char *agent, struct ctxp_error *err);
  int (*send)(void *data, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err);
  /* The file is done; what was sent need not have arrived yet. */
  int (*close)(void *data, struct ctxp_error *err);
  /* Before an event of a call that another file has told of: what that file sent must have arrived, so that the same one bills it each
   * time. NULL: it always has. */
  int (*settle)(void *data, struct ctxp_error *err);
  void *data;
};
int ctxp_import_files(const struct ctxp_import_options *options, const struct ctxp_import_sink *sink, struct ctxp_import_result *ret_result,
    struct ctxp_error *err) __attribute__((warn_unused_result));
/* One file from memory, its bytes as they may stand on a disk: for fuzzing. 0, or what a broken invariant gives. */
int ctxp_import_memory(struct ctxp_raw bytes, int (*send)(void *data, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err),
    void *data) __attribute__((warn_unused_result));
