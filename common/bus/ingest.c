#include <errno.h>
#include "bus/ingest.h"

static const char *const op_names[CTXP_INGEST_OPS] = {
    "hello", "events", "outcomes", "greet", "welcome", "ack", "refused", "answer", "superseded"};

/* ---- reading ---- */
static int take_u64(struct ctxp_cursor *c, uint64_t *ret) {
  struct ctxp_pack_value v;
  if (ctxp_cursor_next(c, &v) < 0 || v.type != CTXP_PACK_U64) return -EBADMSG;
  *ret = v.u;
  return 0;
}

static int take_list(struct ctxp_cursor *c, struct ctxp_list *ret) {
  uint32_t count;
  if (ctxp_array_open(c, &count) < 0) return -EBADMSG;
  *ret = (struct ctxp_list){c->at, (size_t)(c->end - c->at), count};
  return 0;
}

static int bad(const char **ret_reason, const char *reason) {
  *ret_reason = reason;
  return -EBADMSG;
}

static const char *const outcome_names[CTXP_OUTCOMES] = {"applied", "timeout", "lost", "superseded", "refused"};

const char *ctxp_outcome_name(enum ctxp_outcome outcome) { return outcome_names[outcome]; }

enum ctxp_outcome ctxp_outcome_parse(struct ctxp_str name) {
  unsigned i = 0;
  while (i < CTXP_OUTCOMES && !ctxp_str_is(name, outcome_names[i])) i++;
  return (enum ctxp_outcome)i;
}

static int take_outcome(struct ctxp_cursor *c, struct ctxp_ingest_outcome *ret) {
  struct ctxp_pack_value name;
  uint32_t pair;
  if (ctxp_array_open(c, &pair) < 0 || pair != 2 || take_u64(c, &ret->seq) < 0) return -EBADMSG;
  if (ctxp_cursor_next(c, &name) < 0 || name.type != CTXP_PACK_STR) return -EBADMSG;
  ret->outcome = ctxp_outcome_parse(name.str);
  return ret->outcome < CTXP_OUTCOMES ? 0 : -EBADMSG;
}

/* of hello and of the message of that name: all well-formed, and nothing behind them */
static int check_outcomes(struct ctxp_list list) {
  struct ctxp_cursor c = ctxp_cursor((struct ctxp_raw){list.ptr, list.len});
  struct ctxp_ingest_outcome outcome;
  for (uint32_t i = 0; i < list.count; i++)
    if (take_outcome(&c, &outcome) < 0) return -EBADMSG;
  return c.at == c.end ? 0 : -EBADMSG;
}

static int read_hello(struct ctxp_cursor *c, struct ctxp_ingest_hello *h, const char **reason) {
  struct ctxp_raw map = {c->at, (size_t)(c->end - c->at)};
  if (ctxp_pack_check(map) < 0 || ctxp_raw_type(map) != CTXP_PACK_MAP) return bad(reason, "hello must hold one map");
  *h = (struct ctxp_ingest_hello){ctxp_map_str(map, "client"), ctxp_map_str(map, "key"), ctxp_map_str(map, "agent"),
      ctxp_map_str(map, "product"), ctxp_map_u64(map, "nonce", 0), ctxp_map_u64(map, "stream", 0), ctxp_map_u64(map, "base", 0), {0}};
  if (h->key.len == 0 || h->key.len > CTXP_INGEST_KEY_MAX) return bad(reason, "hello: `key` must be a text of 1 to 200 bytes");
  if (h->agent.len == 0 || h->agent.len > CTXP_INGEST_KEY_MAX) return bad(reason, "hello: `agent` must be a text of 1 to 200 bytes");
  if (h->product.len > CTXP_INGEST_KEY_MAX || h->client.len > CTXP_INGEST_KEY_MAX)
    return bad(reason, "hello: `product` and `client` may have 200 bytes");
  struct ctxp_raw outcomes = ctxp_map_get(map, "outcomes");
  struct ctxp_cursor list = ctxp_cursor(outcomes);
  if (outcomes.len && (take_list(&list, &h->outcomes) < 0 || check_outcomes(h->outcomes) < 0))
    return bad(reason, "hello: `outcomes` must be pairs of a number and an outcome");
  c->at = c->end;
  return 0;
}

static int read_welcome(struct ctxp_cursor *c, struct ctxp_ingest_welcome *w, const char **reason) {
  struct ctxp_raw map = {c->at, (size_t)(c->end - c->at)};
  if (ctxp_pack_check(map) < 0 || ctxp_raw_type(map) != CTXP_PACK_MAP) return bad(reason, "welcome must hold one map");
  *w = (struct ctxp_ingest_welcome){ctxp_map_u64(map, "nonce", 0), ctxp_map_u64(map, "stream", 0), ctxp_map_u64(map, "instance", 0),
      ctxp_map_u64(map, "position", 0), ctxp_map_u64(map, "window", 0), ctxp_map_u64(map, "windowBytes", 0),
      ctxp_map_u64(map, "maxEventBytes", 0), ctxp_map_u64(map, "longestAskMs", 0), ctxp_map_u64(map, "refused", 0),
      ctxp_map_str(map, "refusal")};
  c->at = c->end;
  return w->stream && w->window && w->window_bytes && w->max_event_bytes ? 0 : bad(reason, "welcome lacks its stream or a limit");
}

