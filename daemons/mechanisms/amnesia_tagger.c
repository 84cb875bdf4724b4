/* amnesia-tagger: results that were read and are of no more use leave the window.
 *
 * Two steps. A result is judged when it comes (by a model, if the engine is aux: what it drops is dropped), and again when something
 * supersedes it: a later read of the same lines, the same text once more, or the whole file written anew (an edit does not: what was read
 * is still needed to know the file). Then, with each request, removal.c chooses what goes. An agent that asks is answered and the removal
 * counts; for others it is worked out from `prompt` and `context_message`, and stays potential. */
#include <errno.h>
#include "base/str.h"
#include "mechanisms/amnesia.h"

struct state {
  struct ctxp_windows windows;
};

static void expire(struct ctxp_amnesia *window) {
  for (struct ctxp_result *result = window->results; result; result = result->hh.next) result->candidate = false;
}

/* ---- requests ---- */
static bool idle(const struct ctxp_amnesia *window, const struct ctxp_amnesia_options *options, uint64_t now_ms) {
  return window->last_ms && now_ms > window->last_ms && now_ms - window->last_ms > options->cache_ttl_s * 1000;
}

/* 1: it was known and is another now */
static int changed(char **known, struct ctxp_str now) {
  if (!now.len || (*known && ctxp_str_is(now, *known))) return 0;
  bool was = *known != NULL;
  int r = ctxp_amnesia_text(known, now);
  return r < 0 ? r : was;
}

/* the agent answers for its window from now on: what went in theory is there */
static void begin_asking(struct ctxp_amnesia *window) {
  for (struct ctxp_message *m = window->messages; m; m = m->hh.next) {
    struct ctxp_result *result = ctxp_amnesia_result(window, (struct ctxp_str){m->call, m->call_len});
    if (m->gone == CTXP_HERE || m->applied) continue;
    m->gone = CTXP_HERE;
    for (unsigned k = 0; k < m->call_count; k++) m->calls[k].gone = CTXP_HERE;
    if (result && m->role == CTXP_ROLE_tool) result->candidate = true;
  }
  window->asks = true;
}

static int context(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_event *ev) {
  const struct ctxp_context *said = &ev->context;
  int model = changed(&window->context_model, said->model), tools = changed(&window->tools_hash, said->toolsHash);
  if (model < 0 || tools < 0) return -ENOMEM;
  struct ctxp_occasion occasion = {.model = ctxp_str(window->context_model ? window->context_model : window->prompt_model),
      .applied = said->ask,
      .ask = ev->seq,
      .cold = model || tools || window->compacted || idle(window, ctxp_stage_options(stage), ev->ts_ms)};
  if (said->ask && !window->asks) begin_asking(window);
  window->contexts = window->base.changed = true;
  window->last_ms = ev->ts_ms;
  return said->ask || !window->asks ? ctxp_amnesia_context(stage, window, said, &occasion) : 0;
}

static int append(struct ctxp_amnesia *window, struct ctxp_list refs) {
  struct ctxp_ref ref;
  while (ctxp_list_next(&refs, &ctxp_shape_ref, &ref) > 0) {
    struct ctxp_message *message = ctxp_amnesia_make(window, ref.id);
    int r = message ? ctxp_amnesia_push(window, message) : -ENOMEM;
    if (r < 0) return r;
  }
  return 0;
}

/* the list of what the request carried; too long a one is not followed */
static int follow(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_prompt *said) {
  bool whole = ctxp_has(said, prompt, request);
  if (whole)
    window->request_count = 0;
  else if (said->keep < window->request_count)
    window->request_count = (unsigned)said->keep;
  if (window->request_count + (uint64_t)(whole ? said->request : said->append).count > CTXP_MESSAGES_MAX) {
    window->overlong = true;
    ctxp_amnesia_purge(window, true);
    ctxp_stage_refuse(stage, "a request of more than %d messages is not followed", CTXP_MESSAGES_MAX);
    return 0;
  }
  int r = append(window, whole ? said->request : said->append);
  if (r == 0 && HASH_COUNT(window->messages) > CTXP_MESSAGES_MAX) ctxp_amnesia_purge(window, false);
  return r;
}

static bool any_candidate(const struct ctxp_amnesia *window) {
  for (const struct ctxp_result *result = window->results; result; result = result->hh.next)
    if (result->candidate) return true;
  return false;
}

