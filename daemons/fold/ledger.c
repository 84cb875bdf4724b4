#include <errno.h>
#include <stdlib.h>
#include "codec/json.h"
#include "codec/msgpack.h"
#include "config/prices.h"
#include "fold/ledger.h"
#include "fold/store.h"
#include "tokens/estimate.h"

#define RESTORED_TURNS 40

struct saving { /* of one tool call */
  bool applied;
  uint64_t saved, looked_at;
  struct ctxp_str call;
};

/* ---- what is kept out of the requests to come ---- */
/* Several results that go together are one entry with their tokens, and after it one without for each further call. */
static void note_less(struct ctxp_fold_window *w, const struct ctxp_fold_kept *k, uint64_t tokens, uint32_t request) {
  if (tokens == 0) return;
  ctxp_fold_effect(w,
      &(struct ctxp_fold_effect){
          .kind = CTXP_FOLD_KEPT_LESS, .mechanism = k->mechanism, .call = k->call, .tokens = tokens, .request = request});
}

static void drop_kept(struct ctxp_fold_window *w, uint32_t i, uint32_t request) {
  uint32_t end = i + 1;
  note_less(w, &w->kept.at[i], w->kept.at[i].tokens, request);
  while (end < w->kept.count && w->kept.at[end].tokens == 0) end++;
  w->kept_tokens -= w->kept.at[i].tokens;
  memmove(w->kept.at + i, w->kept.at + end, (w->kept.count - end) * sizeof(*w->kept.at));
  w->kept.count -= end - i;
}

static int keep(struct ctxp_fold_window *w, unsigned mechanism, uint64_t tokens, struct ctxp_str call) {
  if (!ctxp_fold_grow(&w->kept, sizeof(*w->kept.at))) return -ENOMEM;
  w->kept.at[w->kept.count++] = (struct ctxp_fold_kept){.tokens = tokens,
      .place = w->live.count,
      .turn = w->turns_ended,
      .mechanism = (uint8_t)mechanism,
      .call = call.len ? ctxp_hash128(call.ptr, call.len) : (struct ctxp_hash128){0, 0}};
  w->kept_tokens += tokens;
  ctxp_fold_effect(w,
      &(struct ctxp_fold_effect){.kind = tokens ? CTXP_FOLD_KEPT_OUT : CTXP_FOLD_KEPT_WITH,
          .mechanism = (uint8_t)mechanism,
          .call = w->kept.at[w->kept.count - 1].call,
          .tokens = tokens,
          .request = w->requests.count});
  return 0;
}

/* Tokens of the mechanism are no longer kept out: those that went with the call first, else the newest. Returns how many of them were
 * saved in the turn under way. */
static uint64_t unkeep(struct ctxp_fold_window *w, unsigned mechanism, struct ctxp_str call, uint64_t tokens) {
  struct ctxp_hash128 id = ctxp_hash128(call.ptr, call.len);
  uint64_t of_turn = 0;
  for (unsigned round = 0; round < 2; round++)
    for (uint32_t i = w->kept.count; i-- > 0 && tokens;) {
      struct ctxp_fold_kept *k = &w->kept.at[i];
      if (k->mechanism != mechanism || (round == 0 && (k->call.lo != id.lo || k->call.hi != id.hi))) continue;
      while (k->tokens == 0) k = &w->kept.at[--i];
      uint64_t take = tokens < k->tokens ? tokens : k->tokens;
      of_turn += k->turn == w->turns_ended ? take : 0;
      tokens -= take;
      k->tokens -= take;
      w->kept_tokens -= take;
      note_less(w, k, take, w->requests.count);
      if (k->tokens == 0) drop_kept(w, i, w->requests.count);
    }
  return of_turn;
}

