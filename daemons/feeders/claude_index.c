/* First pass over a file of Claude Code: what each line is. */
#include <errno.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/hash.h"
#include "feeders/claude.h"
#include "feeders/content.h"
#include "tokens/estimate.h"
#include "tokens/pieces.h"

enum {
  K_TYPE,
  K_UUID,
  K_PARENT,
  K_SIDE,
  K_AGENT,
  K_SESSION,
  K_TIME,
  K_MESSAGE,
  K_REQUEST,
  K_META,
  K_SUMMARY,
  K_SOURCE,
  K_API_ERROR,
  K_ATTACHMENT,
  K_SUBTYPE,
  K_COMPACT,
  K_CWD,
  K_BRANCH,
  K_RESULT,
  KEYS
};
static const struct ctxp_str line_keys[KEYS] = {{"type", 4}, {"uuid", 4}, {"parentUuid", 10}, {"isSidechain", 11}, {"agentId", 7},
    {"sessionId", 9}, {"timestamp", 9}, {"message", 7}, {"requestId", 9}, {"isMeta", 6}, {"isCompactSummary", 16}, {"sourceToolUseID", 15},
    {"isApiErrorMessage", 17}, {"attachment", 10}, {"subtype", 7}, {"compactMetadata", 15}, {"cwd", 3}, {"gitBranch", 9},
    {"toolUseResult", 13}};

struct reader {
  struct ctxp_transcript *t;
  struct claude *c;
  struct ctxp_json *json;
  struct claude_line *line; /* the one being read; lines do not move before it is done */
  uint32_t at[KEYS];
  uint32_t number; /* of the line in the index */
  unsigned texts; /* messages of the line that are texts */
  bool failed; /* out of memory */
};

static struct ctxp_str text_of(struct reader *r, uint32_t key) { return ctxp_json_text(r->json, r->at[key]); }

static uint32_t name_of(struct reader *r, struct ctxp_str text) {
  uint32_t name = ctxp_texts_add(&r->c->names, text);
  if (name == CTXP_NO_NAME) r->failed = true;
  return name == CTXP_NO_NAME ? 0 : name;
}

static void set_slot(struct reader *r, struct ctxp_slots *slots, uint32_t at, uint32_t value) {
  if (ctxp_slots_set(slots, at, value) < 0) r->failed = true;
}

/* place and length of a value's JSON within the line */
static void span(struct reader *r, uint32_t value, uint32_t *ret_at, uint32_t *ret_len) {
  struct ctxp_str source = ctxp_json_source(r->json, value);
  *ret_at = source.len ? (uint32_t)(source.ptr - r->json->text.ptr) : 0;
  *ret_len = (uint32_t)source.len;
}

static struct claude_message *new_message(struct reader *r, enum ctxp_role role) {
  struct claude *c = r->c;
  if (ctxp_grow(&c->messages, &c->message_cap, c->message_count, sizeof(*c->messages)) < 0) {
    r->failed = true;
    return NULL;
  }
  struct claude_message *m = &c->messages[c->message_count++];
  *m = (struct claude_message){.line = r->number, .role = (uint8_t)role};
  return m;
}

/* ---- users' lines: texts of people and of the client, results of tools ---- */
static enum ctxp_band text_band(struct reader *r, struct ctxp_str text) {
  if (r->line->summary) return CTXP_BAND_history;
  if (r->at[K_SOURCE] != CTXP_JSON_NONE || ctxp_str_starts(text, "Base directory for this skill:")) return CTXP_BAND_skill;
  if (ctxp_json_bool(r->json, r->at[K_META], false) || ctxp_str_starts(text, "<command-name>") || ctxp_str_starts(text, "<local-command") ||
      ctxp_str_starts(text, "<ide_"))
    return CTXP_BAND_system;
  return CTXP_BAND_user_prompt;
}

