/* The digest of a shell output: what it must keep, on generated outputs. Real ones: tests/digest/outputs.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/json_read.h"
#include "mechanisms/clean.h"
#include "mechanisms/digest.h"
#include "mechanisms/digest_json.h"
#include "mechanisms/digest_lines.h"
#include "tokens/estimate.h"

static const char *cases_dir;
static struct ctxp_buf source, digest, must; /* of the test in hand; freed by its teardown */

static int teardown(void **state) {
  (void)state;
  ctxp_buf_deinit(&source);
  ctxp_buf_deinit(&digest);
  ctxp_buf_deinit(&must);
  source = digest = must = (struct ctxp_buf){0};
  return 0;
}

static void read_file(const char *folder, const char *name, const char *ending, struct ctxp_buf *out) {
  char path[4096], piece[65536];
  snprintf(path, sizeof(path), "%s/%s/%s%s", cases_dir, folder, name, ending);
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("cannot open %s", path);
  for (size_t n; (n = fread(piece, 1, sizeof(piece), file)) > 0;) ctxp_buf_add(out, piece, n);
  fclose(file);
}

static struct ctxp_digest make(size_t soft, size_t hard) {
  struct ctxp_digest made;
  ctxp_buf_reset(&digest);
  int r = ctxp_digest_make(
      ctxp_buf_view(&source), CTXP_STR("[head; exit code 2]"), (struct ctxp_digest_limits){soft, hard, hard}, &digest, &made);
  if (r != 0) fail_msg("no digest: %d", r);
  assert_in_range(ctxp_utf16_units(ctxp_buf_view(&digest)), 1, hard);
  return made;
}

static bool next_line(struct ctxp_str *rest, struct ctxp_str *ret_line) {
  if (!rest->len) return false;
  const char *end = memchr(rest->ptr, '\n', rest->len);
  size_t n = end ? (size_t)(end - rest->ptr) : rest->len;
  *ret_line = (struct ctxp_str){rest->ptr, n};
  *rest = (struct ctxp_str){rest->ptr + n + (end != NULL), rest->len - n - (end != NULL)};
  return true;
}

static bool has_line(struct ctxp_str text, struct ctxp_str line) {
  struct ctxp_str one;
  while (next_line(&text, &one))
    if (ctxp_str_eq(one, line)) return true;
  return false;
}

/* Is the source line, by its number, one of those that a shown line of the same shape says it stands for? */
static bool folded(struct ctxp_str line, uint64_t number) {
  struct ctxp_str text = ctxp_buf_view(&digest), one, above = {0};
  for (; next_line(&text, &one); above = one) {
    unsigned long long count, first, last;
    char copy[256];
    snprintf(copy, sizeof(copy), "%.*s", (int)(one.len < 200 ? one.len : 200), one.ptr);
    if (sscanf(copy, "\xe2\x80\xa6 %llu like the line above, lines %llu-%llu", &count, &first, &last) != 3) continue;
    if (ctxp_line_shape(above) == ctxp_line_shape(line) && number > first && number <= last) return true;
  }
  return false;
}

static void assert_survives(struct ctxp_str line, uint64_t number) {
  if (!has_line(ctxp_buf_view(&digest), line) && !folded(line, number))
    fail_msg("line %llu is lost: %.*s\n%s", (unsigned long long)number, (int)line.len, line.ptr, ctxp_buf_cstr(&digest));
}

/* ---- generated outputs ---- */
static uint64_t seed;
static uint64_t draw(uint64_t below) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (seed >> 33) % below;
}

static const char *const quiet[] = {"[%3llu/900] Building C object src/mod_%llu.o", "tests/test_%llu.py::test_case_%llu PASSED",
    "INFO worker %llu handled request %llu", "drwxr-xr-x 2 dev dev 4096 Jan  1 10:00 dir%llu-%llu", "    \"id\": %llu, \"next\": %llu,",
    "\x1b[32mok\x1b[0m part %llu of %llu", "Downloading %llu%%\rDownloading %llu%% done",
    "a line that says nothing, with the number %llu and the number %llu", "\t%llu\t%llu", "  CC    obj/part%llu.%llu.o"};
