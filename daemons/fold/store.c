#include <errno.h>
#include <stdlib.h>
#include "fold/records.h"
#include "fold/spend.h"
#include "fold/store.h"

/* Keys: M; O number -> session; S session; W window, W window letter piece; C call; T tool call. Hashes and numbers with the high byte
 * first. */
struct key {
  uint8_t bytes[24];
  size_t len;
};

static void add_u64(struct key *k, uint64_t value, unsigned bytes) {
  for (unsigned i = bytes; i-- > 0;) k->bytes[k->len++] = (uint8_t)(value >> (8 * i));
}

static struct key hash_key(char letter, struct ctxp_hash128 h) {
  struct key k = {.bytes = {(uint8_t)letter}, .len = 1};
  add_u64(&k, h.hi, 8);
  add_u64(&k, h.lo, 8);
  return k;
}

static struct key piece_key(struct ctxp_hash128 window, enum ctxp_fold_list list, uint32_t piece) {
  struct key k = hash_key('W', window);
  k.bytes[k.len++] = (uint8_t) "mcqre"[list];
  add_u64(&k, piece, 4);
  return k;
}

static struct key number_key(uint64_t number) {
  struct key k = {.bytes = {'O'}, .len = 1};
  add_u64(&k, number, 8);
  return k;
}

static struct ctxp_raw raw_of(const struct key *k) { return (struct ctxp_raw){k->bytes, k->len}; }

static int put(struct ctxp_stage *stage, struct key key, const struct ctxp_buf *value) {
  return value->failed ? -ENOMEM : ctxp_stage_put(stage, raw_of(&key), ctxp_buf_raw(value));
}

static int get(struct ctxp_stage *stage, struct key key, struct ctxp_raw *ret) { return ctxp_stage_get(stage, raw_of(&key), ret); }

#define LOADED_WINDOWS 64 /* windows that may stay loaded though nothing came for them since the last save */
static const uint32_t piece_sizes[CTXP_FOLD_LISTS] = {64, 64, 32, 128, 64};

/* ---- sessions ---- */
/* a hash of names: of each its length and its bytes, so that no two lists of names are the same text */
static struct ctxp_hash128 hash_of(const struct ctxp_str *parts, unsigned count, bool *failed) {
  ctxp_auto_buf text = {0};
  for (unsigned i = 0; i < count; i++) {
    uint64_t len = parts[i].len;
    ctxp_buf_add(&text, (const uint8_t[]){(uint8_t)len, (uint8_t)(len >> 8), (uint8_t)(len >> 16), (uint8_t)(len >> 24)}, 4);
    ctxp_buf_add(&text, parts[i].ptr, parts[i].len);
  }
  *failed |= text.failed;
  return ctxp_hash128(text.ptr, text.len);
}

int ctxp_fold_session_count(struct ctxp_stage *stage, uint64_t *ret) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_raw raw;
  struct key meta = {.bytes = {'M'}, .len = 1};
  bool bad = false;
  int r = f->opened ? 1 : get(stage, meta, &raw);
  if (r < 0) return r;
  if (r == 0) {
    struct ctxp_cursor c = ctxp_cursor(raw);
    if (ctxp_fold_read_u64(&c, &bad) != CTXP_FOLD_FORMAT) return bad ? -EBADMSG : -EPROTO;
    f->session_count = f->saved_count = ctxp_fold_read_u64(&c, &bad);
  }
  f->opened = true;
  *ret = f->session_count;
  return bad ? -EBADMSG : 0;
}

static int add_session(struct ctxp_fold *f, struct ctxp_fold_session *s) {
  ctxp_map_failed = false;
  HASH_ADD(hh, f->sessions, key, sizeof(s->key), s);
  return ctxp_map_failed ? -ENOMEM : 0;
}

static int load_session(struct ctxp_stage *stage, struct ctxp_hash128 key, struct ctxp_fold_session **ret) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_raw raw;
  *ret = NULL;
  HASH_FIND(hh, f->sessions, &key, sizeof(key), *ret);
  if (*ret) return 0;
  int r = get(stage, hash_key('S', key), &raw);
  if (r != 0) return r < 0 ? r : 0;
  struct ctxp_fold_session *s = calloc(1, sizeof(*s));
  if (!s) return -ENOMEM;
  s->key = key;
  r = ctxp_fold_read_session(raw, s);
  if (r == 0) r = add_session(f, s);
  if (r < 0) {
    ctxp_fold_session_free(s);
    return r;
  }
  *ret = s;
  return 0;
}

