#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bus_test.h"

static struct bus_dir dir;
static struct ctxp_store *store;
static struct ctxp_error err;

static int setup(void **state) {
  (void)state;
  bus_dir_make(&dir);
  store = NULL;
  err.text[0] = 0;
  return 0;
}
static int teardown(void **state) {
  (void)state;
  store = ctxp_store_free(store);
  bus_dir_remove(&dir);
  return 0;
}

static int open_it(bool power, bool read_only) {
  struct ctxp_store_options options = {.max_bytes = 1 << 20, .power = power, .read_only = read_only};
  return ctxp_store_open(dir.path, &options, &store, &err);
}
static struct ctxp_raw raw(const char *text) { return (struct ctxp_raw){(const uint8_t *)text, strlen(text)}; }

static void put(const char *key, const char *value) {
  assert_int_equal(ctxp_store_put(store, CTXP_DB_STATE, raw(key), raw(value), &err), 0);
}
static const char *get(const char *key, struct ctxp_buf *out) {
  int r = ctxp_store_get(store, CTXP_DB_STATE, raw(key), out, &err);
  assert_true(r >= 0);
  return r == 1 ? NULL : ctxp_buf_cstr(out);
}

static void what_is_committed_is_there_after_a_reopen_and_what_is_not_is_gone(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  assert_int_equal(open_it(true, false), 0);
  put("a", "1");
  put("b", "2");
  assert_int_equal(ctxp_store_commit(store, &err), 0);
  put("a", "other");
  assert_string_equal(get("a", &out), "other");
  store = ctxp_store_free(store);
  assert_int_equal(open_it(true, false), 0);
  assert_string_equal(get("a", &out), "1");
  assert_string_equal(get("b", &out), "2");
  assert_null(get("c", &out));
}

static void an_aborted_transaction_leaves_nothing(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  assert_int_equal(open_it(false, false), 0);
  put("a", "1");
  ctxp_store_abort(store);
  assert_null(get("a", &out));
}

static int collect(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  struct ctxp_buf *out = data;
  ctxp_buf_add(out, key.ptr, key.len);
  ctxp_buf_char(out, '=');
  ctxp_buf_add(out, value.ptr, value.len);
  ctxp_buf_char(out, ' ');
  return ctxp_store_del(store, CTXP_DB_STATE, key, &err); /* a visitor may change what it visits */
}

static void each_visits_a_prefix_in_order_and_may_change_it(void **state) {
  (void)state;
  ctxp_auto_buf out = {0}, value = {0};
  assert_int_equal(open_it(false, false), 0);
  put("w/2", "b");
  put("w/1", "a");
  put("v", "x");
  put("w/3", "c");
  put("x", "y");
  assert_int_equal(ctxp_store_each(store, CTXP_DB_STATE, raw("w/"), collect, &out, &err), 0);
  assert_string_equal(ctxp_buf_cstr(&out), "w/1=a w/2=b w/3=c ");
  assert_null(get("w/2", &value));
  assert_string_equal(get("v", &value), "x");
}

static void a_second_opener_is_told_who_has_it(void **state) {
  (void)state;
  struct ctxp_store *second = NULL;
  struct ctxp_store_options options = {.max_bytes = 1 << 20};
  char expected[200];
  assert_int_equal(open_it(true, false), 0);
  assert_int_equal(ctxp_store_open(dir.path, &options, &second, &err), -EWOULDBLOCK);
  snprintf(expected, sizeof(expected),
      "%s is in use by another process, pid %d; stop that one first (ctxpipe down), or name another state_dir", dir.path, (int)getpid());
  assert_string_equal(err.text, expected);
}

static void path_of(char *out, size_t size) { snprintf(out, size, "%s/data.mdb", dir.path); }

