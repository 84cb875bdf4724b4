/* Messages between clients and the collector: whatever is accepted is read to its end, and the event bodies in it as the collector
 * reads them. */
#include "bus/ingest.h"
#include "ctxpipe/event.h"
#include "fuzz.h"

static void read_items(struct ctxp_list items) {
  struct ctxp_raw body;
  struct ctxp_event event;
  struct ctxp_fault fault;
  uint64_t seq;
  uint32_t seen = 0, count = items.count;
  while (ctxp_ingest_item(&items, &seq, &body) > 0) {
    seen++;
    if (ctxp_event_decode(body.ptr, body.len, &event, NULL, &fault) == 0) fuzz_check(ctxp_kind_info(event.kind));
  }
  fuzz_check(seen <= count);
}

static void read_outcomes(struct ctxp_list outcomes) {
  struct ctxp_ingest_outcome outcome;
  uint32_t seen = 0, count = outcomes.count;
  while (ctxp_ingest_next_outcome(&outcomes, &outcome) > 0) seen++;
  fuzz_check(seen == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ctxp_ingest message;
  const char *reason = NULL;
  if (ctxp_ingest_decode((struct ctxp_raw){data, size}, &message, &reason) < 0) {
    fuzz_check(reason && reason[0]);
    return 0;
  }
  fuzz_check(message.op < CTXP_INGEST_OPS);
  if (message.op == CTXP_INGEST_EVENTS) read_items(message.events.items);
  if (message.op == CTXP_INGEST_OUTCOME) read_outcomes(message.outcomes);
  if (message.op == CTXP_INGEST_HELLO) read_outcomes(message.hello.outcomes);
  return 0;
}
