/* A request: what may go from it, what goes, what the agent is told, and what is taken back when it did not go after all. */
#include <errno.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/prices.h"
#include "mechanisms/amnesia.h"
#include "mechanisms/removal.h"

/* ---- a request as removal.c sees it ---- */
struct views {
  struct ctxp_request request;
  struct ctxp_view_call *calls;
};

static void free_views(struct views *views) {
  free(views->request.at);
  free(views->calls);
}

static int new_views(struct views *views, size_t messages, size_t calls) {
  views->request.at = calloc(messages ? messages : 1, sizeof(*views->request.at));
  views->calls = calloc(calls ? calls : 1, sizeof(*views->calls));
  return views->request.at && views->calls ? 0 : -ENOMEM;
}

static bool in_force(enum ctxp_gone gone, bool applied, bool potential) { return gone == CTXP_GONE && (applied || potential); }

/* what the window knows of the message; potential: what is gone in theory is gone */
static void mark_view(struct ctxp_amnesia *window, struct ctxp_view *view, struct ctxp_message *known, bool potential) {
  const struct ctxp_result *result = view->role == CTXP_ROLE_tool ? ctxp_amnesia_result(window, view->call) : NULL;
  view->candidate = result && result->candidate;
  view->seen = result && result->seen;
  view->gone = known && in_force(known->gone, known->applied, potential);
  for (size_t k = 0; k < view->call_count; k++) {
    struct ctxp_view_call *call = &view->calls[k];
    const struct ctxp_message_call *stripped = known ? ctxp_amnesia_call(known, call->id) : NULL;
    const struct ctxp_result *its = ctxp_amnesia_result(window, call->id);
    call->gone = stripped && stripped->gone == CTXP_GONE;
    call->candidate = its && its->candidate;
  }
}

static int view_context(struct ctxp_amnesia *window, const struct ctxp_context *context, struct views *views) {
  struct ctxp_list list = context->messages;
  struct ctxp_skeleton message;
  struct ctxp_call call;
  size_t calls = 0;
  while (ctxp_list_next(&list, &ctxp_shape_skeleton, &message) > 0) calls += message.calls.count;
  int r = new_views(views, context->messages.count, calls);
  if (r < 0) return r;
  list = context->messages;
  calls = 0;
  while (ctxp_list_next(&list, &ctxp_shape_skeleton, &message) > 0) {
    struct ctxp_view *view = &views->request.at[views->request.count++];
    *view = (struct ctxp_view){.id = message.id,
        .call = message.toolCallId,
        .role = message.role,
        .has_text = message.hasText,
        .tokens = message.tokens,
        .calls = views->calls + calls};
    while (ctxp_list_next(&message.calls, &ctxp_shape_call, &call) > 0) {
      views->calls[calls++] = (struct ctxp_view_call){.id = call.id, .tokens = call.tokens};
      view->call_count++;
    }
    mark_view(window, view, ctxp_amnesia_message(window, message.id), !context->ask);
  }
  return 0;
}

static int view_prompt(struct ctxp_amnesia *window, struct views *views) {
  size_t calls = 0;
  for (unsigned i = 0; i < window->request_count; i++) calls += window->request[i]->call_count;
  int r = new_views(views, window->request_count, calls);
  if (r < 0) return r;
  calls = 0;
  for (unsigned i = 0; i < window->request_count; i++) {
    struct ctxp_message *message = window->request[i];
    struct ctxp_view *view = &views->request.at[views->request.count++];
    *view = (struct ctxp_view){.id = {message->id, message->id_len},
        .call = {message->call, message->call_len},
        .role = message->role,
        .has_text = message->has_text,
        .tokens = message->tokens,
        .calls = views->calls + calls,
        .call_count = message->call_count};
    for (unsigned k = 0; k < message->call_count; k++)
      views->calls[calls++] =
          (struct ctxp_view_call){.id = {message->calls[k].id, message->calls[k].id_len}, .tokens = message->calls[k].tokens};
    mark_view(window, view, message, true);
  }
  return 0;
}

/* ---- removing ---- */
/* of a removed message: the result that it went with, now and not in an earlier request */
static struct ctxp_str went_with(const struct ctxp_view *view) {
  if (view->role == CTXP_ROLE_tool) return view->call;
  for (size_t k = 0; k < view->call_count; k++)
    if (view->calls[k].strip) return view->calls[k].id;
  return view->call_count ? view->calls[0].id : view->id;
}

