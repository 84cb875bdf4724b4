/* The fold alone, for the bench: fold REQUESTS SIZES [MESSAGES]. A recorded session of so many requests over an append-only window of as
 * many messages (or of MESSAGES of them), its events decoded before the clock runs; prints the CPU seconds of the session, of its whole
 * bill by message, and the bytes of memory that are in use at the end. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "runtime/host.h"

#define BATCH 1024
#define CHECKPOINT 8192 /* events */
#define BUCKETS (1u << 18)

extern const struct ctxp_stage_ops ctxp_stage_fold;

static void must(bool fine, const char *what) {
  if (fine) return;
  fprintf(stderr, "bench: %s\n", what);
  exit(1);
}

/* ---- a store that costs little ---- */
struct pair {
  struct pair *next, *newer; /* newer: of all of them */
  struct ctxp_buf key, value;
};
static struct {
  struct pair *buckets[BUCKETS], *oldest, **newest;
} store = {.newest = &store.oldest};

static bool same(const struct pair *p, struct ctxp_raw key) { return p->key.len == key.len && memcmp(p->key.ptr, key.ptr, key.len) == 0; }

static struct pair **find(struct ctxp_raw key) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < key.len; i++) hash = (hash ^ ((const uint8_t *)key.ptr)[i]) * UINT64_C(1099511628211);
  struct pair **at = &store.buckets[(hash >> 20) % BUCKETS];
  while (*at && !same(*at, key)) at = &(*at)->next;
  return at;
}

static int put(void *data, struct ctxp_raw key, struct ctxp_raw value) {
  struct pair **at = find(key);
  (void)data;
  if (!*at) {
    must((*at = calloc(1, sizeof(**at))) != NULL, "out of memory");
    ctxp_buf_add(&(*at)->key, key.ptr, key.len);
    *store.newest = *at;
    store.newest = &(*at)->newer;
  }
  ctxp_buf_reset(&(*at)->value);
  ctxp_buf_add(&(*at)->value, value.ptr, value.len);
  return 0;
}

static int del(void *data, struct ctxp_raw key) {
  struct pair *p = *find(key);
  (void)data;
  if (p) ctxp_buf_reset(&p->value); /* an empty value is none */
  return 0;
}

static int get(void *data, struct ctxp_raw key, struct ctxp_raw *ret_value) {
  struct pair *p = *find(key);
  (void)data;
  if (!p || !p->value.len) return 1;
  *ret_value = ctxp_buf_raw(&p->value);
  return 0;
}

static int each(void *data, struct ctxp_raw prefix, int (*visit)(void *, struct ctxp_raw, struct ctxp_raw), void *visit_data) {
  int r = 0;
  (void)data;
  for (struct pair *p = store.oldest; r == 0 && p; p = p->newer)
    if (p->value.len && p->key.len >= prefix.len && memcmp(p->key.ptr, prefix.ptr, prefix.len) == 0)
      r = visit(visit_data, ctxp_buf_raw(&p->key), ctxp_buf_raw(&p->value));
  return r;
}

static int emit(void *data, const struct ctxp_event *event) {
  (void)data;
  (void)event;
  return 0;
}

static void refuse(void *data, const char *sentence) {
  (void)data;
  must(false, sentence);
}

/* ---- the session ---- */
static struct ctxp_buf batch[BATCH];
static unsigned batched, delivered;
static struct ctxp_stage *stage;
static double used;

