/* What is resident: the log of one context window, from which everything that the fold says of it is derived.
 *
 * Three lists that only grow: messages (each once, by id), requests, and residencies (a message at a place of the window from
 * one request to another). A request is a place to cut the window at (`keep`) and the residencies that begin with it. Sums are not
 * kept here: spend.c runs over the log, and starts over when the past changes (a correction, a definition that came late). */
#pragma once
#include "base/hash.h"
#include "base/map.h"
#include "base/str.h"
#include "fold/fixed.h"

#define CTXP_FOLD_OPEN UINT32_MAX /* `to` of what is in the window */
#define CTXP_FOLD_BY_DEFINITION 0xff /* band of a residency whose reference names none */

struct ctxp_stage;
struct ctxp_fold_spend;

struct ctxp_fold_block {
  struct ctxp_fold_block *next;
  char bytes[];
};
struct ctxp_fold_arena { /* texts that live as long as their owner */
  struct ctxp_fold_block *block; /* the newest: `used` of its `size` bytes are taken */
  size_t used, size;
};
/* A copy in the arena; {NULL, 0} and *failed set: out of memory. */
struct ctxp_str ctxp_fold_arena_str(struct ctxp_fold_arena *arena, struct ctxp_str text, bool *failed);
void ctxp_fold_arena_deinit(struct ctxp_fold_arena *arena);

struct ctxp_fold_index { /* hash to number, open addressing; equality is the caller's */
  uint32_t *slots; /* number + 1 */
  uint32_t mask, count;
};

struct ctxp_fold_message {
  uint64_t hash;
  struct ctxp_str id, label, tool; /* label, tool: as the definition says */
  struct ctxp_hash128 answers; /* the call that it answers; zero: none */
  uint32_t tokens, first_call, calls;
  uint32_t used_from; /* first request that names it; CTXP_FOLD_OPEN: none yet */
  uint32_t evicted; /* number of requests when an `evict` named it last, + 1 */
  uint8_t band, role, label_kind; /* label_kind: CTXP_LABEL_COUNT: by band */
  bool defined;
  bool copied; /* the call that it answers is another window's, of which this one is a copy */
  /* of its size (sizes.h) */
  bool person, thinks; /* a person wrote it; it holds thinking */
  uint32_t pieces, images;
  uint32_t thinking, signature; /* of its thinking: tokens, length of its signature; 0: not said */
  uint32_t reply_of; /* the request (+ 1) whose response it is; 0: none */
};
struct ctxp_fold_call { /* a tool call in an assistant message */
  struct ctxp_hash128 id;
  struct ctxp_str name, path;
  uint32_t tokens, content_tokens;
  bool copied; /* as of a message */
};
struct ctxp_fold_residency {
  uint32_t message, place, from, to;
  uint8_t band;
};
enum { CTXP_FOLD_READ,
  CTXP_FOLD_WRITE_5M,
  CTXP_FOLD_WRITE_1H,
  CTXP_FOLD_UNCACHED,
  CTXP_FOLD_CLASSES }; /* in the order of the prefix */
enum ctxp_fold_request_flags {
  CTXP_FOLD_COUNTED = 1, /* billed here; else it only forms the window */
  CTXP_FOLD_REPORTED = 2, /* the provider said the usage */
  CTXP_FOLD_PRICED = 4, /* its input has a price */
  CTXP_FOLD_PRICED_OUT = 8,
  CTXP_FOLD_COMPACTED = 16,
  CTXP_FOLD_NEW_TOOLS = 32,
  CTXP_FOLD_REMOVED = 64, /* since the request before */
  CTXP_FOLD_REASONING_APART = 128 /* it stands beside the output */
};
struct ctxp_fold_request {
  uint64_t tokens[CTXP_FOLD_CLASSES];
  uint64_t parts[CTXP_FOLD_CLASSES]; /* money of each class, in 2^-CTXP_FOLD_PART nano-dollars; together the input's cost */
  uint64_t output, reasoning, cost_output_nano;
  uint64_t ts_ms;
  uint32_t keep, first, count; /* residencies that begin with it */
  uint32_t number; /* counted requests up to this one */
  uint32_t model; /* in the window's models; CTXP_FOLD_OPEN: not said */
  uint8_t flags;
};
static inline uint64_t ctxp_fold_request_input(const struct ctxp_fold_request *r) {
  return r->tokens[0] + r->tokens[1] + r->tokens[2] + r->tokens[3];
}
static inline uint64_t ctxp_fold_request_cost_nano(const struct ctxp_fold_request *r) { /* of its input */
  return (r->parts[0] + r->parts[1] + r->parts[2] + r->parts[3]) >> CTXP_FOLD_PART;
}

/* dirty: the first that is not saved as it is */
#define CTXP_FOLD_ARRAY(type, name) \
  struct { \
    type *at; \
    uint32_t count, cap, dirty; \
  } name

struct ctxp_fold_kept { /* tokens that a mechanism keeps out of every request that would have carried them */
  uint64_t tokens; /* 0: another call of the entry before */
  struct ctxp_hash128 call;
  uint32_t place; /* where they would stand */
  uint32_t turn; /* turns that had ended when they were saved */
  uint8_t mechanism;
};
/* What mechanisms did to the window, for ever: from it the balance of each view and tool is derived. */
enum ctxp_fold_effect_kind { CTXP_FOLD_KEPT_OUT, /* tokens more are kept out */
  CTXP_FOLD_KEPT_LESS, /* tokens fewer */
  CTXP_FOLD_KEPT_WITH, /* another call of the entry before, which is KEPT_OUT */
  CTXP_FOLD_REGRETTED,
  CTXP_FOLD_ASKED, /* an auxiliary model used tokens */
  CTXP_FOLD_EFFECTS };
