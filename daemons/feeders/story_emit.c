/* The events of a story, in its order. */
#include <errno.h>
#include <stdlib.h>
#include "codec/msgpack.h"
#include "feeders/story.h"
#include "feeders/threads.h"

enum { SLOT_RESULT = CTXP_SLOT_OWN,
  SLOT_MESSAGE,
  SLOTS }; /* of one step; the steps of a record follow each other */

struct emitter {
  struct ctxp_transcript *t;
  struct ctxp_story *s;
  struct ctxp_feed *feed;
  struct ctxp_threads threads;
  struct ctxp_buf list, more, text, input, plain;
  bool shrunk;
};

static struct ctxp_str text_of(const struct emitter *e, uint32_t name) { return ctxp_texts_text(&e->s->names, name); }

/* ---- texts, read again from the file ---- */
static int span_text(struct emitter *e, struct ctxp_span span, struct ctxp_str *ret) {
  struct ctxp_str bytes = ctxp_buf_view(&e->s->document);
  *ret = (struct ctxp_str){"", 0};
  if (!span.record) return 0;
  const struct ctxp_story_record *record = &e->s->records[span.record - 1];
  if (!bytes.len) {
    int r = ctxp_lines_read(e->t->lines, record->offset, record->bytes, &bytes);
    if (r < 0) return r;
    e->shrunk = r == 0;
    if (e->shrunk) return 0;
    if (record->offset == 0 && ctxp_str_starts(bytes, "\xef\xbb\xbf")) bytes.ptr += 3, bytes.len -= 3;
    if (record->cleaned) bytes = ctxp_utf8_clean(bytes, &e->more);
    if (e->more.failed) return -ENOMEM;
  }
  if (span.at <= bytes.len && span.len <= bytes.len - span.at) *ret = (struct ctxp_str){bytes.ptr + span.at, span.len};
  return 0;
}

/* the arguments of a call, as MessagePack in e->input */
static int read_input(struct emitter *e, const struct ctxp_story_call *call) {
  struct ctxp_str source;
  ctxp_buf_reset(&e->input);
  if (call->command) {
    ctxp_pack_map(&e->input, 1);
    ctxp_pack_cstr(&e->input, "command");
    ctxp_pack_str(&e->input, text_of(e, call->command));
    return ctxp_buf_error(&e->input);
  }
  int r = span_text(e, call->input, &source);
  if (r < 0 || e->shrunk || !source.len) return r;
  if (call->text) {
    r = ctxp_content_text(e->t->json, source, &e->plain);
    source = ctxp_buf_view(&e->plain);
  }
  return r < 0 || !source.len ? r : ctxp_content_input(e->t->json, source, &e->input);
}

/* ---- events ---- */
static int start(struct emitter *e, struct ctxp_thread *thread, uint64_t base) {
  if (thread->started) return 0;
  struct ctxp_event ev = {.kind = CTXP_KIND_session_start, .session_start = {.product = ctxp_str(e->t->format->name)}};
  ctxp_set(&ev.session_start, session_start, recorded, true);
  if (e->s->cwd) ctxp_set(&ev.session_start, session_start, cwd, text_of(e, e->s->cwd));
  if (e->s->branch) ctxp_set(&ev.session_start, session_start, branch, text_of(e, e->s->branch));
  uint32_t parent = ctxp_slots_get(&e->s->spawned_by, thread->name);
  if (thread->name) ctxp_set(&ev.session_start, session_start, parentThread, text_of(e, parent ? parent - 1 : 0));
  thread->started = true;
  return ctxp_threads_send(&e->threads, thread, base, CTXP_SLOT_START, &ev);
}

static int add_images(struct emitter *e, uint32_t count, struct ctxp_list *list) {
  const struct ctxp_image image = {0};
  int r = 0;
  ctxp_buf_reset(&e->list);
  for (uint32_t i = 0; r == 0 && i < count && i < 1000; i++) r = ctxp_list_add(list, &e->list, &ctxp_shape_image, &image);
  return r;
}

