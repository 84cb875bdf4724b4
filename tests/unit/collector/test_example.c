/* agents/c/example.c as an agent would run it: a process of its own, linked with the shared library. argv[1]: the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <cmocka.h>
#include "base/str.h"
#include "world.h"

static const char *program;

static int setup(void **state) {
  struct world *w = calloc(1, sizeof(*w));
  world_make(w);
  *state = w;
  return 0;
}

static int teardown(void **state) {
  world_remove(*state);
  free(*state);
  return 0;
}

static void run_example(struct world *w, char *ret_text, size_t size) {
  char command[512];
  snprintf(command, sizeof(command), "'%s' '%s' 2>&1", program, w->endpoint);
  FILE *out = popen(command, "r");
  assert_non_null(out);
  size_t len = fread(ret_text, 1, size - 1, out);
  ret_text[len] = 0;
  int status = pclose(out);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) != 0) fail_msg("exit code %d: %s", WEXITSTATUS(status), ret_text);
}

static void the_example_feeds_a_session_and_is_answered(void **state) {
  struct world *w = *state;
  char text[512];
  w->options.no_mechanisms = true;
  world_start(w);
  run_example(w, text, sizeof(text));
  assert_string_equal(text, "the window gets the result as it is\n4 events, 4 acknowledged\n");
  run_example(w, text, sizeof(text)); /* another run of the same key goes on behind it */
  world_stop(w);
  assert_string_equal(world_events(w), "session_start tool_result turn_end:1 session_end session_start tool_result turn_end:1 session_end");
  struct ctxp_event result = world_event(w, CTXP_KIND_tool_result, 0);
  assert_true(ctxp_has(&result.tool_result, tool_result, exitCode));
  assert_true(ctxp_str_is(result.agent, "example@c"));
}

static void the_example_goes_on_where_no_mechanism_answers(void **state) {
  struct world *w = *state;
  char text[512];
  w->options.answer_grace_ms = 50;
  world_start(w);
  run_example(w, text, sizeof(text));
  assert_string_equal(text, "the window gets the result as it is\n4 events, 4 acknowledged\n");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(int argc, char **argv) {
  if (argc != 2) return 2;
  program = argv[1];
  const struct CMUnitTest tests[] = {
      CASE(the_example_feeds_a_session_and_is_answered), CASE(the_example_goes_on_where_no_mechanism_answers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
