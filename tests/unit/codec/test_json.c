#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/cleanup.h"
#include "codec/json.h"
#include "codec/json_read.h"
#include "codec/msgpack.h"

static void assert_str(struct ctxp_str got, const char *expected) {
  ctxp_auto_buf text = {0};
  ctxp_buf_add(&text, got.ptr, got.len);
  assert_string_equal(ctxp_buf_cstr(&text), expected);
}

/* text -> MessagePack -> text */
static void assert_comes_back_as(struct ctxp_str text, const char *expected) {
  ctxp_auto_buf raw = {0}, out = {0};
  struct ctxp_error err = {""};
  if (ctxp_json_to_raw(text, &raw, &err) < 0) fail_msg("%s: %s", text.ptr, err.text);
  assert_int_equal(ctxp_pack_check(ctxp_buf_raw(&raw)), 0);
  assert_int_equal(ctxp_json_from_raw(ctxp_buf_raw(&raw), &out), 0);
  assert_string_equal(ctxp_buf_cstr(&out), expected);
}

static void values_come_back_as_they_were(void **state) {
  (void)state;
  static const struct {
    const char *in, *out;
  } cases[] = {
      {"{}", "{}"},
      {" [ ] ", "[]"},
      {"null", "null"},
      {"true", "true"},
      {"\"\"", "\"\""},
      {"-0", "0"},
      {"1.0", "1"},
      {"1E3", "1000"},
      {"18446744073709551615", "18446744073709551615"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"9007199254740993", "9007199254740993"},
      {"18446744073709551616", "18446744073709552000"},
      {"0.1", "0.1"},
      {"1e400", "null"},
      {"1e-400", "0"},
      {"5e-324", "5e-324"},
      {"{ \"a\" : [ 1 , { \"b\" : \"x\" } , [] ] , \"c\" : false }", "{\"a\":[1,{\"b\":\"x\"},[]],\"c\":false}"},
      {"\"\\u00e9\\/\\ud83c\\udf89\\n\"", "\"\xc3\xa9/\xf0\x9f\x8e\x89\\n\""},
      {"\"a\\ud83db\"",
          "\"a\xef\xbf\xbd"
          "b\""},
      {"\"\\udc00\\ud83d\\u0041\"",
          "\"\xef\xbf\xbd\xef\xbf\xbd"
          "A\""},
      {"\"\\ud83d\\ud83c\\udf89\"", "\"\xef\xbf\xbd\xf0\x9f\x8e\x89\""},
      {"{\"k\\\"\\\\\":1}", "{\"k\\\"\\\\\":1}"},
      {"\"\\u0000\"", "\"\\u0000\""},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) assert_comes_back_as(ctxp_str(cases[i].in), cases[i].out);
}

static void bytes_that_are_not_utf8_become_the_replacement_character(void **state) {
  (void)state;
  assert_comes_back_as(CTXP_STR("\"a\xff\xc3(\""), "\"a\xef\xbf\xbd\xef\xbf\xbd(\"");
}

