#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "sinks/sinks.h"
#include "support/stage_test.h"

/* every test has a folder of its own, and runs in it */
struct fixture {
  struct ctxp_test t;
  char dir[64];
  struct ctxp_buf text;
};

static int setup(void **state) {
  struct fixture *f = calloc(1, sizeof(*f));
  if (!f) return -1;
  snprintf(f->dir, sizeof(f->dir), "%s", "/tmp/ctxp-sinks-XXXXXX");
  *state = f;
  return mkdtemp(f->dir) && chdir(f->dir) == 0 ? 0 : -1;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  char command[128];
  if (f->t.ops) ctxp_test_close(&f->t);
  ctxp_buf_deinit(&f->text);
  snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
  int r = chdir("/") == 0 && system(command) == 0 ? 0 : -1;
  free(f);
  return r;
}

static const char *content(struct fixture *f, const char *name) {
  char block[4096];
  size_t n;
  FILE *file = fopen(name, "r");
  ctxp_buf_reset(&f->text);
  if (!file) return "(no such file)";
  while ((n = fread(block, 1, sizeof(block), file)) > 0) ctxp_buf_add(&f->text, block, n);
  fclose(file);
  return ctxp_buf_cstr(&f->text);
}

static void write_to(const char *name, const char *text) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static struct ctxp_event turn_event(uint64_t turn) {
  struct ctxp_event ev = {.kind = CTXP_KIND_turn, .ts_ms = 1756534219000 + turn * 1000};
  ev.turn.turn = turn;
  ev.turn.bash = ev.turn.total = 10;
  ev.turn.cumulative = (struct ctxp_savings){.bash = 10 * turn, .total = 10 * turn};
  return ev;
}

static void push_turn(struct fixture *f, uint64_t turn) {
  struct ctxp_event ev = turn_event(turn);
  ctxp_test_push(&f->t, &ev);
}

static void push_turns(struct fixture *f, uint64_t from, uint64_t to) {
  for (uint64_t i = from; i <= to; i++) push_turn(f, i);
}

static unsigned lines_of(const char *text) {
  unsigned lines = 0;
  for (; *text; text++) lines += *text == '\n';
  return lines;
}

static void save(struct fixture *f) { assert_int_equal(ctxp_stage_save(f->t.stage), 0); }

static void options(struct fixture *f, const char *json) {
  ctxp_auto_buf map = {0};
  struct ctxp_error err;
  assert_int_equal(ctxp_json_to_raw(ctxp_str(json), &map, &err), 0);
  ctxp_test_options(&f->t, ctxp_buf_raw(&map), (struct ctxp_raw){0});
}

/* ---- sink-log ---- */
static void the_log_has_the_seeds_keys_first(void **state) {
  struct fixture *f = *state;
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  push_turn(f, 1);
  save(f);
  assert_string_equal(content(f, "events.jsonl"),
      "{\"ts\":\"2025-08-30T06:10:20.000Z\",\"kind\":\"turn\",\"turn\":1,\"bash\":10,\"amnesia\":0,\"lazy\":0,\"write\":0,\"total\":10,"
      "\"cumulative\":{\"bash\":10,\"amnesia\":0,\"lazy\":0,\"write\":0,\"total\":10},\"agent\":\"pi@test\",\"session\":\"s1\",\"thread\":"
      "\"\"}\n");
}

static void with_the_seeds_keys_nothing_is_added_and_potential_savings_stay_out(void **state) {
  struct fixture *f = *state;
  struct ctxp_event ev = {.kind = CTXP_KIND_bash, .ts_ms = 1756534219549};
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  options(f, "{\"keys\":\"seed\"}");
  ev.bash.toolCallId = CTXP_STR("c1");
  ev.bash.originalTokens = 9000;
  ev.bash.summaryTokens = 300;
  ev.bash.saved = 8700;
  ctxp_test_push(&f->t, &ev); /* not applied */
  ctxp_set(&ev.bash, bash, applied, true);
  ctxp_test_push(&f->t, &ev);
  save(f);
  assert_string_equal(content(f, "events.jsonl"),
      "{\"ts\":\"2025-08-30T06:10:19.549Z\",\"kind\":\"bash\",\"toolCallId\":\"c1\",\"command\":\"\",\"originalTokens\":9000,"
      "\"summaryTokens\":300,\"saved\":8700}\n");
}

