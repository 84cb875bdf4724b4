/* What the amnesia tagger knows of a window: the results that may go, the messages of the last request, and what is gone.
 * Everything here is bounded, and changes with events only. */
#pragma once
#include "base/hash.h"
#include "mechanisms/engine.h"
#include "mechanisms/window.h"

enum { CTXP_RESULTS_MAX = 4096,
  CTXP_MESSAGES_MAX = 32768 }; /* in one window */

struct ctxp_result { /* a tagged result, or a skill load */
  UT_hash_handle hh;
  char *call, *tool, *path; /* path: normalised, "" where there is none */
  size_t call_len, path_len;
  struct ctxp_hash128 text; /* of the result's text */
  uint64_t input; /* hash of the call's arguments */
  uint64_t tokens;
  uint64_t start, lines; /* of a read: first line, number of lines */
  bool read, whole, odd; /* a read; of the whole file; of a part that its arguments do not tell */
  bool asked; /* the agent waits for answers */
  bool candidate; /* DROP: it may go */
  bool seen; /* a request has carried it */
  bool removed; /* from the agent's window */
  bool regretted; /* ... and came in again */
  bool here; /* while the window is looked through */
};

enum ctxp_gone { CTXP_HERE,
  CTXP_GONE_ONCE /* from one request, or until it left the window on its own */,
  CTXP_GONE };
struct ctxp_message_call {
  char *id;
  size_t id_len;
  uint64_t tokens, ask; /* ask: number of the request from which it was stripped */
  enum ctxp_gone gone;
};
struct ctxp_message {
  UT_hash_handle hh;
  char *id, *call, *for_call; /* call: answered by it; for_call: of the result that it went with */
  size_t id_len, call_len, for_call_len;
  enum ctxp_role role;
  bool has_text, defined;
  uint64_t tokens;
  struct ctxp_message_call *calls;
  unsigned call_count;
  enum ctxp_gone gone;
  bool applied; /* gone from the agent's window, not only in theory */
  bool regretted; /* gone, and its saving was taken back */
  uint64_t ask; /* number of the request from which it went */
  unsigned position; /* while a window is stored */
  bool wanted; /* while it is looked through */
};

struct ctxp_amnesia {
  struct ctxp_window base;
  struct ctxp_result *results; /* by call, in order */
  struct ctxp_message *messages; /* by id, in order */
  struct ctxp_message **request; /* the last `prompt` */
  unsigned request_count, request_cap;
  unsigned gone_count; /* messages that are gone and applied */
  char *cwd, *context_model, *prompt_model, *tools_hash; /* NULL: not known */
  uint64_t last_ms; /* time of the last request */
  uint64_t turns, runs;
  bool asks; /* it has sent a `context` that waits for an answer */
  bool contexts; /* it has sent a `context` */
  bool compacted; /* since the last request */
  bool overlong; /* more messages than are kept: `prompt` is not followed until the session ends */
};

enum ctxp_amnesia_policy { CTXP_POLICY_TAIL,
  CTXP_POLICY_SEEN };
struct ctxp_amnesia_options {
  struct ctxp_engine engine;
  uint64_t min_tokens, cache_ttl_s, max_chars, tag_max_tokens;
  int policy;
  bool sticky;
};

extern const struct ctxp_window_ops ctxp_amnesia_ops;

struct ctxp_result *ctxp_amnesia_result(struct ctxp_amnesia *window, struct ctxp_str call); /* NULL: none */
/* Adds a copy (texts too) of the result; one of the same call goes; at the limit the oldest goes. */
int ctxp_amnesia_add(struct ctxp_amnesia *window, const struct ctxp_result *result) __attribute__((warn_unused_result));
void ctxp_amnesia_forget(struct ctxp_amnesia *window, struct ctxp_result *result);
void ctxp_amnesia_forget_all(struct ctxp_amnesia *window);

struct ctxp_message *ctxp_amnesia_message(struct ctxp_amnesia *window, struct ctxp_str id); /* NULL: none */
/* The message of that id, made where there is none; NULL: out of memory. */
struct ctxp_message *ctxp_amnesia_make(struct ctxp_amnesia *window, struct ctxp_str id);
/* Sets what it answers and holds; calls that were stripped stay so. */
int ctxp_amnesia_define(struct ctxp_message *message, enum ctxp_role role, struct ctxp_str call, struct ctxp_list calls)
    __attribute__((warn_unused_result));
struct ctxp_message_call *ctxp_amnesia_call(struct ctxp_message *message, struct ctxp_str id); /* NULL: none */
int ctxp_amnesia_push(struct ctxp_amnesia *window, struct ctxp_message *message)
    __attribute__((warn_unused_result)); /* at the request's end */
/* Forgets the messages that are neither gone nor in the last request (all: nor that). */
void ctxp_amnesia_purge(struct ctxp_amnesia *window, bool all);
/* text: NULL or an own copy of `value`. -ENOMEM. */
int ctxp_amnesia_text(char **text, struct ctxp_str value) __attribute__((warn_unused_result));

/* ---- the steps of the stage ---- */
/* Judges a result (amnesia_judge.c): emits its tag, and those of the older results that it supersedes. */
int ctxp_amnesia_judge(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_event *ev)
    __attribute__((warn_unused_result));

/* Asks the model about a result, where it is the judge. */
int ctxp_amnesia_prepare(struct ctxp_stage *stage, const struct ctxp_event *ev) __attribute__((warn_unused_result));

struct ctxp_occasion { /* of a request */
  struct ctxp_str model;
  bool cold; /* the prompt cache holds nothing of it */
  bool applied; /* the agent waits for the answer */
  uint64_t ask; /* number of the event */
};
/* Removes what may go from a request that is about to be sent, and answers (amnesia_request.c). */
int ctxp_amnesia_context(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_context *context,
    const struct ctxp_occasion *occasion) __attribute__((warn_unused_result));
/* The same for the last `prompt`, in theory. */
int ctxp_amnesia_prompt(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_occasion *occasion)
    __attribute__((warn_unused_result));
/* An answer was not applied; what was removed is named in the last `prompt` (amnesia_regret.c). */
int ctxp_amnesia_missed(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_answer_missed *said)
    __attribute__((warn_unused_result));
int ctxp_amnesia_came_back(struct ctxp_stage *stage, struct ctxp_amnesia *window) __attribute__((warn_unused_result));
