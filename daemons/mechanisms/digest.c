/* Two passes over the text. The first picks candidates: lines that must survive, in three groupings (each by itself, equal ones
 * together, same-shaped ones together), and a bounded number of others, each with a rank. Then the finest grouping that fits is
 * taken and filled up by rank. The second pass reads only the gaps between the chosen lines, to say what is in them. */
#include <errno.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/map.h"
#include "mechanisms/digest.h"
#include "mechanisms/digest_lines.h"
#include "mechanisms/digest_picks.h"

enum {
  HEAD_LINES = 12, /* of the output */
  TAIL_LINES = 16,
  BEFORE = 2, /* of a line that must survive */
  AFTER = 3,
  CONTEXT_MAX = 400,
  WARNINGS_MAX = 60,
  TOTALS_MAX = 60,
  KINDS_MAX = 60,
  NOISE_MAX = 12,
  REPEATS_MAX = 12,
  KINDS_SEEN = 4096, /* shapes told apart when looking for new ones */
  MEMBERS_MAX = 64, /* distinct lines of one shape that are told apart */
  MISSES_MAX = 40 /* lines that did not fit, until no more are tried */
};

enum grouping { EACH,
  EQUAL,
  SHAPED,
  GROUPINGS };

struct group {
  UT_hash_handle hh;
  uint64_t key;
  unsigned members; /* of a shape: distinct lines, at most MEMBERS_MAX + 1 */
  struct ctxp_pick pick;
};
struct groups {
  struct group *map;
  size_t units;
  bool overflow; /* above the hard limit already: not to be used */
};
struct digest {
  struct ctxp_outline outline;
  struct ctxp_digest_limits limits;
  struct ctxp_matcher matcher;
  struct ctxp_hunk hunk;
  struct groups must[GROUPINGS];
  struct ctxp_picks others, tail; /* tail: a ring of the last TAIL_LINES */
  struct group *kinds;
  size_t first_must;
  size_t owner; /* offset of the last line that must survive */
  uint64_t shown; /* not blank, so far */
  struct ctxp_pick before[BEFORE];
  unsigned after, taken[CTXP_RANK_REPEAT + 1];
  uint64_t above; /* shape of the last line */
};

/* ---- collecting ---- */
static int push(struct ctxp_picks *picks, const struct ctxp_pick *pick) {
  if (picks->count == picks->cap) {
    size_t cap = picks->cap ? picks->cap * 2 : 64;
    struct ctxp_pick *grown = realloc(picks->at, cap * sizeof(*grown));
    if (!grown) return -ENOMEM;
    picks->at = grown;
    picks->cap = cap;
  }
  picks->at[picks->count++] = *pick;
  return 0;
}

static int take(struct digest *d, struct ctxp_pick pick, enum ctxp_rank rank, unsigned max) {
  if (d->taken[rank] >= max) return 0;
  d->taken[rank]++;
  pick.rank = rank;
  return push(&d->others, &pick);
}

static void drop_groups(struct group **map) {
  struct group *one, *next;
  for (one = *map; one; one = next) {
    next = one->hh.next;
    HASH_DEL(*map, one);
    free(one);
  }
}

static int new_group(struct group **map, uint64_t key, const struct ctxp_pick *pick) {
  struct group *group = calloc(1, sizeof(*group));
  if (!group) return -ENOMEM;
  group->key = key;
  group->pick = *pick;
  ctxp_map_failed = false;
  HASH_ADD(hh, *map, key, sizeof(key), group);
  if (!ctxp_map_failed) return 0;
  free(group);
  return -ENOMEM;
}

/* 1: the key was there */
static int add_must(struct digest *d, enum grouping grouping, uint64_t key, const struct ctxp_pick *pick) {
  struct groups *groups = &d->must[grouping];
  struct group *group;
  HASH_FIND(hh, groups->map, &key, sizeof(key), group);
  if (group) {
    group->pick.count++;
    group->pick.last_line = pick->line;
    return 1;
  }
  groups->units += pick->units;
  return new_group(&groups->map, key, pick);
}

static void overflow(struct groups *groups) {
  groups->overflow = true;
  drop_groups(&groups->map);
}

