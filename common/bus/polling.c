#include <errno.h>
#include <poll.h>
#include "bus/polling.h"

#define ROUNDS 8 /* after so many without a wait all are asked */

static int learn(struct ctxp_polled *known, const zmq_pollitem_t *item) {
  int fd = item->fd;
  size_t size = sizeof(fd);
  if (item->socket && zmq_getsockopt(item->socket, ZMQ_FD, &fd, &size) < 0) return -1;
  if (known->socket != item->socket || known->fd != fd) *known = (struct ctxp_polled){item->socket, fd, true, true};
  if (!(item->revents & CTXP_POLL_UNUSED)) known->used = true;
  if (!item->events) known->ready = true;
  return 0;
}

/* asks the sockets that may have something */
static int ask(struct ctxp_poll *set, zmq_pollitem_t *items, unsigned count, bool all) {
  int found = 0;
  for (unsigned i = 0; i < count; i++) {
    int events;
    size_t size = sizeof(events);
    struct ctxp_polled *known = &set->at[i];
    if (items[i].socket && items[i].events && !items[i].revents && ((all && known->used) || known->ready)) {
      if (zmq_getsockopt(items[i].socket, ZMQ_EVENTS, &events, &size) < 0) return -1;
      items[i].revents = (short)(events & items[i].events);
      known->ready = items[i].revents != 0;
      known->used = false;
    }
    found += items[i].revents != 0;
  }
  return found;
}

/* what the descriptors say */
static int wait_for(struct ctxp_poll *set, zmq_pollitem_t *items, unsigned count, int timeout_ms) {
  struct pollfd fds[CTXP_POLL_ITEMS];
  for (unsigned i = 0; i < count; i++) fds[i] = (struct pollfd){.fd = items[i].events ? set->at[i].fd : -1, .events = POLLIN};
  if (poll(fds, count, timeout_ms) < 0) return -1;
  for (unsigned i = 0; i < count; i++) {
    if (!fds[i].revents) continue;
    if (items[i].socket)
      set->at[i].ready = true;
    else
      items[i].revents = ZMQ_POLLIN; /* its end too is something to read */
  }
  return 0;
}

int ctxp_poll(struct ctxp_poll *set, zmq_pollitem_t *items, unsigned count, int timeout_ms) {
  if (count > CTXP_POLL_ITEMS) return errno = EINVAL, -1;
  for (unsigned i = 0; i < count; i++) {
    if (learn(&set->at[i], &items[i]) < 0) return -1;
    items[i].revents = 0;
  }
  bool waits = timeout_ms != 0, all = waits || set->rounds >= ROUNDS;
  set->rounds = all ? 0 : set->rounds + 1;
  int found = waits ? ask(set, items, count, true) : 0; /* before a wait, what is known is asked first: mostly nothing is there */
  if (found < 0 || wait_for(set, items, count, found ? 0 : timeout_ms) < 0) return -1;
  return ask(set, items, count, all && !waits);
}
