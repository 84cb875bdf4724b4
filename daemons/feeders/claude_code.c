/* Claude Code: second pass, the events in the order of the lines.
 */
#include <errno.h>
#include <stdlib.h>
#include "feeders/claude.h"
#include "feeders/content.h"
#include "feeders/threads.h"

enum { SLOT_COMPACTION = CTXP_SLOT_PROMPT,
  SLOT_MESSAGES = CTXP_SLOT_OWN,
  SLOTS_PER_MESSAGE = 2 };

struct emitter {
  struct ctxp_transcript *t;
  struct claude *c;
  struct ctxp_feed *feed;
  struct ctxp_threads threads;
  struct ctxp_slots walked, added; /* by line, by message: the call that came past it last, + 1 */
  uint32_t *path, *tail;
  uint32_t path_count, path_cap, tail_count, tail_cap;
  struct ctxp_buf list, more, text;
  uint32_t here; /* the line whose bytes `bytes` are */
  struct ctxp_str bytes;
  bool have_bytes, shrunk;
};

static struct ctxp_str text_of(const struct emitter *e, uint32_t name) { return ctxp_texts_text(&e->c->names, name); }

static int start(struct emitter *e, struct ctxp_thread *thread, uint64_t base) {
  if (thread->started) return 0;
  struct ctxp_event ev = {.kind = CTXP_KIND_session_start, .session_start = {.product = ctxp_str(ctxp_format_claude_code.name)}};
  ctxp_set(&ev.session_start, session_start, recorded, true);
  if (e->c->cwd) ctxp_set(&ev.session_start, session_start, cwd, text_of(e, e->c->cwd));
  if (e->c->branch) ctxp_set(&ev.session_start, session_start, branch, text_of(e, e->c->branch));
  if (thread->name) {
    ctxp_set(&ev.session_start, session_start, parentThread, CTXP_STR(""));
    struct ctxp_str call = text_of(e, ctxp_slots_get(&e->c->spawned_by, thread->name));
    if (!call.len) call = e->t->spawned(e->t->spawned_data, text_of(e, thread->name));
    if (call.len) ctxp_set(&ev.session_start, session_start, spawnedBy, call);
  }
  thread->started = true;
  return ctxp_threads_send(&e->threads, thread, base, CTXP_SLOT_START, &ev);
}

static unsigned slots_of(const struct claude_line *line) {
  return SLOT_MESSAGES + (line->kind == CLAUDE_ASSISTANT ? 1u : (unsigned)line->message_count * SLOTS_PER_MESSAGE);
}

/* ---- texts, read again from the file ---- */
static int span_text(struct emitter *e, uint32_t number, uint32_t at, uint32_t len, struct ctxp_str *ret) {
  const struct claude_line *line = &e->c->lines[number];
  if (!e->have_bytes || e->here != number) {
    int r = ctxp_lines_read(e->t->lines, line->offset, line->bytes, &e->bytes);
    if (r < 0) return r;
    e->shrunk = r == 0;
    if (e->shrunk) return 0;
    if (line->offset == 0 && ctxp_str_starts(e->bytes, "\xef\xbb\xbf")) e->bytes.ptr += 3, e->bytes.len -= 3;
    if (line->cleaned) e->bytes = ctxp_utf8_clean(e->bytes, &e->more);
    if (e->more.failed) return -ENOMEM;
    e->here = number;
    e->have_bytes = true;
  }
  bool inside = at <= e->bytes.len && len <= e->bytes.len - at;
  *ret = inside ? (struct ctxp_str){e->bytes.ptr + at, len} : (struct ctxp_str){0};
  return 0;
}

/* inputs of calls are kept until their results */
static int keep_inputs(struct emitter *e, uint32_t number) {
  struct claude *c = e->c;
  for (uint32_t at = c->lines[number].calls; at && !e->shrunk; at = c->calls[at - 1].next_in_line) {
    struct claude_call *call = &c->calls[at - 1];
    struct ctxp_str source;
    uint32_t result = ctxp_slots_get(&c->result_of, call->id);
    if (!result || c->messages[result - 1].line < number || ctxp_slots_get(&c->call_of, call->id) != at) continue;
    if (c->lines[c->messages[result - 1].line].offset + c->lines[c->messages[result - 1].line].bytes < e->feed->position) continue;
    int r = span_text(e, number, call->input_at, call->input_len, &source);
    if (r == 0 && !e->shrunk) r = ctxp_content_input(e->t->json, source, &call->input);
    if (r < 0) return r;
  }
  return 0;
}

