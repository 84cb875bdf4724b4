/* Codex CLI: rollouts, {timestamp, type, payload} a line.
 *
 * The items of the conversation make up the window; a count of tokens reports a call. Where that stands differs by version: before the
 * items of its reply, or behind them. A fork copies the items and the counts of the session that it came from, with new timestamps, so a
 * call is known by its counts and by the items since the count before, within the family of that session. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "feeders/script.h"
#include "feeders/story.h"
#include "tokens/estimate.h"
#include "tokens/pieces.h"

enum item { ITEM_OTHER,
  ITEM_PERSON,
  ITEM_REPLY,
  ITEM_OUTPUT };

struct usage {
  uint64_t input, cached, output, reasoning;
};

struct reader {
  struct ctxp_transcript *t;
  struct ctxp_story *s;
  struct ctxp_json *json;
  struct ctxp_request window;
  uint8_t *items; /* enum item, by place in the window */
  uint32_t item_cap, model, family /* name */, nested /* items of this record so far */;
  uint32_t open; /* the prompt whose reply is being read, behind its count: + 1 */
  uint64_t line, chain; /* chain: hash of the items since the last count */
  struct usage total; /* cumulative, of the last count */
  bool counted, before, replied; /* before: counts stand before their replies */
  bool compacted; /* the items at hand stand within another record */
  struct ctxp_buf scratch;
};

static struct ctxp_str text_at(struct reader *r, uint32_t object, const char *key) {
  return ctxp_json_text(r->json, ctxp_json_get(r->json, object, key));
}

/* ---- items ---- */
static void add_reply(struct ctxp_story_prompt *p, uint32_t message) {
  if (!p->reply) p->reply = message + 1;
  p->replies = message + 2 - p->reply;
}

static void place(struct reader *r, uint32_t message, enum item item) {
  if (ctxp_grow(&r->items, &r->item_cap, r->window.count, sizeof(*r->items)) < 0) {
    r->s->failed = true;
    return;
  }
  r->items[r->window.count] = (uint8_t)item;
  ctxp_request_add(r->s, &r->window, message, CTXP_STORY_OWN_BAND);
  r->replied |= item == ITEM_REPLY;
  if (item != ITEM_REPLY && item != ITEM_OUTPUT) r->open = 0;
  if (item == ITEM_REPLY && r->open) add_reply(&r->s->prompts[r->open - 1], message);
}

static void mix(struct reader *r, uint32_t value) {
  struct ctxp_str source = ctxp_json_source(r->json, value);
  r->chain = ctxp_hash64(source.ptr, source.len, r->chain);
}

static struct ctxp_story_message *new_message(
    struct reader *r, enum ctxp_role role, enum ctxp_band band, enum item item, uint32_t *ret_number) {
  uint32_t number;
  ctxp_buf_reset(&r->scratch);
  ctxp_buf_printf(&r->scratch, "line:%llu", (unsigned long long)r->line);
  if (r->nested) ctxp_buf_printf(&r->scratch, ".%u", r->nested);
  r->nested++;
  struct ctxp_story_message *m = ctxp_story_message(r->s, role, band, 0, &number);
  m->id = ctxp_story_name(r->s, ctxp_buf_view(&r->scratch));
  place(r, number, item);
  if (ret_number) *ret_number = number;
  return m;
}

static void set_content(struct reader *r, struct ctxp_story_message *m, uint32_t content) {
  struct ctxp_content sum = {0};
  ctxp_content_all(r->json, content, &sum);
  m->tokens = sum.tokens;
  m->units = sum.units;
  m->pieces += sum.pieces + (m->role == CTXP_ROLE_assistant ? CTXP_PIECES_REPLY_TEXT * sum.texts : 0);
  m->images = sum.images;
  mix(r, content);
}

/* what the client itself says to the model in the person's place */
static enum ctxp_band user_band(struct ctxp_str text) {
  if (ctxp_str_starts(text, "# AGENTS.md instructions for") || ctxp_str_starts(text, "<user_instructions>")) return CTXP_BAND_memory;
  if (ctxp_str_starts(text, "<environment_context>") || ctxp_str_starts(text, "<permissions instructions>") ||
      ctxp_str_starts(text, "<turn_aborted>"))
    return CTXP_BAND_system;
  return ctxp_str_starts(text, "<skill>") ? CTXP_BAND_skill : CTXP_BAND_user_prompt;
}

