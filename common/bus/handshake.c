#include "bus/handshake.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <zmq.h>

#define ENDPOINT "inproc://ctxp-handshake"
#define BROKEN_MAX 3 /* one may be a collector that is just ending */

int ctxp_handshake_watch(struct ctxp_handshake *h, void *context, void *socket) {
  int linger = 0;
  int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
      ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
  if (zmq_socket_monitor(socket, ENDPOINT, events) < 0) return -errno;
  h->monitor = zmq_socket(context, ZMQ_PAIR);
  if (!h->monitor || zmq_setsockopt(h->monitor, ZMQ_LINGER, &linger, sizeof(linger)) < 0 || zmq_connect(h->monitor, ENDPOINT) < 0)
    return -errno;
  return 0;
}

/* [event and value] [endpoint]; 0: nothing waits */
static uint16_t next_event(void *monitor) {
  uint8_t head[6];
  uint16_t event = 0;
  char endpoint[256];
  if (zmq_recv(monitor, head, sizeof(head), ZMQ_DONTWAIT) != (int)sizeof(head)) return 0;
  memcpy(&event, head, sizeof(event));
  return zmq_recv(monitor, endpoint, sizeof(endpoint), 0) < 0 ? 0 : event;
}

int ctxp_handshake_check(struct ctxp_handshake *h, struct ctxp_error *err) {
  uint16_t event;
  while (h->monitor && (event = next_event(h->monitor))) {
    h->refused = event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    h->broken = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED ? 0 :
        event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL   ? BROKEN_MAX :
                                                         /* it speaks otherwise, and is not tried again */
                                                         h->broken + 1;
  }
  if (h->refused)
    return ctxp_error_set(err, -EACCES, "the collector does not know this key; its public key must stand in the collector's clients_file");
  if (h->broken < BROKEN_MAX) return 0;
  return ctxp_error_set(
      err, -EACCES, "the handshake fails; the server's key is not the collector's, or it speaks without encryption there");
}

void ctxp_handshake_deinit(struct ctxp_handshake *h) {
  if (h->monitor) zmq_close(h->monitor);
  h->monitor = NULL;
}