static int read_refused(struct ctxp_cursor *c, struct ctxp_ingest_refused *r, const char **reason) {
  struct ctxp_raw map = {c->at, (size_t)(c->end - c->at)};
  if (ctxp_pack_check(map) < 0 || ctxp_raw_type(map) != CTXP_PACK_MAP) return bad(reason, "refused must hold one map");
  *r = (struct ctxp_ingest_refused){
      ctxp_map_u64(map, "seq", 0), ctxp_map_str(map, "kind"), ctxp_map_str(map, "field"), ctxp_map_str(map, "reason")};
  c->at = c->end;
  return 0;
}

static int read_answer(struct ctxp_cursor *c, struct ctxp_ingest_answer *a, const char **reason) {
  if (take_u64(c, &a->seq) < 0 || take_u64(c, &a->instance) < 0) return bad(reason, "answer must begin with two numbers");
  a->actions = (struct ctxp_raw){c->at, (size_t)(c->end - c->at)};
  if (ctxp_pack_check(a->actions) < 0 || ctxp_raw_type(a->actions) != CTXP_PACK_MAP) return bad(reason, "answer must end with a map");
  c->at = c->end;
  return 0;
}

static int read_arguments(struct ctxp_cursor *c, struct ctxp_ingest *ret, const char **reason) {
  switch (ret->op) {
  case CTXP_INGEST_HELLO: return read_hello(c, &ret->hello, reason);
  case CTXP_INGEST_EVENTS:
    if (take_u64(c, &ret->events.prev) < 0 || take_list(c, &ret->events.items) < 0)
      return bad(reason, "events must hold a number and an array");
    c->at = c->end; /* what stands behind the last item shows when the items are read */
    return 0;
  case CTXP_INGEST_OUTCOME:
    if (take_list(c, &ret->outcomes) < 0 || check_outcomes(ret->outcomes) < 0)
      return bad(reason, "outcomes must hold pairs of a number and an outcome");
    c->at = c->end;
    return 0;
  case CTXP_INGEST_WELCOME: return read_welcome(c, &ret->welcome, reason);
  case CTXP_INGEST_ACK:
    return take_u64(c, &ret->ack.seq) < 0 || take_u64(c, &ret->ack.instance) < 0 ? bad(reason, "ack must hold two numbers") : 0;
  case CTXP_INGEST_REFUSED: return read_refused(c, &ret->refused, reason);
  case CTXP_INGEST_ANSWER: return read_answer(c, &ret->answer, reason);
  case CTXP_INGEST_GREET:
  case CTXP_INGEST_SUPERSEDED:
  case CTXP_INGEST_OPS: return 0;
  }
  return bad(reason, "unknown operation");
}

static const uint8_t arguments[CTXP_INGEST_OPS] = {1, 2, 1, 0, 1, 2, 1, 3, 0};

static int parse_op(struct ctxp_str name, enum ctxp_ingest_op *ret) {
  for (unsigned i = 0; i < CTXP_INGEST_OPS; i++)
    if (ctxp_str_is(name, op_names[i])) return *ret = (enum ctxp_ingest_op)i, 0;
  return -EBADMSG;
}

int ctxp_ingest_decode(struct ctxp_raw message, struct ctxp_ingest *ret, const char **ret_reason) {
  struct ctxp_cursor c = ctxp_cursor(message);
  struct ctxp_pack_value op;
  uint32_t count;
  uint64_t protocol;
  if (message.len == 0 || ctxp_array_open(&c, &count) < 0 || count < 2 || take_u64(&c, &protocol) < 0)
    return bad(ret_reason, "a message must be an array of protocol, operation, arguments");
  if (protocol != CTXP_INGEST_PROTOCOL) {
    *ret_reason = "this version speaks protocol 1 of the ingest alone";
    return -EPROTO;
  }
  if (ctxp_cursor_next(&c, &op) < 0 || op.type != CTXP_PACK_STR || parse_op(op.str, &ret->op) < 0)
    return bad(ret_reason, "unknown operation");
  if (count - 2 != arguments[ret->op]) return bad(ret_reason, "wrong number of arguments");
  int r = read_arguments(&c, ret, ret_reason);
  if (r < 0) return r;
  return c.at == c.end ? 0 : bad(ret_reason, "bytes behind the end of the message");
}

int ctxp_ingest_item(struct ctxp_list *items, uint64_t *ret_seq, struct ctxp_raw *ret_body) {
  struct ctxp_cursor c = ctxp_cursor((struct ctxp_raw){items->ptr, items->len});
  struct ctxp_pack_value body;
  uint32_t pair;
  if (items->count == 0) return items->len ? -EBADMSG : 0;
  if (ctxp_array_open(&c, &pair) < 0 || pair != 2 || take_u64(&c, ret_seq) < 0) return -EBADMSG;
  if (ctxp_cursor_next(&c, &body) < 0 || body.type != CTXP_PACK_BIN) return -EBADMSG;
  *ret_body = (struct ctxp_raw){(const uint8_t *)body.str.ptr, body.str.len};
  *items = (struct ctxp_list){c.at, (size_t)(c.end - c.at), items->count - 1};
  return 1;
}