static struct ctxp_str first_text(struct reader *r, uint32_t content) {
  uint32_t it = content;
  if (ctxp_json_type(r->json, content) == CTXP_JSON_STRING) return ctxp_json_text(r->json, content);
  return ctxp_json_each(r->json, content, &it) ? text_at(r, it, "text") : (struct ctxp_str){"", 0};
}

static void read_message(struct reader *r, uint32_t payload) {
  uint32_t content = ctxp_json_get(r->json, payload, "content"), role = ctxp_json_get(r->json, payload, "role");
  struct ctxp_story_message *m;
  if (ctxp_json_is(r->json, role, "assistant")) {
    m = new_message(r, CTXP_ROLE_assistant, CTXP_BAND_assistant, ITEM_REPLY, NULL);
  } else if (ctxp_json_is(r->json, role, "user")) {
    enum ctxp_band band = user_band(first_text(r, content));
    bool person = band == CTXP_BAND_user_prompt;
    m = new_message(r, CTXP_ROLE_user, band, person ? ITEM_PERSON : ITEM_OTHER, NULL);
    m->person = person;
  } else {
    m = new_message(r, CTXP_ROLE_system, CTXP_BAND_system, ITEM_OTHER, NULL);
  }
  set_content(r, m, content);
}

/* the script of a shell call: {"command": ["bash", "-lc", SCRIPT]}, {"command": SCRIPT} or {"cmd": SCRIPT} */
static struct ctxp_str script_of(struct reader *r) {
  uint32_t command = ctxp_json_get(r->json, 0, "command"), last = CTXP_JSON_NONE;
  if (command == CTXP_JSON_NONE) command = ctxp_json_get(r->json, 0, "cmd");
  if (ctxp_json_type(r->json, command) == CTXP_JSON_STRING) return ctxp_json_text(r->json, command);
  for (uint32_t it = command; ctxp_json_each(r->json, command, &it);) last = it;
  return ctxp_json_text(r->json, last);
}

/* Looks into the arguments, which are JSON in a string: what was run, and what it reads. The line's own tokens are gone after it. */
static void read_arguments(struct reader *r, struct ctxp_story_call *call, uint32_t arguments) {
  ctxp_auto_buf inner = {0};
  ctxp_json_unescape(ctxp_json_escaped(r->json, arguments), &inner);
  if (inner.failed) r->s->failed = true;
  if (!inner.len || r->json->failed || ctxp_json_load(r->json, ctxp_buf_view(&inner), NULL) < 0) return;
  struct ctxp_str script = script_of(r);
  if (script.len) call->command = ctxp_story_name(r->s, script);
  call->path = script.len ? ctxp_story_name(r->s, ctxp_script_reads(script, &r->scratch)) :
                            ctxp_story_name_at(r->s, r->json, ctxp_content_path(r->json, 0));
}

static void read_call(struct reader *r, uint32_t payload) {
  uint32_t number, name = ctxp_json_get(r->json, payload, "name"), id = ctxp_json_get(r->json, payload, "call_id");
  uint32_t input = ctxp_json_get(r->json, payload, "arguments"), custom = ctxp_json_get(r->json, payload, "input");
  bool json = input != CTXP_JSON_NONE;
  if (!json) input = custom != CTXP_JSON_NONE ? custom : ctxp_json_get(r->json, payload, "action");
  struct ctxp_story_message *m = new_message(r, CTXP_ROLE_assistant, CTXP_BAND_assistant, ITEM_REPLY, &number);
  bool string = ctxp_json_type(r->json, input) == CTXP_JSON_STRING;
  ctxp_story_add_text(r->json, m, name);
  ctxp_story_add_json(r->json, m, input);
  uint64_t tokens = m->tokens;
  mix(r, id);
  mix(r, input);
  if (!ctxp_json_text(r->json, id).len) return;
  struct ctxp_story_call *call =
      ctxp_story_call(r->s, number, ctxp_story_name_at(r->s, r->json, id), ctxp_story_name_at(r->s, r->json, name));
  call->tokens = (uint32_t)tokens;
  if (string && json) {
    call->input = ctxp_story_span(r->s, r->json, input);
    call->text = true;
    if (!r->compacted) read_arguments(r, call, input);
  } else if (string) { /* a patch, a program */
    call->content_tokens = (uint32_t)ctxp_chars4(ctxp_json_units(r->json, input));
  }
}

