/* Which state a reader is in, and what comes in: heads, messages, answers. What it has at hand is its inbox. */
#include <errno.h>
#include <stdlib.h>
#include "bus/inbox.h"
#include "bus/polling.h"
#include "bus/subscribe.h"

#define HOLD_BYTES (8u << 20) /* held above `complete` before the live messages are left */
#define READY_BYTES (4u << 20) /* at hand before reading stops */
#define READY_COUNT 16384
#define FAR 20000 /* events behind the head at which the live messages are left */
#define READ_MAX 256 /* messages a round */
#define JOIN_MS 100 /* subscriptions are on their way for a moment: what is missed meanwhile is replayed, and is no gap */
#define MARK 200
#define REPEAT_MS 500 /* after this a request is repeated, then after twice as long, up to REPEAT_MAX_MS */
#define REPEAT_MAX_MS 4000

enum mode { APART,
  JOINING,
  LIVE };

struct ctxp_sub {
  char *node, *upstream;
  void *sub, *dealer;
  struct ctxp_topics topics;
  enum mode mode;
  bool sub_used, dealer_used; /* since the items were made */
  bool from_now, hungry, missing; /* missing: a head was not whole, and what it lacked is not replayed yet */
  uint64_t epoch, stream, complete, watermark, head;
  enum ctxp_flow_state state_seen, state;
  uint64_t have[CTXP_TOPICS]; /* last event of a topic up to which there is no hole */
  struct ctxp_inbox inbox;
  struct ctxp_place passed; /* checksum of the last event that was passed; seq is not used */
  uint64_t asked, asked_ms, repeat_ms, number, joined_ms; /* asked: number of the request that is out, 0: none */
  struct ctxp_sub_figures figures;
  struct ctxp_buf scratch;
};

/* ---- sockets ---- */
static void subscribe(struct ctxp_sub *s, int option) {
  char text[CTXP_TOPIC_MAX];
  s->sub_used = true;
  for (unsigned topic = 1; topic < CTXP_TOPICS; topic++) {
    if (!ctxp_topics_has(&s->topics, topic) || topic == CTXP_KIND_tool_result) continue;
    ctxp_topic_text(topic, text);
    zmq_setsockopt(s->sub, option, text, strlen(text));
  }
}

static int open_sockets(struct ctxp_sub *s, const struct ctxp_sub_options *options, struct ctxp_error *err) {
  int mark = MARK, linger = 0, report_linger = 1000, reconnect = 20, reconnect_max = 500;
  s->sub = zmq_socket(options->zmq, ZMQ_SUB);
  s->dealer = zmq_socket(options->zmq, ZMQ_DEALER);
  if (!s->sub || !s->dealer) return ctxp_error_set(err, -errno, "node '%s' cannot open a socket: %s", options->node, zmq_strerror(errno));
  zmq_setsockopt(s->sub, ZMQ_RCVHWM, &mark, sizeof(mark));
  zmq_setsockopt(s->sub, ZMQ_LINGER, &linger, sizeof(linger));
  zmq_setsockopt(s->dealer, ZMQ_LINGER, &report_linger, sizeof(report_linger));
  zmq_setsockopt(s->dealer, ZMQ_SNDHWM, &mark, sizeof(mark));
  void *const both[] = {s->sub, s->dealer};
  for (int i = 0; i < 2; i++) {
    zmq_setsockopt(both[i], ZMQ_RECONNECT_IVL, &reconnect, sizeof(reconnect));
    zmq_setsockopt(both[i], ZMQ_RECONNECT_IVL_MAX, &reconnect_max, sizeof(reconnect_max));
  }
  zmq_setsockopt(s->sub, ZMQ_SUBSCRIBE, CTXP_WIRE_HEAD, sizeof(CTXP_WIRE_HEAD) - 1);
  if (zmq_connect(s->dealer, options->replay) < 0)
    return ctxp_error_set(err, -errno, "node '%s' cannot connect to %s: %s", options->node, options->replay, zmq_strerror(errno));
  if (zmq_connect(s->sub, options->pub) < 0)
    return ctxp_error_set(err, -errno, "node '%s' cannot connect to %s: %s", options->node, options->pub, zmq_strerror(errno));
  return 0;
}