static int make_session(
    struct ctxp_stage *stage, struct ctxp_hash128 key, struct ctxp_str agent, struct ctxp_str session, struct ctxp_fold_session **ret) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_fold_session *s = calloc(1, sizeof(*s));
  bool failed = false;
  if (!s) return -ENOMEM;
  s->key = key;
  s->changed = true;
  s->agent = ctxp_fold_arena_str(&s->arena, agent, &failed);
  s->session = ctxp_fold_arena_str(&s->arena, session, &failed);
  uint64_t count = 0;
  int r = failed ? -ENOMEM : ctxp_fold_session_count(stage, &count);
  if (r == 0) r = add_session(f, s);
  if (r < 0) {
    ctxp_fold_session_free(s);
    return r;
  }
  s->number = f->session_count = count + 1;
  *ret = s;
  return 0;
}

int ctxp_fold_session_get(
    struct ctxp_stage *stage, struct ctxp_str agent, struct ctxp_str session, bool create, struct ctxp_fold_session **ret) {
  bool failed = false;
  struct ctxp_hash128 key = hash_of((const struct ctxp_str[]){agent, session}, 2, &failed);
  int r = failed ? -ENOMEM : load_session(stage, key, ret);
  return r < 0 || *ret || !create ? r : make_session(stage, key, agent, session, ret);
}

int ctxp_fold_session_by_number(struct ctxp_stage *stage, uint64_t number, struct ctxp_fold_session **ret) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_raw raw;
  bool bad = false;
  for (*ret = f->sessions; *ret; *ret = (*ret)->hh.next)
    if ((*ret)->number == number) return 0;
  int r = get(stage, number_key(number), &raw);
  if (r != 0) return r < 0 ? r : -EBADMSG;
  struct ctxp_cursor c = ctxp_cursor(raw);
  struct ctxp_hash128 key = ctxp_fold_read_hash(&c, &bad);
  r = bad ? -EBADMSG : load_session(stage, key, ret);
  return r == 0 && !*ret ? -EBADMSG : r;
}

/* ---- windows ---- */
static int add_window(struct ctxp_fold *f, struct ctxp_fold_window *w, struct ctxp_fold_session *s) {
  ctxp_map_failed = false;
  HASH_ADD(hh, f->windows, key, sizeof(w->key), w);
  if (ctxp_map_failed) return -ENOMEM;
  w->session = s;
  s->loaded_windows++;
  return 0;
}

static int load_lists(struct ctxp_stage *stage, struct ctxp_fold_window *w, const uint32_t counts[CTXP_FOLD_LISTS]) {
  uint32_t *const got[] = {&w->messages.count, &w->calls.count, &w->requests.count, &w->residencies.count, &w->effects.count};
  uint32_t *const dirty[] = {&w->messages.dirty, &w->calls.dirty, &w->requests.dirty, &w->residencies.dirty, &w->effects.dirty};
  struct ctxp_raw raw;
  for (unsigned l = 0; l < CTXP_FOLD_LISTS; l++) {
    for (uint32_t piece = 0; *got[l] < counts[l]; piece++) {
      int r = get(stage, piece_key(w->key, (enum ctxp_fold_list)l, piece), &raw);
      if (r == 0) r = ctxp_fold_read_list(raw, w, (enum ctxp_fold_list)l);
      if (r != 0) return r < 0 ? r : -EBADMSG;
    }
    if (*got[l] != counts[l]) return -EBADMSG;
    *dirty[l] = counts[l];
  }
  return ctxp_fold_window_reindex(w);
}

int ctxp_fold_window_by_key(struct ctxp_stage *stage, struct ctxp_hash128 key, struct ctxp_fold_window **ret) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_fold_session *s = NULL;
  struct ctxp_str agent, session;
  struct ctxp_raw raw;
  uint32_t counts[CTXP_FOLD_LISTS];
  *ret = NULL;
  HASH_FIND(hh, f->windows, &key, sizeof(key), *ret);
  if (*ret) return 0;
  int r = get(stage, hash_key('W', key), &raw);
  if (r != 0) return r < 0 ? r : 0;
  struct ctxp_fold_window *w = calloc(1, sizeof(*w));
  if (!w) return -ENOMEM;
  w->key = key;
  ctxp_auto_buf copy = {0}; /* the value is good until the next call of the store */
  ctxp_buf_add(&copy, raw.ptr, raw.len);
  r = copy.failed ? -ENOMEM : ctxp_fold_read_window(ctxp_buf_raw(&copy), w, &agent, &session, counts);
  if (r == 0) r = load_lists(stage, w, counts);
  if (r == 0) r = ctxp_fold_session_get(stage, agent, session, false, &s);
  if (r == 0) r = s ? add_window(f, w, s) : -EBADMSG;
  if (r < 0) {
    ctxp_fold_window_free(w);
    return r;
  }
  *ret = w;
  return 0;
}

