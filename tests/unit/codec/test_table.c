/* Properties of the codec that hold for every kind of the table, made from the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "support/fail_alloc.h"

/* xorshift64: the same numbers in every run */
static uint64_t next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void put_record(struct ctxp_buf *out, const struct ctxp_shape *shape, uint64_t *seed, bool all);

static void put_list(struct ctxp_buf *out, const struct ctxp_field *field, uint64_t *seed, bool all) {
  uint32_t count = (uint32_t)(next(seed) % 4);
  ctxp_pack_array(out, count);
  for (uint32_t i = 0; i < count; i++) {
    if (field->type == CTXP_TYPE_STRS)
      ctxp_pack_cstr(out, "id");
    else
      put_record(out, field->shape, seed, all);
  }
}

static void put_raw(struct ctxp_buf *out, uint64_t *seed) {
  ctxp_pack_map(out, 3);
  ctxp_pack_cstr(out, "n");
  ctxp_pack_i64(out, (int64_t)next(seed));
  ctxp_pack_cstr(out, "list");
  ctxp_pack_array(out, 2);
  ctxp_pack_bool(out, true);
  ctxp_pack_nil(out);
  ctxp_pack_cstr(out, "f");
  ctxp_pack_f64(out, (double)(next(seed) % 1000) + 0.0625); /* a whole one reads back as a whole number */
}

static void put_value(struct ctxp_buf *out, const struct ctxp_field *field, uint64_t *seed, bool all) {
  static const char *const texts[] = {"", "plain", "\xc3\xa4 \xf0\x9d\x84\x9e", "quote \" back \\ line\n", "\x01\x7f"};
  switch (field->type) {
  case CTXP_TYPE_STR: ctxp_pack_cstr(out, texts[next(seed) % 5]); break;
  case CTXP_TYPE_U64:
  case CTXP_TYPE_TIME: ctxp_pack_u64(out, next(seed) >> next(seed) % 64); break;
  case CTXP_TYPE_I64:
  case CTXP_TYPE_NANO: ctxp_pack_i64(out, (int64_t)next(seed) >> next(seed) % 64); break;
  case CTXP_TYPE_BOOL: ctxp_pack_bool(out, next(seed) & 1); break;
  case CTXP_TYPE_ENUM: ctxp_pack_cstr(out, field->names->wire[next(seed) % field->names->count]); break;
  case CTXP_TYPE_REC: put_record(out, field->shape, seed, all); break;
  case CTXP_TYPE_LIST:
  case CTXP_TYPE_STRS: put_list(out, field, seed, all); break;
  case CTXP_TYPE_RAW: put_raw(out, seed); break;
  }
}

static uint32_t put_fields(struct ctxp_buf *out, const struct ctxp_shape *shape, uint64_t *seed, bool all) {
  uint32_t count = 0;
  for (unsigned i = 0; i < shape->count; i++) {
    bool required = shape->required >> i & 1;
    if (!required && !all && next(seed) & 1) continue;
    ctxp_pack_cstr(out, shape->fields[i].name);
    put_value(out, &shape->fields[i], seed, all);
    count++;
  }
  return count;
}

static void put_record(struct ctxp_buf *out, const struct ctxp_shape *shape, uint64_t *seed, bool all) {
  size_t mark = ctxp_pack_map_open(out);
  ctxp_pack_close(out, mark, put_fields(out, shape, seed, all));
}

static void put_event(struct ctxp_buf *out, enum ctxp_kind kind, uint64_t *seed, bool all) {
  size_t mark = ctxp_pack_map_open(out);
  ctxp_pack_cstr(out, "kind");
  ctxp_pack_cstr(out, ctxp_kind_info(kind)->name);
  ctxp_pack_cstr(out, "session");
  ctxp_pack_cstr(out, "s1");
  ctxp_pack_close(out, mark, 2 + put_fields(out, ctxp_kind_info(kind)->shape, seed, all));
}