int ctxp_sub_new(const struct ctxp_sub_options *options, struct ctxp_sub **ret_sub, struct ctxp_error *err) {
  struct ctxp_sub *s = calloc(1, sizeof(*s));
  if (!s) return ctxp_error_set(err, -ENOMEM, "out of memory for the upstream '%s'", options->upstream);
  ctxp_inbox_init(&s->inbox);
  s->topics = options->topics;
  s->passed = options->place;
  s->stream = options->place.stream;
  s->complete = options->place.seq;
  s->from_now = options->from_now && !s->stream;
  s->node = strdup(options->node);
  s->upstream = strdup(options->upstream);
  int r = s->node && s->upstream ? open_sockets(s, options, err) :
                                   ctxp_error_set(err, -ENOMEM, "out of memory for the upstream '%s'", options->upstream);
  if (r < 0) {
    ctxp_sub_free(s);
    return r;
  }
  *ret_sub = s;
  return 0;
}

struct ctxp_sub *ctxp_sub_free(struct ctxp_sub *s) {
  if (!s) return NULL;
  ctxp_inbox_deinit(&s->inbox);
  if (s->sub) zmq_close(s->sub);
  if (s->dealer) zmq_close(s->dealer);
  ctxp_buf_deinit(&s->scratch);
  free(s->node);
  free(s->upstream);
  free(s);
  return NULL;
}

/* ---- asking for a replay ---- */
/* The last event that was passed, with its checksum: worked out when it is asked for, or when its message is let go of. */
static struct ctxp_place passed(const struct ctxp_sub *s) {
  const struct ctxp_item *item = &s->inbox.last.item;
  struct ctxp_place place = s->passed;
  if (!s->inbox.last.block) return place;
  struct ctxp_record record = {item->seq, item->cause, item->ts_ms, item->topic, item->body};
  place.check_seq = record.seq;
  place.checksum = ctxp_record_checksum(&record);
  return place;
}

static struct ctxp_place asking_place(const struct ctxp_sub *s) {
  struct ctxp_place place = passed(s);
  place.stream = s->stream;
  place.seq = s->complete;
  return place;
}

static void send_request(struct ctxp_sub *s, uint64_t now_ms) {
  struct ctxp_wire_request request = {.number = s->asked, .place = asking_place(s), .topics = s->topics};
  ctxp_buf_reset(&s->scratch);
  ctxp_wire_pack_request(&s->scratch, &request);
  s->asked_ms = now_ms;
  s->dealer_used = true;
  if (ctxp_buf_error(&s->scratch) == 0) zmq_send(s->dealer, s->scratch.ptr, s->scratch.len, ZMQ_DONTWAIT); /* else repeated */
}

static bool enough(const struct ctxp_sub *s) {
  return !s->hungry && (s->inbox.ready_bytes > READY_BYTES || ctxp_inbox_count(&s->inbox) > READY_COUNT);
}

/* for what comes next, as far as the head; one request at a time */
static void ask(struct ctxp_sub *s, uint64_t now_ms) {
  if (s->asked || enough(s)) return;
  s->asked = ++s->number;
  s->repeat_ms = REPEAT_MS;
  send_request(s, now_ms);
}

static void go_apart(struct ctxp_sub *s, uint64_t now_ms) {
  if (s->mode != APART) subscribe(s, ZMQ_UNSUBSCRIBE);
  s->mode = APART;
  ctxp_inbox_drop_held(&s->inbox);
  memset(s->have, 0, sizeof(s->have));
  ask(s, now_ms);
}

int ctxp_sub_peek(struct ctxp_sub *s, struct ctxp_item *ret_item) {
  const struct ctxp_item *item = ctxp_inbox_first(&s->inbox);
  if (item) *ret_item = *item;
  return item != NULL;
}

void ctxp_sub_next(struct ctxp_sub *s) {
  if (!ctxp_inbox_first(&s->inbox)) return;
  ctxp_inbox_next(&s->inbox);
  if (ctxp_inbox_count(&s->inbox)) return;
  s->passed = passed(s); /* its message is not kept while nothing is at hand */
  ctxp_inbox_forget_last(&s->inbox);
}

struct ctxp_place ctxp_sub_place(const struct ctxp_sub *s) {
  const struct ctxp_item *item = ctxp_inbox_first(&s->inbox);
  struct ctxp_place place = passed(s);
  place.stream = s->stream;
  place.seq = item ? item->seq - 1 : s->complete;
  return place;
}

uint64_t ctxp_sub_complete(const struct ctxp_sub *s) { return s->complete; }
uint64_t ctxp_sub_watermark(const struct ctxp_sub *s) { return s->watermark; }
enum ctxp_flow_state ctxp_sub_state_seen(const struct ctxp_sub *s) { return s->state_seen; }
const char *ctxp_sub_upstream(const struct ctxp_sub *s) { return s->upstream; }
void ctxp_sub_hungry(struct ctxp_sub *s, bool hungry) { s->hungry = hungry; }

