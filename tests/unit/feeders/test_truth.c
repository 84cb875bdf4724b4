/* Every transcript with a known truth: tokens exactly, the plain split to a thousandth. The transcripts are not part of the
 * repository: where they are is told by CTXP_SHARED. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "reference.h"

static const char *cases_dir;
static unsigned compared, wrong;
static struct ctxp_json truth;
static struct ctxp_buf truth_text;
static struct ref ref;

static void said(const char *file, const char *what, const char *key, double got, double expected) {
  wrong++;
  print_error("# %s: %s %s is %.3f instead of %.3f\n", file, what, key, got, expected);
}

static void read_truth(const char *path) {
  ctxp_auto_fclose FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s cannot be opened", path);
  ctxp_buf_reset(&truth_text);
  for (size_t n = 1; n > 0; truth_text.len += n) n = fread(ctxp_buf_room(&truth_text, 65536), 1, 65536, file);
  assert_int_equal(ctxp_json_load(&truth, ctxp_buf_view(&truth_text), NULL), 0);
}

static uint32_t get(uint32_t object, const char *key) { return ctxp_json_get(&truth, object, key); }
static double number(uint32_t value) {
  ctxp_auto_buf text = {0};
  struct ctxp_str source = ctxp_json_source(&truth, value);
  ctxp_buf_add(&text, source.ptr, source.len);
  return strtod(ctxp_buf_cstr(&text), NULL);
}
static void copy_text(uint32_t value, char *out, size_t cap) {
  struct ctxp_str text = ctxp_json_text(&truth, value);
  snprintf(out, cap, "%.*s", (int)text.len, text.ptr);
}

static void import(const char *path) {
  struct ctxp_import_sink sink;
  ctxp_cleanup(ctxp_import_result_deinit) struct ctxp_import_result result = {0};
  struct ctxp_error err = {""};
  ref_deinit(&ref);
  ref_init(&ref, &sink);
  const struct ctxp_import_options options = {.paths = &path, .path_count = 1};
  if (ctxp_import_files(&options, &sink, &result, &err) < 0) fail_msg("%s: %s", path, err.text);
  assert_int_equal(ref.misplaced, 0);
  for (unsigned i = 0; i < ref.window_count; i++) {
    const struct ref_window *w = ref.windows[i];
    if (w->starts != 1 || w->ends != 1 || (w->turn_ends != w->turns && strcmp(w->thread, "side") != 0) || w->agents != w->agent_ends)
      fail_msg("%s %s %s: %u starts %u ends, %u turns %u ends, %u agents %u ends", path, w->session, w->thread, w->starts, w->ends,
          w->turns, w->turn_ends, w->agents, w->agent_ends);
  }
}

static void compare_sum(const char *file, const char *what, uint32_t totals, struct ref_sum sum) {
  static const char *const keys[] = {"calls", "input", "cache_read", "cache_write", "output", "cache_write_1h"};
  const uint64_t got[] = {sum.calls, sum.input, sum.read, sum.write, sum.output, sum.write_1h};
  compared++;
  for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
    uint64_t expected = ctxp_json_u64(&truth, get(totals, keys[i]), 0);
    if (got[i] != expected) said(file, what, keys[i], (double)got[i], (double)expected);
  }
}

static void compare_shares(const char *file, const char *what, const char *thread, char grain, uint32_t rows, bool complete) {
  static struct ref_share shares[4000];
  unsigned count = ref_shares(&ref, NULL, thread, grain, shares, 4000), seen = 0;
  compared++;
  for (uint32_t it = rows; ctxp_json_each(&truth, rows, &it);) {
    char key[512], *label = key;
    copy_text(get(it, "key"), key, sizeof(key));
    if (grain == 'v') label = strchr(key, ':') + 1;
    double expected = number(get(it, "billed")), got = 0;
    for (unsigned i = 0; i < count; i++)
      if (strcmp(shares[i].key, label) == 0) got = shares[i].billed, seen++;
    if (fabs(got - expected) > 1e-3 * fmax(expected, 1)) said(file, what, key, got, expected);
  }
  if (complete && seen != count) said(file, what, "rows", count, seen);
}

static void compare_transcript(const char *path) {
  char file[4096];
  read_truth(path);
  snprintf(file, sizeof(file), "%.*s.jsonl", (int)(strlen(path) - strlen(".truth.json")), path);
  if (access(file, R_OK) != 0) file[strlen(file) - 1] = 0; /* .json */
  import(file);
  uint32_t streams = get(0, "streams"), fold = get(0, "fold");
  compare_sum(file, "totals", get(0, "totals"), ref_totals(&ref, NULL, NULL));
  if (fold == CTXP_JSON_NONE) return; /* totals only */
  for (uint32_t it = streams; ctxp_json_each(&truth, streams, &it);) {
    char name[256];
    copy_text(get(it, "stream"), name, sizeof(name));
    const char *thread = strcmp(name, "main") == 0 ? "" : name;
    if (ctxp_json_size(&truth, streams) == 1) thread = NULL;
    compare_sum(file, name, it, ref_totals(&ref, NULL, thread));
    compare_shares(file, name, thread, 'b', get(it, "bands"), true);
    compare_shares(file, name, thread, 't', get(it, "tools"), true);
  }
  compare_shares(file, "bands", NULL, 'b', get(fold, "bands"), true);
  compare_shares(file, "tools", NULL, 't', get(fold, "tools"), true);
  compare_shares(file, "views", NULL, 'v', get(fold, "top10_views"), false);
}