static bool exit_code(struct ctxp_str text, int64_t *ret) {
  if (!ctxp_str_starts(text, "Exit code ")) return false;
  size_t at = sizeof("Exit code ") - 1, from = at;
  for (*ret = 0; at < text.len && at < from + 5 && text.ptr[at] >= '0' && text.ptr[at] <= '9'; at++)
    *ret = *ret * 10 + (text.ptr[at] - '0');
  return at > from && (at == text.len || text.ptr[at] == '\n');
}

static int add_images(struct emitter *e, uint32_t count, struct ctxp_list *list) {
  const struct ctxp_image image = {0};
  int r = 0;
  ctxp_buf_reset(&e->list);
  for (uint32_t i = 0; r == 0 && i < count && i < 1000; i++) r = ctxp_list_add(list, &e->list, &ctxp_shape_image, &image);
  return r;
}

/* ---- messages ---- */
static int send_result(struct emitter *e, struct ctxp_thread *thread, uint64_t base, unsigned slot, const struct claude_message *m) {
  struct claude *c = e->c;
  uint32_t at = ctxp_slots_get(&c->call_of, m->answers);
  struct claude_call *call = at ? &c->calls[at - 1] : NULL;
  struct ctxp_event ev = {.kind = CTXP_KIND_tool_result};
  struct ctxp_tool_result *result = &ev.tool_result;
  struct ctxp_str source;
  int64_t code;
  int r = 0;
  if (base + slot > e->feed->position) {
    r = span_text(e, m->line, m->text_at, m->text_len, &source);
    if (r < 0 || e->shrunk) return r;
    r = ctxp_content_text(e->t->json, source, &e->text);
    if (r == 0 && m->images) r = add_images(e, m->images, &result->images);
  }
  result->toolCallId = text_of(e, m->answers);
  result->tool = call ? text_of(e, call->name) : CTXP_STR("");
  result->isError = m->failed;
  result->text = ctxp_buf_view(&e->text);
  if (thread->turn) ctxp_set(result, tool_result, turn, thread->turn);
  if (call && call->input.len) ctxp_set(result, tool_result, input, ctxp_buf_raw(&call->input));
  if (m->failed && exit_code(result->text, &code)) ctxp_set(result, tool_result, exitCode, code);
  if (result->images.count) result->has |= UINT64_C(1) << CTXP_IX_tool_result_images;
  if (ctxp_str_is(result->tool, "Skill")) ctxp_set(result, tool_result, skillLoad, !m->failed);
  if (r == 0) r = ctxp_threads_send(&e->threads, thread, base, slot, &ev);
  if (call) ctxp_buf_deinit(&call->input);
  return r;
}

static int send_message(struct emitter *e, struct ctxp_thread *thread, uint64_t base, unsigned slot, const struct claude_message *m) {
  struct claude *c = e->c;
  struct ctxp_event ev = {.kind = CTXP_KIND_context_message};
  struct ctxp_context_message *message = &ev.context_message;
  int r = 0;
  message->id = text_of(e, m->id);
  message->role = (enum ctxp_role)m->role;
  message->band = (enum ctxp_band)m->band;
  message->tokens = m->tokens;
  ctxp_set(message, context_message, pieces, m->pieces);
  ctxp_set(message, context_message, chars, m->units);
  if (m->label) ctxp_set(message, context_message, label, text_of(e, m->label));
  if (m->answers) {
    uint32_t call = ctxp_slots_get(&c->call_of, m->answers);
    ctxp_set(message, context_message, toolCallId, text_of(e, m->answers));
    if (call) ctxp_set(message, context_message, tool, text_of(e, c->calls[call - 1].name));
  }
  if (m->images) {
    r = add_images(e, m->images, &message->images);
    message->has |= UINT64_C(1) << CTXP_IX_context_message_images;
  }
  return r < 0 ? r : ctxp_threads_send(&e->threads, thread, base, slot, &ev);
}

