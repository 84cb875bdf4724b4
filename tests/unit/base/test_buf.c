#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/str.h"
#include "ctxpipe/error.h"
#include "ctxpipe/log.h"
#include "support/fail_alloc.h"

/* about 3 KiB, which the buffer grows for several times */
static void fill(struct ctxp_buf *buf) {
  for (int i = 0; i < 100; i++) {
    ctxp_buf_str(buf, "some text ");
    ctxp_buf_char(buf, 'x');
    ctxp_buf_printf(buf, "%05d", i);
    ctxp_buf_add(buf, "", 0);
  }
}

static void a_buffer_holds_what_was_appended(void **state) {
  (void)state;
  struct ctxp_buf buf = {0};
  fill(&buf);
  assert_int_equal(ctxp_buf_error(&buf), 0);
  assert_int_equal(buf.len, 1600);
  assert_memory_equal(buf.ptr + 1584, "some text x00099", 16);
  assert_int_equal(strlen(ctxp_buf_cstr(&buf)), 1600);
  assert_int_equal(buf.len, 1600); /* the NUL is not counted */
  ctxp_buf_reset(&buf);
  assert_string_equal(ctxp_buf_cstr(&buf), "");
  ctxp_buf_deinit(&buf);
  assert_null(buf.ptr);
}

static void a_failed_allocation_sticks_whichever_it_is(void **state) {
  (void)state;
  unsigned n = 1;
  for (;; n++) {
    struct ctxp_buf buf = {0};
    fail_alloc_at(n);
    fill(&buf);
    bool happened = fail_alloc_happened();
    fail_alloc_at(0);
    size_t len = buf.len;
    if (happened) {
      assert_int_equal(ctxp_buf_error(&buf), -ENOMEM);
      assert_string_equal(ctxp_buf_cstr(&buf), "");
      ctxp_buf_str(&buf, "more");
      assert_int_equal(buf.len, len);
    }
    ctxp_buf_deinit(&buf);
    if (!happened) {
      assert_int_equal(len, 1600);
      break;
    }
  }
  assert_true(n > 3);
}

static void room_beyond_the_address_space_is_refused(void **state) {
  (void)state;
  struct ctxp_buf buf = {0};
  ctxp_buf_str(&buf, "x");
  assert_null(ctxp_buf_room(&buf, SIZE_MAX));
  assert_true(buf.failed);
  ctxp_buf_deinit(&buf);
}

static void a_sentence_is_cut_at_a_character(void **state) {
  (void)state;
  struct ctxp_error err;
  char text[CTXP_ERROR_MAX + 8];
  for (size_t before = CTXP_ERROR_MAX - 6; before < CTXP_ERROR_MAX + 2; before++) {
    memset(text, 'x', before);
    strcpy(text + before, "\xf0\x9d\x84\x9e");
    assert_int_equal(ctxp_error_set(&err, -EINVAL, "%s", text), -EINVAL);
    assert_true(ctxp_utf8_valid(ctxp_str(err.text)));
    size_t whole = before + 4 < CTXP_ERROR_MAX ? before + 4 : before < CTXP_ERROR_MAX ? before :
                                                                                        CTXP_ERROR_MAX - 1;
    assert_int_equal(strlen(err.text), whole);
  }
  assert_int_equal(ctxp_error_set(NULL, -ENOENT, "%d", 1), -ENOENT);
}

/* what one call of ctxp_log writes to standard error */
static const char *logged(enum ctxp_level level, const char *text, struct ctxp_buf *out) {
  int ends[2], saved = dup(STDERR_FILENO);
  assert_int_equal(pipe(ends), 0);
  dup2(ends[1], STDERR_FILENO);
  ctxp_log(level, "topic", "%s", text);
  dup2(saved, STDERR_FILENO);
  close(ends[1]);
  close(saved);
  ctxp_buf_reset(out);
  uint8_t *room = ctxp_buf_room(out, 8192);
  assert_non_null(room);
  ssize_t got = read(ends[0], room, 8191);
  close(ends[0]);
  assert_true(got >= 0);
  out->len = (size_t)got;
  return ctxp_buf_cstr(out);
}