/* texts of one band in one line are one message; of another band, another one */
static void add_text(struct reader *r, enum ctxp_band band, const struct ctxp_content *content) {
  struct claude *c = r->c;
  struct claude_line *line = r->line;
  struct claude_message *m = line->message_count ? &c->messages[c->message_count - 1] : NULL;
  if (!m || m->answers || m->band != band) {
    if (line->message_count == UINT16_MAX || !(m = new_message(r, CTXP_ROLE_user))) return;
    line->message_count++;
    m->band = (uint8_t)band;
    m->pieces = CTXP_PIECES_MESSAGE;
    m->id = line->uuid;
    m->person = band == CTXP_BAND_user_prompt && !line->sidechain;
    if (++r->texts > 1) {
      ctxp_buf_reset(&c->scratch);
      struct ctxp_str uuid = ctxp_texts_text(&c->names, line->uuid);
      ctxp_buf_printf(&c->scratch, "%.*s#%u", (int)uuid.len, uuid.ptr, r->texts);
      m->id = name_of(r, ctxp_buf_view(&c->scratch));
    }
  }
  m->tokens += (uint32_t)content->tokens;
  m->units += content->units;
  m->pieces += content->pieces;
  m->images += content->images;
}

static void add_result(struct reader *r, uint32_t block) {
  static const struct ctxp_str keys[] = {{"tool_use_id", 11}, {"content", 7}, {"is_error", 8}};
  uint32_t at[3];
  struct ctxp_content content = {0};
  ctxp_json_pick(r->json, block, keys, 3, at);
  ctxp_content_all(r->json, at[1], &content);
  uint32_t call = name_of(r, ctxp_json_text(r->json, at[0]));
  struct claude_message *m = call && r->line->message_count < UINT16_MAX ? new_message(r, CTXP_ROLE_tool) : NULL;
  if (!m) return;
  r->line->message_count++;
  m->id = m->answers = call;
  m->band = CTXP_BAND_tool_output; /* until its call is known */
  m->tokens = (uint32_t)content.tokens;
  m->units = content.units;
  m->pieces = content.pieces + CTXP_PIECES_MESSAGE;
  m->images = content.images;
  m->failed = ctxp_json_bool(r->json, at[2], false);
  span(r, at[1], &m->text_at, &m->text_len);
  if (!ctxp_slots_get(&r->c->result_of, call)) set_slot(r, &r->c->result_of, call, r->c->message_count);
}

static void read_user(struct reader *r) {
  uint32_t content = ctxp_json_get(r->json, r->at[K_MESSAGE], "content");
  r->line->kind = CLAUDE_USER;
  r->texts = 0;
  r->line->messages = r->c->message_count;
  if (ctxp_json_type(r->json, content) == CTXP_JSON_STRING) {
    struct ctxp_content sum = {0};
    ctxp_content_all(r->json, content, &sum);
    add_text(r, text_band(r, ctxp_json_text(r->json, content)), &sum);
    return;
  }
  uint32_t first_call = 0;
  for (uint32_t it = content; ctxp_json_each(r->json, content, &it);) {
    if (!ctxp_json_is(r->json, ctxp_json_get(r->json, it, "type"), "tool_result")) continue;
    add_result(r, it);
    if (!first_call) first_call = name_of(r, ctxp_json_text(r->json, ctxp_json_get(r->json, it, "tool_use_id")));
  }
  for (uint32_t it = content; ctxp_json_each(r->json, content, &it);) {
    struct ctxp_content sum = {0};
    if (ctxp_json_is(r->json, ctxp_json_get(r->json, it, "type"), "tool_result")) continue;
    ctxp_content_block(r->json, it, &sum);
    add_text(r, text_band(r, ctxp_json_text(r->json, ctxp_json_get(r->json, it, "text"))), &sum);
  }
  /* the result of a call that spawned a sub-agent names it */
  if (first_call && ctxp_json_type(r->json, r->at[K_RESULT]) == CTXP_JSON_OBJECT) {
    uint32_t agent = name_of(r, ctxp_json_text(r->json, ctxp_json_get(r->json, r->at[K_RESULT], "agentId")));
    if (agent) set_slot(r, &r->c->spawned_by, agent, first_call);
    if (agent) r->t->note_spawned(r->t->spawned_data, ctxp_texts_text(&r->c->names, agent), ctxp_texts_text(&r->c->names, first_call));
  }
}

