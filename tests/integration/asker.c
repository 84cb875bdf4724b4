/* An agent for tests, from standard input: asker ENDPOINT KEY TIMEOUT_MS. A line is an event as JSON; one with `ask` is sent and its
 * answer printed as {"line","answer"} (null: none in time). Lines that begin with + are sent without waiting in between, as
 * the results of one round; their answers are printed when a line without it comes, or at the end. The answer to a line that begins
 * with - is refused. Ends when all is acknowledged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/cleanup.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/client.h"

#define PATIENCE_MS 60000

struct asker {
  struct ctxp_client *client;
  struct ctxp_error err;
  int timeout_ms;
  unsigned long line;
  struct {
    uint64_t ask;
    unsigned long line;
  } open[CTXP_CLIENT_ASKS];
  unsigned open_count;
};

static int print_answer(unsigned long line, struct ctxp_raw answer) {
  ctxp_auto_buf out = {0};
  if (answer.len && ctxp_json_from_raw(answer, &out) < 0) return -1;
  printf("{\"line\":%lu,\"answer\":%s}\n", line, answer.len ? ctxp_buf_cstr(&out) : "null");
  return fflush(stdout);
}

static int await_open(struct asker *a) {
  int r = 0;
  for (unsigned i = 0; i < a->open_count && r >= 0; i++) {
    struct ctxp_raw answer = {0};
    r = ctxp_client_await(a->client, a->open[i].ask, a->timeout_ms, &answer, &a->err);
    if (r >= 0) r = print_answer(a->open[i].line, answer);
  }
  a->open_count = 0;
  return r < 0 ? r : 0;
}

static bool asks(const struct ctxp_event *event) {
  return (event->kind == CTXP_KIND_tool_result && event->tool_result.ask) || (event->kind == CTXP_KIND_context && event->context.ask);
}

static int send_line(struct asker *a, const char *text, size_t len) {
  ctxp_auto_buf body = {0};
  struct ctxp_event event;
  struct ctxp_fault fault;
  bool together = text[0] == '+', refuses = text[0] == '-';
  a->line++;
  if (ctxp_json_to_event((struct ctxp_str){text + (together || refuses), len - (together || refuses)}, &body, &a->err) < 0) return -1;
  if (ctxp_event_decode(body.ptr, body.len, &event, NULL, &fault) < 0)
    return ctxp_error_set(&a->err, -1, "line %lu: %s %s", a->line, fault.field, fault.reason);
  if (!together || a->open_count == CTXP_CLIENT_ASKS) {
    int r = await_open(a);
    if (r < 0) return r;
  }
  if (!asks(&event)) {
    int sent = ctxp_client_send(a->client, &event, 0, PATIENCE_MS, &a->err);
    return sent == 0 ? ctxp_client_flush(a->client, PATIENCE_MS, &a->err) : sent; /* it leaves before the next line is waited for */
  }
  int r = ctxp_client_post(a->client, &event, PATIENCE_MS, &a->open[a->open_count].ask, &a->err);
  if (r != 0) return r;
  a->open[a->open_count++].line = a->line;
  r = together ? ctxp_client_flush(a->client, PATIENCE_MS, &a->err) : await_open(a);
  return r == 0 && refuses ? ctxp_client_missed(a->client, "refused", &a->err) : r;
}

static int run(struct asker *a) {
  ctxp_auto_free char *line = NULL;
  size_t cap = 0;
  int r = 0;
  for (ssize_t len; r == 0 && (len = getline(&line, &cap, stdin)) > 0;)
    r = send_line(a, line, (size_t)len - (line[len - 1] == '\n'));
  if (r == 0) r = await_open(a);
  return r == 0 ? ctxp_client_flush(a->client, PATIENCE_MS, &a->err) : r;
}

static void refused(void *data, uint64_t seq, struct ctxp_str kind, struct ctxp_str field, struct ctxp_str reason) {
  (void)data;
  fprintf(stderr, "asker: event %llu is refused: %.*s %.*s %.*s\n", (unsigned long long)seq, (int)kind.len, kind.ptr, (int)field.len,
      field.ptr, (int)reason.len, reason.ptr);
}

int main(int argc, char **argv) {
  struct asker a = {0};
  if (argc != 4) return 2;
  a.timeout_ms = atoi(argv[3]);
  struct ctxp_client_options options = {
      .endpoint = argv[1], .key = argv[2], .agent = "asker", .product = "test", .refused = refused};
  int r = ctxp_client_new(&options, &a.client, &a.err);
  if (r == 0) r = run(&a);
  ctxp_client_free(a.client);
  if (r != 0) fprintf(stderr, "asker: %s\n", r < 0 ? a.err.text : "not everything was acknowledged in time");
  return r != 0;
}
