/* First pass over a session file of pi: what each entry is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/hash.h"
#include "feeders/content.h"
#include "feeders/pi.h"
#include "tokens/estimate.h"
#include "tokens/pieces.h"

enum {
  K_TYPE,
  K_ID,
  K_PARENT,
  K_TIME,
  K_MESSAGE,
  K_SUMMARY,
  K_USAGE,
  K_KEPT,
  K_KEPT_INDEX,
  K_BEFORE,
  K_TARGET,
  K_REPLACEMENT,
  K_CUSTOM,
  K_CONTENT,
  K_DATA,
  K_CWD,
  K_MODEL,
  K_RESULT,
  KEYS
};
static const struct ctxp_str entry_keys[KEYS] = {{"type", 4}, {"id", 2}, {"parentId", 8}, {"timestamp", 9}, {"message", 7}, {"summary", 7},
    {"usage", 5}, {"firstKeptEntryId", 16}, {"firstKeptEntryIndex", 19}, {"tokensBefore", 12}, {"targetId", 8}, {"replacement", 11},
    {"customType", 10}, {"content", 7}, {"data", 4}, {"cwd", 3}, {"modelId", 7}, {"result", 6}};
enum { M_ROLE,
  M_CONTENT,
  M_MODEL,
  M_USAGE,
  M_STOP,
  M_CALL,
  M_TOOL,
  M_ERROR,
  M_EXCLUDED,
  MESSAGE_KEYS };
static const struct ctxp_str message_keys[MESSAGE_KEYS] = {{"role", 4}, {"content", 7}, {"model", 5}, {"usage", 5}, {"stopReason", 10},
    {"toolCallId", 10}, {"toolName", 8}, {"isError", 7}, {"excludeFromContext", 18}};

struct reader {
  struct ctxp_transcript *t;
  struct pi *c;
  struct ctxp_json *json;
  struct pi_entry *entry;
  uint32_t at[KEYS];
  bool failed;
};

static uint32_t name_of(struct reader *r, struct ctxp_str text) {
  uint32_t name = ctxp_texts_add(&r->c->names, text);
  if (name == CTXP_NO_NAME) r->failed = true;
  return name == CTXP_NO_NAME ? 0 : name;
}

static uint32_t name_at(struct reader *r, uint32_t value) { return name_of(r, ctxp_json_text(r->json, value)); }

static void span(struct reader *r, uint32_t value, uint32_t *ret_at, uint32_t *ret_len) {
  struct ctxp_str source = ctxp_json_source(r->json, value);
  *ret_at = source.len ? (uint32_t)(source.ptr - r->json->text.ptr) : 0;
  *ret_len = (uint32_t)source.len;
}

/* ---- usage and cost ---- */
/* more than a number holds stays more than any call can cost, so that the fold sees that it cannot be right */
static int64_t nano_at(struct ctxp_json *json, uint32_t value) {
  int64_t nano = 0;
  if (ctxp_json_type(json, value) != CTXP_JSON_NUMBER) return 0;
  return ctxp_nano_read(ctxp_json_source(json, value), &nano) == 0 ? nano : INT64_MAX;
}

/* A call's identity is the content of what reports it: a fork copies it as it is, and responses' own ids are missing or not unique. */
static uint32_t call_identity(struct reader *r, struct ctxp_str source) {
  char hex[CTXP_HASH_HEX];
  ctxp_hash128_hex(ctxp_hash128(source.ptr, source.len), hex);
  return name_of(r, ctxp_str(hex));
}

