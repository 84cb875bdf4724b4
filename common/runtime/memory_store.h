/* A stage's store in memory, ordered by key as the one on disk: for the offline replay. */
#pragma once
#include "base/buf.h"

struct ctxp_memory_store;
struct ctxp_memory_store *ctxp_memory_store_new(void);
struct ctxp_memory_store *ctxp_memory_store_free(struct ctxp_memory_store *store);
int ctxp_memory_store_put(struct ctxp_memory_store *store, struct ctxp_raw key, struct ctxp_raw value) __attribute__((warn_unused_result));
void ctxp_memory_store_del(struct ctxp_memory_store *store, struct ctxp_raw key);
/* 1: not there. The value is borrowed until the next put or del. */
int ctxp_memory_store_get(struct ctxp_memory_store *store, struct ctxp_raw key, struct ctxp_raw *ret_value)
    __attribute__((warn_unused_result));
/* As ctxp_stage_each; `visit` may put and del. */
int ctxp_memory_store_each(struct ctxp_memory_store *store, struct ctxp_raw prefix,
    int (*visit)(void *data, struct ctxp_raw key, struct ctxp_raw value), void *data) __attribute__((warn_unused_result));