enum ctxp_flow_state ctxp_sub_state(const struct ctxp_sub *s) { return ctxp_inbox_first(&s->inbox) ? CTXP_FLOW_LIVE : s->state; }

/* ---- what comes in ---- */
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* does the block follow what is there of its topic? */
static void chain(struct ctxp_sub *s, const struct ctxp_block *block) {
  if (block->prev <= most(s->complete, s->have[block->topic])) s->have[block->topic] = ctxp_block_last(block);
}

static void chain_held(struct ctxp_sub *s) {
  for (const struct ctxp_block *block = s->inbox.held; block; block = block->next) chain(s, block);
}

static int on_message(struct ctxp_sub *s, unsigned topic, struct ctxp_raw header, zmq_msg_t *body, struct ctxp_error *err) {
  if (s->mode == APART || !ctxp_topics_has(&s->topics, topic)) return 0; /* on its way when the subscription ended */
  struct ctxp_block *block = ctxp_inbox_block(&s->inbox);
  if (!block) return ctxp_error_set(err, -ENOMEM, "out of memory for a message of '%s'", s->upstream);
  zmq_msg_move(&block->msg, body);
  struct ctxp_raw raw = {zmq_msg_data(&block->msg), zmq_msg_size(&block->msg)};
  int r = ctxp_wire_message(topic, header, raw, &block->prev, &block->items, err);
  if (r < 0 || ctxp_block_last(block) <= s->complete) {
    s->figures.refused += r == -EBADMSG; /* its events are missed at the next head, and replayed */
    ctxp_inbox_let_go(&s->inbox, block);
    return r == -EBADMSG ? 0 : r;
  }
  block->topic = topic;
  block->bytes = raw.len + block->items.count * sizeof(struct ctxp_ready);
  ctxp_inbox_hold(&s->inbox, block);
  chain(s, block);
  return 0;
}

/* a head or an answer of another epoch: the publisher was started anew, and its stream may be another */
static bool new_epoch(struct ctxp_sub *s, uint64_t epoch, uint64_t now_ms) {
  if (s->epoch == epoch) return false;
  s->epoch = epoch;
  s->state = s->state_seen = CTXP_FLOW_LIVE;
  s->asked = 0;
  go_apart(s, now_ms);
  return true;
}

static bool whole(const struct ctxp_sub *s, const struct ctxp_wire_head *head) {
  for (unsigned topic = 1; topic < CTXP_TOPICS; topic++)
    if (ctxp_topics_has(&s->topics, topic) && head->topic[topic] > most(s->complete, s->have[topic])) return false;
  return true;
}

static int reached(struct ctxp_sub *s, uint64_t upto, bool take) {
  if (ctxp_inbox_advance(&s->inbox, s->complete, upto, take) < 0) return -ENOMEM;
  s->complete = most(s->complete, upto);
  if (!take) chain_held(s);
  return 0;
}

static int on_head(struct ctxp_sub *s, const struct ctxp_wire_head *head, uint64_t now_ms, struct ctxp_error *err) {
  if (!s->stream && s->from_now) {
    s->complete = head->seq;
    s->from_now = false;
  }
  if (new_epoch(s, head->epoch, now_ms)) s->head = head->seq;
  s->head = most(s->head, head->seq);
  s->state_seen = head->state;
  if (head->seq < s->complete) return 0; /* said before what was replayed meanwhile */
  if (s->mode == APART) {
    ask(s, now_ms);
    return 0;
  }
  s->missing = !whole(s, head);
  if (!s->missing) {
    if (reached(s, head->seq, true) < 0) return ctxp_error_set(err, -ENOMEM, "out of memory for the events of '%s'", s->upstream);
    s->watermark = most(s->watermark, head->watermark);
    s->state = head->state;
    if (now_ms >= s->joined_ms + JOIN_MS) s->mode = LIVE;
    return 0;
  }
  if (s->mode == LIVE && !s->asked) s->figures.gaps++;
  if (head->seq - s->complete > FAR || s->inbox.held_bytes > HOLD_BYTES)
    go_apart(s, now_ms);
  else
    ask(s, now_ms);
  return 0;
}