/* the message that a response became */
static int send_reply(struct emitter *e, struct ctxp_thread *thread, uint64_t base, const struct claude_response *response) {
  struct claude *c = e->c;
  const struct claude_message *m = &c->messages[response->message];
  struct ctxp_event ev = {.kind = CTXP_KIND_context_message};
  struct ctxp_context_message *message = &ev.context_message;
  int r = 0;
  ctxp_buf_reset(&e->list);
  for (uint32_t at = response->calls; r == 0 && at; at = c->calls[at - 1].next_in_response) {
    const struct claude_call *call = &c->calls[at - 1];
    struct ctxp_call record = {.id = text_of(e, call->id), .name = text_of(e, call->name)};
    if (call->path) ctxp_set(&record, call, path, text_of(e, call->path));
    ctxp_set(&record, call, tokens, call->tokens);
    if (call->content_tokens) ctxp_set(&record, call, contentTokens, call->content_tokens);
    r = ctxp_list_add(&message->calls, &e->list, &ctxp_shape_call, &record);
  }
  message->id = text_of(e, m->id);
  message->role = CTXP_ROLE_assistant;
  message->band = CTXP_BAND_assistant;
  message->tokens = m->tokens;
  ctxp_set(message, context_message, pieces, m->pieces);
  ctxp_set(message, context_message, chars, m->units);
  if (message->calls.count) message->has |= UINT64_C(1) << CTXP_IX_context_message_calls;
  if (response->thinks) {
    struct ctxp_thinking thinking = {0};
    if (response->signature_units) ctxp_set(&thinking, thinking, signatureUnits, response->signature_units);
    ctxp_set(message, context_message, thinking, thinking);
  }
  return r < 0 ? r : ctxp_threads_send(&e->threads, thread, base, SLOT_MESSAGES, &ev);
}

/* ---- requests ---- */
static int push(uint32_t **items, uint32_t *count, uint32_t *cap, uint32_t value) {
  if (ctxp_grow(items, cap, *count, sizeof(**items)) < 0) return -ENOMEM;
  (*items)[(*count)++] = value;
  return 0;
}

/* the line before this one in its chain, + 1; 0: the chain begins here */
static uint32_t line_before(const struct claude *c, uint32_t number) {
  const struct claude_line *line = &c->lines[number];
  if (!line->parent) return 0;
  uint32_t parent = ctxp_slots_get(&c->line_of, line->parent);
  return parent ? parent : line->previous; /* a parent that is not in the file: what stood last before it */
}

/* Walks up from a line to where its request is the same as the window's beginning. *ret_from: how much of the window that is. */
static int walk_up(struct emitter *e, const struct ctxp_window *window, uint32_t number, uint32_t call, uint32_t *ret_from) {
  struct claude *c = e->c;
  *ret_from = 0;
  e->path_count = 0;
  for (uint32_t at = line_before(c, number); at; at = line_before(c, at - 1)) {
    const struct claude_line *line = &c->lines[at - 1];
    if (line->kind == CLAUDE_BOUNDARY || ctxp_slots_get(&e->walked, at - 1) == call) break;
    if (ctxp_slots_set(&e->walked, at - 1, call) < 0) return -ENOMEM;
    if (line->kind == CLAUDE_LINK) continue;
    if (push(&e->path, &e->path_count, &e->path_cap, at - 1) < 0) return -ENOMEM;
    bool results = line->message_count && c->messages[line->messages].answers;
    uint32_t message = line->kind == CLAUDE_ASSISTANT ? c->responses[line->response].message : line->messages + line->message_count - 1u;
    /* not at a later line of a response: others may stand between its lines. Not at a result: it stands with those of its round */
    if (results || (line->kind == CLAUDE_ASSISTANT ? c->responses[line->response].first != at - 1 : !line->message_count)) continue;
    if (!ctxp_window_has(window, &e->threads.places, message)) continue;
    *ret_from = ctxp_slots_get(&e->threads.places, message) + 1;
    break;
  }
  return 0;
}

/* once per request; what the kept beginning holds is not added again */
static int add_message(struct emitter *e, const struct ctxp_window *window, uint32_t from, uint32_t call, uint32_t message) {
  if (ctxp_slots_get(&e->added, message) == call) return 0;
  if (ctxp_window_has(window, &e->threads.places, message) && ctxp_slots_get(&e->threads.places, message) < from) return 0;
  if (ctxp_slots_set(&e->added, message, call) < 0) return -ENOMEM;
  return push(&e->tail, &e->tail_count, &e->tail_cap, message);
}

