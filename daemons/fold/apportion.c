#include <errno.h>
#include <stdlib.h>
#include "fold/fixed.h"

struct rest {
  ctxp_u128 left;
  size_t i;
};

static int larger_first(const void *a, const void *b) {
  const struct rest *x = a, *y = b;
  if (x->left != y->left) return x->left > y->left ? -1 : 1;
  return x->i < y->i ? -1 : x->i > y->i; /* a total order: the result does not depend on the sort */
}

int ctxp_fold_apportion(const ctxp_u128 *parts, size_t count, ctxp_u128 unit, uint64_t total, uint64_t *out) {
  uint64_t sum = 0;
  struct rest *rests = malloc((count ? count : 1) * sizeof(*rests));
  if (!rests) return -ENOMEM;
  for (size_t i = 0; i < count; i++) {
    out[i] = (uint64_t)(parts[i] / unit);
    rests[i] = (struct rest){parts[i] % unit, i};
    sum += out[i];
  }
  if (sum < total) qsort(rests, count, sizeof(*rests), larger_first);
  for (size_t i = 0; i < count && sum < total; i++, sum++) out[rests[i].i]++;
  free(rests);
  return 0;
}