/* the upstream no longer has what comes next: said as an event, whose number is the last that is lost */
static int add_gap(struct ctxp_sub *s, const struct ctxp_wire_answer *answer, struct ctxp_block *block) {
  uint64_t from = s->complete + 1, to = answer->first - 1;
  struct ctxp_event event = {.kind = CTXP_KIND_gap, .ts_ms = block->items.count ? block->items.at[0].ts_ms : 0};
  ctxp_auto_buf body = {0};
  ctxp_set(&event.gap, gap, side, CTXP_GAP_stream);
  ctxp_set(&event.gap, gap, count, to - from + 1);
  ctxp_set(&event.gap, gap, from, from);
  ctxp_set(&event.gap, gap, to, to);
  s->figures.lost += to - from + 1;
  struct ctxp_block *gap = ctxp_topics_has(&s->topics, CTXP_KIND_gap) ? ctxp_inbox_block(&s->inbox) : NULL;
  if (!gap) return 0;
  int r = ctxp_event_encode(&event, &body);
  if (r < 0 || zmq_msg_init_size(&gap->msg, body.len) < 0) return -ENOMEM;
  memcpy(zmq_msg_data(&gap->msg), body.ptr, body.len);
  if (!gap->items.at && !(gap->items.at = calloc(1, sizeof(*gap->items.at)))) return -ENOMEM;
  gap->items.cap = gap->items.cap ? gap->items.cap : 1;
  gap->items.count = 1;
  gap->items.at[0] = (struct ctxp_item){to, block->items.count ? block->items.at[0].cause : answer->watermark + 1, event.ts_ms,
      CTXP_KIND_gap, {zmq_msg_data(&gap->msg), body.len}};
  gap->bytes = body.len;
  r = ctxp_inbox_release(&s->inbox, gap, 0, UINT64_MAX);
  ctxp_inbox_let_go(&s->inbox, gap);
  return r;
}

static int diverged(struct ctxp_sub *s, const struct ctxp_wire_answer *answer, struct ctxp_error *err) {
  return ctxp_error_set(err, -ESTALE,
      "node '%s' cannot go on behind '%s': %.*s; restore it from a backup, or move state_dir away to start afresh", s->node, s->upstream,
      (int)answer->text.len, answer->text.ptr);
}

static int take_answer(struct ctxp_sub *s, const struct ctxp_wire_answer *answer, struct ctxp_block *block, uint64_t now_ms) {
  s->asked = 0;
  s->stream = answer->stream;
  s->head = most(s->head, answer->head);
  int r = answer->first > s->complete + 1 ? add_gap(s, answer, block) : 0;
  if (r == 0) r = ctxp_inbox_release(&s->inbox, block, s->complete, answer->upto);
  if (r == 0) r = reached(s, answer->upto, false);
  if (r < 0) return r;
  s->watermark = most(s->watermark, answer->watermark);
  if (answer->upto < answer->head) {
    ask(s, now_ms);
    return 0;
  }
  s->missing = false;
  if (s->mode != APART) return 0;
  subscribe(s, ZMQ_SUBSCRIBE); /* a head comes for it */
  s->mode = JOINING;
  s->joined_ms = now_ms;
  return 0;
}

static int on_answer(struct ctxp_sub *s, struct ctxp_raw header, zmq_msg_t *body, uint64_t now_ms, struct ctxp_error *err) {
  struct ctxp_wire_answer answer;
  struct ctxp_block *block = ctxp_inbox_block(&s->inbox);
  if (!block) return ctxp_error_set(err, -ENOMEM, "out of memory for a replay of '%s'", s->upstream);
  zmq_msg_move(&block->msg, body);
  block->bytes = zmq_msg_size(&block->msg);
  int r = ctxp_wire_answer(header, (struct ctxp_raw){zmq_msg_data(&block->msg), block->bytes}, &answer, &block->items, err);
  block->bytes += block->items.count * sizeof(struct ctxp_ready);
  if (r == -EBADMSG) {
    s->figures.refused++; /* asked again after a while */
    r = 0;
  } else if (r == 0 && answer.number == s->asked && !new_epoch(s, answer.epoch, now_ms)) {
    if (answer.status == CTXP_REPLAY_DIVERGED)
      r = diverged(s, &answer, err);
    else if (take_answer(s, &answer, block, now_ms) < 0)
      r = ctxp_error_set(err, -ENOMEM, "out of memory for a replay of '%s'", s->upstream);
  }
  ctxp_inbox_let_go(&s->inbox, block);
  return r;
}

/* ---- the loop's side ---- */
/* a whole message of `count` frames; 0: none there, 1: taken, 2: it has another number of frames */
static int receive(void *socket, zmq_msg_t *frames, int count) {
  for (int i = 0; i < count; i++) {
    if (zmq_msg_recv(&frames[i], socket, ZMQ_DONTWAIT) < 0) return 0;
    if (zmq_msg_more(&frames[i]) == (i + 1 < count)) continue;
    while (zmq_msg_more(&frames[i]))
      if (zmq_msg_recv(&frames[i], socket, ZMQ_DONTWAIT) < 0) return 0;
    return 2;
  }
  return 1;
}