static void a_log_line_is_one_line_with_time_level_node_and_topic(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  ctxp_log_set("fold", CTXP_LOG_INFO);
  const char *line = logged(CTXP_LOG_WARN, "two\nlines", &out);
  assert_int_equal(strlen(line), 24 + sizeof(" warn fold topic: two lines\n") - 1);
  assert_string_equal(line + 24, " warn fold topic: two lines\n");
  assert_string_equal(logged(CTXP_LOG_DEBUG, "not shown", &out), "");
  ctxp_log_set("fold", CTXP_LOG_DEBUG);
  assert_int_equal(ctxp_log_level(), CTXP_LOG_DEBUG);
  assert_string_equal(logged(CTXP_LOG_DEBUG, "shown", &out) + 24, " debug fold topic: shown\n");
  ctxp_log_set("ctxpipe", CTXP_LOG_INFO);
}

static void a_log_line_that_is_too_long_is_cut_and_still_ends(void **state) {
  (void)state;
  ctxp_auto_buf out = {0};
  char text[5000];
  memset(text, 'y', sizeof(text));
  text[sizeof(text) - 1] = 0;
  const char *line = logged(CTXP_LOG_ERROR, text, &out);
  size_t len = strlen(line);
  assert_true(len < 4096 && len > 1024);
  assert_int_equal(line[len - 1], '\n');
  assert_int_equal(line[len - 2], 'y');
}

static void hashes_depend_on_every_byte_and_stay_what_they_were(void **state) {
  (void)state;
  char hex[CTXP_HASH_HEX];
  ctxp_hash128_hex(ctxp_hash128("", 0), hex);
  assert_string_equal(hex, "99aa06d3014798d86001c324468d497f"); /* XXH3_128 of nothing, as its authors publish it */
  assert_int_equal(ctxp_hash64("", 0, 0), UINT64_C(0x2d06800538d394c2));
  assert_true(ctxp_hash64("a", 1, 0) != ctxp_hash64("b", 1, 0));
  assert_true(ctxp_hash64("a", 1, 0) != ctxp_hash64("a", 1, 1));
}

struct item {
  int key;
  UT_hash_handle hh;
};

static void a_map_that_cannot_grow_says_so_and_keeps_what_it_had(void **state) {
  (void)state;
  struct item items[64], *table = NULL, *found;
  unsigned kept = 0;
  for (int i = 0; i < 64; i++) {
    items[i] = (struct item){.key = i};
    ctxp_map_failed = false;
    fail_alloc_at(i == 0 ? 0 : 1); /* the first makes the table, any later allocation fails */
    struct item *item = &items[i];
    HASH_ADD_INT(table, key, item);
    fail_alloc_at(0);
    if (ctxp_map_failed) continue;
    kept++;
  }
  assert_int_equal(HASH_COUNT(table), kept);
  for (int i = 0; i < 64; i++) {
    HASH_FIND_INT(table, &i, found);
    if (found) assert_int_equal(found->key, i);
  }
  HASH_CLEAR(hh, table);
}

static void descriptors_and_memory_are_released_on_leaving_and_can_be_handed_over(void **state) {
  (void)state;
  int fd;
  char *kept;
  {
    ctxp_auto_close int own = dup(STDIN_FILENO);
    ctxp_auto_free char *text = strdup("x");
    fd = own;
    kept = ctxp_steal(&text);
    assert_null(text);
  }
  assert_int_equal(write(fd, "", 0), -1);
  assert_int_equal(errno, EBADF);
  assert_string_equal(kept, "x");
  free(kept);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_buffer_holds_what_was_appended),
      cmocka_unit_test(a_failed_allocation_sticks_whichever_it_is),
      cmocka_unit_test(room_beyond_the_address_space_is_refused),
      cmocka_unit_test(a_sentence_is_cut_at_a_character),
      cmocka_unit_test(a_log_line_is_one_line_with_time_level_node_and_topic),
      cmocka_unit_test(a_log_line_that_is_too_long_is_cut_and_still_ends),
      cmocka_unit_test(hashes_depend_on_every_byte_and_stay_what_they_were),
      cmocka_unit_test(a_map_that_cannot_grow_says_so_and_keeps_what_it_had),
      cmocka_unit_test(descriptors_and_memory_are_released_on_leaving_and_can_be_handed_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
