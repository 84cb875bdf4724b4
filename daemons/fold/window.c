#include <errno.h>
#include <stdlib.h>
#include "ctxpipe/stage.h"
#include "fold/spend.h"
#include "fold/store.h"
#include "fold/window.h"

#define BLOCK 4096
#define MODELS 256 /* names that a window remembers; more than any conversation has */

struct ctxp_str ctxp_fold_arena_str(struct ctxp_fold_arena *arena, struct ctxp_str text, bool *failed) {
  if (text.len == 0) return (struct ctxp_str){"", 0};
  if (arena->size - arena->used < text.len) {
    size_t size = text.len > BLOCK ? text.len : BLOCK;
    struct ctxp_fold_block *block = malloc(sizeof(*block) + size);
    if (!block) {
      *failed = true;
      return (struct ctxp_str){0};
    }
    block->next = arena->block;
    arena->block = block;
    arena->used = 0;
    arena->size = size;
  }
  char *copy = memcpy(arena->block->bytes + arena->used, text.ptr, text.len);
  arena->used += text.len;
  return (struct ctxp_str){copy, text.len};
}

void ctxp_fold_arena_deinit(struct ctxp_fold_arena *arena) {
  while (arena->block) {
    struct ctxp_fold_block *next = arena->block->next;
    free(arena->block);
    arena->block = next;
  }
  *arena = (struct ctxp_fold_arena){0};
}

bool ctxp_fold_grow(void *array, size_t size) {
  struct {
    void *at;
    uint32_t count, cap, dirty;
  } a; /* every CTXP_FOLD_ARRAY has this form */
  memcpy(&a, array, sizeof(a));
  if (a.count < a.cap) return true;
  uint32_t cap = a.cap ? a.cap * 2 : 8;
  void *at = a.cap > UINT32_MAX / 4 ? NULL : realloc(a.at, cap * size);
  if (!at) return false;
  a.at = at;
  a.cap = cap;
  memcpy(array, &a, sizeof(a));
  return true;
}

/* ---- indexes ---- */
static uint32_t *free_slot(const struct ctxp_fold_index *index, uint64_t hash) {
  uint32_t i = (uint32_t)hash & index->mask;
  while (index->slots[i]) i = (i + 1) & index->mask;
  return &index->slots[i];
}

static uint64_t hash_of_message(const struct ctxp_fold_window *w, uint32_t i) { return w->messages.at[i].hash; }
static uint64_t hash_of_call(const struct ctxp_fold_window *w, uint32_t i) { return w->calls.at[i].id.lo; }

static bool index_add(struct ctxp_fold_index *index, const struct ctxp_fold_window *w,
    uint64_t (*hash_of)(const struct ctxp_fold_window *, uint32_t), uint32_t number) {
  if (!index->slots || (index->count + 1) * 4 > (uint64_t)index->mask * 3) {
    struct ctxp_fold_index grown = {.mask = index->slots ? index->mask * 2 + 1 : 15, .count = index->count};
    grown.slots = calloc((size_t)grown.mask + 1, sizeof(*grown.slots));
    if (!grown.slots) return false;
    for (uint32_t i = 0; index->slots && i <= index->mask; i++)
      if (index->slots[i]) *free_slot(&grown, hash_of(w, index->slots[i] - 1)) = index->slots[i];
    free(index->slots);
    *index = grown;
  }
  *free_slot(index, hash_of(w, number)) = number + 1;
  index->count++;
  return true;
}

static uint32_t find_message(const struct ctxp_fold_window *w, struct ctxp_str id, uint64_t hash) {
  const struct ctxp_fold_index *index = &w->message_index;
  if (!index->slots) return CTXP_FOLD_OPEN;
  for (uint32_t i = (uint32_t)hash & index->mask; index->slots[i]; i = (i + 1) & index->mask) {
    uint32_t number = index->slots[i] - 1;
    if (w->messages.at[number].hash == hash && ctxp_str_eq(w->messages.at[number].id, id)) return number;
  }
  return CTXP_FOLD_OPEN;
}

