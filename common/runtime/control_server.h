/* The node's side of control.h: a ROUTER in the node's loop. */
#pragma once
#include <zmq.h>
#include "base/buf.h"
#include "codec/msgpack.h"
#include "ctxpipe/error.h"

struct ctxp_control_server;

/* Appends the value of `data` to `reply`. <0: no, with a sentence. 1: later (the request is a `wait`). */
typedef int ctxp_control_handler(void *data, struct ctxp_raw request, struct ctxp_buf *reply, struct ctxp_error *err);

int ctxp_control_server_new(void *zmq, const char *endpoint, ctxp_control_handler *handler, void *data,
    struct ctxp_control_server **ret_server, struct ctxp_error *err) __attribute__((warn_unused_result));
struct ctxp_control_server *ctxp_control_server_free(struct ctxp_control_server *server);
zmq_pollitem_t ctxp_control_server_item(struct ctxp_control_server *server); /* to poll for input, with ctxp_poll */
void ctxp_control_server_ready(struct ctxp_control_server *server);
/* The least cause that a request waits for; UINT64_MAX: none does. */
uint64_t ctxp_control_server_waits(const struct ctxp_control_server *server);
void ctxp_control_server_done(struct ctxp_control_server *server, uint64_t cause); /* replies to those up to here */
