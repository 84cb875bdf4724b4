/* zmq_poll with fewer system calls: it asks every socket twice whether something came, at two calls each. Here a socket is asked when
 * its descriptor says so, when it had something the last time, and all of them that were used before a wait and now and then, as
 * sending may take in what the descriptor has said. */
#pragma once
#include <stdbool.h>
#include <zmq.h>

#define CTXP_POLL_ITEMS 192
/* An item's revents on entry: nothing was sent with the socket, nor an option set, since the item was made last. */
#define CTXP_POLL_UNUSED ZMQ_POLLPRI

struct ctxp_poll {
  struct ctxp_polled {
    void *socket;
    int fd;
    bool ready; /* it had something, or nobody knows */
    bool used; /* since it was asked */
  } at[CTXP_POLL_ITEMS];
  unsigned rounds; /* since all were asked */
};

/* As zmq_poll: revents of each item, and how many have some; timeout -1 waits for ever. <0: errno. A timeout of 0 may leave out
 * for some rounds what came in while something was sent. */
int ctxp_poll(struct ctxp_poll *set, zmq_pollitem_t *items, unsigned count, int timeout_ms);