static void compare_cost(const char *file) {
  uint32_t cost = get(0, "cost"), side = get(cost, "side_input");
  struct ref_sum sum = ref_totals(&ref, NULL, NULL), beside = ref_totals(&ref, NULL, "side");
  compared++;
  if (fabs((double)sum.total_nano - 1e9 * number(get(cost, "cost_total"))) > 1000)
    said(file, "cost", "total", (double)sum.total_nano * 1e-9, number(get(cost, "cost_total")));
  if (fabs((double)sum.input_nano - 1e9 * number(get(cost, "cost_input_side"))) > 1000)
    said(file, "cost", "input side", (double)sum.input_nano * 1e-9, number(get(cost, "cost_input_side")));
  if (side == CTXP_JSON_NONE) return;
  if (beside.input != ctxp_json_u64(&truth, side, 0)) said(file, "side", "input", (double)beside.input, number(side));
  if (beside.read != ctxp_json_u64(&truth, get(cost, "side_cache_read"), 0)) said(file, "side", "cacheRead", (double)beside.read, 0);
  if (beside.output != ctxp_json_u64(&truth, get(cost, "side_output"), 0)) said(file, "side", "output", (double)beside.output, 0);
  if (fabs((double)beside.total_nano - 1e9 * number(get(cost, "side_cost"))) > 1000)
    said(file, "side", "cost", (double)beside.total_nano * 1e-9, number(get(cost, "side_cost")));
}

static void compare_folder(const char *folder, bool cost) {
  char pattern[4096];
  glob_t found;
  if (!cases_dir) skip();
  snprintf(pattern, sizeof(pattern), "%s/transcripts/%s/*.truth.json", cases_dir, folder);
  assert_int_equal(glob(pattern, 0, NULL, &found), 0);
  wrong = 0;
  for (size_t i = 0; i < found.gl_pathc; i++) {
    compare_transcript(found.gl_pathv[i]);
    if (cost) compare_cost(found.gl_pathv[i]);
  }
  globfree(&found);
  assert_int_equal(wrong, 0);
}

static void claude_code_sessions_have_their_truth(void **state) {
  (void)state;
  compare_folder("claude", false);
}
static void made_up_claude_code_sessions_have_their_truth(void **state) {
  (void)state;
  compare_folder("made-up/claude", false);
}
static void pi_sessions_have_their_truth(void **state) {
  (void)state;
  compare_folder("pi", true);
}
static void made_up_pi_sessions_have_their_truth(void **state) {
  (void)state;
  compare_folder("made-up/pi", true);
}

static void codex_sessions_have_their_truth(void **state) {
  (void)state;
  compare_folder("codex", false);
}
static void made_up_codex_sessions_have_their_truth(void **state) {
  (void)state;
  compare_folder("made-up/codex", false);
}