static uint32_t find_call(const struct ctxp_fold_window *w, struct ctxp_hash128 id) {
  const struct ctxp_fold_index *index = &w->call_index;
  if (!index->slots) return CTXP_FOLD_OPEN;
  for (uint32_t i = (uint32_t)id.lo & index->mask; index->slots[i]; i = (i + 1) & index->mask) {
    uint32_t number = index->slots[i] - 1;
    if (w->calls.at[number].id.lo == id.lo && w->calls.at[number].id.hi == id.hi) return number;
  }
  return CTXP_FOLD_OPEN;
}

const struct ctxp_fold_call *ctxp_fold_window_call(const struct ctxp_fold_window *w, struct ctxp_hash128 id) {
  uint32_t number = ctxp_fold_hash_none(id) ? CTXP_FOLD_OPEN : find_call(w, id);
  return number == CTXP_FOLD_OPEN ? NULL : &w->calls.at[number];
}

int ctxp_fold_window_reindex(struct ctxp_fold_window *w) {
  for (uint32_t i = 0; i < w->messages.count; i++)
    if (!index_add(&w->message_index, w, hash_of_message, i)) return -ENOMEM;
  for (uint32_t i = 0; i < w->calls.count; i++)
    if (find_call(w, w->calls.at[i].id) == CTXP_FOLD_OPEN && !index_add(&w->call_index, w, hash_of_call, i)) return -ENOMEM;
  for (uint32_t i = 0; i < w->residencies.count; i++) {
    if (w->residencies.at[i].to != CTXP_FOLD_OPEN) continue;
    if (!ctxp_fold_grow(&w->live, sizeof(*w->live.at))) return -ENOMEM;
    w->live.at[w->live.count++] = i; /* residencies that are open stand in the order of their places */
  }
  return 0;
}

/* ---- definitions ---- */
static void dirty_from(uint32_t *dirty, uint32_t number) {
  if (number < *dirty) *dirty = number;
}

/* the message of that id, made if it is not known; CTXP_FOLD_OPEN: out of memory */
static uint32_t message_of(struct ctxp_fold_window *w, struct ctxp_str id) {
  uint64_t hash = ctxp_hash64(id.ptr, id.len, 0);
  uint32_t number = find_message(w, id, hash);
  bool failed = false;
  if (number != CTXP_FOLD_OPEN) return number;
  if (!ctxp_fold_grow(&w->messages, sizeof(*w->messages.at))) return CTXP_FOLD_OPEN;
  number = w->messages.count;
  w->messages.at[number] = (struct ctxp_fold_message){.hash = hash,
      .id = ctxp_fold_arena_str(&w->arena, id, &failed),
      .used_from = CTXP_FOLD_OPEN,
      .band = CTXP_BAND_history,
      .label_kind = CTXP_LABEL_COUNT};
  if (failed) return CTXP_FOLD_OPEN;
  w->messages.count++;
  dirty_from(&w->messages.dirty, number);
  if (!index_add(&w->message_index, w, hash_of_message, number)) {
    w->messages.count--;
    return CTXP_FOLD_OPEN;
  }
  return number;
}

static uint32_t clamp_u32(uint64_t value) { return value > CTXP_FOLD_MAX_SIZE ? (uint32_t)CTXP_FOLD_MAX_SIZE : (uint32_t)value; }

static int see_tool(struct ctxp_stage *stage, const struct ctxp_fold_window *w, struct ctxp_hash128 call, bool *ret_copied) {
  struct ctxp_fold_tool *tool;
  int r = ctxp_fold_tool_get(stage, w, call, &tool);
  if (r == 0) *ret_copied = tool->window.lo != w->key.lo || tool->window.hi != w->key.hi;
  return r;
}

