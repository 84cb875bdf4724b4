#include <errno.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/msgpack.h"
#include "mechanisms/amnesia.h"

static struct ctxp_str view(const char *text, size_t len) { return (struct ctxp_str){text, len}; }

int ctxp_amnesia_text(char **text, struct ctxp_str value) {
  char *copy = value.len ? ctxp_str_dup(value) : NULL;
  if (value.len && !copy) return -ENOMEM;
  free(*text);
  *text = copy;
  return 0;
}

/* ---- results ---- */
static void free_result(struct ctxp_result *result) {
  free(result->call);
  free(result->tool);
  free(result->path);
  free(result);
}

struct ctxp_result *ctxp_amnesia_result(struct ctxp_amnesia *window, struct ctxp_str call) {
  struct ctxp_result *result;
  HASH_FIND(hh, window->results, call.ptr, call.len, result);
  return result;
}

void ctxp_amnesia_forget(struct ctxp_amnesia *window, struct ctxp_result *result) {
  HASH_DEL(window->results, result);
  free_result(result);
  window->base.changed = true;
}

void ctxp_amnesia_forget_all(struct ctxp_amnesia *window) {
  while (window->results) ctxp_amnesia_forget(window, window->results);
}

int ctxp_amnesia_add(struct ctxp_amnesia *window, const struct ctxp_result *result) {
  struct ctxp_result *old = ctxp_amnesia_result(window, view(result->call, result->call_len)), *new = malloc(sizeof(*new));
  if (!new) return -ENOMEM;
  *new = *result;
  new->call = ctxp_str_dup(view(result->call, result->call_len));
  new->tool = ctxp_str_dup(ctxp_str(result->tool));
  new->path = ctxp_str_dup(view(result->path, result->path_len));
  if (old) ctxp_amnesia_forget(window, old);
  if (HASH_COUNT(window->results) >= CTXP_RESULTS_MAX) ctxp_amnesia_forget(window, window->results);
  ctxp_map_failed = !new->call || !new->tool || !new->path;
  if (!ctxp_map_failed) HASH_ADD_KEYPTR(hh, window->results, new->call, new->call_len, new);
  window->base.changed = true;
  if (!ctxp_map_failed) return 0;
  free_result(new);
  return -ENOMEM;
}

/* ---- messages ---- */
static void free_calls(struct ctxp_message_call *calls, unsigned count) {
  for (unsigned i = 0; i < count; i++) free(calls[i].id);
  free(calls);
}

static void free_message(struct ctxp_message *message) {
  free_calls(message->calls, message->call_count);
  free(message->id);
  free(message->call);
  free(message->for_call);
  free(message);
}

struct ctxp_message *ctxp_amnesia_message(struct ctxp_amnesia *window, struct ctxp_str id) {
  struct ctxp_message *message;
  HASH_FIND(hh, window->messages, id.ptr, id.len, message);
  return message;
}

struct ctxp_message *ctxp_amnesia_make(struct ctxp_amnesia *window, struct ctxp_str id) {
  struct ctxp_message *message = ctxp_amnesia_message(window, id);
  if (message) return message;
  message = calloc(1, sizeof(*message));
  if (!message) return NULL;
  *message = (struct ctxp_message){.id = ctxp_str_dup(id), .id_len = id.len, .role = CTXP_ROLE_custom};
  ctxp_map_failed = !message->id;
  if (!ctxp_map_failed) HASH_ADD_KEYPTR(hh, window->messages, message->id, message->id_len, message);
  window->base.changed = true;
  if (!ctxp_map_failed) return message;
  free_message(message);
  return NULL;
}

struct ctxp_message_call *ctxp_amnesia_call(struct ctxp_message *message, struct ctxp_str id) {
  for (unsigned i = 0; i < message->call_count; i++)
    if (ctxp_str_eq(view(message->calls[i].id, message->calls[i].id_len), id)) return &message->calls[i];
  return NULL;
}

int ctxp_amnesia_define(struct ctxp_message *message, enum ctxp_role role, struct ctxp_str call, struct ctxp_list calls) {
  struct ctxp_message_call *made = calls.count ? calloc(calls.count, sizeof(*made)) : NULL;
  unsigned count = 0, total = calls.count;
  struct ctxp_call one;
  if (total && !made) return -ENOMEM;
  while (count < total && ctxp_list_next(&calls, &ctxp_shape_call, &one) > 0) {
    const struct ctxp_message_call *old = ctxp_amnesia_call(message, one.id);
    if (old) made[count] = *old;
    made[count].id = ctxp_str_dup(one.id);
    made[count].id_len = one.id.len;
    made[count].tokens = one.tokens;
    if (!made[count++].id) {
      free_calls(made, count);
      return -ENOMEM;
    }
  }
  free_calls(message->calls, message->call_count);
  message->calls = made;
  message->call_count = count;
  message->role = role;
  message->defined = true;
  message->call_len = call.len;
  return ctxp_amnesia_text(&message->call, call);
}

