/* What is read of a chat endpoint's reply: whole, or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "model/model.h"
#include "model/reply.h"

static struct ctxp_buf text;
static struct ctxp_model_answer answer;

static void read_body(const char *body) { assert_int_equal(ctxp_model_read(ctxp_str(body), &text, &answer), 0); }

static void good(const char *body, const char *expected) {
  read_body(body);
  assert_true(answer.good);
  assert_null(answer.why);
  assert_string_equal(ctxp_buf_cstr(&text), expected);
}

static void bad(const char *body, const char *why) {
  read_body(body);
  assert_false(answer.good);
  assert_string_equal(answer.why, why);
  assert_int_equal(text.len, 0);
}

static int forget(void **state) {
  (void)state;
  ctxp_buf_deinit(&text);
  return 0;
}

static void a_plain_reply_is_read_with_its_usage(void **state) {
  (void)state;
  good("{\"choices\":[{\"message\":{\"content\":\"  - d\\n\"},\"finish_reason\":\"stop\"}],"
       "\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3}}",
      "- d");
  assert_true(answer.has_input && answer.has_output);
  assert_int_equal(answer.input_tokens, 12);
  assert_int_equal(answer.output_tokens, 3);
}

static void a_stream_is_put_together(void **state) {
  (void)state;
  good(": hello\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"- \"}}]}\r\n\r\n"
       "data: {\"choices\":[{\"delta\":{\"content\":\"\xc3\xa9\"}}]}\n\n"
       "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\n\n"
       "data: [DONE]\n\ndata: {not read}\n\n",
      "- \xc3\xa9");
  assert_true(answer.has_input && !answer.has_output);
  assert_int_equal(answer.input_tokens, 9);
}

static void reasoning_is_no_part_of_the_text(void **state) {
  (void)state;
  good("{\"choices\":[{\"message\":{\"reasoning_content\":\"hm\",\"content\":\"d\"},\"finish_reason\":\"stop\"}]}", "d");
  bad("{\"choices\":[{\"message\":{\"reasoning_content\":\"hm\",\"content\":null},\"finish_reason\":\"stop\"}]}", "the reply is blank");
}

static void what_is_not_finished_with_stop_is_of_no_use(void **state) {
  (void)state;
  bad("{\"choices\":[{\"message\":{\"content\":\"d\"},\"finish_reason\":\"length\"}]}", "the reply was cut at its limit of tokens");
  bad("{\"choices\":[{\"message\":{\"content\":\"d\"},\"finish_reason\":\"content_filter\"}]}", "the endpoint filtered the reply");
  bad("{\"choices\":[{\"message\":{\"content\":\"d\"},\"finish_reason\":\"tool_calls\"}]}", "the reply did not finish with 'stop'");
  bad("{\"choices\":[{\"message\":{\"content\":\"d\"}}]}", "the reply did not finish");
  bad("data: {\"choices\":[{\"delta\":{\"content\":\"d\"}}]}\n\n", "the reply did not finish");
  bad("{\"choices\":[{\"message\":{\"content\":\" \\n\"},\"finish_reason\":\"stop\"}]}", "the reply is blank");
}

static void what_a_reply_of_no_use_has_written_is_estimated_all_the_same(void **state) {
  (void)state;
  bad("{\"choices\":[{\"message\":{\"content\":\" half of a sen\"},\"finish_reason\":\"length\"}]}",
      "the reply was cut at its limit of tokens");
  assert_false(answer.has_output);
  assert_int_equal(answer.text_tokens, 4); /* 13 units */
}

static void what_is_no_completion_is_named_so(void **state) {
  static const char *const bodies[] = {"", "data: {not json\n\n", "[]", "null", "<html>busy</html>",
      "{\"choices\":[{\"message\":{\"content\":\"d\"},\"finish_reason\":\"stop\"}]} x"};
  static const char *const unfinished[] = {
      "{}", "{\"choices\":null}", "{\"choices\":[]}", "{\"choices\":[7]}", "{\"choices\":{\"message\":{}}}"};
  (void)state;
  for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) bad(bodies[i], "the reply is not the JSON of a chat completion");
  for (size_t i = 0; i < sizeof(unfinished) / sizeof(unfinished[0]); i++) bad(unfinished[i], "the reply did not finish");
}

static void counts_that_are_none_are_not_taken(void **state) {
  (void)state;
  good("{\"choices\":[{\"message\":{\"content\":\"d\"},\"finish_reason\":\"stop\"}],"
       "\"usage\":{\"prompt_tokens\":99999999999999,\"completion_tokens\":-1}}",
      "d");
  assert_false(answer.has_input);
  assert_false(answer.has_output);
}

static void a_request_holds_what_was_asked_and_nothing_else(void **state) {
  ctxp_auto_buf body = {0}, raw = {0};
  struct ctxp_model_call call = {
      .url = "http://h", .model = "m", .key_env = "SECRET", .system = CTXP_STR("s\""), .user = CTXP_STR("u\n"), .max_tokens = 32};
  (void)state;
  ctxp_model_write(&body, &call);
  assert_string_equal(ctxp_buf_cstr(&body),
      "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\\\"\"},{\"role\":\"user\",\"content\":\"u\\n\"}],"
      "\"max_tokens\":32,\"temperature\":0,\"stream\":false}");
  assert_int_equal(ctxp_json_to_raw(ctxp_buf_view(&body), &raw, NULL), 0);
  assert_int_equal(ctxp_model_input_estimate(&call), 1); /* four units */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(a_plain_reply_is_read_with_its_usage, forget),
      cmocka_unit_test_teardown(a_stream_is_put_together, forget),
      cmocka_unit_test_teardown(reasoning_is_no_part_of_the_text, forget),
      cmocka_unit_test_teardown(what_is_not_finished_with_stop_is_of_no_use, forget),
      cmocka_unit_test_teardown(what_a_reply_of_no_use_has_written_is_estimated_all_the_same, forget),
      cmocka_unit_test_teardown(what_is_no_completion_is_named_so, forget),
      cmocka_unit_test_teardown(counts_that_are_none_are_not_taken, forget),
      cmocka_unit_test_teardown(a_request_holds_what_was_asked_and_nothing_else, forget),
  };
  return cmocka_run_group_tests_name("model: replies", tests, NULL, NULL);
}
