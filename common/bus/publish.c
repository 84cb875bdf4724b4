/* Messages are built while events are appended, one open chunk a topic, and their buffers are handed to ZeroMQ without a copy. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include "bus/polling.h"
#include "bus/publish.h"

#define CHUNK_BYTES (256u << 10) /* of one message, unless one event is larger */
#define CHUNK_COUNT 1024
#define CHUNK_HEAD 5 /* room for the array's head in front of the rows */
#define HEAD_MS 1000
#define MARK 200 /* messages that may wait for one subscriber */
#define SERVE_MAX 32 /* requests a round */
#define REPLAY_COUNT 1024
#define REPLAY_BYTES (1u << 20)

struct chunk {
  struct chunk *next;
  unsigned topic, count;
  uint64_t prev;
  struct ctxp_record first; /* its body is not used */
  size_t map_at; /* where the first event's map begins */
  struct ctxp_buf rows;
};
struct subscriber {
  char *name;
  uint64_t seq;
  bool ended;
};
struct ctxp_publisher {
  char *node;
  void *pub, *router;
  struct ctxp_stream *stream;
  uint64_t epoch, watermark, last_head_ms;
  enum ctxp_flow_state state;
  bool pub_used, router_used; /* since the items were made */
  struct chunk *chunks, **tail, *open[CTXP_TOPICS];
  unsigned wanted[CTXP_TOPICS]; /* subscriptions that match; 0: nobody to send to */
  char topics[CTXP_TOPICS][CTXP_TOPIC_MAX];
  struct subscriber *subscribers;
  unsigned subscriber_count, refused;
  struct ctxp_batch batch;
  struct ctxp_buf header, body;
};

static int bind_to(void *socket, const char *endpoint, const char *node, struct ctxp_error *err) {
  if (zmq_bind(socket, endpoint) == 0) return 0;
  return ctxp_error_set(err, -errno, "node '%s' cannot bind %s: %s", node, endpoint, zmq_strerror(errno));
}

static int open_sockets(struct ctxp_publisher *p, const struct ctxp_publisher_options *options, struct ctxp_error *err) {
  int verbose = 1, mark = MARK, linger = 500, replay_mark = 1000;
  int64_t max_size = 64 << 20;
  p->pub = zmq_socket(options->zmq, ZMQ_XPUB);
  p->router = zmq_socket(options->zmq, ZMQ_ROUTER);
  if (!p->pub || !p->router) return ctxp_error_set(err, -errno, "node '%s' cannot open a socket: %s", options->node, zmq_strerror(errno));
  zmq_setsockopt(p->pub, ZMQ_XPUB_VERBOSER, &verbose, sizeof(verbose)); /* equal subscriptions, and their ends, are shown too */
  zmq_setsockopt(p->pub, ZMQ_SNDHWM, &mark, sizeof(mark));
  zmq_setsockopt(p->pub, ZMQ_LINGER, &linger, sizeof(linger));
  zmq_setsockopt(p->router, ZMQ_SNDHWM, &replay_mark, sizeof(replay_mark));
  zmq_setsockopt(p->router, ZMQ_RCVHWM, &replay_mark, sizeof(replay_mark));
  zmq_setsockopt(p->router, ZMQ_LINGER, &linger, sizeof(linger));
  zmq_setsockopt(p->router, ZMQ_MAXMSGSIZE, &max_size, sizeof(max_size));
  int r = bind_to(p->router, options->replay, options->node, err);
  return r < 0 ? r : bind_to(p->pub, options->pub, options->node, err);
}

int ctxp_publisher_new(const struct ctxp_publisher_options *options, struct ctxp_publisher **ret_publisher, struct ctxp_error *err) {
  struct ctxp_publisher *p = calloc(1, sizeof(*p));
  if (!p || !(p->node = strdup(options->node))) {
    free(p);
    return ctxp_error_set(err, -ENOMEM, "out of memory for the publisher of node '%s'", options->node);
  }
  p->stream = options->stream;
  p->tail = &p->chunks;
  for (unsigned topic = 0; topic < CTXP_TOPICS; topic++) ctxp_topic_text(topic, p->topics[topic]);
  int r = getrandom(&p->epoch, sizeof(p->epoch), 0) == sizeof(p->epoch) ?
      0 :
      ctxp_error_set(err, -EIO, "no random number for node '%s'", options->node);
  if (r == 0) r = open_sockets(p, options, err);
  if (r < 0) {
    ctxp_publisher_free(p);
    return r;
  }
  *ret_publisher = p;
  return 0;
}