int ctxp_amnesia_push(struct ctxp_amnesia *window, struct ctxp_message *message) {
  if (window->request_count == window->request_cap) {
    unsigned cap = window->request_cap ? window->request_cap * 2 : 64;
    struct ctxp_message **grown = realloc(window->request, cap * sizeof(struct ctxp_message *));
    if (!grown) return -ENOMEM;
    window->request = grown;
    window->request_cap = cap;
  }
  window->request[window->request_count++] = message;
  window->base.changed = true;
  return 0;
}

void ctxp_amnesia_purge(struct ctxp_amnesia *window, bool all) {
  struct ctxp_message *message, *next;
  if (all) window->request_count = 0;
  unsigned kept = 0;
  for (message = window->messages; message; message = message->hh.next) {
    bool stripped = false;
    for (unsigned i = 0; i < message->call_count; i++) stripped = stripped || message->calls[i].gone == CTXP_GONE;
    message->wanted = stripped || (message->gone != CTXP_HERE && message->applied); /* that it was not applied may be told later */
    kept += message->wanted;
  }
  for (message = window->messages; message && kept > CTXP_MESSAGES_MAX; message = message->hh.next) { /* the oldest are forgotten */
    kept -= message->wanted;
    message->wanted = false;
  }
  for (unsigned i = 0; i < window->request_count; i++) window->request[i]->wanted = true;
  for (message = window->messages; message; message = next) {
    next = message->hh.next;
    if (message->wanted) continue;
    window->gone_count -= message->gone == CTXP_GONE && message->applied;
    HASH_DEL(window->messages, message);
    free_message(message);
  }
  window->base.changed = true;
}

/* ---- in the store: [header, [result, ...], [message, ...], [position in messages, ...]] ---- */
enum { HEADER_FIELDS = 11,
  RESULT_FIELDS = 10,
  MESSAGE_FIELDS = 11,
  CALL_FIELDS = 4 };

static void pack_text(struct ctxp_buf *out, const char *text, size_t len) { ctxp_pack_str(out, view(text, text ? len : 0)); }

static void dump_header(const struct ctxp_amnesia *w, struct ctxp_buf *out) {
  ctxp_pack_array(out, HEADER_FIELDS);
  ctxp_pack_str(out, ctxp_str(w->cwd));
  ctxp_pack_str(out, ctxp_str(w->context_model));
  ctxp_pack_str(out, ctxp_str(w->prompt_model));
  ctxp_pack_str(out, ctxp_str(w->tools_hash));
  ctxp_pack_u64(out, w->last_ms);
  ctxp_pack_u64(out, w->turns);
  ctxp_pack_u64(out, w->runs);
  ctxp_pack_bool(out, w->asks);
  ctxp_pack_bool(out, w->contexts);
  ctxp_pack_bool(out, w->compacted);
  ctxp_pack_bool(out, w->overlong);
}

static void dump_result(const struct ctxp_result *r, struct ctxp_buf *out) {
  uint64_t flags =
      r->read | r->whole << 1 | r->odd << 2 | r->asked << 3 | r->candidate << 4 | r->seen << 5 | r->removed << 6 | r->regretted << 7;
  ctxp_pack_array(out, RESULT_FIELDS);
  pack_text(out, r->call, r->call_len);
  ctxp_pack_cstr(out, r->tool);
  pack_text(out, r->path, r->path_len);
  ctxp_pack_u64(out, r->text.hi);
  ctxp_pack_u64(out, r->text.lo);
  ctxp_pack_u64(out, r->input);
  ctxp_pack_u64(out, r->tokens);
  ctxp_pack_u64(out, r->start);
  ctxp_pack_u64(out, r->lines);
  ctxp_pack_u64(out, flags);
}

