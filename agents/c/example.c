/* The smallest agent in C: one session with one shell result, for which it asks what to put into its window.
 *
 *   cc example.c $(pkg-config --cflags --libs ctxpipe) -o example
 *   ./example ipc:///run/user/1000/ctxpipe/ingest.sock
 *
 * An agent is never harmed: where the pipeline is slow, down or of another mind, it goes on with what it has. */
#include <ctxpipe/client.h>
#include <stdio.h>
#include <string.h>

#define STR(literal) ((struct ctxp_str){(literal), sizeof(literal) - 1})
#define ANSWER_MS 2000

static int fail(const struct ctxp_error *err) {
  fprintf(stderr, "%s\n", err->text);
  return 1;
}

/* An answer is a MessagePack map; {unchanged: true} is these twelve bytes. Any MessagePack library reads the others. */
static int is_unchanged(struct ctxp_raw answer) {
  return answer.len == 12 && memcmp(answer.ptr, "\x81\xa9unchanged\xc3", 12) == 0;
}

static int run(struct ctxp_client *client, struct ctxp_error *err) {
  struct ctxp_event start = {.kind = CTXP_KIND_session_start, .session = STR("example"), .session_start = {.product = STR("example")}};
  struct ctxp_event result = {.kind = CTXP_KIND_tool_result,
      .session = STR("example"),
      .tool_result = {.toolCallId = STR("call-1"), .tool = STR("bash"), .text = STR("hello\n")}};
  struct ctxp_event turn = {.kind = CTXP_KIND_turn_end, .session = STR("example"), .turn_end = {.turn = 1}};
  struct ctxp_event end = {.kind = CTXP_KIND_session_end, .session = STR("example")};
  struct ctxp_raw answer;
  ctxp_set(&result.tool_result, tool_result, exitCode, 0); /* optional fields carry their presence */

  if (ctxp_client_send(client, &start, 0, 0, err) < 0) return -1;
  int r = ctxp_client_ask(client, &result, ANSWER_MS, &answer, err);
  if (r < 0) return r;
  printf("the window gets %s\n",
      r > 0                    ? "the result: no answer came in time" :
          is_unchanged(answer) ? "the result as it is" :
                                 "what the answer says");
  if (ctxp_client_send(client, &turn, 0, 0, err) < 0 || ctxp_client_send(client, &end, 0, 0, err) < 0) return -1;
  return ctxp_client_flush(client, 5000, err);
}

int main(int argc, char **argv) {
  struct ctxp_error err = {{0}};
  struct ctxp_client *client;
  struct ctxp_client_counts counts;
  if (argc != 2) {
    fprintf(stderr, "usage: %s ENDPOINT\n", argv[0]);
    return 2;
  }
  struct ctxp_client_options options = {.endpoint = argv[1], .key = "example-1", .agent = "example@c", .product = "example"};
  if (ctxp_client_new(&options, &client, &err) < 0) return fail(&err);
  int r = run(client, &err);
  ctxp_client_counts(client, &counts);
  ctxp_client_free(client);
  if (r < 0) return fail(&err);
  printf("%llu events, %llu acknowledged\n", (unsigned long long)counts.sent, (unsigned long long)counts.acked);
  return r == 0 && counts.acked == counts.sent ? 0 : 1;
}
