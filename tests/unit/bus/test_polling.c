/* The nodes' poll says what zmq_poll would: nothing that came is left lying when it waits. */
#include <string.h>
#include <unistd.h>
#include "bus/polling.h"
#include "bus_test.h"

struct pair {
  void *context, *near, *far;
  struct ctxp_poll set;
};

static void open_pair(struct pair *p) {
  *p = (struct pair){.context = zmq_ctx_new()};
  p->near = zmq_socket(p->context, ZMQ_PAIR);
  p->far = zmq_socket(p->context, ZMQ_PAIR);
  assert_int_equal(zmq_bind(p->near, "inproc://pair"), 0);
  assert_int_equal(zmq_connect(p->far, "inproc://pair"), 0);
}

static void close_pair(struct pair *p) {
  zmq_close(p->near);
  zmq_close(p->far);
  zmq_ctx_term(p->context);
}

static int look(struct pair *p, int timeout_ms, short events) {
  zmq_pollitem_t item = {.socket = p->near, .events = events};
  int found = ctxp_poll(&p->set, &item, 1, timeout_ms);
  assert_int_equal(item.revents, found ? ZMQ_POLLIN : 0);
  return found;
}

static void a_message_is_found_until_it_is_taken(void **state) {
  struct pair p;
  char byte;
  (void)state;
  open_pair(&p);
  assert_int_equal(look(&p, 0, ZMQ_POLLIN), 0);
  assert_int_equal(zmq_send(p.far, "x", 1, 0), 1);
  assert_int_equal(look(&p, 0, 0), 0);
  for (int i = 0; i < 20; i++) assert_int_equal(look(&p, i % 2 ? -1 : 0, ZMQ_POLLIN), 1);
  assert_int_equal(zmq_recv(p.near, &byte, 1, 0), 1);
  assert_int_equal(look(&p, 0, ZMQ_POLLIN), 0);
  close_pair(&p);
}

static void what_came_in_while_something_was_sent_ends_a_wait(void **state) {
  struct pair p;
  char byte;
  int events;
  size_t size = sizeof(events);
  (void)state;
  open_pair(&p);
  assert_int_equal(look(&p, 0, ZMQ_POLLIN), 0);
  assert_int_equal(zmq_send(p.far, "x", 1, 0), 1);
  assert_int_equal(zmq_getsockopt(p.near, ZMQ_EVENTS, &events, &size), 0); /* takes in what the descriptor says, as a send may */
  assert_int_equal(look(&p, -1, ZMQ_POLLIN), 1);
  assert_int_equal(zmq_recv(p.near, &byte, 1, 0), 1);
  assert_int_equal(zmq_send(p.far, "x", 1, 0), 1);
  assert_int_equal(zmq_getsockopt(p.near, ZMQ_EVENTS, &events, &size), 0);
  int rounds = 0;
  while (!look(&p, 0, ZMQ_POLLIN)) assert_true(++rounds < 16);
  close_pair(&p);
}

static void a_socket_that_was_not_used_is_found_by_its_descriptor(void **state) {
  struct pair p;
  char byte;
  (void)state;
  open_pair(&p);
  for (int i = 0; i < 20; i++) {
    zmq_pollitem_t item = {.socket = p.near, .events = ZMQ_POLLIN, .revents = CTXP_POLL_UNUSED};
    assert_int_equal(ctxp_poll(&p.set, &item, 1, 0), 0);
    assert_int_equal(item.revents, 0);
    assert_int_equal(zmq_send(p.far, "x", 1, 0), 1);
    item.revents = CTXP_POLL_UNUSED;
    assert_int_equal(ctxp_poll(&p.set, &item, 1, -1), 1);
    assert_int_equal(item.revents, ZMQ_POLLIN);
    assert_int_equal(zmq_recv(p.near, &byte, 1, 0), 1);
  }
  close_pair(&p);
}

static void a_plain_descriptor_is_waited_for_beside_a_socket(void **state) {
  struct pair p;
  int ends[2];
  (void)state;
  open_pair(&p);
  assert_int_equal(pipe(ends), 0);
  zmq_pollitem_t items[] = {{.socket = p.near, .events = ZMQ_POLLIN}, {.fd = ends[0], .events = ZMQ_POLLIN}};
  assert_int_equal(ctxp_poll(&p.set, items, 2, 0), 0);
  close(ends[1]); /* its end is something to read */
  assert_int_equal(ctxp_poll(&p.set, items, 2, -1), 1);
  assert_int_equal(items[0].revents, 0);
  assert_int_equal(items[1].revents, ZMQ_POLLIN);
  close(ends[0]);
  close_pair(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_is_found_until_it_is_taken),
      cmocka_unit_test(what_came_in_while_something_was_sent_ends_a_wait),
      cmocka_unit_test(a_socket_that_was_not_used_is_found_by_its_descriptor),
      cmocka_unit_test(a_plain_descriptor_is_waited_for_beside_a_socket),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