static void add_usage(struct reader *r, uint32_t value, uint32_t identity, uint32_t model) {
  static const struct ctxp_str keys[] = {
      {"input", 5}, {"output", 6}, {"cacheRead", 9}, {"cacheWrite", 10}, {"cacheWrite1h", 12}, {"reasoning", 9}, {"cost", 4}};
  static const struct ctxp_str costs[] = {{"input", 5}, {"output", 6}, {"cacheRead", 9}, {"cacheWrite", 10}, {"total", 5}};
  struct pi *c = r->c;
  struct ctxp_json *json = r->json;
  uint32_t at[7], cost[5];
  if (ctxp_grow(&c->usages, &c->usage_cap, c->usage_count, sizeof(*c->usages)) < 0) {
    r->failed = true;
    return;
  }
  ctxp_json_pick(json, value, keys, 7, at);
  ctxp_json_pick(json, at[6], costs, 5, cost);
  uint64_t written = ctxp_json_u64(json, at[3], 0), hour = ctxp_json_u64(json, at[4], 0);
  if (hour > written) hour = written;
  struct pi_usage u = {.input = ctxp_json_u64(json, at[0], 0),
      .output = ctxp_json_u64(json, at[1], 0),
      .cache_read = ctxp_json_u64(json, at[2], 0),
      .write_5m = written - hour,
      .write_1h = hour,
      .reasoning = ctxp_json_u64(json, at[5], 0),
      .call_id = identity,
      .model = model};
  u.reported = u.input || u.output || u.cache_read || written;
  u.split = ctxp_json_type(json, cost[0]) == CTXP_JSON_NUMBER;
  u.input_nano = nano_at(json, cost[0]);
  u.output_nano = nano_at(json, cost[1]);
  u.cache_read_nano = nano_at(json, cost[2]);
  u.cache_write_nano = nano_at(json, cost[3]);
  u.total_nano = nano_at(json, cost[4]);
  u.total = ctxp_json_type(json, cost[4]) == CTXP_JSON_NUMBER;
  u.priced = u.input_nano || u.output_nano || u.cache_read_nano || u.cache_write_nano || u.total_nano; /* all 0: pi knew no price */
  c->usages[c->usage_count++] = u;
  r->entry->usage = c->usage_count;
}

/* usage that belongs to no window */
static void add_side_usage(struct reader *r, uint32_t usage) {
  if (ctxp_json_type(r->json, usage) != CTXP_JSON_OBJECT) return;
  ctxp_buf_reset(&r->c->scratch);
  const uint32_t parts[] = {r->at[K_TYPE], r->at[K_TIME], usage};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    struct ctxp_str source = ctxp_json_source(r->json, parts[i]);
    ctxp_buf_add(&r->c->scratch, source.ptr, source.len);
  }
  uint32_t model = name_at(r, ctxp_json_get(r->json, 0, "model"));
  add_usage(r, usage, call_identity(r, ctxp_buf_view(&r->c->scratch)), model ? model : r->c->model);
}

/* ---- messages ---- */
static void set_message(struct reader *r, enum ctxp_role role, enum ctxp_band band, uint32_t content) {
  struct ctxp_content sum = {0};
  ctxp_content_all(r->json, content, &sum);
  r->entry->kind = PI_MESSAGE;
  r->entry->role = (uint8_t)role;
  r->entry->band = (uint8_t)band;
  r->entry->resident = true;
  r->entry->tokens = (uint32_t)sum.tokens;
  r->entry->units = sum.units;
  r->entry->pieces =
      sum.pieces + (role == CTXP_ROLE_assistant ? CTXP_PIECES_REPLY + CTXP_PIECES_REPLY_TEXT * sum.texts : CTXP_PIECES_MESSAGE);
  r->entry->images = sum.images;
}

static void add_call(struct reader *r, uint32_t block, uint32_t *last) {
  static const struct ctxp_str keys[] = {{"id", 2}, {"name", 4}, {"arguments", 9}};
  struct pi *c = r->c;
  struct ctxp_json *json = r->json;
  uint32_t at[3];
  ctxp_json_pick(json, block, keys, 3, at);
  size_t name_units = ctxp_json_units(json, at[1]), input_units = ctxp_json_compact_units(json, at[2]);
  struct pi_call call = {.id = name_at(r, at[0]), .name = name_at(r, at[1]), .path = name_at(r, ctxp_content_path(json, at[2]))};
  call.tokens = (uint32_t)(ctxp_chars4(name_units) + ctxp_chars4(input_units));
  call.content_tokens = (uint32_t)ctxp_chars4(ctxp_json_units(json, ctxp_json_get(json, at[2], "content")));
  span(r, at[2], &call.input_at, &call.input_len);
  r->entry->tokens += call.tokens;
  r->entry->units += name_units + input_units;
  r->entry->pieces += ctxp_content_call_pieces(json, at[1], at[2]);
  if (!call.id) return;
  if (ctxp_grow(&c->calls, &c->call_cap, c->call_count, sizeof(*c->calls)) < 0) {
    r->failed = true;
    return;
  }
  c->calls[c->call_count++] = call;
  if (*last)
    c->calls[*last - 1].next = c->call_count;
  else
    r->entry->calls = c->call_count;
  *last = c->call_count;
  if (!ctxp_slots_get(&c->call_of, call.id) && ctxp_slots_set(&c->call_of, call.id, c->call_count) < 0) r->failed = true;
}

