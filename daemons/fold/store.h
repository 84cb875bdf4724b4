/* The fold's state: sessions, windows and the calls that were counted, in memory while they are worked on, in the stage's store
 * for ever. A save writes only what changed: lists only grow or change near their end, and are stored in pieces. What is loaded
 * gives the same output as what was never unloaded, because all sums are derived from the lists. */
#pragma once
#include "ctxpipe/stage.h"
#include "fold/ledger.h"
#include "fold/window.h"

#define CTXP_FOLD_FORMAT 3 /* of the store; raised when a record changes its form */

struct ctxp_fold_billed_call { /* a response that was counted, and where */
  struct ctxp_hash128 id, window;
  uint64_t sum; /* of the usage that was counted */
  uint32_t request; /* in its window's list */
  UT_hash_handle hh;
};
/* A tool call of an agent, once for ever: a resumed or copied conversation says it again under another name. */
enum { CTXP_FOLD_TOOL_SHELL = 1, /* what was counted of it as potential */
  CTXP_FOLD_TOOL_WRITTEN = 2,
  CTXP_FOLD_TOOL_TAGGED = 4,
  CTXP_FOLD_TOOL_REMOVED = 8 };
struct ctxp_fold_tool {
  struct ctxp_hash128 id, window; /* of agent and call; the window that had it first */
  uint8_t counted;
  bool changed;
  UT_hash_handle hh;
};
struct ctxp_fold {
  struct ctxp_fold_session *sessions; /* loaded ones */
  struct ctxp_fold_window *windows;
  struct ctxp_fold_window *last; /* the window of the event before, which is most often this one's too */
  struct ctxp_fold_billed_call *calls; /* since the last save */
  struct ctxp_fold_tool *tools; /* used since the last save */
  uint64_t session_count, saved_count; /* all there ever were; what the store says */
  bool opened; /* the count is read */
  bool by_estimate; /* of windows that begin: their sizes are as the definitions say them */
};

/* The window of an event, made if it is not known, its session too; *ret_known: the session was known. -ENOMEM, -EBADMSG. */
int ctxp_fold_window_of(struct ctxp_stage *stage, const struct ctxp_event *ev, bool *ret_known, struct ctxp_fold_window **ret)
    __attribute__((warn_unused_result));
/* *ret is NULL where there is none and `create` is not set. -ENOMEM, -EBADMSG: the store is damaged. */
int ctxp_fold_session_get(struct ctxp_stage *stage, struct ctxp_str agent, struct ctxp_str session, bool create,
    struct ctxp_fold_session **ret) __attribute__((warn_unused_result));
int ctxp_fold_window_by_key(struct ctxp_stage *stage, struct ctxp_hash128 key, struct ctxp_fold_window **ret)
    __attribute__((warn_unused_result));
/* Session number 1 .. ctxp_fold_session_count. */
int ctxp_fold_session_by_number(struct ctxp_stage *stage, uint64_t number, struct ctxp_fold_session **ret)
    __attribute__((warn_unused_result));
/* -EPROTO: the store has another format. */
int ctxp_fold_session_count(struct ctxp_stage *stage, uint64_t *ret) __attribute__((warn_unused_result));
/* 0, or 1: the call was never counted. */
int ctxp_fold_call_get(struct ctxp_stage *stage, struct ctxp_hash128 id, struct ctxp_fold_billed_call *ret)
    __attribute__((warn_unused_result));
int ctxp_fold_call_put(struct ctxp_stage *stage, const struct ctxp_fold_billed_call *call) __attribute__((warn_unused_result));
/* The tool call of that id, the window's own if nobody had it before. Good until the next save. -ENOMEM, -EBADMSG. */
int ctxp_fold_tool_get(struct ctxp_stage *stage, const struct ctxp_fold_window *window, struct ctxp_hash128 call,
    struct ctxp_fold_tool **ret) __attribute__((warn_unused_result));
/* Is this figure of the call counted for the first time? It is from here on. *ret: also for a call without an id. */
int ctxp_fold_tool_count(struct ctxp_stage *stage, const struct ctxp_fold_window *window, struct ctxp_str call, unsigned figure, bool *ret)
    __attribute__((warn_unused_result));
/* Writes what changed, and unloads windows that have ended and, of many, those not touched since the last save. */
int ctxp_fold_save(struct ctxp_stage *stage) __attribute__((warn_unused_result));
/* Unloads a window that has nothing unsaved; its session too where that was its last. */
void ctxp_fold_unload(struct ctxp_stage *stage, struct ctxp_fold_window *window);
/* Unloads a session that has nothing unsaved and no window loaded. */
void ctxp_fold_unload_session(struct ctxp_stage *stage, struct ctxp_fold_session *session);
void ctxp_fold_close(struct ctxp_fold *fold);
