/* opencode: `opencode export` prints a session as one JSON text, {info, messages: [{info, parts}]}. An assistant's message may have made
 * several calls of the model (a step each), but its tokens and its cost are told once, as a sum; the steps repeat them. A tool's call and
 * its result are one part. Reasoning is beside the output. */
#include <errno.h>
#include "base/str.h"
#include "feeders/story.h"
#include "tokens/estimate.h"

struct reader {
  struct ctxp_transcript *t;
  struct ctxp_story *s;
  struct ctxp_json *json;
  struct ctxp_request window;
};

static uint32_t name_of(struct reader *r, uint32_t object, const char *key) {
  return ctxp_story_name_at(r->s, r->json, ctxp_json_get(r->json, object, key));
}

static uint64_t time_of(struct reader *r, uint32_t info) {
  return ctxp_json_u64(r->json, ctxp_json_get(r->json, ctxp_json_get(r->json, info, "time"), "created"), 0);
}

/* the cost of a call, which is told as a whole */
static void read_cost(struct reader *r, uint32_t cost, struct ctxp_story_prompt *p) {
  int64_t nano;
  if (ctxp_json_type(r->json, cost) != CTXP_JSON_NUMBER || ctxp_nano_read(ctxp_json_source(r->json, cost), &nano) < 0 || nano <= 0) return;
  ctxp_set(&p->cost, cost, totalNano, nano);
  p->priced = true;
}

static void read_prompt(struct reader *r, uint32_t info, uint32_t id) {
  static const struct ctxp_str keys[] = {{"input", 5}, {"output", 6}, {"reasoning", 9}, {"cache", 5}};
  uint32_t at[4], tokens = ctxp_json_get(r->json, info, "tokens");
  ctxp_json_pick(r->json, tokens, keys, 4, at);
  struct ctxp_story_prompt *p = ctxp_story_prompt(r->s, &r->window, r->window.count, 0);
  uint64_t reasoning = ctxp_json_u64(r->json, at[2], 0);
  p->call_id = id;
  p->model = name_of(r, info, "modelID");
  p->reply = r->s->message_count + 1;
  p->replies = 1;
  p->usage.input = ctxp_json_u64(r->json, at[0], 0);
  ctxp_set(&p->usage, usage, output, ctxp_json_u64(r->json, at[1], 0));
  ctxp_set(&p->usage, usage, cacheRead, ctxp_json_u64(r->json, ctxp_json_get(r->json, at[3], "read"), 0));
  ctxp_set(&p->usage, usage, cacheWrite5m, ctxp_json_u64(r->json, ctxp_json_get(r->json, at[3], "write"), 0));
  if (reasoning) ctxp_set(&p->usage, usage, reasoning, reasoning);
  if (reasoning) ctxp_set(&p->usage, usage, reasoningApart, true);
  p->reported = p->usage.input || p->usage.output || p->usage.cacheRead || p->usage.cacheWrite5m || reasoning;
  read_cost(r, ctxp_json_get(r->json, info, "cost"), p);
}

static void read_call(struct reader *r, uint32_t reply, uint32_t part) {
  uint32_t id = name_of(r, part, "callID"), tool = ctxp_json_get(r->json, part, "tool");
  uint32_t input = ctxp_json_get(r->json, ctxp_json_get(r->json, part, "state"), "input");
  struct ctxp_story_message *m = &r->s->messages[reply];
  uint64_t name_units = ctxp_json_units(r->json, tool), units = ctxp_json_compact_units(r->json, input);
  ctxp_story_add_text(r->json, m, tool);
  ctxp_story_add_json(r->json, m, input);
  if (!id) return;
  struct ctxp_story_call *call = ctxp_story_call(r->s, reply, id, ctxp_story_name_at(r->s, r->json, tool));
  call->tokens = (uint32_t)(ctxp_chars4(name_units) + ctxp_chars4(units));
  call->content_tokens = (uint32_t)ctxp_chars4(ctxp_json_units(r->json, ctxp_json_get(r->json, input, "content")));
  call->path = name_of(r, input, "filePath");
  if (!call->path) call->path = ctxp_story_name_at(r->s, r->json, ctxp_content_path(r->json, input));
  call->input = ctxp_story_span(r->s, r->json, input);
}

