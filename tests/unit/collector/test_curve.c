/* Encrypted ingest: who is in the list of clients gets in, nobody else does, and who was refused is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/str.h"
#include "ctxpipe/client.h"
#include "world.h"

struct pair {
  char public[CTXP_CURVE_KEY], secret[CTXP_CURVE_KEY];
};
struct fixture {
  struct world w;
  struct pair server, known, stranger;
  char secret_file[96], clients_file[96], listen[64], connect[64];
  struct ctxp_client *client;
};

static void write_file(const char *path, mode_t mode, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  assert_int_equal(chmod(path, mode), 0);
}

/* a port that was free a moment ago */
static unsigned free_port(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}};
  socklen_t len = sizeof(at);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 && getsockname(fd, (struct sockaddr *)&at, &len) == 0);
  close(fd);
  return ntohs(at.sin_port);
}

static int setup(void **state) {
  struct fixture *f = calloc(1, sizeof(*f));
  char text[256];
  unsigned port = free_port();
  world_make(&f->w);
  struct pair *pairs[] = {&f->server, &f->known, &f->stranger};
  for (int i = 0; i < 3; i++) assert_int_equal(zmq_curve_keypair(pairs[i]->public, pairs[i]->secret), 0);
  snprintf(f->secret_file, sizeof(f->secret_file), "%s/secret", f->w.dir);
  snprintf(f->clients_file, sizeof(f->clients_file), "%s/clients", f->w.dir);
  snprintf(text, sizeof(text), "# of this collector\n%s\n", f->server.secret);
  write_file(f->secret_file, 0600, text);
  snprintf(text, sizeof(text), "\n# laptops\n%s laptop of the test\n", f->known.public);
  write_file(f->clients_file, 0644, text);
  snprintf(f->listen, sizeof(f->listen), "tcp://0.0.0.0:%u", port);
  snprintf(f->connect, sizeof(f->connect), "tcp://127.0.0.1:%u", port);
  f->w.options.endpoint = f->listen;
  f->w.options.secret_file = f->secret_file;
  f->w.options.clients_file = f->clients_file;
  *state = f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  ctxp_client_free(f->client);
  world_remove(&f->w);
  free(f);
  return 0;
}

static int try_hello(struct fixture *f, const char *server_key, const struct pair *own, int timeout_ms) {
  struct ctxp_error err;
  uint64_t position;
  struct ctxp_client_options o = {.endpoint = f->connect,
      .key = "k",
      .agent = "pi@far",
      .product = "pi",
      .server_key = server_key,
      .public_key = own ? own->public : NULL,
      .secret_key = own ? own->secret : NULL};
  f->client = ctxp_client_free(f->client);
  if (ctxp_client_new(&o, &f->client, &err) < 0) fail_msg("%s", err.text);
  return ctxp_client_hello(f->client, timeout_ms, &position, &err);
}

static void a_client_in_the_list_gets_in(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  world_start(&f->w);
  assert_int_equal(try_hello(f, f->server.public, &f->known, 10000), 0);
  struct ctxp_event ev = {.kind = CTXP_KIND_turn_end, .session = CTXP_STR("s"), .turn_end = {.turn = 1}};
  assert_int_equal(ctxp_client_send(f->client, &ev, 0, 0, &err), 0);
  assert_int_equal(ctxp_client_flush(f->client, 10000, &err), 0);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "turn_end:1");
}

static void a_client_with_another_key_is_refused_counted_and_named(void **state) {
  struct fixture *f = *state;
  char expected[512];
  world_start(&f->w);
  assert_int_equal(try_hello(f, f->server.public, &f->stranger, 10000), -EACCES);
  assert_true(f->w.refused >= 1);
  snprintf(
      expected, sizeof(expected), "a connection from 127.0.0.1 was refused: its key %s is not in %s", f->stranger.public, f->clients_file);
  assert_string_equal(f->w.last_refusal, expected);
  world_stop(&f->w);
  assert_string_equal(world_events(&f->w), "");
}

