/* pi: second pass, the events in the order of the entries. */
#include <errno.h>
#include <stdlib.h>
#include "feeders/content.h"
#include "feeders/pi.h"
#include "feeders/threads.h"

enum { SLOT_COMPACTION = CTXP_SLOT_PROMPT,
  SLOT_RESULT = CTXP_SLOT_OWN,
  SLOT_MESSAGE,
  SLOT_SIDE_START,
  SLOT_SIDE_PROMPT,
  SLOTS };

struct emitter {
  struct ctxp_transcript *t;
  struct pi *c;
  struct ctxp_feed *feed;
  struct ctxp_threads threads;
  uint32_t side; /* name of the thread of what belongs to no window */
  struct ctxp_slots walked, edited; /* by entry: the call that came past it, and its edit + 1 */
  struct ctxp_slots loose; /* entries that stand in the window behind a compaction that came after them */
  uint32_t *path, path_count, path_cap;
  struct ctxp_buf list, more, text;
  bool shrunk;
};

static struct ctxp_str text_of(const struct emitter *e, uint32_t name) { return ctxp_texts_text(&e->c->names, name); }

static int start(struct emitter *e, struct ctxp_thread *thread, uint64_t base, unsigned slot) {
  if (thread->started) return 0;
  struct ctxp_event ev = {.kind = CTXP_KIND_session_start, .session_start = {.product = ctxp_str(ctxp_format_pi.name)}};
  ctxp_set(&ev.session_start, session_start, recorded, true);
  if (e->c->cwd) ctxp_set(&ev.session_start, session_start, cwd, text_of(e, e->c->cwd));
  if (thread->name)
    ctxp_set(&ev.session_start, session_start, parentThread, thread->name == e->side ? text_of(e, e->c->thread) : CTXP_STR(""));
  thread->started = true;
  return ctxp_threads_send(&e->threads, thread, base, slot, &ev);
}

/* ---- requests ---- */
static int push(struct emitter *e, uint32_t value) {
  if (ctxp_grow(&e->path, &e->path_cap, e->path_count, sizeof(*e->path)) < 0) return -ENOMEM;
  e->path[e->path_count++] = value;
  return 0;
}

/* What an entry is in the request of this call: its number, that of the edit that replaces it, or none. */
static uint32_t resident(const struct emitter *e, uint32_t number) {
  const struct pi_entry *entry = &e->c->entries[number];
  uint32_t edit = e->c->edits ? ctxp_slots_get(&e->edited, number) : 0;
  if (edit) return e->c->entries[edit - 1].resident ? edit - 1 : UINT32_MAX;
  return entry->resident && (entry->kind == PI_MESSAGE || entry->kind == PI_REPLY) ? number : UINT32_MAX;
}

/* the entries from the first that a compaction kept up to the compaction, upwards; nothing, if the first is not among them */
static int push_kept(struct emitter *e, uint32_t number, uint32_t call) {
  const struct pi_entry *compaction = &e->c->entries[number];
  uint32_t mark = e->path_count;
  for (uint32_t at = compaction->parent; at; at = e->c->entries[at - 1].parent) {
    const struct pi_entry *entry = &e->c->entries[at - 1];
    if (ctxp_slots_get(&e->walked, at - 1) == call) break;
    if (ctxp_slots_set(&e->walked, at - 1, call) < 0) return -ENOMEM;
    bool past = compaction->kept_place && entry->place < compaction->kept_place;
    if (past) return 0;
    if (resident(e, at - 1) != UINT32_MAX) {
      if (push(e, resident(e, at - 1)) < 0 || ctxp_slots_set(&e->loose, resident(e, at - 1), 1) < 0) return -ENOMEM;
    }
    if (compaction->kept && entry->id == compaction->kept) return 0;
    if (compaction->kept_place && (entry->place == compaction->kept_place || !entry->parent)) return 0;
  }
  e->path_count = mark;
  return 0;
}

static int note_edit(struct emitter *e, uint32_t number) {
  const struct pi_entry *edit = &e->c->entries[number];
  uint32_t target = edit->kept ? ctxp_slots_get(&e->c->entry_of, edit->kept) : 0;
  if (!target || ctxp_slots_get(&e->edited, target - 1)) return 0; /* a later edit counts */
  return ctxp_slots_set(&e->edited, target - 1, number + 1);
}