static const char *const loud[] = {"src/f%llu.c:%llu:9: error: 'x' undeclared",
    "FAILED tests/test_%llu.py::test_%llu - AssertionError: 1 != 2", "thread 'main' panicked at src/lib.rs:%llu:%llu",
    "  File \"app/m%llu.py\", line %llu, in check", "\tat com.example.Main%llu.run(Main.java:%llu)", "E   assert %llu == %llu",
    "make: *** [Makefile:%llu: all] Error %llu", "ValueError: bad value %llu of %llu", "ERROR db%llu: connection %llu refused",
    "=== %llu failed, %llu passed in 1.20s ===", "npm ERR! code E%llu%llu", "Segmentation fault (core dumped) at step %llu.%llu",
    "/usr/bin/ld: a%llu.o: undefined reference to `f%llu'", "error[E0%llu]: mismatched types %llu", "not ok %llu - case %llu",
    "--- FAIL: Test%llu (0.%llus)", "fatal: not a git repository %llu %llu", "\x1b[31mError:\x1b[0m step %llu of %llu"};

struct made_line {
  char text[128];
  bool loud;
};

static struct ctxp_str plain(const char *line, char room[128]) { /* without escape sequences */
  size_t n = 0;
  for (const char *p = line; *p; p++) {
    if (*p == 0x1b) {
      while (*p && *p != 'm') p++;
      continue;
    }
    room[n++] = *p;
  }
  return (struct ctxp_str){room, n};
}

static void generate(struct made_line *lines, unsigned count, unsigned loud_every) {
  ctxp_buf_reset(&source);
  unsigned template = 0;
  for (unsigned i = 0; i < count; i++) {
    if (draw(20) == 0 || i == 0) template = (unsigned)draw(sizeof(quiet) / sizeof(quiet[0]));
    lines[i].loud = draw(loud_every) == 0;
    const char *format = lines[i].loud ? loud[draw(sizeof(loud) / sizeof(loud[0]))] : quiet[template];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(lines[i].text, sizeof(lines[i].text), format, (unsigned long long)draw(1000), (unsigned long long)draw(1000));
#pragma GCC diagnostic pop
    ctxp_buf_str(&source, lines[i].text);
    ctxp_buf_str(&source, draw(9) == 0 ? "\r\n" : "\n");
  }
}

/* source lines that the digest shows or says that it leaves out */
static uint64_t accounted(void) {
  struct ctxp_str text = ctxp_buf_view(&digest), line;
  uint64_t lines = 0;
  assert_true(next_line(&text, &line)); /* the head */
  while (next_line(&text, &line)) {
    unsigned long long count, first, last;
    char copy[256];
    snprintf(copy, sizeof(copy), "%.*s", (int)(line.len < 200 ? line.len : 200), line.ptr);
    if (strstr(copy, "like the line above, lines")) continue;
    if (sscanf(copy, "\xe2\x80\xa6 lines %llu-%llu: %llu", &first, &last, &count) == 3) {
      assert_int_equal(last - first + 1, count);
      lines += count;
    } else if (sscanf(copy, "\xe2\x80\xa6 %llu line", &count) == 1) {
      lines += count;
    } else {
      lines++; /* shown, or "line N" */
    }
  }
  return lines;
}

static void every_error_line_of_a_generated_output_survives(void **state) {
  (void)state;
  static struct made_line lines[1500];
  unsigned long long digests = 0;
  for (seed = 1; seed < 150; seed += 1) {
    uint64_t kept = seed;
    unsigned count = 200 + (unsigned)draw(1300);
    generate(lines, count, 5 + (unsigned)draw(400));
    struct ctxp_digest made;
    char room[128];
    ctxp_buf_reset(&digest);
    size_t units = ctxp_utf16_units(ctxp_buf_view(&source));
    int r = ctxp_digest_make(ctxp_buf_view(&source), CTXP_STR("[head]"),
        (struct ctxp_digest_limits){units / 10 < 4096 ? units / 10 : 4096, 4096, 4096}, &digest, &made);
    assert_in_range(r, 0, 1);
    assert_int_equal(made.lines, count);
    if (r == 0) {
      digests++;
      assert_in_range(ctxp_utf16_units(ctxp_buf_view(&digest)), 1, 4096);
      for (unsigned i = 0; i < count; i++)
        if (lines[i].loud) assert_survives(plain(lines[i].text, room), i + 1);
      if (accounted() != count)
        fail_msg("%llu of %u lines accounted for:\n%s", (unsigned long long)accounted(), count, ctxp_buf_cstr(&digest));
    }
    seed = kept;
  }
  assert_true(digests > 100); /* most fit */
}

