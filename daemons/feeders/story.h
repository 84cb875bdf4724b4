/* A recorded session as the simpler formats give it: messages one after the other, calls of the model with the request that each had, all
 * of it known after one pass. A format's index() tells the story; the events are made here, the same way for all of them.
 *
 * What gives events is a record: a line, or an object within a document. Each step of the story belongs to one. */
#pragma once
#include <stdlib.h>
#include "feeders/content.h"
#include "feeders/format.h"
#include "feeders/window.h"

struct ctxp_span { /* JSON text within a record */
  uint32_t record; /* + 1; 0: none */
  uint32_t at, len;
};

struct ctxp_story_record {
  uint64_t offset, ts_ms;
  uint64_t bytes;
  bool cleaned; /* was no UTF-8: spans are those of the cleaned text */
};

struct ctxp_story_call {
  uint32_t id, name, path, command; /* names */
  uint32_t tokens, content_tokens, next /* of the same message, + 1 */;
  struct ctxp_span input;
  bool text; /* the input is a JSON string that holds JSON */
};

struct ctxp_story_message {
  uint32_t id, label, tool, answers; /* names */
  uint32_t images, calls, last_call; /* calls: + 1 */
  uint64_t tokens, units, reasoning, signature_units;
  uint64_t pieces; /* 0: not known */
  struct ctxp_span text; /* of a result */
  bool wrapped; /* the text is JSON with the output in it */
  uint8_t band, role;
  bool person, failed, result, thinks;
};

struct ctxp_story_prompt {
  uint32_t call_id, model; /* names */
  uint32_t reply, replies; /* what the response became: the assistant's among so many messages from this one (+ 1) on */
  uint32_t keep;
  uint32_t first, count; /* in `refs` */
  struct ctxp_usage usage;
  struct ctxp_cost cost;
  bool reported, priced;
};

enum ctxp_story_kind { CTXP_STORY_MESSAGE,
  CTXP_STORY_PROMPT,
  CTXP_STORY_COMPACTION };
struct ctxp_story_step {
  uint32_t record, number, thread; /* thread: name */
  uint8_t kind;
};
struct ctxp_story_ref { /* a message in a request */
  uint32_t message;
  uint8_t band; /* CTXP_STORY_OWN_BAND: as the message's definition says */
};
#define CTXP_STORY_OWN_BAND UINT8_MAX

struct ctxp_story {
  struct ctxp_texts names;
  struct ctxp_story_record *records;
  struct ctxp_story_message *messages;
  struct ctxp_story_call *calls;
  struct ctxp_story_prompt *prompts;
  struct ctxp_story_step *steps;
  struct ctxp_story_ref *refs;
  uint32_t record_count, record_cap, message_count, message_cap, call_count, call_cap, prompt_count, prompt_cap, step_count, step_cap,
      ref_count, ref_cap;
  struct ctxp_slots call_of, spawned_by; /* by name: call + 1; by a thread's name: name of its parent + 1 */
  uint32_t session, cwd, branch; /* names */
  struct ctxp_buf document; /* a format that is one JSON text: all of it, else empty */
  uint64_t laid; /* bytes of its parts so far */
  struct ctxp_buf scratch;
  bool failed; /* out of memory */
  /* what is written when it is */
  struct ctxp_story_message no_message;
  struct ctxp_story_call no_call;
  struct ctxp_story_prompt no_prompt;
};

/* The request of a window while the story is told. */
struct ctxp_request {
  struct ctxp_story_ref *items;
  uint32_t count, cap;
  uint32_t same; /* how many of its beginning are as the last prompt had them */
};
void ctxp_request_add(struct ctxp_story *story, struct ctxp_request *request, uint32_t message, uint8_t band);
void ctxp_request_cut(struct ctxp_request *request, uint32_t count);
static inline void ctxp_request_deinit(struct ctxp_request *request) { free(request->items); }

struct ctxp_story *ctxp_story_new(struct ctxp_transcript *transcript); /* becomes transcript->state */
uint32_t ctxp_story_name(struct ctxp_story *story, struct ctxp_str text);
uint32_t ctxp_story_name_at(struct ctxp_story *story, struct ctxp_json *json, uint32_t value);
/* The record that the next steps belong to; `cleaned` as above. */
void ctxp_story_record(struct ctxp_story *story, uint64_t offset, uint64_t bytes, uint64_t ts_ms, bool cleaned);
/* The same for an object of a document. -ENOMEM. */
int ctxp_story_part(struct ctxp_transcript *transcript, uint32_t value, uint64_t ts_ms) __attribute__((warn_unused_result));
struct ctxp_span ctxp_story_span(const struct ctxp_story *story, struct ctxp_json *json, uint32_t value);
/* A message and its step. The pointer is good until the next one; out of memory: to one that nobody looks at. *ret_number may be
 * asked for. */
struct ctxp_story_message *ctxp_story_message(
    struct ctxp_story *story, enum ctxp_role role, enum ctxp_band band, uint32_t thread, uint32_t *ret_number);
/* A call that a message makes. */
struct ctxp_story_call *ctxp_story_call(struct ctxp_story *story, uint32_t message, uint32_t id, uint32_t name);
/* A call of the model whose request is the first `count` of `request`. */
struct ctxp_story_prompt *ctxp_story_prompt(
    struct ctxp_story *story, struct ctxp_request *request, uint32_t count, uint32_t thread);
void ctxp_story_compaction(struct ctxp_story *story, uint32_t summary, uint32_t thread); /* a message */
/* A text, or what is sent as JSON, of a message. */
void ctxp_story_add_text(struct ctxp_json *json, struct ctxp_story_message *message, uint32_t string);
void ctxp_story_add_thinking(struct ctxp_json *json, struct ctxp_story_message *message, uint32_t string); /* its size is told otherwise */
void ctxp_story_add_image(struct ctxp_story_message *message);
void ctxp_story_add_json(struct ctxp_json *json, struct ctxp_story_message *message, uint32_t value);
/* Ends index(): the identity, and whether memory sufficed. */
int ctxp_story_finish(struct ctxp_transcript *transcript);

int ctxp_story_emit(struct ctxp_transcript *transcript, struct ctxp_feed *feed, struct ctxp_error *err);
void ctxp_story_close(struct ctxp_transcript *transcript);