struct ctxp_publisher *ctxp_publisher_free(struct ctxp_publisher *p) {
  if (!p) return NULL;
  ctxp_publisher_drop(p);
  if (p->pub) zmq_close(p->pub);
  if (p->router) zmq_close(p->router);
  for (unsigned i = 0; i < p->subscriber_count; i++) free(p->subscribers[i].name);
  free(p->subscribers);
  ctxp_batch_deinit(&p->batch);
  ctxp_buf_deinit(&p->header);
  ctxp_buf_deinit(&p->body);
  free(p->node);
  free(p);
  return NULL;
}

/* ---- sending ---- */
static struct chunk *chunk_for(struct ctxp_publisher *p, const struct ctxp_record *record, uint64_t prev) {
  struct chunk *chunk = p->open[record->topic];
  if (chunk && chunk->count < CHUNK_COUNT && chunk->rows.len + record->body.len <= CHUNK_BYTES) return chunk;
  chunk = calloc(1, sizeof(*chunk));
  if (!chunk) return NULL;
  *chunk = (struct chunk){.topic = record->topic, .prev = prev, .first = *record};
  uint8_t *room = ctxp_buf_room(&chunk->rows, CHUNK_HEAD);
  if (!room) {
    free(chunk);
    return NULL;
  }
  chunk->rows.len = CHUNK_HEAD;
  *p->tail = chunk;
  p->tail = &chunk->next;
  p->open[record->topic] = chunk;
  return chunk;
}

int ctxp_publisher_add(struct ctxp_publisher *p, const struct ctxp_record *record, uint64_t prev) {
  if (!p->wanted[record->topic]) return 0; /* whoever subscribes later sees from the head that there is something to replay */
  struct chunk *chunk = chunk_for(p, record, prev);
  if (!chunk) return -ENOMEM;
  ctxp_pack_array(&chunk->rows, 4);
  ctxp_pack_u64(&chunk->rows, record->seq);
  ctxp_pack_u64(&chunk->rows, record->cause);
  ctxp_pack_u64(&chunk->rows, record->ts_ms);
  if (chunk->count++ == 0) chunk->map_at = chunk->rows.len;
  ctxp_buf_add(&chunk->rows, record->body.ptr, record->body.len);
  return ctxp_buf_error(&chunk->rows);
}

void ctxp_publisher_drop(struct ctxp_publisher *p) {
  for (struct chunk *chunk = p->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    ctxp_buf_deinit(&chunk->rows);
    free(chunk);
  }
  p->chunks = NULL;
  p->tail = &p->chunks;
  memset(p->open, 0, sizeof(p->open));
}

static void free_buffer(void *data, void *hint) {
  (void)data;
  free(hint);
}

/* hands the buffer over; the rest of the message goes with it or not at all */
static void send_buffer(void *socket, struct ctxp_buf *buf, size_t from, int flags) {
  zmq_msg_t msg;
  if (zmq_msg_init_data(&msg, buf->ptr + from, buf->len - from, free_buffer, buf->ptr) < 0) return;
  *buf = (struct ctxp_buf){0};
  if (zmq_msg_send(&msg, socket, flags | ZMQ_DONTWAIT) < 0) zmq_msg_close(&msg);
}