/* ---- worked by hand ---- */
static void assert_digest(const char *text, size_t soft, const char *expected) {
  ctxp_buf_reset(&source);
  ctxp_buf_str(&source, text);
  make(soft, 4096);
  assert_string_equal(ctxp_buf_cstr(&digest), expected);
}

static void a_run_of_one_shape_becomes_its_first_line_and_a_count(void **state) {
  (void)state;
  ctxp_buf_str(&must, "");
  for (int i = 1; i <= 500; i++) ctxp_buf_printf(&must, "PASSED test_%d\n", i);
  ctxp_buf_str(&must, "=== 500 passed ===\n");
  assert_digest(ctxp_buf_cstr(&must), 220,
      "[head; exit code 2]\nPASSED test_1\n\xe2\x80\xa6 lines 2-499: 498 like the one above \xe2\x80\xa6\nPASSED test_500\n=== 500 passed "
      "===");
}

static void an_error_keeps_its_surroundings_and_the_gaps_are_marked(void **state) {
  (void)state;
  for (int i = 1; i <= 100; i++) ctxp_buf_printf(&must, i % 2 ? "row %d\n" : "column %d\n", i);
  ctxp_buf_str(&must, "a.c:1:2: error: no\n");
  for (int i = 102; i <= 200; i++) ctxp_buf_printf(&must, i % 2 ? "row %d\n" : "column %d\n", i);
  assert_digest(ctxp_buf_cstr(&must), 220,
      "[head; exit code 2]\nrow 1\ncolumn 2\n\xe2\x80\xa6 lines 3-98: 96 lines, 2 kinds \xe2\x80\xa6\nrow 99\ncolumn 100\na.c:1:2: error: "
      "no\n"
      "column 102\nrow 103\ncolumn 104\n\xe2\x80\xa6 lines 105-197: 93 lines, 2 kinds \xe2\x80\xa6\ncolumn 198\nrow 199\ncolumn 200");
}

static void equal_errors_become_one_with_count_first_and_last_line(void **state) {
  (void)state;
  for (int i = 1; i <= 90; i++) ctxp_buf_str(&must, "ERROR: disk on fire\nretrying\n");
  assert_digest(ctxp_buf_cstr(&must), 130,
      "[head; exit code 2]\nERROR: disk on fire\n\xe2\x80\xa6 89 like the line above, lines 1-179 \xe2\x80\xa6\n\xe2\x80\xa6 lines 2-179: "
      "178 lines, 2 kinds \xe2\x80\xa6\nretrying");
}

static void what_a_carriage_return_overwrote_is_gone_unless_it_was_an_error(void **state) {
  (void)state;
  assert_digest("10%\r50%\rerror: broken pipe\r100%\r\nend\n", 400, "[head; exit code 2]\nerror: broken pipe\n100%\nend");
}

static void the_last_line_is_shown_even_where_error_lines_took_all_there_is(void **state) {
  (void)state;
  for (int i = 1; i <= 30; i++) ctxp_buf_printf(&source, "a.c:%d:1: error: 'x%d' undeclared\n", i, i);
  ctxp_buf_str(&source, "one line\nand the end of it all\n");
  make(0, 4096);
  assert_true(has_line(ctxp_buf_view(&digest), CTXP_STR("and the end of it all")));
  assert_false(has_line(ctxp_buf_view(&digest), CTXP_STR("one line")));
}

static void too_many_kinds_of_errors_do_not_fit(void **state) {
  (void)state;
  struct ctxp_digest made;
  for (int i = 0; i < 400; i++) {
    ctxp_buf_str(&source, "error: ");
    for (int k = 0; k < 8; k++) ctxp_buf_char(&source, (char)('a' + (i >> k & 1) * 3));
    ctxp_buf_char(&source, (char)('a' + i % 26));
    ctxp_buf_char(&source, '\n');
  }
  assert_int_equal(
      ctxp_digest_make(ctxp_buf_view(&source), CTXP_STR("[h]"), (struct ctxp_digest_limits){100, 1000, 1000}, &digest, &made), 1);
  assert_int_equal(digest.len, 0);
  assert_int_equal(made.first_must, 0);
}

