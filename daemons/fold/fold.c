/* The fold: merges what agents say and what mechanisms derived, and sums both questions' answers: what was kept out of the window
 * (ledger.c), and which material drove the bill (window.c what is resident, costs.c what a request cost, spend.c what each
 * message is answerable for, rows.c the rows by grain). Its stream is the mechanisms' events in merged order, and its own. */
#include <errno.h>
#include "fold/costs.h"
#include "fold/report.h"
#include "fold/store.h"

struct options {
  uint64_t spend_every, top;
  int sizes;
};
enum { SIZES_LEDGER,
  SIZES_ESTIMATE };
static const char *const sizes_choices[] = {"ledger", "estimate", NULL};

static const struct ctxp_option option_table[] = {
    {.name = "spend_every",
        .type = CTXP_OPTION_U64,
        .initial = "16",
        .min = 1,
        .max = 1000000,
        .unit = "turns",
        .offset = offsetof(struct options, spend_every),
        .help = "how many turns of a live session pass between two bills by message, view and tool"},
    {.name = "top",
        .type = CTXP_OPTION_U64,
        .initial = "50",
        .min = 1,
        .max = 10000,
        .unit = "rows",
        .offset = offsetof(struct options, top),
        .help = "rows of such a bill by message, view and tool; the others are one row together"},
    {.name = "sizes",
        .type = CTXP_OPTION_ENUM,
        .initial = "ledger",
        .choices = sizes_choices,
        .unit = "",
        .offset = offsetof(struct options, sizes),
        .help = "how large a message is: ledger, what the reported input grew by when it came in; estimate, what its definition says; of "
                "conversations that begin"},
    {.name = NULL}};

static const struct ctxp_consume consumes[] = {{CTXP_KIND_session_start, 0}, {CTXP_KIND_session_end, 0}, {CTXP_KIND_agent_start, 0},
    {CTXP_KIND_turn_start, 0}, {CTXP_KIND_turn_end, 0}, {CTXP_KIND_context, 0}, {CTXP_KIND_context_message, 0}, {CTXP_KIND_prompt, 0},
    {CTXP_KIND_compaction, 0}, {CTXP_KIND_evict, 0}, {CTXP_KIND_gap, 0}, {CTXP_KIND_bash, 0}, {CTXP_KIND_bash_fallback, 0},
    {CTXP_KIND_amnesia_tag, 0}, {CTXP_KIND_amnesia_remove, 0}, {CTXP_KIND_write, 0}, {CTXP_KIND_write_inject_failed, 0},
    {CTXP_KIND_lazy, 0}, {CTXP_KIND_aux, 0}, {CTXP_KIND_regret, 0}, {CTXP_KIND_hold, 0}, {CTXP_KIND_NONE, 0}};
static const enum ctxp_kind emits[] = {CTXP_KIND_bash, CTXP_KIND_bash_fallback, CTXP_KIND_amnesia_tag, CTXP_KIND_amnesia_remove,
    CTXP_KIND_write, CTXP_KIND_write_inject_failed, CTXP_KIND_lazy, CTXP_KIND_aux, CTXP_KIND_regret, CTXP_KIND_turn, CTXP_KIND_spend,
    CTXP_KIND_gap, CTXP_KIND_hold, CTXP_KIND_restored, CTXP_KIND_NONE};

static int pass_on(struct ctxp_stage *stage, const struct ctxp_event *ev) {
  struct ctxp_event copy = *ev;
  return ctxp_stage_emit(stage, &copy);
}

/* ---- the bill ---- */
static int emit_spend(struct ctxp_stage *stage, struct ctxp_fold_window *w, bool rows, bool final) {
  const struct options *o = ctxp_stage_options(stage);
  struct ctxp_event ev = {.kind = CTXP_KIND_spend, .agent = w->session->agent, .session = w->session->session, .thread = w->thread};
  struct ctxp_buf lists[CTXP_FOLD_GRAINS] = {{0}, {0}, {0}, {0}};
  int r = ctxp_fold_spend_event(w, rows ? o->top : 0, &ev.spend, lists);
  if (r == 0 && final) ctxp_set(&ev.spend, spend, final, true);
  if (r == 0) r = ctxp_stage_emit(stage, &ev);
  for (unsigned g = 0; g < CTXP_FOLD_GRAINS; g++) ctxp_buf_deinit(&lists[g]);
  return r;
}