/* ---- attachments: what the client tells the model on its own ---- */
static void attachment_content(struct reader *r, struct ctxp_str type, struct ctxp_content *sum) {
  struct ctxp_json *json = r->json;
  uint32_t attachment = r->at[K_ATTACHMENT], content = ctxp_json_get(json, attachment, "content");
  if (ctxp_str_is(type, "edited_text_file")) {
    ctxp_content_all(json, ctxp_json_get(json, attachment, "snippet"), sum);
  } else if (ctxp_str_is(type, "file")) {
    ctxp_content_block(json, content, sum);
    ctxp_content_all(json, ctxp_json_get(json, ctxp_json_get(json, content, "file"), "content"), sum);
  } else if (ctxp_str_is(type, "queued_command")) {
    ctxp_content_all(json, ctxp_json_get(json, attachment, "prompt"), sum);
  } else if (ctxp_str_is(type, "compact_file_reference")) {
    ctxp_content_all(json, ctxp_json_get(json, attachment, "filename"), sum);
  } else if (ctxp_str_ends(type, "_delta")) { /* lists: their JSON without the type */
    size_t units = ctxp_json_compact_units(json, attachment) - (sizeof("\"type\":\"\",") - 1) - ctxp_utf16_units(type);
    *sum = (struct ctxp_content){
        .tokens = ctxp_chars4(units), .units = units, .pieces = ctxp_pieces(ctxp_json_source(json, attachment))};
  } else if (ctxp_json_type(json, content) == CTXP_JSON_ARRAY && ctxp_str_ends(type, "_reminder")) {
    size_t units = ctxp_json_compact_units(json, content);
    *sum = (struct ctxp_content){
        .tokens = ctxp_chars4(units), .units = units, .pieces = ctxp_pieces(ctxp_json_source(json, content))};
  } else {
    ctxp_content_all(json, ctxp_json_type(json, content) == CTXP_JSON_OBJECT ? ctxp_json_get(json, content, "content") : content, sum);
  }
}

static enum ctxp_band attachment_band(struct ctxp_str type) {
  if (ctxp_str_is(type, "file") || ctxp_str_is(type, "edited_text_file")) return CTXP_BAND_file_view;
  if (ctxp_str_is(type, "skill_listing")) return CTXP_BAND_skill;
  if (ctxp_str_ends(type, "_reminder")) return CTXP_BAND_task_list;
  if (ctxp_str_is(type, "nested_memory")) return CTXP_BAND_memory;
  if (ctxp_str_is(type, "queued_command")) return CTXP_BAND_user_prompt;
  return ctxp_str_is(type, "compact_file_reference") ? CTXP_BAND_history : CTXP_BAND_system;
}

static void read_attachment(struct reader *r) {
  struct ctxp_json *json = r->json;
  struct ctxp_str type = ctxp_json_text(json, ctxp_json_get(json, r->at[K_ATTACHMENT], "type"));
  struct ctxp_content sum = {0};
  attachment_content(r, type, &sum);
  r->line->kind = CLAUDE_ATTACHMENT;
  r->line->messages = r->c->message_count;
  struct claude_message *m = new_message(r, CTXP_ROLE_user);
  if (!m) return;
  r->line->message_count = 1;
  m->id = r->line->uuid;
  m->band = (uint8_t)attachment_band(type);
  m->tokens = (uint32_t)sum.tokens;
  m->units = sum.units;
  m->pieces = sum.pieces + CTXP_PIECES_MESSAGE;
  m->images = sum.images;
  if (m->band == CTXP_BAND_file_view) m->label = name_of(r, ctxp_json_text(json, ctxp_json_get(json, r->at[K_ATTACHMENT], "filename")));
  if (m->band == CTXP_BAND_memory) m->label = name_of(r, ctxp_json_text(json, ctxp_json_get(json, r->at[K_ATTACHMENT], "path")));
  m->listing = ctxp_str_is(type, "skill_listing");
  if (m->listing) span(r, ctxp_json_get(json, r->at[K_ATTACHMENT], "content"), &m->text_at, &m->text_len);
  m->person = m->band == CTXP_BAND_user_prompt && !r->line->sidechain &&
      ctxp_json_is(json, ctxp_json_get(json, r->at[K_ATTACHMENT], "commandMode"), "prompt");
}