/* a response with all its lines, and every result of its calls, on whatever branch it hangs */
static int add_response(
    struct emitter *e, const struct ctxp_window *window, uint32_t from, uint32_t call, const struct claude_response *response) {
  struct claude *c = e->c;
  if (response->synthetic) return 0;
  int r = add_message(e, window, from, call, response->message);
  for (uint32_t at = response->calls; r == 0 && at; at = c->calls[at - 1].next_in_response) {
    uint32_t result = ctxp_slots_get(&c->result_of, c->calls[at - 1].id);
    if (result) r = add_message(e, window, from, call, result - 1);
  }
  return r;
}

static int build_request(struct emitter *e, struct ctxp_thread *thread, uint32_t number, uint32_t call, uint32_t *ret_keep) {
  struct claude *c = e->c;
  struct ctxp_window *window = &thread->window;
  uint32_t from;
  int r = walk_up(e, window, number, call, &from);
  e->tail_count = 0;
  while (r == 0 && e->path_count) {
    const struct claude_line *line = &c->lines[e->path[--e->path_count]];
    if (line->kind == CLAUDE_ASSISTANT) r = add_response(e, window, from, call, &c->responses[line->response]);
    for (uint32_t i = 0; r == 0 && i < line->message_count; i++) {
      uint32_t message = line->messages + i, answers = c->messages[message].answers;
      r = add_message(e, window, from, call, answers ? ctxp_slots_get(&c->result_of, answers) - 1 : message);
    }
  }
  return r < 0 ? r : ctxp_window_set(window, &e->threads.places, from, e->tail, e->tail_count, ret_keep);
}

static void set_usage(struct ctxp_prompt *prompt, const struct claude_response *response) {
  if (!response->sum) return; /* nothing was reported */
  struct ctxp_usage usage = {.input = response->usage.input};
  ctxp_set(&usage, usage, cacheRead, response->usage.cache_read);
  ctxp_set(&usage, usage, cacheWrite5m, response->usage.write_5m);
  ctxp_set(&usage, usage, cacheWrite1h, response->usage.write_1h);
  ctxp_set(&usage, usage, output, response->usage.output);
  ctxp_set(prompt, prompt, usage, usage);
}

static int send_prompt(
    struct emitter *e, struct ctxp_thread *thread, uint64_t base, const struct claude_response *response, uint32_t keep) {
  struct claude *c = e->c;
  struct ctxp_event ev = {.kind = CTXP_KIND_prompt};
  struct ctxp_prompt *prompt = &ev.prompt;
  ctxp_auto_buf persons = {0}, reply = {0};
  int r = ctxp_strs_add(&prompt->reply, &reply, text_of(e, c->messages[response->message].id));
  ctxp_buf_reset(&e->list);
  for (uint32_t i = keep; r == 0 && i < thread->window.count; i++) {
    const struct claude_message *m = &c->messages[thread->window.items[i]];
    struct ctxp_ref ref = {.id = text_of(e, m->id)};
    r = ctxp_list_add(&prompt->append, &e->list, &ctxp_shape_ref, &ref);
    if (r == 0 && m->person) r = ctxp_strs_add(&prompt->personPrompt, &persons, ref.id);
  }
  if (r < 0) return r;
  prompt->callId = text_of(e, response->id ? response->id : c->messages[response->message].id);
  prompt->source = CTXP_STR("transcript");
  prompt->has |= UINT64_C(1) << CTXP_IX_prompt_append | UINT64_C(1) << CTXP_IX_prompt_source | UINT64_C(1) << CTXP_IX_prompt_reply;
  if (prompt->personPrompt.count) prompt->has |= UINT64_C(1) << CTXP_IX_prompt_personPrompt;
  ctxp_set(prompt, prompt, turn, thread->turn);
  ctxp_set(prompt, prompt, keep, keep);
  if (response->model) ctxp_set(prompt, prompt, model, text_of(e, response->model));
  if (response->speed) ctxp_set(prompt, prompt, speed, text_of(e, response->speed));
  if (response->tier) ctxp_set(prompt, prompt, tier, text_of(e, response->tier));
  set_usage(prompt, response);
  return ctxp_threads_send(&e->threads, thread, base, CTXP_SLOT_PROMPT, &ev);
}