static void a_client_without_encryption_or_with_a_wrong_server_key_gets_nowhere(void **state) {
  struct fixture *f = *state;
  world_start(&f->w);
  assert_int_equal(try_hello(f, NULL, NULL, 300), 1);
  assert_int_equal(try_hello(f, f->stranger.public, &f->known, 10000), -EACCES);
  assert_int_equal(try_hello(f, f->server.public, &f->known, 10000), 0); /* and it still listens */
}

static void the_list_is_read_again_when_it_has_changed(void **state) {
  struct fixture *f = *state;
  char text[512], expected[512];
  world_start(&f->w);
  assert_int_equal(try_hello(f, f->server.public, &f->stranger, 10000), -EACCES);
  snprintf(text, sizeof(text), "%s the one that was a stranger\n", f->stranger.public);
  write_file(f->clients_file, 0600, text);
  assert_int_equal(try_hello(f, f->server.public, &f->stranger, 10000), 0);
  assert_int_equal(try_hello(f, f->server.public, &f->known, 10000), -EACCES);
  snprintf(text, sizeof(text), "%s\nno key\n", f->known.public);
  write_file(f->clients_file, 0600, text);
  assert_int_equal(try_hello(f, f->server.public, &f->known, 10000), -EACCES);
  snprintf(expected, sizeof(expected),
      "a connection from 127.0.0.1 was refused: its key %s is not in %s as it was before (%s:2: not a key; a client's public key is 40 "
      "characters of Z85)",
      f->known.public, f->clients_file, f->clients_file);
  assert_string_equal(f->w.last_refusal, expected);
  assert_int_equal(try_hello(f, f->server.public, &f->stranger, 10000), 0);
  world_stop(&f->w);
}

static void start_fails(struct fixture *f, const char *sentence) {
  struct ctxp_error err = {{0}};
  assert_true(world_try_start(&f->w, &err) < 0);
  assert_string_equal(err.text, sentence);
}

static void faults_of_the_key_files_are_said_with_file_and_line(void **state) {
  struct fixture *f = *state;
  char expected[512];
  assert_int_equal(chmod(f->secret_file, 0644), 0);
  snprintf(expected, sizeof(expected), "%s: others can read this secret key; chmod 600 it", f->secret_file);
  start_fails(f, expected);
  write_file(f->secret_file, 0600, "\n# nothing\n");
  snprintf(expected, sizeof(expected), "%s: holds no key; the secret key is 40 characters of Z85", f->secret_file);
  start_fails(f, expected);
  write_file(f->secret_file, 0600, "\nabc\n");
  snprintf(expected, sizeof(expected), "%s:2: not a key; the secret key is 40 characters of Z85", f->secret_file);
  start_fails(f, expected);
  write_file(f->secret_file, 0600, f->server.secret);
  write_file(f->clients_file, 0644, "# x\n\n  short name\n");
  snprintf(expected, sizeof(expected), "%s:3: not a key; a client's public key is 40 characters of Z85", f->clients_file);
  start_fails(f, expected);
  assert_int_equal(unlink(f->clients_file), 0);
  snprintf(expected, sizeof(expected), "%s: No such file or directory", f->clients_file);
  start_fails(f, expected);
  f->w.options.clients_file = NULL;
  start_fails(f, "node 'collector': an endpoint beyond this machine needs curve_secret_file and curve_clients_file");
}

static void a_port_in_use_is_said_in_a_sentence(void **state) {
  struct fixture *f = *state;
  char expected[256];
  unsigned port = 0;
  assert_int_equal(sscanf(f->listen, "tcp://0.0.0.0:%u", &port), 1);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}, .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0);
  snprintf(expected, sizeof(expected),
      "node 'collector': cannot listen on %s: the address is in use by another process; end that one, or name another endpoint under "
      "`ingest`",
      f->listen);
  start_fails(f, expected);
  close(fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(a_client_in_the_list_gets_in),
      CASE(a_client_with_another_key_is_refused_counted_and_named),
      CASE(a_client_without_encryption_or_with_a_wrong_server_key_gets_nowhere),
      CASE(the_list_is_read_again_when_it_has_changed),
      CASE(faults_of_the_key_files_are_said_with_file_and_line),
      CASE(a_port_in_use_is_said_in_a_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