/* ---- what a line is ---- */
static enum ctxp_line_class class_of(const char *line) {
  struct ctxp_matcher matcher;
  ctxp_matcher_init(&matcher);
  return ctxp_line_classify(&matcher, ctxp_str(line));
}

static void lines_that_report_a_failure_must_survive(void **state) {
  (void)state;
  static const char *const lines[] = {"src/a.c:12:9: error: 'x' undeclared", "a.c:3: undefined reference to `foo'", "FAILED (failures=2)",
      "FAIL: test_x", "test tests::t7 ... FAILED", "Traceback (most recent call last):", "  File \"a.py\", line 3, in f",
      "    at Object.<anonymous> (/a/b.js:1:2)", "\tat a.B.c(B.java:3)", "Caused by: java.io.IOException: x", "AssertionError: 1 != 2",
      "E       assert 1 == 2", "panic: runtime error: index out of range", "thread 'main' panicked at 'x'", "make: *** [all] Error 2",
      "npm ERR! missing script", "fatal: not a git repository", "CONFLICT (content): Merge conflict in a", "bash: foo: command not found",
      "ls: cannot access 'x': No such file or directory", "Permission denied", "Segmentation fault (core dumped)", "Killed",
      "Tests: 1 failed, 2 passed, 3 total", "ok: 12 passed", "0 errors, 3 warnings", "3 examples, 0 failures",
      "2026-01-01 12:00:00 ERROR x: y", "{\"level\":\"error\",\"msg\":\"boom\"}", "level=error msg=boom",
      "CMake Error at CMakeLists.txt:3:", "not ok 3 - sums", "#1 0x4f2a in main a.c:3", "E: Unable to locate package x",
      "Command exited with code 2", "    1) fails", "ERROR", "xmllint: parser error : Opening tag", "error TS2322: Type",
      "x.go:3:5: undefined: y", "java.lang.NullPointerException", "Error: Cannot find module 'x'",
      "Test result: FAILED. 1 passed; 1 failed", "[  FAILED  ] Foo.Bar", "collect2: error: ld returned 1 exit status",
      "connection refused: ECONNREFUSED", "==8302== Invalid read of size 4", "==8302==    at 0x1091C2: main (m.c:17)",
      "==8302==    by 0x1091C2: main (m.c:17)", "app/money.py:14: in convert", "  left: 12", "    Received: 3"};
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
    if (class_of(lines[i]) != CTXP_LINE_MUST) fail_msg("not kept: %s", lines[i]);
}

static void lines_that_only_mention_one_need_not(void **state) {
  (void)state;
  static const char *const lines[] = {"Compiling src/error.c", "cc -Werror -c a.c", "-rw-r--r-- 1 dev dev 120 Jan  1 10:00 errors",
      "./include/error.h", "src/a.c:12:  return set_error(err, \"no error\");", "tests/test_error.py::test_ok PASSED",
      "drwxr-xr-x 2 dev dev 4096 Jan  1 10:00 failed", "int handle_error(void);", "no errors found", "see docs/failure-modes.md",
      "--no-fail-fast", "INFO all is well", "npm WARN deprecated x", ""};
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
    if (class_of(lines[i]) == CTXP_LINE_MUST) fail_msg("kept: %s", lines[i]);
}

static void what_a_diff_quotes_is_not_said_by_the_command(void **state) {
  (void)state;
  struct ctxp_hunk hunk = {0};
  assert_true(ctxp_hunk_quotes(&hunk, CTXP_STR("@@ -1,2 +1,3 @@ int f")));
  assert_true(ctxp_hunk_quotes(&hunk, CTXP_STR(" error: a")));
  assert_true(ctxp_hunk_quotes(&hunk, CTXP_STR("+error: b")));
  assert_true(ctxp_hunk_quotes(&hunk, CTXP_STR("")));
  assert_false(ctxp_hunk_quotes(&hunk, CTXP_STR(" error: after the hunk")));
  assert_true(ctxp_hunk_quotes(&hunk, CTXP_STR("@@ -1,9 +1,9 @@")));
  assert_false(ctxp_hunk_quotes(&hunk, CTXP_STR("fatal: broken off")));
  assert_false(ctxp_hunk_quotes(&hunk, CTXP_STR(" not in it any more")));
}

static void phrases_are_grouped_by_their_first_letter(void **state) {
  (void)state;
  struct ctxp_matcher matcher;
  ctxp_matcher_init(&matcher);
  assert_int_equal(matcher.from[26], ctxp_phrases_count); /* each is in its letter's range */
}