static void a_file_that_was_cut_is_refused_in_a_sentence(void **state) {
  (void)state;
  char path[100], value[3000];
  memset(value, 'v', sizeof(value));
  value[sizeof(value) - 1] = 0;
  path_of(path, sizeof(path));
  assert_int_equal(open_it(true, false), 0);
  for (int i = 0; i < 2000; i++) {
    char key[16];
    snprintf(key, sizeof(key), "key%06d", i);
    put(key, value);
  }
  assert_int_equal(ctxp_store_commit(store, &err), 0);
  store = ctxp_store_free(store);
  const off_t lengths[] = {5000000, 1 << 20, 8192, 8191, 4096, 100};
  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    assert_int_equal(truncate(path, lengths[i]), 0);
    err.text[0] = 0;
    assert_int_equal(open_it(true, false), -EBADMSG);
    assert_non_null(strstr(err.text, "was cut: it has "));
    assert_non_null(strstr(err.text, path));
  }
}

static void a_file_with_room_at_its_end_cut_off_still_opens(void **state) {
  (void)state;
  char path[100];
  struct stat st;
  ctxp_auto_buf out = {0};
  path_of(path, sizeof(path));
  assert_int_equal(open_it(true, false), 0);
  put("a", "1");
  assert_int_equal(ctxp_store_commit(store, &err), 0);
  store = ctxp_store_free(store);
  assert_int_equal(stat(path, &st), 0);
  assert_true(st.st_size >= 16 << 20); /* sparse: ahead of need */
  assert_true(st.st_blocks * 512 < 1 << 20);
  assert_int_equal(truncate(path, 1 << 20), 0);
  assert_int_equal(open_it(true, false), 0);
  assert_string_equal(get("a", &out), "1");
}

static void a_file_that_is_none_of_ours_is_refused_in_a_sentence(void **state) {
  (void)state;
  char path[100];
  path_of(path, sizeof(path));
  FILE *file = fopen(path, "w");
  for (int i = 0; i < 20000; i++) fputc('x', file);
  fclose(file);
  assert_int_equal(open_it(true, false), -EBADMSG);
  assert_non_null(strstr(err.text, "is damaged"));
}

static void a_damaged_value_is_named(void **state) {
  (void)state;
  char path[100];
  static char bytes[1 << 20];
  ctxp_auto_buf out = {0};
  path_of(path, sizeof(path));
  assert_int_equal(open_it(true, false), 0);
  put("key", "a value to be damaged");
  assert_int_equal(ctxp_store_commit(store, &err), 0);
  store = ctxp_store_free(store);
  int fd = open(path, O_RDWR);
  ssize_t len = pread(fd, bytes, sizeof(bytes), 0);
  assert_true(len > 0);
  char *at = memmem(bytes, (size_t)len, "a value to be", 13);
  assert_non_null(at);
  assert_int_equal(pwrite(fd, "A", 1, at - bytes), 1);
  close(fd);
  assert_int_equal(open_it(true, false), 0);
  assert_int_equal(ctxp_store_get(store, CTXP_DB_STATE, raw("key"), &out, &err), -EBADMSG);
  assert_non_null(strstr(err.text, "a record of 'state' does not have its checksum"));
}

static void a_directory_that_may_not_be_written_is_named(void **state) {
  (void)state;
  if (geteuid() == 0) { /* root may write everywhere; a file in the place of the directory is refused for everybody */
    bus_dir_remove(&dir);
    FILE *file = fopen(dir.path, "w");
    fclose(file);
    assert_int_equal(open_it(true, false), -ENOTDIR);
    assert_non_null(strstr(err.text, "is not a directory"));
    return;
  }
  assert_int_equal(chmod(dir.path, 0500), 0);
  assert_int_equal(open_it(true, false), -EACCES);
  assert_non_null(strstr(err.text, dir.path));
  assert_int_equal(chmod(dir.path, 0700), 0);
}

