/* Records of the fold's store: how sessions, windows and their lists are written and read. */
#pragma once
#include "codec/msgpack.h"
#include "fold/store.h"

enum ctxp_fold_list { CTXP_FOLD_LIST_MESSAGES,
  CTXP_FOLD_LIST_CALLS,
  CTXP_FOLD_LIST_REQUESTS,
  CTXP_FOLD_LIST_RESIDENCIES,
  CTXP_FOLD_LIST_EFFECTS,
  CTXP_FOLD_LISTS };

void ctxp_fold_write_hash(struct ctxp_buf *out, struct ctxp_hash128 hash);
void ctxp_fold_write_session(struct ctxp_buf *out, const struct ctxp_fold_session *s);
void ctxp_fold_write_window(struct ctxp_buf *out, const struct ctxp_fold_window *w);
/* records [from, to) of a list */
void ctxp_fold_write_list(struct ctxp_buf *out, const struct ctxp_fold_window *w, enum ctxp_fold_list list, uint32_t from, uint32_t to);

/* All readers: 0, -EBADMSG or -ENOMEM. */
int ctxp_fold_read_session(struct ctxp_raw raw, struct ctxp_fold_session *s) __attribute__((warn_unused_result));
/* counts: of each list, how many records belong to it */
int ctxp_fold_read_window(struct ctxp_raw raw, struct ctxp_fold_window *w, struct ctxp_str *ret_agent, struct ctxp_str *ret_session,
    uint32_t counts[CTXP_FOLD_LISTS]) __attribute__((warn_unused_result));
/* appends the records of one piece */
int ctxp_fold_read_list(struct ctxp_raw raw, struct ctxp_fold_window *w, enum ctxp_fold_list list) __attribute__((warn_unused_result));
uint64_t ctxp_fold_read_u64(struct ctxp_cursor *c, bool *bad);
struct ctxp_hash128 ctxp_fold_read_hash(struct ctxp_cursor *c, bool *bad);