static void read_reply(struct reader *r, const uint32_t m[MESSAGE_KEYS]) {
  struct ctxp_json *json = r->json;
  uint32_t last = 0;
  set_message(r, CTXP_ROLE_assistant, CTXP_BAND_assistant, m[M_CONTENT]);
  r->entry->kind = PI_REPLY;
  r->entry->resident = !ctxp_json_is(json, m[M_STOP], "error") && !ctxp_json_is(json, m[M_STOP], "aborted");
  for (uint32_t it = m[M_CONTENT]; ctxp_json_each(json, m[M_CONTENT], &it);) {
    struct ctxp_str type = ctxp_json_text(json, ctxp_json_get(json, it, "type"));
    if (ctxp_str_is(type, "toolCall")) add_call(r, it, &last);
    if (!ctxp_str_is(type, "thinking")) continue;
    r->entry->thinks = true;
    r->entry->signature_units += ctxp_json_units(json, ctxp_json_get(json, it, "thinkingSignature"));
  }
  uint32_t model = name_at(r, m[M_MODEL]);
  add_usage(r, m[M_USAGE], call_identity(r, ctxp_json_source(json, r->at[K_MESSAGE])), model ? model : r->c->model);
}

static void read_result(struct reader *r, const uint32_t m[MESSAGE_KEYS]) {
  struct pi *c = r->c;
  set_message(r, CTXP_ROLE_tool, CTXP_BAND_tool_output, m[M_CONTENT]);
  r->entry->answers = name_at(r, m[M_CALL]);
  r->entry->tool = name_at(r, m[M_TOOL]);
  r->entry->failed = ctxp_json_bool(r->json, m[M_ERROR], false);
  span(r, m[M_CONTENT], &r->entry->text_at, &r->entry->text_len);
  uint32_t call = r->entry->answers ? ctxp_slots_get(&c->call_of, r->entry->answers) : 0;
  if (call && !c->calls[call - 1].result) c->calls[call - 1].result = c->entry_count + 1;
  if (!ctxp_json_is(r->json, m[M_TOOL], "read")) return;
  r->entry->band = CTXP_BAND_file_view;
  if (call) r->entry->label = c->calls[call - 1].path;
}

static void read_message(struct reader *r) {
  uint32_t m[MESSAGE_KEYS];
  ctxp_json_pick(r->json, r->at[K_MESSAGE], message_keys, MESSAGE_KEYS, m);
  struct ctxp_str role = ctxp_json_text(r->json, m[M_ROLE]);
  if (ctxp_str_is(role, "user")) {
    set_message(r, CTXP_ROLE_user, CTXP_BAND_user_prompt, m[M_CONTENT]);
    r->entry->person = true;
  } else if (ctxp_str_is(role, "assistant")) {
    read_reply(r, m);
  } else if (ctxp_str_is(role, "toolResult")) {
    read_result(r, m);
  } else if (ctxp_str_is(role, "custom") || ctxp_str_is(role, "hookMessage")) {
    set_message(r, CTXP_ROLE_custom, CTXP_BAND_history, m[M_CONTENT]);
  } else if (ctxp_str_is(role, "bashExecution")) {
    uint32_t command = ctxp_json_get(r->json, r->at[K_MESSAGE], "command");
    set_message(r, CTXP_ROLE_user, CTXP_BAND_tool_output, ctxp_json_get(r->json, r->at[K_MESSAGE], "output"));
    r->entry->tokens += (uint32_t)ctxp_chars4(ctxp_json_units(r->json, command));
    r->entry->units += ctxp_json_units(r->json, command);
    r->entry->pieces += ctxp_pieces(ctxp_json_text(r->json, command));
    r->entry->resident = !ctxp_json_bool(r->json, m[M_EXCLUDED], false);
    r->entry->tool = name_of(r, CTXP_STR("!bash"));
  } else if (ctxp_str_is(role, "system")) {
    set_message(r, CTXP_ROLE_system, CTXP_BAND_system, CTXP_JSON_NONE);
    r->entry->tokens = (uint32_t)ctxp_estimate_message(r->json, r->at[K_MESSAGE]);
    r->entry->pieces = ctxp_pieces(ctxp_json_source(r->json, r->at[K_MESSAGE])) + CTXP_PIECES_MESSAGE;
  } else if (ctxp_str_is(role, "compactionSummary") || ctxp_str_is(role, "branchSummary")) {
    set_message(r, CTXP_ROLE_user, CTXP_BAND_history, ctxp_json_get(r->json, r->at[K_MESSAGE], "summary"));
  } else {
    ctxp_buf_reset(&r->c->scratch);
    ctxp_buf_printf(&r->c->scratch, "message/%.*s", (int)(role.len < 64 ? role.len : 64), role.ptr);
    ctxp_notes_passed(r->t->notes, ctxp_buf_view(&r->c->scratch));
  }
}