static struct ctxp_raw raw_of(zmq_msg_t *msg) { return (struct ctxp_raw){zmq_msg_data(msg), zmq_msg_size(msg)}; }

static int published(struct ctxp_sub *s, zmq_msg_t frames[3], uint64_t now_ms, struct ctxp_error *err) {
  struct ctxp_str topic = {zmq_msg_data(&frames[0]), zmq_msg_size(&frames[0])};
  if (!ctxp_str_is(topic, CTXP_WIRE_HEAD)) {
    unsigned number = ctxp_wire_topic(topic);
    s->figures.refused += number == CTXP_TOPICS;
    return number == CTXP_TOPICS ? 0 : on_message(s, number, raw_of(&frames[1]), &frames[2], err);
  }
  struct ctxp_wire_head head;
  int r = ctxp_wire_head(raw_of(&frames[1]), raw_of(&frames[2]), &head, err);
  s->figures.refused += r == -EBADMSG;
  return r == -EBADMSG ? 0 : r < 0 ? r :
                                     on_head(s, &head, now_ms, err);
}

static int read_socket(struct ctxp_sub *s, bool live, uint64_t now_ms, struct ctxp_error *err) {
  zmq_msg_t frames[3];
  int r = 0, got = 1, count = live ? 3 : 2;
  for (int i = 0; i < count; i++) zmq_msg_init(&frames[i]);
  for (int n = 0; n < READ_MAX && got && r == 0 && !enough(s); n++) {
    got = receive(live ? s->sub : s->dealer, frames, count);
    s->figures.refused += got == 2;
    if (got == 1) r = live ? published(s, frames, now_ms, err) : on_answer(s, raw_of(&frames[0]), &frames[1], now_ms, err);
  }
  for (int i = 0; i < count; i++) zmq_msg_close(&frames[i]);
  return r;
}

void ctxp_sub_items(struct ctxp_sub *s, zmq_pollitem_t items[CTXP_SUB_ITEMS]) {
  short events = enough(s) ? 0 : ZMQ_POLLIN;
  items[0] = (zmq_pollitem_t){.socket = s->sub, .events = events, .revents = s->sub_used ? 0 : CTXP_POLL_UNUSED};
  items[1] = (zmq_pollitem_t){.socket = s->dealer, .events = events, .revents = s->dealer_used ? 0 : CTXP_POLL_UNUSED};
  s->sub_used = s->dealer_used = false;
}

int ctxp_sub_ready(struct ctxp_sub *s, const zmq_pollitem_t items[CTXP_SUB_ITEMS], uint64_t now_ms, struct ctxp_error *err) {
  int r = items[1].revents & ZMQ_POLLIN ? read_socket(s, false, now_ms, err) : 0;
  if (r == 0 && items[0].revents & ZMQ_POLLIN) r = read_socket(s, true, now_ms, err);
  return r;
}

uint64_t ctxp_sub_tick(struct ctxp_sub *s, uint64_t now_ms) {
  if (s->epoch && (s->mode == APART || s->missing)) ask(s, now_ms); /* it may have had enough at hand before */
  if (!s->asked) return UINT64_MAX;
  if (now_ms >= s->asked_ms + s->repeat_ms) {
    s->repeat_ms = s->repeat_ms * 2 < REPEAT_MAX_MS ? s->repeat_ms * 2 : REPEAT_MAX_MS;
    send_request(s, now_ms);
  }
  return s->asked_ms + s->repeat_ms;
}

void ctxp_sub_report(struct ctxp_sub *s, const struct ctxp_place *place, bool ended) {
  struct ctxp_wire_report report = {.node = ctxp_str(s->node), .place = *place, .ended = ended};
  ctxp_buf_reset(&s->scratch);
  ctxp_wire_pack_report(&s->scratch, &report);
  s->dealer_used = true;
  if (ctxp_buf_error(&s->scratch) == 0) zmq_send(s->dealer, s->scratch.ptr, s->scratch.len, ZMQ_DONTWAIT);
}

void ctxp_sub_figures(const struct ctxp_sub *s, struct ctxp_sub_figures *ret) {
  *ret = s->figures;
  ret->head = s->head;
  ret->held = ctxp_inbox_count(&s->inbox);
  ret->live = s->mode == LIVE;
  for (const struct ctxp_block *block = s->inbox.held; block; block = block->next) ret->held += block->items.count;
}