/* ---- assistants' lines ---- */
static uint64_t read_usage(struct ctxp_json *json, uint32_t usage, struct claude_usage *ret) {
  static const struct ctxp_str keys[] = {{"input_tokens", 12}, {"cache_creation_input_tokens", 27}, {"cache_read_input_tokens", 23},
      {"cache_creation", 14}, {"output_tokens", 13}};
  static const struct ctxp_str parts[] = {{"ephemeral_5m_input_tokens", 25}, {"ephemeral_1h_input_tokens", 25}};
  uint32_t at[5], part[2];
  ctxp_json_pick(json, usage, keys, 5, at);
  ctxp_json_pick(json, at[3], parts, 2, part);
  uint64_t hour = ctxp_json_u64(json, part[1], 0), five = ctxp_json_u64(json, part[0], 0),
           written = ctxp_json_u64(json, at[1], five + hour);
  if (hour > written) hour = written;
  *ret = (struct claude_usage){
      ctxp_json_u64(json, at[0], 0), ctxp_json_u64(json, at[2], 0), written - hour, hour, ctxp_json_u64(json, at[4], 0)};
  return ret->input + ret->cache_read + written + ret->output;
}

static bool same_input(const struct claude_usage *a, const struct claude_usage *b) {
  return a->input == b->input && a->cache_read == b->cache_read && a->write_5m + a->write_1h == b->write_5m + b->write_1h;
}

/* The response that a line belongs to. Two of one message id are two only where both say so by their request and by their input. */
static struct claude_response *response_for(struct reader *r, uint32_t id, uint32_t request, const struct claude_usage *usage) {
  struct claude *c = r->c;
  uint32_t key = id ? id : r->line->uuid, newest = ctxp_slots_get(&c->response_of, key);
  for (uint32_t at = newest; at; at = c->responses[at - 1].twin) {
    struct claude_response *known = &c->responses[at - 1];
    bool other = known->request && request && known->request != request && !same_input(&known->usage, usage);
    if (!other) return r->line->response = at - 1, known;
  }
  if (ctxp_grow(&c->responses, &c->response_cap, c->response_count, sizeof(*c->responses)) < 0) {
    r->failed = true;
    return NULL;
  }
  struct claude_message *m = new_message(r, CTXP_ROLE_assistant);
  if (!m) return NULL;
  struct claude_response *made = &c->responses[c->response_count++];
  *made = (struct claude_response){.id = id, .request = request, .first = r->number, .message = c->message_count - 1, .twin = newest};
  m->band = CTXP_BAND_assistant;
  m->pieces = CTXP_PIECES_REPLY;
  m->id = key;
  if (newest) {
    struct ctxp_str text = ctxp_texts_text(&c->names, key), told = ctxp_texts_text(&c->names, request);
    ctxp_buf_reset(&c->scratch);
    ctxp_buf_printf(&c->scratch, "%.*s/%.*s", (int)text.len, text.ptr, (int)told.len, told.ptr);
    made->id = m->id = name_of(r, ctxp_buf_view(&c->scratch));
  }
  set_slot(r, &c->response_of, key, c->response_count);
  r->line->response = c->response_count - 1;
  return made;
}

static void add_call(struct reader *r, struct claude_response *response, uint32_t block) {
  static const struct ctxp_str keys[] = {{"id", 2}, {"name", 4}, {"input", 5}};
  struct claude *c = r->c;
  struct ctxp_json *json = r->json;
  uint32_t at[3];
  ctxp_json_pick(json, block, keys, 3, at);
  size_t name_units = ctxp_json_units(json, at[1]), input_units = ctxp_json_compact_units(json, at[2]);
  struct claude_message *m = &c->messages[response->message];
  uint32_t tokens = (uint32_t)(ctxp_chars4(name_units) + ctxp_chars4(input_units));
  m->tokens += tokens;
  m->units += name_units + input_units;
  m->pieces += ctxp_content_call_pieces(json, at[1], at[2]);
  uint32_t id = name_of(r, ctxp_json_text(json, at[0]));
  if (!id) return;
  if (ctxp_grow(&c->calls, &c->call_cap, c->call_count, sizeof(*c->calls)) < 0) {
    r->failed = true;
    return;
  }
  struct claude_call *call = &c->calls[c->call_count++];
  *call = (struct claude_call){.id = id,
      .name = name_of(r, ctxp_json_text(json, at[1])),
      .path = name_of(r, ctxp_json_text(json, ctxp_content_path(json, at[2]))),
      .tokens = tokens,
      .next_in_line = r->line->calls};
  call->content_tokens = (uint32_t)ctxp_chars4(ctxp_json_units(json, ctxp_json_get(json, at[2], "content")));
  span(r, at[2], &call->input_at, &call->input_len);
  r->line->calls = c->call_count;
  if (response->last_call)
    c->calls[response->last_call - 1].next_in_response = c->call_count;
  else
    response->calls = c->call_count;
  response->last_call = c->call_count;
  if (!ctxp_slots_get(&c->call_of, id)) set_slot(r, &c->call_of, id, c->call_count);
}