/* the message with its calls, as the request has it */
static struct ctxp_message *known(struct ctxp_amnesia *window, const struct ctxp_view *view) {
  struct ctxp_message *message = ctxp_amnesia_make(window, view->id);
  struct ctxp_list list = {0};
  ctxp_auto_buf room = {0};
  if (message && view->id.ptr == message->id) return message; /* the view was made of it, and borrows from it */
  int r = message ? 0 : -ENOMEM;
  for (size_t k = 0; k < view->call_count && r == 0; k++) {
    struct ctxp_call call = {.id = view->calls[k].id};
    ctxp_set(&call, call, tokens, view->calls[k].tokens);
    r = ctxp_list_add(&list, &room, &ctxp_shape_call, &call);
  }
  if (r == 0) r = ctxp_amnesia_define(message, view->role, view->call, list);
  return r == 0 ? message : NULL;
}

static int remember(struct ctxp_amnesia *window, const struct ctxp_view *view, enum ctxp_gone gone, bool applied, uint64_t ask) {
  struct ctxp_message *message = known(window, view);
  struct ctxp_result *result = ctxp_amnesia_result(window, view->call);
  struct ctxp_str with = went_with(view);
  if (!message) return -ENOMEM;
  window->gone_count += gone == CTXP_GONE && applied;
  message->gone = gone;
  message->applied = applied;
  message->regretted = false;
  message->ask = ask;
  message->tokens = view->tokens;
  message->for_call_len = with.len;
  if (view->role == CTXP_ROLE_tool && result) {
    result->candidate = false;
    result->removed = applied && gone == CTXP_GONE;
  }
  return ctxp_amnesia_text(&message->for_call, with);
}

/* the stripped calls of a message that stays */
static int remember_calls(struct ctxp_amnesia *window, const struct ctxp_view *view, enum ctxp_gone gone, uint64_t ask) {
  struct ctxp_message *message = known(window, view);
  if (!message) return -ENOMEM;
  for (size_t k = 0; k < view->call_count; k++) {
    struct ctxp_message_call *call = ctxp_amnesia_call(message, view->calls[k].id);
    if (!view->calls[k].strip || !call) continue;
    call->gone = gone;
    call->ask = ask;
  }
  return 0;
}

static int remove_now(
    struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_request *request, bool applied, uint64_t ask) {
  const struct ctxp_amnesia_options *options = ctxp_stage_options(stage);
  struct ctxp_removal sum = ctxp_removal_sum(request);
  enum ctxp_gone gone = options->sticky ? CTXP_GONE : CTXP_GONE_ONCE;
  struct ctxp_event out = {.kind = CTXP_KIND_amnesia_remove};
  ctxp_auto_buf ids = {0};
  int r = 0;
  if (!sum.messages) return 0;
  window->base.changed = true;
  for (size_t i = request->count; i-- > 0 && r == 0;) {
    const struct ctxp_view *view = &request->at[i];
    bool strips = false;
    for (size_t k = 0; k < view->call_count; k++) strips = strips || view->calls[k].strip;
    if (view->remove && view->role == CTXP_ROLE_tool) r = ctxp_strs_add(&out.amnesia_remove.droppedResultIds, &ids, view->call);
    if (r == 0 && view->remove) r = remember(window, view, gone, applied, ask);
    if (r == 0 && !view->remove && !view->gone && strips) r = remember_calls(window, view, gone, ask);
  }
  if (r < 0) return r;
  out.amnesia_remove.saved = (int64_t)sum.saved;
  out.amnesia_remove.messageCount = sum.messages;
  ctxp_set(&out.amnesia_remove, amnesia_remove, strippedTokens, sum.stripped_tokens);
  ctxp_set_verdict(&out.amnesia_remove, amnesia_remove, applied, NULL);
  return ctxp_stage_emit(stage, &out);
}

static uint32_t pack_strip(const struct ctxp_view *view, struct ctxp_buf *out) {
  uint32_t count = 0;
  for (size_t k = 0; k < view->call_count; k++) count += view->calls[k].gone || view->calls[k].strip;
  if (view->gone || view->remove || !count) return 0;
  ctxp_pack_str(out, view->id);
  ctxp_pack_array(out, count);
  for (size_t k = 0; k < view->call_count; k++)
    if (view->calls[k].gone || view->calls[k].strip) ctxp_pack_str(out, view->calls[k].id);
  return 1;
}