/* Bounded: EACH and SHAPED by the hard limit, EQUAL by SHAPED and the members of a shape. */
static int add_to_groups(struct digest *d, const struct ctxp_pick *pick, struct ctxp_str text) {
  struct group *shape;
  int r = 0;
  if (d->must[SHAPED].overflow) return 0; /* nothing will fit */
  if (!d->must[EACH].overflow && (r = add_must(d, EACH, pick->offset, pick)) < 0) return r;
  if (d->must[EACH].units > d->limits.hard) overflow(&d->must[EACH]);
  if ((r = add_must(d, SHAPED, pick->shape, pick)) < 0) return r;
  if (d->must[SHAPED].units > d->limits.hard) {
    overflow(&d->must[SHAPED]);
    overflow(&d->must[EQUAL]);
    return 0;
  }
  HASH_FIND(hh, d->must[SHAPED].map, &pick->shape, sizeof(pick->shape), shape);
  if (!shape || shape->members > MEMBERS_MAX) return 0;
  if ((r = add_must(d, EQUAL, ctxp_hash64(text.ptr, text.len, 0), pick)) == 0) shape->members++;
  return r < 0 ? r : 0;
}

static int must(struct digest *d, const struct ctxp_pick *pick, struct ctxp_str text) {
  if (d->first_must == SIZE_MAX) d->first_must = pick->offset;
  int r = 0;
  for (unsigned i = 0; i < BEFORE && r == 0; i++)
    if (d->before[i].units) {
      d->before[i].owner = pick->offset;
      r = take(d, d->before[i], CTXP_RANK_CONTEXT, CONTEXT_MAX);
      d->before[i].units = 0;
    }
  d->after = AFTER;
  d->owner = pick->offset;
  return r ? r : add_to_groups(d, pick, text);
}

/* a shape that was not there before; 1: it is new */
static int new_kind(struct digest *d, const struct ctxp_pick *pick) {
  struct group *group;
  if (HASH_COUNT(d->kinds) >= KINDS_SEEN) return 0;
  HASH_FIND(hh, d->kinds, &pick->shape, sizeof(pick->shape), group);
  if (group) return 0;
  int r = new_group(&d->kinds, pick->shape, pick);
  return r < 0 ? r : 1;
}

static int other(struct digest *d, const struct ctxp_pick *pick, enum ctxp_line_class class) {
  int r = 0, new = new_kind(d, pick);
  if (new < 0) return new;
  if (d->after) {
    struct ctxp_pick context = *pick;
    context.owner = d->owner;
    d->after--;
    if (pick->shape != d->above) r = take(d, context, CTXP_RANK_CONTEXT, CONTEXT_MAX);
  } else {
    if (pick->shape != d->above) d->before[0] = d->before[1];
    d->before[1] = *pick;
  }
  if (pick->shape == d->above) return r == 0 && class != CTXP_LINE_NOISE ? take(d, *pick, CTXP_RANK_REPEAT, REPEATS_MAX) : r;
  if (r == 0 && d->shown <= HEAD_LINES) r = take(d, *pick, d->shown <= 2 ? CTXP_RANK_FIRST : CTXP_RANK_HEAD, HEAD_LINES);
  if (r < 0 || !new) return r;
  switch (class) {
  case CTXP_LINE_WARNING: return take(d, *pick, CTXP_RANK_WARNING, WARNINGS_MAX);
  case CTXP_LINE_TOTAL: return take(d, *pick, CTXP_RANK_TOTAL, TOTALS_MAX);
  case CTXP_LINE_NOISE: return take(d, *pick, CTXP_RANK_NOISE, NOISE_MAX);
  case CTXP_LINE_NORMAL:
  case CTXP_LINE_MUST:
  default: return take(d, *pick, CTXP_RANK_KIND, KINDS_MAX);
  }
}

/* the last lines; of a run of one shape its first and its last */
static void to_tail(struct digest *d, const struct ctxp_pick *pick) {
  size_t count = d->tail.count;
  bool run = count > 1 && !pick->must && d->tail.at[(count - 1) % TAIL_LINES].shape == pick->shape &&
      d->tail.at[(count - 2) % TAIL_LINES].shape == pick->shape;
  if (!run) d->tail.count++;
  d->tail.at[(d->tail.count - 1) % TAIL_LINES] = *pick;
}

/* inside of a hunk of a diff lines are what they quote */
static enum ctxp_line_class classify(struct digest *d, struct ctxp_str line) {
  if (ctxp_hunk_quotes(&d->hunk, line)) return CTXP_LINE_NORMAL;
  return ctxp_line_classify(&d->matcher, line);
}

