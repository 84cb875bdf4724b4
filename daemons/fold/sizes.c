#include <errno.h>
#include <stdlib.h>
#include "fold/sizes_int.h"

static uint32_t at_most(uint64_t value) { return value > CTXP_FOLD_MAX_SIZE ? (uint32_t)CTXP_FOLD_MAX_SIZE : (uint32_t)value; }

static void touch(struct ctxp_fold_sizes *z, uint32_t place) { z->touch(z->touch_data, place); }

static void rebase(struct ctxp_fold_sizes *z) {
  int64_t base = z->x < 0 ? z->u + z->x : z->u;
  z->base = ctxp_fold_positive(base);
}

void ctxp_fold_sizes_set(struct ctxp_fold_sizes *z, uint32_t place, uint64_t size, uint64_t think) {
  struct ctxp_fold_weight *p = &z->places.at[place];
  struct ctxp_fold_known *known = &z->known.at[p->message];
  touch(z, place);
  z->resident -= (uint64_t)p->size + p->think;
  known->size = p->size = at_most(size);
  known->think = p->think = at_most(think);
  z->resident += (uint64_t)p->size + p->think;
}

/* ---- what no message shows ---- */
static int add_unseen(struct ctxp_fold_sizes *z, uint64_t tokens) {
  uint32_t top = z->places.count;
  if (tokens == 0) return 0;
  if (top == 0) return z->base_unseen += tokens, 0;
  struct ctxp_fold_weight *p = &z->places.at[top - 1];
  if (p->unseen == 0) {
    if (!ctxp_fold_grow(&z->unseen_at, sizeof(*z->unseen_at.at))) return -ENOMEM;
    z->unseen_at.at[z->unseen_at.count++] = top - 1;
  }
  touch(z, top - 1);
  p->unseen += tokens;
  return 0;
}

static void take_unseen(struct ctxp_fold_sizes *z, uint64_t tokens) {
  while (tokens && z->unseen_at.count) {
    uint32_t place = z->unseen_at.at[z->unseen_at.count - 1];
    struct ctxp_fold_weight *p = &z->places.at[place];
    uint64_t part = tokens < p->unseen ? tokens : p->unseen;
    touch(z, place);
    p->unseen -= part;
    tokens -= part;
    if (p->unseen == 0) z->unseen_at.count--;
  }
  z->base_unseen -= tokens;
}

int ctxp_fold_sizes_unseen(struct ctxp_fold_sizes *z, int64_t change) {
  uint64_t before = ctxp_fold_positive(z->x), after = ctxp_fold_positive(z->x + change);
  z->x += change;
  rebase(z);
  if (after < before) take_unseen(z, before - after);
  return after > before ? add_unseen(z, after - before) : 0;
}

/* ---- all at once ---- */
int ctxp_fold_sizes_scale(struct ctxp_fold_sizes *z, uint64_t total) {
  size_t count = (size_t)z->places.count * 2;
  uint64_t unit = z->resident, *out = NULL;
  ctxp_u128 *parts = NULL;
  if (unit == 0 || count == 0) return 0;
  parts = malloc(count * sizeof(*parts));
  out = malloc(count * sizeof(*out));
  int r = parts && out ? 0 : -ENOMEM;
  for (uint32_t i = 0; r == 0 && i < z->places.count; i++) {
    parts[2 * i] = (ctxp_u128)z->places.at[i].size * total;
    parts[2 * i + 1] = (ctxp_u128)z->places.at[i].think * total;
  }
  if (r == 0) r = ctxp_fold_apportion(parts, count, unit, total, out);
  for (uint32_t i = 0; r == 0 && i < z->places.count; i++) {
    if (z->places.at[i].sized == CTXP_FOLD_UNSIZED) continue; /* has none yet */
    ctxp_fold_sizes_set(z, i, out[2 * i], out[2 * i + 1]);
    z->places.at[i].sized = z->known.at[z->places.at[i].message].sized = CTXP_FOLD_ESTIMATED;
  }
  free(parts);
  free(out);
  return r;
}

void ctxp_fold_sizes_convert(struct ctxp_fold_sizes *z, uint64_t factor, uint64_t before) {
  uint64_t unseen = z->base_unseen = z->base_unseen * factor / before;
  if (z->places.count) touch(z, 0);
  for (uint32_t i = 0; i < z->known.count; i++) { /* also of what may come back */
    z->known.at[i].size = at_most(z->known.at[i].size * factor / before);
    z->known.at[i].think = at_most(z->known.at[i].think * factor / before);
  }
  for (uint32_t i = 0; i < z->places.count; i++) {
    struct ctxp_fold_weight *p = &z->places.at[i];
    const struct ctxp_fold_known *known = &z->known.at[p->message];
    if (p->sized) ctxp_fold_sizes_set(z, i, known->size, known->think);
    p->unseen = p->unseen * factor / before;
    unseen += p->unseen;
  }
  z->u = z->u * (int64_t)factor / (int64_t)before;
  z->x = z->x < 0 ? z->x * (int64_t)factor / (int64_t)before : (int64_t)unseen;
  rebase(z);
}

/* ---- in and out ---- */
static void cut_list(void *list, uint32_t keep) {
  struct {
    uint32_t *at, count, cap, dirty;
  } a; /* the form of every CTXP_FOLD_ARRAY */
  memcpy(&a, list, sizeof(a));
  while (a.count && a.at[a.count - 1] >= keep) a.count--;
  memcpy(list, &a, sizeof(a));
}

int ctxp_fold_sizes_cut(struct ctxp_fold_sizes *z, uint32_t keep) {
  uint64_t moved = 0;
  if (keep >= z->places.count) return 0;
  for (; z->places.count > keep; z->places.count--) {
    const struct ctxp_fold_weight *p = &z->places.at[z->places.count - 1];
    z->resident -= (uint64_t)p->size + p->think;
    moved += p->unseen;
    z->shrunk |= p->sized != CTXP_FOLD_UNSIZED;
  }
  cut_list(&z->pool, keep);
  cut_list(&z->turn, keep);
  cut_list(&z->unseen_at, keep);
  if (z->sized_to > keep) z->sized_to = keep;
  return add_unseen(z, moved); /* X is of the window, not of what stood before it */
}

int ctxp_fold_sizes_enter(struct ctxp_fold_sizes *z, const struct ctxp_fold_window *w, const struct ctxp_fold_residency *r) {
  const struct ctxp_fold_known nothing = {0};
  const struct ctxp_fold_message *m = &w->messages.at[r->message];
  while (z->known.count <= r->message) {
    if (!ctxp_fold_grow(&z->known, sizeof(*z->known.at))) return -ENOMEM;
    z->known.at[z->known.count++] = nothing;
  }
  if (!ctxp_fold_grow(&z->places, sizeof(*z->places.at))) return -ENOMEM;
  struct ctxp_fold_weight *p = &z->places.at[z->places.count];
  *p = (struct ctxp_fold_weight){.message = r->message, .band = (uint8_t)ctxp_fold_band(w, r)};
  z->places.count++;
  if (z->by_estimate) {
    p->sized = z->known.at[r->message].sized = CTXP_FOLD_ESTIMATED;
    ctxp_fold_sizes_set(z, z->places.count - 1, m->tokens, 0);
  }
  return 0;
}

void ctxp_fold_sizes_deinit(struct ctxp_fold_sizes *z) {
  free(z->places.at);
  free(z->known.at);
  free(z->pool.at);
  free(z->turn.at);
  free(z->unseen_at.at);
  free(z->models.at);
}
