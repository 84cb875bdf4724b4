#include <errno.h>
#include "fold/records.h"

/* ---- single values ---- */
static void u64s(struct ctxp_buf *out, const uint64_t *values, unsigned count) {
  for (unsigned i = 0; i < count; i++) ctxp_pack_u64(out, values[i]);
}

void ctxp_fold_write_hash(struct ctxp_buf *out, struct ctxp_hash128 h) {
  ctxp_pack_u64(out, h.hi);
  ctxp_pack_u64(out, h.lo);
}

uint64_t ctxp_fold_read_u64(struct ctxp_cursor *c, bool *bad) {
  struct ctxp_pack_value v;
  if (*bad || ctxp_cursor_next(c, &v) < 0 || v.type != CTXP_PACK_U64) return *bad = true, 0;
  return v.u;
}

static uint32_t read_u32(struct ctxp_cursor *c, bool *bad) {
  uint64_t v = ctxp_fold_read_u64(c, bad);
  if (v > UINT32_MAX) *bad = true;
  return (uint32_t)v;
}

static void read_u64s(struct ctxp_cursor *c, uint64_t *values, unsigned count, bool *bad) {
  for (unsigned i = 0; i < count; i++) values[i] = ctxp_fold_read_u64(c, bad);
}

struct ctxp_hash128 ctxp_fold_read_hash(struct ctxp_cursor *c, bool *bad) {
  uint64_t hi = ctxp_fold_read_u64(c, bad), lo = ctxp_fold_read_u64(c, bad);
  return (struct ctxp_hash128){hi, lo};
}

static struct ctxp_str read_str(struct ctxp_cursor *c, bool *bad) {
  struct ctxp_pack_value v;
  if (*bad || ctxp_cursor_next(c, &v) < 0 || v.type != CTXP_PACK_STR) return *bad = true, (struct ctxp_str){"", 0};
  return v.str;
}

static struct ctxp_str own_str(struct ctxp_fold_arena *arena, struct ctxp_cursor *c, bool *bad) {
  return ctxp_fold_arena_str(arena, read_str(c, bad), bad);
}

static uint64_t signed_bits(int64_t value) { return value < 0 ? ((uint64_t)(-(value + 1)) << 1 | 1) : (uint64_t)value << 1; }
static int64_t from_bits(uint64_t bits) { return bits & 1 ? -(int64_t)(bits >> 1) - 1 : (int64_t)(bits >> 1); }

/* ---- sessions ---- */
void ctxp_fold_write_session(struct ctxp_buf *out, const struct ctxp_fold_session *s) {
  const struct ctxp_fold_closed_turn *l = &s->last;
  ctxp_pack_u64(out, s->number);
  ctxp_pack_str(out, s->agent);
  ctxp_pack_str(out, s->session);
  ctxp_pack_str(out, s->product);
  ctxp_pack_str(out, s->cwd);
  u64s(out, s->saved, CTXP_FOLD_MECHANISMS);
  u64s(out, s->restored, CTXP_FOLD_MECHANISMS);
  u64s(out, s->potential, CTXP_FOLD_MECHANISMS);
  u64s(out, s->looked_at, CTXP_FOLD_MECHANISMS);
  u64s(out,
      (const uint64_t[]){
          s->turns, s->aux, s->regret, s->carried, s->carried_cost_nano, s->offered_lazy, s->has_restored, s->carried_priced, s->recorded},
      9);
  u64s(out, l->saved, CTXP_FOLD_MECHANISMS);
  u64s(out, (const uint64_t[]){l->turn, l->aux, l->carried, l->carried_cost_nano, signed_bits(l->net), l->carried_priced}, 6);
  ctxp_pack_u64(out, s->windows.count);
  for (uint32_t i = 0; i < s->windows.count; i++) ctxp_fold_write_hash(out, s->windows.at[i]);
  ctxp_pack_u64(out, signed_bits(s->restored_rest));
}