static int end_turn(struct ctxp_stage *stage, struct ctxp_fold_window *w, uint64_t turn) {
  struct ctxp_event ev = {.kind = CTXP_KIND_turn, .agent = w->session->agent, .session = w->session->session, .thread = w->thread};
  ctxp_fold_ledger_turn(w, turn, &ev.turn);
  return ctxp_stage_emit(stage, &ev);
}

static int on_turn_end(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_turn_end *turn) {
  const struct options *o = ctxp_stage_options(stage);
  if (ctxp_fold_ledger_copied_turn(w, turn->turn)) return 0;
  int r = end_turn(stage, w, turn->turn);
  if (r < 0 || w->session->recorded || w->counted == 0) return r;
  return emit_spend(stage, w, w->turns_ended % o->spend_every == 0, false);
}

/* what is not in a turn yet gets one; the last bill of the window, unless it has been said and nothing came since */
static int end_window(struct ctxp_stage *stage, struct ctxp_fold_window *w) {
  int r = ctxp_fold_ledger_pending(w) ? end_turn(stage, w, w->turn_number) : 0;
  w->ended = w->changed = true;
  if (r < 0 || w->counted == w->final_at) return r;
  r = emit_spend(stage, w, true, true);
  w->final_at = w->counted;
  w->changed = true;
  w->spend = ctxp_fold_spend_free(w->spend); /* made anew should the session come back */
  return r;
}

/* a session ends with its threads; a thread ends alone */
static int on_session_end(struct ctxp_stage *stage, struct ctxp_fold_window *w) {
  int r = end_window(stage, w);
  struct ctxp_fold_session *s = w->session;
  for (uint32_t i = 0; r == 0 && w->thread.len == 0 && i < s->windows.count; i++) {
    struct ctxp_fold_window *other;
    r = ctxp_fold_window_by_key(stage, s->windows.at[i], &other);
    if (r == 0 && other && other != w) r = end_window(stage, other);
  }
  return r;
}

/* ---- sessions ---- */
static int set_text(struct ctxp_fold_arena *arena, struct ctxp_str *at, struct ctxp_str text) {
  bool failed = false;
  if (text.len && !ctxp_str_eq(*at, text)) *at = ctxp_fold_arena_str(arena, text, &failed);
  return failed ? -ENOMEM : 0;
}

static int restore(struct ctxp_stage *stage, struct ctxp_fold_session *s, struct ctxp_raw snapshot) {
  const char *fault;
  struct ctxp_event ev = {.kind = CTXP_KIND_restored};
  ctxp_auto_buf told = {0};
  int r = ctxp_fold_ledger_restore(s, snapshot, &told, &fault);
  if (r > 0)
    ctxp_stage_refuse(
        stage, "session_start: restore of session '%.*s' does not fit: %s; it starts at zero", (int)s->session.len, s->session.ptr, fault);
  if (r != 0) return r < 0 ? r : 0;
  ctxp_set(&ev.restored, restored, snapshot, ctxp_buf_raw(&told));
  return ctxp_stage_emit(stage, &ev);
}

static int on_session_start(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_session_start *start, bool known) {
  struct ctxp_fold_session *s = w->session;
  int r = set_text(&w->arena, &w->product, start->product);
  if (r == 0) r = set_text(&w->arena, &w->cwd, start->cwd);
  if (r == 0) r = set_text(&w->arena, &w->parent_thread, start->parentThread);
  if (r == 0) r = set_text(&w->arena, &w->spawned_by, start->spawnedBy);
  if (r == 0) r = set_text(&s->arena, &s->product, start->product);
  if (r == 0) r = set_text(&s->arena, &s->cwd, start->cwd);
  s->recorded = start->recorded;
  w->changed = s->changed = true;
  return r == 0 && ctxp_has(start, session_start, restore) && !known ? restore(stage, s, start->restore) : r;
}

static void see_tools(struct ctxp_fold_window *w, uint64_t hash) {
  if (w->tools_hash && w->tools_hash != hash) w->since |= CTXP_FOLD_NEW_TOOLS;
  if (w->tools_hash != hash) w->changed = true;
  w->tools_hash = hash;
}

