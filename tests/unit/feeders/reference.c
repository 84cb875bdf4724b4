#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "reference.h"

static void *room(void *array, unsigned count, unsigned *cap, size_t size) {
  if (count < *cap) return array;
  *cap = *cap ? *cap * 2 : 64;
  void *grown = realloc(array, *cap * size);
  if (!grown) abort();
  return grown;
}

static struct ref_window *window_of(struct ref *ref, const struct ctxp_event *ev) {
  for (unsigned i = ref->window_count; i-- > 0;)
    if (ctxp_str_is(ev->session, ref->windows[i]->session) && ctxp_str_is(ev->thread, ref->windows[i]->thread)) return ref->windows[i];
  ref->windows = realloc(ref->windows, sizeof(*ref->windows) * (ref->window_count + 1));
  struct ref_window *w = calloc(1, sizeof(*w));
  w->session = ctxp_str_dup(ev->session);
  w->thread = ctxp_str_dup(ev->thread);
  return ref->windows[ref->window_count++] = w;
}

static struct ref_message *message_of(struct ref_window *w, struct ctxp_str id) {
  for (unsigned i = w->known_count; i-- > 0;)
    if (ctxp_str_is(id, w->known[i]->id)) return w->known[i];
  struct ref_message *m = calloc(1, sizeof(*m));
  m->id = ctxp_str_dup(id);
  w->known = realloc(w->known, sizeof(struct ref_message *) * (w->known_count + 1));
  return w->known[w->known_count++] = m;
}

static void define(struct ref_window *w, const struct ctxp_context_message *def) {
  struct ref_message *m = message_of(w, def->id);
  free(m->band), free(m->tool), free(m->label);
  m->band = strdup(ctxp_band_name(def->band));
  m->tool = ctxp_str_dup(def->tool);
  m->label = ctxp_str_dup(def->label);
  m->tokens = def->tokens;
  m->defined = true;
}

static uint64_t sum_of(const struct ref_prompt *p) { return p->input + p->read + p->write_5m + p->write_1h + p->output; }

static void take_usage(struct ref_prompt *p, const struct ctxp_prompt *from) {
  if (!ctxp_has(from, prompt, usage)) return;
  const struct ctxp_usage *u = &from->usage;
  p->input = u->input, p->read = u->cacheRead, p->write_5m = u->cacheWrite5m, p->write_1h = u->cacheWrite1h, p->output = u->output;
  p->input_nano = from->cost.inputNano + from->cost.cacheReadNano + from->cost.cacheWriteNano;
  p->total_nano = from->cost.totalNano;
}

static void prompted(struct ref *ref, struct ref_window *w, const struct ctxp_prompt *from) {
  struct ctxp_list list = from->append;
  struct ctxp_ref item;
  struct ref_prompt made = {.window = w, .bills = true}, *first = NULL;
  if (from->keep > w->count) abort();
  w->items = realloc(w->items, sizeof(struct ref_message *) * (from->keep + list.count + 1));
  for (w->count = (unsigned)from->keep; ctxp_list_next(&list, &ctxp_shape_ref, &item) > 0;) w->items[w->count++] = message_of(w, item.id);
  take_usage(&made, from);
  for (unsigned i = 0; i < ref->prompt_count && !first; i++)
    if (ctxp_str_is(from->callId, ref->prompts[i].call)) first = &ref->prompts[i];
  if (first) {
    made.bills = false;
    if (sum_of(&made) > sum_of(first)) take_usage(first, from);
    if (first->window == w) return;
  }
  w->turns++;
  made.call = ctxp_str_dup(from->callId);
  made.items = malloc(sizeof(struct ref_message *) * (w->count + 1));
  memcpy(made.items, w->items, sizeof(struct ref_message *) * w->count);
  made.count = w->count;
  ref->prompts = room(ref->prompts, ref->prompt_count, &ref->prompt_cap, sizeof(*ref->prompts));
  ref->prompts[ref->prompt_count++] = made;
}

static int open_key(void *data, const char *key, const char *product, const char *agent, uint64_t *ret_position, struct ctxp_error *err) {
  struct ref *ref = data;
  (void)product, (void)agent, (void)err;
  for (ref->at = 0; ref->at < ref->key_count && strcmp(ref->keys[ref->at], key) != 0; ref->at++) {}
  if (ref->at == ref->key_count) {
    if (ref->key_count == 400) abort();
    snprintf(ref->keys[ref->key_count++], 200, "%s", key);
  }
  *ret_position = ref->last_seq = ref->positions[ref->at];
  return 0;
}

