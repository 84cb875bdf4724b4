#include <errno.h>
#include <stdlib.h>
#include "bus/wire.h"

static int bad(struct ctxp_error *err, const char *what) { return ctxp_error_set(err, -EBADMSG, "a %s does not decode", what); }

unsigned ctxp_wire_topic(struct ctxp_str text) {
  const char *slash = text.len ? memchr(text.ptr, '/', text.len) : NULL;
  if (!slash) return CTXP_TOPICS;
  enum ctxp_kind kind = ctxp_kind_parse((struct ctxp_str){text.ptr, (size_t)(slash - text.ptr)});
  struct ctxp_str rest = {slash + 1, text.len - (size_t)(slash - text.ptr) - 1};
  if (kind == CTXP_KIND_NONE) return CTXP_TOPICS;
  if (kind != CTXP_KIND_tool_result) return rest.len ? CTXP_TOPICS : (unsigned)kind;
  for (unsigned class = 0; class < CTXP_TOOL_CLASSES; class ++) {
    struct ctxp_str name = ctxp_str(ctxp_tool_class_name((enum ctxp_tool_class) class));
    if (rest.len == name.len + 1 && memcmp(rest.ptr, name.ptr, name.len) == 0 && rest.ptr[name.len] == '/') return CTXP_KIND_MAX + class;
  }
  return CTXP_TOPICS;
}

/* `count` unsigned numbers */
static int numbers(struct ctxp_cursor *at, unsigned count, uint64_t *ret) {
  struct ctxp_pack_value value;
  for (unsigned i = 0; i < count; i++) {
    if (ctxp_cursor_next(at, &value) < 0 || value.type != CTXP_PACK_U64) return -EBADMSG;
    ret[i] = value.u;
  }
  return 0;
}

/* the head of an array that begins with the version, of `count` elements */
static int opened(struct ctxp_cursor *at, unsigned count, const char *what, struct ctxp_error *err) {
  struct ctxp_pack_value value;
  uint64_t version;
  if (ctxp_cursor_next(at, &value) < 0 || value.type != CTXP_PACK_ARRAY || value.count < 1 || numbers(at, 1, &version) < 0)
    return bad(err, what);
  if (version != CTXP_WIRE_VERSION)
    return ctxp_error_set(err, -EPROTO, "a %s has version %llu, this node speaks version %d; run all nodes from one build", what,
        (unsigned long long)version, CTXP_WIRE_VERSION);
  return value.count == count ? 0 : bad(err, what);
}

static void open_array(struct ctxp_buf *out, uint32_t count) {
  ctxp_pack_array(out, count);
  ctxp_pack_u64(out, CTXP_WIRE_VERSION);
}

/* ---- published messages ---- */
void ctxp_wire_pack_header(struct ctxp_buf *out, const struct ctxp_record *first, uint64_t prev) {
  open_array(out, 5);
  ctxp_pack_u64(out, first->seq);
  ctxp_pack_u64(out, prev);
  ctxp_pack_u64(out, first->cause);
  ctxp_pack_u64(out, first->ts_ms);
}

static struct ctxp_item *add(struct ctxp_items *items) {
  if (items->count == items->cap) {
    unsigned cap = items->cap ? items->cap * 2 : 2;
    struct ctxp_item *at = realloc(items->at, cap * sizeof(*at));
    if (!at) return NULL;
    items->at = at;
    items->cap = cap;
  }
  return &items->at[items->count++];
}

static int out_of_memory(struct ctxp_error *err) { return ctxp_error_set(err, -ENOMEM, "out of memory for a message"); }

/* rows [seq, cause, ts_ms, (topic,) map], in rising order after `last`; topic: CTXP_TOPICS, where each row has its own */
static int rows(struct ctxp_raw body, unsigned topic, uint64_t last, struct ctxp_items *items, struct ctxp_error *err) {
  struct ctxp_cursor at = ctxp_cursor(body);
  struct ctxp_pack_value head;
  unsigned width = topic == CTXP_TOPICS ? 5 : 4;
  if (ctxp_cursor_next(&at, &head) < 0 || head.type != CTXP_PACK_ARRAY) return bad(err, "body");
  for (uint32_t i = head.count; i > 0; i--) {
    uint64_t n[4] = {0, 0, 0, topic};
    struct ctxp_raw map;
    if (ctxp_cursor_next(&at, &head) < 0 || head.type != CTXP_PACK_ARRAY || head.count != width || numbers(&at, width - 1, n) < 0)
      return bad(err, "row of a body");
    if (ctxp_cursor_skip(&at, &map) < 0 || n[0] <= last || n[3] >= CTXP_TOPICS) return bad(err, "row of a body");
    struct ctxp_item *item = add(items);
    if (!item) return out_of_memory(err);
    *item = (struct ctxp_item){n[0], n[1], n[2], (unsigned)n[3], map};
    last = n[0];
  }
  return at.at == at.end ? 0 : bad(err, "body");
}