/* ---- potential: once for ever ---- */
/* of a shell result or a written file */
static int take_potential(struct ctxp_stage *stage, struct ctxp_fold_window *w, unsigned mechanism, const struct saving *s) {
  unsigned figure = mechanism == CTXP_FOLD_BASH ? CTXP_FOLD_TOOL_SHELL : CTXP_FOLD_TOOL_WRITTEN;
  bool first;
  int r = ctxp_fold_tool_count(stage, w, s->call, figure, &first);
  if (r < 0 || !first) return r;
  w->session->potential[mechanism] += s->saved;
  w->session->looked_at[mechanism] += s->looked_at;
  return 0;
}

static int take_tag(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_amnesia_tag *tag) {
  bool first;
  int r = ctxp_fold_tool_count(stage, w, tag->toolCallId, CTXP_FOLD_TOOL_TAGGED, &first);
  if (r == 0 && first) w->session->looked_at[CTXP_FOLD_AMNESIA] += tag->tokens;
  return r;
}

/* estimate of the result of a call */
static uint64_t result_tokens(const struct ctxp_fold_window *w, struct ctxp_str call) {
  struct ctxp_hash128 id = ctxp_hash128(call.ptr, call.len);
  for (uint32_t i = w->messages.count; i-- > 0;) {
    const struct ctxp_fold_message *m = &w->messages.at[i];
    if (m->answers.lo == id.lo && m->answers.hi == id.hi) return m->tokens;
  }
  return 0;
}

/* Of several results that go together those that went before do not count again; with all of them nothing does. */
static int take_removal(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_amnesia_remove *removal) {
  struct ctxp_list calls = removal->droppedResultIds;
  struct ctxp_str call;
  uint64_t saved = removal->saved > 0 ? (uint64_t)removal->saved : 0, again = 0;
  bool any = calls.count == 0, first;
  while (ctxp_strs_next(&calls, &call) > 0) {
    int r = ctxp_fold_tool_count(stage, w, call, CTXP_FOLD_TOOL_REMOVED, &first);
    if (r < 0) return r;
    any |= first;
    again += first ? 0 : result_tokens(w, call);
  }
  if (any && saved > again) w->session->potential[CTXP_FOLD_AMNESIA] += saved - again;
  return 0;
}

/* The descriptions that a recorded run did without: whether it is the first to tell of them, its first response shows. */
static void settle_run(struct ctxp_fold_window *w, bool counts) {
  if (counts) {
    w->session->potential[CTXP_FOLD_LAZY] += w->run_lazy;
    w->session->offered_lazy += w->run_offered;
    w->session->changed = true;
  }
  w->run_lazy = w->run_offered = 0;
}

void ctxp_fold_ledger_response(struct ctxp_fold_window *w, bool own) {
  settle_run(w, own);
  w->turn.own_call |= own;
  w->turn.other_call |= !own;
}

/* ---- events of mechanisms ---- */
static int take_saving(
    struct ctxp_stage *stage, struct ctxp_fold_window *w, unsigned mechanism, const struct saving *s) {
  if (!s->applied) return take_potential(stage, w, mechanism, s);
  w->turn.saved[mechanism] += s->saved;
  return s->saved ? keep(w, mechanism, s->saved, s->call) : 0;
}

static int take_removed(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_amnesia_remove *removal, bool applied) {
  struct ctxp_list calls = removal->droppedResultIds;
  struct ctxp_str call = {"", 0};
  uint64_t saved = removal->saved > 0 ? (uint64_t)removal->saved : 0;
  if (!applied) return take_removal(stage, w, removal);
  w->since |= CTXP_FOLD_REMOVED;
  w->turn.saved[CTXP_FOLD_AMNESIA] += saved;
  if (!saved) return 0;
  bool more = ctxp_strs_next(&calls, &call) > 0;
  int r = keep(w, CTXP_FOLD_AMNESIA, saved, call);
  while (more && r == 0 && ctxp_strs_next(&calls, &call) > 0) r = keep(w, CTXP_FOLD_AMNESIA, 0, call);
  return r;
}

static void take_lazy(struct ctxp_fold_window *w, bool applied, uint64_t avoided) {
  if (!applied)
    w->run_lazy += avoided;
  else if (avoided > w->turn.saved[CTXP_FOLD_LAZY])
    w->turn.saved[CTXP_FOLD_LAZY] = avoided;
}