/* as `pi --mode json` tells it: the summary takes the place of all before it */
static void read_stream_compaction(struct reader *r) {
  uint32_t summary = ctxp_json_get(r->json, r->at[K_RESULT], "summary");
  if (ctxp_json_type(r->json, summary) != CTXP_JSON_STRING) return; /* it was given up */
  set_message(r, CTXP_ROLE_user, CTXP_BAND_history, summary);
  r->entry->kind = PI_COMPACTION;
  r->entry->before = ctxp_json_u64(r->json, ctxp_json_get(r->json, r->at[K_RESULT], "tokensBefore"), 0);
}

static void read_compaction(struct reader *r) {
  set_message(r, CTXP_ROLE_user, CTXP_BAND_history, r->at[K_SUMMARY]);
  r->entry->kind = PI_COMPACTION;
  r->entry->kept = name_at(r, r->at[K_KEPT]);
  r->entry->kept_place = (uint32_t)ctxp_json_u64(r->json, r->at[K_KEPT_INDEX], 0);
  r->entry->before = ctxp_json_u64(r->json, r->at[K_BEFORE], 0);
  add_side_usage(r, r->at[K_USAGE]);
}

static void read_edit(struct reader *r) {
  uint32_t replacement = r->at[K_REPLACEMENT], inner = ctxp_json_get(r->json, replacement, "content");
  set_message(r, CTXP_ROLE_user, CTXP_BAND_history, inner != CTXP_JSON_NONE ? inner : replacement);
  r->entry->kind = PI_EDIT;
  r->entry->kept = name_at(r, r->at[K_TARGET]);
  r->entry->resident = ctxp_json_type(r->json, replacement) != CTXP_JSON_NULL && replacement != CTXP_JSON_NONE;
  r->c->edits = true;
}

static void read_kind(struct reader *r) {
  struct ctxp_str type = ctxp_json_text(r->json, r->at[K_TYPE]);
  if (ctxp_str_is(type, "message") || ctxp_str_is(type, "message_end")) {
    read_message(r);
  } else if (ctxp_str_is(type, "compaction_end") || ctxp_str_is(type, "auto_compaction_end")) {
    read_stream_compaction(r);
  } else if (ctxp_str_is(type, "compaction")) {
    read_compaction(r);
  } else if (ctxp_str_is(type, "branch_summary")) {
    set_message(r, CTXP_ROLE_user, CTXP_BAND_history, r->at[K_SUMMARY]);
    add_side_usage(r, r->at[K_USAGE]);
  } else if (ctxp_str_is(type, "custom_message")) {
    set_message(r, CTXP_ROLE_custom, CTXP_BAND_history, r->at[K_CONTENT]);
  } else if (ctxp_str_is(type, "context_edit")) {
    read_edit(r);
  } else if (ctxp_str_is(type, "usage")) {
    add_side_usage(r, r->at[K_USAGE]);
  } else if (ctxp_str_is(type, "custom") && ctxp_str_ends(ctxp_json_text(r->json, r->at[K_CUSTOM]), "background-usage")) {
    uint32_t usage = ctxp_json_get(r->json, r->at[K_DATA], "usage");
    add_side_usage(r, usage != CTXP_JSON_NONE ? usage : r->at[K_DATA]);
  } else {
    if (ctxp_str_is(type, "model_change")) r->c->model = name_at(r, r->at[K_MODEL]);
    ctxp_notes_passed(r->t->notes, type);
  }
}

/* ---- entries ---- */
static void read_header(struct reader *r) {
  struct pi *c = r->c;
  if (!c->session && ctxp_json_text(r->json, r->at[K_ID]).len <= CTXP_WINDOW_NAME_MAX) c->session = name_at(r, r->at[K_ID]);
  if (!c->cwd) c->cwd = name_at(r, r->at[K_CWD]);
  if (!c->model) c->model = name_at(r, r->at[K_MODEL]);
}

