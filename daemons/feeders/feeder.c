/* The importer's transport: one client of the collector per file. Files are done one after the other, but the collector may still be
 * storing the last ones while the next is read, so that small files do not wait for one acknowledgement each. */
#include <errno.h>
#include <string.h>
#include <zmq.h>
#include "base/hash.h"
#include "ctxpipe/client.h"
#include "feeders/import.h"
#include "feeders/texts.h"

#define OPEN_CLIENTS 32 /* a commit of the collector is of several files then; more than are expected at a time */
#define BATCH_BYTES ((size_t)256 << 10)
#define WAIT_MS 200 /* between looks at `stop` */
#define SILENCE_MS 60000 /* without any acknowledgement: the collector does not take it */

struct uplink {
  const struct ctxp_import_options *options;
  struct ctxp_import_result *result;
  void *context;
  struct ctxp_client *clients[OPEN_CLIENTS];
  uint64_t keys[OPEN_CLIENTS]; /* hashes of their keys */
  bool expected[OPEN_CLIENTS]; /* its file is still to come */
  unsigned at, next; /* the one that is sending; whose place is taken next */
  struct ctxp_texts told; /* hashes of the keys whose earlier refusals were told */
};

static void refused(void *data, uint64_t seq, struct ctxp_str kind, struct ctxp_str field, struct ctxp_str reason) {
  struct uplink *up = data;
  (void)seq;
  if (up->result->refused++) return;
  ctxp_error_write(&up->result->refusal, "%.*s: %.*s%s%.*s", (int)kind.len, kind.ptr, (int)field.len, field.ptr, field.len ? " " : "",
      (int)reason.len, reason.ptr);
}

/* What was refused of this file before is passed over now: it is told of again, once. */
static int tell_earlier(struct uplink *up, uint64_t key, struct ctxp_error *err) {
  struct ctxp_str first, name = {(const char *)&key, sizeof(key)};
  uint64_t count = ctxp_client_refused_before(up->clients[up->at], &first);
  bool known = ctxp_texts_find(&up->told, name) != CTXP_NO_NAME;
  if (!known && ctxp_texts_add(&up->told, name) == CTXP_NO_NAME) return ctxp_error_set(err, -ENOMEM, "out of memory");
  if (known || !count || up->options->refused_were_told) return 0;
  if (!up->result->refused) ctxp_error_write(&up->result->refusal, "%.*s", (int)first.len, first.ptr);
  up->result->refused += count;
  return 0;
}

/* Is there reason to go on waiting for the collector? < 0: none. */
static int patience(const struct uplink *up, struct ctxp_error *err) {
  const struct ctxp_import_options *o = up->options;
  if (o->stop && *o->stop) return ctxp_error_set(err, -EINTR, "the import was stopped");
  return o->alive ? o->alive(o->alive_data, err) : 0;
}

static int silent(struct uplink *up, struct ctxp_error *err) {
  return ctxp_error_set(err, -ETIMEDOUT, "the collector at %s did not take anything for %d s", up->options->endpoint, SILENCE_MS / 1000);
}

/* Waits for all acknowledgements as long as some arrive. */
static int flush(struct uplink *up, struct ctxp_client *client, struct ctxp_error *err) {
  struct ctxp_client_counts counts;
  ctxp_client_counts(client, &counts);
  uint64_t before = counts.position;
  for (int waited = 0; waited < SILENCE_MS; waited += WAIT_MS) {
    int r = ctxp_client_flush(client, WAIT_MS, err);
    if (r <= 0) return r;
    if ((r = patience(up, err)) < 0) return r;
    ctxp_client_counts(client, &counts);
    if (counts.position != before) waited = 0;
    before = counts.position;
  }
  return silent(up, err);
}

/* all but the one that is still sending */
static int settle(void *data, struct ctxp_error *err) {
  struct uplink *up = data;
  int r = 0;
  for (unsigned i = 0; r == 0 && i < OPEN_CLIENTS; i++)
    if (up->clients[i] && i != up->at) r = flush(up, up->clients[i], err);
  return r;
}

/* The same transcript may stand in a tree twice. A key is one client's: the one before it with this key ends first. */
static int end_twin(struct uplink *up, uint64_t key, struct ctxp_error *err) {
  for (unsigned i = 0; i < OPEN_CLIENTS; i++) {
    if (!up->clients[i] || up->keys[i] != key) continue;
    int r = flush(up, up->clients[i], err);
    if (r < 0) return r;
    up->clients[i] = ctxp_client_free(up->clients[i]);
  }
  return 0;
}

