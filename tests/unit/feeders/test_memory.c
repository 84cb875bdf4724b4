/* Each allocation of an import fails once, in turn: it ends with an error or does without, and never crashes or leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "support/fail_alloc.h"
#include "feeders/import.h"

static char **files;
static unsigned file_count;

static int take(void *data, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err) {
  (void)event, (void)seq, (void)err;
  ++*(unsigned *)data;
  return 0;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  for (unsigned i = 0; i < file_count; i++) {
    ctxp_auto_buf text = {0};
    ctxp_auto_fclose FILE *file = fopen(files[i], "r");
    assert_non_null(file);
    text.len = fread(ctxp_buf_room(&text, 1 << 20), 1, 1 << 20, file);
    unsigned whole = 0, failed = 0;
    assert_int_equal(ctxp_import_memory(ctxp_buf_raw(&text), take, &whole), 0);
    assert_true(whole > 0);
    for (unsigned n = 1;; n++) {
      unsigned events = 0;
      fail_alloc_at(n);
      int r = ctxp_import_memory(ctxp_buf_raw(&text), take, &events);
      bool happened = fail_alloc_happened();
      fail_alloc_at(0);
      if (!happened) break;
      if (r != -ENOMEM && (r != 0 || events != whole)) fail_msg("%s, allocation %u: %d with %u events", files[i], n, r, events);
      failed += r == -ENOMEM;
    }
    assert_true(failed > 10);
  }
}

int main(int argc, char **argv) {
  files = argv + 1;
  file_count = (unsigned)argc - 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