static int collect(struct digest *d) {
  ctxp_cleanup(ctxp_digest_lines_deinit) struct ctxp_lines lines;
  struct ctxp_line line;
  int r;
  ctxp_digest_lines_init(&lines, d->outline.text);
  while ((r = ctxp_digest_lines_next(&lines, &line)) > 0) {
    d->outline.lines = line.number;
    if (ctxp_str_blank(line.text)) {
      if (!line.overwritten) ctxp_hunk_quotes(&d->hunk, line.text);
      continue;
    }
    enum ctxp_line_class class = classify(d, line.text);
    if (line.overwritten && class != CTXP_LINE_MUST) continue;
    struct ctxp_pick pick = {.offset = line.offset,
        .len = line.len,
        .line = line.number,
        .shape = ctxp_line_shape(line.text),
        .count = 1,
        .last_line = line.number};
    size_t units = ctxp_utf16_units(line.text);
    d->shown++;
    pick.must = class == CTXP_LINE_MUST;
    pick.units = (pick.must ? units : ctxp_pick_units(units)) + 1;
    r = pick.must ? must(d, &pick, line.text) : other(d, &pick, class);
    if (r < 0) return r;
    to_tail(d, &pick);
    d->above = pick.shape;
  }
  return r;
}

/* ---- choosing ---- */
static int by_offset(const void *a, const void *b) {
  const struct ctxp_pick *p = a, *q = b;
  return (p->offset > q->offset) - (p->offset < q->offset);
}
static size_t away(const struct ctxp_pick *context) {
  return context->offset > context->owner ? context->offset - context->owner : context->owner - context->offset;
}
static int by_rank(const void *a, const void *b) {
  const struct ctxp_pick *p = a, *q = b;
  if (p->rank != q->rank) return p->rank < q->rank ? -1 : 1;
  if (p->rank == CTXP_RANK_CONTEXT && away(p) != away(q)) return away(p) < away(q) ? -1 : 1;
  return p->rank == CTXP_RANK_TAIL || p->rank == CTXP_RANK_LAST ? by_offset(b, a) : by_offset(a, b); /* from the end backwards */
}

/* inserts in the order of the text; 1: it is there already */
static int insert(struct ctxp_picks *chosen, const struct ctxp_pick *pick) {
  size_t i = chosen->count;
  while (i && chosen->at[i - 1].offset > pick->offset) i--;
  if (i && chosen->at[i - 1].offset == pick->offset) return 1;
  int r = push(chosen, pick);
  if (r < 0) return r;
  memmove(chosen->at + i + 1, chosen->at + i, (chosen->count - 1 - i) * sizeof(*pick));
  chosen->at[i] = *pick;
  return 0;
}

static void take_out(struct ctxp_picks *chosen, size_t offset) {
  size_t i = 0;
  while (chosen->at[i].offset != offset) i++;
  memmove(chosen->at + i, chosen->at + i + 1, (--chosen->count - i) * sizeof(*chosen->at));
}

static int choose_from(const struct digest *d, enum grouping grouping, unsigned members, struct ctxp_picks *chosen) {
  struct group *shape;
  chosen->count = 0;
  for (const struct group *group = d->must[grouping].map; group; group = group->hh.next) {
    HASH_FIND(hh, d->must[SHAPED].map, &group->pick.shape, sizeof(group->pick.shape), shape);
    bool folded = grouping != EACH && shape && shape->members > members;
    int r = folded ? 0 : push(chosen, &group->pick);
    if (r < 0) return r;
  }
  for (const struct group *group = grouping == EACH ? NULL : d->must[SHAPED].map; group; group = group->hh.next) {
    int r = group->members > members ? push(chosen, &group->pick) : 0;
    if (r < 0) return r;
  }
  if (chosen->count) qsort(chosen->at, chosen->count, sizeof(*chosen->at), by_offset);
  return 0;
}

/* of the folded shapes as many more lines as fit */
static int unfold(const struct digest *d, struct ctxp_picks *chosen) {
  unsigned misses = 0;
  for (const struct group *group = d->must[EQUAL].map; group && misses < MISSES_MAX; group = group->hh.next) {
    int r = insert(chosen, &group->pick);
    if (r < 0) return r;
    if (r == 1 || ctxp_picks_cost(&d->outline, chosen) <= d->limits.firm) continue;
    take_out(chosen, group->pick.offset);
    misses++;
  }
  return 0;
}

/* What must survive, folded as little as fits below the limit: each line, else equal ones in one, else the shapes with most members
 * first; 1: not even one line of each shape fits. */
