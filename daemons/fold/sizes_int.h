/* What sizes.c (the state) and sizes_step.c (the rule) share. */
#pragma once
#include "fold/sizes.h"

/* A place's new size; what the message is known by follows. */
void ctxp_fold_sizes_set(struct ctxp_fold_sizes *z, uint32_t place, uint64_t size, uint64_t think);
/* X grows, behind the newest place, or shrinks, the newest first. */
int ctxp_fold_sizes_unseen(struct ctxp_fold_sizes *z, int64_t change) __attribute__((warn_unused_result));
/* All sizes and thinking become `total` together, in proportion. -ENOMEM. */
int ctxp_fold_sizes_scale(struct ctxp_fold_sizes *z, uint64_t total) __attribute__((warn_unused_result));
/* All sizes, U and X are of another tokenizer from here on. */
void ctxp_fold_sizes_convert(struct ctxp_fold_sizes *z, uint64_t factor, uint64_t before);
static inline uint64_t ctxp_fold_positive(int64_t value) { return value > 0 ? (uint64_t)value : 0; }