/* decodes, encodes, and again: the second bytes are the first */
static void settles(const struct ctxp_buf *body) {
  struct ctxp_event event, again;
  struct ctxp_fault fault;
  struct ctxp_buf first = {0}, second = {0};
  assert_int_equal(ctxp_event_decode(body->ptr, body->len, &event, NULL, &fault), 0);
  assert_int_equal(ctxp_event_encode(&event, &first), 0);
  assert_int_equal(ctxp_event_decode(first.ptr, first.len, &again, NULL, &fault), 0);
  assert_int_equal(ctxp_event_encode(&again, &second), 0);
  assert_int_equal(first.len, second.len);
  assert_memory_equal(first.ptr, second.ptr, first.len);
  ctxp_buf_deinit(&first);
  ctxp_buf_deinit(&second);
}

static void every_kind_survives_encode_and_decode(void **state) {
  (void)state;
  uint64_t seed = 42;
  unsigned kinds = 0;
  for (unsigned k = 0; k < CTXP_KIND_MAX; k++) {
    if (!ctxp_kind_info((enum ctxp_kind)k)) continue;
    kinds++;
    assert_int_equal(ctxp_kind_parse(ctxp_str(ctxp_kind_info((enum ctxp_kind)k)->name)), k);
    for (int round = 0; round < 50; round++) {
      struct ctxp_buf body = {0};
      put_event(&body, (enum ctxp_kind)k, &seed, round == 0);
      settles(&body);
      ctxp_buf_deinit(&body);
    }
  }
  assert_true(kinds >= 28);
}

static void every_kind_prints_as_json_that_reads_back_as_the_same_event(void **state) {
  (void)state;
  uint64_t seed = 43;
  for (unsigned k = 0; k < CTXP_KIND_MAX; k++) {
    if (!ctxp_kind_info((enum ctxp_kind)k)) continue;
    struct ctxp_buf body = {0}, line = {0}, read = {0}, again = {0};
    struct ctxp_event event, back;
    struct ctxp_error err;
    put_event(&body, (enum ctxp_kind)k, &seed, true);
    assert_int_equal(ctxp_event_decode(body.ptr, body.len, &event, NULL, NULL), 0);
    event.ts_ms = 1756534219549;
    assert_int_equal(ctxp_json_from_event(&event, false, &line), 0);
    if (ctxp_json_to_event(ctxp_buf_view(&line), &read, &err) < 0) fail_msg("%s: %s", ctxp_buf_cstr(&line), err.text);
    assert_int_equal(ctxp_event_decode(read.ptr, read.len, &back, NULL, NULL), 0);
    assert_int_equal(ctxp_json_from_event(&back, false, &again), 0);
    assert_string_equal(ctxp_buf_cstr(&again), ctxp_buf_cstr(&line));
    struct ctxp_buf *all[] = {&body, &line, &read, &again};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) ctxp_buf_deinit(all[i]);
  }
}

static void a_body_that_ends_early_is_refused_wherever_it_ends(void **state) {
  (void)state;
  uint64_t seed = 44;
  for (unsigned k = 0; k < CTXP_KIND_MAX; k++) {
    if (!ctxp_kind_info((enum ctxp_kind)k)) continue;
    struct ctxp_buf body = {0};
    put_event(&body, (enum ctxp_kind)k, &seed, true);
    for (size_t len = 0; len < body.len; len++) {
      struct ctxp_event event;
      uint8_t *cut = malloc(len ? len : 1); /* of its own size, so that a read beyond it is seen */
      assert_non_null(cut);
      memcpy(cut, body.ptr, len);
      assert_int_equal(ctxp_event_decode(cut, len, &event, NULL, NULL), -EBADMSG);
      free(cut);
    }
    ctxp_buf_deinit(&body);
  }
}

static void a_required_field_that_is_missing_is_named(void **state) {
  (void)state;
  for (unsigned k = 0; k < CTXP_KIND_MAX; k++) {
    const struct ctxp_kind_info *info = ctxp_kind_info((enum ctxp_kind)k);
    if (!info || !info->shape->required) continue;
    struct ctxp_buf body = {0};
    struct ctxp_event event;
    struct ctxp_fault fault;
    ctxp_pack_map(&body, 1);
    ctxp_pack_cstr(&body, "kind");
    ctxp_pack_cstr(&body, info->name);
    assert_int_equal(ctxp_event_decode(body.ptr, body.len, &event, NULL, &fault), -EBADMSG);
    assert_string_equal(fault.reason, "is required");
    assert_string_equal(fault.field, info->shape->fields[__builtin_ctzll(info->shape->required)].name);
    ctxp_buf_deinit(&body);
  }
}

