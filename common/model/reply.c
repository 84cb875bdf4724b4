#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "model/reply.h"
#include "tokens/estimate.h"
#include <errno.h>
#include <inttypes.h>

struct reading {
  struct ctxp_buf *text;
  struct ctxp_model_answer *answer;
  bool object, stopped; /* one was read; it says that it finished with `stop` */
  const char *ended; /* how else it finished */
};

static const char *other_end(struct ctxp_str reason) {
  if (ctxp_str_is(reason, "length")) return "the reply was cut at its limit of tokens";
  if (ctxp_str_is(reason, "content_filter")) return "the endpoint filtered the reply";
  return "the reply did not finish with 'stop'";
}

static void read_usage(struct reading *r, struct ctxp_raw usage) {
  if (ctxp_raw_type(usage) != CTXP_PACK_MAP) return;
  uint64_t input = ctxp_map_u64(usage, "prompt_tokens", UINT64_MAX), output = ctxp_map_u64(usage, "completion_tokens", UINT64_MAX);
  /* a count beyond this is no count of tokens */
  if (input <= UINT32_MAX) r->answer->has_input = true, r->answer->input_tokens = input;
  if (output <= UINT32_MAX) r->answer->has_output = true, r->answer->output_tokens = output;
}

/* one object: the whole reply (part: "message") or a piece of it ("delta") */
static void read_object(struct reading *r, struct ctxp_raw object) {
  struct ctxp_raw choices = ctxp_map_get(object, "choices"), choice;
  struct ctxp_cursor it = ctxp_cursor(choices);
  uint32_t left;
  r->object = true;
  read_usage(r, ctxp_map_get(object, "usage"));
  if (!choices.len || ctxp_array_open(&it, &left) < 0 || left == 0 || ctxp_array_next(&it, &left, &choice) < 0) return;
  if (ctxp_raw_type(choice) != CTXP_PACK_MAP) return;
  struct ctxp_raw part = ctxp_map_get(choice, "message");
  if (!part.len) part = ctxp_map_get(choice, "delta");
  struct ctxp_str finish = ctxp_map_str(choice, "finish_reason");
  if (ctxp_raw_type(part) == CTXP_PACK_MAP) {
    struct ctxp_str text = ctxp_map_str(part, "content");
    ctxp_buf_add(r->text, text.ptr, text.len);
  }
  if (ctxp_str_is(finish, "stop"))
    r->stopped = true;
  else if (finish.len)
    r->ended = other_end(finish);
}

/* >0: no JSON object */
static int read_json(struct reading *r, struct ctxp_str json) {
  ctxp_auto_buf raw = {0};
  int err = ctxp_json_to_raw(json, &raw, NULL);
  if (err == -ENOMEM) return err;
  if (err < 0 || ctxp_raw_type(ctxp_buf_raw(&raw)) != CTXP_PACK_MAP) return 1;
  read_object(r, ctxp_buf_raw(&raw));
  return 0;
}

static bool next_line(struct ctxp_str *rest, struct ctxp_str *ret_line) {
  if (!rest->len) return false;
  const char *end = memchr(rest->ptr, '\n', rest->len);
  size_t n = end ? (size_t)(end - rest->ptr) : rest->len;
  *ret_line = (struct ctxp_str){rest->ptr, n && rest->ptr[n - 1] == '\r' ? n - 1 : n};
  n += end != NULL;
  *rest = (struct ctxp_str){rest->ptr + n, rest->len - n};
  return true;
}

/* server-sent events, each of one `data` line, as these endpoints send them */
static int read_stream(struct reading *r, struct ctxp_str body) {
  struct ctxp_str line;
  while (next_line(&body, &line)) {
    if (!ctxp_str_starts(line, "data:")) continue;
    struct ctxp_str data = ctxp_js_trim((struct ctxp_str){line.ptr + 5, line.len - 5});
    if (ctxp_str_is(data, "[DONE]")) break;
    int err = read_json(r, data);
    if (err) return err;
  }
  return 0;
}

static bool is_stream(struct ctxp_str body) {
  struct ctxp_str head = ctxp_js_trim(body);
  return ctxp_str_starts(head, "data:") || ctxp_str_starts(head, "event:") || ctxp_str_starts(head, ":");
}

int ctxp_model_read(struct ctxp_str body, struct ctxp_buf *text, struct ctxp_model_answer *ret) {
  struct reading r = {.text = text, .answer = ret};
  *ret = (struct ctxp_model_answer){0};
  ctxp_buf_reset(text);
  int err = is_stream(body) ? read_stream(&r, body) : read_json(&r, body);
  if (err < 0 || text->failed) return -ENOMEM;
  struct ctxp_str said = ctxp_js_trim(ctxp_buf_view(text));
  if (err > 0 || !r.object)
    ret->why = "the reply is not the JSON of a chat completion";
  else if (r.ended)
    ret->why = r.ended;
  else if (!r.stopped)
    ret->why = "the reply did not finish";
  else if (!said.len)
    ret->why = "the reply is blank";
  ret->text_tokens = ctxp_estimate_text(said);
  ret->good = ret->why == NULL;
  if (ret->good) memmove(text->ptr, said.ptr, said.len);
  text->len = ret->good ? said.len : 0;
  return 0;
}

static void message(struct ctxp_buf *out, const char *role, struct ctxp_str content) {
  ctxp_buf_printf(out, "{\"role\":\"%s\",\"content\":", role);
  ctxp_json_str(out, content);
  ctxp_buf_char(out, '}');
}

void ctxp_model_write(struct ctxp_buf *out, const struct ctxp_model_call *call) {
  ctxp_buf_str(out, "{\"model\":");
  ctxp_json_str(out, ctxp_str(call->model));
  ctxp_buf_str(out, ",\"messages\":[");
  message(out, "system", call->system);
  ctxp_buf_char(out, ',');
  message(out, "user", call->user);
  ctxp_buf_printf(out, "],\"max_tokens\":%" PRIu64 ",\"temperature\":0,\"stream\":false}", call->max_tokens);
}
