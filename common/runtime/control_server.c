#include <errno.h>
#include <stdlib.h>
#include <zmq.h>
#include "bus/polling.h"
#include "runtime/control_server.h"

#define WAITERS 64
#define REQUESTS 16 /* a round */
#define REQUEST_BYTES (1 << 20)

struct waiter {
  zmq_msg_t peer, number;
  uint64_t cause;
};
struct ctxp_control_server {
  void *socket, *data;
  bool used; /* since its item was made */
  ctxp_control_handler *handler;
  struct waiter waiters[WAITERS];
  unsigned waiting;
  struct ctxp_buf data_buf, reply;
};

int ctxp_control_server_new(void *zmq, const char *endpoint, ctxp_control_handler *handler, void *data,
    struct ctxp_control_server **ret_server, struct ctxp_error *err) {
  struct ctxp_control_server *s = calloc(1, sizeof(*s));
  int linger = 500, mark = 1000;
  int64_t max_size = REQUEST_BYTES;
  if (!s) return ctxp_error_set(err, -ENOMEM, "out of memory for the control socket");
  s->handler = handler;
  s->data = data;
  s->socket = zmq_socket(zmq, ZMQ_ROUTER);
  if (s->socket) {
    zmq_setsockopt(s->socket, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(s->socket, ZMQ_SNDHWM, &mark, sizeof(mark));
    zmq_setsockopt(s->socket, ZMQ_MAXMSGSIZE, &max_size, sizeof(max_size));
  }
  if (!s->socket || zmq_bind(s->socket, endpoint) < 0) {
    int r = ctxp_error_set(err, -errno, "cannot bind %s: %s", endpoint, zmq_strerror(errno));
    ctxp_control_server_free(s);
    return r;
  }
  *ret_server = s;
  return 0;
}

struct ctxp_control_server *ctxp_control_server_free(struct ctxp_control_server *s) {
  if (!s) return NULL;
  for (unsigned i = 0; i < s->waiting; i++) {
    zmq_msg_close(&s->waiters[i].peer);
    zmq_msg_close(&s->waiters[i].number);
  }
  if (s->socket) zmq_close(s->socket);
  ctxp_buf_deinit(&s->data_buf);
  ctxp_buf_deinit(&s->reply);
  free(s);
  return NULL;
}

zmq_pollitem_t ctxp_control_server_item(struct ctxp_control_server *s) {
  zmq_pollitem_t item = {.socket = s->socket, .events = ZMQ_POLLIN, .revents = s->used ? 0 : CTXP_POLL_UNUSED};
  s->used = false;
  return item;
}

static void send_reply(struct ctxp_control_server *s, zmq_msg_t *peer, zmq_msg_t *number, int code, const char *sentence) {
  ctxp_buf_reset(&s->reply);
  ctxp_pack_map(&s->reply, 2);
  ctxp_pack_cstr(&s->reply, "ok");
  ctxp_pack_bool(&s->reply, code >= 0);
  ctxp_pack_cstr(&s->reply, code >= 0 ? "data" : "error");
  if (code >= 0)
    ctxp_pack_raw(&s->reply, ctxp_buf_raw(&s->data_buf));
  else
    ctxp_pack_cstr(&s->reply, sentence);
  if (ctxp_buf_error(&s->reply) < 0) return; /* the caller's time-out says the rest */
  s->used = true;
  if (zmq_msg_send(peer, s->socket, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) return;
  zmq_msg_send(number, s->socket, ZMQ_SNDMORE | ZMQ_DONTWAIT);
  zmq_send(s->socket, s->reply.ptr, s->reply.len, ZMQ_DONTWAIT);
}

static bool keep_waiter(struct ctxp_control_server *s, zmq_msg_t *peer, zmq_msg_t *number, uint64_t cause) {
  if (s->waiting == WAITERS) return false;
  struct waiter *waiter = &s->waiters[s->waiting++];
  waiter->cause = cause;
  zmq_msg_init(&waiter->peer);
  zmq_msg_init(&waiter->number);
  zmq_msg_move(&waiter->peer, peer);
  zmq_msg_move(&waiter->number, number);
  return true;
}

static void handle(struct ctxp_control_server *s, zmq_msg_t frames[3]) {
  struct ctxp_raw request = {zmq_msg_data(&frames[2]), zmq_msg_size(&frames[2])};
  struct ctxp_error err = {""};
  ctxp_buf_reset(&s->data_buf);
  int r = ctxp_pack_check(request) == 0 && ctxp_raw_type(request) == CTXP_PACK_MAP ?
      s->handler(s->data, request, &s->data_buf, &err) :
      ctxp_error_set(&err, -EBADMSG, "a control request must be one MessagePack map");
  if (r == 0 && ctxp_buf_error(&s->data_buf) < 0) r = ctxp_error_set(&err, -ENOMEM, "out of memory for the reply");
  if (r == 1 && keep_waiter(s, &frames[0], &frames[1], ctxp_map_u64(request, "cause", 0))) return;
  if (r == 1) r = ctxp_error_set(&err, -EBUSY, "%d requests wait already", WAITERS);
  send_reply(s, &frames[0], &frames[1], r, err.text);
}

void ctxp_control_server_ready(struct ctxp_control_server *s) {
  for (int n = 0; n < REQUESTS; n++) {
    zmq_msg_t frames[3], rest;
    int got = 0, more = 1;
    for (int i = 0; i < 3; i++) zmq_msg_init(&frames[i]);
    for (; got < 3 && more && zmq_msg_recv(&frames[got], s->socket, ZMQ_DONTWAIT) >= 0; got++) more = zmq_msg_more(&frames[got]);
    bool whole = got == 3 && !more;
    while (got && more) {
      zmq_msg_init(&rest);
      more = zmq_msg_recv(&rest, s->socket, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&rest);
      zmq_msg_close(&rest);
    }
    if (whole) handle(s, frames);
    for (int i = 0; i < 3; i++) zmq_msg_close(&frames[i]);
    if (!got) return;
  }
}

uint64_t ctxp_control_server_waits(const struct ctxp_control_server *s) {
  uint64_t least = UINT64_MAX;
  for (unsigned i = 0; i < s->waiting; i++)
    if (s->waiters[i].cause < least) least = s->waiters[i].cause;
  return least;
}

void ctxp_control_server_done(struct ctxp_control_server *s, uint64_t cause) {
  ctxp_buf_reset(&s->data_buf);
  ctxp_pack_u64(&s->data_buf, cause);
  for (unsigned i = 0; i < s->waiting;) {
    if (s->waiters[i].cause > cause) {
      i++;
      continue;
    }
    send_reply(s, &s->waiters[i].peer, &s->waiters[i].number, 0, NULL);
    zmq_msg_close(&s->waiters[i].peer);
    zmq_msg_close(&s->waiters[i].number);
    s->waiters[i] = s->waiters[--s->waiting];
  }
}