/* {"output": text, "metadata": {"exit_code": number}} */
static int unwrap(struct emitter *e, struct ctxp_tool_result *result) {
  struct ctxp_json *json = e->t->json;
  if (!e->text.len || e->text.ptr[0] != '{') return 0;
  int r = ctxp_json_load(json, ctxp_buf_view(&e->text), NULL);
  uint32_t output = r == 0 ? ctxp_json_get(json, 0, "output") : CTXP_JSON_NONE;
  if (ctxp_json_type(json, output) != CTXP_JSON_STRING) return r == -ENOMEM ? r : 0;
  uint32_t code = ctxp_json_get(json, ctxp_json_get(json, 0, "metadata"), "exit_code");
  if (ctxp_json_type(json, code) == CTXP_JSON_NUMBER) {
    uint64_t number = ctxp_json_u64(json, code, 1);
    ctxp_set(result, tool_result, exitCode, (int64_t)(number < INT32_MAX ? number : 1));
    result->isError = number != 0;
  }
  ctxp_buf_reset(&e->plain);
  ctxp_json_unescape(ctxp_json_escaped(json, output), &e->plain);
  struct ctxp_buf whole = e->text;
  e->text = e->plain;
  e->plain = whole;
  return ctxp_buf_error(&e->text);
}

static int send_result(struct emitter *e, struct ctxp_thread *thread, uint64_t base, const struct ctxp_story_message *m) {
  uint32_t at = ctxp_slots_get(&e->s->call_of, m->answers);
  struct ctxp_event ev = {.kind = CTXP_KIND_tool_result};
  struct ctxp_tool_result *result = &ev.tool_result;
  struct ctxp_str source = {0};
  if (base + SLOT_RESULT <= e->feed->position) return 0;
  ctxp_buf_reset(&e->input);
  int r = at ? read_input(e, &e->s->calls[at - 1]) : 0;
  if (r == 0 && !e->shrunk) r = span_text(e, m->text, &source);
  if (r < 0 || e->shrunk) return r;
  r = ctxp_content_text(e->t->json, source, &e->text);
  if (r == 0 && m->images) r = add_images(e, m->images, &result->images);
  if (r == 0 && m->wrapped) r = unwrap(e, result);
  result->toolCallId = text_of(e, m->answers);
  result->tool = text_of(e, m->tool);
  result->isError |= m->failed;
  result->text = ctxp_buf_view(&e->text);
  if (thread->turn) ctxp_set(result, tool_result, turn, thread->turn);
  if (e->input.len) ctxp_set(result, tool_result, input, ctxp_buf_raw(&e->input));
  if (result->images.count) result->has |= UINT64_C(1) << CTXP_IX_tool_result_images;
  return r < 0 ? r : ctxp_threads_send(&e->threads, thread, base, SLOT_RESULT, &ev);
}

static int add_calls(struct emitter *e, const struct ctxp_story_message *m, struct ctxp_context_message *message) {
  int r = 0;
  ctxp_buf_reset(&e->list);
  for (uint32_t at = m->calls; r == 0 && at; at = e->s->calls[at - 1].next) {
    const struct ctxp_story_call *call = &e->s->calls[at - 1];
    struct ctxp_call record = {.id = text_of(e, call->id), .name = text_of(e, call->name)};
    if (call->path) ctxp_set(&record, call, path, text_of(e, call->path));
    ctxp_set(&record, call, tokens, call->tokens);
    if (call->content_tokens) ctxp_set(&record, call, contentTokens, call->content_tokens);
    r = ctxp_list_add(&message->calls, &e->list, &ctxp_shape_call, &record);
  }
  message->has |= UINT64_C(1) << CTXP_IX_context_message_calls;
  return r;
}