static void what_is_not_json_is_refused_with_its_place(void **state) {
  (void)state;
  static const struct {
    const char *in, *said;
  } cases[] = {
      {"", "the JSON text is empty"},
      {"  \n", "the JSON text is empty"},
      {"{", "the JSON text ends too early, a key is missing"},
      {"{\"a\":1", "the JSON text ends too early, a comma or } is missing"},
      {"[1,]", "not JSON at byte 4: a value should stand there"},
      {"{\"a\":1,}", "not JSON at byte 8: a key should stand there"},
      {"{\"a\" 1}", "not JSON at byte 6: a colon should stand there"},
      {"[1 2]", "not JSON at byte 4: a comma or ] should stand there"},
      {"{} {}", "not JSON at byte 4: nothing more should stand there"},
      {"\"abc", "the JSON text ends within a string"},
      {"01", "not JSON at byte 1: no such number"},
      {"1.", "not JSON at byte 1: no such number"},
      {"[1x]", "not JSON at byte 2: no such number"},
      {"-", "not JSON at byte 1: no such number"},
      {"nul", "not JSON at byte 1: a value should stand there"},
      {"\"\\x\"", "not JSON at byte 2: no such escape"},
      {"\"\\u12g4\"", "not JSON at byte 2: no such escape"},
      {"\"a\nb\"", "a string of the JSON text holds a control character that is not escaped"},
      {"[}", "not JSON at byte 2: a value should stand there"},
      {"}", "not JSON at byte 1: a value should stand there"},
      {"[1}", "not JSON at byte 3: a comma or ] should stand there"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    ctxp_auto_buf raw = {0};
    struct ctxp_error err = {""};
    assert_int_equal(ctxp_json_to_raw(ctxp_str(cases[i].in), &raw, &err), -EBADMSG);
    assert_string_equal(err.text, cases[i].said);
  }
}

static void depth_is_limited(void **state) {
  (void)state;
  char deep[2 * CTXP_JSON_DEPTH + 3];
  ctxp_auto_buf raw = {0};
  struct ctxp_error err;
  memset(deep, '[', CTXP_DEPTH_MAX), memset(deep + CTXP_DEPTH_MAX, ']', CTXP_DEPTH_MAX);
  assert_int_equal(ctxp_json_to_raw((struct ctxp_str){deep, 2 * CTXP_DEPTH_MAX}, &raw, &err), 0);
  memset(deep, '[', CTXP_DEPTH_MAX + 1), memset(deep + CTXP_DEPTH_MAX + 1, ']', CTXP_DEPTH_MAX + 1);
  assert_int_equal(ctxp_json_to_raw((struct ctxp_str){deep, 2 * CTXP_DEPTH_MAX + 2}, &raw, &err), -EBADMSG);
  assert_string_equal(err.text, "the JSON value has more than 32 levels");
  memset(deep, '[', CTXP_JSON_DEPTH + 1), memset(deep + CTXP_JSON_DEPTH + 1, ']', CTXP_JSON_DEPTH + 1);
  assert_int_equal(ctxp_json_to_raw((struct ctxp_str){deep, 2 * CTXP_JSON_DEPTH + 2}, &raw, &err), -EBADMSG);
  assert_string_equal(err.text, "the JSON text has more than 1024 levels");
}

static void keys_are_picked_in_one_pass_and_the_last_of_equal_ones_counts(void **state) {
  (void)state;
  ctxp_cleanup(ctxp_json_deinit) struct ctxp_json json = {0};
  const struct ctxp_str keys[] = {CTXP_STR("type"), CTXP_STR("uuid"), CTXP_STR("none")};
  uint32_t at[3];
  struct ctxp_error err;
  assert_int_equal(
      ctxp_json_load(&json, CTXP_STR("{\"uuid\":\"u1\",\"x\":{\"type\":\"inner\"},\"ty\\u0070e\":\"a\",\"uuid\":\"u2\"}"), &err), 0);
  ctxp_json_pick(&json, 0, keys, 3, at);
  assert_str(ctxp_json_text(&json, at[0]), "a");
  assert_str(ctxp_json_text(&json, at[1]), "u2");
  assert_int_equal(at[2], CTXP_JSON_NONE);
  assert_int_equal(ctxp_json_type(&json, at[2]), CTXP_JSON_ABSENT);
  assert_str(ctxp_json_source(&json, ctxp_json_get(&json, 0, "x")), "{\"type\":\"inner\"}");
  assert_int_equal(ctxp_json_size(&json, 0), 4);
}

static void lengths_are_those_of_the_parsed_text(void **state) {
  (void)state;
  static const struct {
    const char *in;
    size_t units, compact;
  } cases[] = {
      {"\"abc\"", 3, 5}, {"\"a\\nb\\u000a\"", 4, 8}, {"\"\\ud83c\\udf89\"", 2, 4}, {"\"\\ud83d\"", 1, 8}, {"\"\\/\\u00e9\\u0001\"", 3, 10},
      {"\"\xf0\x9f\x8e\x89\xc3\xa9\"", 3, 5}, {"\"\\\"\\\\\"", 2, 6}};
  ctxp_cleanup(ctxp_json_deinit) struct ctxp_json json = {0};
  struct ctxp_error err;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_equal(ctxp_json_load(&json, ctxp_str(cases[i].in), &err), 0);
    assert_int_equal(ctxp_json_units(&json, 0), cases[i].units);
    assert_int_equal(ctxp_utf16_units(ctxp_json_text(&json, 0)), cases[i].units);
    assert_int_equal(ctxp_json_compact_units(&json, 0), cases[i].compact);
  }
  assert_int_equal(
      ctxp_json_load(&json, CTXP_STR("{ \"f\" : \"x\", \"n\":[ 1.50 , -0 , 12345678901234567890 ], \"f\":\"longer\" }"), &err), 0);
  assert_int_equal(ctxp_json_compact_units(&json, 0), strlen("{\"f\":\"longer\",\"n\":[1.5,0,12345678901234567000]}"));
}

