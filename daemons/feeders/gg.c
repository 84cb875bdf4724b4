/* gg: telemetry, one event a line. Messages are defined once in their agent's pool; a prompt lists those that were in its request, each
 * with the band that it had there. A stream without any prompt has only the tokens of its calls. */
#include <errno.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "feeders/story.h"
#include "tokens/estimate.h"
#include "tokens/pieces.h"

struct agent { /* with its window and its pool */
  struct ctxp_request window;
  uint32_t name, model; /* names */
};
struct reader {
  struct ctxp_transcript *t;
  struct ctxp_story *s;
  struct ctxp_json *json;
  struct agent *agents;
  uint32_t agent_count, agent_cap;
  struct ctxp_slots agent_of, pool; /* by name of the agent: + 1; by name of "agent id": message + 1 */
  struct ctxp_slots bare; /* prompts that only a `usage` told of */
  bool windows; /* the stream tells what the requests held */
};

static uint32_t name_of(struct reader *r, uint32_t object, const char *key) {
  return ctxp_story_name_at(r->s, r->json, ctxp_json_get(r->json, object, key));
}

static struct agent *agent_of(struct reader *r) {
  uint32_t name = name_of(r, 0, "agentId"), known;
  if (ctxp_texts_text(&r->s->names, name).len > CTXP_WINDOW_NAME_MAX) name = 0;
  known = ctxp_slots_get(&r->agent_of, name);
  if (known) return &r->agents[known - 1];
  if (ctxp_grow(&r->agents, &r->agent_cap, r->agent_count, sizeof(*r->agents)) < 0 ||
      ctxp_slots_set(&r->agent_of, name, r->agent_count + 1) < 0) {
    r->s->failed = true;
    return NULL;
  }
  uint32_t parent = name_of(r, 0, "parentAgentId");
  if (parent && parent != name && ctxp_slots_set(&r->s->spawned_by, name, parent + 1) < 0) r->s->failed = true;
  r->agents[r->agent_count] = (struct agent){.name = name};
  return &r->agents[r->agent_count++];
}

/* The message of that id in the agent's pool. `define`: a new one, which later requests mean; else one that may not be defined yet. */
static uint32_t message_of(
    struct reader *r, const struct agent *agent, uint32_t id, bool define, enum ctxp_role role, enum ctxp_band band) {
  struct ctxp_story *s = r->s;
  ctxp_buf_reset(&s->scratch);
  struct ctxp_str text = ctxp_texts_text(&s->names, id);
  ctxp_buf_printf(&s->scratch, "%u ", agent->name);
  ctxp_buf_add(&s->scratch, text.ptr, text.len);
  uint32_t key = ctxp_story_name(s, ctxp_buf_view(&s->scratch)), number = ctxp_slots_get(&r->pool, key), steps = s->step_count;
  if (number && !define) return number - 1;
  ctxp_story_message(s, role, band, agent->name, &number)->id = id;
  if (!define) s->step_count = steps; /* nothing is said of it */
  if (ctxp_slots_set(&r->pool, key, number + 1) < 0) s->failed = true;
  return number;
}

/* the pieces of a message whose text is told, with its calls */
static uint64_t pieces_of(struct reader *r, uint32_t content, const struct ctxp_story_message *m) {
  uint32_t calls = ctxp_json_get(r->json, 0, "toolCalls");
  bool reply = m->role == CTXP_ROLE_assistant;
  uint64_t sum = reply ? CTXP_PIECES_REPLY + CTXP_PIECES_REPLY_TEXT : CTXP_PIECES_MESSAGE;
  if (ctxp_json_type(r->json, content) != CTXP_JSON_STRING) return 0;
  sum += ctxp_pieces(ctxp_json_text(r->json, content)) + (uint64_t)CTXP_PIECES_IMAGE * m->images;
  for (uint32_t it = calls; ctxp_json_each(r->json, calls, &it);)
    sum += ctxp_content_call_pieces(r->json, ctxp_json_get(r->json, it, "name"), ctxp_json_get(r->json, it, "args"));
  return sum;
}

