/* write-compressor: a written file becomes one line of fact, and its content leaves the call that wrote it.
 *
 * The life of a write: offered (the answer asks the agent to inject the fact) -> injected (the agent did; the saving is claimed)
 * -> stripped (the next request leaves the content out, in its last assistant message only: elsewhere the prompt cache would
 * break) -> stripped in every later request, if sticky. An answer that was missed takes the last step back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/hash.h"
#include "codec/msgpack.h"
#include "mechanisms/fact.h"
#include "mechanisms/window.h"
#include "tokens/estimate.h"

enum { WRITES_MAX = 4096 }; /* in one window; beyond them the oldest is forgotten */

struct options {
  uint64_t min_bytes;
  bool sticky;
};

enum step { OFFERED, INJECTED, STRIPPED, LEFT /* its content stays where it is */ };

struct write {
  UT_hash_handle hh;
  char *call, *path, *fact; /* NUL-terminated copies; call_len: an id may hold a NUL */
  size_t call_len, path_len;
  uint64_t original_tokens, fact_tokens;
  uint64_t ask; /* number of the ask that set the step */
  char hash[CTXP_HASH_HEX];
  enum step step;
  bool superseded; /* the file was written or edited again */
};

struct window {
  struct ctxp_window base;
  struct write *writes; /* by call, in the order of the results */
};
struct state {
  struct ctxp_windows windows;
};

static struct ctxp_str call_of(const struct write *w) { return (struct ctxp_str){w->call, w->call_len}; }
static struct ctxp_str path_of(const struct write *w) { return (struct ctxp_str){w->path, w->path_len}; }

static void free_write(struct write *w) {
  if (!w) return;
  free(w->call);
  free(w->path);
  free(w->fact);
  free(w);
}

static void forget(struct window *window, struct write *w) {
  HASH_DEL(window->writes, w);
  free_write(w);
}

static struct write *find(struct window *window, struct ctxp_str call) {
  struct write *w;
  HASH_FIND(hh, window->writes, call.ptr, call.len, w);
  return w;
}

/* takes w; a second result of the same call takes it over */
static int add(struct window *window, struct write *w) {
  struct write *old = find(window, call_of(w));
  if (old) forget(window, old);
  if (HASH_COUNT(window->writes) >= WRITES_MAX) forget(window, window->writes);
  ctxp_map_failed = false;
  HASH_ADD_KEYPTR(hh, window->writes, w->call, w->call_len, w);
  if (!ctxp_map_failed) return 0;
  free_write(w);
  return -ENOMEM;
}

/* ---- the window in the store: [[call, path, fact, hash, original, factTokens, ask, step, superseded], ...] ---- */
enum { STORED_FIELDS = 9 };

static void dump(const void *window, struct ctxp_buf *out) {
  const struct window *win = window;
  ctxp_pack_array(out, HASH_COUNT(win->writes));
  for (const struct write *w = win->writes; w; w = w->hh.next) {
    ctxp_pack_array(out, STORED_FIELDS);
    ctxp_pack_str(out, call_of(w));
    ctxp_pack_str(out, path_of(w));
    ctxp_pack_cstr(out, w->fact);
    ctxp_pack_cstr(out, w->hash);
    ctxp_pack_u64(out, w->original_tokens);
    ctxp_pack_u64(out, w->fact_tokens);
    ctxp_pack_u64(out, w->ask);
    ctxp_pack_u64(out, (uint64_t)w->step);
    ctxp_pack_bool(out, w->superseded);
  }
}

static struct write *new_write(struct ctxp_str call, struct ctxp_str path, struct ctxp_str fact) {
  struct write *w = calloc(1, sizeof(*w));
  if (!w) return NULL;
  *w = (struct write){.call = ctxp_str_dup(call), .path = ctxp_str_dup(path), .fact = ctxp_str_dup(fact), .call_len = call.len, .path_len = path.len};
  if (w->call && w->path && w->fact) return w;
  free_write(w);
  return NULL;
}