static void read_result(struct reader *r, uint32_t part) {
  uint32_t id = name_of(r, part, "callID"), known = ctxp_slots_get(&r->s->call_of, id), number;
  uint32_t state = ctxp_json_get(r->json, part, "state"), output = ctxp_json_get(r->json, state, "output");
  uint32_t error = ctxp_json_get(r->json, state, "error");
  bool failed = ctxp_json_type(r->json, output) != CTXP_JSON_STRING,
       read = ctxp_json_is(r->json, ctxp_json_get(r->json, part, "tool"), "read");
  if (failed) output = error;
  if (!id || !known || ctxp_json_type(r->json, output) != CTXP_JSON_STRING) return;
  struct ctxp_story_message *m =
      ctxp_story_message(r->s, CTXP_ROLE_tool, read ? CTXP_BAND_file_view : CTXP_BAND_tool_output, 0, &number);
  ctxp_story_add_text(r->json, m, output);
  m->id = m->answers = id;
  m->tool = r->s->calls[known - 1].name;
  if (read) m->label = r->s->calls[known - 1].path;
  m->failed = failed;
  m->result = true;
  m->text = ctxp_story_span(r->s, r->json, output);
  ctxp_request_add(r->s, &r->window, number, CTXP_STORY_OWN_BAND);
}

static void add_part(struct reader *r, uint32_t number, uint32_t part) {
  struct ctxp_story_message *m = &r->s->messages[number];
  struct ctxp_str type = ctxp_json_text(r->json, ctxp_json_get(r->json, part, "type"));
  if (ctxp_str_is(type, "text")) {
    ctxp_story_add_text(r->json, m, ctxp_json_get(r->json, part, "text"));
  } else if (ctxp_str_is(type, "reasoning")) {
    m->thinks = true;
    ctxp_story_add_thinking(r->json, m, ctxp_json_get(r->json, part, "text"));
  } else if (ctxp_str_is(type, "file")) {
    ctxp_story_add_image(m);
  } else if (ctxp_str_is(type, "tool")) {
    read_call(r, number, part);
  } else if (!ctxp_str_starts(type, "step-")) {
    ctxp_notes_passed(r->t->notes, type);
  }
}

static void read_message(struct reader *r, uint32_t message) {
  uint32_t info = ctxp_json_get(r->json, message, "info"), parts = ctxp_json_get(r->json, message, "parts"), id = name_of(r, info, "id");
  bool reply = ctxp_json_is(r->json, ctxp_json_get(r->json, info, "role"), "assistant"), summary;
  uint32_t number;
  if (!id) {
    ctxp_notes_passed(r->t->notes, CTXP_STR("message without an id"));
    return;
  }
  summary = reply && ctxp_json_bool(r->json, ctxp_json_get(r->json, info, "summary"), false);
  if (reply) read_prompt(r, info, id);
  struct ctxp_story_message *m = ctxp_story_message(r->s, reply ? CTXP_ROLE_assistant : CTXP_ROLE_user,
      summary   ? CTXP_BAND_history :
          reply ? CTXP_BAND_assistant :
                  CTXP_BAND_user_prompt,
      0, &number);
  m->id = id;
  m->person = !reply;
  if (summary) ctxp_request_cut(&r->window, 0);
  if (!r->s->failed) ctxp_request_add(r->s, &r->window, number, CTXP_STORY_OWN_BAND);
  for (uint32_t it = parts; !r->s->failed && ctxp_json_each(r->json, parts, &it);) add_part(r, number, it);
  if (summary) ctxp_story_compaction(r->s, number, 0);
  for (uint32_t it = parts; !r->s->failed && ctxp_json_each(r->json, parts, &it);)
    if (ctxp_json_is(r->json, ctxp_json_get(r->json, it, "type"), "tool")) read_result(r, it);
}

static int opencode_index(struct ctxp_transcript *t, struct ctxp_error *err) {
  struct reader r = {.t = t, .s = ctxp_story_new(t), .json = t->json};
  if (!r.s) return -ENOMEM;
  int got = ctxp_transcript_document(t, &r.s->document, err);
  if (got < 0) return got;
  uint32_t info = ctxp_json_get(r.json, 0, "info"), messages = ctxp_json_get(r.json, 0, "messages");
  r.s->session = name_of(&r, info, "id");
  r.s->cwd = name_of(&r, info, "directory");
  for (uint32_t it = messages; got == 0 && ctxp_json_each(r.json, messages, &it);) {
    got = ctxp_story_part(t, it, time_of(&r, ctxp_json_get(r.json, it, "info")));
    if (got == 0) read_message(&r, it);
  }
  if (r.s->failed || t->json->failed) got = -ENOMEM;
  if (got == 0) got = ctxp_story_finish(t);
  ctxp_request_deinit(&r.window);
  return got;
}

static bool detect_document(struct ctxp_json *json) {
  return ctxp_json_type(json, ctxp_json_get(json, 0, "messages")) == CTXP_JSON_ARRAY &&
      ctxp_json_type(json, ctxp_json_get(json, ctxp_json_get(json, 0, "info"), "id")) == CTXP_JSON_STRING;
}

const struct ctxp_format ctxp_format_opencode = {
    .name = "opencode", .detect_document = detect_document, .index = opencode_index, .emit = ctxp_story_emit, .close = ctxp_story_close};
