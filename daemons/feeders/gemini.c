/* Gemini CLI: chats, a JSON text {sessionId, projectHash, messages}, or the same as lines. Lines give a message again when its tools have
 * run: the last one counts. The results of its calls stand within the message that made them. `input` includes `cached`; thoughts are
 * beside `output` and paid as such. */
#include <errno.h>
#include "base/clock.h"
#include "base/str.h"
#include "feeders/story.h"
#include "tokens/estimate.h"

struct mark { /* what the story was before a message */
  uint32_t steps, messages, calls, prompts, refs, window, same, id;
};
struct reader {
  struct ctxp_transcript *t;
  struct ctxp_story *s;
  struct ctxp_json *json;
  struct ctxp_request window;
  struct mark last;
};

static uint32_t name_of(struct reader *r, uint32_t object, const char *key) {
  return ctxp_story_name_at(r->s, r->json, ctxp_json_get(r->json, object, key));
}

static void add_parts(struct reader *r, struct ctxp_story_message *m, uint32_t content) {
  if (ctxp_json_type(r->json, content) == CTXP_JSON_STRING) ctxp_story_add_text(r->json, m, content);
  for (uint32_t it = content; ctxp_json_each(r->json, content, &it);) {
    uint32_t text = ctxp_json_get(r->json, it, "text");
    if (ctxp_json_type(r->json, text) == CTXP_JSON_STRING) {
      ctxp_story_add_text(r->json, m, text);
    } else if (ctxp_json_get(r->json, it, "inlineData") != CTXP_JSON_NONE || ctxp_json_get(r->json, it, "fileData") != CTXP_JSON_NONE) {
      ctxp_story_add_image(m);
    }
  }
}

static void read_prompt(struct reader *r, uint32_t message, uint32_t id) {
  static const struct ctxp_str keys[] = {{"input", 5}, {"cached", 6}, {"output", 6}, {"thoughts", 8}};
  uint32_t at[4], tokens = ctxp_json_get(r->json, message, "tokens");
  ctxp_json_pick(r->json, tokens, keys, 4, at);
  uint64_t input = ctxp_json_u64(r->json, at[0], 0), cached = ctxp_json_u64(r->json, at[1], 0);
  struct ctxp_story_prompt *p = ctxp_story_prompt(r->s, &r->window, r->window.count, 0);
  p->call_id = id;
  p->model = name_of(r, message, "model");
  p->reply = r->s->message_count + 1;
  p->replies = 1;
  p->reported = ctxp_json_type(r->json, tokens) == CTXP_JSON_OBJECT;
  p->usage.input = input - (cached < input ? cached : input);
  ctxp_set(&p->usage, usage, cacheRead, cached < input ? cached : input);
  ctxp_set(&p->usage, usage, output, ctxp_json_u64(r->json, at[2], 0));
  ctxp_set(&p->usage, usage, reasoning, ctxp_json_u64(r->json, at[3], 0));
  if (p->usage.reasoning) ctxp_set(&p->usage, usage, reasoningApart, true);
}

/* the answer of a tool: {functionResponse: {response: {output | error}}} */
static uint32_t answer_of(struct reader *r, uint32_t result, bool *ret_failed) {
  uint32_t first = result, response;
  if (!ctxp_json_each(r->json, result, &first)) return CTXP_JSON_NONE;
  response = ctxp_json_get(r->json, ctxp_json_get(r->json, first, "functionResponse"), "response");
  uint32_t output = ctxp_json_get(r->json, response, "output"), error = ctxp_json_get(r->json, response, "error");
  *ret_failed = output == CTXP_JSON_NONE && error != CTXP_JSON_NONE;
  return output != CTXP_JSON_NONE ? output : error != CTXP_JSON_NONE ? error :
                                                                       response;
}