static void lines_of_one_shape_differ_in_numbers_paths_and_quoted_texts(void **state) {
  (void)state;
  assert_int_equal(ctxp_line_shape(CTXP_STR("src/a.c:12:3: error: 'x' undeclared")),
      ctxp_line_shape(CTXP_STR("lib/queue.c:7:120: error: 'head' undeclared")));
  assert_int_equal(ctxp_line_shape(CTXP_STR("[  1/900] Building a/b.o")), ctxp_line_shape(CTXP_STR("[899/900] Building c/d.o")));
  assert_int_not_equal(ctxp_line_shape(CTXP_STR("a.c:1: error: no")), ctxp_line_shape(CTXP_STR("a.c:1: error: yes")));
}

static void lines_of_one_shape_differ_in_addresses_and_names_with_colons_too(void **state) {
  (void)state;
  assert_int_equal(ctxp_line_shape(CTXP_STR("#1 0x55cd030738da in leak_59 a.c:1")), ctxp_line_shape(CTXP_STR("#1 0x55cd03073c in leak_1 b.c:12")));
  assert_int_equal(ctxp_line_shape(CTXP_STR("FAILED tests/test_a.py::ATest::test_a - KeyError: 'x'")),
      ctxp_line_shape(CTXP_STR("FAILED tests/unit/test_b.py::BTest::test_one - KeyError: 'y'")));
  assert_int_equal(ctxp_line_shape(CTXP_STR("_____ A.test_1 _____")), ctxp_line_shape(CTXP_STR("______ B.test_22 ______")));
  assert_int_not_equal(ctxp_line_shape(CTXP_STR("a:b c")), ctxp_line_shape(CTXP_STR("a::b c")));
}

static void totals_of_the_tools_are_kept(void **state) {
  (void)state;
  static const char *const lines[] = {"15 upgraded, 467 newly installed, 0 to remove and 105 not upgraded.", "\xe2\x84\xb9 tests 240",
      "# pass 237", "Snapshots:   0 total", "==1== LEAK SUMMARY:", "found 3 vulnerabilities", "added 508 packages in 1m",
      "7 directories, 200 files", "total size is 1.2M  speedup is 1.00"};
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
    if (class_of(lines[i]) != CTXP_LINE_MUST) fail_msg("not kept: %s", lines[i]);
}

static void what_a_search_found_is_not_said_by_the_command(void **state) {
  (void)state;
  assert_int_not_equal(class_of("src/a.c:12:  return set_failure(\"it failed\");"), CTXP_LINE_MUST);
  assert_int_not_equal(class_of("12:  return set_failure(\"it failed\");"), CTXP_LINE_MUST);
  assert_int_equal(class_of("12:34:56 it failed"), CTXP_LINE_MUST); /* a time */
  assert_int_equal(class_of("src/a.c:12: it failed"), CTXP_LINE_MUST); /* a compiler's blank */
}

/* ---- JSON ---- */
static void assert_layout(const char *text, const char *expected) {
  ctxp_buf_reset(&digest);
  assert_int_equal(ctxp_digest_json(ctxp_str(text), &digest), 0);
  assert_string_equal(ctxp_buf_cstr(&digest), expected);
}

#define LONG_STRING \
  "\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" \
  "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123" \
  "456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345" \
  "6789\""

static void json_on_a_long_line_is_laid_out_with_small_values_on_lines_of_their_own(void **state) {
  (void)state;
  assert_layout("{\"a\":[1,2],\"b\": {\"c\":" LONG_STRING ",\"d\":[{\"e\":null}]} , \"f\":-1.5e3}",
      "{\n \"a\": [1,2],\n \"b\": {\n  \"c\": " LONG_STRING ",\n  \"d\": [{\"e\":null}]\n },\n \"f\": -1.5e3\n}");
  assert_layout("[" LONG_STRING "]\n[" LONG_STRING ",true]", "[\n " LONG_STRING "\n]\n[\n " LONG_STRING ",\n true\n]");
}