int ctxp_fold_read_session(struct ctxp_raw raw, struct ctxp_fold_session *s) {
  struct ctxp_cursor c = ctxp_cursor(raw);
  struct ctxp_fold_closed_turn *l = &s->last;
  bool bad = false;
  uint64_t v[9];
  s->number = ctxp_fold_read_u64(&c, &bad);
  s->agent = own_str(&s->arena, &c, &bad);
  s->session = own_str(&s->arena, &c, &bad);
  s->product = own_str(&s->arena, &c, &bad);
  s->cwd = own_str(&s->arena, &c, &bad);
  read_u64s(&c, s->saved, CTXP_FOLD_MECHANISMS, &bad);
  read_u64s(&c, s->restored, CTXP_FOLD_MECHANISMS, &bad);
  read_u64s(&c, s->potential, CTXP_FOLD_MECHANISMS, &bad);
  read_u64s(&c, s->looked_at, CTXP_FOLD_MECHANISMS, &bad);
  read_u64s(&c, v, 9, &bad);
  s->turns = v[0], s->aux = v[1], s->regret = v[2], s->carried = v[3], s->carried_cost_nano = v[4], s->offered_lazy = v[5];
  s->has_restored = v[6], s->carried_priced = v[7], s->recorded = v[8];
  read_u64s(&c, l->saved, CTXP_FOLD_MECHANISMS, &bad);
  read_u64s(&c, v, 6, &bad);
  l->turn = v[0], l->aux = v[1], l->carried = v[2], l->carried_cost_nano = v[3], l->net = from_bits(v[4]), l->carried_priced = v[5];
  for (uint64_t left = ctxp_fold_read_u64(&c, &bad); left && !bad; left--) {
    if (!ctxp_fold_grow(&s->windows, sizeof(*s->windows.at))) return -ENOMEM;
    s->windows.at[s->windows.count++] = ctxp_fold_read_hash(&c, &bad);
  }
  if (!bad && c.at < c.end) s->restored_rest = from_bits(ctxp_fold_read_u64(&c, &bad)); /* a record of before lacks it */
  return bad ? -EBADMSG : 0;
}

/* ---- windows ---- */
static void write_turn(struct ctxp_buf *out, const struct ctxp_fold_window *w) {
  const struct ctxp_fold_turn *t = &w->turn;
  u64s(out, t->saved, CTXP_FOLD_MECHANISMS);
  u64s(out,
      (const uint64_t[]){
          t->aux, t->regret, t->carried, t->carried_cost_nano, t->carried_priced, t->own_call, t->other_call, w->run_lazy, w->run_offered},
      9);
  ctxp_pack_u64(out, w->kept.count);
  for (uint32_t i = 0; i < w->kept.count; i++) {
    const struct ctxp_fold_kept *k = &w->kept.at[i];
    u64s(out, (const uint64_t[]){k->tokens, k->place, k->turn, k->mechanism}, 4);
    ctxp_fold_write_hash(out, k->call);
  }
}

static int read_turn(struct ctxp_cursor *c, struct ctxp_fold_window *w) {
  struct ctxp_fold_turn *t = &w->turn;
  bool bad = false;
  uint64_t v[9];
  read_u64s(c, t->saved, CTXP_FOLD_MECHANISMS, &bad);
  read_u64s(c, v, 9, &bad);
  t->aux = v[0], t->regret = v[1], t->carried = v[2], t->carried_cost_nano = v[3], t->carried_priced = v[4];
  t->own_call = v[5], t->other_call = v[6], w->run_lazy = v[7], w->run_offered = v[8];
  for (uint64_t left = ctxp_fold_read_u64(c, &bad); left && !bad; left--) {
    if (!ctxp_fold_grow(&w->kept, sizeof(*w->kept.at))) return -ENOMEM;
    read_u64s(c, v, 4, &bad);
    struct ctxp_fold_kept k = {
        .tokens = v[0], .place = (uint32_t)v[1], .turn = (uint32_t)v[2], .mechanism = (uint8_t)(v[3] % CTXP_FOLD_MECHANISMS)};
    k.call = ctxp_fold_read_hash(c, &bad);
    w->kept_tokens += k.tokens;
    w->kept.at[w->kept.count++] = k;
  }
  return bad ? -EBADMSG : 0;
}