static int choose_below(struct digest *d, size_t limit, struct ctxp_picks *chosen) {
  if (!d->must[EACH].overflow) {
    bool repeats = HASH_COUNT(d->must[EQUAL].map) < HASH_COUNT(d->must[EACH].map);
    int r = choose_from(d, EACH, 0, chosen);
    if (r < 0 || ctxp_picks_cost(&d->outline, chosen) <= (repeats && d->limits.soft < limit ? d->limits.soft : limit)) return r;
  }
  for (unsigned members = MEMBERS_MAX; members; members /= 2) {
    int r = choose_from(d, EQUAL, members, chosen);
    if (r < 0) return r;
    for (int compact = 0; compact < 2; compact++) {
      d->outline.compact = compact;
      if (ctxp_picks_cost(&d->outline, chosen) <= limit) return unfold(d, chosen);
    }
  }
  return 1;
}

static int choose_must(struct digest *d, struct ctxp_picks *chosen) {
  if (d->must[SHAPED].overflow) return 1;
  int r = choose_below(d, d->limits.firm, chosen);
  return r == 1 ? choose_below(d, d->limits.hard, chosen) : r;
}

static bool chosen_at(const struct ctxp_picks *chosen, size_t offset) {
  size_t low = 0, high = chosen->count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (chosen->at[mid].offset == offset) return true;
    if (chosen->at[mid].offset < offset)
      low = mid + 1;
    else
      high = mid;
  }
  return false;
}

static int fill(struct digest *d, struct ctxp_picks *chosen) {
  size_t tail = d->tail.count < TAIL_LINES ? d->tail.count : TAIL_LINES;
  for (size_t i = 0; i < tail; i++) {
    struct ctxp_pick pick = d->tail.at[(d->tail.count - 1 - i) % TAIL_LINES];
    int r = pick.must ? 0 : take(d, pick, i == 0 ? CTXP_RANK_END : i < 3 ? CTXP_RANK_LAST :
                                                                           CTXP_RANK_TAIL,
                                TAIL_LINES);
    if (r < 0) return r;
  }
  if (d->others.count) qsort(d->others.at, d->others.count, sizeof(*d->others.at), by_rank);
  size_t misses = 0;
  for (size_t i = 0; i < d->others.count && misses < MISSES_MAX; i++) {
    const struct ctxp_pick *pick = &d->others.at[i];
    if (pick->rank == CTXP_RANK_CONTEXT && !chosen_at(chosen, pick->owner)) continue; /* of a line that was folded */
    int r = insert(chosen, pick);
    if (r < 0) return r;
    size_t limit = pick->rank == CTXP_RANK_END ? d->limits.hard : d->limits.soft;
    if (r == 1 || ctxp_picks_cost(&d->outline, chosen) <= limit) continue;
    take_out(chosen, pick->offset);
    misses++;
  }
  return 0;
}

static int make(struct digest *d, struct ctxp_picks *chosen, struct ctxp_str head, struct ctxp_buf *out) {
  size_t head_units = ctxp_utf16_units(head) + 1;
  d->tail.at = calloc(TAIL_LINES, sizeof(*d->tail.at));
  if (!d->tail.at) return -ENOMEM;
  bool room = head_units < d->limits.hard;
  d->limits.hard = room ? d->limits.hard - head_units : 0;
  d->limits.firm = d->limits.firm < d->limits.hard ? d->limits.firm : d->limits.hard;
  d->limits.soft = d->limits.soft > head_units ? d->limits.soft - head_units : 0;
  int r = collect(d);
  if (r == 0) r = room ? choose_must(d, chosen) : 1;
  if (r == 0) r = fill(d, chosen);
  if (r) return r;
  ctxp_buf_add(out, head.ptr, head.len);
  ctxp_buf_char(out, '\n');
  r = ctxp_picks_write(&d->outline, chosen, out);
  if (r == 0 && out->len && out->ptr[out->len - 1] == '\n') out->len--;
  return r;
}

int ctxp_digest_make(
    struct ctxp_str text, struct ctxp_str head, struct ctxp_digest_limits limits, struct ctxp_buf *out, struct ctxp_digest *ret_digest) {
  struct digest d = {.outline = {.text = text}, .limits = limits, .first_must = SIZE_MAX};
  struct ctxp_picks chosen = {0};
  ctxp_matcher_init(&d.matcher);
  int r = make(&d, &chosen, head, out);
  *ret_digest = (struct ctxp_digest){.lines = d.outline.lines, .first_must = d.first_must};
  for (unsigned i = 0; i < GROUPINGS; i++) drop_groups(&d.must[i].map);
  drop_groups(&d.kinds);
  free(d.others.at);
  free(d.tail.at);
  free(chosen.at);
  return r;
}