static void money_is_read_by_its_digits(void **state) {
  (void)state;
  static const struct {
    const char *in;
    int r;
    int64_t nano;
  } cases[] = {{"0", 0, 0}, {"1", 0, 1000000000}, {"0.11253", 0, 112530000}, {"0.0000000005", 0, 1}, {"0.00000000049999999", 0, 0},
      {"2.5e-7", 0, 250}, {"1e-10", 0, 0}, {"5E-10", 0, 1}, {"-0.1", 0, -100000000}, {"9223372036.854775807", 0, INT64_MAX},
      {"9223372036.854775808", -ERANGE, 0}, {"1e300", -ERANGE, 0}, {"0e999999", 0, 0}, {"1e-999999999", 0, 0}, {"0.1.2", -EBADMSG, 0},
      {"", -EBADMSG, 0}, {"01", -EBADMSG, 0}, {"0.06862345600000001", 0, 68623456}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    int64_t nano = 0;
    assert_int_equal(ctxp_nano_read(ctxp_str(cases[i].in), &nano), cases[i].r);
    assert_int_equal(nano, cases[i].nano);
  }
}

static void an_event_line_becomes_the_body_that_it_was_made_of(void **state) {
  (void)state;
  static const char *const lines[] = {"{\"ts\":\"2026-08-30T06:06:20.401Z\",\"kind\":\"prompt\",\"agent\":\"a\",\"session\":\"s\","
                                      "\"thread\":\"\",\"callId\":\"c1\",\"keep\":2,\"append\":[{\"id\":\"m1\",\"band\":\"file_view\"}],"
                                      "\"usage\":{\"input\":7,\"cacheRead\":900},\"cost\":{\"input\":0.000021,\"total\":1.5}}",
      "{\"ts\":\"2026-08-30T06:06:20.401Z\",\"kind\":\"tool_result\",\"agent\":\"a\",\"session\":\"s\",\"thread\":\"\",\"toolCallId\":"
      "\"t\",\"tool\":\"bash\",\"input\":{\"command\":\"ls\",\"n\":1.5},\"isError\":false,\"exitCode\":-1,\"text\":\"x\"}",
      "{\"ts\":\"2026-08-30T06:06:20.401Z\",\"kind\":\"turn\",\"turn\":1,\"bash\":1,\"amnesia\":2,\"lazy\":3,\"write\":4,\"total\":10,"
      "\"cumulative\":{\"bash\":1,\"amnesia\":2,\"lazy\":3,\"write\":4,\"total\":10},\"agent\":\"a\",\"session\":\"s\",\"thread\":\"\","
      "\"net\":-3,\"carriedCost\":0.25}"};
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
    ctxp_auto_buf body = {0}, line = {0};
    struct ctxp_event ev;
    struct ctxp_fault fault = {"", ""};
    struct ctxp_error err = {""};
    unsigned unknown = 0;
    assert_int_equal(ctxp_json_to_event(ctxp_str(lines[i]), &body, &err), 0);
    if (ctxp_event_decode(body.ptr, body.len, &ev, &unknown, &fault) < 0) fail_msg("%s %s", fault.field, fault.reason);
    assert_int_equal(unknown, 0);
    assert_int_equal(ctxp_json_from_event(&ev, false, &line), 0);
    assert_string_equal(ctxp_buf_cstr(&line), lines[i]);
  }
}