static int make_window(
    struct ctxp_stage *stage, struct ctxp_fold_session *s, struct ctxp_hash128 key, struct ctxp_str thread, struct ctxp_fold_window **ret) {
  struct ctxp_fold_window *w = calloc(1, sizeof(*w));
  bool failed = false;
  if (!w) return -ENOMEM;
  w->key = key;
  w->by_estimate = ((struct ctxp_fold *)ctxp_stage_state(stage))->by_estimate;
  w->changed = true;
  w->thread = ctxp_fold_arena_str(&w->arena, thread, &failed);
  failed |= !ctxp_fold_grow(&s->windows, sizeof(*s->windows.at));
  int r = failed ? -ENOMEM : add_window(ctxp_stage_state(stage), w, s);
  if (r < 0) {
    ctxp_fold_window_free(w);
    return r;
  }
  s->windows.at[s->windows.count++] = key;
  s->changed = true;
  *ret = w;
  return 0;
}

static int window_get(struct ctxp_stage *stage, struct ctxp_fold_session *s, struct ctxp_str thread, struct ctxp_fold_window **ret) {
  bool failed = false;
  struct ctxp_hash128 key = hash_of((const struct ctxp_str[]){s->agent, s->session, thread}, 3, &failed);
  int r = failed ? -ENOMEM : ctxp_fold_window_by_key(stage, key, ret);
  return r == 0 && !*ret ? make_window(stage, s, key, thread, ret) : r;
}

int ctxp_fold_window_of(struct ctxp_stage *stage, const struct ctxp_event *ev, bool *ret_known, struct ctxp_fold_window **ret) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_fold_window *w = f->last;
  struct ctxp_fold_session *s = NULL;
  *ret_known = true;
  if (!w || !ctxp_str_eq(w->thread, ev->thread) || !ctxp_str_eq(w->session->session, ev->session) ||
      !ctxp_str_eq(w->session->agent, ev->agent)) {
    int r = ctxp_fold_session_get(stage, ev->agent, ev->session, false, &s);
    *ret_known = s != NULL;
    if (r == 0 && !s) r = ctxp_fold_session_get(stage, ev->agent, ev->session, true, &s);
    if (r == 0) r = window_get(stage, s, ev->thread, &w);
    if (r < 0) return r;
  }
  w->touched = true;
  *ret = f->last = w;
  return 0;
}

/* ---- calls ---- */
int ctxp_fold_call_get(struct ctxp_stage *stage, struct ctxp_hash128 id, struct ctxp_fold_billed_call *ret) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_fold_billed_call *call;
  struct ctxp_raw raw;
  bool bad = false;
  HASH_FIND(hh, f->calls, &id, sizeof(id), call);
  if (call) return *ret = *call, 0;
  int r = get(stage, hash_key('C', id), &raw);
  if (r != 0) return r;
  struct ctxp_cursor c = ctxp_cursor(raw);
  *ret = (struct ctxp_fold_billed_call){.id = id, .window = ctxp_fold_read_hash(&c, &bad)};
  ret->request = (uint32_t)ctxp_fold_read_u64(&c, &bad);
  ret->sum = ctxp_fold_read_u64(&c, &bad);
  return bad ? -EBADMSG : 0;
}

int ctxp_fold_call_put(struct ctxp_stage *stage, const struct ctxp_fold_billed_call *call) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_fold_billed_call *known;
  HASH_FIND(hh, f->calls, &call->id, sizeof(call->id), known);
  if (!known) {
    known = calloc(1, sizeof(*known));
    if (!known) return -ENOMEM;
    known->id = call->id;
    ctxp_map_failed = false;
    HASH_ADD(hh, f->calls, id, sizeof(known->id), known);
    if (ctxp_map_failed) {
      free(known);
      return -ENOMEM;
    }
  }
  known->window = call->window;
  known->request = call->request;
  known->sum = call->sum;
  return 0;
}