static int read_entry(struct reader *r, const struct ctxp_line *from) {
  struct pi *c = r->c;
  if (ctxp_grow(&c->entries, &c->entry_cap, c->entry_count, sizeof(*c->entries)) < 0) return -ENOMEM;
  ctxp_json_pick(r->json, 0, entry_keys, KEYS, r->at);
  if (ctxp_json_is(r->json, r->at[K_TYPE], "session")) {
    read_header(r);
    return r->failed || r->json->failed ? -ENOMEM : 0;
  }
  struct pi_entry *entry = r->entry = &c->entries[c->entry_count];
  *entry = (struct pi_entry){.offset = from->offset, .bytes = (uint32_t)from->bytes, .place = (uint32_t)from->number - 1};
  entry->id = name_at(r, r->at[K_ID]);
  entry->parent_id = name_at(r, r->at[K_PARENT]);
  entry->rootless = entry->id && ctxp_json_type(r->json, r->at[K_PARENT]) == CTXP_JSON_NULL;
  entry->cleaned = r->json->text.ptr != from->text.ptr;
  if (ctxp_time_parse(ctxp_json_text(r->json, r->at[K_TIME]), &entry->ts_ms) < 0)
    entry->ts_ms = ctxp_json_u64(r->json, ctxp_json_get(r->json, r->at[K_MESSAGE], "timestamp"), 0);
  read_kind(r);
  if (!entry->id) { /* version 1 */
    char text[32];
    snprintf(text, sizeof(text), "line:%llu", (unsigned long long)from->number);
    entry->id = name_of(r, ctxp_str(text));
  }
  if (r->failed || r->json->failed) return -ENOMEM;
  c->entry_count++;
  return ctxp_slots_get(&c->entry_of, entry->id) ? 0 : ctxp_slots_set(&c->entry_of, entry->id, c->entry_count);
}

/* A sub-agent's run stands beside the session that it belongs to: .../<time>_<session>/<id>/run-0/session.jsonl */
static void read_place(struct reader *r) {
  struct ctxp_str parts[4] = {{0}}, path = ctxp_str(r->t->path);
  unsigned n = 0;
  for (size_t end = path.len, at = path.len; n < 4 && at-- > 0;)
    if (path.ptr[at] == '/' || at == 0) {
      size_t from = path.ptr[at] == '/' ? at + 1 : at;
      parts[n++] = (struct ctxp_str){path.ptr + from, end - from};
      end = at;
    }
  const char *cut = n == 4 ? memrchr(parts[3].ptr, '_', parts[3].len) : NULL;
  if (!cut || !ctxp_str_is(parts[0], "session.jsonl") || !ctxp_str_starts(parts[1], "run-")) return;
  r->c->session = name_of(r, (struct ctxp_str){cut + 1, (size_t)(parts[3].ptr + parts[3].len - cut - 1)});
  r->c->thread = name_of(r, (struct ctxp_str){parts[2].ptr, parts[2].len + 1 + parts[1].len});
}

static int finish(struct reader *r) {
  struct pi *c = r->c;
  for (uint32_t i = 0; i < c->entry_count; i++) {
    struct pi_entry *entry = &c->entries[i];
    uint32_t known = entry->parent_id ? ctxp_slots_get(&c->entry_of, entry->parent_id) : 0;
    entry->parent = entry->rootless ? 0 : known ? known :
                                                  i; /* none, or one that is not there: the entry before it */
  }
  read_place(r);
  struct ctxp_str session = ctxp_texts_text(&c->names, c->session), thread = ctxp_texts_text(&c->names, c->thread);
  if (!session.len) session = r->t->stem;
  ctxp_buf_add(&r->t->identity, session.ptr, session.len);
  if (thread.len) ctxp_buf_printf(&r->t->identity, "/%.*s", (int)thread.len, thread.ptr);
  return r->failed || r->t->identity.failed ? -ENOMEM : 0;
}

int pi_index(struct ctxp_transcript *t, struct ctxp_error *err) {
  (void)err;
  struct ctxp_line line;
  int r;
  struct pi *c = t->state = calloc(1, sizeof(*c));
  if (!c) return -ENOMEM;
  struct reader reader = {.t = t, .c = c, .json = t->json};
  while ((r = ctxp_transcript_line(t, &line)) > 0) {
    r = read_entry(&reader, &line);
    if (r < 0) return r;
  }
  return r < 0 ? r : finish(&reader);
}

void pi_close(struct ctxp_transcript *t) {
  struct pi *c = t->state;
  if (!c) return;
  for (uint32_t i = 0; i < c->call_count; i++) ctxp_buf_deinit(&c->calls[i].input);
  ctxp_texts_deinit(&c->names);
  free(c->entries);
  free(c->usages);
  free(c->calls);
  ctxp_slots_deinit(&c->entry_of);
  ctxp_slots_deinit(&c->call_of);
  ctxp_buf_deinit(&c->scratch);
  free(c);
  t->state = NULL;
}
