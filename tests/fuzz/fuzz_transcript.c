/* Files of agents' records, whatever they hold: numbers rise, every event is one that a collector takes, and reading the file
 * again gives the same. */
#include <string.h>
#include "base/buf.h"
#include "base/hash.h"
#include "feeders/import.h"
#include "feeders/places.h"
#include "fuzz.h"

struct seen {
  uint64_t last, count, hash;
};

static int take(void *data, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err) {
  struct seen *seen = data;
  ctxp_auto_buf body = {0};
  struct ctxp_event decoded;
  struct ctxp_fault fault = {{0}, {0}};
  (void)err;
  fuzz_check(seq > seen->last);
  fuzz_check(ctxp_event_encode(event, &body) == 0);
  if (ctxp_event_decode(body.ptr, body.len, &decoded, NULL, &fault) < 0) {
    fprintf(stderr, "%s: field '%s' %s\n", ctxp_kind_info(event->kind)->name, fault.field, fault.reason);
    abort();
  }
  fuzz_check(ctxp_kind_info(event->kind)->group == CTXP_GROUP_AGENT || event->kind == CTXP_KIND_gap);
  seen->last = seq;
  seen->count++;
  seen->hash = ctxp_hash64(body.ptr, body.len, seen->hash);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct seen first = {0}, second = {0};
  fuzz_check(ctxp_import_memory((struct ctxp_raw){data, size}, take, &first) == 0);
  fuzz_check(ctxp_import_memory((struct ctxp_raw){data, size}, take, &second) == 0);
  fuzz_check(first.count == second.count && first.hash == second.hash);
  fuzz_check(ctxp_place_of(first.last) <= size); /* a number begins with a place in the file */
  return 0;
}