int ctxp_wire_message(
    unsigned topic, struct ctxp_raw header, struct ctxp_raw body, uint64_t *ret_prev, struct ctxp_items *items, struct ctxp_error *err) {
  struct ctxp_cursor at = ctxp_cursor(header);
  uint64_t n[4];
  int r = opened(&at, 5, "header", err);
  if (r < 0) return r;
  if (numbers(&at, 4, n) < 0 || at.at != at.end || n[1] >= n[0] || topic >= CTXP_TOPICS || body.len == 0) return bad(err, "header");
  *ret_prev = n[1];
  items->count = 0;
  if (ctxp_raw_type(body) == CTXP_PACK_ARRAY) {
    r = rows(body, topic, n[1], items, err);
    return r < 0 ? r : items->count && items->at[0].seq == n[0] ? 0 :
                                                                  bad(err, "body");
  }
  struct ctxp_item *item = add(items);
  if (!item) return out_of_memory(err);
  *item = (struct ctxp_item){n[0], n[2], n[3], topic, body};
  return 0;
}

/* ---- heads ---- */
void ctxp_wire_pack_head(struct ctxp_buf *out_header, struct ctxp_buf *out_body, const struct ctxp_wire_head *head) {
  open_array(out_header, 6);
  ctxp_pack_u64(out_header, head->stream);
  ctxp_pack_u64(out_header, head->epoch);
  ctxp_pack_u64(out_header, head->seq);
  ctxp_pack_u64(out_header, head->watermark);
  ctxp_pack_u64(out_header, head->state);
  uint32_t pairs = 0;
  for (unsigned topic = 0; topic < CTXP_TOPICS; topic++) pairs += head->topic[topic] != 0;
  ctxp_pack_map(out_body, pairs);
  for (unsigned topic = 0; topic < CTXP_TOPICS; topic++)
    if (head->topic[topic]) {
      ctxp_pack_u64(out_body, topic);
      ctxp_pack_u64(out_body, head->topic[topic]);
    }
}

int ctxp_wire_head(struct ctxp_raw header, struct ctxp_raw body, struct ctxp_wire_head *ret, struct ctxp_error *err) {
  struct ctxp_cursor at = ctxp_cursor(header);
  struct ctxp_pack_value map;
  uint64_t n[5], pair[2];
  int r = opened(&at, 6, "head", err);
  if (r < 0) return r;
  if (numbers(&at, 5, n) < 0 || at.at != at.end || n[4] > CTXP_FLOW_ENDED) return bad(err, "head");
  *ret = (struct ctxp_wire_head){.stream = n[0], .epoch = n[1], .seq = n[2], .watermark = n[3], .state = (enum ctxp_flow_state)n[4]};
  at = ctxp_cursor(body);
  if (ctxp_cursor_next(&at, &map) < 0 || map.type != CTXP_PACK_MAP) return bad(err, "head");
  for (uint32_t i = map.count; i > 0; i--) {
    if (numbers(&at, 2, pair) < 0 || pair[1] > ret->seq) return bad(err, "head");
    if (pair[0] < CTXP_TOPICS) ret->topic[pair[0]] = pair[1];
  }
  return at.at == at.end ? 0 : bad(err, "head");
}

/* ---- the replay socket ---- */
void ctxp_wire_pack_request(struct ctxp_buf *out, const struct ctxp_wire_request *request) {
  open_array(out, 6);
  ctxp_pack_u64(out, 1);
  ctxp_pack_u64(out, request->number);
  ctxp_place_pack(out, &request->place);
  ctxp_pack_u64(out, request->to);
  size_t mark = ctxp_pack_array_open(out);
  uint32_t count = 0;
  for (unsigned topic = 0; topic < CTXP_TOPICS; topic++)
    if (ctxp_topics_has(&request->topics, topic)) {
      ctxp_pack_u64(out, topic);
      count++;
    }
  ctxp_pack_close(out, mark, count);
}

void ctxp_wire_pack_report(struct ctxp_buf *out, const struct ctxp_wire_report *report) {
  open_array(out, 5);
  ctxp_pack_u64(out, 2);
  ctxp_pack_str(out, report->node);
  ctxp_place_pack(out, &report->place);
  ctxp_pack_bool(out, report->ended);
}

