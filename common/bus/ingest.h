/* The wire between clients and the collector: what agents, feeders and the collector say to each other.
 *
 * A message is one ZeroMQ frame (behind the routing id on the collector's side), a MessagePack array [protocol, op, arguments...]:
 *
 *   client -> collector                                          collector -> client
 *   hello    {client, key, agent, product, nonce, stream, base, outcomes} greet                    "say hello": this connection is unknown
 * here events   prev, [[seq, body], ...]                              welcome   {nonce, stream, instance, position, limits...} outcomes
 * [[seq, outcome], ...]                                ack       seq, instance refused   {seq, kind, field, reason} answer    seq,
 * instance, actions superseded
 *
 * A client is its key, not its connection: the newest connection that said hello has it, the one before is told `superseded`.
 * seq is the client's own numbering, rising, not always by one. `prev` is the number before the first of a message, so that a
 * loss within a connection or across a reconnect is noticed: the collector answers it with a `welcome` that names its position,
 * and the client goes back there. `ack` is cumulative, follows the commit and is repeated on a timer. A body is a binary value that
 * holds an event's MessagePack map: a malformed one costs its own number and no neighbour.
 *
 * hello: `nonce` comes back in every welcome, which tells a client a late one from that of its last hello. `stream` and `base` are the
 * stream id of the client's last welcome (0: none yet) and the last number that it was acknowledged; a collector whose stream does not have
 * as much begins there, as nobody else still has it. `instance` is drawn by each start of a collector: an ack or an answer of an earlier
 * one, late on a dead connection, is passed over. `outcomes` say what became of answers: `applied`, or why not (timeout, lost, superseded,
 * refused). `hello` has the last ones again, as the first message may have been lost; an ask of which nothing is heard becomes an
 * `answer_missed` event, as one that says so. An ask is named by its seq, in `answer` as in an `answer_missed` event that a client sends.
 */
#pragma once
#include "base/buf.h"
#include "codec/msgpack.h"

#define CTXP_INGEST_PROTOCOL 1
#define CTXP_INGEST_KEY_MAX 200 /* bytes of a key, an agent's name, a product */
#define CTXP_INGEST_WINDOW 4096 /* events that a client may have unacknowledged in flight */
#define CTXP_INGEST_WINDOW_BYTES (4u << 20) /* and their bytes; one event above that may be alone */
#define CTXP_INGEST_HWM (2 * CTXP_INGEST_WINDOW) /* above the window, or acks would be dropped and both sides wait */
#define CTXP_INGEST_OUTCOMES 16 /* that hello repeats */

enum ctxp_ingest_op {
  CTXP_INGEST_HELLO,
  CTXP_INGEST_EVENTS,
  CTXP_INGEST_OUTCOME,
  CTXP_INGEST_GREET,
  CTXP_INGEST_WELCOME,
  CTXP_INGEST_ACK,
  CTXP_INGEST_REFUSED,
  CTXP_INGEST_ANSWER,
  CTXP_INGEST_SUPERSEDED,
  CTXP_INGEST_OPS
};
enum ctxp_outcome {
  CTXP_OUTCOME_APPLIED,
  CTXP_OUTCOME_TIMEOUT,
  CTXP_OUTCOME_LOST,
  CTXP_OUTCOME_SUPERSEDED,
  CTXP_OUTCOME_REFUSED,
  CTXP_OUTCOMES
};
struct ctxp_ingest_outcome { /* of the answer to ask `seq` */
  uint64_t seq;
  enum ctxp_outcome outcome;
};
struct ctxp_ingest_hello {
  struct ctxp_str client, key, agent, product; /* client: name and version of the program */
  uint64_t nonce, stream, base;
  struct ctxp_list outcomes; /* read with ctxp_ingest_next_outcome */
};
struct ctxp_ingest_events {
  uint64_t prev;
  struct ctxp_list items; /* read with ctxp_ingest_item */
};
struct ctxp_ingest_welcome {
  uint64_t nonce, stream, instance, position;
  uint64_t window, window_bytes, max_event_bytes, longest_ask_ms;
  uint64_t refused; /* events of the key so far; those of a collector that does not say it: 0 */
  struct ctxp_str refusal; /* the first of them in words: kind, field, reason; may be empty */
};
struct ctxp_ingest_ack {
  uint64_t seq, instance;
};
struct ctxp_ingest_refused { /* seq 0: a message as a whole, or hello: the connection is of no use */
  uint64_t seq;
  struct ctxp_str kind, field, reason;
};
struct ctxp_ingest_answer {
  uint64_t seq, instance;
  struct ctxp_raw actions; /* a map */
};
struct ctxp_ingest {
  enum ctxp_ingest_op op;
  union {
    struct ctxp_ingest_hello hello;
    struct ctxp_ingest_events events;
    struct ctxp_list outcomes;
    struct ctxp_ingest_welcome welcome;
    struct ctxp_ingest_ack ack;
    struct ctxp_ingest_refused refused;
    struct ctxp_ingest_answer answer;
  };
};

/* Reads one message; everything in *ret borrows from it. The items of `events` are checked as they are read. -EBADMSG: malformed;
 * -EPROTO: another version of the protocol. *ret_reason says it in words that name the field. */
int ctxp_ingest_decode(struct ctxp_raw message, struct ctxp_ingest *ret, const char **ret_reason) __attribute__((warn_unused_result));
/* The next [seq, body]. 1: read; 0: at the end; -EBADMSG. */
int ctxp_ingest_item(struct ctxp_list *items, uint64_t *ret_seq, struct ctxp_raw *ret_body);
/* The next outcome. 1: read; 0: at the end. */
int ctxp_ingest_next_outcome(struct ctxp_list *outcomes, struct ctxp_ingest_outcome *ret);
const char *ctxp_outcome_name(enum ctxp_outcome outcome);
/* CTXP_OUTCOMES: no such name */
enum ctxp_outcome ctxp_outcome_parse(struct ctxp_str name);

/* Writers append one message; failures stick in the buffer. */
void ctxp_ingest_write_hello(
    struct ctxp_buf *out, const struct ctxp_ingest_hello *hello, const struct ctxp_ingest_outcome *outcomes, unsigned count);
/* head of an `events` message; `count` items must follow */
void ctxp_ingest_write_events(struct ctxp_buf *out, uint64_t prev, uint32_t count);
void ctxp_ingest_write_item(struct ctxp_buf *out, uint64_t seq, struct ctxp_raw body);
void ctxp_ingest_write_outcome(struct ctxp_buf *out, const struct ctxp_ingest_outcome *outcome);
void ctxp_ingest_write_welcome(struct ctxp_buf *out, const struct ctxp_ingest_welcome *welcome);
void ctxp_ingest_write_ack(struct ctxp_buf *out, uint64_t seq, uint64_t instance);
void ctxp_ingest_write_refused(struct ctxp_buf *out, const struct ctxp_ingest_refused *refused);
void ctxp_ingest_write_answer(struct ctxp_buf *out, const struct ctxp_ingest_answer *answer);
void ctxp_ingest_write_bare(struct ctxp_buf *out, enum ctxp_ingest_op op); /* greet, superseded */