static void lines_beyond_the_cursor_are_cut_after_a_crash(void **state) {
  struct fixture *f = *state;
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  push_turns(f, 1, 3);
  save(f);
  ctxp_auto_buf before = {0};
  ctxp_buf_str(&before, content(f, "events.jsonl"));
  FILE *file = fopen("events.jsonl", "a");
  assert_non_null(file);
  fputs("{\"written\":\"after the save\"}\n{\"tor", file);
  fclose(file);
  ctxp_test_crash(&f->t);
  assert_string_equal(content(f, "events.jsonl"), ctxp_buf_cstr(&before));
  push_turn(f, 4);
  save(f);
  assert_int_equal(lines_of(content(f, "events.jsonl")), 4);
}

static void a_file_that_was_emptied_goes_on_after_a_gap_line(void **state) {
  struct fixture *f = *state;
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  push_turns(f, 1, 3);
  save(f);
  content(f, "events.jsonl");
  uint64_t bytes = f->text.len;
  write_to("events.jsonl", "");
  push_turn(f, 4);
  save(f);
  char expect[200];
  snprintf(expect, sizeof(expect),
      "{\"ts\":\"2025-08-30T06:10:23.000Z\",\"kind\":\"gap\",\"agent\":\"\",\"session\":\"\",\"thread\":\"\",\"side\":\"stream\",\"count\":"
      "3,\"bytes\":%llu}\n",
      (unsigned long long)bytes);
  assert_memory_equal(content(f, "events.jsonl"), expect, strlen(expect));
  assert_int_equal(lines_of(content(f, "events.jsonl")), 2);
}

static void a_file_that_was_shortened_while_down_names_what_is_missing(void **state) {
  struct fixture *f = *state;
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  push_turns(f, 1, 3);
  save(f);
  content(f, "events.jsonl");
  size_t second = (size_t)(strchr(strchr(ctxp_buf_cstr(&f->text), '\n') + 1, '\n') - (char *)f->text.ptr) + 1;
  assert_int_equal(truncate("events.jsonl", (off_t)second + 5), 0);
  ctxp_test_crash(&f->t);
  push_turn(f, 4);
  save(f);
  const char *text = content(f, "events.jsonl");
  assert_int_equal(lines_of(text), 4);
  assert_non_null(strstr(text, "\"kind\":\"gap\",\"agent\":\"\",\"session\":\"\",\"thread\":\"\",\"side\":\"stream\",\"count\":1,"));
}

static void a_file_renamed_while_down_is_opened_anew_with_a_gap_line(void **state) {
  struct fixture *f = *state;
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  push_turns(f, 1, 2);
  save(f);
  assert_int_equal(rename("events.jsonl", "events.jsonl.1"), 0);
  ctxp_test_crash(&f->t);
  push_turn(f, 3);
  save(f);
  assert_int_equal(lines_of(content(f, "events.jsonl.1")), 2);
  assert_non_null(strstr(content(f, "events.jsonl"), "\"count\":2,"));
  assert_int_equal(lines_of(content(f, "events.jsonl")), 2);
}

static void a_reopen_after_a_rename_loses_nothing_and_says_no_gap(void **state) {
  struct fixture *f = *state;
  struct ctxp_error err;
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  push_turns(f, 1, 2);
  assert_int_equal(rename("events.jsonl", "events.jsonl.1"), 0);
  assert_int_equal(ctxp_stage_sink_log.reopen(f->t.stage, &err), 0);
  push_turn(f, 3);
  save(f);
  assert_int_equal(lines_of(content(f, "events.jsonl.1")), 2);
  assert_int_equal(lines_of(content(f, "events.jsonl")), 1);
  assert_null(strstr(content(f, "events.jsonl"), "gap"));
}

static void lines_that_stood_in_the_file_before_stay(void **state) {
  struct fixture *f = *state;
  write_to("events.jsonl", "somebody's line\n");
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  push_turn(f, 1);
  save(f);
  ctxp_test_crash(&f->t);
  assert_memory_equal(content(f, "events.jsonl"), "somebody's line\n{", 17);
  assert_int_equal(lines_of(content(f, "events.jsonl")), 2);
}

