/* The writes of a window whose facts were offered, and what became of them. */
#pragma once
#include "base/hash.h"
#include "mechanisms/window.h"

enum { CTXP_WRITES_MAX = 4096 }; /* in one window; beyond them the oldest is forgotten */

enum ctxp_write_step { CTXP_WRITE_OFFERED,
  CTXP_WRITE_INJECTED,
  CTXP_WRITE_STRIPPED,
  CTXP_WRITE_LEFT /* its content stays where it is */ };

struct ctxp_written {
  UT_hash_handle hh;
  char *call, *path, *fact; /* NUL-terminated copies; the lengths: an id may hold a NUL */
  size_t call_len, path_len;
  uint64_t original_tokens, fact_tokens;
  uint64_t ask; /* number of the ask that set the step */
  char hash[CTXP_HASH_HEX];
  enum ctxp_write_step step;
  bool superseded; /* the file was written or edited again */
  bool by_model; /* the fact is a model's */
};
struct ctxp_writes {
  struct ctxp_window base;
  struct ctxp_written *all; /* by call, in the order of the results */
};
extern const struct ctxp_window_ops ctxp_writes_ops;

/* NULL: out of memory. */
struct ctxp_written *ctxp_written_new(struct ctxp_str call, struct ctxp_str path, struct ctxp_str fact);
struct ctxp_written *ctxp_written_free(struct ctxp_written *w);
struct ctxp_written *ctxp_writes_find(struct ctxp_writes *writes, struct ctxp_str call); /* NULL: none */
/* Takes w, also where it fails; a second result of the same call takes it over. */
int ctxp_writes_add(struct ctxp_writes *writes, struct ctxp_written *w) __attribute__((warn_unused_result));
void ctxp_writes_forget(struct ctxp_writes *writes, struct ctxp_written *w);
static inline struct ctxp_str ctxp_written_call(const struct ctxp_written *w) { return (struct ctxp_str){w->call, w->call_len}; }
static inline struct ctxp_str ctxp_written_path(const struct ctxp_written *w) { return (struct ctxp_str){w->path, w->path_len}; }
