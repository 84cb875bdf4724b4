/* The frames between nodes. An input is: which of them (1 byte), the length of its first frame (2 bytes), the frames. */
#include <stdlib.h>
#include "base/str.h"
#include "bus/wire.h"
#include "fuzz.h"

static void items_lie_within(const struct ctxp_items *items, struct ctxp_raw body) {
  for (unsigned i = 0; i < items->count; i++) {
    const struct ctxp_item *item = &items->at[i];
    fuzz_check(item->body.len == 0 || (item->body.ptr >= body.ptr && item->body.ptr + item->body.len <= body.ptr + body.len));
  }
}

static void refused(int r, const struct ctxp_error *err) { fuzz_check(r >= 0 || err->text[0]); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3) return 0;
  size_t len = (size_t)data[1] << 8 | data[2];
  if (len > size - 3) len = size - 3;
  struct ctxp_raw header = {data + 3, len}, body = {data + 3 + len, size - 3 - len};
  struct ctxp_error err = {{0}};
  struct ctxp_items items = {0};
  struct ctxp_wire_head head;
  struct ctxp_wire_request request;
  struct ctxp_wire_report report;
  struct ctxp_wire_answer answer;
  uint64_t prev;
  int r;
  switch (data[0] % 5) {
  case 0:
    r = ctxp_wire_message(CTXP_KIND_turn_end, header, body, &prev, &items, &err);
    if (r >= 0) items_lie_within(&items, body);
    break;
  case 1: r = ctxp_wire_head(header, body, &head, &err); break;
  case 2: r = ctxp_wire_asked(header, &request, &report, &err); break;
  case 3:
    r = ctxp_wire_answer(header, body, &answer, &items, &err);
    if (r >= 0) items_lie_within(&items, body);
    break;
  default: r = ctxp_wire_topic((struct ctxp_str){(const char *)header.ptr, header.len}) > CTXP_TOPICS ? -1 : 0;
  }
  refused(r, &err);
  free(items.at);
  return 0;
}
