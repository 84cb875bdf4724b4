/* A collector in a thread of its own, with its real store and stream, behind a small node in place of the runtime's: so that a
 * test can stop it at any point around a commit, and look at what is stored. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "bus/stream.h"
#include "collector/intake.h"
#include "runtime/node.h"

enum world_crash { /* where the next commit ends the collector, as a kill would */
  WORLD_RUN,
  WORLD_CRASH_BEFORE_COMMIT,
  WORLD_CRASH_BEFORE_ACK,
  WORLD_FAIL_COMMIT /* and go on */
};

#define WORLD_ENDED 2 /* of `running` */

struct world {
  char dir[64], endpoint[128], answers[128];
  atomic_int crash, stop, running, full, refused, aborted;
  atomic_ullong head;
  struct world_options {
    uint64_t max_event_bytes, answer_grace_ms, confirm_ms, client_days;
    const char *endpoint; /* NULL: ipc in dir */
    const char *secret_file, *clients_file;
    bool no_mechanisms;
  } options;
  char last_refusal[512];
  void *thread;
  pthread_mutex_t mutex; /* with `beat`: a round of the collector is over, or it has started or ended */
  pthread_cond_t beat;
  uint64_t rounds;
};

void world_make(struct world *w); /* the directory */
void world_start(struct world *w); /* returns when it listens; fails the test if it does not */
int world_try_start(struct world *w, struct ctxp_error *err);
void world_stop(struct world *w); /* ends it; commits nothing more */
bool world_ended(struct world *w); /* it crashed */
void world_wait_crash(struct world *w);
void world_wait_head(struct world *w, uint64_t head); /* fails the test after ten seconds */
void world_wait_round(struct world *w); /* a whole round that begins after this call */
void world_remove(struct world *w);

/* What is stored: "kind" or "kind:detail" of each event after the topology, joined by blanks. The collector must be stopped. */
const char *world_events(struct world *w);
/* The n-th stored event of that kind; fails the test if there is none. Borrows until the next call. */
struct ctxp_event world_event(struct world *w, enum ctxp_kind kind, unsigned n);