static int take(void *data, const struct ctxp_event *ev, uint64_t seq, struct ctxp_error *err) {
  struct ref *ref = data;
  ctxp_auto_buf body = {0};
  struct ctxp_event back;
  struct ctxp_fault fault;
  if (ref->stop_after && ref->events == ref->stop_after) return ctxp_error_set(err, -ECANCELED, "stopped");
  if (seq <= ref->last_seq) ref->misplaced++;
  ref->last_seq = ref->positions[ref->at] = seq;
  ref->events++;
  if (ctxp_event_encode(ev, &body) < 0) return ctxp_error_set(err, -ENOMEM, "encode");
  if (ctxp_event_decode(body.ptr, body.len, &back, NULL, &fault) < 0)
    return ctxp_error_set(err, -EBADMSG, "`%s` %s", fault.field, fault.reason);
  if (ref->watch) ref->watch(ref->watch_data, ev, seq);
  struct ref_window *w = window_of(ref, &back);
  w->starts += back.kind == CTXP_KIND_session_start;
  w->ends += back.kind == CTXP_KIND_session_end;
  w->turn_ends += back.kind == CTXP_KIND_turn_end;
  w->agents += back.kind == CTXP_KIND_agent_start;
  w->agent_ends += back.kind == CTXP_KIND_agent_end;
  w->results += back.kind == CTXP_KIND_tool_result;
  if (back.kind == CTXP_KIND_context_message) define(w, &back.context_message);
  if (back.kind == CTXP_KIND_prompt) prompted(ref, w, &back.prompt);
  return 0;
}

static int close_key(void *data, struct ctxp_error *err) {
  (void)data, (void)err;
  return 0;
}

void ref_init(struct ref *ref, struct ctxp_import_sink *ret_sink) {
  memset(ref, 0, sizeof(*ref));
  *ret_sink = (struct ctxp_import_sink){.open = open_key, .send = take, .close = close_key, .data = ref};
}

void ref_deinit(struct ref *ref) {
  for (unsigned i = 0; i < ref->window_count; i++) {
    struct ref_window *w = ref->windows[i];
    for (unsigned k = 0; k < w->known_count; k++) {
      struct ref_message *m = w->known[k];
      free(m->id), free(m->band), free(m->tool), free(m->label), free(m);
    }
    free(w->session), free(w->thread), free(w->items), free(w->known), free(w);
  }
  for (unsigned i = 0; i < ref->prompt_count; i++) free(ref->prompts[i].call), free(ref->prompts[i].items);
  free(ref->windows);
  free(ref->prompts);
  memset(ref, 0, sizeof(*ref));
}

static bool wanted(const struct ref_prompt *p, const char *session, const char *thread) {
  if (session && strcmp(session, p->window->session) != 0) return false;
  return thread ? strcmp(thread, p->window->thread) == 0 : strcmp("side", p->window->thread) != 0;
}

struct ref_sum ref_totals(const struct ref *ref, const char *session, const char *thread) {
  struct ref_sum sum = {0};
  for (unsigned i = 0; i < ref->prompt_count; i++) {
    const struct ref_prompt *p = &ref->prompts[i];
    if (!p->bills || !wanted(p, session, thread)) continue;
    sum.calls++;
    sum.input += p->input, sum.read += p->read, sum.write += p->write_5m + p->write_1h, sum.write_1h += p->write_1h,
        sum.output += p->output;
    sum.input_nano += p->input_nano, sum.total_nano += p->total_nano;
  }
  return sum;
}

static void credit(struct ref_share *shares, unsigned *count, unsigned cap, const char *key, double billed) {
  unsigned i = 0;
  if (!key || !*key) return;
  while (i < *count && strcmp(shares[i].key, key) != 0) i++;
  if (i == *count) {
    if (i == cap) abort();
    snprintf(shares[i].key, sizeof(shares[i].key), "%s", key);
    shares[i].billed = 0;
    (*count)++;
  }
  shares[i].billed += billed;
}

unsigned ref_shares(const struct ref *ref, const char *session, const char *thread, char grain, struct ref_share *ret, unsigned cap) {
  unsigned count = 0;
  for (unsigned i = 0; i < ref->prompt_count; i++) {
    const struct ref_prompt *p = &ref->prompts[i];
    double all = 0, billed = (double)(p->input + p->read + p->write_5m + p->write_1h);
    if (!p->bills || !wanted(p, session, thread)) continue;
    for (unsigned k = 0; k < p->count; k++) all += (double)p->items[k]->tokens;
    for (unsigned k = 0; all > 0 && k < p->count; k++) {
      const struct ref_message *m = p->items[k];
      const char *key = grain == 'b' ? m->band : grain == 't' ? m->tool :
          m->band && strcmp(m->band, "file_view") == 0        ? m->label :
                                                                NULL;
      credit(ret, &count, cap, key, billed * (double)m->tokens / all);
    }
  }
  return count;
}
