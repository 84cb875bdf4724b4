/* The caller's side of a node's control socket. A DEALER, as a REQ is stuck after one time-out. */
#include <errno.h>
#include <stdlib.h>
#include <zmq.h>
#include "base/cleanup.h"
#include "base/clock.h"
#include "codec/msgpack.h"
#include "runtime/control.h"

#define REPLY_BYTES (INT64_C(1) << 30)

static void close_socket(void **socket) {
  if (*socket) zmq_close(*socket);
}
static void end_context(void **context) {
  if (*context) zmq_ctx_term(*context);
}

static void *open_socket(void *context, const char *endpoint, struct ctxp_error *err) {
  void *socket = context ? zmq_socket(context, ZMQ_DEALER) : NULL;
  int linger = 0;
  int64_t max_size = REPLY_BYTES;
  if (!socket) {
    (void)ctxp_error_set(err, -ENOMEM, "cannot open a socket to %s: %s", endpoint, zmq_strerror(errno));
    return NULL;
  }
  zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
  zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_size, sizeof(max_size));
  if (zmq_connect(socket, endpoint) == 0) return socket;
  (void)ctxp_error_set(err, -errno, "cannot connect to %s: %s", endpoint, zmq_strerror(errno));
  zmq_close(socket);
  return NULL;
}

/* [number] [request]; the number keeps a late reply to another call apart, of which there is none on a socket of its own */
static int put(void *socket, struct ctxp_raw request) {
  return zmq_send(socket, "", 0, ZMQ_SNDMORE) < 0 || zmq_send(socket, request.ptr, request.len, 0) < 0 ? -errno : 0;
}

static int take(void *socket, zmq_msg_t *reply) {
  zmq_msg_t number;
  zmq_msg_init(&number);
  int r = zmq_msg_recv(&number, socket, 0) < 0 || zmq_msg_recv(reply, socket, 0) < 0 ? -errno : 0;
  zmq_msg_close(&number);
  return r;
}

static int unpack(const char *endpoint, struct ctxp_raw bytes, struct ctxp_buf *reply, struct ctxp_error *err) {
  if (ctxp_pack_check(bytes) < 0) return ctxp_error_set(err, -EBADMSG, "the reply from %s does not decode", endpoint);
  struct ctxp_str sentence = ctxp_map_str(bytes, "error");
  if (!ctxp_map_bool(bytes, "ok", false)) return ctxp_error_set(err, -EREMOTEIO, "%.*s", (int)sentence.len, sentence.ptr);
  struct ctxp_raw data = ctxp_map_get(bytes, "data");
  ctxp_buf_reset(reply);
  ctxp_buf_add(reply, data.ptr, data.len);
  return ctxp_buf_error(reply) ? ctxp_error_set(err, -ENOMEM, "out of memory for the reply from %s", endpoint) : 0;
}

static int finish(int r, const char *endpoint, zmq_msg_t *msg, int timeout_ms, struct ctxp_buf *reply, struct ctxp_error *err) {
  if (r == -EAGAIN)
    return ctxp_error_set(err, -ETIMEDOUT, "no reply from %s within %d ms; is its node running (ctxpipe status)?", endpoint, timeout_ms);
  if (r < 0) return ctxp_error_set(err, r, "cannot ask %s: %s", endpoint, zmq_strerror(-r));
  return unpack(endpoint, (struct ctxp_raw){zmq_msg_data(msg), zmq_msg_size(msg)}, reply, err);
}

int ctxp_control_call(const char *endpoint, struct ctxp_raw request, int timeout_ms, struct ctxp_buf *reply, struct ctxp_error *err) {
  ctxp_cleanup(end_context) void *context = zmq_ctx_new();
  ctxp_cleanup(close_socket) void *socket = open_socket(context, endpoint, err);
  if (!socket) return -ECONNREFUSED;
  zmq_msg_t msg;
  zmq_msg_init(&msg);
  int r = put(socket, request);
  zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof(timeout_ms));
  if (r == 0) r = take(socket, &msg);
  r = finish(r, endpoint, &msg, timeout_ms, reply, err);
  zmq_msg_close(&msg);
  return r;
}