static int load_write(struct window *window, struct ctxp_raw raw) {
  struct ctxp_cursor it = ctxp_cursor(raw);
  struct ctxp_pack_value v[STORED_FIELDS];
  uint32_t left;
  if (ctxp_array_open(&it, &left) < 0 || left != STORED_FIELDS) return -EBADMSG;
  for (unsigned i = 0; i < STORED_FIELDS; i++)
    if (ctxp_cursor_next(&it, &v[i]) < 0) return -EBADMSG;
  struct write *w = new_write(v[0].str, v[1].str, v[2].str);
  if (!w) return -ENOMEM;
  snprintf(w->hash, sizeof(w->hash), "%.*s", (int)v[3].str.len, v[3].str.ptr);
  w->original_tokens = v[4].u;
  w->fact_tokens = v[5].u;
  w->ask = v[6].u;
  w->step = (enum step)v[7].u;
  w->superseded = v[8].b;
  return add(window, w);
}

static int load(void *window, struct ctxp_raw state) {
  struct ctxp_cursor it = ctxp_cursor(state);
  struct ctxp_raw one;
  uint32_t left;
  if (ctxp_array_open(&it, &left) < 0) return -EBADMSG;
  while (left) {
    if (ctxp_array_next(&it, &left, &one) < 0) return -EBADMSG;
    int r = load_write(window, one);
    if (r < 0) return r;
  }
  return 0;
}

static bool keeps(const void *window) { return ((const struct window *)window)->writes != NULL; }
static void deinit(void *window) {
  struct window *win = window;
  while (win->writes) forget(win, win->writes);
}
static const struct ctxp_window_ops window_ops = {.size = sizeof(struct window), .load = load, .dump = dump, .keeps = keeps, .deinit = deinit};

/* ---- events ---- */
static int emit_write(struct ctxp_stage *stage, const struct write *w, bool applied, const char *why) {
  struct ctxp_event out = {.kind = CTXP_KIND_write};
  bool smaller = w->fact_tokens < w->original_tokens;
  out.write = (struct ctxp_write){.toolCallId = call_of(w), .path = path_of(w), .originalTokens = w->original_tokens, .factTokens = w->fact_tokens,
                                  .saved = smaller ? (int64_t)(w->original_tokens - w->fact_tokens) : 0, .fact = ctxp_str(w->fact)};
  ctxp_set_verdict(&out.write, write, applied, why);
  ctxp_set(&out.write, write, contentHash, ctxp_str(w->hash));
  return ctxp_stage_emit(stage, &out);
}

static int emit_regret(struct ctxp_stage *stage, const struct write *w, const char *reason) {
  struct ctxp_event out = {.kind = CTXP_KIND_regret};
  out.regret = (struct ctxp_regret){.mechanism = CTXP_STR("write"), .toolCallId = call_of(w), .tokens = w->original_tokens - w->fact_tokens, .reason = ctxp_str(reason)};
  return ctxp_stage_emit(stage, &out);
}

static int answer_inject(struct ctxp_stage *stage, const struct write *w) {
  ctxp_auto_buf actions = {0};
  ctxp_pack_map(&actions, 1);
  ctxp_pack_cstr(&actions, "inject");
  ctxp_pack_map(&actions, 2);
  ctxp_pack_cstr(&actions, "toolCallId");
  ctxp_pack_str(&actions, call_of(w));
  ctxp_pack_cstr(&actions, "fact");
  ctxp_pack_cstr(&actions, w->fact);
  return actions.failed ? -ENOMEM : ctxp_stage_answer(stage, ctxp_buf_raw(&actions));
}

static int compress(const struct ctxp_tool_result *result, struct ctxp_str path, struct ctxp_str content, struct write **ret) {
  ctxp_auto_buf fact = {0};
  ctxp_fact_line(path, ctxp_fact_describe(content), content, &fact);
  struct write *w = fact.failed ? NULL : new_write(result->toolCallId, path, ctxp_buf_view(&fact));
  if (!w) return -ENOMEM;
  w->original_tokens = ctxp_estimate_text(content);
  w->fact_tokens = ctxp_estimate_text(ctxp_buf_view(&fact));
  ctxp_hash128_hex(ctxp_hash128(content.ptr, content.len), w->hash);
  *ret = w;
  return 0;
}

/* the facts about a file that was written or edited again are of the past */
static void supersede(struct window *window, struct ctxp_str path) {
  for (struct write *w = window->writes; w; w = w->hh.next)
    if (!w->superseded && ctxp_str_eq(path_of(w), path)) w->superseded = window->base.changed = true;
}