static void dump_message(const struct ctxp_message *m, struct ctxp_buf *out) {
  ctxp_pack_array(out, MESSAGE_FIELDS);
  pack_text(out, m->id, m->id_len);
  pack_text(out, m->call, m->call_len);
  pack_text(out, m->for_call, m->for_call_len);
  ctxp_pack_u64(out, (uint64_t)m->role);
  ctxp_pack_bool(out, m->has_text);
  ctxp_pack_bool(out, m->defined);
  ctxp_pack_u64(out, m->tokens);
  ctxp_pack_u64(out, (uint64_t)m->gone);
  ctxp_pack_u64(out, m->applied | m->regretted << 1);
  ctxp_pack_u64(out, m->ask);
  ctxp_pack_array(out, m->call_count);
  for (unsigned i = 0; i < m->call_count; i++) {
    ctxp_pack_array(out, CALL_FIELDS);
    pack_text(out, m->calls[i].id, m->calls[i].id_len);
    ctxp_pack_u64(out, m->calls[i].tokens);
    ctxp_pack_u64(out, m->calls[i].ask);
    ctxp_pack_u64(out, (uint64_t)m->calls[i].gone);
  }
}

static void dump(const void *window, struct ctxp_buf *out) {
  const struct ctxp_amnesia *w = window;
  unsigned position = 0;
  ctxp_pack_array(out, 4);
  dump_header(w, out);
  ctxp_pack_array(out, HASH_COUNT(w->results));
  for (const struct ctxp_result *r = w->results; r; r = r->hh.next) dump_result(r, out);
  ctxp_pack_array(out, HASH_COUNT(w->messages));
  for (struct ctxp_message *m = w->messages; m; m = m->hh.next) {
    m->position = position++;
    dump_message(m, out);
  }
  ctxp_pack_array(out, w->request_count);
  for (unsigned i = 0; i < w->request_count; i++) ctxp_pack_u64(out, w->request[i]->position);
}

static int read_fields(struct ctxp_cursor *it, struct ctxp_pack_value *fields, unsigned count) {
  struct ctxp_pack_value head;
  if (ctxp_cursor_next(it, &head) < 0 || head.type != CTXP_PACK_ARRAY || head.count != count) return -EBADMSG;
  for (unsigned i = 0; i < count; i++)
    if (ctxp_cursor_next(it, &fields[i]) < 0) return -EBADMSG;
  return 0;
}

static int load_header(struct ctxp_amnesia *w, struct ctxp_cursor *it) {
  struct ctxp_pack_value f[HEADER_FIELDS];
  char **const texts[] = {&w->cwd, &w->context_model, &w->prompt_model, &w->tools_hash};
  int r = read_fields(it, f, HEADER_FIELDS);
  for (unsigned i = 0; i < 4 && r == 0; i++) r = ctxp_amnesia_text(texts[i], f[i].str);
  if (r < 0) return r;
  w->last_ms = f[4].u;
  w->turns = f[5].u;
  w->runs = f[6].u;
  w->asks = f[7].b;
  w->contexts = f[8].b;
  w->compacted = f[9].b;
  w->overlong = f[10].b;
  return 0;
}

static int load_result(struct ctxp_amnesia *w, struct ctxp_cursor *it) {
  struct ctxp_pack_value f[RESULT_FIELDS];
  int r = read_fields(it, f, RESULT_FIELDS);
  if (r < 0) return r;
  ctxp_auto_free char *call = ctxp_str_dup(f[0].str), *tool = ctxp_str_dup(f[1].str), *path = ctxp_str_dup(f[2].str);
  if (!call || !tool || !path) return -ENOMEM;
  uint64_t flags = f[9].u;
  struct ctxp_result result = {.call = call,
      .tool = tool,
      .path = path,
      .call_len = f[0].str.len,
      .path_len = f[2].str.len,
      .text = {f[3].u, f[4].u},
      .input = f[5].u,
      .tokens = f[6].u,
      .start = f[7].u,
      .lines = f[8].u,
      .read = flags & 1,
      .whole = flags >> 1 & 1,
      .odd = flags >> 2 & 1,
      .asked = flags >> 3 & 1,
      .candidate = flags >> 4 & 1,
      .seen = flags >> 5 & 1,
      .removed = flags >> 6 & 1,
      .regretted = flags >> 7 & 1};
  return ctxp_amnesia_add(w, &result);
}