static void read_output(struct reader *r, uint32_t payload) {
  uint32_t output = ctxp_json_get(r->json, payload, "output"),
           id = ctxp_story_name_at(r->s, r->json, ctxp_json_get(r->json, payload, "call_id"));
  uint32_t known = ctxp_slots_get(&r->s->call_of, id), inner = output;
  if (ctxp_json_type(r->json, output) == CTXP_JSON_OBJECT) inner = ctxp_json_get(r->json, output, "content");
  struct ctxp_story_message *m = new_message(r, CTXP_ROLE_tool, CTXP_BAND_tool_output, ITEM_OUTPUT, NULL);
  set_content(r, m, inner);
  m->answers = id;
  m->result = id != 0;
  m->wrapped = true;
  m->text = ctxp_story_span(r->s, r->json, inner);
  if (known) m->tool = r->s->calls[known - 1].name;
}

static void read_reasoning(struct reader *r, uint32_t payload) {
  struct ctxp_story_message *m = new_message(r, CTXP_ROLE_assistant, CTXP_BAND_assistant, ITEM_REPLY, NULL);
  uint32_t encrypted = ctxp_json_get(r->json, payload, "encrypted_content");
  m->thinks = true;
  m->pieces = 1; /* all of it is thinking, which the counts tell */
  m->signature_units = ctxp_json_units(r->json, encrypted);
  mix(r, encrypted);
}

static void pass_over(struct reader *r, const char *type, struct ctxp_str inner) {
  ctxp_buf_reset(&r->scratch);
  ctxp_buf_printf(&r->scratch, "%s%s%.*s", type, inner.len ? "/" : "", (int)(inner.len < 64 ? inner.len : 64), inner.ptr);
  ctxp_notes_passed(r->t->notes, ctxp_buf_view(&r->scratch));
}

static void read_item(struct reader *r, uint32_t payload) {
  struct ctxp_str type = text_at(r, payload, "type");
  if (ctxp_str_is(type, "message")) {
    read_message(r, payload);
  } else if (ctxp_str_is(type, "reasoning")) {
    read_reasoning(r, payload);
  } else if (ctxp_str_ends(type, "_call_output")) {
    read_output(r, payload);
  } else if (ctxp_str_ends(type, "_call")) {
    read_call(r, payload);
  } else if (ctxp_str_is(type, "compaction") || ctxp_str_is(type, "compaction_summary")) {
    ctxp_story_add_json(r->json, new_message(r, CTXP_ROLE_user, CTXP_BAND_history, ITEM_OTHER, NULL), payload);
  } else {
    pass_over(r, "response_item", type);
  }
}

/* ---- the window ---- */
static void cut(struct reader *r, uint32_t count) { ctxp_request_cut(&r->window, count); }

/* the last n of the person's messages go, with all behind them */
static void roll_back(struct reader *r, uint64_t turns) {
  uint32_t at = r->window.count;
  while (at && turns)
    if (r->items[--at] == ITEM_PERSON) turns--;
  if (!turns) cut(r, at);
}

static void read_compacted(struct reader *r, uint32_t payload) {
  uint32_t history = ctxp_json_get(r->json, payload, "replacement_history"), message = ctxp_json_get(r->json, payload, "message");
  uint32_t system = r->window.count && r->s->messages[r->window.items[0].message].role == CTXP_ROLE_system && r->items[0] == ITEM_OTHER;
  cut(r, system);
  if (ctxp_json_type(r->json, history) == CTXP_JSON_ARRAY) {
    r->compacted = true;
    for (uint32_t it = history; ctxp_json_each(r->json, history, &it);) read_item(r, it);
    r->compacted = false;
  } else {
    ctxp_story_add_text(r->json, new_message(r, CTXP_ROLE_user, CTXP_BAND_history, ITEM_OTHER, NULL), message);
  }
  r->chain = 0;
  if (r->window.count) ctxp_story_compaction(r->s, r->window.items[r->window.count - 1].message, 0);
}

/* ---- counts ---- */
static bool read_usage(struct reader *r, uint32_t usage, struct usage *ret) {
  static const struct ctxp_str keys[] = {
      {"input_tokens", 12}, {"cached_input_tokens", 19}, {"output_tokens", 13}, {"reasoning_output_tokens", 23}};
  uint32_t at[4];
  if (ctxp_json_type(r->json, usage) != CTXP_JSON_OBJECT) return false;
  ctxp_json_pick(r->json, usage, keys, 4, at);
  *ret = (struct usage){ctxp_json_u64(r->json, at[0], 0), ctxp_json_u64(r->json, at[1], 0), ctxp_json_u64(r->json, at[2], 0),
      ctxp_json_u64(r->json, at[3], 0)};
  return true;
}

