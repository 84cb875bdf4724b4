/* A stage in a test: push events, look at what it emitted, answered and stored. No process, no socket, no clock.
 *
 *   struct ctxp_test t;
 *   ctxp_test_open(&t, &ctxp_stage_lazy_estimator, "lazy");
 *   ctxp_test_push(&t, &event);                    // numbered 1, 2, 3, ...
 *   assert_int_equal(t.emitted_count, 1); ... t.emitted[0].event.lazy.avoidedTokens
 *   ctxp_test_close(&t);                           // in teardown: a failed assert jumps over cleanup attributes */
#pragma once
#include "base/buf.h"
#include "runtime/host.h"

#define CTXP_TEST_EVENTS 4096

struct ctxp_test_pair {
  struct ctxp_buf key, value;
};
struct ctxp_test {
  struct ctxp_stage *stage;
  const struct ctxp_stage_ops *ops;
  char node[64];
  uint64_t seq; /* of the last event pushed without a number of its own */
  struct {
    struct ctxp_buf body; /* the event as it was encoded, and decoded from there */
    struct ctxp_event event;
  } emitted[CTXP_TEST_EVENTS];
  unsigned emitted_count;
  struct {
    uint64_t ask_seq;
    struct ctxp_buf actions;
  } answers[CTXP_TEST_EVENTS];
  unsigned answer_count;
  struct ctxp_test_pair *pairs; /* the store, ordered by key */
  unsigned pair_count;
  /* Answers the calls of a model: sets *ret_reply, its texts borrowed until the next call. NULL: none is ever made. */
  void (*model)(void *data, const char *node, const struct ctxp_event *event, const struct ctxp_model_call *call,
      struct ctxp_model_reply *ret_reply);
  void *model_data;
  struct ctxp_model_reply reply;
  bool called; /* for the event in hand */
  unsigned calls;
  unsigned refused;
  char last_refusal[CTXP_ERROR_MAX];
};

/* Fails the test (cmocka) on any error. Options are set by ctxp_test_options before the first event. */
void ctxp_test_open(struct ctxp_test *t, const struct ctxp_stage_ops *ops, const char *node);
/* Delivers a topology event that gives this node (and, if fold, as the fold) these options, a MessagePack map; prices may be {0}. */
void ctxp_test_options(struct ctxp_test *t, struct ctxp_raw options, struct ctxp_raw prices);
/* Encodes, decodes, prepares and delivers, so that the stage sees what a real host would give it. Empty agent: "pi@test", empty session:
 * "s1", no ts: 1756534219000 + 1000 * seq. */
void ctxp_test_push(struct ctxp_test *t, const struct ctxp_event *event);
/* The same for a JSON line as events.md has it. */
void ctxp_test_push_json(struct ctxp_test *t, const char *line);
/* save, close, open anew with the same store: what a restart at a checkpoint is. */
void ctxp_test_restart(struct ctxp_test *t);
/* Close without a save, open anew: what a kill is, for a stage that stores in open and save only. */
void ctxp_test_crash(struct ctxp_test *t);
/* Opens it anew with the same store after the test freed the stage: what a death between checkpoints is. */
void ctxp_test_reopen(struct ctxp_test *t);
/* The i-th emitted event as a log line; the caller's buffer. */
const char *ctxp_test_line(struct ctxp_test *t, unsigned i, bool seed_only, struct ctxp_buf *out);
/* The answer to the ask with that number as JSON, "" if there was none. */
const char *ctxp_test_answer(struct ctxp_test *t, uint64_t ask_seq, struct ctxp_buf *out);
/* Forgets what was emitted and answered so far. */
void ctxp_test_clear(struct ctxp_test *t);
void ctxp_test_close(struct ctxp_test *t);
/* How many seeds a random test runs: `usual`, or the environment's CTXP_SEEDS where that is less (valgrind is twenty times as slow). */
uint64_t ctxp_test_seeds(uint64_t usual);