static void a_wrong_event_line_is_refused_by_name(void **state) {
  (void)state;
  static const struct { const char *in, *said; } cases[] = {
      {"[]", "an event must be a JSON object"},
      {"{\"kind\":\"turn_end\",\"ts\":\"yesterday\"}", "`ts` at byte 25 is no time like 2026-08-30T06:10:19.549Z"},
      {"{\"kind\":\"prompt\",\"cost\":{\"total\":1e99}}", "`total` at byte 34 is no amount of dollars below 9 billion"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    ctxp_auto_buf body = {0};
    struct ctxp_error err = {""};
    assert_int_equal(ctxp_json_to_event(ctxp_str(cases[i].in), &body, &err), -EBADMSG);
    assert_string_equal(err.text, cases[i].said);
  }
  ctxp_auto_buf body = {0};
  struct ctxp_event ev;
  struct ctxp_fault fault;
  assert_int_equal(ctxp_json_to_event(CTXP_STR("{\"kind\":\"turn_end\",\"turn\":\"x\"}"), &body, NULL), 0);
  assert_int_equal(ctxp_event_decode(body.ptr, body.len, &ev, NULL, &fault), -EBADMSG);
  assert_string_equal(fault.field, "turn");
}

/* ---- a random value, written as MessagePack, survives JSON ---- */
static uint64_t next_random(uint64_t *seed) {
  *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
  return *seed;
}

static void random_text(uint64_t *seed, struct ctxp_buf *out) {
  static const char *const pieces[] = {
      "a", "key", "\"", "\\", "\n", "\x01", "/", "\xc3\xa9", "\xf0\x9f\x8e\x89", "\xe2\x80\xa8", "long run of plain text ", "\x7f", ""};
  ctxp_auto_buf text = {0};
  for (uint64_t n = next_random(seed) % 6; n; n--) {
    if (next_random(seed) % 20 == 0) ctxp_buf_char(&text, 0);
    ctxp_buf_str(&text, pieces[next_random(seed) % (sizeof(pieces) / sizeof(pieces[0]))]);
  }
  ctxp_pack_str(out, ctxp_buf_view(&text));
}

static void random_value(uint64_t *seed, unsigned depth, struct ctxp_buf *out) {
  uint64_t n = next_random(seed) % 5;
  switch (next_random(seed) % (depth > 5 ? 7 : 9)) {
  case 0: ctxp_pack_nil(out); break;
  case 1: ctxp_pack_bool(out, n & 1); break;
  case 2: ctxp_pack_u64(out, next_random(seed) >> next_random(seed) % 64); break;
  case 3: ctxp_pack_i64(out, -1 - (int64_t)(next_random(seed) >> 1 >> next_random(seed) % 62)); break;
  case 4: ctxp_pack_f64(out, (double)(next_random(seed) >> 12) / 4096.0 + 1.0 / 3); break;
  case 5:
  case 6: random_text(seed, out); break;
  case 7:
    ctxp_pack_array(out, (uint32_t)n);
    for (; n; n--) random_value(seed, depth + 1, out);
    break;
  default:
    ctxp_pack_map(out, (uint32_t)n);
    for (; n; n--) random_text(seed, out), random_value(seed, depth + 1, out);
  }
}

static void any_value_survives_json(void **state) {
  (void)state;
  uint64_t seed = 88172645463325252u;
  ctxp_cleanup(ctxp_json_deinit) struct ctxp_json json = {0};
  for (int i = 0; i < 3000; i++) {
    ctxp_auto_buf raw = {0}, text = {0}, again = {0};
    struct ctxp_error err = {""};
    random_value(&seed, 0, &raw);
    assert_int_equal(ctxp_json_from_raw(ctxp_buf_raw(&raw), &text), 0);
    assert_int_equal(ctxp_json_load(&json, ctxp_buf_view(&text), &err), 0);
    assert_int_equal(ctxp_json_pack(&json, 0, &again, &err), 0);
    assert_int_equal(again.len, raw.len);
    assert_memory_equal(again.ptr, raw.ptr, raw.len);
    struct ctxp_str source = ctxp_json_source(&json, 0);
    assert_int_equal(source.len, text.len);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_come_back_as_they_were),
      cmocka_unit_test(bytes_that_are_not_utf8_become_the_replacement_character),
      cmocka_unit_test(what_is_not_json_is_refused_with_its_place),
      cmocka_unit_test(depth_is_limited),
      cmocka_unit_test(keys_are_picked_in_one_pass_and_the_last_of_equal_ones_counts),
      cmocka_unit_test(lengths_are_those_of_the_parsed_text),
      cmocka_unit_test(money_is_read_by_its_digits),
      cmocka_unit_test(an_event_line_becomes_the_body_that_it_was_made_of),
      cmocka_unit_test(a_wrong_event_line_is_refused_by_name),
      cmocka_unit_test(any_value_survives_json),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
