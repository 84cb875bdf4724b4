/* Digests outputs for outputs.py, through the stage as a pipeline has it, or (raw) through the digest alone, which takes any bytes.
 *
 * Standard input: "stage|raw EXIT BYTES\n" and the bytes, over and over. Standard output, for each: "BYTES\n", and of the stage its
 * event as a log line, a newline and what takes the output's place (nothing: the output stays); of raw "0" or "1", a newline and the
 * digest. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "mechanisms/digest.h"
#include "support/stage_test.h"

extern const struct ctxp_stage_ops ctxp_stage_bash_digest;
static struct ctxp_test t;

static int by_stage(struct ctxp_str text, int64_t code, struct ctxp_buf *out) {
  struct ctxp_event ev = {.kind = CTXP_KIND_tool_result};
  ctxp_auto_buf line = {0};
  ctxp_test_open(&t, &ctxp_stage_bash_digest, "bash");
  ctxp_test_options(&t, (struct ctxp_raw){0}, (struct ctxp_raw){0});
  ev.tool_result = (struct ctxp_tool_result){.toolCallId = CTXP_STR("b"), .tool = CTXP_STR("bash"), .isError = code != 0, .text = text};
  ctxp_set(&ev.tool_result, tool_result, exitCode, code);
  ctxp_set(&ev.tool_result, tool_result, ask, true);
  ctxp_test_push(&t, &ev);
  if (t.emitted_count) ctxp_buf_str(out, ctxp_test_line(&t, 0, false, &line));
  ctxp_buf_char(out, '\n');
  struct ctxp_str made = t.answer_count ? ctxp_map_str(ctxp_map_get(ctxp_buf_raw(&t.answers[0].actions), "replace"), "text") : CTXP_STR("");
  ctxp_buf_add(out, made.ptr, made.len);
  ctxp_test_close(&t);
  return ctxp_buf_error(out);
}

static int by_digest(struct ctxp_str text, struct ctxp_buf *out) {
  ctxp_auto_buf made = {0};
  struct ctxp_digest digest;
  int r = ctxp_digest_make(text, CTXP_STR("[head]"), (struct ctxp_digest_limits){4096, 4096, 4096}, &made, &digest);
  if (r < 0) return r;
  ctxp_buf_printf(out, "%d\n", r);
  ctxp_buf_add(out, made.ptr, made.len);
  return ctxp_buf_error(out);
}

static int one(const char *way, int64_t code, size_t bytes) {
  ctxp_auto_buf out = {0};
  char *text = malloc(bytes ? bytes : 1);
  if (!text || fread(text, 1, bytes, stdin) != bytes) {
    free(text);
    return -1;
  }
  struct ctxp_str whole = {text, bytes};
  int r = strcmp(way, "raw") == 0 ? by_digest(whole, &out) : by_stage(whole, code, &out);
  free(text);
  if (r < 0) return r;
  printf("%zu\n", out.len);
  fwrite(out.ptr, 1, out.len, stdout);
  return fflush(stdout);
}

int main(void) {
  char head[128], way[8];
  while (fgets(head, sizeof(head), stdin)) {
    int64_t code;
    size_t bytes;
    if (sscanf(head, "%7s %" SCNd64 " %zu", way, &code, &bytes) != 3) return 2;
    int r = one(way, code, bytes);
    if (r < 0) return fprintf(stderr, "digest_run: %s\n", strerror(-r)), 1;
  }
  return 0;
}