static struct usage difference(struct usage now, struct usage then) {
  if (now.input < then.input || now.cached < then.cached || now.output < then.output || now.reasoning < then.reasoning) return now;
  return (struct usage){now.input - then.input, now.cached - then.cached, now.output - then.output, now.reasoning - then.reasoning};
}

static uint32_t call_identity(struct reader *r, struct usage last) {
  const uint64_t figures[] = {r->total.input, r->total.cached, r->total.output, r->total.reasoning, last.input, last.cached, last.output,
      last.reasoning, r->chain};
  struct ctxp_str family = ctxp_texts_text(&r->s->names, r->family);
  char hex[CTXP_HASH_HEX];
  ctxp_hash128_hex(ctxp_hash128(figures, sizeof(figures)), hex);
  ctxp_buf_reset(&r->scratch);
  ctxp_buf_printf(&r->scratch, "%.*s/%s", (int)(family.len < CTXP_WINDOW_NAME_MAX ? family.len : 0), family.ptr, hex);
  return ctxp_story_name(r->s, ctxp_buf_view(&r->scratch));
}

/* how much of the window was in the request that this count reports */
static uint32_t request_of(const struct reader *r) {
  uint32_t count = r->window.count;
  while (!r->before && count && r->items[count - 1] == ITEM_OUTPUT) count--;
  while (count && r->items[count - 1] == ITEM_REPLY) count--;
  return count;
}

static void read_count(struct reader *r, uint32_t payload) {
  uint32_t info = ctxp_json_get(r->json, payload, "info");
  struct usage total, last;
  if (!read_usage(r, ctxp_json_get(r->json, info, "total_token_usage"), &total)) return;
  bool same = r->counted && total.input == r->total.input && total.output == r->total.output;
  if (same || (!total.input && !total.output)) return;
  if (!read_usage(r, ctxp_json_get(r->json, info, "last_token_usage"), &last)) last = difference(total, r->total);
  if (!r->counted) r->before = !r->replied;
  r->total = total;
  uint32_t count = request_of(r), id = call_identity(r, last);
  struct ctxp_story_prompt *p = ctxp_story_prompt(r->s, &r->window, count, 0);
  p->call_id = id;
  p->model = r->model;
  for (uint32_t i = count; i < r->window.count; i++)
    if (r->items[i] == ITEM_REPLY) add_reply(p, r->window.items[i].message);
  r->open = r->before ? r->s->prompt_count : 0;
  if (last.cached > last.input) last.cached = last.input;
  p->usage.input = last.input - last.cached;
  ctxp_set(&p->usage, usage, cacheRead, last.cached);
  ctxp_set(&p->usage, usage, output, last.output);
  ctxp_set(&p->usage, usage, reasoning, last.reasoning);
  p->reported = last.input || last.output;
  r->counted = true;
  r->chain = 0;
}

/* ---- lines ---- */
static void read_meta(struct reader *r, uint32_t payload) {
  struct ctxp_story *s = r->s;
  uint32_t instructions = ctxp_json_get(r->json, ctxp_json_get(r->json, payload, "base_instructions"), "text");
  uint32_t id = ctxp_story_name_at(s, r->json, ctxp_json_get(r->json, payload, "id"));
  uint32_t origin = ctxp_story_name_at(s, r->json, ctxp_json_get(r->json, payload, "forked_from_id"));
  bool first = !s->session;
  if (!r->window.count || first) r->family = origin ? origin : id;
  if (!first) { /* of the session that this one was forked from */
    if (!r->counted) r->family = origin ? origin : id;
    return;
  }
  s->session = id;
  s->cwd = ctxp_story_name_at(s, r->json, ctxp_json_get(r->json, payload, "cwd"));
  s->branch = ctxp_story_name_at(s, r->json, ctxp_json_get(r->json, ctxp_json_get(r->json, payload, "git"), "branch"));
  if (ctxp_json_type(r->json, instructions) != CTXP_JSON_STRING) instructions = ctxp_json_get(r->json, payload, "instructions");
  if (ctxp_json_units(r->json, instructions))
    ctxp_story_add_text(r->json, new_message(r, CTXP_ROLE_system, CTXP_BAND_system, ITEM_OTHER, NULL), instructions);
}