static int written(struct ctxp_stage *stage, struct window *window, const struct ctxp_event *ev) {
  const struct ctxp_tool_result *result = &ev->tool_result;
  const struct options *options = ctxp_stage_options(stage);
  struct ctxp_str path = ctxp_map_str(result->input, "path"), content = ctxp_map_str(result->input, "content");
  if (result->isError || !path.len) return 0;
  supersede(window, path);
  if (!content.len || ctxp_utf16_units(content) < options->min_bytes) return 0;
  struct write *w;
  int r = compress(result, path, content, &w);
  if (r < 0) return r;
  bool smaller = w->fact_tokens < w->original_tokens;
  if (!smaller || !result->ask) {
    r = emit_write(stage, w, false, smaller ? NULL : "the fact is not smaller than the content");
    free_write(w);
    return r;
  }
  w->step = OFFERED;
  w->ask = ev->seq;
  if ((r = answer_inject(stage, w)) < 0) {
    free_write(w);
    return r;
  }
  window->base.changed = true;
  return add(window, w);
}

static int injected(struct ctxp_stage *stage, struct window *window, const struct ctxp_write_injected *said) {
  struct write *w = find(window, said->toolCallId);
  if (!w || w->step != OFFERED) {
    ctxp_stage_refuse(stage, "write_injected names a call whose fact was not offered, or was answered before");
    return 0;
  }
  window->base.changed = true;
  if (said->ok) {
    w->step = INJECTED;
    return emit_write(stage, w, true, NULL);
  }
  struct ctxp_event out = {.kind = CTXP_KIND_write_inject_failed};
  out.write_inject_failed = (struct ctxp_write_inject_failed){.toolCallId = call_of(w), .path = path_of(w)};
  ctxp_set_verdict(&out.write_inject_failed, write_inject_failed, true, NULL);
  int r = ctxp_stage_emit(stage, &out);
  forget(window, w);
  return r;
}

/* Is the call in the last assistant message of the request: the one place that no request has carried yet? */
static bool in_last(const struct ctxp_context *context, struct ctxp_str call) {
  struct ctxp_list list = context->messages, last = {0};
  struct ctxp_skeleton message;
  struct ctxp_call one;
  while (ctxp_list_next(&list, &ctxp_shape_skeleton, &message) > 0)
    if (message.role == CTXP_ROLE_assistant) last = message.calls;
  while (ctxp_list_next(&last, &ctxp_shape_call, &one) > 0)
    if (ctxp_str_eq(one.id, call)) return true;
  return false;
}

/* what was injected since the last request is stripped now or never */
static int settle(struct ctxp_stage *stage, struct window *window, const struct ctxp_event *ev) {
  for (struct write *w = window->writes; w; w = w->hh.next) {
    if (w->step != INJECTED) continue;
    bool strip = in_last(&ev->context, call_of(w));
    w->step = strip ? STRIPPED : LEFT;
    w->ask = ev->seq;
    window->base.changed = true;
    int r = strip ? 0 : emit_regret(stage, w, "not applied");
    if (r < 0) return r;
  }
  return 0;
}

static int requested(struct ctxp_stage *stage, struct window *window, const struct ctxp_event *ev) {
  const struct options *options = ctxp_stage_options(stage);
  ctxp_auto_buf actions = {0};
  struct ctxp_list list = ev->context.messages;
  struct ctxp_skeleton message;
  struct ctxp_call call;
  uint32_t count = 0;
  int r = settle(stage, window, ev);
  if (r < 0) return r;
  ctxp_pack_map(&actions, 1);
  ctxp_pack_cstr(&actions, "stripContent");
  size_t mark = ctxp_pack_array_open(&actions);
  while (ctxp_list_next(&list, &ctxp_shape_skeleton, &message) > 0)
    while (ctxp_list_next(&message.calls, &ctxp_shape_call, &call) > 0) {
      const struct write *w = find(window, call.id);
      if (!w || w->step != STRIPPED || (!options->sticky && w->ask != ev->seq)) continue;
      ctxp_pack_str(&actions, call.id);
      count++;
    }
  ctxp_pack_close(&actions, mark, count);
  if (!count) return 0;
  return actions.failed ? -ENOMEM : ctxp_stage_answer(stage, ctxp_buf_raw(&actions));
}

