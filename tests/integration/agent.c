/* An agent in C for the integration tests: agent ENDPOINT NAME TURNS. One turn for each line on standard input, the rest at its
 * end; prints one JSON object of what it reported when everything is acknowledged. */
#include <ctxpipe/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STR(literal) ((struct ctxp_str){(literal), sizeof(literal) - 1})
#define PATIENCE_MS 60000

struct agent {
  struct ctxp_client *client;
  struct ctxp_error err;
  uint64_t events, requests, billed;
};

static int send_event(struct agent *a, struct ctxp_event event) {
  event.session = STR("c-session");
  event.ts_ms = UINT64_C(1780000000000) + a->events * 250;
  int r = ctxp_client_send(a->client, &event, ++a->events, PATIENCE_MS, &a->err);
  if (r > 0) snprintf(a->err.text, sizeof(a->err.text), "the buffer stayed full for a minute");
  return r;
}

static struct ctxp_event prompt(struct agent *a, uint64_t turn, const char *call_id) {
  struct ctxp_event event = {.kind = CTXP_KIND_prompt, .prompt = {.callId = {call_id, strlen(call_id)}}};
  struct ctxp_usage usage = {.input = 10 + turn % 7};
  ctxp_set(&usage, usage, cacheRead, turn * 3);
  ctxp_set(&usage, usage, output, turn % 11);
  ctxp_set(&event.prompt, prompt, turn, turn);
  ctxp_set(&event.prompt, prompt, model, STR("claude-sonnet-4-5-20250929"));
  ctxp_set(&event.prompt, prompt, keep, 0);
  ctxp_set(&event.prompt, prompt, usage, usage);
  a->requests++;
  a->billed += usage.input + usage.cacheRead;
  return event;
}

static int one_turn(struct agent *a, uint64_t turn) {
  char call_id[32], text[4096];
  snprintf(call_id, sizeof(call_id), "c-%llu", (unsigned long long)turn);
  memset(text, 'x', sizeof(text));
  struct ctxp_event start = {.kind = CTXP_KIND_turn_start, .turn_start = {.turn = turn}},
                    end = {.kind = CTXP_KIND_turn_end, .turn_end = {.turn = turn}};
  struct ctxp_event result = {.kind = CTXP_KIND_tool_result,
      .tool_result = {.toolCallId = {call_id, strlen(call_id)}, .tool = STR("bash"), .text = {text, turn % sizeof(text)}}};
  struct ctxp_event call = prompt(a, turn, call_id);
  int r = send_event(a, start);
  if (r == 0) r = send_event(a, call);
  if (r == 0) r = send_event(a, result);
  return r == 0 ? send_event(a, end) : r;
}

static int run(struct agent *a, uint64_t turns) {
  char line[16];
  struct ctxp_event start = {.kind = CTXP_KIND_session_start, .session_start = {.product = STR("c-agent")}},
                    end = {.kind = CTXP_KIND_session_end};
  int r = send_event(a, start);
  for (uint64_t turn = 0; turn < turns && r == 0; turn++) {
    if (fgets(line, sizeof(line), stdin) == NULL) clearerr(stdin);
    r = one_turn(a, turn);
  }
  if (r == 0) r = send_event(a, end);
  if (r == 0 && (r = ctxp_client_flush(a->client, PATIENCE_MS, &a->err)) > 0)
    snprintf(a->err.text, sizeof(a->err.text), "not everything was acknowledged within a minute");
  return r;
}

int main(int argc, char **argv) {
  struct agent a = {0};
  if (argc != 4) return fprintf(stderr, "usage: agent ENDPOINT NAME TURNS\n"), 2;
  struct ctxp_client_options options = {.endpoint = argv[1], .key = argv[2], .agent = argv[2], .product = "c-agent"};
  int r = ctxp_client_new(&options, &a.client, &a.err);
  if (r == 0) r = run(&a, strtoull(argv[3], NULL, 10));
  ctxp_client_free(a.client);
  if (r != 0) return fprintf(stderr, "agent: %s\n", a.err.text), 1;
  printf("{\"events\":%llu,\"requests\":%llu,\"billed\":%llu,\"sessions\":1}\n", (unsigned long long)a.events,
      (unsigned long long)a.requests, (unsigned long long)a.billed);
  return 0;
}