struct ctxp_fold_effect {
  struct ctxp_hash128 call; /* zero: of none */
  uint64_t tokens, cost_nano, ts_ms; /* cost: of what an auxiliary model used; ts: of the causing event */
  uint32_t request; /* the first that shows it */
  uint8_t kind, mechanism;
  bool priced;
};
enum { CTXP_FOLD_BASH,
  CTXP_FOLD_AMNESIA,
  CTXP_FOLD_WRITE,
  CTXP_FOLD_LAZY,
  CTXP_FOLD_MECHANISMS };
struct ctxp_fold_turn { /* what has come since the last turn that ended */
  uint64_t saved[CTXP_FOLD_MECHANISMS], aux, regret, carried, carried_cost_nano;
  bool carried_priced;
  bool own_call, other_call; /* it has a response that is billed here; one that was billed before */
};

struct ctxp_fold_window {
  struct ctxp_hash128 key;
  struct ctxp_fold_session *session;
  struct ctxp_fold_arena arena;
  struct ctxp_str thread, product, cwd, parent_thread,
      spawned_by; /* product, cwd: where its own start says them, else the session's hold */
  CTXP_FOLD_ARRAY(struct ctxp_fold_message, messages);
  CTXP_FOLD_ARRAY(struct ctxp_fold_call, calls);
  CTXP_FOLD_ARRAY(struct ctxp_fold_request, requests);
  CTXP_FOLD_ARRAY(struct ctxp_fold_residency, residencies);
  CTXP_FOLD_ARRAY(uint32_t, live); /* residencies of the last request, by place */
  CTXP_FOLD_ARRAY(struct ctxp_str, models);
  struct ctxp_fold_index message_index, call_index;
  struct ctxp_fold_spend *spend; /* NULL: not run yet */
  bool by_estimate; /* sizes as the definitions say them */
  uint64_t evicted_tokens; /* out of the window since the last request */
  uint32_t counted; /* requests billed here */
  uint64_t tools_hash; /* of the tool texts last seen; 0: none */
  uint8_t since; /* flags for the next request */
  /* the ledger's part */
  CTXP_FOLD_ARRAY(struct ctxp_fold_kept, kept);
  CTXP_FOLD_ARRAY(struct ctxp_fold_effect, effects);
  bool effects_failed; /* out of memory while one was noted */
  uint64_t kept_tokens;
  struct ctxp_fold_turn turn;
  uint64_t run_lazy, run_offered; /* of a recorded run that has made no call yet */
  uint32_t turns_ended;
  uint64_t turn_number; /* of the turn under way, or the next */
  uint32_t final_at; /* counted requests when the last `final` bill was said */
  bool ended; /* the agent has said nothing since the session's end */
  bool changed, touched;
  UT_hash_handle hh;
};

/* Room for one more; false: out of memory. */
bool ctxp_fold_grow(void *array, size_t size);

/* Takes a definition. -ENOMEM, -EBADMSG. */
int ctxp_fold_window_define(struct ctxp_fold_window *w, struct ctxp_stage *stage, const struct ctxp_context_message *definition)
    __attribute__((warn_unused_result));
/* Forms the window of the next request, and appends the request with these figures. *ret_request: its number in the list; where
 * only the window was to be formed (flags without COUNTED) and it did not change, CTXP_FOLD_OPEN. -ENOMEM. */
int ctxp_fold_window_request(struct ctxp_fold_window *w, struct ctxp_stage *stage, const struct ctxp_prompt *prompt,
    const struct ctxp_fold_request *figures, uint32_t *ret_request) __attribute__((warn_unused_result));
/* Replaces the figures of a request that was counted; the window stays as it was. */
void ctxp_fold_window_correct(struct ctxp_fold_window *w, uint32_t request, const struct ctxp_fold_request *figures);
void ctxp_fold_window_evict(struct ctxp_fold_window *w, struct ctxp_list ids);
/* The number of a model's name in the window; CTXP_FOLD_OPEN: no name, or one more than are remembered. -ENOMEM. */
int ctxp_fold_window_model(struct ctxp_fold_window *w, struct ctxp_str model, uint32_t *ret_model) __attribute__((warn_unused_result));
/* NULL: no such call. */
const struct ctxp_fold_call *ctxp_fold_window_call(const struct ctxp_fold_window *w, struct ctxp_hash128 id);
/* Rebuilds indexes and the open window after the lists were loaded. -ENOMEM. */
int ctxp_fold_window_reindex(struct ctxp_fold_window *w) __attribute__((warn_unused_result));
/* The band of a residency now. */
static inline enum ctxp_band ctxp_fold_band(const struct ctxp_fold_window *w, const struct ctxp_fold_residency *r) {
  return (enum ctxp_band)(r->band == CTXP_FOLD_BY_DEFINITION ? w->messages.at[r->message].band : r->band);
}
static inline bool ctxp_fold_hash_none(struct ctxp_hash128 h) { return h.hi == 0 && h.lo == 0; }
void ctxp_fold_window_free(struct ctxp_fold_window *w);