static unsigned mechanism_named(struct ctxp_str name) {
  return ctxp_str_is(name, "amnesia") ? CTXP_FOLD_AMNESIA :
      ctxp_str_is(name, "write")      ? CTXP_FOLD_WRITE :
      ctxp_str_is(name, "lazy")       ? CTXP_FOLD_LAZY :
                                        CTXP_FOLD_BASH;
}

/* What was never applied leaves the turn that has it, unless that has ended; everything else that comes back is regret. Of an
 * answer that was missed the mechanisms tell so by a regret. */
static void take_regret(struct ctxp_fold_window *w, const struct ctxp_regret *regret) {
  unsigned mechanism = mechanism_named(regret->mechanism);
  uint64_t of_turn = unkeep(w, mechanism, regret->toolCallId, regret->tokens);
  if (!ctxp_str_is(regret->reason, "not applied") || of_turn > w->turn.saved[mechanism]) of_turn = 0;
  w->turn.saved[mechanism] -= of_turn;
  w->turn.regret += regret->tokens - of_turn;
  if (regret->tokens > of_turn)
    ctxp_fold_effect(w,
        &(struct ctxp_fold_effect){.kind = CTXP_FOLD_REGRETTED,
            .mechanism = (uint8_t)mechanism,
            .call = ctxp_hash128(regret->toolCallId.ptr, regret->toolCallId.len),
            .tokens = regret->tokens - of_turn,
            .request = w->requests.count});
}

static void take_aux(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_event *ev) {
  const struct ctxp_aux *aux = &ev->aux;
  const struct ctxp_prices *prices = ctxp_stage_prices(stage);
  const struct ctxp_model_price *price = prices ? ctxp_prices_find(prices, aux->model) : NULL;
  struct ctxp_fold_effect e = {.kind = CTXP_FOLD_ASKED,
      .mechanism = (uint8_t)mechanism_named(aux->mechanism),
      .tokens = aux->inputTokens + aux->outputTokens,
      .ts_ms = ev->ts_ms,
      .request = w->requests.count};
  w->turn.aux += e.tokens;
  if (e.tokens == 0) return;
  e.priced = price && (price->base.input >= 0 || !aux->inputTokens) && (price->base.output >= 0 || !aux->outputTokens);
  if (e.priced)
    e.cost_nano = (uint64_t)(((ctxp_u128)aux->inputTokens * (uint64_t)price->base.input +
                                 (ctxp_u128)aux->outputTokens * (uint64_t)price->base.output + 500000) /
        1000000);
  ctxp_fold_effect(w, &e);
}

#define APPLIED(record, shape) (!ctxp_has(record, shape, applied) || (record)->applied)
#define SAVING(record, shape) \
  (&(struct saving){APPLIED(record, shape), (record)->saved > 0 ? (uint64_t)(record)->saved : 0, (record)->originalTokens, \
      (record)->toolCallId})

static int take(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_event *ev) {
  const struct ctxp_amnesia_tag *tag = &ev->amnesia_tag;
  const struct ctxp_amnesia_remove *removal = &ev->amnesia_remove;
  w->changed = w->session->changed = true;
  switch ((int)ev->kind) {
  case CTXP_KIND_bash: return take_saving(stage, w, CTXP_FOLD_BASH, SAVING(&ev->bash, bash));
  case CTXP_KIND_bash_fallback: return take_saving(stage, w, CTXP_FOLD_BASH, SAVING(&ev->bash_fallback, bash_fallback));
  case CTXP_KIND_write: return take_saving(stage, w, CTXP_FOLD_WRITE, SAVING(&ev->write, write));
  case CTXP_KIND_amnesia_tag: return APPLIED(tag, amnesia_tag) ? 0 : take_tag(stage, w, tag);
  case CTXP_KIND_amnesia_remove: return take_removed(stage, w, removal, APPLIED(removal, amnesia_remove));
  case CTXP_KIND_lazy: take_lazy(w, APPLIED(&ev->lazy, lazy), ev->lazy.avoidedTokens); return 0;
  case CTXP_KIND_aux: take_aux(stage, w, ev); return 0;
  case CTXP_KIND_regret: take_regret(w, &ev->regret); return 0;
  default: return 0;
  }
}