static void carried(struct ctxp_amnesia *window, unsigned from) {
  for (unsigned i = from; i < window->request_count; i++) {
    const struct ctxp_message *m = window->request[i];
    struct ctxp_result *result = m->role == CTXP_ROLE_tool ? ctxp_amnesia_result(window, (struct ctxp_str){m->call, m->call_len}) : NULL;
    if (result) result->seen = true;
  }
}

static int prompt(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_event *ev) {
  const struct ctxp_prompt *said = &ev->prompt;
  unsigned kept = ctxp_has(said, prompt, request) || said->keep > window->request_count ? 0 : (unsigned)said->keep;
  int model = changed(&window->prompt_model, said->model);
  if (model < 0) return model;
  struct ctxp_occasion occasion = {.model = ctxp_str(window->prompt_model),
      .applied = false,
      .ask = ev->seq,
      .cold = model || window->compacted || idle(window, ctxp_stage_options(stage), ev->ts_ms)};
  window->base.changed = true;
  window->last_ms = ev->ts_ms;
  if (window->overlong) return 0;
  int r = follow(stage, window, said);
  if (r == 0) r = ctxp_amnesia_came_back(stage, window);
  if (r < 0 || window->contexts) return r;
  if (window->compacted || any_candidate(window)) r = ctxp_amnesia_prompt(stage, window, &occasion);
  carried(window, kept);
  return r;
}

static int define(struct ctxp_amnesia *window, const struct ctxp_context_message *said) {
  struct ctxp_list calls = said->calls;
  struct ctxp_call call;
  uint64_t in_calls = 0;
  if (window->overlong) return 0;
  struct ctxp_message *message = ctxp_amnesia_make(window, said->id);
  if (!message) return -ENOMEM;
  while (ctxp_list_next(&calls, &ctxp_shape_call, &call) > 0) in_calls += call.tokens;
  message->tokens = said->tokens;
  message->has_text = ctxp_has(said, context_message, chars) ? said->chars > 0 : said->tokens > in_calls;
  window->base.changed = true;
  return ctxp_amnesia_define(message, said->role, said->toolCallId, said->calls);
}

/* what left the window on its own cannot be removed, and does not come back by our fault */
static void evicted(struct ctxp_amnesia *window, struct ctxp_list ids) {
  struct ctxp_str id;
  while (ctxp_strs_next(&ids, &id) > 0) {
    struct ctxp_message *message = ctxp_amnesia_message(window, id);
    if (!message) continue;
    struct ctxp_result *result =
        message->role == CTXP_ROLE_tool ? ctxp_amnesia_result(window, (struct ctxp_str){message->call, message->call_len}) : NULL;
    if (result) ctxp_amnesia_forget(window, result);
    window->gone_count -= message->gone == CTXP_GONE && message->applied;
    /* that its removal was not applied may still be told */
    message->gone = message->gone != CTXP_HERE && message->applied ? CTXP_GONE_ONCE : CTXP_HERE;
    window->base.changed = true;
  }
}

/* ---- sessions and runs ---- */
static int began(struct ctxp_amnesia *window, const struct ctxp_session_start *said) {
  window->base.changed = true;
  int r = ctxp_amnesia_text(&window->cwd, said->cwd);
  return r < 0 || !said->model.len ? r : ctxp_amnesia_text(&window->context_model, said->model);
}

/* what is gone stays so when the session comes back */
static int ended(struct ctxp_amnesia *window) {
  char **const texts[] = {&window->cwd, &window->context_model, &window->prompt_model, &window->tools_hash};
  ctxp_amnesia_forget_all(window);
  ctxp_amnesia_purge(window, true);
  window->turns = window->runs = window->last_ms = 0;
  window->asks = window->contexts = window->compacted = window->overlong = false;
  window->base.changed = true;
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
    if (ctxp_amnesia_text(texts[i], (struct ctxp_str){0}) < 0) return -ENOMEM;
  return 0;
}

static int ran(struct ctxp_amnesia *window, const struct ctxp_event *ev, const struct ctxp_amnesia_options *options) {
  window->base.changed = true;
  window->runs += ev->kind == CTXP_KIND_agent_start;
  window->turns += ev->kind == CTXP_KIND_turn_end;
  if (ev->kind != CTXP_KIND_turn_end && options->policy == CTXP_POLICY_TAIL) expire(window);
  return 0;
}