/* Walks up from an entry; *ret_from: how much of the window's beginning is the request's too. The path is from the end upwards. */
static int walk_up(struct emitter *e, const struct ctxp_window *window, uint32_t number, uint32_t *ret_from) {
  struct pi *c = e->c;
  uint32_t call = number + 1;
  *ret_from = 0;
  e->path_count = 0;
  if (c->edits) ctxp_slots_deinit(&e->edited);
  for (uint32_t at = c->entries[number].parent; at; at = c->entries[at - 1].parent) {
    const struct pi_entry *entry = &c->entries[at - 1];
    if (ctxp_slots_get(&e->walked, at - 1) == call) break;
    if (ctxp_slots_set(&e->walked, at - 1, call) < 0) return -ENOMEM;
    if (entry->kind == PI_EDIT && note_edit(e, at - 1) < 0) return -ENOMEM;
    bool known = ctxp_window_has(window, &e->threads.places, at - 1) && !ctxp_slots_get(&e->loose, at - 1);
    if (known && !c->edits && (resident(e, at - 1) != UINT32_MAX || entry->kind == PI_COMPACTION)) {
      if (entry->kind == PI_COMPACTION) { /* what it kept stands behind it */
        if (push_kept(e, at - 1, call) < 0) return -ENOMEM;
      }
      *ret_from = ctxp_slots_get(&e->threads.places, at - 1) + 1;
      break;
    }
    if (entry->kind == PI_COMPACTION) return push_kept(e, at - 1, call) < 0 ? -ENOMEM : push(e, at - 1);
    if (resident(e, at - 1) == UINT32_MAX) continue;
    if (push(e, resident(e, at - 1)) < 0 || ctxp_slots_set(&e->loose, at - 1, 0) < 0) return -ENOMEM;
  }
  return 0;
}

static int build_request(struct emitter *e, struct ctxp_thread *thread, uint32_t number, uint32_t *ret_keep) {
  uint32_t from;
  int r = walk_up(e, &thread->window, number, &from);
  for (uint32_t i = 0; i < e->path_count / 2; i++) {
    uint32_t other = e->path[i];
    e->path[i] = e->path[e->path_count - 1 - i];
    e->path[e->path_count - 1 - i] = other;
  }
  return r < 0 ? r : ctxp_window_set(&thread->window, &e->threads.places, from, e->path, e->path_count, ret_keep);
}

static void set_usage(struct ctxp_prompt *prompt, const struct pi_usage *u) {
  if (!u->reported) return;
  struct ctxp_usage usage = {.input = u->input};
  ctxp_set(&usage, usage, cacheRead, u->cache_read);
  ctxp_set(&usage, usage, cacheWrite5m, u->write_5m);
  ctxp_set(&usage, usage, cacheWrite1h, u->write_1h);
  ctxp_set(&usage, usage, output, u->output);
  if (u->reasoning) ctxp_set(&usage, usage, reasoning, u->reasoning);
  ctxp_set(prompt, prompt, usage, usage);
  if (!u->priced) return;
  struct ctxp_cost cost = {0};
  if (u->split) {
    ctxp_set(&cost, cost, inputNano, u->input_nano);
    ctxp_set(&cost, cost, cacheReadNano, u->cache_read_nano);
    ctxp_set(&cost, cost, cacheWriteNano, u->cache_write_nano);
    ctxp_set(&cost, cost, outputNano, u->output_nano);
  }
  if (u->total) ctxp_set(&cost, cost, totalNano, u->total_nano);
  ctxp_set(prompt, prompt, cost, cost);
}

static int send_prompt(struct emitter *e, struct ctxp_thread *thread, uint64_t base, unsigned slot, const struct pi_usage *usage,
    uint32_t keep, uint32_t reply) {
  struct pi *c = e->c;
  struct ctxp_event ev = {.kind = CTXP_KIND_prompt};
  struct ctxp_prompt *prompt = &ev.prompt;
  ctxp_auto_buf persons = {0}, replies = {0};
  int r = reply ? ctxp_strs_add(&prompt->reply, &replies, text_of(e, c->entries[reply - 1].id)) : 0;
  ctxp_buf_reset(&e->list);
  for (uint32_t i = keep; r == 0 && i < thread->window.count; i++) {
    const struct pi_entry *entry = &c->entries[thread->window.items[i]];
    struct ctxp_ref ref = {.id = text_of(e, entry->id)};
    r = ctxp_list_add(&prompt->append, &e->list, &ctxp_shape_ref, &ref);
    if (r == 0 && entry->person && !c->thread) r = ctxp_strs_add(&prompt->personPrompt, &persons, ref.id);
  }
  if (r < 0) return r;
  prompt->callId = text_of(e, usage->call_id);
  prompt->source = CTXP_STR("transcript");
  prompt->has |= UINT64_C(1) << CTXP_IX_prompt_append | UINT64_C(1) << CTXP_IX_prompt_source;
  if (prompt->reply.count) prompt->has |= UINT64_C(1) << CTXP_IX_prompt_reply;
  if (prompt->personPrompt.count) prompt->has |= UINT64_C(1) << CTXP_IX_prompt_personPrompt;
  ctxp_set(prompt, prompt, turn, thread->turn);
  ctxp_set(prompt, prompt, keep, keep);
  if (usage->model) ctxp_set(prompt, prompt, model, text_of(e, usage->model));
  set_usage(prompt, usage);
  return ctxp_threads_send(&e->threads, thread, base, slot, &ev);
}

