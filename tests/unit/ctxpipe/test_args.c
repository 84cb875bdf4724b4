#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/str.h"
#include "ctxpipe/command.h"

static const struct ctxp_flag flags[] = {{.name = "top", .letter = 'n', .value = "N", .help = "rows"}, {.name = "json", .help = "as JSON"},
    {.name = "by", .value = "GRAIN", .help = "grain"}, {.name = NULL}};
static const struct ctxp_command command = {.name = "report",
    .summary = "s",
    .operands = "FILE|DIR...",
    .details = "",
    .example = "ctxpipe report x",
    .flags = flags,
    .operands_min = 1,
    .operands_max = 2};

/* words: separated by blanks */
static int read_words(const char *words, struct ctxp_args *args, struct ctxp_error *err) {
  static char copy[200], *argv[20];
  int argc = 0;
  snprintf(copy, sizeof(copy), "%s", words);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
  argv[argc] = NULL;
  return ctxp_args_read(&command, argc, argv, args, err);
}

static void flags_and_operands_may_come_in_any_order(void **state) {
  struct ctxp_args args;
  struct ctxp_error err;
  uint64_t top;
  (void)state;
  assert_int_equal(read_words("a --json -n5 b --by=view", &args, &err), 0);
  assert_int_equal(args.operand_count, 2);
  assert_string_equal(args.operands[0], "a");
  assert_string_equal(args.operands[1], "b");
  assert_true(ctxp_args_has(&args, "json"));
  assert_string_equal(ctxp_args_get(&args, "by"), "view");
  assert_int_equal(ctxp_args_number(&args, "top", 1, 100, 20, &top, &err), 0);
  assert_int_equal(top, 5);
}

static void after_two_dashes_all_are_operands(void **state) {
  struct ctxp_args args;
  struct ctxp_error err;
  (void)state;
  assert_int_equal(read_words("-- --json", &args, &err), 0);
  assert_string_equal(args.operands[0], "--json");
  assert_false(ctxp_args_has(&args, "json"));
}

static void wrong_words_get_one_sentence_that_names_the_next_step(void **state) {
  static const struct {
    const char *words, *sentence;
  } cases[] = {
      {"a --jsno", "report: unknown option '--jsno'; did you mean '--json'?"},
      {"a --frobnicate", "report: unknown option '--frobnicate'; 'ctxpipe report --help' lists them"},
      {"a --json=1", "report: '--json' takes no value"},
      {"a --top", "report: '--top' needs a value: --top N"},
      {"a --top=", "report: the value of '--top' is empty: --top N"},
      {"a --json --json", "report: '--json' is given twice; once is enough"},
      {"--json", "report: needs FILE|DIR...; for example: ctxpipe report x"},
      {"a b c", "report: 'c' is one word too many; 'ctxpipe report --help' shows what it takes"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    struct ctxp_args args;
    struct ctxp_error err;
    assert_int_equal(read_words(cases[i].words, &args, &err), -EINVAL);
    assert_string_equal(err.text, cases[i].sentence);
  }
}

static void values_are_checked(void **state) {
  static const char *const grains[] = {"band", "view", "tool", NULL};
  struct ctxp_args args;
  struct ctxp_error err;
  uint64_t top;
  int grain;
  (void)state;
  assert_int_equal(read_words("a --top -3 --by file", &args, &err), 0);
  assert_int_equal(ctxp_args_number(&args, "top", 1, 100, 20, &top, &err), -EINVAL);
  assert_string_equal(err.text, "report: '--top -3' is not a whole number from 1 to 100");
  assert_int_equal(ctxp_args_choice(&args, "by", grains, 0, &grain, &err), -EINVAL);
  assert_string_equal(err.text, "report: '--by file' is none of its values; use band, view or tool");
}

static void only_near_names_are_suggested(void **state) {
  static const char *const names[] = {"report", "replay", "status", "stats", "up"};
  (void)state;
  assert_string_equal(ctxp_args_suggest("reprot", names, sizeof(*names), 5), "report");
  assert_string_equal(ctxp_args_suggest("stat", names, sizeof(*names), 5), "status");
  assert_string_equal(ctxp_args_suggest("repl", names, sizeof(*names), 5), "replay");
  assert_null(ctxp_args_suggest("frobnicate", names, sizeof(*names), 5));
  assert_null(ctxp_args_suggest("xy", names, sizeof(*names), 5));
}

/* capitals stand for what only the reader knows; everything else is typed as printed */
static void every_example_is_one_that_its_command_understands(void **state) {
  (void)state;
  for (const struct ctxp_command *const *c = ctxp_commands; *c; c++) {
    char head[64], copy[200], *argv[20];
    int argc = 0;
    struct ctxp_args args;
    struct ctxp_error err;
    snprintf(head, sizeof(head), "ctxpipe %s", (*c)->name);
    const char *at = strstr((*c)->example, head);
    if (!at) fail_msg("the example of %s is of another command: %s", (*c)->name, (*c)->example);
    snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(at, "<>|)"), at);
    for (char *word = strtok(copy + strlen(head), " "); word; word = strtok(NULL, " ")) {
      if (strpbrk(word, "0123456789") && strspn(word, "0123456789") < strlen(word))
        fail_msg("the example of %s has an id that nobody has: %s", (*c)->name, word);
      argv[argc++] = word;
    }
    argv[argc] = NULL;
    if (ctxp_args_read(*c, argc, argv, &args, &err) < 0) fail_msg("%s: %s", (*c)->example, err.text);
  }
}

static void whoever_prints_a_bill_says_how_it_is_to_be_read(void **state) {
  static const char *const printing[] = {"report", "spend", "replay"};
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    ctxp_auto_buf text = {0};
    ctxp_command_help(ctxp_command_find(printing[i]), &text);
    assert_non_null(strstr(ctxp_buf_cstr(&text), "'share' is a row's part of all billed tokens"));
    assert_non_null(strstr(ctxp_buf_cstr(&text), "ordered by cost where they have a price"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flags_and_operands_may_come_in_any_order),
      cmocka_unit_test(after_two_dashes_all_are_operands),
      cmocka_unit_test(wrong_words_get_one_sentence_that_names_the_next_step),
      cmocka_unit_test(values_are_checked),
      cmocka_unit_test(only_near_names_are_suggested),
      cmocka_unit_test(every_example_is_one_that_its_command_understands),
      cmocka_unit_test(whoever_prints_a_bill_says_how_it_is_to_be_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