static void read_call(struct reader *r, uint32_t reply, uint32_t call) {
  static const struct ctxp_str keys[] = {{"id", 2}, {"name", 4}, {"args", 4}};
  uint32_t at[3];
  ctxp_json_pick(r->json, call, keys, 3, at);
  uint32_t id = ctxp_story_name_at(r->s, r->json, at[0]);
  struct ctxp_story_message *m = &r->s->messages[reply];
  uint64_t name_units = ctxp_json_units(r->json, at[1]), units = ctxp_json_compact_units(r->json, at[2]);
  ctxp_story_add_text(r->json, m, at[1]);
  ctxp_story_add_json(r->json, m, at[2]);
  if (!id) return;
  struct ctxp_story_call *made = ctxp_story_call(r->s, reply, id, ctxp_story_name_at(r->s, r->json, at[1]));
  made->tokens = (uint32_t)(ctxp_chars4(name_units) + ctxp_chars4(units));
  made->content_tokens = (uint32_t)ctxp_chars4(ctxp_json_units(r->json, ctxp_json_get(r->json, at[2], "content")));
  made->path = ctxp_story_name_at(r->s, r->json, ctxp_content_path(r->json, at[2]));
  made->input = ctxp_story_span(r->s, r->json, at[2]);
}

static void read_result(struct reader *r, uint32_t call) {
  uint32_t id = name_of(r, call, "id"), known = ctxp_slots_get(&r->s->call_of, id), number;
  uint32_t result = ctxp_json_get(r->json, call, "result");
  bool failed = false, read = ctxp_json_is(r->json, ctxp_json_get(r->json, call, "name"), "read_file");
  if (!id || !known || ctxp_json_type(r->json, result) != CTXP_JSON_ARRAY) return;
  uint32_t answer = answer_of(r, result, &failed);
  struct ctxp_story_message *m =
      ctxp_story_message(r->s, CTXP_ROLE_tool, read ? CTXP_BAND_file_view : CTXP_BAND_tool_output, 0, &number);
  bool text = ctxp_json_type(r->json, answer) == CTXP_JSON_STRING;
  ctxp_story_add_json(r->json, m, answer);
  m->id = m->answers = id;
  m->tool = r->s->calls[known - 1].name;
  if (read) m->label = r->s->calls[known - 1].path;
  m->failed = failed || ctxp_json_is(r->json, ctxp_json_get(r->json, call, "status"), "error");
  m->result = true;
  if (text) m->text = ctxp_story_span(r->s, r->json, answer);
  ctxp_request_add(r->s, &r->window, number, CTXP_STORY_OWN_BAND);
}

static void read_reply(struct reader *r, uint32_t message, uint32_t id) {
  uint32_t calls = ctxp_json_get(r->json, message, "toolCalls"), number;
  read_prompt(r, message, id);
  struct ctxp_story_message *m = ctxp_story_message(r->s, CTXP_ROLE_assistant, CTXP_BAND_assistant, 0, &number);
  if (r->s->failed) return;
  m->id = id;
  m->thinks = ctxp_json_size(r->json, ctxp_json_get(r->json, message, "thoughts")) > 0;
  add_parts(r, m, ctxp_json_get(r->json, message, "content"));
  ctxp_request_add(r->s, &r->window, number, CTXP_STORY_OWN_BAND);
  for (uint32_t it = calls; !r->s->failed && ctxp_json_each(r->json, calls, &it);) read_call(r, number, it);
  for (uint32_t it = calls; !r->s->failed && ctxp_json_each(r->json, calls, &it);) read_result(r, it);
}

/* ---- messages ---- */
static void set_mark(struct reader *r, uint32_t id) {
  const struct ctxp_story *s = r->s;
  r->last =
      (struct mark){s->step_count, s->message_count, s->call_count, s->prompt_count, s->ref_count, r->window.count, r->window.same, id};
}

/* the message that was read last comes again */
static void take_back(struct reader *r) {
  struct ctxp_story *s = r->s;
  s->step_count = r->last.steps;
  for (uint32_t i = r->last.calls; i < s->call_count; i++)
    if (ctxp_slots_set(&s->call_of, s->calls[i].id, 0) < 0) s->failed = true;
  s->message_count = r->last.messages;
  s->call_count = r->last.calls;
  s->prompt_count = r->last.prompts;
  s->ref_count = r->last.refs;
  r->window.count = r->last.window;
  r->window.same = r->last.same;
}