void ctxp_fold_write_window(struct ctxp_buf *out, const struct ctxp_fold_window *w) {
  ctxp_pack_str(out, w->session->agent);
  ctxp_pack_str(out, w->session->session);
  ctxp_pack_str(out, w->thread);
  ctxp_pack_str(out, w->product);
  ctxp_pack_str(out, w->cwd);
  ctxp_pack_str(out, w->parent_thread);
  ctxp_pack_str(out, w->spawned_by);
  u64s(out, (const uint64_t[]){w->messages.count, w->calls.count, w->requests.count, w->residencies.count, w->effects.count}, CTXP_FOLD_LISTS);
  u64s(out,
      (const uint64_t[]){
          w->evicted_tokens, w->counted, w->tools_hash, w->since, w->turns_ended, w->turn_number, w->final_at, w->by_estimate},
      8);
  ctxp_pack_u64(out, w->models.count);
  for (uint32_t i = 0; i < w->models.count; i++) ctxp_pack_str(out, w->models.at[i]);
  write_turn(out, w);
  ctxp_pack_u64(out, w->ended);
}

int ctxp_fold_read_window(struct ctxp_raw raw, struct ctxp_fold_window *w, struct ctxp_str *ret_agent, struct ctxp_str *ret_session,
    uint32_t counts[CTXP_FOLD_LISTS]) {
  struct ctxp_cursor c = ctxp_cursor(raw);
  bool bad = false;
  uint64_t v[8];
  *ret_agent = read_str(&c, &bad);
  *ret_session = read_str(&c, &bad);
  w->thread = own_str(&w->arena, &c, &bad);
  w->product = own_str(&w->arena, &c, &bad);
  w->cwd = own_str(&w->arena, &c, &bad);
  w->parent_thread = own_str(&w->arena, &c, &bad);
  w->spawned_by = own_str(&w->arena, &c, &bad);
  for (unsigned i = 0; i < CTXP_FOLD_LISTS; i++) counts[i] = read_u32(&c, &bad);
  read_u64s(&c, v, 8, &bad);
  w->evicted_tokens = v[0], w->counted = (uint32_t)v[1], w->tools_hash = v[2], w->since = (uint8_t)v[3];
  w->turns_ended = (uint32_t)v[4], w->turn_number = v[5], w->final_at = (uint32_t)v[6], w->by_estimate = v[7];
  for (uint64_t left = ctxp_fold_read_u64(&c, &bad); left && !bad; left--) {
    if (!ctxp_fold_grow(&w->models, sizeof(*w->models.at))) return -ENOMEM;
    w->models.at[w->models.count++] = own_str(&w->arena, &c, &bad);
  }
  int r = bad ? -EBADMSG : read_turn(&c, w);
  if (r == 0 && c.at < c.end) w->ended = ctxp_fold_read_u64(&c, &bad); /* a record of before lacks it */
  return r == 0 && bad ? -EBADMSG : r;
}

/* ---- lists ---- */
static void write_message(struct ctxp_buf *out, const struct ctxp_fold_message *m) {
  ctxp_pack_str(out, m->id);
  ctxp_pack_str(out, m->label);
  ctxp_pack_str(out, m->tool);
  ctxp_fold_write_hash(out, m->answers);
  u64s(out,
      (const uint64_t[]){
          m->tokens, m->first_call, m->calls, m->used_from, m->evicted, m->band, m->role, m->label_kind, m->defined, m->copied},
      10);
  u64s(out, (const uint64_t[]){m->pieces, m->images, m->thinking, m->signature, m->reply_of, m->person, m->thinks}, 7);
}