static int missed(struct ctxp_stage *stage, struct window *window, const struct ctxp_answer_missed *said) {
  struct write *w, *next;
  if (!ctxp_missed_here(stage, said)) return 0;
  for (w = window->writes; w; w = next) {
    next = w->hh.next;
    if (w->ask != said->askSeq || w->step == LEFT) continue;
    window->base.changed = true;
    int r = w->step == OFFERED ? 0 : emit_regret(stage, w, "not applied");
    if (r < 0) return r;
    if (w->step == STRIPPED)
      w->step = LEFT;
    else
      forget(window, w);
  }
  return 0;
}

/* what is stripped stays so when the session comes back; the rest is settled */
static void ended(struct window *window, bool sticky) {
  struct write *w, *next;
  for (w = window->writes; w; w = next) {
    next = w->hh.next;
    if (sticky && w->step == STRIPPED) continue;
    forget(window, w);
    window->base.changed = true;
  }
}

static int event(struct ctxp_stage *stage, const struct ctxp_event *ev) {
  struct state *state = ctxp_stage_state(stage);
  struct window *window = NULL;
  bool make = ev->kind == CTXP_KIND_tool_result;
  int r = make ? ctxp_windows_get(&state->windows, stage, ev, &window) : ctxp_windows_find(&state->windows, stage, ev, &window);
  if (r < 0) return r;
  if (ev->kind == CTXP_KIND_write_injected && r == 1) ctxp_stage_refuse(stage, "write_injected in a window where no fact was offered");
  if (r == 1) return 0;
  if (make) return written(stage, window, ev);
  if (ev->kind == CTXP_KIND_write_injected) return injected(stage, window, &ev->write_injected);
  if (ev->kind == CTXP_KIND_context) return ev->context.ask ? requested(stage, window, ev) : 0;
  if (ev->kind == CTXP_KIND_answer_missed) return missed(stage, window, &ev->answer_missed);
  ended(window, ((const struct options *)ctxp_stage_options(stage))->sticky);
  return 0;
}

static int open_stage(struct ctxp_stage *stage, struct ctxp_error *err) {
  (void)err;
  ((struct state *)ctxp_stage_state(stage))->windows.ops = &window_ops;
  return 0;
}
static int save(struct ctxp_stage *stage) { return ctxp_windows_save(&((struct state *)ctxp_stage_state(stage))->windows, stage); }
static void close_stage(struct ctxp_stage *stage) { ctxp_windows_deinit(&((struct state *)ctxp_stage_state(stage))->windows); }

static const struct ctxp_consume consumes[] = {{CTXP_KIND_tool_result, 1u << CTXP_TOOL_WRITE}, {CTXP_KIND_write_injected, 0}, {CTXP_KIND_context, 0},
                                               {CTXP_KIND_answer_missed, 0}, {CTXP_KIND_session_end, 0}, {CTXP_KIND_NONE, 0}};
static const enum ctxp_kind emits[] = {CTXP_KIND_write, CTXP_KIND_write_inject_failed, CTXP_KIND_regret, CTXP_KIND_NONE};
static const struct ctxp_option options[] = {
    {.name = "min_bytes", .type = CTXP_OPTION_U64, .initial = "400", .min = 0, .max = 1u << 30, .unit = "UTF-16 units",
     .help = "shorter contents are left alone", .offset = offsetof(struct options, min_bytes)},
    {.name = "sticky", .type = CTXP_OPTION_BOOL, .initial = "true", .unit = "",
     .help = "what was stripped stays stripped in every later request of the session, so that the prompt cache holds", .offset = offsetof(struct options, sticky)},
    {0}};

const struct ctxp_stage_ops ctxp_stage_write_compressor = {
    .api = CTXP_STAGE_API, .name = "write-compressor", .summary = "turns a written file into one line of fact",
    .role = CTXP_ROLE_MECHANISM_NODE, .version = 1, .consumes = consumes, .emits = emits, .options = options,
    .options_size = sizeof(struct options), .state_size = sizeof(struct state),
    .open = open_stage, .event = event, .save = save, .close = close_stage};
