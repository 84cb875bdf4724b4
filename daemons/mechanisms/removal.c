#include "base/str.h"
#include "mechanisms/removal.h"

__extension__ typedef __int128 wide; /* tokens x tokens x price does not fit 64 bits */

/* the call that message i answers, in the nearest assistant message before it; *ret_owner is that message */
static struct ctxp_view_call *call_of(struct ctxp_request *request, size_t i, size_t *ret_owner) {
  struct ctxp_str id = request->at[i].call;
  while (i-- > 0) {
    struct ctxp_view *view = &request->at[i];
    if (view->role != CTXP_ROLE_assistant || view->gone) continue;
    for (size_t k = 0; k < view->call_count; k++)
      if (!view->calls[k].gone && ctxp_str_eq(view->calls[k].id, id)) {
        *ret_owner = i;
        return &view->calls[k];
      }
  }
  return NULL;
}

/* An assistant message without text, of which every call that is still there is stripped (or, if lone, may be). */
static bool empties(const struct ctxp_view *view, bool lone) {
  bool any = false;
  if (view->role != CTXP_ROLE_assistant || view->has_text) return false;
  for (size_t k = 0; k < view->call_count; k++) {
    if (view->calls[k].gone) continue;
    if (!view->calls[k].strip && !(lone && view->calls[k].candidate)) return false;
    any = true;
  }
  return any;
}

static void remove_result(struct ctxp_request *request, size_t i) {
  size_t owner;
  struct ctxp_view_call *call = call_of(request, i, &owner);
  request->at[i].remove = true;
  if (call) call->strip = true;
}

/* A request never becomes empty: then nothing more goes. */
static void keep_something(struct ctxp_request *request) {
  for (size_t i = 0; i < request->count; i++)
    if (!request->at[i].gone && !request->at[i].remove) return;
  for (size_t i = 0; i < request->count; i++) {
    request->at[i].remove = false;
    for (size_t k = 0; k < request->at[i].call_count; k++) request->at[i].calls[k].strip = false;
  }
}

void ctxp_removal_tail(struct ctxp_request *request, bool lone_calls) {
  size_t i = request->count;
  while (i-- > 0) {
    struct ctxp_view *view = &request->at[i];
    if (view->gone) continue;
    if (view->role == CTXP_ROLE_tool && view->candidate)
      remove_result(request, i);
    else if (empties(view, lone_calls))
      view->remove = true;
    else
      break;
  }
  /* the calls of a round of which some results stay were stripped on the way; the message goes if nothing is left in it */
  for (i++; i-- > 0;) {
    struct ctxp_view *view = &request->at[i];
    if (view->gone || view->role == CTXP_ROLE_tool) continue;
    if (empties(view, false)) view->remove = true;
    break;
  }
  keep_something(request);
}

static uint64_t live_tokens(const struct ctxp_view *view) {
  uint64_t tokens = view->gone ? 0 : view->tokens;
  for (size_t k = 0; k < view->call_count && tokens; k++)
    if (view->calls[k].gone) tokens -= view->calls[k].tokens < tokens ? view->calls[k].tokens : tokens;
  return tokens;
}

static bool may_go(const struct ctxp_view *view) { return view->role == CTXP_ROLE_tool && !view->gone && view->candidate && view->seen; }

/* Where to begin, so that most is won: from the end backwards, `goes` is what leaves, `stays` what follows the first message that
 * changes and must be written to the cache again. Returns the index of the first result to remove, or count. */
static size_t best_start(struct ctxp_request *request, const struct ctxp_economics *e) {
  uint64_t turns = e->turns > e->runs ? e->turns : 1, runs = e->turns > e->runs ? e->runs : 1;
  uint64_t goes = 0, behind = 0;
  size_t best = request->count, covered = request->count, owner;
  wide most = 0;
  for (size_t i = request->count; i-- > 0;) {
    if (!may_go(&request->at[i])) continue;
    const struct ctxp_view_call *call = call_of(request, i, &owner);
    size_t first = call ? owner : i;
    for (; covered > first; covered--) behind += live_tokens(&request->at[covered - 1]);
    goes += request->at[i].tokens + (call ? call->tokens : 0);
    uint64_t stays = behind > goes ? behind - goes : 0;
    wide won = (wide)goes * turns * e->read - (wide)stays * runs * (e->write - e->read);
    if (won > most) {
      most = won;
      best = i;
    }
  }
  return best;
}

void ctxp_removal_seen(struct ctxp_request *request, const struct ctxp_economics *economics) {
  bool priced = economics->read >= 0 && economics->write >= 0;
  size_t start = economics->cold ? 0 : priced ? best_start(request, economics) :
                                                request->count;
  for (size_t i = start; i < request->count; i++)
    if (may_go(&request->at[i])) remove_result(request, i);
  for (size_t i = 0; i < request->count; i++)
    if (!request->at[i].gone && empties(&request->at[i], false)) request->at[i].remove = true;
  keep_something(request);
}

struct ctxp_removal ctxp_removal_sum(const struct ctxp_request *request) {
  struct ctxp_removal sum = {0};
  for (size_t i = 0; i < request->count; i++) {
    const struct ctxp_view *view = &request->at[i];
    if (view->remove) {
      sum.messages++;
      sum.saved += view->tokens;
      continue;
    }
    for (size_t k = 0; k < view->call_count && !view->gone; k++)
      if (view->calls[k].strip) sum.stripped_tokens += view->calls[k].tokens;
  }
  return sum;
}