static int asked_request(struct ctxp_cursor *at, struct ctxp_wire_request *ret) {
  struct ctxp_pack_value list;
  uint64_t topic;
  *ret = (struct ctxp_wire_request){0};
  if (numbers(at, 1, &ret->number) < 0 || ctxp_place_unpack(at, &ret->place) < 0 || numbers(at, 1, &ret->to) < 0) return -EBADMSG;
  if (ctxp_cursor_next(at, &list) < 0 || list.type != CTXP_PACK_ARRAY) return -EBADMSG;
  for (uint32_t i = list.count; i > 0; i--) {
    if (numbers(at, 1, &topic) < 0) return -EBADMSG;
    if (topic < CTXP_TOPICS) ctxp_topics_add(&ret->topics, (unsigned)topic);
  }
  return at->at == at->end ? 1 : -EBADMSG;
}

static int asked_report(struct ctxp_cursor *at, struct ctxp_wire_report *ret) {
  struct ctxp_pack_value name, ended;
  if (ctxp_cursor_next(at, &name) < 0 || name.type != CTXP_PACK_STR || ctxp_place_unpack(at, &ret->place) < 0) return -EBADMSG;
  if (ctxp_cursor_next(at, &ended) < 0 || ended.type != CTXP_PACK_BOOL || at->at != at->end) return -EBADMSG;
  ret->node = name.str;
  ret->ended = ended.b;
  return 2;
}

int ctxp_wire_asked(
    struct ctxp_raw frame, struct ctxp_wire_request *ret_request, struct ctxp_wire_report *ret_report, struct ctxp_error *err) {
  struct ctxp_cursor at = ctxp_cursor(frame), count = at;
  struct ctxp_pack_value head;
  uint64_t op;
  if (ctxp_cursor_next(&count, &head) < 0 || head.type != CTXP_PACK_ARRAY) return bad(err, "request for a replay");
  int r = opened(&at, head.count, "request for a replay", err);
  if (r < 0) return r;
  if (numbers(&at, 1, &op) < 0) return bad(err, "request for a replay");
  if (op == 1 && head.count == 6)
    r = asked_request(&at, ret_request);
  else if (op == 2 && head.count == 5)
    r = asked_report(&at, ret_report);
  else
    r = -EBADMSG;
  return r < 0 ? bad(err, "request for a replay") : r;
}

void ctxp_wire_pack_answer(struct ctxp_buf *out, const struct ctxp_wire_answer *answer) {
  open_array(out, 10);
  ctxp_pack_u64(out, answer->number);
  ctxp_pack_u64(out, answer->status);
  ctxp_pack_u64(out, answer->stream);
  ctxp_pack_u64(out, answer->epoch);
  ctxp_pack_u64(out, answer->first);
  ctxp_pack_u64(out, answer->upto);
  ctxp_pack_u64(out, answer->watermark);
  ctxp_pack_u64(out, answer->head);
  ctxp_pack_str(out, answer->text);
}

void ctxp_wire_pack_batch(struct ctxp_buf *out, const struct ctxp_batch *batch) {
  ctxp_pack_array(out, batch->count);
  for (unsigned i = 0; i < batch->count; i++) {
    const struct ctxp_record *row = &batch->rows[i];
    ctxp_pack_array(out, 5);
    ctxp_pack_u64(out, row->seq);
    ctxp_pack_u64(out, row->cause);
    ctxp_pack_u64(out, row->ts_ms);
    ctxp_pack_u64(out, row->topic);
    ctxp_buf_add(out, row->body.ptr, row->body.len);
  }
}

int ctxp_wire_answer(
    struct ctxp_raw header, struct ctxp_raw body, struct ctxp_wire_answer *ret, struct ctxp_items *items, struct ctxp_error *err) {
  struct ctxp_cursor at = ctxp_cursor(header);
  struct ctxp_pack_value text;
  uint64_t n[8];
  int r = opened(&at, 10, "replay", err);
  if (r < 0) return r;
  if (numbers(&at, 8, n) < 0 || n[1] > CTXP_REPLAY_FAILED || ctxp_cursor_next(&at, &text) < 0 || text.type != CTXP_PACK_STR ||
      at.at != at.end)
    return bad(err, "replay");
  *ret = (struct ctxp_wire_answer){.number = n[0],
      .status = (enum ctxp_replay_status)n[1],
      .stream = n[2],
      .epoch = n[3],
      .first = n[4],
      .upto = n[5],
      .watermark = n[6],
      .head = n[7],
      .text = text.str};
  items->count = 0;
  r = rows(body, CTXP_TOPICS, 0, items, err);
  if (r == 0 && items->count && items->at[items->count - 1].seq > ret->upto) return bad(err, "replay");
  return r;
}
