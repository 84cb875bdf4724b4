/* Which messages of a request go. Pure: a view of the request in, marks on it out. */
#pragma once
#include <stddef.h>
#include "ctxpipe/event.h"

struct ctxp_view_call {
  struct ctxp_str id;
  uint64_t tokens;
  bool candidate; /* its result may go */
  bool gone; /* stripped in an earlier request, and so in this one */
  bool strip; /* mark: stripped from now on */
};
struct ctxp_view { /* one message */
  struct ctxp_str id, call; /* call: the one that it answers */
  enum ctxp_role role;
  bool has_text;
  uint64_t tokens;
  struct ctxp_view_call *calls;
  size_t call_count;
  bool candidate; /* a result that may go */
  bool seen; /* an earlier request carried it */
  bool gone; /* removed in an earlier request, and so from this one */
  bool remove; /* mark: removed from now on */
};
struct ctxp_request {
  struct ctxp_view *at;
  size_t count;
};
struct ctxp_economics {
  bool cold; /* the prompt cache holds nothing of the request: whatever may go goes */
  int64_t read, write; /* price of a token read from and written to the cache, in any unit; -1: unknown, only a cold cache removes */
  uint64_t turns, runs; /* turns / runs, at least 1, more requests are expected to carry what stays */
};

/* The maximal suffix of candidates and of assistant messages that hold nothing but their calls. lone_calls: such a message goes
 * also where a result is not there yet. */
void ctxp_removal_tail(struct ctxp_request *request, bool lone_calls);
/* Candidates anywhere that a request has carried: all where the cache is cold, else those, from one on to the last, by which most
 * is won; none where nothing is won. */
void ctxp_removal_seen(struct ctxp_request *request, const struct ctxp_economics *economics);

struct ctxp_removal {
  size_t messages;
  uint64_t saved, stripped_tokens;
};
struct ctxp_removal ctxp_removal_sum(const struct ctxp_request *request);
