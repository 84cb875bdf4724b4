#include "feeders/story.h"
#include <errno.h>
#include <stdlib.h>
#include "tokens/estimate.h"
#include "tokens/pieces.h"

static void *grow(struct ctxp_story *s, void *array, uint32_t *cap, uint32_t count, size_t size) {
  if (ctxp_grow(array, cap, count, size) == 0) return array;
  s->failed = true;
  return NULL;
}

struct ctxp_story *ctxp_story_new(struct ctxp_transcript *t) {
  return t->state = calloc(1, sizeof(struct ctxp_story));
}

uint32_t ctxp_story_name(struct ctxp_story *s, struct ctxp_str text) {
  uint32_t name = ctxp_texts_add(&s->names, text);
  if (name != CTXP_NO_NAME) return name;
  s->failed = true;
  return 0;
}

uint32_t ctxp_story_name_at(struct ctxp_story *s, struct ctxp_json *json, uint32_t value) {
  return ctxp_story_name(s, ctxp_json_text(json, value));
}

void ctxp_story_record(struct ctxp_story *s, uint64_t offset, uint64_t bytes, uint64_t ts_ms, bool cleaned) {
  if (!grow(s, &s->records, &s->record_cap, s->record_count, sizeof(*s->records))) return;
  s->records[s->record_count++] = (struct ctxp_story_record){.offset = offset, .bytes = bytes, .ts_ms = ts_ms, .cleaned = cleaned};
}

struct ctxp_span ctxp_story_span(const struct ctxp_story *s, struct ctxp_json *json, uint32_t value) {
  struct ctxp_str source = ctxp_json_source(json, value);
  if (!source.len) return (struct ctxp_span){0};
  return (struct ctxp_span){s->record_count, (uint32_t)(source.ptr - json->text.ptr), (uint32_t)source.len};
}

static void step(struct ctxp_story *s, enum ctxp_story_kind kind, uint32_t number, uint32_t thread) {
  if (!s->record_count || !grow(s, &s->steps, &s->step_cap, s->step_count, sizeof(*s->steps))) return;
  s->steps[s->step_count++] =
      (struct ctxp_story_step){.record = s->record_count - 1, .number = number, .thread = thread, .kind = (uint8_t)kind};
}

struct ctxp_story_message *ctxp_story_message(
    struct ctxp_story *s, enum ctxp_role role, enum ctxp_band band, uint32_t thread, uint32_t *ret_number) {
  if (ret_number) *ret_number = s->message_count;
  if (!grow(s, &s->messages, &s->message_cap, s->message_count, sizeof(*s->messages))) return &s->no_message;
  step(s, CTXP_STORY_MESSAGE, s->message_count, thread);
  struct ctxp_story_message *m = &s->messages[s->message_count++];
  *m = (struct ctxp_story_message){.role = (uint8_t)role, .band = (uint8_t)band};
  m->pieces = role == CTXP_ROLE_assistant ? CTXP_PIECES_REPLY : CTXP_PIECES_MESSAGE;
  return m;
}

struct ctxp_story_call *ctxp_story_call(struct ctxp_story *s, uint32_t message, uint32_t id, uint32_t name) {
  if (message >= s->message_count || !grow(s, &s->calls, &s->call_cap, s->call_count, sizeof(*s->calls))) return &s->no_call;
  struct ctxp_story_message *m = &s->messages[message];
  struct ctxp_story_call *call = &s->calls[s->call_count++];
  *call = (struct ctxp_story_call){.id = id, .name = name};
  if (m->last_call)
    s->calls[m->last_call - 1].next = s->call_count;
  else
    m->calls = s->call_count;
  m->last_call = s->call_count;
  if (id && ctxp_slots_set(&s->call_of, id, s->call_count) < 0) s->failed = true;
  return call;
}

void ctxp_request_add(struct ctxp_story *s, struct ctxp_request *q, uint32_t message, uint8_t band) {
  if (!grow(s, &q->items, &q->cap, q->count, sizeof(*q->items))) return;
  q->items[q->count++] = (struct ctxp_story_ref){message, band};
}