static void read_calls(struct reader *r, uint32_t message) {
  uint32_t calls = ctxp_json_get(r->json, 0, "toolCalls");
  for (uint32_t it = calls; ctxp_json_each(r->json, calls, &it);) {
    uint32_t id = name_of(r, it, "id"), args = ctxp_json_get(r->json, it, "args");
    if (!id) continue;
    struct ctxp_story_call *call = ctxp_story_call(r->s, message, id, name_of(r, it, "name"));
    call->path = name_of(r, args, "path");
    call->tokens = (uint32_t)(ctxp_chars4(ctxp_json_units(r->json, ctxp_json_get(r->json, it, "name"))) +
        ctxp_chars4(ctxp_json_compact_units(r->json, args)));
    uint32_t content = ctxp_json_get(r->json, args, "content");
    call->content_tokens = (uint32_t)ctxp_chars4(ctxp_json_units(r->json, content));
    call->input = ctxp_story_span(r->s, r->json, args);
  }
}

static void read_definition(struct reader *r, const struct agent *agent) {
  static const struct {
    const char *role;
    enum ctxp_role is;
    enum ctxp_band band;
  } roles[] = {
      {"system", CTXP_ROLE_system, CTXP_BAND_system}, {"user", CTXP_ROLE_user, CTXP_BAND_user_prompt},
      {"assistant", CTXP_ROLE_assistant, CTXP_BAND_assistant}, {"tool", CTXP_ROLE_tool, CTXP_BAND_tool_output}};
  uint32_t role = ctxp_json_get(r->json, 0, "role"), id = name_of(r, 0, "id"), content = ctxp_json_get(r->json, 0, "content");
  unsigned is = 1;
  for (unsigned i = 0; i < 4; i++)
    if (ctxp_json_is(r->json, role, roles[i].role)) is = i;
  r->windows = true;
  if (!id) return;
  uint32_t number = message_of(r, agent, id, true, roles[is].is, roles[is].band);
  if (r->s->failed) return;
  struct ctxp_story_message *m = &r->s->messages[number];
  m->tokens = ctxp_json_u64(r->json, ctxp_json_get(r->json, 0, "tokens"), 0);
  m->units = ctxp_json_units(r->json, content);
  m->label = name_of(r, 0, "label");
  m->answers = name_of(r, 0, "toolCallId");
  m->images = ctxp_json_size(r->json, ctxp_json_get(r->json, 0, "images"));
  m->pieces = pieces_of(r, content, m);
  m->result = is == 3 && m->answers;
  m->text = ctxp_story_span(r->s, r->json, content);
  uint32_t call = m->answers ? ctxp_slots_get(&r->s->call_of, m->answers) : 0;
  if (call) m->tool = r->s->calls[call - 1].name;
  read_calls(r, number);
}

static uint64_t tokens_at(struct reader *r, uint32_t tokens, const char *key) {
  return ctxp_json_u64(r->json, ctxp_json_get(r->json, tokens, key), 0);
}

static void read_tokens(struct reader *r, const struct agent *agent, struct ctxp_story_prompt *p) {
  uint32_t tokens = ctxp_json_get(r->json, 0, "tokens");
  char hex[CTXP_HASH_HEX];
  struct ctxp_str source = ctxp_json_source(r->json, 0);
  ctxp_hash128_hex(ctxp_hash128(source.ptr, source.len), hex);
  p->call_id = ctxp_story_name(r->s, ctxp_str(hex));
  p->model = agent->model;
  p->usage.input = tokens_at(r, tokens, "uncachedInput");
  ctxp_set(&p->usage, usage, cacheRead, tokens_at(r, tokens, "cachedInput"));
  ctxp_set(&p->usage, usage, output, tokens_at(r, tokens, "output"));
  ctxp_set(&p->usage, usage, reasoning, tokens_at(r, tokens, "reasoning"));
  p->reported = p->usage.input || p->usage.cacheRead || p->usage.output;
}

static void read_prompt(struct reader *r, struct agent *agent) {
  uint32_t request = ctxp_json_get(r->json, 0, "request"), place = 0;
  for (uint32_t it = request; !r->s->failed && ctxp_json_each(r->json, request, &it);) {
    uint32_t id = name_of(r, it, "id");
    enum ctxp_band band;
    bool known = ctxp_band_parse(ctxp_json_text(r->json, ctxp_json_get(r->json, it, "source")), &band);
    if (!id) continue;
    uint32_t message = message_of(r, agent, id, false, CTXP_ROLE_user, known ? band : CTXP_BAND_user_prompt);
    uint8_t shown = known ? (uint8_t)band : CTXP_STORY_OWN_BAND;
    const struct ctxp_story_ref *there = place < agent->window.count ? &agent->window.items[place] : NULL;
    if (!there || there->message != message || there->band != shown) {
      ctxp_request_cut(&agent->window, place);
      ctxp_request_add(r->s, &agent->window, message, shown);
    }
    place++;
  }
  ctxp_request_cut(&agent->window, place);
  read_tokens(r, agent, ctxp_story_prompt(r->s, &agent->window, place, agent->name));
  r->windows = true;
}