static void send_chunk(struct ctxp_publisher *p, struct chunk *chunk) {
  const char *topic = p->topics[chunk->topic];
  size_t from = chunk->map_at;
  if (chunk->count > 1) {
    uint8_t *head = chunk->rows.ptr;
    head[0] = 0xdd; /* array 32 */
    for (int i = 0; i < 4; i++) head[1 + i] = (uint8_t)(chunk->count >> (24 - 8 * i));
    from = 0;
  }
  ctxp_buf_reset(&p->header);
  ctxp_wire_pack_header(&p->header, &chunk->first, chunk->prev);
  if (zmq_send(p->pub, topic, strlen(topic), ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) return;
  zmq_send(p->pub, p->header.ptr, p->header.len, ZMQ_SNDMORE | ZMQ_DONTWAIT);
  send_buffer(p->pub, &chunk->rows, from, 0);
}

static void send_head(struct ctxp_publisher *p, uint64_t now_ms) {
  struct ctxp_wire_head head = {.stream = ctxp_stream_id(p->stream),
      .epoch = p->epoch,
      .seq = ctxp_stream_head(p->stream),
      .watermark = p->watermark,
      .state = p->state};
  for (unsigned topic = 0; topic < CTXP_TOPICS; topic++) head.topic[topic] = ctxp_stream_topic_head(p->stream, topic);
  ctxp_buf_reset(&p->header);
  ctxp_buf_reset(&p->body);
  ctxp_wire_pack_head(&p->header, &p->body, &head);
  p->last_head_ms = now_ms;
  p->pub_used = true; /* for the chunks before it too */
  if (ctxp_buf_error(&p->header) || ctxp_buf_error(&p->body)) return; /* the next one will say it */
  zmq_send(p->pub, CTXP_WIRE_HEAD, sizeof(CTXP_WIRE_HEAD) - 1, ZMQ_SNDMORE | ZMQ_DONTWAIT);
  zmq_send(p->pub, p->header.ptr, p->header.len, ZMQ_SNDMORE | ZMQ_DONTWAIT);
  zmq_send(p->pub, p->body.ptr, p->body.len, ZMQ_DONTWAIT);
}

void ctxp_publisher_set(struct ctxp_publisher *p, uint64_t watermark, enum ctxp_flow_state state) {
  p->watermark = watermark;
  p->state = state;
}

uint64_t ctxp_publisher_watermark(const struct ctxp_publisher *p) { return p->watermark; }

void ctxp_publisher_flush(struct ctxp_publisher *p, uint64_t now_ms) {
  for (struct chunk *chunk = p->chunks; chunk; chunk = chunk->next) send_chunk(p, chunk);
  ctxp_publisher_drop(p);
  send_head(p, now_ms);
}

/* On whole seconds of the clock that all processes share: an idle reader of several is woken once a second, not once for each. */
uint64_t ctxp_publisher_tick(struct ctxp_publisher *p, uint64_t now_ms) {
  if (now_ms / HEAD_MS > p->last_head_ms / HEAD_MS) send_head(p, now_ms);
  return (p->last_head_ms / HEAD_MS + 1) * HEAD_MS;
}

/* ---- serving ---- */
void ctxp_publisher_items(struct ctxp_publisher *p, zmq_pollitem_t items[CTXP_PUBLISHER_ITEMS]) {
  items[0] = (zmq_pollitem_t){.socket = p->pub, .events = ZMQ_POLLIN, .revents = p->pub_used ? 0 : CTXP_POLL_UNUSED};
  items[1] = (zmq_pollitem_t){.socket = p->router, .events = ZMQ_POLLIN, .revents = p->router_used ? 0 : CTXP_POLL_UNUSED};
  p->pub_used = p->router_used = false;
}

/* 1 or 0, then the prefix */
static void subscription(struct ctxp_publisher *p, const uint8_t *bytes, size_t len) {
  if (len < 1 || len - 1 >= CTXP_TOPIC_MAX) return;
  for (unsigned topic = 1; topic < CTXP_TOPICS; topic++) {
    if (strncmp(p->topics[topic], (const char *)bytes + 1, len - 1) != 0) continue;
    if (bytes[0] == 1)
      p->wanted[topic]++;
    else if (p->wanted[topic])
      p->wanted[topic]--;
  }
}

static void read_subscriptions(struct ctxp_publisher *p, uint64_t now_ms) {
  uint8_t bytes[1 + CTXP_TOPIC_MAX];
  int len, added = 0;
  while ((len = zmq_recv(p->pub, bytes, sizeof(bytes), ZMQ_DONTWAIT)) >= 0) {
    if (len > (int)sizeof(bytes)) continue; /* longer than any topic */
    subscription(p, bytes, (size_t)len);
    added |= len > 0 && bytes[0] == 1;
  }
  if (added) send_head(p, now_ms);
}

/* every event caused by the collector's events up to here is among those up to `upto` */
static uint64_t watermark_at(const struct ctxp_publisher *p, uint64_t upto) {
  if (upto >= ctxp_stream_head(p->stream)) return p->watermark;
  return p->batch.upto_cause ? p->batch.upto_cause - 1 : 0;
}

static int fill_answer(
    struct ctxp_publisher *p, const struct ctxp_wire_request *request, struct ctxp_wire_answer *answer, struct ctxp_error *err) {
  int r = ctxp_stream_check(p->stream, &request->place, p->node, err);
  answer->text = ctxp_str(err->text);
  if (r < 0) return r;
  answer->status = r ? CTXP_REPLAY_DIVERGED : CTXP_REPLAY_OK;
  if (r) return 0;
  answer->text = (struct ctxp_str){0};
  uint64_t from = request->place.seq, to = answer->head;
  if (from + 1 < answer->first) from = answer->first - 1; /* the reader sees `first`, and what it has lost */
  if (request->to && request->to < to) to = request->to;
  r = ctxp_stream_read(p->stream, from, to, &request->topics, REPLAY_COUNT, REPLAY_BYTES, &p->batch, err);
  answer->upto = p->batch.upto;
  answer->watermark = watermark_at(p, answer->upto);
  return r;
}

static int serve(struct ctxp_publisher *p, zmq_msg_t *peer, const struct ctxp_wire_request *request, struct ctxp_error *err) {
  struct ctxp_buf header = {0}, body = {0};
  struct ctxp_wire_answer answer = {.number = request->number,
      .stream = ctxp_stream_id(p->stream),
      .epoch = p->epoch,
      .first = ctxp_stream_first(p->stream),
      .head = ctxp_stream_head(p->stream)};
  p->batch.count = 0;
  p->router_used = true;
  int r = fill_answer(p, request, &answer, err);
  if (r < 0) return r;
  ctxp_wire_pack_answer(&header, &answer);
  ctxp_wire_pack_batch(&body, &p->batch);
  if (ctxp_buf_error(&header) == 0 && ctxp_buf_error(&body) == 0 && zmq_msg_send(peer, p->router, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0) {
    send_buffer(p->router, &header, 0, ZMQ_SNDMORE);
    send_buffer(p->router, &body, 0, 0);
  }
  ctxp_buf_deinit(&header);
  ctxp_buf_deinit(&body);
  return 0;
}

static void report(struct ctxp_publisher *p, const struct ctxp_wire_report *report) {
  if (report->place.stream != ctxp_stream_id(p->stream)) return;
  for (unsigned i = 0; i < p->subscriber_count; i++) {
    if (!ctxp_str_is(report->node, p->subscribers[i].name)) continue;
    p->subscribers[i].seq = report->place.seq;
    p->subscribers[i].ended = report->ended && report->place.seq == ctxp_stream_head(p->stream);
  }
}

static int serve_one(struct ctxp_publisher *p, zmq_msg_t *peer, zmq_msg_t *frame, struct ctxp_error *err) {
  struct ctxp_wire_request request;
  struct ctxp_wire_report reported;
  struct ctxp_error why;
  int r = ctxp_wire_asked((struct ctxp_raw){zmq_msg_data(frame), zmq_msg_size(frame)}, &request, &reported, &why);
  if (r == 1) return serve(p, peer, &request, err);
  if (r == 2) report(p, &reported);
  p->refused += r < 0;
  return 0;
}

/* 0: nothing (more) there */
static int receive_one(struct ctxp_publisher *p, struct ctxp_error *err) {
  zmq_msg_t peer, frame, rest;
  int r = 1;
  zmq_msg_init(&peer);
  zmq_msg_init(&frame);
  if (zmq_msg_recv(&peer, p->router, ZMQ_DONTWAIT) < 0) {
    r = 0;
  } else if (zmq_msg_more(&peer) && zmq_msg_recv(&frame, p->router, ZMQ_DONTWAIT) >= 0) {
    for (int more = zmq_msg_more(&frame); more; zmq_msg_close(&rest)) { /* frames that no request has */
      zmq_msg_init(&rest);
      more = zmq_msg_recv(&rest, p->router, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&rest);
    }
    int served = serve_one(p, &peer, &frame, err);
    if (served < 0) r = served;
  }
  zmq_msg_close(&peer);
  zmq_msg_close(&frame);
  return r;
}

int ctxp_publisher_ready(
    struct ctxp_publisher *p, const zmq_pollitem_t items[CTXP_PUBLISHER_ITEMS], uint64_t now_ms, struct ctxp_error *err) {
  if (items[0].revents & ZMQ_POLLIN) read_subscriptions(p, now_ms);
  if (!(items[1].revents & ZMQ_POLLIN)) return 0;
  for (int i = 0; i < SERVE_MAX; i++) {
    int r = receive_one(p, err);
    if (r <= 0) return r;
  }
  return 0;
}

/* ---- subscribers ---- */
int ctxp_publisher_subscribers(struct ctxp_publisher *p, const char *const *names, unsigned count) {
  struct subscriber *list = calloc(count ? count : 1, sizeof(*list));
  if (!list) return -ENOMEM;
  for (unsigned i = 0; i < count; i++) {
    for (unsigned k = 0; k < p->subscriber_count; k++)
      if (strcmp(p->subscribers[k].name, names[i]) == 0) list[i] = p->subscribers[k];
    list[i].name = strdup(names[i]);
    if (list[i].name) continue;
    while (i-- > 0) free(list[i].name);
    free(list);
    return -ENOMEM;
  }
  for (unsigned k = 0; k < p->subscriber_count; k++) free(p->subscribers[k].name);
  free(p->subscribers);
  p->subscribers = list;
  p->subscriber_count = count;
  return 0;
}

uint64_t ctxp_publisher_done(const struct ctxp_publisher *p) {
  uint64_t done = ctxp_stream_head(p->stream);
  for (unsigned i = 0; i < p->subscriber_count; i++)
    if (p->subscribers[i].seq < done) done = p->subscribers[i].seq;
  return done;
}

bool ctxp_publisher_all_ended(const struct ctxp_publisher *p) {
  for (unsigned i = 0; i < p->subscriber_count; i++)
    if (!p->subscribers[i].ended) return false;
  return true;
}

unsigned ctxp_publisher_refused(const struct ctxp_publisher *p) { return p->refused; }