static void what_is_no_json_or_short_is_not_laid_out(void **state) {
  (void)state;
  static const char *const texts[] = {"", "[1, 2]", "[" LONG_STRING, "[" LONG_STRING "}", "{" LONG_STRING ": what}", "[" LONG_STRING "] tail",
      LONG_STRING LONG_STRING, "[\"never closed " LONG_STRING, "note: [" LONG_STRING "]"};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    ctxp_buf_reset(&digest);
    ctxp_buf_str(&digest, "before");
    if (ctxp_digest_json(ctxp_str(texts[i]), &digest) != 1) fail_msg("laid out: %s", texts[i]);
    assert_string_equal(ctxp_buf_cstr(&digest), "before");
  }
}

static void error_lines_above_the_firm_limit_are_folded_though_they_would_fit(void **state) {
  (void)state;
  struct ctxp_digest made;
  for (int i = 1; i <= 30; i++) ctxp_buf_printf(&source, "a.c:%d:1: error: 'x%d' undeclared\n", i, i);
  ctxp_buf_str(&source, "make: *** [all] Error 2\n");
  assert_int_equal(
      ctxp_digest_make(ctxp_buf_view(&source), CTXP_STR("[h]"), (struct ctxp_digest_limits){0, 4096, 4096}, &digest, &made), 0);
  for (int i = 1; i <= 30; i++) {
    char line[64];
    snprintf(line, sizeof(line), "a.c:%d:1: error: 'x%d' undeclared", i, i);
    assert_true(has_line(ctxp_buf_view(&digest), ctxp_str(line)));
  }
  ctxp_buf_reset(&digest);
  assert_int_equal(
      ctxp_digest_make(ctxp_buf_view(&source), CTXP_STR("[h]"), (struct ctxp_digest_limits){0, 300, 4096}, &digest, &made), 0);
  assert_in_range(ctxp_utf16_units(ctxp_buf_view(&digest)), 1, 300);
  assert_true(has_line(ctxp_buf_view(&digest), CTXP_STR("make: *** [all] Error 2")));
  assert_true(ctxp_str_find(ctxp_buf_view(&digest), CTXP_STR("like the line above, lines 1-30"), 0) != SIZE_MAX);
}

/* ---- extremes ---- */
/* What grows with the square would take hours. The sanitizers' memmem looks at the whole rest each time, hence the small size. */
enum { EXTREME_BYTES = 1 << 20 };

static void a_megabyte_of_anything_is_digested_within_the_limits(void **state) {
  (void)state;
  static const char *const pieces[] = {"x", "\n", "progress\r", "a\n", "\x1b[", "\x1b]", "\x1b[31m", "[Output truncated:", "'\"`",
      "Full output saved to:", "error\n", "a\n\xc2\x80\n", "\xf0\x9f\x8e\x89", "@@ -1 +1 @@\n", " \r"};
  for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
    ctxp_buf_reset(&source);
    for (size_t n = strlen(pieces[i]); source.len + n <= EXTREME_BYTES;) ctxp_buf_str(&source, pieces[i]);
    struct ctxp_digest made;
    struct ctxp_str text;
    ctxp_auto_buf room = {0};
    assert_int_equal(ctxp_clean_output(ctxp_buf_view(&source), false, &room, &text), 0);
    ctxp_buf_reset(&digest);
    assert_in_range(ctxp_digest_make(text, CTXP_STR("[h]"), (struct ctxp_digest_limits){4096, 4096, 4096}, &digest, &made), 0, 1);
    assert_in_range(ctxp_utf16_units(ctxp_buf_view(&digest)), 0, 4096);
  }
}

static void control_characters_and_noise_do_not_reach_the_digest(void **state) {
  (void)state;
  static const char bytes[] = "a\0b\x07\x1b[1;31mred\x1b[0m\x1b]0;title\x07 \xc2\x9b tail\x7f\n\x1b";
  ctxp_buf_add(&source, bytes, sizeof(bytes) - 1);
  make(400, 4096);
  assert_string_equal(ctxp_buf_cstr(&digest), "[head; exit code 2]\nabred  tail");
}