static int pack_op(const char *op, struct ctxp_buf *request, struct ctxp_error *err) {
  ctxp_pack_map(request, 1);
  ctxp_pack_cstr(request, "op");
  ctxp_pack_cstr(request, op);
  return ctxp_buf_error(request) < 0 ? ctxp_error_set(err, -ENOMEM, "out of memory for a request") : 0;
}

int ctxp_control_op(const char *endpoint, const char *op, int timeout_ms, struct ctxp_buf *reply, struct ctxp_error *err) {
  ctxp_auto_buf request = {0};
  int r = pack_op(op, &request, err);
  return r < 0 ? r : ctxp_control_call(endpoint, ctxp_buf_raw(&request), timeout_ms, reply, err);
}

/* ---- several nodes ---- */
static void collect(struct ctxp_control_asked *asked, zmq_pollitem_t *item, int timeout_ms, int r) {
  zmq_msg_t msg;
  zmq_msg_init(&msg);
  if (r == 0) r = take(item->socket, &msg);
  asked->result = finish(r, asked->endpoint, &msg, timeout_ms, &asked->reply, &asked->err);
  zmq_msg_close(&msg);
  zmq_close(item->socket);
  item->socket = NULL;
}

/* those that wait are moved to the front, as ZeroMQ takes no holes */
static unsigned waiting(zmq_pollitem_t *items, unsigned *which, unsigned count) {
  unsigned kept = 0;
  for (unsigned i = 0; i < count; i++) {
    if (!items[i].socket) continue;
    items[kept] = items[i];
    which[kept++] = which[i];
  }
  return kept;
}

static void wait_for_all(struct ctxp_control_asked *asked, zmq_pollitem_t *items, unsigned *which, unsigned count, int timeout_ms) {
  uint64_t end = ctxp_clock_ms() + (uint64_t)timeout_ms;
  while (count) {
    uint64_t now = ctxp_clock_ms();
    int ready = now < end ? zmq_poll(items, (int)count, (long)(end - now)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    int failure = ready < 0 ? -errno : -EAGAIN;
    for (unsigned i = 0; i < count; i++)
      if (ready <= 0 || (items[i].revents & ZMQ_POLLIN)) collect(&asked[which[i]], &items[i], timeout_ms, ready <= 0 ? failure : 0);
    count = waiting(items, which, count);
  }
}

int ctxp_control_ask_all(struct ctxp_control_asked *asked, unsigned count, const char *op, int timeout_ms, struct ctxp_error *err) {
  ctxp_cleanup(end_context) void *context = zmq_ctx_new();
  ctxp_auto_buf request = {0};
  ctxp_auto_free zmq_pollitem_t *items = calloc(count ? count : 1, sizeof(*items));
  ctxp_auto_free unsigned *which = calloc(count ? count : 1, sizeof(*which));
  unsigned waits = 0;
  int r = pack_op(op, &request, err);
  if (r < 0 || !context || !items || !which) return r < 0 ? r : ctxp_error_set(err, -ENOMEM, "out of memory for a request");
  for (unsigned i = 0; i < count; i++) {
    if (!asked[i].endpoint) continue;
    void *socket = open_socket(context, asked[i].endpoint, &asked[i].err);
    asked[i].result = socket ? 0 : -ECONNREFUSED;
    if (!socket) continue;
    items[waits] = (zmq_pollitem_t){.socket = socket, .events = ZMQ_POLLIN};
    which[waits] = i;
    if ((r = put(socket, ctxp_buf_raw(&request))) < 0)
      collect(&asked[i], &items[waits], timeout_ms, r);
    else
      waits++;
  }
  wait_for_all(asked, items, which, waits, timeout_ms);
  return 0;
}
