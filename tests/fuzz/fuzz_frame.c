/* Bodies of events, as ingest and subscribers meet them: whatever is accepted must encode to bytes that decode to the same, and
 * print as one line of JSON. */
#include <string.h>
#include "base/buf.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/event.h"
#include "fuzz.h"

static void walk_list(struct ctxp_list list, const struct ctxp_field *field) {
  union {
#define RECORD(c, fields) struct ctxp_##c c;
    CTXP_RECORDS(RECORD)
  } record;
  struct ctxp_str text;
  uint32_t seen = 0, count = list.count;
  int r = 1;
  while (r > 0) {
    r = field->type == CTXP_TYPE_STRS ? ctxp_strs_next(&list, &text) : ctxp_list_next(&list, field->shape, &record);
    seen += r > 0;
  }
  fuzz_check(r == 0 && seen == count); /* decoding has checked every element */
}

static void walk_lists(const struct ctxp_event *event) {
  const struct ctxp_shape *shape = ctxp_kind_info(event->kind)->shape;
  uint64_t has;
  const char *record = (const char *)&event->session_start;
  memcpy(&has, record, sizeof(has));
  for (unsigned i = 0; i < shape->count; i++)
    if (has >> i & 1 && (shape->fields[i].type == CTXP_TYPE_LIST || shape->fields[i].type == CTXP_TYPE_STRS))
      walk_list(*(const struct ctxp_list *)(record + shape->fields[i].offset), &shape->fields[i]);
}

static void print_line(const struct ctxp_event *event) {
  ctxp_auto_buf line = {0};
  fuzz_check(ctxp_json_from_event(event, false, &line) == 0);
  fuzz_check(line.len > 2 && line.ptr[0] == '{' && line.ptr[line.len - 1] == '}' && !memchr(line.ptr, '\n', line.len));
  fuzz_check(ctxp_utf8_valid(ctxp_buf_view(&line)));
}

static void event_body(const uint8_t *data, size_t size) {
  struct ctxp_event event, again;
  struct ctxp_fault fault = {{0}, {0}};
  ctxp_auto_buf body = {0}, second = {0};
  if (ctxp_event_decode(data, size, &event, NULL, &fault) < 0) {
    fuzz_check(fault.reason[0]);
    return;
  }
  walk_lists(&event);
  print_line(&event);
  fuzz_check(ctxp_event_encode(&event, &body) == 0);
  fuzz_check(ctxp_event_decode(body.ptr, body.len, &again, NULL, &fault) == 0);
  fuzz_check(ctxp_event_encode(&again, &second) == 0);
  fuzz_check(second.len == body.len && memcmp(second.ptr, body.ptr, body.len) == 0);
}

static void any_value(struct ctxp_raw raw) {
  ctxp_auto_buf json = {0};
  if (ctxp_pack_check(raw) == 0) fuzz_check(ctxp_json_from_raw(raw, &json) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  event_body(data, size);
  any_value((struct ctxp_raw){data, size});
  return 0;
}