/* ---- tool calls ---- */
static int load_tool(struct ctxp_stage *stage, struct ctxp_fold_tool *tool) {
  struct ctxp_raw raw;
  bool bad = false;
  int r = get(stage, hash_key('T', tool->id), &raw);
  if (r != 0) return r < 0 ? r : 0;
  struct ctxp_cursor c = ctxp_cursor(raw);
  tool->window = ctxp_fold_read_hash(&c, &bad);
  tool->counted = (uint8_t)ctxp_fold_read_u64(&c, &bad);
  tool->changed = false;
  return bad ? -EBADMSG : 0;
}

int ctxp_fold_tool_get(
    struct ctxp_stage *stage, const struct ctxp_fold_window *w, struct ctxp_hash128 call, struct ctxp_fold_tool **ret) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  bool failed = false;
  struct ctxp_str bytes = {(const char *)&call, sizeof(call)};
  struct ctxp_hash128 id = hash_of((const struct ctxp_str[]){w->session->agent, bytes}, 2, &failed);
  if (failed) return -ENOMEM;
  HASH_FIND(hh, f->tools, &id, sizeof(id), *ret);
  if (*ret) return 0;
  struct ctxp_fold_tool *tool = calloc(1, sizeof(*tool));
  if (!tool) return -ENOMEM;
  *tool = (struct ctxp_fold_tool){.id = id, .window = w->key, .changed = true};
  int r = load_tool(stage, tool);
  ctxp_map_failed = false;
  if (r == 0) HASH_ADD(hh, f->tools, id, sizeof(tool->id), tool);
  if (r == 0 && ctxp_map_failed) r = -ENOMEM;
  if (r < 0) {
    free(tool);
    return r;
  }
  *ret = tool;
  return 0;
}

int ctxp_fold_tool_count(
    struct ctxp_stage *stage, const struct ctxp_fold_window *w, struct ctxp_str call, unsigned figure, bool *ret) {
  struct ctxp_fold_tool *tool;
  *ret = true;
  if (call.len == 0) return 0;
  int r = ctxp_fold_tool_get(stage, w, ctxp_hash128(call.ptr, call.len), &tool);
  if (r < 0) return r;
  *ret = !(tool->counted & figure);
  tool->changed |= *ret;
  tool->counted |= (uint8_t)figure;
  return 0;
}

static void drop_tools(struct ctxp_fold *f) {
  struct ctxp_fold_tool *tool, *next;
  HASH_ITER(hh, f->tools, tool, next) {
    HASH_DEL(f->tools, tool);
    free(tool);
  }
}

static int save_tools(struct ctxp_stage *stage) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  ctxp_auto_buf value = {0};
  for (struct ctxp_fold_tool *tool = f->tools; tool; tool = tool->hh.next) {
    if (!tool->changed) continue;
    ctxp_buf_reset(&value);
    ctxp_fold_write_hash(&value, tool->window);
    ctxp_pack_u64(&value, tool->counted);
    int r = put(stage, hash_key('T', tool->id), &value);
    if (r < 0) return r;
  }
  drop_tools(f);
  return 0;
}

static int save_calls(struct ctxp_stage *stage) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_fold_billed_call *call, *next;
  ctxp_auto_buf value = {0};
  for (call = f->calls; call; call = call->hh.next) {
    ctxp_buf_reset(&value);
    ctxp_fold_write_hash(&value, call->window);
    ctxp_pack_u64(&value, call->request);
    ctxp_pack_u64(&value, call->sum);
    int r = put(stage, hash_key('C', call->id), &value);
    if (r < 0) return r;
  }
  HASH_ITER(hh, f->calls, call, next) {
    HASH_DEL(f->calls, call);
    free(call);
  }
  return 0;
}

/* ---- save ---- */
static int save_list(
    struct ctxp_stage *stage, const struct ctxp_fold_window *w, enum ctxp_fold_list list, uint32_t count, uint32_t *dirty) {
  uint32_t size = piece_sizes[list];
  ctxp_auto_buf value = {0};
  for (uint32_t piece = *dirty / size; *dirty < count && (uint64_t)piece * size < count; piece++) {
    uint32_t from = piece * size, to = count - from < size ? count : from + size;
    ctxp_buf_reset(&value);
    ctxp_fold_write_list(&value, w, list, from, to);
    int r = put(stage, piece_key(w->key, list, piece), &value);
    if (r < 0) return r;
  }
  *dirty = count;
  return 0;
}