/* the parts' contents in a row */
static void all_parts(struct fixture *f, unsigned parts, struct ctxp_buf *out) {
  char name[40];
  for (unsigned i = 1; i <= parts + 1; i++) {
    if (i <= parts)
      snprintf(name, sizeof(name), "events-%06u.jsonl", i);
    else
      snprintf(name, sizeof(name), "events.jsonl");
    ctxp_buf_printf(out, "== %s\n%s", name, content(f, name));
  }
}

static void rotation_by_size_is_the_same_after_a_crash(void **state) {
  struct fixture *f = *state;
  ctxp_auto_buf once = {0}, twice = {0};
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  options(f, "{\"rotate_bytes\":500}");
  push_turns(f, 1, 4);
  save(f);
  push_turns(f, 5, 12);
  save(f);
  all_parts(f, 5, &once);
  assert_null(strstr(ctxp_buf_cstr(&once), "no such file"));
  ctxp_test_close(&f->t);
  assert_int_equal(system("rm -f events*"), 0);

  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  options(f, "{\"rotate_bytes\":500}");
  push_turns(f, 1, 4);
  save(f);
  push_turns(f, 5, 10);
  ctxp_test_crash(&f->t); /* the rotations of 5..10 are undone */
  options(f, "{\"rotate_bytes\":500}");
  push_turns(f, 5, 10);
  assert_int_equal(system("rm $(ls events-*.jsonl | tail -n 1)"), 0); /* as an undo leaves it that was cut off */
  ctxp_test_crash(&f->t);
  options(f, "{\"rotate_bytes\":500}");
  push_turns(f, 5, 12);
  save(f);
  all_parts(f, 5, &twice);
  assert_string_equal(ctxp_buf_cstr(&twice), ctxp_buf_cstr(&once));
}

static void a_part_whose_name_is_taken_is_not_written_over(void **state) {
  struct fixture *f = *state;
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  options(f, "{\"rotate_bytes\":500}");
  push_turns(f, 1, 1);
  save(f);
  write_to("events-000001.jsonl", "of somebody else\n");
  int r = 0;
  for (uint64_t turn = 2; r == 0 && turn < 20; turn++) {
    struct ctxp_event ev = turn_event(turn);
    r = ctxp_stage_deliver(f->t.stage, &ev);
  }
  assert_int_equal(r, -EEXIST);
  assert_string_equal(content(f, "events-000001.jsonl"), "of somebody else\n");
}

static void rotation_by_age_goes_by_the_events_times(void **state) {
  struct fixture *f = *state;
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  options(f, "{\"rotate_hours\":1}");
  push_turn(f, 1);
  push_turn(f, 3600);
  push_turn(f, 3601);
  save(f);
  assert_int_equal(lines_of(content(f, "events-000001.jsonl")), 2);
  assert_int_equal(lines_of(content(f, "events.jsonl")), 1);
}

static void old_parts_go_when_they_are_too_many(void **state) {
  struct fixture *f = *state;
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  options(f, "{\"rotate_bytes\":1,\"rotate_keep\":2}");
  for (uint64_t i = 1; i <= 6; i++) {
    push_turn(f, i);
    save(f);
  }
  save(f);
  assert_int_equal(access("events-000003.jsonl", F_OK), -1);
  assert_int_equal(access("events-000004.jsonl", F_OK), 0);
  assert_int_equal(access("events-000005.jsonl", F_OK), 0);
}

