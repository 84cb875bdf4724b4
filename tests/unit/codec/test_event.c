#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <cmocka.h>
#include <stdlib.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "codec/tools.h"

static void decode(const struct ctxp_buf *buf, struct ctxp_event *ev) {
  struct ctxp_fault fault;
  assert_int_equal(ctxp_event_decode(buf->ptr, buf->len, ev, NULL, &fault), 0);
}

static void an_event_survives_encode_and_decode(void **state) {
  (void)state;
  struct ctxp_event ev = {
      .kind = CTXP_KIND_prompt, .ts_ms = 1756534219549, .agent = CTXP_STR("pi@dev"), .session = CTXP_STR("s1"), .thread = CTXP_STR("")};
  ctxp_auto_buf list = {0}, body = {0}, again = {0};
  struct ctxp_ref ref = {.id = CTXP_STR("m1")};
  ctxp_set(&ref, ref, band, CTXP_BAND_file_view);
  ctxp_set(&ev.prompt, prompt, callId, CTXP_STR("call-1"));
  assert_int_equal(ctxp_list_add(&ev.prompt.append, &list, &ctxp_shape_ref, &ref), 0);
  ref = (struct ctxp_ref){.id = CTXP_STR("m2")};
  assert_int_equal(ctxp_list_add(&ev.prompt.append, &list, &ctxp_shape_ref, &ref), 0);
  ev.prompt.has |= UINT64_C(1) << CTXP_IX_prompt_append;
  struct ctxp_usage usage = {.input = 7};
  ctxp_set(&usage, usage, cacheRead, 900);
  ctxp_set(&ev.prompt, prompt, usage, usage);
  assert_int_equal(ctxp_event_encode(&ev, &body), 0);

  struct ctxp_event got;
  decode(&body, &got);
  assert_int_equal(got.kind, CTXP_KIND_prompt);
  assert_int_equal(got.ts_ms, 1756534219549);
  assert_true(ctxp_str_is(got.prompt.callId, "call-1"));
  assert_true(ctxp_has(&got.prompt, prompt, usage));
  assert_false(ctxp_has(&got.prompt, prompt, keep));
  assert_int_equal(got.prompt.usage.cacheRead, 900);
  struct ctxp_list it = got.prompt.append;
  struct ctxp_ref r;
  assert_int_equal(it.count, 2);
  assert_int_equal(ctxp_list_next(&it, &ctxp_shape_ref, &r), 1);
  assert_int_equal(r.band, CTXP_BAND_file_view);
  assert_int_equal(ctxp_list_next(&it, &ctxp_shape_ref, &r), 1);
  assert_false(ctxp_has(&r, ref, band));
  assert_true(ctxp_str_is(r.id, "m2"));
  assert_int_equal(ctxp_list_next(&it, &ctxp_shape_ref, &r), 0);
  assert_int_equal(ctxp_event_encode(&got, &again), 0);
  assert_int_equal(again.len, body.len);
  assert_memory_equal(again.ptr, body.ptr, body.len);
}

static void the_seeds_bash_line_comes_out_byte_for_byte(void **state) {
  (void)state;
  struct ctxp_event ev = {.kind = CTXP_KIND_bash, .agent = CTXP_STR("a"), .session = CTXP_STR("s")};
  ctxp_auto_buf line = {0};
  assert_int_equal(ctxp_time_parse(CTXP_STR("2026-08-30T06:06:20.401Z"), &ev.ts_ms), 0);
  ev.bash.toolCallId = CTXP_STR("call_...");
  ev.bash.command = CTXP_STR("...");
  ev.bash.originalTokens = 9000;
  ev.bash.summaryTokens = 300;
  ev.bash.saved = 8700;
  ctxp_set(&ev.bash, bash, applied, true);
  assert_int_equal(ctxp_json_from_event(&ev, true, &line), 0);
  assert_string_equal(ctxp_buf_cstr(&line),
      "{\"ts\":\"2026-08-30T06:06:20.401Z\",\"kind\":\"bash\",\"toolCallId\":\"call_...\",\"command\":\"...\",\"originalTokens\":9000,"
      "\"summaryTokens\":300,\"saved\":8700}");
  ctxp_buf_reset(&line);
  assert_int_equal(ctxp_json_from_event(&ev, false, &line), 0);
  assert_string_equal(ctxp_buf_cstr(&line),
      "{\"ts\":\"2026-08-30T06:06:20.401Z\",\"kind\":\"bash\",\"toolCallId\":\"call_...\",\"command\":\"...\",\"originalTokens\":9000,"
      "\"summaryTokens\":300,\"saved\":8700,\"agent\":\"a\",\"session\":\"s\",\"thread\":\"\",\"applied\":true}");
}

static void what_ctxpipe_encoded_reads_as_it_decodes_and_a_cut_body_is_refused(void **state) {
  (void)state;
  struct ctxp_event ev = {.kind = CTXP_KIND_prompt, .ts_ms = 7, .agent = CTXP_STR("a"), .session = CTXP_STR("s"), .thread = CTXP_STR("t")},
                    got;
  ctxp_auto_buf list = {0}, body = {0}, again = {0};
  struct ctxp_ref ref = {.id = CTXP_STR("m1")};
  struct ctxp_fault fault;
  ctxp_set(&ev.prompt, prompt, callId, CTXP_STR("call-1"));
  assert_int_equal(ctxp_list_add(&ev.prompt.append, &list, &ctxp_shape_ref, &ref), 0);
  ev.prompt.has |= UINT64_C(1) << CTXP_IX_prompt_append;
  assert_int_equal(ctxp_event_encode(&ev, &body), 0);
  assert_int_equal(ctxp_event_read(ctxp_buf_raw(&body), &got, &fault), 0);
  assert_int_equal(ctxp_event_encode(&got, &again), 0);
  assert_int_equal(again.len, body.len);
  assert_memory_equal(again.ptr, body.ptr, body.len);
  for (size_t len = 0; len < body.len; len++) {
    uint8_t *cut = malloc(len ? len : 1); /* so that a tool sees a read behind its end */
    assert_non_null(cut);
    memcpy(cut, body.ptr, len);
    assert_int_equal(ctxp_event_read((struct ctxp_raw){cut, len}, &got, &fault), -EBADMSG);
    free(cut);
  }
}

