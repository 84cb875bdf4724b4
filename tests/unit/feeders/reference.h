/* A small fold by the book, for tests: what the events of an import add up to. Doubles, everything in memory. */
#pragma once
#include "feeders/import.h"

struct ref_message {
  char *id, *band, *tool, *label;
  uint64_t tokens;
  bool defined;
};
struct ref_window {
  char *session, *thread;
  struct ref_message **items; /* of the last request */
  unsigned count;
  struct ref_message **known;
  unsigned known_count;
  unsigned starts, ends, turns, turn_ends, agents, agent_ends, results;
};
struct ref_prompt {
  char *call;
  struct ref_window *window;
  struct ref_message **items;
  unsigned count;
  uint64_t input, read, write_5m, write_1h, output;
  int64_t input_nano, total_nano;
  bool bills; /* the first of its call */
};
struct ref {
  struct ref_window **windows;
  unsigned window_count;
  struct ref_prompt *prompts;
  unsigned prompt_count, prompt_cap;
  uint64_t events, last_seq, position; /* of the file at hand */
  char keys[400][200];
  uint64_t positions[400];
  unsigned key_count, at;
  unsigned settled; /* for tests */
  unsigned misplaced; /* events whose number is not above the one before */
  uint64_t stop_after; /* fails after so many events; 0: never */
  int (*watch)(void *data, const struct ctxp_event *event, uint64_t seq);
  void *watch_data;
};
struct ref_sum {
  uint64_t calls, input, read, write, write_1h, output;
  int64_t input_nano, total_nano;
};
struct ref_share {
  char key[512];
  double billed;
};

void ref_init(struct ref *ref, struct ctxp_import_sink *ret_sink);
void ref_deinit(struct ref *ref);
/* thread NULL: all but `side`; session NULL: all */
struct ref_sum ref_totals(const struct ref *ref, const char *session, const char *thread);
/* Billed tokens by band, tool or view label ('b', 't', 'v'), over the plain split. Returns how many. */
unsigned ref_shares(const struct ref *ref, const char *session, const char *thread, char grain, struct ref_share *ret, unsigned cap);