static void damaged_bodies_are_refused_or_settle(void **state) {
  (void)state;
  uint64_t seed = 45;
  unsigned accepted = 0, refused = 0;
  for (int round = 0; round < 20000; round++) {
    struct ctxp_buf body = {0};
    enum ctxp_kind kind = (enum ctxp_kind)(next(&seed) % CTXP_KIND_MAX);
    if (!ctxp_kind_info(kind)) continue;
    put_event(&body, kind, &seed, false);
    for (unsigned hits = (unsigned)(next(&seed) % 3) + 1; hits; hits--)
      body.ptr[next(&seed) % body.len] ^= (uint8_t)(1u << next(&seed) % 8);
    struct ctxp_event event;
    struct ctxp_fault fault = {{0}, {0}};
    if (ctxp_event_decode(body.ptr, body.len, &event, NULL, &fault) == 0) {
      settles(&body);
      accepted++;
    } else {
      assert_true(fault.reason[0]);
      refused++;
    }
    ctxp_buf_deinit(&body);
  }
  assert_true(accepted > 100 && refused > 100);
}

static void an_encoder_without_memory_says_so_whichever_allocation_fails(void **state) {
  (void)state;
  uint64_t seed = 46;
  struct ctxp_buf body = {0};
  struct ctxp_event event;
  put_event(&body, CTXP_KIND_spend, &seed, true);
  assert_int_equal(ctxp_event_decode(body.ptr, body.len, &event, NULL, NULL), 0);
  for (unsigned n = 1;; n++) {
    struct ctxp_buf out = {0}, line = {0};
    fail_alloc_at(n);
    int encoded = ctxp_event_encode(&event, &out), printed = ctxp_json_from_event(&event, false, &line);
    bool happened = fail_alloc_happened();
    fail_alloc_at(0);
    ctxp_buf_deinit(&out);
    ctxp_buf_deinit(&line);
    if (!happened) {
      assert_true(n > 2 && encoded == 0 && printed == 0);
      break;
    }
    assert_true(encoded == -ENOMEM || printed == -ENOMEM);
  }
  ctxp_buf_deinit(&body);
}

static void whole_numbers_keep_their_value_whatever_their_form(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t len;
    int64_t value;
  } forms[] = {
      {"\x00", 1, 0},
      {"\x7f", 1, 127},
      {"\xff", 1, -1},
      {"\xe0", 1, -32},
      {"\xcc\xff", 2, 255},
      {"\xcd\xff\xff", 3, 65535},
      {"\xce\xff\xff\xff\xff", 5, 4294967295},
      {"\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", 9, INT64_MAX},
      {"\xd0\x80", 2, -128},
      {"\xd0\x7f", 2, 127},
      {"\xd1\x80\x00", 3, -32768},
      {"\xd1\xff\xff", 3, -1},
      {"\xd2\x80\x00\x00\x00", 5, INT32_MIN},
      {"\xd2\x7f\xff\xff\xff", 5, INT32_MAX},
      {"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", 9, INT64_MIN},
      {"\xd3\xff\xff\xff\xff\xff\xff\xff\xfe", 9, -2},
  };
  for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
    struct ctxp_pack_value v;
    struct ctxp_cursor c = ctxp_cursor((struct ctxp_raw){(const uint8_t *)forms[i].bytes, forms[i].len});
    assert_int_equal(ctxp_cursor_next(&c, &v), 0);
    assert_int_equal(v.type, forms[i].value < 0 ? CTXP_PACK_I64 : CTXP_PACK_U64);
    assert_int_equal(v.i, forms[i].value);
    assert_ptr_equal(c.at, c.end);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_survives_encode_and_decode),
      cmocka_unit_test(every_kind_prints_as_json_that_reads_back_as_the_same_event),
      cmocka_unit_test(a_body_that_ends_early_is_refused_wherever_it_ends),
      cmocka_unit_test(a_required_field_that_is_missing_is_named),
      cmocka_unit_test(damaged_bodies_are_refused_or_settle),
      cmocka_unit_test(an_encoder_without_memory_says_so_whichever_allocation_fails),
      cmocka_unit_test(whole_numbers_keep_their_value_whatever_their_form),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
