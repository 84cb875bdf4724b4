/* ingest ENDPOINT COUNT BYTES BATCH: sends COUNT events of about BYTES through the client library, and says how fast the collector had them
 * all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "ctxpipe/client.h"

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  struct ctxp_error err = {{0}};
  struct ctxp_client *client;
  char key[64];
  if (argc != 5) {
    fprintf(stderr, "usage: %s ENDPOINT COUNT BYTES BATCH\n", argv[0]);
    return 2;
  }
  unsigned long long count = strtoull(argv[2], NULL, 10), bytes = strtoull(argv[3], NULL, 10);
  snprintf(key, sizeof(key), "bench-%d", (int)getpid());
  struct ctxp_client_options options = {
      .endpoint = argv[1], .key = key, .agent = "bench", .product = "bench", .batch_bytes = strtoull(argv[4], NULL, 10)};
  char *text = malloc(bytes + 1);
  if (!text || ctxp_client_new(&options, &client, &err) < 0) {
    fprintf(stderr, "%s\n", err.text);
    return 1;
  }
  memset(text, 'x', bytes);
  struct ctxp_event ev = {.kind = CTXP_KIND_context_message,
      .ts_ms = 1756534219549,
      .session = {"s", 1},
      .context_message = {.id = {"message-1", 9}, .role = CTXP_ROLE_assistant, .band = CTXP_BAND_assistant, .tokens = 100}};
  ctxp_set(&ev.context_message, context_message, text, (struct ctxp_str){text, bytes});
  double start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
  int r = 0;
  for (unsigned long long i = 0; i < count && r == 0; i++) r = ctxp_client_send(client, &ev, 0, 30000, &err);
  if (r == 0) r = ctxp_client_flush(client, 30000, &err);
  double wall = now(CLOCK_MONOTONIC) - start;
  if (r == 0)
    printf("%.0f events/s, %.2f us of the client's CPU each\n", (double)count / wall,
        (now(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / (double)count);
  else
    fprintf(stderr, "%d: %s\n", r, err.text);
  ctxp_client_free(client);
  free(text);
  return r == 0 ? 0 : 1;
}