static void a_full_disk_is_an_error_and_what_was_committed_stays(void **state) {
  (void)state;
  struct rlimit before, limit;
  static char value[200000];
  ctxp_auto_buf out = {0};
  memset(value, 'v', sizeof(value) - 1);
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(open_it(false, false), 0);
  put("a", "1");
  assert_int_equal(ctxp_store_commit(store, &err), 0);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = 1 << 20;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  int r = 0;
  for (int i = 0; i < 20 && r == 0; i++) {
    char key[16];
    snprintf(key, sizeof(key), "big%d", i);
    put(key, value);
    r = ctxp_store_commit(store, &err);
  }
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_true(r < 0);
  assert_non_null(strstr(err.text, dir.path));
  assert_int_equal(r, -EFBIG); /* a write that the limit cut short is no broken disk */
  assert_non_null(strstr(err.text, "limit of file size"));
  store = ctxp_store_free(store);
  assert_int_equal(open_it(false, false), 0);
  assert_string_equal(get("a", &out), "1");
}

static void a_store_that_is_opened_to_read_makes_nothing(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  assert_int_equal(open_it(true, true), -ENOENT);
  assert_int_equal(open_it(true, false), 0);
  put("a", "1");
  assert_int_equal(ctxp_store_commit(store, &err), 0);
  store = ctxp_store_free(store);
  assert_int_equal(open_it(true, true), 0);
  assert_string_equal(get("a", &out), "1");
  assert_int_equal(ctxp_store_put(store, CTXP_DB_STATE, raw("a"), raw("2"), &err), -EACCES);
}

static void without_power_safety_a_commit_is_synced_once_a_second(void **state) {
  (void)state;
  uint64_t next;
  assert_int_equal(open_it(false, false), 0);
  assert_int_equal(ctxp_store_tick(store, 5000, &next, &err), 0);
  assert_true(next == UINT64_MAX);
  put("a", "1");
  assert_int_equal(ctxp_store_commit(store, &err), 0);
  assert_int_equal(ctxp_store_tick(store, 5000, &next, &err), 0);
  put("a", "2");
  assert_int_equal(ctxp_store_commit(store, &err), 0);
  assert_int_equal(ctxp_store_tick(store, 5500, &next, &err), 0);
  assert_int_equal(next, 6000);
  assert_int_equal(ctxp_store_tick(store, 6000, &next, &err), 0);
  assert_true(next == UINT64_MAX);
}

static void a_fleeting_store_has_nothing_to_sync(void **state) {
  (void)state;
  uint64_t next;
  struct ctxp_store_options options = {.max_bytes = 1 << 20, .power = true, .fleeting = true};
  assert_int_equal(ctxp_store_open(dir.path, &options, &store, &err), 0);
  put("a", "1");
  assert_int_equal(ctxp_store_commit(store, &err), 0);
  assert_int_equal(ctxp_store_tick(store, 5000, &next, &err), 0);
  assert_true(next == UINT64_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_is_committed_is_there_after_a_reopen_and_what_is_not_is_gone, setup, teardown),
      cmocka_unit_test_setup_teardown(an_aborted_transaction_leaves_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(each_visits_a_prefix_in_order_and_may_change_it, setup, teardown),
      cmocka_unit_test_setup_teardown(a_second_opener_is_told_who_has_it, setup, teardown),
      cmocka_unit_test_setup_teardown(a_file_that_was_cut_is_refused_in_a_sentence, setup, teardown),
      cmocka_unit_test_setup_teardown(a_file_with_room_at_its_end_cut_off_still_opens, setup, teardown),
      cmocka_unit_test_setup_teardown(a_file_that_is_none_of_ours_is_refused_in_a_sentence, setup, teardown),
      cmocka_unit_test_setup_teardown(a_damaged_value_is_named, setup, teardown),
      cmocka_unit_test_setup_teardown(a_directory_that_may_not_be_written_is_named, setup, teardown),
      cmocka_unit_test_setup_teardown(a_full_disk_is_an_error_and_what_was_committed_stays, setup, teardown),
      cmocka_unit_test_setup_teardown(a_store_that_is_opened_to_read_makes_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(a_fleeting_store_has_nothing_to_sync, setup, teardown),
      cmocka_unit_test_setup_teardown(without_power_safety_a_commit_is_synced_once_a_second, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