/* ---- texts, read again from the file ---- */
static int span_text(struct emitter *e, uint32_t number, uint32_t at, uint32_t len, struct ctxp_str *ret) {
  const struct pi_entry *entry = &e->c->entries[number];
  struct ctxp_str bytes;
  int r = ctxp_lines_read(e->t->lines, entry->offset, entry->bytes, &bytes);
  if (r < 0) return r;
  e->shrunk = r == 0;
  if (e->shrunk) return *ret = (struct ctxp_str){0}, 0;
  if (entry->offset == 0 && ctxp_str_starts(bytes, "\xef\xbb\xbf")) bytes.ptr += 3, bytes.len -= 3;
  if (entry->cleaned) bytes = ctxp_utf8_clean(bytes, &e->more);
  if (e->more.failed) return -ENOMEM;
  bool inside = at <= bytes.len && len <= bytes.len - at;
  *ret = inside ? (struct ctxp_str){bytes.ptr + at, len} : (struct ctxp_str){0};
  return 0;
}

static int keep_inputs(struct emitter *e, uint32_t number) {
  struct pi *c = e->c;
  for (uint32_t at = c->entries[number].calls; at && !e->shrunk; at = c->calls[at - 1].next) {
    struct pi_call *call = &c->calls[at - 1];
    struct ctxp_str source;
    if (!call->result || c->entries[call->result - 1].offset + SLOTS < e->feed->position) continue;
    int r = span_text(e, number, call->input_at, call->input_len, &source);
    if (r == 0 && !e->shrunk) r = ctxp_content_input(e->t->json, source, &call->input);
    if (r < 0) return r;
  }
  return 0;
}

/* "... exited with code 127" at the end of a failed command's text */
static bool exit_code(struct ctxp_str text, int64_t *ret) {
  static const char said[] = " exited with code ";
  size_t at = text.len;
  while (at && text.ptr[at - 1] >= '0' && text.ptr[at - 1] <= '9') at--;
  size_t digits = text.len - at;
  if (!digits || digits > 5 || !ctxp_str_ends((struct ctxp_str){text.ptr, at}, said)) return false;
  for (*ret = 0; at < text.len; at++) *ret = *ret * 10 + (text.ptr[at] - '0');
  return true;
}

static int add_images(struct emitter *e, uint32_t count, struct ctxp_list *list) {
  const struct ctxp_image image = {0};
  int r = 0;
  ctxp_buf_reset(&e->list);
  for (uint32_t i = 0; r == 0 && i < count && i < 1000; i++) r = ctxp_list_add(list, &e->list, &ctxp_shape_image, &image);
  return r;
}

/* ---- messages ---- */
static int send_result(struct emitter *e, struct ctxp_thread *thread, uint64_t base, uint32_t number) {
  struct pi *c = e->c;
  const struct pi_entry *entry = &c->entries[number];
  uint32_t at = ctxp_slots_get(&c->call_of, entry->answers);
  struct pi_call *call = at ? &c->calls[at - 1] : NULL;
  struct ctxp_event ev = {.kind = CTXP_KIND_tool_result};
  struct ctxp_tool_result *result = &ev.tool_result;
  struct ctxp_str source;
  int64_t code;
  if (call && call->result != number + 1) return 0; /* told once */
  int r = span_text(e, number, entry->text_at, entry->text_len, &source);
  if (r < 0 || e->shrunk) return r;
  r = ctxp_content_text(e->t->json, source, &e->text);
  if (r == 0 && entry->images) r = add_images(e, entry->images, &result->images);
  result->toolCallId = text_of(e, entry->answers);
  result->tool = text_of(e, entry->tool);
  result->isError = entry->failed;
  result->text = ctxp_buf_view(&e->text);
  if (thread->turn) ctxp_set(result, tool_result, turn, thread->turn);
  if (call && call->input.len) ctxp_set(result, tool_result, input, ctxp_buf_raw(&call->input));
  if (entry->failed && exit_code(result->text, &code)) ctxp_set(result, tool_result, exitCode, code);
  if (result->images.count) result->has |= UINT64_C(1) << CTXP_IX_tool_result_images;
  if (r == 0) r = ctxp_threads_send(&e->threads, thread, base, SLOT_RESULT, &ev);
  if (call) ctxp_buf_deinit(&call->input);
  return r;
}