static void read_message(struct ctxp_cursor *c, struct ctxp_fold_window *w, struct ctxp_fold_message *m, bool *bad) {
  uint64_t v[10];
  m->id = own_str(&w->arena, c, bad);
  m->label = own_str(&w->arena, c, bad);
  m->tool = own_str(&w->arena, c, bad);
  m->answers = ctxp_fold_read_hash(c, bad);
  m->hash = ctxp_hash64(m->id.ptr, m->id.len, 0);
  read_u64s(c, v, 10, bad);
  m->tokens = (uint32_t)v[0], m->first_call = (uint32_t)v[1], m->calls = (uint32_t)v[2], m->used_from = (uint32_t)v[3],
  m->evicted = (uint32_t)v[4];
  m->band = (uint8_t)v[5], m->role = (uint8_t)v[6], m->label_kind = (uint8_t)v[7], m->defined = v[8], m->copied = v[9];
  if (m->band >= CTXP_BAND_COUNT) *bad = true;
  read_u64s(c, v, 7, bad);
  m->pieces = (uint32_t)v[0], m->images = (uint32_t)v[1], m->thinking = (uint32_t)v[2], m->signature = (uint32_t)v[3];
  m->reply_of = (uint32_t)v[4], m->person = v[5], m->thinks = v[6];
}

static void write_call(struct ctxp_buf *out, const struct ctxp_fold_call *k) {
  ctxp_fold_write_hash(out, k->id);
  ctxp_pack_str(out, k->name);
  ctxp_pack_str(out, k->path);
  u64s(out, (const uint64_t[]){k->tokens, k->content_tokens, k->copied}, 3);
}

static void read_call(struct ctxp_cursor *c, struct ctxp_fold_window *w, struct ctxp_fold_call *k, bool *bad) {
  k->id = ctxp_fold_read_hash(c, bad);
  k->name = own_str(&w->arena, c, bad);
  k->path = own_str(&w->arena, c, bad);
  k->tokens = read_u32(c, bad);
  k->content_tokens = read_u32(c, bad);
  k->copied = read_u32(c, bad);
}

static void write_request(struct ctxp_buf *out, const struct ctxp_fold_request *q) {
  u64s(out, q->tokens, CTXP_FOLD_CLASSES);
  u64s(out, q->parts, CTXP_FOLD_CLASSES);
  u64s(out,
      (const uint64_t[]){
          q->output, q->reasoning, q->cost_output_nano, q->ts_ms, q->keep, q->first, q->count, q->number, q->model, q->flags},
      10);
}

static void read_request(struct ctxp_cursor *c, struct ctxp_fold_request *q, bool *bad) {
  uint64_t v[10];
  read_u64s(c, q->tokens, CTXP_FOLD_CLASSES, bad);
  read_u64s(c, q->parts, CTXP_FOLD_CLASSES, bad);
  read_u64s(c, v, 10, bad);
  q->output = v[0], q->reasoning = v[1], q->cost_output_nano = v[2], q->ts_ms = v[3], q->keep = (uint32_t)v[4], q->first = (uint32_t)v[5],
  q->count = (uint32_t)v[6];
  q->number = (uint32_t)v[7], q->model = (uint32_t)v[8], q->flags = (uint8_t)v[9];
}

static void read_residency(struct ctxp_cursor *c, const struct ctxp_fold_window *w, struct ctxp_fold_residency *r, bool *bad) {
  uint64_t v[5];
  read_u64s(c, v, 5, bad);
  *r = (struct ctxp_fold_residency){(uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2], (uint32_t)v[3], (uint8_t)v[4]};
  if (v[0] >= w->messages.count || (v[4] >= CTXP_BAND_COUNT && v[4] != CTXP_FOLD_BY_DEFINITION)) *bad = true;
}

