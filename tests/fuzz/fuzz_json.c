/* JSON from outside: values and event lines. What reads as an event prints as a line that reads back as the same event. */
#include <string.h>
#include "codec/json.h"
#include "codec/msgpack.h"
#include "fuzz.h"

static void any_value(struct ctxp_str text) {
  ctxp_auto_buf value = {0}, printed = {0};
  struct ctxp_error err = {{0}};
  if (ctxp_json_to_raw(text, &value, &err) < 0) {
    fuzz_check(err.text[0]);
    return;
  }
  fuzz_check(ctxp_pack_check(ctxp_buf_raw(&value)) == 0);
  fuzz_check(ctxp_json_from_raw(ctxp_buf_raw(&value), &printed) == 0);
}

static void event_line(struct ctxp_str text) {
  ctxp_auto_buf body = {0}, line = {0}, again = {0}, second = {0};
  struct ctxp_error err = {{0}};
  struct ctxp_event event;
  if (ctxp_json_to_event(text, &body, &err) < 0) {
    fuzz_check(err.text[0]);
    return;
  }
  if (ctxp_event_decode(body.ptr, body.len, &event, NULL, NULL) < 0) return;
  fuzz_check(ctxp_json_from_event(&event, false, &line) == 0);
  if (event.ts_ms == 0) return; /* printed as 1970, read back as that time */
  fuzz_check(ctxp_json_to_event(ctxp_buf_view(&line), &again, &err) == 0);
  fuzz_check(ctxp_event_decode(again.ptr, again.len, &event, NULL, NULL) == 0);
  fuzz_check(ctxp_json_from_event(&event, false, &second) == 0);
  fuzz_check(second.len == line.len && memcmp(second.ptr, line.ptr, line.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ctxp_str text = {(const char *)data, size};
  any_value(text);
  event_line(text);
  return 0;
}