int ctxp_fold_ledger_take(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_event *ev) {
  switch ((int)ev->kind) {
  case CTXP_KIND_bash: ctxp_fold_effect_verdict(w, CTXP_FOLD_BASH, ev->ts_ms, ev->bash.toolCallId); break;
  case CTXP_KIND_bash_fallback: ctxp_fold_effect_verdict(w, CTXP_FOLD_BASH, ev->ts_ms, ev->bash_fallback.toolCallId); break;
  case CTXP_KIND_write: ctxp_fold_effect_verdict(w, CTXP_FOLD_WRITE, ev->ts_ms, ev->write.toolCallId); break;
  case CTXP_KIND_amnesia_tag: ctxp_fold_effect_verdict(w, CTXP_FOLD_AMNESIA, ev->ts_ms, ev->amnesia_tag.toolCallId); break;
  default: break;
  }
  int r = take(stage, w, ev);
  return r == 0 && w->effects_failed ? -ENOMEM : r;
}

/* ---- requests and turns ---- */
/* What was kept out stays out until the window is rewritten or cut back before its place; a removal itself shortens the window. */
static void settle_kept(struct ctxp_fold_window *w, uint32_t request) {
  if (w->since & CTXP_FOLD_COMPACTED) {
    for (uint32_t i = 0; i < w->kept.count; i++) note_less(w, &w->kept.at[i], w->kept.at[i].tokens, request);
    w->kept.count = 0;
    w->kept_tokens = 0;
  }
  for (uint32_t i = w->kept.count; i-- > 0 && w->kept.at[i].place >= w->live.count;) {
    if (w->since & CTXP_FOLD_REMOVED)
      w->kept.at[i].place = w->live.count ? w->live.count - 1 : 0;
    else
      drop_kept(w, i, request);
  }
}

int ctxp_fold_ledger_request(struct ctxp_fold_window *w, const struct ctxp_fold_request *q) {
  uint64_t input = ctxp_fold_request_input(q), cost = ctxp_fold_request_cost_nano(q);
  bool counted = q->flags & CTXP_FOLD_COUNTED; /* it is the last of the list then */
  settle_kept(w, counted ? w->requests.count - 1 : w->requests.count);
  if (w->effects_failed) return -ENOMEM;
  if (!counted || w->kept_tokens == 0) return 0;
  w->turn.carried += w->kept_tokens;
  if (!(q->flags & CTXP_FOLD_PRICED) || input == 0) return 0;
  w->turn.carried_priced = true;
  w->turn.carried_cost_nano += (uint64_t)(((ctxp_u128)cost * w->kept_tokens + input / 2) / input);
  return 0;
}

bool ctxp_fold_ledger_pending(const struct ctxp_fold_window *w) {
  const struct ctxp_fold_turn *t = &w->turn;
  return t->saved[0] || t->saved[1] || t->saved[2] || t->saved[3] || t->aux || t->regret || t->carried;
}

bool ctxp_fold_ledger_copied_turn(struct ctxp_fold_window *w, uint64_t turn) {
  if (!w->turn.other_call || w->turn.own_call || ctxp_fold_ledger_pending(w)) return false;
  w->turn = (struct ctxp_fold_turn){0};
  w->turn_number = turn + 1;
  w->changed = true;
  return true;
}

static struct ctxp_savings savings(const uint64_t *a, const uint64_t *b) {
  struct ctxp_savings s = {
      .bash = a[CTXP_FOLD_BASH] + b[CTXP_FOLD_BASH],
      .amnesia = a[CTXP_FOLD_AMNESIA] + b[CTXP_FOLD_AMNESIA],
      .lazy = a[CTXP_FOLD_LAZY] + b[CTXP_FOLD_LAZY],
      .write = a[CTXP_FOLD_WRITE] + b[CTXP_FOLD_WRITE],
  };
  s.total = s.bash + s.amnesia + s.lazy + s.write;
  return s;
}