int ctxp_ingest_next_outcome(struct ctxp_list *outcomes, struct ctxp_ingest_outcome *ret) {
  struct ctxp_cursor c = ctxp_cursor((struct ctxp_raw){outcomes->ptr, outcomes->len});
  if (outcomes->count == 0 || take_outcome(&c, ret) < 0) return 0;
  *outcomes = (struct ctxp_list){c.at, (size_t)(c.end - c.at), outcomes->count - 1};
  return 1;
}

/* ---- writing ---- */
static void head(struct ctxp_buf *out, enum ctxp_ingest_op op) {
  ctxp_pack_array(out, 2u + arguments[op]);
  ctxp_pack_u64(out, CTXP_INGEST_PROTOCOL);
  ctxp_pack_cstr(out, op_names[op]);
}

static void put_str(struct ctxp_buf *out, const char *key, struct ctxp_str value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_str(out, value);
}

static void put_u64(struct ctxp_buf *out, const char *key, uint64_t value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_u64(out, value);
}

static void put_outcome(struct ctxp_buf *out, const struct ctxp_ingest_outcome *outcome) {
  ctxp_pack_array(out, 2);
  ctxp_pack_u64(out, outcome->seq);
  ctxp_pack_cstr(out, outcome_names[outcome->outcome]);
}

void ctxp_ingest_write_hello(
    struct ctxp_buf *out, const struct ctxp_ingest_hello *hello, const struct ctxp_ingest_outcome *outcomes, unsigned count) {
  head(out, CTXP_INGEST_HELLO);
  ctxp_pack_map(out, 8);
  put_str(out, "client", hello->client);
  put_str(out, "key", hello->key);
  put_str(out, "agent", hello->agent);
  put_str(out, "product", hello->product);
  put_u64(out, "nonce", hello->nonce);
  put_u64(out, "stream", hello->stream);
  put_u64(out, "base", hello->base);
  ctxp_pack_cstr(out, "outcomes");
  ctxp_pack_array(out, count);
  for (unsigned i = 0; i < count; i++) put_outcome(out, &outcomes[i]);
}

void ctxp_ingest_write_events(struct ctxp_buf *out, uint64_t prev, uint32_t count) {
  head(out, CTXP_INGEST_EVENTS);
  ctxp_pack_u64(out, prev);
  ctxp_pack_array(out, count);
}

void ctxp_ingest_write_item(struct ctxp_buf *out, uint64_t seq, struct ctxp_raw body) {
  ctxp_pack_array(out, 2);
  ctxp_pack_u64(out, seq);
  ctxp_pack_bin(out, body);
}

void ctxp_ingest_write_outcome(struct ctxp_buf *out, const struct ctxp_ingest_outcome *outcome) {
  head(out, CTXP_INGEST_OUTCOME);
  ctxp_pack_array(out, 1);
  put_outcome(out, outcome);
}

void ctxp_ingest_write_welcome(struct ctxp_buf *out, const struct ctxp_ingest_welcome *welcome) {
  head(out, CTXP_INGEST_WELCOME);
  ctxp_pack_map(out, 10);
  put_u64(out, "nonce", welcome->nonce);
  put_u64(out, "stream", welcome->stream);
  put_u64(out, "instance", welcome->instance);
  put_u64(out, "position", welcome->position);
  put_u64(out, "window", welcome->window);
  put_u64(out, "windowBytes", welcome->window_bytes);
  put_u64(out, "maxEventBytes", welcome->max_event_bytes);
  put_u64(out, "longestAskMs", welcome->longest_ask_ms);
  put_u64(out, "refused", welcome->refused);
  ctxp_pack_cstr(out, "refusal");
  ctxp_pack_str(out, welcome->refusal);
}

void ctxp_ingest_write_ack(struct ctxp_buf *out, uint64_t seq, uint64_t instance) {
  head(out, CTXP_INGEST_ACK);
  ctxp_pack_u64(out, seq);
  ctxp_pack_u64(out, instance);
}

void ctxp_ingest_write_refused(struct ctxp_buf *out, const struct ctxp_ingest_refused *refused) {
  head(out, CTXP_INGEST_REFUSED);
  ctxp_pack_map(out, 4);
  put_u64(out, "seq", refused->seq);
  put_str(out, "kind", refused->kind);
  put_str(out, "field", refused->field);
  put_str(out, "reason", refused->reason);
}

void ctxp_ingest_write_answer(struct ctxp_buf *out, const struct ctxp_ingest_answer *answer) {
  head(out, CTXP_INGEST_ANSWER);
  ctxp_pack_u64(out, answer->seq);
  ctxp_pack_u64(out, answer->instance);
  ctxp_pack_raw(out, answer->actions);
}

void ctxp_ingest_write_bare(struct ctxp_buf *out, enum ctxp_ingest_op op) { head(out, op); }