static int event(struct ctxp_stage *stage, const struct ctxp_event *ev) {
  struct state *state = ctxp_stage_state(stage);
  struct ctxp_amnesia *window;
  bool make = ev->kind != CTXP_KIND_session_end && ev->kind != CTXP_KIND_answer_missed && ev->kind != CTXP_KIND_evict;
  int r = make ? ctxp_windows_get(&state->windows, stage, ev, &window) : ctxp_windows_find(&state->windows, stage, ev, &window);
  if (r) return r < 0 ? r : 0;
  switch ((int)ev->kind) {
  case CTXP_KIND_tool_result: return ctxp_amnesia_judge(stage, window, ev);
  case CTXP_KIND_context: return context(stage, window, ev);
  case CTXP_KIND_prompt: return prompt(stage, window, ev);
  case CTXP_KIND_context_message: return define(window, &ev->context_message);
  case CTXP_KIND_answer_missed: return ctxp_amnesia_missed(stage, window, &ev->answer_missed);
  case CTXP_KIND_compaction: window->compacted = window->base.changed = true; return 0;
  case CTXP_KIND_evict: evicted(window, ev->evict.ids); return 0;
  case CTXP_KIND_session_start: return began(window, &ev->session_start);
  case CTXP_KIND_session_end: return ended(window);
  default: return ran(window, ev, ctxp_stage_options(stage));
  }
}

static int open_stage(struct ctxp_stage *stage, struct ctxp_error *err) {
  (void)err;
  ((struct state *)ctxp_stage_state(stage))->windows.ops = &ctxp_amnesia_ops;
  return 0;
}

static const struct ctxp_consume consumes[] = {
    {CTXP_KIND_tool_result, 1u << CTXP_TOOL_READ | 1u << CTXP_TOOL_SEARCH | 1u << CTXP_TOOL_SKILL | 1u << CTXP_TOOL_WRITE},
    {CTXP_KIND_context, 0}, {CTXP_KIND_prompt, 0}, {CTXP_KIND_context_message, 0}, {CTXP_KIND_compaction, 0}, {CTXP_KIND_evict, 0},
    {CTXP_KIND_session_start, 0}, {CTXP_KIND_session_end, 0}, {CTXP_KIND_agent_start, 0}, {CTXP_KIND_agent_end, 0}, {CTXP_KIND_turn_end, 0},
    {CTXP_KIND_answer_missed, 0}, {CTXP_KIND_NONE, 0}};
static const enum ctxp_kind emits[] = {
    CTXP_KIND_amnesia_tag, CTXP_KIND_amnesia_remove, CTXP_KIND_aux, CTXP_KIND_regret, CTXP_KIND_NONE};
static int check(const void *whole, struct ctxp_error *err) {
  return ctxp_engine_check(&((const struct ctxp_amnesia_options *)whole)->engine, err);
}

static const char *const policies[] = {"tail", "seen", NULL};
static const struct ctxp_option options[] = {
    CTXP_NUMBER_OPTION(struct ctxp_amnesia_options, min_tokens, "250", 0, 1u << 30, "tokens", "smaller results are not judged; 0: all are"),
    CTXP_CHOICE_OPTION(struct ctxp_amnesia_options, policy, "seen", policies, "seen: what a request has carried, when it pays or the prompt cache is cold; tail: the end of a request, at once"),
    CTXP_BOOL_OPTION(struct ctxp_amnesia_options, sticky, "true", "what was removed stays removed in every later request of the session, so that the prompt cache holds"),
    CTXP_NUMBER_OPTION(struct ctxp_amnesia_options, cache_ttl_s, "300", 0, 1u << 30, "s", "idle time after which the prompt cache is cold"),
    CTXP_ENGINE_OPTIONS(struct ctxp_amnesia_options),
    CTXP_NUMBER_OPTION(struct ctxp_amnesia_options, max_chars, "6000", 1, 1u << 24, "UTF-16 units", "of engine aux: what the model sees of a result"),
    CTXP_NUMBER_OPTION(struct ctxp_amnesia_options, tag_max_tokens, "24", 1, 65536, "tokens", "of engine aux: what the model's verdict may have"),
    {0}};

const struct ctxp_stage_ops ctxp_stage_amnesia_tagger = {.api = CTXP_STAGE_API,
    .name = "amnesia-tagger",
    .summary = "removes results that are of no more use from the window",
    .role = CTXP_ROLE_MECHANISM_NODE,
    .version = 2,
    .consumes = consumes,
    .emits = emits,
    .options = options,
    .options_size = sizeof(struct ctxp_amnesia_options),
    .state_size = sizeof(struct state),
    .check = check,
    .open = open_stage,
    .prepare = ctxp_amnesia_prepare,
    .event = event,
    .save = ctxp_windows_save_all,
    .close = ctxp_windows_close};