static void close_turn(struct ctxp_fold_window *w, uint64_t turn, struct ctxp_fold_closed_turn *c) {
  struct ctxp_fold_session *s = w->session;
  settle_run(w, true); /* of a run that tells of no responses */
  *c = (struct ctxp_fold_closed_turn){.turn = turn,
      .aux = w->turn.aux,
      .carried = w->turn.carried,
      .carried_cost_nano = w->turn.carried_cost_nano,
      .carried_priced = w->turn.carried_priced};
  for (unsigned m = 0; m < CTXP_FOLD_MECHANISMS; m++) {
    c->saved[m] = w->turn.saved[m];
    c->net += (int64_t)c->saved[m];
    s->saved[m] += c->saved[m];
  }
  c->net -= (int64_t)(w->turn.aux + w->turn.regret);
  s->turns++;
  s->aux += w->turn.aux;
  s->regret += w->turn.regret;
  s->carried += c->carried;
  s->carried_cost_nano += c->carried_cost_nano;
  s->carried_priced |= c->carried_priced;
  s->last = *c;
  w->turn = (struct ctxp_fold_turn){0};
  w->turns_ended++;
  w->turn_number = turn + 1;
  w->changed = s->changed = true;
}

void ctxp_fold_ledger_turn(struct ctxp_fold_window *w, uint64_t turn, struct ctxp_turn *ret) {
  static const uint64_t zero[CTXP_FOLD_MECHANISMS];
  struct ctxp_fold_closed_turn c;
  close_turn(w, turn, &c);
  struct ctxp_savings s = savings(c.saved, zero);
  *ret = (struct ctxp_turn){.turn = turn, .bash = s.bash, .amnesia = s.amnesia, .lazy = s.lazy, .write = s.write, .total = s.total};
  ret->cumulative = savings(w->session->saved, w->session->restored);
  ret->cumulative.total += (uint64_t)w->session->restored_rest;
  ctxp_set(ret, turn, aux, c.aux);
  ctxp_set(ret, turn, net, c.net);
  ctxp_set(ret, turn, carried, c.carried);
  if (c.carried_priced) ctxp_set(ret, turn, carriedCostNano, (int64_t)c.carried_cost_nano);
}

/* name, description, parameters as compact JSON and guidelines, with a blank between each two */
static int units_of(const struct ctxp_tool_spec *spec, uint64_t *ret_units) {
  struct ctxp_list lines = spec->guidelines;
  struct ctxp_str line;
  ctxp_auto_buf json = {0};
  int r = spec->parameters.len ? ctxp_json_from_raw(spec->parameters, &json) : 0;
  *ret_units = ctxp_utf16_units(spec->name) + ctxp_utf16_units(spec->description) + ctxp_utf16_units(ctxp_buf_view(&json)) + 3 +
      (lines.count ? lines.count - 1 : 0);
  while (ctxp_strs_next(&lines, &line) > 0) *ret_units += ctxp_utf16_units(line);
  return r;
}

int ctxp_fold_ledger_offer(struct ctxp_fold_window *w, const struct ctxp_agent_start *start) {
  struct ctxp_list tools = start->tools;
  struct ctxp_tool_spec spec;
  uint64_t tokens = ctxp_estimate_text(start->skillsText);
  while (ctxp_list_next(&tools, &ctxp_shape_tool_spec, &spec) > 0) {
    uint64_t units;
    int r = units_of(&spec, &units);
    if (r < 0) return r;
    tokens += ctxp_chars4(units);
  }
  w->run_offered += tokens;
  if (!w->session->recorded) settle_run(w, true);
  w->changed = true;
  return 0;
}

/* ---- restore ---- */
static bool figure(struct ctxp_raw map, const char *key, bool needed, uint64_t *ret) {
  struct ctxp_raw value = ctxp_map_get(map, key);
  *ret = 0;
  if (value.len == 0) return !needed;
  if (ctxp_raw_type(value) != CTXP_PACK_U64) return false;
  *ret = ctxp_map_u64(map, key, 0);
  return *ret <= UINT64_C(1) << 53;
}

