/* A whole transcript as a hostile file: every event that comes out is one that the collector takes, and their numbers rise. */
#include <string.h>
#include "feeders/import.h"
#include "fuzz.h"

static int take(void *data, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err) {
  uint64_t *last = data;
  ctxp_auto_buf body = {0};
  struct ctxp_event back;
  struct ctxp_fault fault = {"", ""};
  (void)err;
  fuzz_check(seq > *last);
  *last = seq;
  fuzz_check(ctxp_event_encode(event, &body) == 0);
  if (ctxp_event_decode(body.ptr, body.len, &back, NULL, &fault) < 0) {
    fprintf(stderr, "`%s` %s\n", fault.field, fault.reason);
    fuzz_check(!"the collector would refuse it");
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint64_t last = 0;
  fuzz_check(ctxp_import_memory((struct ctxp_raw){data, size}, take, &last) == 0);
  fuzz_check(last <= size);
  return 0;
}