static int add_calls(struct emitter *e, const struct pi_entry *entry, struct ctxp_context_message *message) {
  int r = 0;
  ctxp_buf_reset(&e->list);
  for (uint32_t at = entry->calls; r == 0 && at; at = e->c->calls[at - 1].next) {
    const struct pi_call *call = &e->c->calls[at - 1];
    struct ctxp_call record = {.id = text_of(e, call->id), .name = text_of(e, call->name)};
    if (call->path) ctxp_set(&record, call, path, text_of(e, call->path));
    ctxp_set(&record, call, tokens, call->tokens);
    if (call->content_tokens) ctxp_set(&record, call, contentTokens, call->content_tokens);
    r = ctxp_list_add(&message->calls, &e->list, &ctxp_shape_call, &record);
  }
  message->has |= UINT64_C(1) << CTXP_IX_context_message_calls;
  return r;
}

static int send_message(struct emitter *e, struct ctxp_thread *thread, uint64_t base, const struct pi_entry *entry) {
  struct ctxp_event ev = {.kind = CTXP_KIND_context_message};
  struct ctxp_context_message *message = &ev.context_message;
  int r = 0;
  message->id = text_of(e, entry->id);
  message->role = (enum ctxp_role)entry->role;
  message->band = (enum ctxp_band)entry->band;
  message->tokens = entry->tokens;
  ctxp_set(message, context_message, pieces, entry->pieces);
  ctxp_set(message, context_message, chars, entry->units);
  if (entry->label) ctxp_set(message, context_message, label, text_of(e, entry->label));
  if (entry->answers) ctxp_set(message, context_message, toolCallId, text_of(e, entry->answers));
  if (entry->tool) ctxp_set(message, context_message, tool, text_of(e, entry->tool));
  if (entry->calls) {
    r = add_calls(e, entry, message);
  } else if (entry->images) {
    r = add_images(e, entry->images, &message->images);
    message->has |= UINT64_C(1) << CTXP_IX_context_message_images;
  }
  if (entry->thinks) {
    struct ctxp_thinking thinking = {0};
    const struct pi_usage *usage = entry->usage ? &e->c->usages[entry->usage - 1] : NULL;
    if (usage && usage->reasoning) ctxp_set(&thinking, thinking, tokens, usage->reasoning);
    if (entry->signature_units) ctxp_set(&thinking, thinking, signatureUnits, entry->signature_units);
    ctxp_set(message, context_message, thinking, thinking);
  }
  return r < 0 ? r : ctxp_threads_send(&e->threads, thread, base, SLOT_MESSAGE, &ev);
}

/* ---- entries ---- */
static int emit_reply(struct emitter *e, struct ctxp_thread *thread, uint64_t base, uint32_t number) {
  const struct pi_entry *entry = &e->c->entries[number];
  uint32_t keep = 0;
  int r = ctxp_threads_end_turn(&e->threads, thread, base, CTXP_SLOT_TURN_END);
  if (r == 0) r = build_request(e, thread, number, &keep);
  thread->turn++;
  thread->in_turn = true;
  if (r == 0) r = send_prompt(e, thread, base, CTXP_SLOT_PROMPT, &e->c->usages[entry->usage - 1], keep, entry->resident ? number + 1 : 0);
  return r == 0 ? keep_inputs(e, number) : r;
}

static int emit_compaction(struct emitter *e, struct ctxp_thread *thread, uint64_t base, const struct pi_entry *entry) {
  struct ctxp_event ev = {.kind = CTXP_KIND_compaction};
  ctxp_set(&ev.compaction, compaction, summaryId, text_of(e, entry->id));
  if (entry->before) ctxp_set(&ev.compaction, compaction, before, entry->before);
  return ctxp_threads_send(&e->threads, thread, base, SLOT_COMPACTION, &ev);
}