static int on_agent_start(struct ctxp_fold_window *w, const struct ctxp_agent_start *start) {
  int r = ctxp_fold_ledger_offer(w, start);
  if (r < 0 || !ctxp_has(start, agent_start, tools)) return r;
  uint64_t hash = ctxp_hash64(start->tools.ptr, start->tools.len, 1);
  hash = ctxp_hash64(start->activeTools.ptr, start->activeTools.len, hash);
  see_tools(w, ctxp_hash64(start->skillsText.ptr, start->skillsText.len, hash) | 1);
  return 0;
}

/* ---- requests ---- */
/* the figures of a prompt */
static void figures(struct ctxp_stage *stage, const struct ctxp_prompt *p, struct ctxp_fold_request *q) {
  const char *fault = ctxp_fold_price(p, ctxp_stage_prices(stage), q);
  if (fault)
    ctxp_stage_refuse(stage, "prompt '%.*s': %s; that is not taken, the tokens of the call are counted", (int)p->callId.len, p->callId.ptr,
        fault);
}

/* A response that was counted before bills nothing again. Said with more usage, it is put right where it was billed; a bill that was
 * the last of its window is said anew. */
static int repeat(struct ctxp_stage *stage, struct ctxp_fold_billed_call *call, const struct ctxp_event *ev) {
  struct ctxp_prompt p = ev->prompt;
  struct ctxp_fold_request q = {.ts_ms = ev->ts_ms, .flags = CTXP_FOLD_COUNTED};
  struct ctxp_fold_window *w;
  uint64_t sum = ctxp_has(&p, prompt, usage) ? ctxp_fold_usage_sum(&p.usage) : 0;
  if (sum <= call->sum) return 0;
  int r = ctxp_fold_window_by_key(stage, call->window, &w);
  if (r < 0 || !w || call->request >= w->requests.count) return r < 0 ? r : -EBADMSG;
  q.model = w->requests.at[call->request].model;
  if (p.model.len == 0 && q.model != CTXP_FOLD_OPEN) p.model = w->models.at[q.model];
  figures(stage, &p, &q);
  r = ctxp_fold_window_model(w, p.model, &q.model);
  if (r < 0) return r;
  ctxp_fold_window_correct(w, call->request, &q);
  w->changed = true;
  call->sum = sum;
  if (w->final_at == w->counted) r = emit_spend(stage, w, true, true);
  return r < 0 ? r : ctxp_fold_call_put(stage, call);
}

static int count(
    struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_prompt *p, uint32_t request, struct ctxp_hash128 id) {
  struct ctxp_fold_billed_call call = {
      .id = id, .window = w->key, .request = request, .sum = ctxp_has(p, prompt, usage) ? ctxp_fold_usage_sum(&p->usage) : 0};
  return ctxp_fold_call_put(stage, &call);
}

static int on_prompt(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_event *ev) {
  const struct ctxp_prompt *p = &ev->prompt;
  struct ctxp_hash128 id = ctxp_hash128(p->callId.ptr, p->callId.len);
  struct ctxp_fold_request q = {.ts_ms = ev->ts_ms, .model = CTXP_FOLD_OPEN};
  struct ctxp_fold_billed_call call;
  uint32_t request = 0;
  int known = ctxp_fold_call_get(stage, id, &call), r = known;
  if (known == 0) r = repeat(stage, &call, ev);
  if (known == 0 && r == 0) { /* billed elsewhere: here it only says how large the window is */
    ctxp_fold_price(p, NULL, &q);
    memset(q.parts, 0, sizeof(q.parts));
    q.cost_output_nano = 0;
    q.flags &= CTXP_FOLD_REPORTED;
    r = ctxp_fold_window_model(w, p->model, &q.model);
  }
  if (known == 1) {
    figures(stage, p, &q);
    q.flags |= CTXP_FOLD_COUNTED | w->since;
    r = ctxp_fold_window_model(w, p->model, &q.model);
  }
  if (r == 0) r = ctxp_fold_window_request(w, stage, p, &q, &request);
  if (r < 0) return r;
  ctxp_fold_ledger_response(w, known == 1);
  r = ctxp_fold_ledger_request(w, &q);
  if (r < 0) return r;
  w->since = 0;
  w->changed = true;
  return known == 1 ? count(stage, w, p, request, id) : 0;
}