void ctxp_request_cut(struct ctxp_request *q, uint32_t count) {
  if (count < q->count) q->count = count;
  if (count < q->same) q->same = count;
}

struct ctxp_story_prompt *ctxp_story_prompt(struct ctxp_story *s, struct ctxp_request *q, uint32_t count, uint32_t thread) {
  if (!grow(s, &s->prompts, &s->prompt_cap, s->prompt_count, sizeof(*s->prompts))) return &s->no_prompt;
  if (count > q->count) count = q->count;
  struct ctxp_story_prompt *p = &s->prompts[s->prompt_count];
  *p = (struct ctxp_story_prompt){.keep = q->same < count ? q->same : count, .first = s->ref_count};
  for (uint32_t i = p->keep; i < count; i++) {
    if (!grow(s, &s->refs, &s->ref_cap, s->ref_count, sizeof(*s->refs))) return &s->no_prompt;
    s->refs[s->ref_count++] = q->items[i];
  }
  p->count = s->ref_count - p->first;
  q->same = count;
  step(s, CTXP_STORY_PROMPT, s->prompt_count++, thread);
  return p;
}

void ctxp_story_compaction(struct ctxp_story *s, uint32_t summary, uint32_t thread) { step(s, CTXP_STORY_COMPACTION, summary, thread); }

static void add(struct ctxp_story_message *m, uint64_t units, uint64_t pieces) {
  m->units += units;
  m->tokens += ctxp_chars4(units);
  m->pieces += pieces + (m->role == CTXP_ROLE_assistant ? CTXP_PIECES_REPLY_TEXT : 0);
}

void ctxp_story_add_text(struct ctxp_json *json, struct ctxp_story_message *m, uint32_t string) {
  if (ctxp_json_type(json, string) == CTXP_JSON_STRING) add(m, ctxp_json_units(json, string), ctxp_pieces(ctxp_json_text(json, string)));
}

/* by the estimates, which count every text; what it takes in a request the calls tell */
void ctxp_story_add_thinking(struct ctxp_json *json, struct ctxp_story_message *m, uint32_t string) {
  uint64_t units = ctxp_json_units(json, string);
  m->units += units;
  m->tokens += ctxp_chars4(units);
}

void ctxp_story_add_image(struct ctxp_story_message *m) {
  m->tokens += CTXP_IMAGE_TOKENS;
  m->pieces += CTXP_PIECES_IMAGE;
  m->images++;
}

void ctxp_story_add_json(struct ctxp_json *json, struct ctxp_story_message *m, uint32_t value) {
  if (ctxp_json_type(json, value) == CTXP_JSON_STRING)
    ctxp_story_add_text(json, m, value);
  else
    add(m, ctxp_json_compact_units(json, value), ctxp_pieces(ctxp_json_source(json, value)));
}

int ctxp_story_finish(struct ctxp_transcript *t) {
  struct ctxp_story *s = t->state;
  struct ctxp_str session = ctxp_texts_text(&s->names, s->session);
  if (session.len == 0 || session.len > CTXP_WINDOW_NAME_MAX) session = t->stem;
  ctxp_buf_add(&t->identity, session.ptr, session.len);
  return s->failed || t->json->failed || t->identity.failed ? -ENOMEM : 0;
}

void ctxp_story_close(struct ctxp_transcript *t) {
  struct ctxp_story *s = t->state;
  if (!s) return;
  ctxp_texts_deinit(&s->names);
  free(s->records);
  free(s->messages);
  free(s->calls);
  free(s->prompts);
  free(s->steps);
  free(s->refs);
  ctxp_slots_deinit(&s->call_of);
  ctxp_slots_deinit(&s->spawned_by);
  ctxp_buf_deinit(&s->document);
  ctxp_buf_deinit(&s->scratch);
  free(s);
  t->state = NULL;
}