static void write_effect(struct ctxp_buf *out, const struct ctxp_fold_effect *e) {
  ctxp_fold_write_hash(out, e->call);
  u64s(out, (const uint64_t[]){e->tokens, e->cost_nano, e->ts_ms, e->request, e->kind, e->mechanism, e->priced}, 7);
}

static void read_effect(struct ctxp_cursor *c, struct ctxp_fold_effect *e, bool *bad) {
  uint64_t v[7];
  e->call = ctxp_fold_read_hash(c, bad);
  read_u64s(c, v, 7, bad);
  e->tokens = v[0], e->cost_nano = v[1], e->ts_ms = v[2], e->request = (uint32_t)v[3];
  e->kind = (uint8_t)(v[4] % CTXP_FOLD_EFFECTS), e->mechanism = (uint8_t)(v[5] % CTXP_FOLD_MECHANISMS), e->priced = v[6];
}

void ctxp_fold_write_list(struct ctxp_buf *out, const struct ctxp_fold_window *w, enum ctxp_fold_list list, uint32_t from, uint32_t to) {
  ctxp_pack_u64(out, to - from);
  for (uint32_t i = from; i < to; i++) {
    const struct ctxp_fold_residency *r;
    switch (list) {
    case CTXP_FOLD_LIST_MESSAGES: write_message(out, &w->messages.at[i]); break;
    case CTXP_FOLD_LIST_CALLS: write_call(out, &w->calls.at[i]); break;
    case CTXP_FOLD_LIST_REQUESTS: write_request(out, &w->requests.at[i]); break;
    case CTXP_FOLD_LIST_RESIDENCIES:
      r = &w->residencies.at[i];
      u64s(out, (const uint64_t[]){r->message, r->place, r->from, r->to, r->band}, 5);
      break;
    case CTXP_FOLD_LIST_EFFECTS: write_effect(out, &w->effects.at[i]); break;
    case CTXP_FOLD_LISTS: break;
    }
  }
}

/* one record at the end of its list; false: out of memory */
static bool read_one(struct ctxp_cursor *c, struct ctxp_fold_window *w, enum ctxp_fold_list list, bool *bad) {
  switch (list) {
  case CTXP_FOLD_LIST_MESSAGES:
    if (!ctxp_fold_grow(&w->messages, sizeof(*w->messages.at))) return false;
    read_message(c, w, &w->messages.at[w->messages.count++], bad);
    return true;
  case CTXP_FOLD_LIST_CALLS:
    if (!ctxp_fold_grow(&w->calls, sizeof(*w->calls.at))) return false;
    read_call(c, w, &w->calls.at[w->calls.count++], bad);
    return true;
  case CTXP_FOLD_LIST_REQUESTS:
    if (!ctxp_fold_grow(&w->requests, sizeof(*w->requests.at))) return false;
    read_request(c, &w->requests.at[w->requests.count++], bad);
    return true;
  case CTXP_FOLD_LIST_RESIDENCIES:
    if (!ctxp_fold_grow(&w->residencies, sizeof(*w->residencies.at))) return false;
    read_residency(c, w, &w->residencies.at[w->residencies.count++], bad);
    return true;
  case CTXP_FOLD_LIST_EFFECTS:
    if (!ctxp_fold_grow(&w->effects, sizeof(*w->effects.at))) return false;
    read_effect(c, &w->effects.at[w->effects.count++], bad);
    return true;
  case CTXP_FOLD_LISTS: break;
  }
  return true;
}

int ctxp_fold_read_list(struct ctxp_raw raw, struct ctxp_fold_window *w, enum ctxp_fold_list list) {
  struct ctxp_cursor c = ctxp_cursor(raw);
  bool bad = false;
  for (uint64_t left = ctxp_fold_read_u64(&c, &bad); left && !bad; left--)
    if (!read_one(&c, w, list, &bad)) return -ENOMEM;
  return bad ? -EBADMSG : 0;
}
