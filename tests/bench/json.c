/* Reads every line of the files given as a feeder does: the tokens, the grammar, and the few values that a reader wants. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/cleanup.h"
#include "codec/json_read.h"

static uint64_t output_tokens(struct ctxp_json *json) {
  uint32_t usage = ctxp_json_get(json, ctxp_json_get(json, 0, "message"), "usage");
  return ctxp_json_u64(json, ctxp_json_get(json, usage, "output_tokens"), 0);
}

int main(int argc, char **argv) {
  struct ctxp_json json = {0};
  ctxp_auto_free char *line = NULL;
  size_t cap = 0;
  uint64_t sum = 0, lines = 0;
  for (int i = 1; i < argc; i++) {
    ctxp_auto_fclose FILE *file = fopen(argv[i], "r");
    if (!file) return fprintf(stderr, "json: %s: %s\n", argv[i], strerror(errno)), 1;
    for (ssize_t len; (len = getline(&line, &cap, file)) > 0; lines++) {
      struct ctxp_error err;
      if (ctxp_json_load(&json, (struct ctxp_str){line, (size_t)len}, &err) < 0)
        return fprintf(stderr, "json: %s: %s\n", argv[i], err.text), 1;
      sum += output_tokens(&json);
    }
  }
  printf("%llu lines, %llu output tokens\n", (unsigned long long)lines, (unsigned long long)sum);
  ctxp_json_deinit(&json);
  return 0;
}