/* ---- events ---- */
static int from_agent(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_event *ev, bool known) {
  switch ((int)ev->kind) {
  case CTXP_KIND_session_start: return on_session_start(stage, w, &ev->session_start, known);
  case CTXP_KIND_session_end: return on_session_end(stage, w);
  case CTXP_KIND_agent_start: return on_agent_start(w, &ev->agent_start);
  case CTXP_KIND_turn_start:
    w->changed |= w->turn_number != ev->turn_start.turn;
    w->turn_number = ev->turn_start.turn;
    return 0;
  case CTXP_KIND_turn_end: return on_turn_end(stage, w, &ev->turn_end);
  case CTXP_KIND_context:
    if (ev->context.toolsHash.len) see_tools(w, ctxp_hash64(ev->context.toolsHash.ptr, ev->context.toolsHash.len, 2) | 1);
    return 0;
  case CTXP_KIND_context_message:
    w->changed = true;
    return ctxp_fold_window_define(w, stage, &ev->context_message);
  case CTXP_KIND_prompt: return on_prompt(stage, w, ev);
  case CTXP_KIND_compaction:
    w->since |= CTXP_FOLD_COMPACTED;
    w->changed = true;
    return 0;
  case CTXP_KIND_evict:
    ctxp_fold_window_evict(w, ev->evict.ids);
    w->changed = true;
    return 0;
  default: return 0;
  }
}

static int from_mechanism(struct ctxp_stage *stage, struct ctxp_fold_window *w, const struct ctxp_event *ev) {
  int r = ctxp_fold_ledger_take(stage, w, ev);
  if (r == 0) r = pass_on(stage, ev);
  if (ev->kind != CTXP_KIND_regret) w->ended = false;
  /* What is taken back behind the session's end has no turn to come: it is one of its own. */
  return r == 0 && w->ended && ctxp_fold_ledger_pending(w) ? end_turn(stage, w, w->turn_number) : r;
}

static int event(struct ctxp_stage *stage, const struct ctxp_event *ev) {
  const struct ctxp_kind_info *info = ctxp_kind_info(ev->kind);
  struct ctxp_fold_window *w;
  bool known;
  if (ev->kind == CTXP_KIND_gap || ev->kind == CTXP_KIND_hold) return pass_on(stage, ev);
  const struct options *o = ctxp_stage_options(stage);
  ((struct ctxp_fold *)ctxp_stage_state(stage))->by_estimate = o->sizes == SIZES_ESTIMATE;
  int r = ctxp_fold_window_of(stage, ev, &known, &w);
  if (r < 0) return r;
  if (info->group == CTXP_GROUP_MECHANISM) return from_mechanism(stage, w, ev);
  if (w->ended && ev->kind != CTXP_KIND_session_end) {
    w->ended = false;
    w->changed = true;
  }
  return from_agent(stage, w, ev, known);
}

static int open_fold(struct ctxp_stage *stage, struct ctxp_error *err) {
  uint64_t count;
  int r = ctxp_fold_session_count(stage, &count);
  const char *why = r == -EPROTO ? "it was written by another version of ctxpipe, which can still use it" :
      r == -EBADMSG              ? "a record is damaged; restore it from a backup" :
                                   strerror(-r);
  return r < 0 ? ctxp_error_set(err, r, "node '%s': its state cannot be used: %s, or move the whole state_dir away to start afresh",
                     ctxp_stage_node(stage), why) :
                 0;
}

static void close_fold(struct ctxp_stage *stage) { ctxp_fold_close(ctxp_stage_state(stage)); }

const struct ctxp_stage_ops ctxp_stage_fold = {.api = CTXP_STAGE_API,
    .name = "fold",
    .summary = "sums the savings per turn, and splits the bill over what was in the window",
    .role = CTXP_ROLE_FOLD_NODE,
    .version = 3,
    .consumes = consumes,
    .emits = emits,
    .options = option_table,
    .options_size = sizeof(struct options),
    .state_size = sizeof(struct ctxp_fold),
    .open = open_fold,
    .event = event,
    .save = ctxp_fold_save,
    .query = ctxp_fold_query,
    .close = close_fold};