static int add_calls(struct ctxp_fold_window *w, struct ctxp_stage *stage, struct ctxp_fold_message *m, struct ctxp_list list) {
  struct ctxp_call call;
  bool failed = false;
  bool same = m->calls == list.count; /* sent again: the calls are there */
  if (same && m->calls) {
    struct ctxp_list peek = list;
    same = ctxp_list_next(&peek, &ctxp_shape_call, &call) > 0;
    struct ctxp_hash128 id = ctxp_hash128(call.id.ptr, call.id.len);
    if (same && w->calls.at[m->first_call].id.lo == id.lo) return 0;
  }
  m->first_call = w->calls.count;
  m->calls = 0;
  while (ctxp_list_next(&list, &ctxp_shape_call, &call) > 0) {
    if (!ctxp_fold_grow(&w->calls, sizeof(*w->calls.at))) return -ENOMEM;
    uint32_t number = w->calls.count;
    w->calls.at[number] = (struct ctxp_fold_call){.id = ctxp_hash128(call.id.ptr, call.id.len),
        .name = ctxp_fold_arena_str(&w->arena, call.name, &failed),
        .path = ctxp_fold_arena_str(&w->arena, call.path, &failed),
        .tokens = clamp_u32(call.tokens),
        .content_tokens = clamp_u32(call.contentTokens)};
    if (failed) return -ENOMEM;
    w->calls.count++;
    m->calls++;
    int r = call.id.len ? see_tool(stage, w, w->calls.at[number].id, &w->calls.at[number].copied) : 0;
    if (r < 0) return r;
    dirty_from(&w->calls.dirty, number);
    if (find_call(w, w->calls.at[number].id) == CTXP_FOLD_OPEN && !index_add(&w->call_index, w, hash_of_call, number)) return -ENOMEM;
  }
  return 0;
}

/* bills that were made with the old size or band are made anew, and the last one is said again at the next end */
static void restate(struct ctxp_fold_window *w, const struct ctxp_fold_message *m) {
  if (m->used_from != CTXP_FOLD_OPEN && w->final_at == w->counted) w->final_at = 0;
  if (w->spend && m->used_from < ctxp_fold_spend_done(w->spend)) w->spend = ctxp_fold_spend_free(w->spend);
}

/* what its size goes by; true: it is another than before */
static bool measure(struct ctxp_fold_message *m, const struct ctxp_context_message *d) {
  struct ctxp_fold_message old = *m;
  m->pieces = clamp_u32(ctxp_has(d, context_message, pieces) ? d->pieces : d->tokens > CTXP_FOLD_MAX_SIZE ? d->tokens :
                                                                                                            10 * d->tokens);
  m->images = clamp_u32(d->images.count);
  m->thinks = ctxp_has(d, context_message, thinking);
  m->thinking = clamp_u32(d->thinking.tokens);
  m->signature = clamp_u32(d->thinking.signatureUnits);
  return m->pieces != old.pieces || m->images != old.images || m->thinks != old.thinks || m->thinking != old.thinking ||
      m->signature != old.signature;
}

int ctxp_fold_window_define(struct ctxp_fold_window *w, struct ctxp_stage *stage, const struct ctxp_context_message *d) {
  uint32_t tokens = clamp_u32(d->tokens);
  bool failed = false;
  uint32_t number = message_of(w, d->id);
  if (number == CTXP_FOLD_OPEN) return -ENOMEM;
  struct ctxp_fold_message *m = &w->messages.at[number];
  bool resized = measure(m, d);
  if (!m->defined || m->tokens != tokens || m->band != (uint8_t)d->band || resized) restate(w, m);
  dirty_from(&w->messages.dirty, number);
  m->defined = true;
  m->tokens = tokens;
  m->band = (uint8_t)d->band;
  m->role = (uint8_t)d->role;
  m->label_kind = ctxp_has(d, context_message, labelKind) ? (uint8_t)d->labelKind : CTXP_LABEL_COUNT;
  if (!ctxp_str_eq(m->label, d->label)) m->label = ctxp_fold_arena_str(&w->arena, d->label, &failed);
  if (!ctxp_str_eq(m->tool, d->tool)) m->tool = ctxp_fold_arena_str(&w->arena, d->tool, &failed);
  m->answers = d->toolCallId.len ? ctxp_hash128(d->toolCallId.ptr, d->toolCallId.len) : (struct ctxp_hash128){0, 0};
  m->copied = false;
  int r = failed ? -ENOMEM : d->toolCallId.len ? see_tool(stage, w, m->answers, &m->copied) :
                                                 0;
  return r < 0 ? r : add_calls(w, stage, m, d->calls);
}