static int find(const struct uplink *up, uint64_t key) {
  for (int i = 0; i < OPEN_CLIENTS; i++)
    if (up->clients[i] && up->keys[i] == key) return i;
  return -1;
}

/* The next place becomes that client, which says hello; the one that had it has long sent what it had to. */
static int begin(struct uplink *up, const char *key, const char *product, const char *agent, struct ctxp_error *err) {
  struct ctxp_client_options options = {.endpoint = up->options->endpoint,
      .key = key,
      .agent = agent,
      .product = product,
      .batch_bytes = BATCH_BYTES,
      .context = up->context,
      .refused = refused,
      .data = up};
  unsigned at = up->next;
  struct ctxp_client **client = &up->clients[at];
  int r = *client ? flush(up, *client, err) : 0;
  if (r == 0 && *client)
    r = ctxp_client_rekey(*client, key, agent, product, WAIT_MS, err);
  else if (r == 0)
    r = ctxp_client_new(&options, client, err);
  if (r != 0) return r > 0 ? silent(up, err) : r;
  up->next = (at + 1) % OPEN_CLIENTS;
  up->keys[at] = ctxp_hash64(key, strlen(key), 0);
  up->expected[at] = true;
  return (int)at;
}

/* not a key that is another file's until that is done */
static int expect_key(void *data, const char *key, const char *product, const char *agent, struct ctxp_error *err) {
  struct uplink *up = data;
  if (find(up, ctxp_hash64(key, strlen(key), 0)) >= 0) return 0;
  int r = begin(up, key, product, agent, err);
  return r < 0 ? r : 0;
}

static int open_key(void *data, const char *key, const char *product, const char *agent, uint64_t *ret_position, struct ctxp_error *err) {
  struct uplink *up = data;
  uint64_t hash = ctxp_hash64(key, strlen(key), 0);
  int at = find(up, hash), r;
  if (at < 0 || !up->expected[at]) {
    r = end_twin(up, hash, err);
    at = r < 0 ? r : begin(up, key, product, agent, err);
    if (at < 0) return at;
  }
  up->at = (unsigned)at;
  up->expected[at] = false;
  for (int waited = 0; waited < SILENCE_MS; waited += WAIT_MS) {
    r = ctxp_client_hello(up->clients[up->at], WAIT_MS, ret_position, err);
    if (r <= 0) return r < 0 ? r : tell_earlier(up, hash, err);
    if ((r = patience(up, err)) < 0) return r;
  }
  return ctxp_error_set(err, -ETIMEDOUT, "no collector answers at %s; is the pipeline up?", up->options->endpoint);
}

static int send_event(void *data, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err) {
  struct uplink *up = data;
  for (int waited = 0; waited < SILENCE_MS; waited += WAIT_MS) {
    int r = ctxp_client_send(up->clients[up->at], event, seq, WAIT_MS, err);
    if (r <= 0) return r;
    if ((r = patience(up, err)) < 0) return r;
  }
  return silent(up, err);
}

/* All of it leaves now; that it arrived is seen to when its place is needed, or at the end. */
static int close_key(void *data, struct ctxp_error *err) {
  struct uplink *up = data;
  int r = ctxp_client_flush(up->clients[up->at], 0, err);
  return r < 0 ? r : 0;
}

int ctxp_import_run(const struct ctxp_import_options *options, struct ctxp_import_result *ret_result, struct ctxp_error *err) {
  struct uplink up = {.options = options, .result = ret_result};
  const struct ctxp_import_sink sink = {
      .open = open_key, .expect = expect_key, .send = send_event, .close = close_key, .settle = settle, .data = &up};
  up.context = zmq_ctx_new();
  if (!up.context) {
    *ret_result = (struct ctxp_import_result){0};
    return ctxp_error_set(err, -ENOMEM, "cannot open a ZeroMQ context: %s", zmq_strerror(errno));
  }
  int r = ctxp_import_files(options, &sink, ret_result, err);
  for (unsigned i = 0; r == 0 && i < OPEN_CLIENTS; i++) {
    struct ctxp_client *client = up.clients[(up.next + i) % OPEN_CLIENTS];
    if (client) r = flush(&up, client, err);
  }
  for (unsigned i = 0; i < OPEN_CLIENTS; i++) up.clients[i] = ctxp_client_free(up.clients[i]);
  zmq_ctx_term(up.context);
  ctxp_texts_deinit(&up.told);
  if (r == -ESTALE)
    return ctxp_error_set(
        err, r, "another import or watch reads the same sessions now; run it again when that has ended: nothing counts twice");
  return r;
}