static int save_window(struct ctxp_stage *stage, struct ctxp_fold_window *w) {
  ctxp_auto_buf value = {0};
  ctxp_fold_write_window(&value, w);
  int r = put(stage, hash_key('W', w->key), &value);
  if (r == 0) r = save_list(stage, w, CTXP_FOLD_LIST_MESSAGES, w->messages.count, &w->messages.dirty);
  if (r == 0) r = save_list(stage, w, CTXP_FOLD_LIST_CALLS, w->calls.count, &w->calls.dirty);
  if (r == 0) r = save_list(stage, w, CTXP_FOLD_LIST_REQUESTS, w->requests.count, &w->requests.dirty);
  if (r == 0) r = save_list(stage, w, CTXP_FOLD_LIST_RESIDENCIES, w->residencies.count, &w->residencies.dirty);
  if (r == 0) r = save_list(stage, w, CTXP_FOLD_LIST_EFFECTS, w->effects.count, &w->effects.dirty);
  if (r == 0) w->changed = false;
  return r;
}

static int save_session(struct ctxp_stage *stage, struct ctxp_fold_session *s) {
  ctxp_auto_buf value = {0}, number = {0};
  ctxp_fold_write_session(&value, s);
  ctxp_fold_write_hash(&number, s->key);
  int r = put(stage, hash_key('S', s->key), &value);
  if (r == 0) r = put(stage, number_key(s->number), &number);
  if (r == 0) s->changed = false;
  return r;
}

static int save_all(struct ctxp_stage *stage) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct key meta = {.bytes = {'M'}, .len = 1};
  ctxp_auto_buf value = {0};
  ctxp_pack_u64(&value, CTXP_FOLD_FORMAT);
  ctxp_pack_u64(&value, f->session_count);
  int r = f->session_count != f->saved_count ? put(stage, meta, &value) : 0;
  if (r == 0) f->saved_count = f->session_count;
  for (struct ctxp_fold_session *s = f->sessions; s && r == 0; s = s->hh.next)
    if (s->changed) r = save_session(stage, s);
  for (struct ctxp_fold_window *w = f->windows; w && r == 0; w = w->hh.next)
    if (w->changed) r = save_window(stage, w);
  if (r == 0) r = save_calls(stage);
  return r == 0 ? save_tools(stage) : r;
}

static void drop_session(struct ctxp_fold *f, struct ctxp_fold_session *s) {
  if (s->loaded_windows || s->changed) return;
  HASH_DEL(f->sessions, s);
  ctxp_fold_session_free(s);
}

void ctxp_fold_unload(struct ctxp_stage *stage, struct ctxp_fold_window *w) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_fold_session *s = w->session;
  if (w->changed) return;
  if (f->last == w) f->last = NULL;
  HASH_DEL(f->windows, w);
  ctxp_fold_window_free(w);
  s->loaded_windows--;
  drop_session(f, s);
}

void ctxp_fold_unload_session(struct ctxp_stage *stage, struct ctxp_fold_session *s) { drop_session(ctxp_stage_state(stage), s); }

int ctxp_fold_save(struct ctxp_stage *stage) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  struct ctxp_fold_window *w, *next_window;
  struct ctxp_fold_session *s, *next_session;
  int r = save_all(stage);
  if (r < 0) return r;
  HASH_ITER(hh, f->windows, w, next_window) {
    bool ended = w->final_at == w->counted && w->counted;
    if (ended || (!w->touched && HASH_COUNT(f->windows) > LOADED_WINDOWS))
      ctxp_fold_unload(stage, w);
    else
      w->touched = false;
  }
  HASH_ITER(hh, f->sessions, s, next_session)
  drop_session(f, s);
  return 0;
}

void ctxp_fold_close(struct ctxp_fold *f) {
  struct ctxp_fold_window *w, *next_window;
  struct ctxp_fold_session *s, *next_session;
  struct ctxp_fold_billed_call *call, *next_call;
  HASH_ITER(hh, f->windows, w, next_window) {
    HASH_DEL(f->windows, w);
    ctxp_fold_window_free(w);
  }
  HASH_ITER(hh, f->sessions, s, next_session) {
    HASH_DEL(f->sessions, s);
    ctxp_fold_session_free(s);
  }
  HASH_ITER(hh, f->calls, call, next_call) {
    HASH_DEL(f->calls, call);
    free(call);
  }
  drop_tools(f);
}