static void read_usage(struct reader *r, struct agent *agent) {
  struct ctxp_request none = {0};
  read_tokens(r, agent, ctxp_story_prompt(r->s, &none, 0, agent->name));
  if (r->s->prompt_count && ctxp_slots_set(&r->bare, r->s->prompt_count - 1, 1) < 0) r->s->failed = true;
}

static void read_line(struct reader *r, const struct ctxp_line *line) {
  struct ctxp_str type = ctxp_json_text(r->json, ctxp_json_get(r->json, 0, "type"));
  uint64_t ts_ms;
  if (ctxp_time_parse(ctxp_json_text(r->json, ctxp_json_get(r->json, 0, "timestamp")), &ts_ms) < 0) ts_ms = 0;
  ctxp_story_record(r->s, line->offset, line->bytes, ts_ms, r->json->text.ptr != line->text.ptr);
  if (!r->s->session) r->s->session = name_of(r, 0, "sessionId");
  struct agent *agent = agent_of(r);
  if (!agent) return;
  if (ctxp_str_is(type, "context_message")) {
    read_definition(r, agent);
  } else if (ctxp_str_is(type, "prompt")) {
    read_prompt(r, agent);
  } else if (ctxp_str_is(type, "agent_spawned")) {
    uint32_t model = name_of(r, 0, "modelId");
    if (model) agent->model = model;
  } else if (ctxp_str_is(type, "usage")) {
    read_usage(r, agent);
  } else {
    ctxp_notes_passed(r->t->notes, type);
  }
}

/* where windows are told, prompts tell what the usages do; definitions come first, so that a growing file never says otherwise */
static void drop_bare(struct ctxp_story *s, const struct ctxp_slots *bare) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->step_count; i++)
    if (s->steps[i].kind != CTXP_STORY_PROMPT || !ctxp_slots_get(bare, s->steps[i].number)) s->steps[kept++] = s->steps[i];
  s->step_count = kept;
}

static int gg_index(struct ctxp_transcript *t, struct ctxp_error *err) {
  struct ctxp_line line;
  struct reader r = {.t = t, .s = ctxp_story_new(t), .json = t->json};
  int got = -ENOMEM;
  (void)err;
  while (r.s && !r.s->failed && !t->json->failed && (got = ctxp_transcript_line(t, &line)) > 0) read_line(&r, &line);
  if (r.s && (r.s->failed || t->json->failed)) got = -ENOMEM;
  if (got == 0 && r.windows) drop_bare(r.s, &r.bare);
  if (got == 0) got = ctxp_story_finish(t);
  for (uint32_t i = 0; i < r.agent_count; i++) ctxp_request_deinit(&r.agents[i].window);
  free(r.agents);
  ctxp_slots_deinit(&r.agent_of);
  ctxp_slots_deinit(&r.pool);
  ctxp_slots_deinit(&r.bare);
  return got;
}

static bool detect(struct ctxp_json *json) {
  static const char *const types[] = {"session_started", "agent_spawned", "context_message", "prompt", "turn_started", "usage",
      "slot_usage", "context_breakdown", "assistant_message"};
  uint32_t type = ctxp_json_get(json, 0, "type");
  if (ctxp_json_type(json, ctxp_json_get(json, 0, "timestamp")) != CTXP_JSON_STRING || ctxp_json_get(json, 0, "uuid") != CTXP_JSON_NONE ||
      ctxp_json_get(json, 0, "message") != CTXP_JSON_NONE)
    return false;
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
    if (ctxp_json_is(json, type, types[i])) return true;
  return false;
}

const struct ctxp_format ctxp_format_gg = {
    .name = "gg", .detect = detect, .index = gg_index, .emit = ctxp_story_emit, .close = ctxp_story_close};