/* ---- requests ---- */
static void cut(struct ctxp_fold_window *w, uint32_t place) {
  for (uint32_t i = place; i < w->live.count; i++) {
    w->residencies.at[w->live.at[i]].to = w->requests.count;
    dirty_from(&w->residencies.dirty, w->live.at[i]);
  }
  if (place < w->live.count) w->live.count = place;
}

static int enter(struct ctxp_fold_window *w, uint32_t message, uint8_t band) {
  if (!ctxp_fold_grow(&w->residencies, sizeof(*w->residencies.at)) || !ctxp_fold_grow(&w->live, sizeof(*w->live.at))) return -ENOMEM;
  uint32_t number = w->residencies.count++;
  w->residencies.at[number] = (struct ctxp_fold_residency){message, w->live.count, w->requests.count, CTXP_FOLD_OPEN, band};
  w->live.at[w->live.count++] = number;
  dirty_from(&w->residencies.dirty, number);
  if (w->messages.at[message].used_from == CTXP_FOLD_OPEN) {
    w->messages.at[message].used_from = w->requests.count;
    dirty_from(&w->messages.dirty, message);
  }
  return 0;
}

static bool stands_there(const struct ctxp_fold_window *w, uint32_t place, uint32_t message, uint8_t band) {
  if (place >= w->live.count) return false;
  const struct ctxp_fold_residency *r = &w->residencies.at[w->live.at[place]];
  struct ctxp_fold_residency named = {.message = message, .band = band};
  return r->message == message && ctxp_fold_band(w, r) == ctxp_fold_band(w, &named);
}

/* what the window already has at that place stays; from the first difference on it is cut and what follows enters */
static int form(struct ctxp_fold_window *w, struct ctxp_stage *stage, struct ctxp_list list, uint32_t place, uint32_t *ret_kept) {
  struct ctxp_ref ref;
  bool same = true;
  while (ctxp_list_next(&list, &ctxp_shape_ref, &ref) > 0) {
    uint32_t message = message_of(w, ref.id);
    uint8_t band = ctxp_has(&ref, ref, band) ? (uint8_t)ref.band : CTXP_FOLD_BY_DEFINITION;
    if (message == CTXP_FOLD_OPEN) return -ENOMEM;
    if (same && stands_there(w, place, message, band)) {
      place++;
      continue;
    }
    if (same) cut(w, place);
    same = false;
    if (w->live.count == CTXP_FOLD_MAX_WINDOW) {
      ctxp_stage_refuse(stage, "prompt: a request has at most %u messages; what follows is left out", CTXP_FOLD_MAX_WINDOW);
      break;
    }
    int r = enter(w, message, band);
    if (r < 0) return r;
  }
  if (same) cut(w, place);
  *ret_kept = place;
  return 0;
}

/* the messages that the response of a request became: they come in with a later one */
static int mark_replies(struct ctxp_fold_window *w, struct ctxp_list ids, uint32_t request) {
  struct ctxp_str id;
  while (ctxp_strs_next(&ids, &id) > 0) {
    uint32_t number = message_of(w, id);
    if (number == CTXP_FOLD_OPEN) return -ENOMEM;
    if (w->messages.at[number].reply_of) continue;
    w->messages.at[number].reply_of = request;
    dirty_from(&w->messages.dirty, number);
  }
  return 0;
}

static int mark_persons(struct ctxp_fold_window *w, struct ctxp_list ids) {
  struct ctxp_str id;
  while (ctxp_strs_next(&ids, &id) > 0) {
    uint32_t number = message_of(w, id);
    if (number == CTXP_FOLD_OPEN) return -ENOMEM;
    if (w->messages.at[number].person) continue;
    w->messages.at[number].person = true;
    restate(w, &w->messages.at[number]);
    dirty_from(&w->messages.dirty, number);
  }
  return 0;
}