static int answer(struct ctxp_stage *stage, const struct ctxp_request *request) {
  ctxp_auto_buf removed = {0}, strips = {0}, actions = {0};
  uint32_t remove_count = 0, strip_count = 0;
  for (size_t i = 0; i < request->count; i++) {
    const struct ctxp_view *view = &request->at[i];
    strip_count += pack_strip(view, &strips);
    if (!view->gone && !view->remove) continue;
    ctxp_pack_str(&removed, view->id);
    remove_count++;
  }
  if (remove_count == request->count || (!remove_count && !strip_count)) return 0; /* a request never becomes empty */
  ctxp_pack_map(&actions, (remove_count > 0) + (strip_count > 0));
  if (remove_count) {
    ctxp_pack_cstr(&actions, "remove");
    ctxp_pack_array(&actions, remove_count);
    ctxp_buf_add(&actions, removed.ptr, removed.len);
  }
  if (strip_count) {
    ctxp_pack_cstr(&actions, "strip");
    ctxp_pack_map(&actions, strip_count);
    ctxp_buf_add(&actions, strips.ptr, strips.len);
  }
  return removed.failed || strips.failed || actions.failed ? -ENOMEM : ctxp_stage_answer(stage, ctxp_buf_raw(&actions));
}

static struct ctxp_economics economics(
    struct ctxp_stage *stage, const struct ctxp_amnesia *window, const struct ctxp_request *request, struct ctxp_str model, bool cold) {
  struct ctxp_economics e = {.cold = cold, .read = -1, .write = -1, .turns = window->turns, .runs = window->runs ? window->runs : 1};
  const struct ctxp_prices *prices = ctxp_stage_prices(stage);
  const struct ctxp_model_price *price = prices && model.len ? ctxp_prices_find(prices, model) : NULL;
  if (!price) return e;
  uint64_t tokens = 0;
  for (size_t i = 0; i < request->count; i++) tokens += request->at[i].gone ? 0 : request->at[i].tokens;
  const struct ctxp_rates *rates = price->above_tokens && tokens > price->above_tokens ? &price->above : &price->base;
  e.read = rates->cache_read;
  e.write = rates->cache_write_5m >= 0 ? rates->cache_write_5m : rates->input; /* who has no price for writing charges plain input */
  return e;
}

/* after a compaction only what is still in the request is of the window */
static void settle_compaction(struct ctxp_amnesia *window, const struct ctxp_request *request) {
  struct ctxp_result *result, *next;
  for (result = window->results; result; result = result->hh.next) result->here = false;
  for (size_t i = 0; i < request->count; i++)
    if (request->at[i].role == CTXP_ROLE_tool && (result = ctxp_amnesia_result(window, request->at[i].call)) != NULL) result->here = true;
  for (result = window->results; result; result = next) {
    next = result->hh.next;
    if (!result->here) ctxp_amnesia_forget(window, result);
  }
  window->compacted = false;
  window->base.changed = true;
}

static void carried(struct ctxp_amnesia *window, const struct ctxp_request *request) {
  for (size_t i = 0; i < request->count; i++) {
    const struct ctxp_view *view = &request->at[i];
    if (view->role != CTXP_ROLE_tool || view->seen || view->gone || view->remove) continue;
    struct ctxp_result *result = ctxp_amnesia_result(window, view->call);
    if (result && !result->seen) result->seen = window->base.changed = true;
  }
}

static int choose(struct ctxp_stage *stage, struct ctxp_amnesia *window, struct views *views, const struct ctxp_occasion *occasion) {
  const struct ctxp_amnesia_options *options = ctxp_stage_options(stage);
  struct ctxp_request *request = &views->request;
  if (options->policy == CTXP_POLICY_TAIL) {
    ctxp_removal_tail(request, !options->sticky);
  } else {
    struct ctxp_economics e = economics(stage, window, request, occasion->model, occasion->cold);
    ctxp_removal_seen(request, &e);
  }
  int r = remove_now(stage, window, request, occasion->applied, occasion->ask);
  if (r == 0 && window->compacted) settle_compaction(window, request);
  carried(window, request);
  if (HASH_COUNT(window->messages) > CTXP_MESSAGES_MAX) ctxp_amnesia_purge(window, false);
  return r;
}

int ctxp_amnesia_context(
    struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_context *context, const struct ctxp_occasion *occasion) {
  struct views views = {0};
  int r = view_context(window, context, &views);
  if (r == 0) r = choose(stage, window, &views, occasion);
  if (r == 0 && occasion->applied) r = answer(stage, &views.request);
  free_views(&views);
  return r;
}

int ctxp_amnesia_prompt(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_occasion *occasion) {
  struct views views = {0};
  int r = view_prompt(window, &views);
  if (r == 0) r = choose(stage, window, &views, occasion);
  free_views(&views);
  return r;
}