/* ---- the plain cut, and the notes ---- */
static void every_tail_is_cut_as_the_cases_say(void **state) {
  (void)state;
  ctxp_cleanup(ctxp_json_deinit) struct ctxp_json json = {0};
  read_file(".", "estimate_tokens", ".json", &source);
  assert_int_equal(ctxp_json_load(&json, ctxp_buf_view(&source), NULL), 0);
  uint32_t list = ctxp_json_get(&json, 0, "tail");
  assert_true(ctxp_json_size(&json, list) > 20);
  for (uint32_t it = list; ctxp_json_each(&json, list, &it);) {
    struct ctxp_str text = ctxp_json_text(&json, ctxp_json_get(&json, it, "text")),
                    content = ctxp_json_text(&json, ctxp_json_get(&json, it, "content"));
    struct ctxp_tail tail = ctxp_output_tail(
        text, ctxp_json_u64(&json, ctxp_json_get(&json, it, "maxLines"), 0), ctxp_json_u64(&json, ctxp_json_get(&json, it, "maxBytes"), 0));
    if (!ctxp_str_eq(tail.content, content))
      fail_msg("'%.*s' for '%.*s'", (int)tail.content.len, tail.content.ptr, (int)content.len, content.ptr);
    assert_int_equal(tail.total_lines, ctxp_json_u64(&json, ctxp_json_get(&json, it, "totalLines"), UINT64_MAX));
  }
}

static void assert_clean(const char *text, const char *expected) {
  ctxp_auto_buf room = {0};
  struct ctxp_str clean;
  assert_int_equal(ctxp_clean_output(ctxp_str(text), false, &room, &clean), 0);
  if (!ctxp_str_is(clean, expected)) fail_msg("'%.*s' for '%s'", (int)clean.len, clean.ptr, expected);
}

static void nothing_points_back_at_the_discarded_output(void **state) {
  (void)state;
  assert_clean("a\n[Output truncated: last 2000 lines. Full output saved to: /tmp/x.log]\nb", "a\n[output discarded]\nb");
  assert_clean("Full output saved to: /tmp/x.log and more", "[output discarded] and more");
  assert_clean("x [Output truncated: 50KB limit]\nend", "x \nend");
  assert_clean("[Output truncated: a ] b Full output saved to: /tmp/y]", " b [output discarded]");
  assert_clean("[Showing lines 18001-20000 of 20000. Full output: /tmp/p.log]", "[Showing lines 18001-20000 of 20000]");
  assert_clean("[Output truncated: never closed", "[Output truncated: never closed");
  assert_clean("nothing of it", "nothing of it");
}

int main(int argc, char **argv) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(every_error_line_of_a_generated_output_survives, teardown),
      cmocka_unit_test_teardown(a_run_of_one_shape_becomes_its_first_line_and_a_count, teardown),
      cmocka_unit_test_teardown(an_error_keeps_its_surroundings_and_the_gaps_are_marked, teardown),
      cmocka_unit_test_teardown(equal_errors_become_one_with_count_first_and_last_line, teardown),
      cmocka_unit_test_teardown(what_a_carriage_return_overwrote_is_gone_unless_it_was_an_error, teardown),
      cmocka_unit_test_teardown(the_last_line_is_shown_even_where_error_lines_took_all_there_is, teardown),
      cmocka_unit_test_teardown(too_many_kinds_of_errors_do_not_fit, teardown),
      cmocka_unit_test(lines_that_report_a_failure_must_survive),
      cmocka_unit_test(lines_that_only_mention_one_need_not),
      cmocka_unit_test(what_a_diff_quotes_is_not_said_by_the_command),
      cmocka_unit_test(phrases_are_grouped_by_their_first_letter),
      cmocka_unit_test(lines_of_one_shape_differ_in_numbers_paths_and_quoted_texts),
      cmocka_unit_test(lines_of_one_shape_differ_in_addresses_and_names_with_colons_too),
      cmocka_unit_test(totals_of_the_tools_are_kept),
      cmocka_unit_test(what_a_search_found_is_not_said_by_the_command),
      cmocka_unit_test_teardown(json_on_a_long_line_is_laid_out_with_small_values_on_lines_of_their_own, teardown),
      cmocka_unit_test_teardown(what_is_no_json_or_short_is_not_laid_out, teardown),
      cmocka_unit_test_teardown(error_lines_above_the_firm_limit_are_folded_though_they_would_fit, teardown),
      cmocka_unit_test_teardown(a_megabyte_of_anything_is_digested_within_the_limits, teardown),
      cmocka_unit_test_teardown(control_characters_and_noise_do_not_reach_the_digest, teardown),
      cmocka_unit_test_teardown(every_tail_is_cut_as_the_cases_say, teardown),
      cmocka_unit_test(nothing_points_back_at_the_discarded_output),
  };
  if (argc < 2) return 2;
  cases_dir = argv[1];
  return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
