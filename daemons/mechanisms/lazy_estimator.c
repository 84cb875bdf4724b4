/* lazy-estimator: what the tools and skills that an agent did not put into its prompt would have cost there.
 *
 * At the start of a run the agent says which tools it has, which of them are active, and its skills section. What is left out
 * counts once per run, in the first turn that ends after it (the fold's part). An estimate of an avoided injection, never a
 * metered value. */
#include "base/str.h"
#include "codec/json.h"
#include "mechanisms/window.h"
#include "tokens/estimate.h"

/* the agent's own tool to find the others: it is always there */
#define META_TOOL "find_capability"

struct options {
  bool skills;
};
struct window {
  struct ctxp_window base;
  bool recorded; /* a transcript: what it says of itself is potential */
};
struct state {
  struct ctxp_windows windows;
};

static int load(void *window, struct ctxp_raw state) { return (void)state, ((struct window *)window)->recorded = true, 0; }
static void dump(const void *window, struct ctxp_buf *out) {
  ctxp_buf_char(out, ((const struct window *)window)->recorded ? (char)0xc3 : (char)0xc2);
}
static bool keeps(const void *window) { return ((const struct window *)window)->recorded; }
static void deinit(void *window) { (void)window; }
static const struct ctxp_window_ops window_ops = {
    .size = sizeof(struct window), .load = load, .dump = dump, .keeps = keeps, .deinit = deinit};

static bool active(const struct ctxp_agent_start *start, struct ctxp_str name) {
  if (!ctxp_has(start, agent_start, activeTools) || ctxp_str_is(name, META_TOOL)) return true;
  struct ctxp_list list = start->activeTools;
  struct ctxp_str one;
  while (ctxp_strs_next(&list, &one) > 0)
    if (ctxp_str_eq(one, name)) return true;
  return false;
}

/* name, description, parameters and guidelines with blanks between them */
static int tool_tokens(struct ctxp_tool_spec *tool, struct ctxp_buf *text, uint64_t *ret_tokens) {
  struct ctxp_str line;
  ctxp_buf_reset(text);
  ctxp_buf_add(text, tool->name.ptr, tool->name.len);
  ctxp_buf_char(text, ' ');
  ctxp_buf_add(text, tool->description.ptr, tool->description.len);
  ctxp_buf_char(text, ' ');
  int r = tool->parameters.len ? ctxp_json_from_raw(tool->parameters, text) : 0;
  if (r < 0) return r;
  ctxp_buf_char(text, ' ');
  for (unsigned i = 0; ctxp_strs_next(&tool->guidelines, &line) > 0; i++) {
    if (i) ctxp_buf_char(text, ' ');
    ctxp_buf_add(text, line.ptr, line.len);
  }
  if (text->failed) return ctxp_buf_error(text);
  *ret_tokens = ctxp_estimate_text(ctxp_buf_view(text));
  return 0;
}

static int estimate(const struct ctxp_agent_start *start, bool skills, uint64_t *ret_tokens) {
  ctxp_auto_buf text = {0};
  struct ctxp_list list = start->tools;
  struct ctxp_tool_spec tool;
  uint64_t sum = skills ? ctxp_estimate_text(start->skillsText) : 0, tokens;
  while (ctxp_list_next(&list, &ctxp_shape_tool_spec, &tool) > 0) {
    if (active(start, tool.name)) continue;
    int r = tool_tokens(&tool, &text, &tokens);
    if (r < 0) return r;
    sum += tokens;
  }
  *ret_tokens = sum;
  return 0;
}

static int started(struct ctxp_stage *stage, const struct ctxp_event *ev) {
  struct state *state = ctxp_stage_state(stage);
  const struct options *options = ctxp_stage_options(stage);
  struct window *window = NULL;
  struct ctxp_event out = {.kind = CTXP_KIND_lazy};
  int r = ctxp_windows_find(&state->windows, stage, ev, &window);
  if (r < 0) return r;
  bool recorded = r == 0 && window->recorded;
  r = estimate(&ev->agent_start, options->skills, &out.lazy.avoidedTokens);
  if (r < 0) return r;
  ctxp_set_verdict(&out.lazy, lazy, !recorded, recorded ? "recorded session" : NULL);
  return ctxp_stage_emit(stage, &out);
}

static int session(struct ctxp_stage *stage, const struct ctxp_event *ev, bool recorded) {
  struct state *state = ctxp_stage_state(stage);
  struct window *window;
  int r = recorded ? ctxp_windows_get(&state->windows, stage, ev, &window) : ctxp_windows_find(&state->windows, stage, ev, &window);
  if (r) return r < 0 ? r : 0;
  window->base.changed = window->base.changed || window->recorded != recorded;
  window->recorded = recorded;
  return 0;
}

static int event(struct ctxp_stage *stage, const struct ctxp_event *ev) {
  if (ev->kind == CTXP_KIND_agent_start) return started(stage, ev);
  return session(stage, ev, ev->kind == CTXP_KIND_session_start && ev->session_start.recorded);
}

static int open_stage(struct ctxp_stage *stage, struct ctxp_error *err) {
  (void)err;
  ((struct state *)ctxp_stage_state(stage))->windows.ops = &window_ops;
  return 0;
}

static const struct ctxp_consume consumes[] = {
    {CTXP_KIND_session_start, 0}, {CTXP_KIND_session_end, 0}, {CTXP_KIND_agent_start, 0}, {CTXP_KIND_NONE, 0}};
static const enum ctxp_kind emits[] = {CTXP_KIND_lazy, CTXP_KIND_NONE};
static const struct ctxp_option options[] = {
    CTXP_BOOL_OPTION(struct options, skills, "true", "the skills section is left out of the prompt too, and counts"),
    {0}};

const struct ctxp_stage_ops ctxp_stage_lazy_estimator = {.api = CTXP_STAGE_API,
    .name = "lazy-estimator",
    .summary = "estimates the tool and skill descriptions that were not injected",
    .role = CTXP_ROLE_MECHANISM_NODE,
    .version = 1,
    .consumes = consumes,
    .emits = emits,
    .options = options,
    .options_size = sizeof(struct options),
    .state_size = sizeof(struct state),
    .open = open_stage,
    .event = event,
    .save = ctxp_windows_save_all,
    .close = ctxp_windows_close};