/* 1: a block that stood in an earlier line of the response already */
static bool repeated(struct reader *r, struct claude_response *response, uint32_t block) {
  struct claude *c = r->c;
  struct ctxp_str source = ctxp_json_source(r->json, block);
  uint64_t hash = ctxp_hash64(source.ptr, source.len, 0);
  for (uint32_t at = response->blocks; at; at = c->blocks[at - 1].next)
    if (c->blocks[at - 1].hash == hash) return true;
  if (ctxp_grow(&c->blocks, &c->block_cap, c->block_count, sizeof(*c->blocks)) < 0) return r->failed = true;
  c->blocks[c->block_count++] = (struct claude_block){hash, response->blocks};
  response->blocks = c->block_count;
  return false;
}

static void add_block(struct reader *r, struct claude_response *response, uint32_t block) {
  struct claude_message *m = &r->c->messages[response->message];
  struct ctxp_str type = ctxp_json_text(r->json, ctxp_json_get(r->json, block, "type"));
  struct ctxp_content sum = {0};
  if (repeated(r, response, block)) return;
  if (ctxp_str_is(type, "tool_use")) {
    add_call(r, response, block);
    return;
  }
  if (ctxp_str_is(type, "thinking") || ctxp_str_is(type, "redacted_thinking")) {
    response->thinks = true;
    response->signature_units += ctxp_json_units(r->json, ctxp_json_get(r->json, block, "signature"));
  }
  if (!ctxp_str_is(type, "tool_reference")) ctxp_content_block(r->json, block, &sum);
  m->tokens += (uint32_t)sum.tokens;
  m->units += sum.units;
  m->pieces += sum.pieces + CTXP_PIECES_REPLY_TEXT * sum.texts;
}

static void read_assistant(struct reader *r) {
  static const struct ctxp_str keys[] = {{"model", 5}, {"id", 2}, {"content", 7}, {"usage", 5}};
  struct ctxp_json *json = r->json;
  struct claude_usage usage;
  uint32_t at[4];
  r->line->kind = CLAUDE_ASSISTANT;
  ctxp_json_pick(json, r->at[K_MESSAGE], keys, 4, at);
  r->line->sum = read_usage(json, at[3], &usage);
  struct claude_response *response = response_for(r, name_of(r, ctxp_json_text(json, at[1])), name_of(r, text_of(r, K_REQUEST)), &usage);
  if (!response) return;
  response->last = r->number;
  if (ctxp_json_type(json, at[3]) == CTXP_JSON_OBJECT && (!response->reported || r->line->sum > response->sum)) {
    response->usage = usage;
    response->sum = r->line->sum;
    response->reported = true;
    response->speed = name_of(r, ctxp_json_text(json, ctxp_json_get(json, at[3], "speed")));
    response->tier = name_of(r, ctxp_json_text(json, ctxp_json_get(json, at[3], "service_tier")));
  }
  struct ctxp_str model = ctxp_json_text(json, at[0]);
  if (ctxp_str_is(model, "<synthetic>") || ctxp_json_bool(json, r->at[K_API_ERROR], false))
    response->synthetic = true;
  else if (!response->model)
    response->model = name_of(r, model);
  struct ctxp_content sum = {0};
  if (ctxp_json_type(json, at[2]) == CTXP_JSON_STRING && !repeated(r, response, at[2])) ctxp_content_all(json, at[2], &sum);
  r->c->messages[response->message].tokens += (uint32_t)sum.tokens;
  r->c->messages[response->message].units += sum.units;
  r->c->messages[response->message].pieces += sum.pieces + CTXP_PIECES_REPLY_TEXT * sum.texts;
  for (uint32_t it = at[2]; ctxp_json_each(json, at[2], &it);) add_block(r, response, it);
}