static int send_message(struct emitter *e, struct ctxp_thread *thread, uint64_t base, const struct ctxp_story_message *m) {
  struct ctxp_event ev = {.kind = CTXP_KIND_context_message};
  struct ctxp_context_message *message = &ev.context_message;
  int r = 0;
  message->id = text_of(e, m->id);
  message->role = (enum ctxp_role)m->role;
  message->band = (enum ctxp_band)m->band;
  message->tokens = m->tokens;
  if (m->pieces) ctxp_set(message, context_message, pieces, m->pieces);
  ctxp_set(message, context_message, chars, m->units);
  if (m->label) ctxp_set(message, context_message, label, text_of(e, m->label));
  if (m->answers) ctxp_set(message, context_message, toolCallId, text_of(e, m->answers));
  if (m->tool) ctxp_set(message, context_message, tool, text_of(e, m->tool));
  if (m->calls) {
    r = add_calls(e, m, message);
  } else if (m->images) {
    r = add_images(e, m->images, &message->images);
    message->has |= UINT64_C(1) << CTXP_IX_context_message_images;
  }
  if (m->thinks) {
    struct ctxp_thinking thinking = {0};
    if (m->reasoning) ctxp_set(&thinking, thinking, tokens, m->reasoning);
    if (m->signature_units) ctxp_set(&thinking, thinking, signatureUnits, m->signature_units);
    ctxp_set(message, context_message, thinking, thinking);
  }
  return r < 0 ? r : ctxp_threads_send(&e->threads, thread, base, SLOT_MESSAGE, &ev);
}

static int emit_message(struct emitter *e, struct ctxp_thread *thread, uint64_t base, uint32_t number) {
  const struct ctxp_story_message *m = &e->s->messages[number];
  int r = m->person ? ctxp_threads_start_agent(&e->threads, thread, base, (struct ctxp_str){0}) : 0;
  if (r == 0 && m->result) r = send_result(e, thread, base, m);
  return r == 0 && !e->shrunk ? send_message(e, thread, base, m) : r;
}

static int add_refs(struct emitter *e, const struct ctxp_story_prompt *p, struct ctxp_prompt *prompt, struct ctxp_buf *persons) {
  int r = 0;
  ctxp_buf_reset(&e->list);
  for (uint32_t i = 0; r == 0 && i < p->count; i++) {
    const struct ctxp_story_ref *at = &e->s->refs[p->first + i];
    const struct ctxp_story_message *m = &e->s->messages[at->message];
    struct ctxp_ref ref = {.id = text_of(e, m->id)};
    if (at->band != CTXP_STORY_OWN_BAND) ctxp_set(&ref, ref, band, (enum ctxp_band)at->band);
    r = ctxp_list_add(&prompt->append, &e->list, &ctxp_shape_ref, &ref);
    if (r == 0 && m->person) r = ctxp_strs_add(&prompt->personPrompt, persons, ref.id);
  }
  return r;
}

static int emit_prompt(struct emitter *e, struct ctxp_thread *thread, uint64_t base, const struct ctxp_story_prompt *p) {
  struct ctxp_event ev = {.kind = CTXP_KIND_prompt};
  struct ctxp_prompt *prompt = &ev.prompt;
  ctxp_auto_buf persons = {0}, replies = {0};
  int r = ctxp_threads_end_turn(&e->threads, thread, base, CTXP_SLOT_TURN_END);
  thread->turn++;
  thread->in_turn = true;
  if (r == 0) r = add_refs(e, p, prompt, &persons);
  for (uint32_t i = p->reply; r == 0 && i && i < p->reply + p->replies && i <= e->s->message_count; i++) {
    const struct ctxp_story_message *m = &e->s->messages[i - 1];
    if (m->role == CTXP_ROLE_assistant) r = ctxp_strs_add(&prompt->reply, &replies, text_of(e, m->id));
  }
  if (r < 0) return r;
  prompt->callId = text_of(e, p->call_id);
  prompt->source = CTXP_STR("transcript");
  prompt->has |= UINT64_C(1) << CTXP_IX_prompt_append | UINT64_C(1) << CTXP_IX_prompt_source;
  if (prompt->reply.count) prompt->has |= UINT64_C(1) << CTXP_IX_prompt_reply;
  if (prompt->personPrompt.count) prompt->has |= UINT64_C(1) << CTXP_IX_prompt_personPrompt;
  ctxp_set(prompt, prompt, turn, thread->turn);
  ctxp_set(prompt, prompt, keep, p->keep);
  if (p->model) ctxp_set(prompt, prompt, model, text_of(e, p->model));
  if (p->reported) ctxp_set(prompt, prompt, usage, p->usage);
  if (p->priced) ctxp_set(prompt, prompt, cost, p->cost);
  return ctxp_threads_send(&e->threads, thread, base, CTXP_SLOT_PROMPT, &ev);
}