/* ---- lines ---- */
static int emit_assistant(struct emitter *e, struct ctxp_thread *thread, uint32_t number) {
  struct claude *c = e->c;
  const struct claude_line *line = &c->lines[number];
  const struct claude_response *response = &c->responses[line->response];
  uint64_t base = line->offset + 1;
  uint32_t keep = 0;
  int r = 0;
  if (response->synthetic) return 0;
  if (response->first == number) {
    r = ctxp_threads_end_turn(&e->threads, thread, base, CTXP_SLOT_TURN_END);
    if (r == 0) r = build_request(e, thread, number, line->response + 1, &keep);
    thread->turn++;
    thread->in_turn = true;
    if (r == 0) r = send_prompt(e, thread, base, response, keep);
  } else if (c->lines[response->first].offset + 1 + CTXP_SLOT_PROMPT <= e->feed->position && line->sum == response->sum &&
      c->lines[response->first].sum < line->sum) {
    /* the file has grown since its first line was sent: now more is known of its usage */
    r = send_prompt(e, thread, base, response, thread->window.count);
  }
  if (r == 0) r = keep_inputs(e, number);
  if (r == 0 && response->last == number) r = send_reply(e, thread, base, response);
  return r;
}

/* Work begins with what a person, or another agent, has written. A listing of skills comes right behind it. */
static int start_agent(struct emitter *e, struct ctxp_thread *thread, uint32_t number) {
  struct claude *c = e->c;
  struct ctxp_str source, skills = {0};
  int r = 0;
  for (uint32_t at = number + 1; r == 0 && at < c->line_count && !skills.len; at++) {
    const struct claude_line *line = &c->lines[at];
    if (line->thread != thread->name) continue;
    if (line->kind == CLAUDE_ASSISTANT || line->kind == CLAUDE_USER) break;
    if (line->kind != CLAUDE_ATTACHMENT || !c->messages[line->messages].listing) continue;
    r = span_text(e, at, c->messages[line->messages].text_at, c->messages[line->messages].text_len, &source);
    if (r == 0 && !e->shrunk) r = ctxp_content_text(e->t->json, source, &e->text);
    skills = ctxp_buf_view(&e->text);
  }
  return r == 0 && !e->shrunk ? ctxp_threads_start_agent(&e->threads, thread, c->lines[number].offset + 1, skills) : r;
}

static int emit_messages(struct emitter *e, struct ctxp_thread *thread, uint32_t number) {
  struct claude *c = e->c;
  const struct claude_line *line = &c->lines[number];
  uint64_t base = line->offset + 1;
  bool begins = false;
  int r = 0;
  for (unsigned i = 0; i < line->message_count; i++) begins = begins || c->messages[line->messages + i].band == CTXP_BAND_user_prompt;
  if (begins && line->kind == CLAUDE_USER) r = start_agent(e, thread, number);
  if (r == 0 && line->summary && line->message_count) {
    uint32_t before = ctxp_slots_get(&c->line_of, line->parent);
    struct ctxp_event ev = {.kind = CTXP_KIND_compaction};
    ctxp_set(&ev.compaction, compaction, summaryId, text_of(e, c->messages[line->messages].id));
    if (line->parent && before && c->lines[before - 1].kind == CLAUDE_BOUNDARY && c->lines[before - 1].sum)
      ctxp_set(&ev.compaction, compaction, before, c->lines[before - 1].sum);
    r = ctxp_threads_send(&e->threads, thread, base, SLOT_COMPACTION, &ev);
  }
  for (unsigned i = 0; r == 0 && i < line->message_count; i++) {
    const struct claude_message *m = &c->messages[line->messages + i];
    unsigned slot = SLOT_MESSAGES + i * SLOTS_PER_MESSAGE;
    if (m->answers && ctxp_slots_get(&c->result_of, m->answers) != line->messages + i + 1) continue; /* told once */
    if (r == 0 && m->answers) r = send_result(e, thread, base, slot, m);
    if (r == 0 && !e->shrunk) r = send_message(e, thread, base, slot + 1, m);
  }
  return r;
}