/* ---- lines ---- */
static void read_session(struct reader *r) {
  struct claude *c = r->c;
  struct ctxp_str session = text_of(r, K_SESSION);
  if (session.len && session.len <= CTXP_WINDOW_NAME_MAX && !c->session_is_stem) {
    c->session_is_stem = ctxp_str_eq(session, r->t->stem);
    if (!c->session || c->session_is_stem) c->session = name_of(r, session);
  }
  if (!c->cwd) c->cwd = name_of(r, text_of(r, K_CWD));
  if (!c->branch) c->branch = name_of(r, text_of(r, K_BRANCH));
}

static void pass_over(struct reader *r, struct ctxp_str type) {
  ctxp_buf_reset(&r->c->scratch);
  ctxp_buf_add(&r->c->scratch, type.ptr, type.len);
  struct ctxp_str subtype = text_of(r, K_SUBTYPE);
  if (subtype.len) ctxp_buf_printf(&r->c->scratch, "/%.*s", (int)(subtype.len < 64 ? subtype.len : 64), subtype.ptr);
  ctxp_notes_passed(r->t->notes, ctxp_buf_view(&r->c->scratch));
}

static bool is_message(struct reader *r, struct ctxp_str type) {
  if (ctxp_json_type(r->json, r->at[K_MESSAGE]) == CTXP_JSON_OBJECT) {
    if (ctxp_str_is(type, "assistant"))
      return r->line->uuid || ctxp_json_type(r->json, ctxp_json_get(r->json, r->at[K_MESSAGE], "usage")) == CTXP_JSON_OBJECT;
    if (ctxp_str_is(type, "user")) return r->line->uuid;
  }
  return r->line->uuid && ctxp_str_is(type, "attachment") && ctxp_json_type(r->json, r->at[K_ATTACHMENT]) == CTXP_JSON_OBJECT;
}

static void read_kind(struct reader *r) {
  struct ctxp_str type = text_of(r, K_TYPE);
  if (is_message(r, type)) {
    if (ctxp_str_is(type, "user"))
      read_user(r);
    else if (ctxp_str_is(type, "assistant"))
      read_assistant(r);
    else
      read_attachment(r);
  } else if (r->line->uuid && ctxp_str_is(type, "system") && ctxp_json_is(r->json, r->at[K_SUBTYPE], "compact_boundary")) {
    r->line->kind = CLAUDE_BOUNDARY;
    r->line->sum = ctxp_json_u64(r->json, ctxp_json_get(r->json, r->at[K_COMPACT], "preTokens"), 0);
  } else {
    r->line->kind = CLAUDE_LINK;
    pass_over(r, type);
  }
}

static int read_line(struct reader *r, const struct ctxp_line *from) {
  struct claude *c = r->c;
  if (ctxp_grow(&c->lines, &c->line_cap, c->line_count, sizeof(*c->lines)) < 0) return -ENOMEM;
  ctxp_json_pick(r->json, 0, line_keys, KEYS, r->at);
  struct claude_line *line = r->line = &c->lines[c->line_count];
  *line = (struct claude_line){.offset = from->offset, .bytes = (uint32_t)from->bytes};
  line->uuid = name_of(r, text_of(r, K_UUID));
  line->cleaned = r->json->text.ptr != from->text.ptr;
  read_session(r);
  bool again = line->uuid && ctxp_slots_get(&c->line_of, line->uuid); /* a resumed sub-agent's lines stand there twice */
  if (again && !ctxp_json_is(r->json, r->at[K_TYPE], "assistant")) return r->failed || r->json->failed ? -ENOMEM : 0;
  r->number = c->line_count;
  line->parent = name_of(r, text_of(r, K_PARENT));
  line->sidechain = ctxp_json_bool(r->json, r->at[K_SIDE], false);
  line->summary = ctxp_json_bool(r->json, r->at[K_SUMMARY], false);
  if (line->sidechain && text_of(r, K_AGENT).len <= CTXP_WINDOW_NAME_MAX) line->thread = name_of(r, text_of(r, K_AGENT));
  line->unthreaded = line->sidechain && !line->thread;
  if (ctxp_time_parse(text_of(r, K_TIME), &line->ts_ms) < 0) line->ts_ms = 0;
  read_kind(r);
  if (r->failed || r->json->failed) return -ENOMEM;
  if (!line->uuid && line->kind == CLAUDE_LINK) return 0;
  c->line_count++;
  if (!line->uuid || again) return 0;
  return ctxp_slots_set(&c->line_of, line->uuid, c->line_count);
}