/* the five sums; an older snapshot has no `write` */
static bool figures(struct ctxp_raw map, uint64_t *saved, uint64_t *total) {
  if (ctxp_raw_type(map) != CTXP_PACK_MAP) return false;
  return figure(map, "bash", true, &saved[CTXP_FOLD_BASH]) && figure(map, "amnesia", true, &saved[CTXP_FOLD_AMNESIA]) &&
      figure(map, "lazy", true, &saved[CTXP_FOLD_LAZY]) && figure(map, "write", false, &saved[CTXP_FOLD_WRITE]) &&
      figure(map, "total", true, total);
}

static void pack_figures(struct ctxp_buf *out, const uint64_t *saved, uint64_t total) {
  ctxp_pack_cstr(out, "bash");
  ctxp_pack_u64(out, saved[CTXP_FOLD_BASH]);
  ctxp_pack_cstr(out, "amnesia");
  ctxp_pack_u64(out, saved[CTXP_FOLD_AMNESIA]);
  ctxp_pack_cstr(out, "lazy");
  ctxp_pack_u64(out, saved[CTXP_FOLD_LAZY]);
  ctxp_pack_cstr(out, "write");
  ctxp_pack_u64(out, saved[CTXP_FOLD_WRITE]);
  ctxp_pack_cstr(out, "total");
  ctxp_pack_u64(out, total);
}

/* 0, or 1: a turn does not fit */
static int pack_turns(struct ctxp_raw turns, struct ctxp_buf *out) {
  struct ctxp_cursor it = ctxp_cursor(turns);
  struct ctxp_raw one;
  uint32_t left, packed = 0;
  uint64_t saved[CTXP_FOLD_MECHANISMS], turn, total;
  if (ctxp_array_open(&it, &left) < 0) return 1;
  size_t mark = ctxp_pack_array_open(out);
  while (left && ctxp_array_next(&it, &left, &one) > 0) {
    if (!figures(one, saved, &total) || !figure(one, "turn", true, &turn)) return 1;
    if (left >= RESTORED_TURNS) continue;
    ctxp_pack_map(out, 6);
    ctxp_pack_cstr(out, "turn");
    ctxp_pack_u64(out, turn);
    pack_figures(out, saved, total);
    packed++;
  }
  ctxp_pack_close(out, mark, packed);
  return 0;
}

int ctxp_fold_ledger_restore(struct ctxp_fold_session *s, struct ctxp_raw restore, struct ctxp_buf *out, const char **ret_fault) {
  uint64_t saved[CTXP_FOLD_MECHANISMS], total;
  *ret_fault = NULL;
  if (ctxp_raw_type(restore) != CTXP_PACK_MAP)
    *ret_fault = "it must be a map of cumulative and turns";
  else if (!figures(ctxp_map_get(restore, "cumulative"), saved, &total))
    *ret_fault = "cumulative must have bash, amnesia, lazy, write and total as whole numbers";
  if (*ret_fault) return 1;
  ctxp_pack_map(out, 2);
  ctxp_pack_cstr(out, "cumulative");
  ctxp_pack_map(out, 5);
  pack_figures(out, saved, total);
  ctxp_pack_cstr(out, "turns");
  if (pack_turns(ctxp_map_get(restore, "turns"), out) > 0) {
    *ret_fault = "turns must be a list of turns, each with turn, bash, amnesia, lazy, write and total as whole numbers";
    return 1;
  }
  memcpy(s->restored, saved, sizeof(saved));
  s->restored_rest = (int64_t)total - (int64_t)(saved[0] + saved[1] + saved[2] + saved[3]);
  s->has_restored = s->changed = true;
  return ctxp_buf_error(out);
}

void ctxp_fold_session_free(struct ctxp_fold_session *s) {
  if (!s) return;
  ctxp_fold_arena_deinit(&s->arena);
  free(s->windows.at);
  free(s);
}
