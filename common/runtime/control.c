/* The caller's side of a node's control socket. A DEALER, as a REQ is stuck after one time-out. */
#include <errno.h>
#include <stdlib.h>
#include <zmq.h>
#include "base/cleanup.h"
#include "codec/msgpack.h"
#include "runtime/control.h"

#define REPLY_BYTES (INT64_C(1) << 30)

static void close_socket(void **socket) {
  if (*socket) zmq_close(*socket);
}
static void end_context(void **context) {
  if (*context) zmq_ctx_term(*context);
}

/* [number] [request]; the number keeps a late reply to another call apart, of which there is none on a socket of its own */
static int ask(void *socket, struct ctxp_raw request, int timeout_ms, zmq_msg_t *reply) {
  zmq_msg_t number;
  if (zmq_send(socket, "", 0, ZMQ_SNDMORE) < 0 || zmq_send(socket, request.ptr, request.len, 0) < 0) return -errno;
  zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof(timeout_ms));
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

int ctxp_control_call(const char *endpoint, struct ctxp_raw request, int timeout_ms, struct ctxp_buf *reply, struct ctxp_error *err) {
  ctxp_cleanup(end_context) void *context = zmq_ctx_new();
  ctxp_cleanup(close_socket) void *socket = context ? zmq_socket(context, ZMQ_DEALER) : NULL;
  if (!socket) return ctxp_error_set(err, -ENOMEM, "cannot open a socket to %s: %s", endpoint, zmq_strerror(errno));
  int linger = 0;
  int64_t max_size = REPLY_BYTES;
  zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
  zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_size, sizeof(max_size));
  if (zmq_connect(socket, endpoint) < 0) return ctxp_error_set(err, -errno, "cannot connect to %s: %s", endpoint, zmq_strerror(errno));
  zmq_msg_t msg;
  zmq_msg_init(&msg);
  int r = ask(socket, request, timeout_ms, &msg);
  if (r == -EAGAIN)
    r = ctxp_error_set(err, -ETIMEDOUT, "no reply from %s within %d ms; is its node running (ctxpipe status)?", endpoint, timeout_ms);
  else if (r < 0)
    r = ctxp_error_set(err, r, "cannot ask %s: %s", endpoint, zmq_strerror(-r));
  else
    r = unpack(endpoint, (struct ctxp_raw){zmq_msg_data(&msg), zmq_msg_size(&msg)}, reply, err);
  zmq_msg_close(&msg);
  return r;
}

int ctxp_control_op(const char *endpoint, const char *op, int timeout_ms, struct ctxp_buf *reply, struct ctxp_error *err) {
  ctxp_auto_buf request = {0};
  ctxp_pack_map(&request, 1);
  ctxp_pack_cstr(&request, "op");
  ctxp_pack_cstr(&request, op);
  if (ctxp_buf_error(&request) < 0) return ctxp_error_set(err, -ENOMEM, "out of memory for a request to %s", endpoint);
  return ctxp_control_call(endpoint, ctxp_buf_raw(&request), timeout_ms, reply, err);
}