static int emit_main(struct emitter *e, const struct pi_entry *entry, uint32_t number) {
  uint64_t base = entry->offset + 1;
  struct ctxp_thread *thread;
  int r = ctxp_threads_get(&e->threads, e->c->thread, &thread);
  if (r == 0) r = start(e, thread, base, CTXP_SLOT_START);
  if (r == 0 && entry->kind == PI_REPLY) r = emit_reply(e, thread, base, number);
  if (r == 0 && entry->kind == PI_COMPACTION) r = emit_compaction(e, thread, base, entry);
  if (r == 0 && entry->person) r = ctxp_threads_start_agent(&e->threads, thread, base, (struct ctxp_str){0});
  if (r == 0 && entry->answers) r = send_result(e, thread, base, number);
  if (r == 0 && entry->resident && !e->shrunk) r = send_message(e, thread, base, entry);
  return r;
}

/* usage beside the window: a call with an empty request, in a thread of its own */
static int emit_side(struct emitter *e, const struct pi_entry *entry) {
  uint64_t base = entry->offset + 1;
  struct ctxp_thread *thread;
  int r = ctxp_threads_get(&e->threads, e->side, &thread);
  if (r == 0) r = start(e, thread, base, SLOT_SIDE_START);
  thread->turn++;
  return r == 0 ? send_prompt(e, thread, base, SLOT_SIDE_PROMPT, &e->c->usages[entry->usage - 1], 0, 0) : r;
}

static int emit_entry(struct emitter *e, uint32_t number) {
  const struct pi_entry *entry = &e->c->entries[number];
  int r = 0;
  ctxp_feed_line(e->feed, entry->offset, entry->bytes, entry->ts_ms);
  if (entry->kind != PI_LINK) r = emit_main(e, entry, number);
  if (r == 0 && entry->kind != PI_REPLY && entry->usage && e->c->usages[entry->usage - 1].reported) r = emit_side(e, entry);
  bool ended = number + 1 < e->c->entry_count && ctxp_threads_ended_at(&e->threads, entry->offset, entry->bytes, SLOTS);
  return r == 0 && ended ? ctxp_threads_close(&e->threads, entry->offset, entry->bytes, SLOTS, true) : r;
}

int pi_emit(struct ctxp_transcript *t, struct ctxp_feed *feed, struct ctxp_error *err) {
  struct emitter e = {.t = t, .c = t->state, .feed = feed};
  int r = 0;
  e.threads = (struct ctxp_threads){.feed = feed, .err = err, .names = &e.c->names};
  e.side = ctxp_texts_add(&e.c->names, CTXP_STR("side"));
  if (e.side == CTXP_NO_NAME) r = -ENOMEM;
  feed->session = ctxp_texts_text(&e.c->names, e.c->session);
  if (!feed->session.len) feed->session = t->stem;
  for (uint32_t i = 0; r == 0 && !e.shrunk && i < e.c->entry_count; i++) r = emit_entry(&e, i);
  if (r == 0 && e.shrunk) ctxp_notes_fault(t->notes, "%s: became shorter while it was read; what stood before the cut was read", t->path);
  const struct pi_entry *last = e.c->entry_count ? &e.c->entries[e.c->entry_count - 1] : NULL;
  if (r == 0 && !e.shrunk && last) r = ctxp_threads_close(&e.threads, last->offset, last->bytes, SLOTS, false);
  ctxp_threads_deinit(&e.threads);
  ctxp_slots_deinit(&e.walked);
  ctxp_slots_deinit(&e.edited);
  ctxp_slots_deinit(&e.loose);
  ctxp_buf_deinit(&e.list);
  ctxp_buf_deinit(&e.more);
  ctxp_buf_deinit(&e.text);
  free(e.path);
  if (r == -ENOMEM) ctxp_error_set(err, r, "%s: out of memory while reading it", t->path);
  return r;
}

static bool detect(struct ctxp_json *json) {
  static const struct ctxp_str keys[] = {{"type", 4}, {"id", 2}, {"cwd", 3}, {"timestamp", 9}, {"message", 7}};
  uint32_t at[5];
  ctxp_json_pick(json, 0, keys, 5, at);
  if (ctxp_json_is(json, at[0], "message_start") || ctxp_json_is(json, at[0], "message_end")) /* of a stream without its header */
    return ctxp_json_type(json, ctxp_json_get(json, at[4], "role")) == CTXP_JSON_STRING;
  return ctxp_json_is(json, at[0], "session") && ctxp_json_type(json, at[1]) == CTXP_JSON_STRING &&
      (ctxp_json_type(json, at[2]) == CTXP_JSON_STRING || ctxp_json_type(json, at[3]) == CTXP_JSON_STRING);
}

const struct ctxp_format ctxp_format_pi = {.name = "pi", .detect = detect, .index = pi_index, .emit = pi_emit, .close = pi_close};