static void a_full_disk_is_an_error_and_nothing_is_lost(void **state) {
  struct fixture *f = *state;
  struct rlimit limit, before;
  signal(SIGXFSZ, SIG_IGN);
  ctxp_test_open(&f->t, &ctxp_stage_sink_log, "log");
  push_turns(f, 1, 20);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = (struct rlimit){1000, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  int failed = ctxp_stage_save(f->t.stage);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(failed, -EFBIG);
  save(f);
  const char *text = content(f, "events.jsonl");
  assert_int_equal(lines_of(text), 20);
  for (unsigned i = 1; i <= 20; i++) {
    char turn[32];
    snprintf(turn, sizeof(turn), "\"kind\":\"turn\",\"turn\":%u,", i);
    text = strstr(text, turn);
    assert_non_null(text);
  }
}

static int get_nothing(void *data, struct ctxp_raw key, struct ctxp_raw *ret_value) {
  (void)data;
  (void)key;
  (void)ret_value;
  return 1;
}

static void what_is_no_regular_file_is_refused_by_name(void **state) {
  struct ctxp_error err;
  struct ctxp_stage *stage;
  static const struct ctxp_host_ops empty = {.get = get_nothing};
  (void)state;
  assert_int_equal(mkfifo("events.jsonl", 0600), 0);
  assert_int_equal(ctxp_stage_new(&ctxp_stage_sink_log, "log", (struct ctxp_raw){0}, &empty, NULL, &stage, &err), 0);
  int r = ctxp_stage_open(stage, &err);
  ctxp_stage_free(stage);
  assert_int_equal(r, -EINVAL);
  assert_string_equal(err.text, "node 'log': 'events.jsonl' is not a regular file; name one in the option 'path'");
}

/* ---- sink-snapshot ---- */
static const char *only_file(char ret_name[300]) {
  DIR *list = opendir("snapshots");
  struct dirent *entry;
  ret_name[0] = 0;
  assert_non_null(list);
  while ((entry = readdir(list))) {
    if (entry->d_name[0] == '.' && (!entry->d_name[1] || strcmp(entry->d_name, "..") == 0)) continue;
    assert_string_equal(ret_name, ""); /* one only */
    snprintf(ret_name, 300, "snapshots/%s", entry->d_name);
  }
  closedir(list);
  return ret_name;
}

static void a_snapshot_holds_the_sums_and_the_last_40_turns(void **state) {
  struct fixture *f = *state;
  char name[300];
  ctxp_test_open(&f->t, &ctxp_stage_sink_snapshot, "snapshot");
  push_turns(f, 1, 45);
  save(f);
  const char *text = content(f, only_file(name));
  static const char head[] = "{\"schema\":1,\"seq\":45,\"agent\":\"pi@test\",\"session\":\"s1\",\"cumulative\":{\"bash\":450,\"amnesia\":0,"
                             "\"lazy\":0,\"write\":0,\"total\":450},"
                             "\"turns\":[{\"turn\":6,\"bash\":10,\"amnesia\":0,\"lazy\":0,\"write\":0,\"total\":10},";
  assert_memory_equal(text, head, sizeof(head) - 1);
  assert_non_null(
      strstr(text, "\"turnCount\":45,\"aux\":0,\"net\":450,\"carried\":0,\"restored\":false,\"ts\":\"2025-08-30T06:11:04.000Z\"}\n"));
}

static void a_snapshot_is_the_same_however_often_it_was_saved_and_opened(void **state) {
  struct fixture *f = *state;
  char name[300];
  ctxp_auto_buf once = {0};
  ctxp_test_open(&f->t, &ctxp_stage_sink_snapshot, "snapshot");
  push_turns(f, 1, 7);
  save(f);
  ctxp_buf_str(&once, content(f, only_file(name)));
  ctxp_test_close(&f->t);
  assert_int_equal(system("rm -r snapshots"), 0);
  ctxp_test_open(&f->t, &ctxp_stage_sink_snapshot, "snapshot");
  push_turns(f, 1, 3);
  ctxp_test_restart(&f->t);
  push_turns(f, 4, 5);
  save(f);
  push_turn(f, 6);
  f->t.seq = 5;
  ctxp_test_crash(&f->t); /* 6 was not saved and comes again */
  push_turns(f, 6, 7);
  save(f);
  assert_string_equal(content(f, only_file(name)), ctxp_buf_cstr(&once));
}

static void an_older_state_never_goes_over_a_newer_file(void **state) {
  struct fixture *f = *state;
  char name[300];
  ctxp_test_open(&f->t, &ctxp_stage_sink_snapshot, "snapshot");
  push_turns(f, 1, 3);
  save(f);
  write_to(only_file(name), "{\"schema\":1,\"seq\":9,\"the\":\"newer\"}\n"); /* written by a life whose commit was lost */
  push_turn(f, 4);
  save(f);
  assert_string_equal(content(f, name), "{\"schema\":1,\"seq\":9,\"the\":\"newer\"}\n");
  push_turns(f, 5, 9);
  save(f);
  assert_memory_equal(content(f, name), "{\"schema\":1,\"seq\":9,\"agent\"", 27);
}

static void a_file_from_before_the_store_began_gives_way(void **state) {
  struct fixture *f = *state;
  char name[300];
  ctxp_test_open(&f->t, &ctxp_stage_sink_snapshot, "snapshot");
  push_turns(f, 1, 3);
  save(f);
  ctxp_test_close(&f->t); /* and the store is gone */
  ctxp_test_open(&f->t, &ctxp_stage_sink_snapshot, "snapshot");
  push_turn(f, 1);
  save(f);
  assert_memory_equal(content(f, only_file(name)), "{\"schema\":1,\"seq\":1,", 20);
}

static void a_restored_session_goes_on_from_its_snapshot(void **state) {
  struct fixture *f = *state;
  char name[300];
  struct ctxp_event ev = {.kind = CTXP_KIND_restored};
  ctxp_auto_buf snapshot = {0};
  struct ctxp_error err;
  ctxp_test_open(&f->t, &ctxp_stage_sink_snapshot, "snapshot");
  assert_int_equal(ctxp_json_to_raw(CTXP_STR("{\"cumulative\":{\"bash\":1000,\"amnesia\":1,\"lazy\":2,\"write\":3,\"total\":1006},"
                                             "\"turns\":[{\"turn\":0,\"bash\":1000,\"amnesia\":1,\"lazy\":2,\"write\":3,\"total\":1006}]}"),
                       &snapshot, &err),
      0);
  ctxp_set(&ev.restored, restored, snapshot, ctxp_buf_raw(&snapshot));
  ctxp_test_push(&f->t, &ev);
  save(f);
  assert_string_equal(only_file(name), ""); /* no turn yet */
  push_turn(f, 1);
  save(f);
  assert_non_null(strstr(content(f, only_file(name)),
      "\"turns\":[{\"turn\":0,\"bash\":1000,\"amnesia\":1,\"lazy\":2,\"write\":3,\"total\":1006},{\"turn\":1,"));
  assert_non_null(strstr(content(f, name), "\"restored\":true"));
}

static void hostile_session_ids_stay_in_the_folder_and_apart(void **state) {
  struct fixture *f = *state;
  static const struct ctxp_str ids[] = {{"../../etc/passwd", 16}, {"..", 2}, {"a/b", 3}, {"a_b", 3}, {"a\0b", 3}, {"\x1b[31m", 5}};
  unsigned files = 0;
  ctxp_test_open(&f->t, &ctxp_stage_sink_snapshot, "snapshot");
  for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
    struct ctxp_event ev = {.kind = CTXP_KIND_turn, .session = ids[i]};
    ctxp_test_push(&f->t, &ev);
  }
  ctxp_test_restart(&f->t);
  for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) { /* and are found again in the store */
    struct ctxp_event ev = {.kind = CTXP_KIND_turn, .session = ids[i]};
    ctxp_test_push(&f->t, &ev);
  }
  save(f);
  DIR *list = opendir("snapshots");
  struct dirent *entry;
  while ((entry = readdir(list))) {
    if (entry->d_name[0] == '.') continue;
    char name[300];
    snprintf(name, sizeof(name), "snapshots/%s", entry->d_name);
    assert_non_null(strstr(content(f, name), "\"turnCount\":2,"));
    files++;
  }
  closedir(list);
  assert_int_equal(files, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(the_log_has_the_seeds_keys_first),
      TEST(with_the_seeds_keys_nothing_is_added_and_potential_savings_stay_out),
      TEST(lines_beyond_the_cursor_are_cut_after_a_crash),
      TEST(a_file_that_was_emptied_goes_on_after_a_gap_line),
      TEST(a_file_that_was_shortened_while_down_names_what_is_missing),
      TEST(a_file_renamed_while_down_is_opened_anew_with_a_gap_line),
      TEST(a_reopen_after_a_rename_loses_nothing_and_says_no_gap),
      TEST(lines_that_stood_in_the_file_before_stay),
      TEST(rotation_by_size_is_the_same_after_a_crash),
      TEST(a_part_whose_name_is_taken_is_not_written_over),
      TEST(rotation_by_age_goes_by_the_events_times),
      TEST(old_parts_go_when_they_are_too_many),
      TEST(a_full_disk_is_an_error_and_nothing_is_lost),
      TEST(what_is_no_regular_file_is_refused_by_name),
      TEST(a_snapshot_holds_the_sums_and_the_last_40_turns),
      TEST(a_snapshot_is_the_same_however_often_it_was_saved_and_opened),
      TEST(an_older_state_never_goes_over_a_newer_file),
      TEST(a_file_from_before_the_store_began_gives_way),
      TEST(a_restored_session_goes_on_from_its_snapshot),
      TEST(hostile_session_ids_stay_in_the_folder_and_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