static int emit_compaction(struct emitter *e, struct ctxp_thread *thread, uint64_t base, uint32_t number) {
  struct ctxp_event ev = {.kind = CTXP_KIND_compaction};
  ctxp_set(&ev.compaction, compaction, summaryId, text_of(e, e->s->messages[number].id));
  return ctxp_threads_send(&e->threads, thread, base, CTXP_SLOT_PROMPT, &ev);
}

static int emit_step(struct emitter *e, const struct ctxp_story_step *step, uint64_t base) {
  struct ctxp_thread *thread;
  int r = ctxp_threads_get(&e->threads, step->thread, &thread);
  if (r == 0) r = start(e, thread, base);
  if (r < 0) return r;
  if (step->kind == CTXP_STORY_PROMPT) return emit_prompt(e, thread, base, &e->s->prompts[step->number]);
  if (step->kind == CTXP_STORY_COMPACTION) return emit_compaction(e, thread, base, step->number);
  return emit_message(e, thread, base, step->number);
}

/* the steps of one record; what a record has no room for (it would have to be nonsense) is left out */
static int emit_record(struct emitter *e, uint32_t from, uint32_t to) {
  const struct ctxp_story_record *record = &e->s->records[e->s->steps[from].record];
  unsigned used = 0;
  int r = 0;
  ctxp_feed_line(e->feed, record->offset, record->bytes, record->ts_ms);
  for (uint32_t i = from; r == 0 && !e->shrunk && i < to && used + SLOTS <= record->bytes; i++, used += SLOTS)
    r = emit_step(e, &e->s->steps[i], record->offset + 1 + used);
  bool last = to == e->s->step_count;
  if (r < 0 || e->shrunk || !(last || ctxp_threads_ended_at(&e->threads, record->offset, record->bytes, used))) return r;
  return ctxp_threads_close(&e->threads, record->offset, record->bytes, used, !last);
}

int ctxp_story_emit(struct ctxp_transcript *t, struct ctxp_feed *feed, struct ctxp_error *err) {
  struct emitter e = {.t = t, .s = t->state, .feed = feed};
  const struct ctxp_story *s = e.s;
  int r = 0;
  e.threads = (struct ctxp_threads){.feed = feed, .err = err, .names = &s->names};
  feed->session = ctxp_texts_text(&s->names, s->session);
  if (!feed->session.len || feed->session.len > CTXP_WINDOW_NAME_MAX) feed->session = t->stem;
  for (uint32_t i = 0, next; r == 0 && !e.shrunk && i < s->step_count; i = next) {
    for (next = i + 1; next < s->step_count && s->steps[next].record == s->steps[i].record; next++) {}
    r = emit_record(&e, i, next);
  }
  if (r == 0 && e.shrunk) ctxp_notes_fault(t->notes, "%s: became shorter while it was read; what stood before the cut was read", t->path);
  ctxp_threads_deinit(&e.threads);
  struct ctxp_buf *bufs[] = {&e.list, &e.more, &e.text, &e.input, &e.plain};
  for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++) ctxp_buf_deinit(bufs[i]);
  if (r == -ENOMEM) ctxp_error_set(err, r, "%s: out of memory while reading it", t->path);
  return r;
}