/* what the client itself found that a command reads */
static void read_command_end(struct reader *r, uint32_t payload) {
  uint32_t parsed = ctxp_json_get(r->json, payload, "parsed_cmd"), path = 0;
  uint32_t call = ctxp_slots_get(&r->s->call_of, ctxp_story_name_at(r->s, r->json, ctxp_json_get(r->json, payload, "call_id")));
  bool one = true;
  for (uint32_t it = parsed; ctxp_json_each(r->json, parsed, &it);) {
    uint32_t name = ctxp_story_name_at(r->s, r->json, ctxp_json_get(r->json, it, "path"));
    one = one && name && ctxp_json_is(r->json, ctxp_json_get(r->json, it, "type"), "read") && (!path || path == name);
    path = name;
  }
  if (call && one && path) r->s->calls[call - 1].path = path;
}

static void read_event(struct reader *r, uint32_t payload) {
  struct ctxp_str type = text_at(r, payload, "type");
  if (ctxp_str_is(type, "token_count"))
    read_count(r, payload);
  else if (ctxp_str_is(type, "thread_rolled_back"))
    roll_back(r, ctxp_json_u64(r->json, ctxp_json_get(r->json, payload, "num_turns"), 0));
  else if (ctxp_str_is(type, "exec_command_end"))
    read_command_end(r, payload);
  else
    pass_over(r, "event_msg", type);
}

static void read_line(struct reader *r, const struct ctxp_line *line) {
  static const struct ctxp_str keys[] = {{"type", 4}, {"payload", 7}, {"timestamp", 9}};
  uint32_t at[3];
  uint64_t ts_ms = 0;
  ctxp_json_pick(r->json, 0, keys, 3, at);
  if (ctxp_time_parse(ctxp_json_text(r->json, at[2]), &ts_ms) < 0) ts_ms = 0;
  ctxp_story_record(r->s, line->offset, line->bytes, ts_ms, r->json->text.ptr != line->text.ptr);
  r->line = line->number;
  r->nested = 0;
  struct ctxp_str type = ctxp_json_text(r->json, at[0]);
  if (ctxp_json_type(r->json, at[1]) != CTXP_JSON_OBJECT) {
    pass_over(r, "line without a payload", (struct ctxp_str){"", 0});
  } else if (ctxp_str_is(type, "response_item")) {
    read_item(r, at[1]);
  } else if (ctxp_str_is(type, "event_msg")) {
    read_event(r, at[1]);
  } else if (ctxp_str_is(type, "session_meta")) {
    read_meta(r, at[1]);
  } else if (ctxp_str_is(type, "turn_context")) {
    struct ctxp_str model = text_at(r, at[1], "model");
    if (model.len) r->model = ctxp_story_name(r->s, model);
  } else if (ctxp_str_is(type, "compacted")) {
    read_compacted(r, at[1]);
  } else {
    ctxp_notes_passed(r->t->notes, type);
  }
}

static int finish(struct reader *r) {
  struct ctxp_story *s = r->s;
  for (uint32_t i = 0; i < s->message_count; i++) {
    struct ctxp_story_message *m = &s->messages[i];
    uint32_t call = m->answers ? ctxp_slots_get(&s->call_of, m->answers) : 0;
    if (!call || !s->calls[call - 1].path || !s->calls[call - 1].command) continue;
    m->band = CTXP_BAND_file_view;
    m->label = s->calls[call - 1].path;
  }
  return ctxp_story_finish(r->t);
}

static int codex_index(struct ctxp_transcript *t, struct ctxp_error *err) {
  struct ctxp_line line;
  struct reader r = {.t = t, .s = ctxp_story_new(t), .json = t->json};
  int got = -ENOMEM;
  (void)err;
  while (r.s && !r.s->failed && !t->json->failed && (got = ctxp_transcript_line(t, &line)) > 0) read_line(&r, &line);
  if (r.s && (r.s->failed || t->json->failed || r.scratch.failed)) got = -ENOMEM;
  if (got == 0) got = finish(&r);
  ctxp_request_deinit(&r.window);
  free(r.items);
  ctxp_buf_deinit(&r.scratch);
  return got;
}

static bool detect(struct ctxp_json *json) {
  uint32_t type = ctxp_json_get(json, 0, "type"), payload = ctxp_json_get(json, 0, "payload");
  return ctxp_json_type(json, payload) == CTXP_JSON_OBJECT &&
      (ctxp_json_is(json, type, "session_meta") || ctxp_json_is(json, type, "response_item") || ctxp_json_is(json, type, "event_msg") ||
          ctxp_json_is(json, type, "turn_context") || ctxp_json_is(json, type, "compacted"));
}

const struct ctxp_format ctxp_format_codex = {
    .name = "codex", .detect = detect, .index = codex_index, .emit = ctxp_story_emit, .close = ctxp_story_close};
