/* The frames between nodes: published messages, heads, replay requests and answers, checkpoint reports.
 *
 *   published   topic · [version, seq, prev, cause, ts_ms] of the first event · its map, or an array of [seq, cause, ts_ms, map]
 *   head        "head/" · [version, stream, epoch, seq, watermark, state] · map of topic number to its last seq
 *   request     [version, 1, number, place, to, [topic numbers]]          (place, to: events after the place, up to `to`; 0: all)
 *   report      [version, 2, node, place, ended]
 *   answer      [version, number, status, stream, epoch, first, upto, watermark, head, text] · array of [seq, cause, ts_ms, topic, map]
 *
 * epoch: drawn at each start of a publisher; another one makes its readers prove their place again. What does not decode is
 * refused with a sentence; nothing here allocates what a frame merely claims. */
#pragma once
#include "bus/stream.h"

#define CTXP_WIRE_VERSION 1
#define CTXP_WIRE_HEAD "head/"

enum ctxp_flow_state { CTXP_FLOW_LIVE,
  CTXP_FLOW_DRAINING,
  CTXP_FLOW_ENDED };
enum ctxp_replay_status { CTXP_REPLAY_OK,
  CTXP_REPLAY_DIVERGED,
  CTXP_REPLAY_FAILED };

struct ctxp_wire_head {
  uint64_t stream, epoch, seq, watermark;
  enum ctxp_flow_state state;
  uint64_t topic[CTXP_TOPICS];
};
struct ctxp_wire_request {
  uint64_t number, to;
  struct ctxp_place place;
  struct ctxp_topics topics;
};
struct ctxp_wire_report {
  struct ctxp_str node;
  struct ctxp_place place;
  bool ended;
};
struct ctxp_wire_answer {
  uint64_t number, stream, epoch, first, upto, watermark, head;
  enum ctxp_replay_status status;
  struct ctxp_str text; /* of DIVERGED and FAILED */
};
struct ctxp_item { /* one event as it came over the wire; its body is borrowed */
  uint64_t seq, cause, ts_ms;
  unsigned topic;
  struct ctxp_raw body;
};

/* The topic's number; CTXP_TOPICS for a text that is none. */
unsigned ctxp_wire_topic(struct ctxp_str text);

void ctxp_wire_pack_header(struct ctxp_buf *out, const struct ctxp_record *first, uint64_t prev);
/* Reads a published message's header and body into *items (grown with realloc), which borrow from `body`. -EBADMSG. */
struct ctxp_items {
  struct ctxp_item *at;
  unsigned count, cap;
};
int ctxp_wire_message(unsigned topic, struct ctxp_raw header, struct ctxp_raw body, uint64_t *ret_prev, struct ctxp_items *items,
    struct ctxp_error *err) __attribute__((warn_unused_result));

void ctxp_wire_pack_head(struct ctxp_buf *out_header, struct ctxp_buf *out_body, const struct ctxp_wire_head *head);
int ctxp_wire_head(struct ctxp_raw header, struct ctxp_raw body, struct ctxp_wire_head *ret, struct ctxp_error *err)
    __attribute__((warn_unused_result));

void ctxp_wire_pack_request(struct ctxp_buf *out, const struct ctxp_wire_request *request);
void ctxp_wire_pack_report(struct ctxp_buf *out, const struct ctxp_wire_report *report);
/* What came on the replay socket. 1: a request, 2: a report. -EBADMSG. */
int ctxp_wire_asked(struct ctxp_raw frame, struct ctxp_wire_request *ret_request, struct ctxp_wire_report *ret_report,
    struct ctxp_error *err) __attribute__((warn_unused_result));

void ctxp_wire_pack_answer(struct ctxp_buf *out, const struct ctxp_wire_answer *answer);
void ctxp_wire_pack_batch(struct ctxp_buf *out, const struct ctxp_batch *batch);
int ctxp_wire_answer(struct ctxp_raw header, struct ctxp_raw body, struct ctxp_wire_answer *ret, struct ctxp_items *items,
    struct ctxp_error *err) __attribute__((warn_unused_result));