static void gemini_sessions_have_their_truth(void **state) {
  (void)state;
  compare_folder("gemini", false);
}
static void opencode_sessions_have_their_truth(void **state) {
  (void)state;
  compare_folder("opencode", false);
}

static void a_whole_tree_has_its_truth(void **state) {
  (void)state;
  char path[4096];
  if (!cases_dir) skip();
  snprintf(path, sizeof(path), "%s/transcripts/claude-tree/truth.json", cases_dir);
  read_truth(path);
  snprintf(path, sizeof(path), "%s/transcripts/claude-tree/projects", cases_dir);
  import(path);
  wrong = 0;
  compare_sum(path, "totals", get(0, "totals"), ref_totals(&ref, NULL, NULL));
  uint32_t sessions = get(0, "sessions");
  for (uint32_t it = sessions; ctxp_json_each(&truth, sessions, &it);) {
    char file[512];
    copy_text(get(it, "file"), file, sizeof(file));
    struct ref_sum sum = {0};
    for (unsigned i = 0; i < ref.window_count; i++) {
      const char *session = strrchr(file, '/') + 1;
      if (strcmp(ref.windows[i]->session, session) == 0) sum = ref_totals(&ref, session, NULL);
    }
    compare_sum(file, "session", get(it, "totals"), sum);
  }
  assert_int_equal(wrong, 0);
}

static void import_cases_have_their_truth(void **state) {
  (void)state;
  char pattern[4096], path[4096];
  glob_t found;
  if (!cases_dir) skip();
  snprintf(pattern, sizeof(pattern), "%s/import/*/truth.json", cases_dir);
  assert_int_equal(glob(pattern, 0, NULL, &found), 0);
  wrong = 0;
  for (size_t i = 0; i < found.gl_pathc; i++) {
    read_truth(found.gl_pathv[i]);
    snprintf(path, sizeof(path), "%.*shome", (int)(strlen(found.gl_pathv[i]) - strlen("truth.json")), found.gl_pathv[i]);
    import(path);
    uint32_t expect = get(0, "expect");
    struct ref_sum sum = ref_totals(&ref, NULL, NULL);
    static const char *const keys[] = {"turns", "input", "cacheRead", "cacheWrite5m", "cacheWrite1h", "output"};
    const uint64_t got[] = {sum.calls, sum.input, sum.read, sum.write - sum.write_1h, sum.write_1h, sum.output};
    compared++;
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
      if (got[k] != ctxp_json_u64(&truth, get(expect, keys[k]), 0))
        said(path, "expect", keys[k], (double)got[k], number(get(expect, keys[k])));
  }
  globfree(&found);
  assert_int_equal(wrong, 0);
}

int main(int argc, char **argv) {
  static char dir[4096];
  const char *shared = getenv("CTXP_SHARED");
  snprintf(dir, sizeof(dir), "%s/cases", shared ? shared : argc > 1 ? argv[1] :
                                                                      "../shared");
  cases_dir = access(dir, R_OK) == 0 ? dir : NULL;
  if (!cases_dir) { /* cmocka's own way to skip counts as a failure */
    printf("1..0 # SKIP there are no transcripts with a truth at %s\n", dir);
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(import_cases_have_their_truth),
      cmocka_unit_test(made_up_claude_code_sessions_have_their_truth),
      cmocka_unit_test(made_up_pi_sessions_have_their_truth),
      cmocka_unit_test(pi_sessions_have_their_truth),
      cmocka_unit_test(made_up_codex_sessions_have_their_truth),
      cmocka_unit_test(gemini_sessions_have_their_truth),
      cmocka_unit_test(opencode_sessions_have_their_truth),
      cmocka_unit_test(codex_sessions_have_their_truth),
      cmocka_unit_test(claude_code_sessions_have_their_truth),
      cmocka_unit_test(a_whole_tree_has_its_truth),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  ref_deinit(&ref);
  ctxp_json_deinit(&truth);
  ctxp_buf_deinit(&truth_text);
  return failed;
}