static void faults_name_the_field(void **state) {
  (void)state;
  static const struct {
    const char *hex;
    size_t len;
    const char *field, *reason;
  } cases[] = {
      {"\x80", 1, "kind", "is required"},
      {"\x81\xa4kind\xa3nix", 10, "kind", "is no kind of event"},
      {"\x81\xa4kind\xa8turn_end", 15, "turn", "is required"},
      {"\x82\xa4kind\xa8turn_end\xa4turn\xff", 21, "turn", "must be a whole number from 0"},
      {"\x82\xa4kind\xabsession_end\xa6reason\xa1\xff", 27, "", "is not one MessagePack value with texts in UTF-8 and at most 32 levels"},
      {"\x82\xa4kind\xa5"
       "evict\xa3ids\x91\x01",
          18, "ids", "must be an array of texts"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct ctxp_event ev;
    struct ctxp_fault fault = {{0}, {0}};
    assert_int_equal(ctxp_event_decode((const uint8_t *)cases[i].hex, cases[i].len, &ev, NULL, &fault), -EBADMSG);
    assert_string_equal(fault.reason, cases[i].reason);
    assert_string_equal(fault.field, cases[i].field);
  }
}

static void a_count_beyond_the_bytes_is_refused_before_anything_is_read(void **state) {
  (void)state;
  uint8_t huge[] = {0xdd, 0xff, 0xff, 0xff, 0xff, 0x01};
  assert_int_equal(ctxp_pack_check((struct ctxp_raw){huge, sizeof(huge)}), -EBADMSG);
  uint8_t deep[CTXP_DEPTH_MAX + 2];
  memset(deep, 0x91, sizeof(deep));
  deep[sizeof(deep) - 1] = 1;
  assert_int_equal(ctxp_pack_check((struct ctxp_raw){deep, sizeof(deep)}), -EBADMSG);
  assert_int_equal(ctxp_pack_check((struct ctxp_raw){deep + 1, sizeof(deep) - 1}), 0);
}

static void numbers_print_as_javascript_prints_them(void **state) {
  (void)state;
  static const struct {
    double value;
    const char *text;
  } cases[] = {
      {1.0, "1"}, {-0.0, "0"}, {1e21, "1e+21"}, {123456789012345680000.0, "123456789012345680000"}, {0.000001, "0.000001"},
      {1e-7, "1e-7"}, {0.1, "0.1"}, {1.5e300, "1.5e+300"}, {-12.25, "-12.25"}, {100, "100"}, {5e-324, "5e-324"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    ctxp_auto_buf out = {0};
    ctxp_json_f64(&out, cases[i].value);
    assert_string_equal(ctxp_buf_cstr(&out), cases[i].text);
  }
}

static void money_is_decimal_dollars(void **state) {
  (void)state;
  static const struct {
    int64_t nano;
    const char *text;
  } cases[] = {{0, "0"}, {112530000, "0.11253"}, {-1, "-0.000000001"}, {2000000000, "2"}, {1500000000, "1.5"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    ctxp_auto_buf out = {0};
    ctxp_json_nano(&out, cases[i].nano);
    assert_string_equal(ctxp_buf_cstr(&out), cases[i].text);
  }
}

static void a_topic_is_its_kind_and_for_results_the_class_of_the_tool(void **state) {
  (void)state;
  char text[CTXP_TOPIC_MAX];
  struct ctxp_event ev = {.kind = CTXP_KIND_tool_result, .tool_result = {.tool = CTXP_STR("Bash")}};
  ctxp_topic_text(ctxp_topic_of(&ev), text);
  assert_string_equal(text, "tool_result/shell/");
  const struct ctxp_consume shell[] = {{CTXP_KIND_tool_result, 1u << CTXP_TOOL_SHELL}, {0}};
  assert_true(ctxp_topic_consumed(ctxp_topic_of(&ev), shell));
  ev.tool_result.tool = CTXP_STR("Read");
  assert_false(ctxp_topic_consumed(ctxp_topic_of(&ev), shell));
  ev.kind = CTXP_KIND_prompt;
  ctxp_topic_text(ctxp_topic_of(&ev), text);
  assert_string_equal(text, "prompt/");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_event_survives_encode_and_decode),
      cmocka_unit_test(the_seeds_bash_line_comes_out_byte_for_byte),
      cmocka_unit_test(what_ctxpipe_encoded_reads_as_it_decodes_and_a_cut_body_is_refused),
      cmocka_unit_test(faults_name_the_field),
      cmocka_unit_test(a_count_beyond_the_bytes_is_refused_before_anything_is_read),
      cmocka_unit_test(numbers_print_as_javascript_prints_them),
      cmocka_unit_test(money_is_decimal_dollars),
      cmocka_unit_test(a_topic_is_its_kind_and_for_results_the_class_of_the_tool),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