static void read_message(struct reader *r, uint32_t message) {
  struct ctxp_str type = ctxp_json_text(r->json, ctxp_json_get(r->json, message, "type"));
  uint32_t id = name_of(r, message, "id"), number;
  if (id && id == r->last.id) take_back(r);
  set_mark(r, id);
  if (id && ctxp_str_is(type, "gemini")) {
    read_reply(r, message, id);
  } else if (id && ctxp_str_is(type, "user")) {
    struct ctxp_story_message *m = ctxp_story_message(r->s, CTXP_ROLE_user, CTXP_BAND_user_prompt, 0, &number);
    m->id = id;
    m->person = true;
    add_parts(r, m, ctxp_json_get(r->json, message, "content"));
    ctxp_request_add(r->s, &r->window, number, CTXP_STORY_OWN_BAND);
  } else {
    ctxp_notes_passed(r->t->notes, type);
  }
}

static uint64_t time_of(struct reader *r, uint32_t message) {
  uint64_t ts_ms;
  return ctxp_time_parse(ctxp_json_text(r->json, ctxp_json_get(r->json, message, "timestamp")), &ts_ms) < 0 ? 0 : ts_ms;
}

static int read_document(struct reader *r, struct ctxp_error *err) {
  int got = ctxp_transcript_document(r->t, &r->s->document, err);
  if (got < 0) return got;
  uint32_t messages = ctxp_json_get(r->json, 0, "messages");
  r->s->session = name_of(r, 0, "sessionId");
  for (uint32_t it = messages; got == 0 && ctxp_json_each(r->json, messages, &it);) {
    got = ctxp_story_part(r->t, it, time_of(r, it));
    if (got == 0) read_message(r, it);
  }
  return got;
}

static int read_lines(struct reader *r) {
  struct ctxp_line line;
  int got = 0;
  while (!r->s->failed && !r->json->failed && (got = ctxp_transcript_line(r->t, &line)) > 0) {
    if (ctxp_json_get(r->json, 0, "sessionId") != CTXP_JSON_NONE) {
      if (!r->s->session) r->s->session = name_of(r, 0, "sessionId");
      continue;
    }
    ctxp_story_record(r->s, line.offset, line.bytes, time_of(r, 0), r->json->text.ptr != line.text.ptr);
    if (ctxp_json_get(r->json, 0, "$set") != CTXP_JSON_NONE)
      ctxp_notes_passed(r->t->notes, CTXP_STR("$set"));
    else
      read_message(r, 0);
  }
  return got;
}

static int gemini_index(struct ctxp_transcript *t, struct ctxp_error *err) {
  struct reader r = {.t = t, .s = ctxp_story_new(t), .json = t->json};
  if (!r.s) return -ENOMEM;
  int got = t->document ? read_document(&r, err) : read_lines(&r);
  if (r.s->failed || t->json->failed) got = -ENOMEM;
  if (got == 0) got = ctxp_story_finish(t);
  ctxp_request_deinit(&r.window);
  return got;
}

static bool detect(struct ctxp_json *json) {
  return ctxp_json_type(json, ctxp_json_get(json, 0, "sessionId")) == CTXP_JSON_STRING &&
      ctxp_json_type(json, ctxp_json_get(json, 0, "projectHash")) == CTXP_JSON_STRING &&
      ctxp_json_type(json, ctxp_json_get(json, 0, "type")) == CTXP_JSON_ABSENT;
}

static bool detect_document(struct ctxp_json *json) {
  return detect(json) && ctxp_json_type(json, ctxp_json_get(json, 0, "messages")) == CTXP_JSON_ARRAY;
}

const struct ctxp_format ctxp_format_gemini = {.name = "gemini-cli",
    .detect = detect,
    .detect_document = detect_document,
    .index = gemini_index,
    .emit = ctxp_story_emit,
    .close = ctxp_story_close};
