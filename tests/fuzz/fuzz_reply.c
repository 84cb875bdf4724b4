/* What a model's endpoint sends: any bytes. A reply is good with a text, or named bad without one. */
#include "base/str.h"
#include "fuzz.h"
#include "model/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ctxp_auto_buf text = {0};
  struct ctxp_model_answer answer;
  fuzz_check(ctxp_model_read((struct ctxp_str){(const char *)data, size}, &text, &answer) == 0);
  fuzz_check(answer.good == (text.len > 0) && answer.good == (answer.why == NULL));
  fuzz_check(ctxp_utf8_valid(ctxp_buf_view(&text)));
  return 0;
}