static int emit_line(struct emitter *e, uint32_t number) {
  const struct claude_line *line = &e->c->lines[number];
  struct ctxp_thread *thread;
  int r = 0;
  ctxp_feed_line(e->feed, line->offset, line->bytes, line->ts_ms);
  bool silent = line->kind == CLAUDE_ASSISTANT ? e->c->responses[line->response].synthetic : line->message_count == 0;
  if (!silent) {
    r = ctxp_threads_get(&e->threads, line->thread, &thread);
    if (r == 0) r = start(e, thread, line->offset + 1);
    if (r == 0) r = line->kind == CLAUDE_ASSISTANT ? emit_assistant(e, thread, number) : emit_messages(e, thread, number);
  }
  bool ended = number + 1 < e->c->line_count && ctxp_threads_ended_at(&e->threads, line->offset, line->bytes, slots_of(line));
  return r == 0 && ended ? ctxp_threads_close(&e->threads, line->offset, line->bytes, slots_of(line), true) : r;
}

int claude_emit(struct ctxp_transcript *t, struct ctxp_feed *feed, struct ctxp_error *err) {
  struct emitter e = {.t = t, .c = t->state, .feed = feed};
  e.threads = (struct ctxp_threads){.feed = feed, .err = err, .names = &e.c->names};
  int r = 0;
  feed->session = ctxp_texts_text(&e.c->names, e.c->session);
  if (!feed->session.len) feed->session = t->stem;
  for (uint32_t i = 0; r == 0 && !e.shrunk && i < e.c->line_count; i++) r = emit_line(&e, i);
  if (r == 0 && e.shrunk) ctxp_notes_fault(t->notes, "%s: became shorter while it was read; what stood before the cut was read", t->path);
  const struct claude_line *last = e.c->line_count ? &e.c->lines[e.c->line_count - 1] : NULL;
  if (r == 0 && !e.shrunk && last) r = ctxp_threads_close(&e.threads, last->offset, last->bytes, slots_of(last), false);
  ctxp_threads_deinit(&e.threads);
  struct ctxp_slots *slots[] = {&e.walked, &e.added};
  for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) ctxp_slots_deinit(slots[i]);
  struct ctxp_buf *bufs[] = {&e.list, &e.more, &e.text};
  for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++) ctxp_buf_deinit(bufs[i]);
  free(e.path);
  free(e.tail);
  if (r == -ENOMEM) ctxp_error_set(err, r, "%s: out of memory while reading it", t->path);
  return r;
}

void claude_close(struct ctxp_transcript *t) {
  struct claude *c = t->state;
  if (!c) return;
  for (uint32_t i = 0; i < c->call_count; i++) ctxp_buf_deinit(&c->calls[i].input);
  ctxp_texts_deinit(&c->names);
  free(c->lines);
  free(c->messages);
  free(c->calls);
  free(c->responses);
  free(c->blocks);
  struct ctxp_slots *slots[] = {&c->line_of, &c->response_of, &c->call_of, &c->result_of, &c->last_of, &c->spawned_by};
  for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) ctxp_slots_deinit(slots[i]);
  ctxp_buf_deinit(&c->scratch);
  free(c);
  t->state = NULL;
}

/* lines that only Claude Code writes: a session's id in this spelling, beside a type */
static bool detect(struct ctxp_json *json) {
  static const struct ctxp_str keys[] = {{"type", 4}, {"sessionId", 9}, {"message", 7}, {"leafUuid", 8}, {"messageId", 9}, {"uuid", 4}};
  uint32_t at[6];
  ctxp_json_pick(json, 0, keys, 6, at);
  if (ctxp_json_type(json, at[0]) != CTXP_JSON_STRING) return false;
  if (ctxp_json_type(json, at[1]) == CTXP_JSON_STRING) return true;
  if (ctxp_json_is(json, at[0], "summary")) return at[3] != CTXP_JSON_NONE;
  if (ctxp_json_is(json, at[0], "file-history-snapshot")) return at[4] != CTXP_JSON_NONE;
  return at[2] != CTXP_JSON_NONE && at[5] != CTXP_JSON_NONE;
}

const struct ctxp_format ctxp_format_claude_code = {
    .name = "claude-code", .detect = detect, .index = claude_index, .emit = claude_emit, .close = claude_close};
