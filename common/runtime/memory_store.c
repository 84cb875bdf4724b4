/* A treap whose priorities are hashes of the keys: balanced whatever the order of the keys, and the same in every run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "runtime/memory_store.h"

struct pair {
  struct pair *left, *right;
  uint64_t priority;
  struct ctxp_buf key, value;
};
struct ctxp_memory_store {
  struct pair *root;
};

static int compare(struct ctxp_raw a, struct ctxp_raw b) {
  size_t common = a.len < b.len ? a.len : b.len;
  int r = common ? memcmp(a.ptr, b.ptr, common) : 0;
  return r ? r : (a.len > b.len) - (a.len < b.len);
}

struct ctxp_memory_store *ctxp_memory_store_new(void) {
  return calloc(1, sizeof(struct ctxp_memory_store));
}

static void pair_free(struct pair *pair) {
  ctxp_buf_deinit(&pair->key);
  ctxp_buf_deinit(&pair->value);
  free(pair);
}

struct ctxp_memory_store *ctxp_memory_store_free(struct ctxp_memory_store *store) {
  if (!store) return NULL;
  for (struct pair *at = store->root; at;) { /* rotates left children up, so that no stack is needed */
    struct pair *left = at->left;
    if (left) {
      at->left = left->right;
      left->right = at;
      at = left;
      continue;
    }
    struct pair *right = at->right;
    pair_free(at);
    at = right;
  }
  free(store);
  return NULL;
}

static struct pair **find(struct ctxp_memory_store *store, struct ctxp_raw key) {
  struct pair **at = &store->root;
  int r;
  while (*at && (r = compare(key, ctxp_buf_raw(&(*at)->key))) != 0) at = r < 0 ? &(*at)->left : &(*at)->right;
  return at;
}

/* splits a tree into what is below the key and what is above; the key itself is not in it */
static void split(struct pair *tree, struct ctxp_raw key, struct pair **ret_below, struct pair **ret_above) {
  while (tree) {
    if (compare(ctxp_buf_raw(&tree->key), key) < 0) {
      *ret_below = tree;
      ret_below = &tree->right;
      tree = tree->right;
    } else {
      *ret_above = tree;
      ret_above = &tree->left;
      tree = tree->left;
    }
  }
  *ret_below = *ret_above = NULL;
}

static void insert(struct ctxp_memory_store *store, struct pair *pair) {
  struct ctxp_raw key = ctxp_buf_raw(&pair->key);
  struct pair **at = &store->root;
  while (*at && (*at)->priority >= pair->priority) at = compare(key, ctxp_buf_raw(&(*at)->key)) < 0 ? &(*at)->left : &(*at)->right;
  split(*at, key, &pair->left, &pair->right);
  *at = pair;
}

int ctxp_memory_store_put(struct ctxp_memory_store *store, struct ctxp_raw key, struct ctxp_raw value) {
  struct pair *pair = *find(store, key);
  if (pair) {
    ctxp_buf_reset(&pair->value);
    ctxp_buf_add(&pair->value, value.ptr, value.len);
    return ctxp_buf_error(&pair->value);
  }
  if (!(pair = calloc(1, sizeof(*pair)))) return -ENOMEM;
  pair->priority = ctxp_hash64(key.ptr, key.len, 0);
  ctxp_buf_add(&pair->key, key.ptr, key.len);
  ctxp_buf_add(&pair->value, value.ptr, value.len);
  if (ctxp_buf_error(&pair->key) < 0 || ctxp_buf_error(&pair->value) < 0) {
    pair_free(pair);
    return -ENOMEM;
  }
  insert(store, pair);
  return 0;
}

void ctxp_memory_store_del(struct ctxp_memory_store *store, struct ctxp_raw key) {
  struct pair **at = find(store, key), *gone = *at;
  if (!gone) return;
  struct pair *left = gone->left, *right = gone->right;
  while (left && right) { /* joins the two */
    struct pair **side = left->priority >= right->priority ? &left : &right;
    *at = *side;
    if (side == &left) {
      at = &left->right;
      left = left->right;
    } else {
      at = &right->left;
      right = right->left;
    }
  }
  *at = left ? left : right;
  pair_free(gone);
}

int ctxp_memory_store_get(struct ctxp_memory_store *store, struct ctxp_raw key, struct ctxp_raw *ret_value) {
  const struct pair *pair = *find(store, key);
  if (!pair) return 1;
  *ret_value = ctxp_buf_raw(&pair->value);
  return 0;
}

/* the first pair at the key or (after) behind it */
static const struct pair *next_of(const struct ctxp_memory_store *store, struct ctxp_raw key, bool after) {
  const struct pair *best = NULL;
  for (const struct pair *at = store->root; at;) {
    int r = compare(ctxp_buf_raw(&at->key), key);
    if (r > 0 || (r == 0 && !after)) {
      best = at;
      at = at->left;
    } else {
      at = at->right;
    }
  }
  return best;
}

int ctxp_memory_store_each(struct ctxp_memory_store *store, struct ctxp_raw prefix,
    int (*visit)(void *data, struct ctxp_raw key, struct ctxp_raw value), void *data) {
  ctxp_auto_buf own = {0}, key = {0}, value = {0};
  const struct pair *pair;
  ctxp_buf_add(&own, prefix.ptr, prefix.len);
  ctxp_buf_add(&key, prefix.ptr, prefix.len);
  for (bool after = false; (pair = next_of(store, ctxp_buf_raw(&key), after)) != NULL; after = true) {
    if (pair->key.len < own.len || (own.len && memcmp(pair->key.ptr, own.ptr, own.len) != 0)) return 0;
    ctxp_buf_reset(&key);
    ctxp_buf_add(&key, pair->key.ptr, pair->key.len);
    ctxp_buf_reset(&value);
    ctxp_buf_add(&value, pair->value.ptr, pair->value.len);
    if (ctxp_buf_error(&own) < 0 || ctxp_buf_error(&key) < 0 || ctxp_buf_error(&value) < 0) return -ENOMEM;
    int r = visit(data, ctxp_buf_raw(&key), ctxp_buf_raw(&value));
    if (r) return r;
  }
  return 0;
}