/* a sub-agent within the file whose lines do not name it is named by the first of them: the root of their chain */
static void name_thread(struct claude *c, uint32_t number) {
  uint32_t at = number, root = number, steps = 0;
  while (c->lines[at].unthreaded && steps++ <= c->line_count) {
    root = at;
    uint32_t parent = ctxp_slots_get(&c->line_of, c->lines[at].parent);
    if (!c->lines[at].parent || !parent || !c->lines[parent - 1].sidechain) break;
    at = parent - 1;
  }
  uint32_t thread = c->lines[at].unthreaded ? c->lines[root].uuid : c->lines[at].thread;
  if (ctxp_texts_text(&c->names, thread).len > CTXP_WINDOW_NAME_MAX) thread = 0;
  for (at = number; c->lines[at].unthreaded;) {
    c->lines[at].thread = thread;
    c->lines[at].unthreaded = false;
    uint32_t parent = ctxp_slots_get(&c->line_of, c->lines[at].parent);
    if (!c->lines[at].parent || !parent) break;
    at = parent - 1;
    if (!c->lines[at].sidechain) break;
  }
}

/* what can only be told when all lines are known */
static int finish(struct reader *r) {
  struct claude *c = r->c;
  for (uint32_t i = 0; i < c->line_count; i++)
    if (c->lines[i].unthreaded) name_thread(c, i);
  for (uint32_t i = 0; i < c->line_count; i++) {
    struct claude_line *line = &c->lines[i];
    line->previous = ctxp_slots_get(&c->last_of, line->thread);
    if (line->kind != CLAUDE_LINK && line->kind != CLAUDE_BOUNDARY) set_slot(r, &c->last_of, line->thread, i + 1);
  }
  for (uint32_t i = 0; i < c->message_count; i++) {
    struct claude_message *m = &c->messages[i];
    uint32_t call = m->answers ? ctxp_slots_get(&c->call_of, m->answers) : 0;
    if (!call) continue;
    struct ctxp_str tool = ctxp_texts_text(&c->names, c->calls[call - 1].name);
    if (ctxp_str_is(tool, "Read")) {
      m->band = CTXP_BAND_file_view;
      m->label = c->calls[call - 1].path;
    } else if (ctxp_str_is(tool, "Skill")) {
      m->band = CTXP_BAND_skill;
    }
  }
  struct ctxp_buf *identity = &r->t->identity;
  struct ctxp_str session = ctxp_texts_text(&c->names, c->session);
  if (!session.len) session = r->t->stem;
  ctxp_buf_add(identity, session.ptr, session.len);
  if (!ctxp_str_eq(session, r->t->stem)) ctxp_buf_printf(identity, "/%.*s", (int)r->t->stem.len, r->t->stem.ptr);
  return r->failed || identity->failed ? -ENOMEM : 0;
}

int claude_index(struct ctxp_transcript *t, struct ctxp_error *err) {
  (void)err;
  struct ctxp_line line;
  int r;
  struct claude *c = t->state = calloc(1, sizeof(*c));
  if (!c) return -ENOMEM;
  struct reader reader = {.t = t, .c = c, .json = t->json};
  while ((r = ctxp_transcript_line(t, &line)) > 0) {
    r = read_line(&reader, &line);
    if (r < 0) return r;
  }
  return r < 0 ? r : finish(&reader);
}