int ctxp_fold_window_request(struct ctxp_fold_window *w, struct ctxp_stage *stage, const struct ctxp_prompt *p,
    const struct ctxp_fold_request *figures, uint32_t *ret_request) {
  bool whole = ctxp_has(p, prompt, request);
  uint64_t keep = whole ? 0 : p->keep;
  uint32_t first = w->residencies.count, before = w->live.count, kept;
  if (keep > w->live.count) {
    ctxp_stage_refuse(stage, "prompt '%.*s': keep is %llu, but the request before it had %u messages; the %u that are known are kept",
        (int)p->callId.len, p->callId.ptr, (unsigned long long)keep, before, before);
    keep = w->live.count;
  }
  if (!ctxp_fold_grow(&w->requests, sizeof(*w->requests.at))) return -ENOMEM;
  int r = mark_persons(w, p->personPrompt);
  if (r == 0) r = form(w, stage, whole ? p->request : p->append, (uint32_t)keep, &kept);
  if (r < 0) return r;
  *ret_request = CTXP_FOLD_OPEN;
  w->evicted_tokens = 0;
  if (!(figures->flags & CTXP_FOLD_COUNTED) && kept == before && first == w->residencies.count) return 0;
  uint32_t number = w->requests.count++;
  struct ctxp_fold_request *q = &w->requests.at[number];
  *q = *figures;
  q->keep = kept;
  q->first = first;
  q->count = w->residencies.count - first;
  if (q->flags & CTXP_FOLD_COUNTED) w->counted++;
  q->number = w->counted;
  dirty_from(&w->requests.dirty, number);
  *ret_request = number;
  return mark_replies(w, p->reply, number + 1);
}

void ctxp_fold_window_correct(struct ctxp_fold_window *w, uint32_t request, const struct ctxp_fold_request *figures) {
  if (request >= w->requests.count) return;
  struct ctxp_fold_request *q = &w->requests.at[request], old = *q;
  *q = *figures;
  q->keep = old.keep;
  q->first = old.first;
  q->count = old.count;
  q->number = old.number;
  q->ts_ms = old.ts_ms;
  if (q->model == CTXP_FOLD_OPEN) q->model = old.model;
  q->flags = (uint8_t)(figures->flags | (old.flags & (CTXP_FOLD_COMPACTED | CTXP_FOLD_NEW_TOOLS | CTXP_FOLD_REMOVED)));
  dirty_from(&w->requests.dirty, request);
  if (w->spend && request < ctxp_fold_spend_done(w->spend)) w->spend = ctxp_fold_spend_free(w->spend);
}

void ctxp_fold_window_evict(struct ctxp_fold_window *w, struct ctxp_list ids) {
  struct ctxp_str id;
  while (ctxp_strs_next(&ids, &id) > 0) {
    uint32_t number = find_message(w, id, ctxp_hash64(id.ptr, id.len, 0));
    if (number == CTXP_FOLD_OPEN) continue;
    w->messages.at[number].evicted = w->requests.count + 1;
    dirty_from(&w->messages.dirty, number);
  }
  w->evicted_tokens = 0;
  for (uint32_t i = 0; i < w->live.count; i++) {
    const struct ctxp_fold_message *m = &w->messages.at[w->residencies.at[w->live.at[i]].message];
    if (m->evicted == w->requests.count + 1) w->evicted_tokens += m->tokens;
  }
}

int ctxp_fold_window_model(struct ctxp_fold_window *w, struct ctxp_str model, uint32_t *ret_model) {
  bool failed = false;
  *ret_model = CTXP_FOLD_OPEN;
  if (model.len == 0) return 0;
  for (uint32_t i = 0; i < w->models.count; i++)
    if (ctxp_str_eq(w->models.at[i], model)) return *ret_model = i, 0;
  if (w->models.count >= MODELS) return 0;
  if (!ctxp_fold_grow(&w->models, sizeof(*w->models.at))) return -ENOMEM;
  struct ctxp_str copy = ctxp_fold_arena_str(&w->arena, model, &failed);
  if (failed) return -ENOMEM;
  w->models.at[w->models.count] = copy;
  *ret_model = w->models.count++;
  return 0;
}

void ctxp_fold_window_free(struct ctxp_fold_window *w) {
  if (!w) return;
  ctxp_fold_spend_free(w->spend);
  ctxp_fold_arena_deinit(&w->arena);
  free(w->messages.at);
  free(w->calls.at);
  free(w->requests.at);
  free(w->residencies.at);
  free(w->live.at);
  free(w->models.at);
  free(w->kept.at);
  free(w->effects.at);
  free(w->message_index.slots);
  free(w->call_index.slots);
  free(w);
}