static int load_calls(struct ctxp_message *m, struct ctxp_cursor *it, unsigned count) {
  struct ctxp_pack_value f[CALL_FIELDS];
  m->calls = count ? calloc(count, sizeof(*m->calls)) : NULL;
  if (count && !m->calls) return -ENOMEM;
  for (unsigned i = 0; i < count; i++) {
    int r = read_fields(it, f, CALL_FIELDS);
    if (r < 0) return r;
    m->calls[i] = (struct ctxp_message_call){ctxp_str_dup(f[0].str), f[0].str.len, f[1].u, f[2].u, (enum ctxp_gone)f[3].u};
    m->call_count = i + 1;
    if (!m->calls[i].id) return -ENOMEM;
  }
  return 0;
}

static int load_message(struct ctxp_amnesia *w, struct ctxp_cursor *it) {
  struct ctxp_pack_value f[MESSAGE_FIELDS];
  int r = read_fields(it, f, MESSAGE_FIELDS); /* the last is the head of its calls */
  if (r < 0 || f[10].type != CTXP_PACK_ARRAY) return -EBADMSG;
  struct ctxp_message *m = ctxp_amnesia_make(w, f[0].str);
  if (!m) return -ENOMEM;
  m->call_len = f[1].str.len;
  m->for_call_len = f[2].str.len;
  if (ctxp_amnesia_text(&m->call, f[1].str) < 0 || ctxp_amnesia_text(&m->for_call, f[2].str) < 0) return -ENOMEM;
  m->role = (enum ctxp_role)f[3].u;
  m->has_text = f[4].b;
  m->defined = f[5].b;
  m->tokens = f[6].u;
  m->gone = (enum ctxp_gone)f[7].u;
  m->applied = f[8].type == CTXP_PACK_BOOL ? f[8].b : f[8].u & 1; /* of before: applied alone */
  m->regretted = f[8].type == CTXP_PACK_U64 && f[8].u >> 1 & 1;
  m->ask = f[9].u;
  w->gone_count += m->gone == CTXP_GONE && m->applied;
  return load_calls(m, it, f[10].count);
}

static int load_list(struct ctxp_amnesia *w, struct ctxp_cursor *it, int (*one)(struct ctxp_amnesia *, struct ctxp_cursor *)) {
  struct ctxp_pack_value head;
  if (ctxp_cursor_next(it, &head) < 0 || head.type != CTXP_PACK_ARRAY) return -EBADMSG;
  int r = 0;
  for (uint32_t i = 0; i < head.count && r == 0; i++) r = one(w, it);
  return r;
}

static int load_request(struct ctxp_amnesia *w, struct ctxp_cursor *it) {
  struct ctxp_pack_value head, at;
  unsigned count = HASH_COUNT(w->messages), i = 0;
  ctxp_auto_free struct ctxp_message **by_position = calloc(count ? count : 1, sizeof(struct ctxp_message *));
  if (!by_position) return -ENOMEM;
  for (struct ctxp_message *m = w->messages; m; m = m->hh.next) by_position[i++] = m;
  if (ctxp_cursor_next(it, &head) < 0 || head.type != CTXP_PACK_ARRAY) return -EBADMSG;
  for (uint32_t k = 0; k < head.count; k++) {
    if (ctxp_cursor_next(it, &at) < 0 || at.u >= count) return -EBADMSG;
    int r = ctxp_amnesia_push(w, by_position[at.u]);
    if (r < 0) return r;
  }
  return 0;
}

static int load(void *window, struct ctxp_raw state) {
  struct ctxp_amnesia *w = window;
  struct ctxp_cursor it = ctxp_cursor(state);
  uint32_t left;
  if (ctxp_array_open(&it, &left) < 0 || left != 4) return -EBADMSG;
  int r = load_header(w, &it);
  if (r == 0) r = load_list(w, &it, load_result);
  if (r == 0) r = load_list(w, &it, load_message);
  if (r == 0) r = load_request(w, &it);
  w->base.changed = false;
  return r;
}

static bool keeps(const void *window) {
  const struct ctxp_amnesia *w = window;
  return w->results || w->messages || w->cwd || w->context_model || w->prompt_model || w->runs || w->turns || w->last_ms || w->asks ||
      w->contexts;
}

static void deinit(void *window) {
  struct ctxp_amnesia *w = window;
  ctxp_amnesia_forget_all(w);
  while (w->messages) {
    struct ctxp_message *message = w->messages;
    HASH_DEL(w->messages, message);
    free_message(message);
  }
  free(w->request);
  free(w->cwd);
  free(w->context_model);
  free(w->prompt_model);
  free(w->tools_hash);
}

const struct ctxp_window_ops ctxp_amnesia_ops = {
    .size = sizeof(struct ctxp_amnesia), .load = load, .dump = dump, .keeps = keeps, .deinit = deinit};