static double cpu(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void deliver(void) {
  static struct ctxp_event events[BATCH];
  struct ctxp_fault fault;
  for (unsigned i = 0; i < batched; i++) {
    must(ctxp_event_decode(batch[i].ptr, batch[i].len, &events[i], NULL, &fault) == 0, "an event does not decode");
    events[i].seq = ++delivered;
    events[i].ts_ms = UINT64_C(1756534219000) + 1000 * delivered;
    events[i].agent = CTXP_STR("bench");
    events[i].session = CTXP_STR("s1");
  }
  double before = cpu();
  for (unsigned i = 0; i < batched; i++) must(ctxp_stage_deliver(stage, &events[i]) == 0, "the fold refused an event");
  if (delivered % CHECKPOINT < BATCH) must(ctxp_stage_save(stage) == 0, "the fold could not save");
  used += cpu() - before;
  batched = 0;
}

static void push(const struct ctxp_event *event) {
  ctxp_buf_reset(&batch[batched]);
  must(ctxp_event_encode(event, &batch[batched]) == 0, "an event does not encode");
  if (++batched == BATCH) deliver();
}

static void configure(const char *sizes) {
  struct ctxp_event event = {.kind = CTXP_KIND_topology};
  struct ctxp_derivation entry = {.node = CTXP_STR("fold"), .daemon = CTXP_STR("fold"), .version = ctxp_stage_fold.version};
  ctxp_auto_buf options = {0}, prices = {0};
  ctxp_pack_map(&options, 1);
  ctxp_pack_cstr(&options, "sizes");
  ctxp_pack_cstr(&options, sizes);
  ctxp_pack_map(&prices, 2);
  ctxp_pack_cstr(&prices, "version");
  ctxp_pack_cstr(&prices, "none");
  ctxp_pack_cstr(&prices, "models");
  ctxp_pack_array(&prices, 0);
  entry.options = ctxp_buf_raw(&options);
  event.topology.prices = ctxp_buf_raw(&prices);
  ctxp_set(&event.topology, topology, fold, entry);
  push(&event);
  deliver();
}

static void define(unsigned number, bool reply, const char *id) {
  struct ctxp_event ev = {.kind = CTXP_KIND_context_message};
  struct ctxp_context_message *m = &ev.context_message;
  char label[32];
  snprintf(label, sizeof(label), "/src/%u.c", number % 500);
  m->id = ctxp_str(id);
  m->role = reply ? CTXP_ROLE_assistant : CTXP_ROLE_tool;
  m->band = reply ? CTXP_BAND_assistant : CTXP_BAND_file_view;
  m->tokens = 20 + number % 40;
  ctxp_set(m, context_message, pieces, 10 * m->tokens);
  if (!reply) ctxp_set(m, context_message, label, ctxp_str(label));
  push(&ev);
}

/* request `number` appends message `number`, as long as there are messages to come */
static void request(unsigned number, unsigned messages, uint64_t *input) {
  char id[32], next[32], call[32];
  bool more = number < messages, reply = number % 2 == 1, answered = number + 1 < messages && !reply;
  struct ctxp_event ev = {.kind = CTXP_KIND_prompt};
  struct ctxp_prompt *p = &ev.prompt;
  struct ctxp_ref ref = {.id = CTXP_STR("")};
  ctxp_auto_buf refs = {0}, replies = {0};
  snprintf(id, sizeof(id), "m%u", number);
  snprintf(next, sizeof(next), "m%u", number + 1);
  snprintf(call, sizeof(call), "c%u", number);
  if (more) define(number, reply, id);
  ref.id = ctxp_str(id);
  if (more) must(ctxp_list_add(&p->append, &refs, &ctxp_shape_ref, &ref) == 0, "a reference does not encode");
  if (answered) must(ctxp_strs_add(&p->reply, &replies, ctxp_str(next)) == 0, "a name does not encode");
  p->has |= UINT64_C(1) << CTXP_IX_prompt_append | UINT64_C(1) << CTXP_IX_prompt_reply;
  p->callId = ctxp_str(call);
  ctxp_set(p, prompt, keep, more ? number : messages);
  ctxp_set(p, prompt, model, CTXP_STR("bench"));
  uint64_t grown = more ? 21 + number % 37 : 0;
  struct ctxp_usage usage = {.input = grown};
  ctxp_set(&usage, usage, cacheRead, *input);
  ctxp_set(&usage, usage, output, 21 + (number + 1) % 37);
  *input += grown;
  struct ctxp_cost cost = {.has = 0};
  ctxp_set(&cost, cost, inputNano, (int64_t)(3000 * grown + 1));
  ctxp_set(&cost, cost, cacheReadNano, (int64_t)(300 * (*input - grown)));
  ctxp_set(&cost, cost, outputNano, 1000);
  ctxp_set(p, prompt, usage, usage);
  ctxp_set(p, prompt, cost, cost);
  push(&ev);
}

int main(int argc, char **argv) {
  static const struct ctxp_host_ops host = {.emit = emit, .put = put, .del = del, .get = get, .each = each, .refuse = refuse};
  ctxp_auto_buf query = {0}, reply = {0};
  struct ctxp_error err;
  must(argc == 3 || argc == 4, "usage: fold REQUESTS ledger|estimate [MESSAGES]");
  unsigned requests = (unsigned)strtoul(argv[1], NULL, 10), messages = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 10) : requests;
  uint64_t input = 20000;
  if (ctxp_stage_new(&ctxp_stage_fold, "fold", (struct ctxp_raw){0}, &host, NULL, &stage, &err) < 0 || ctxp_stage_open(stage, &err) < 0)
    must(false, err.text);
  configure(argv[2]);
  struct ctxp_event start = {.kind = CTXP_KIND_session_start, .session_start = {.product = CTXP_STR("bench")}};
  ctxp_set(&start.session_start, session_start, recorded, true);
  push(&start);
  for (unsigned i = 0; i < requests; i++) request(i, messages, &input);
  struct ctxp_event end = {.kind = CTXP_KIND_session_end};
  push(&end);
  deliver();
  double before = cpu();
  must(ctxp_stage_save(stage) == 0, "the fold could not save");
  double folded = used + cpu() - before;
  before = cpu();
  ctxp_pack_map(&query, 2);
  ctxp_pack_cstr(&query, "what");
  ctxp_pack_cstr(&query, "spend");
  ctxp_pack_cstr(&query, "by");
  ctxp_pack_cstr(&query, "message");
  must(ctxp_stage_query(stage, ctxp_buf_raw(&query), &reply, &err) == 0, err.text);
  struct ctxp_raw totals = ctxp_map_get(ctxp_buf_raw(&reply), "totals");
  must(ctxp_map_u64(totals, "requests", 0) == requests, "the bill has other requests");
  printf("{\"requests\":%u,\"messages\":%u,\"fold\":%.4f,\"bill\":%.4f,\"billed\":%llu,\"bytes\":%zu}\n", requests, messages, folded,
      cpu() - before, (unsigned long long)ctxp_map_u64(totals, "billed", 0), mallinfo2().uordblks);
  ctxp_stage_free(stage);
  return 0;
}
