/* Two passes over the text. The first picks candidates: lines that must survive, in three groupings (each by itself, equal ones
 * together, same-shaped ones together), and a bounded number of others, each with a rank. Then the finest grouping that fits is
 * taken and filled up by rank. The second pass reads only the gaps between the chosen lines, to say what is in them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/map.h"
#include "mechanisms/digest.h"
#include "mechanisms/digest_lines.h"

enum {
  HEAD_LINES = 12, TAIL_LINES = 16, BEFORE = 2, AFTER = 3, /* kept around: the output, a line that must survive */
  CONTEXT_MAX = 400, WARNINGS_MAX = 60, TOTALS_MAX = 60, KINDS_MAX = 60, NOISE_MAX = 12, REPEATS_MAX = 12,
  KINDS_SEEN = 4096, /* shapes told apart when looking for new ones */
  CUT_UNITS = 300, CUT_HEAD = 200, CUT_TAIL = 60 /* a line that need not survive is shown cut above the first */
};

enum grouping { EACH, EQUAL, SHAPED, GROUPINGS };
enum { MEMBERS_MAX = 64, /* distinct lines of one shape that are told apart */ MISSES_MAX = 40 /* lines that did not fit, until no more are tried */ };
enum rank { RANK_LAST, RANK_FIRST, RANK_CONTEXT, RANK_TOTAL, RANK_WARNING, RANK_TAIL, RANK_HEAD, RANK_KIND, RANK_NOISE, RANK_REPEAT /* of the shape of the line above it */ };

struct pick {
  size_t offset, len, units; /* units: as it will be shown, its newline included */
  uint64_t line, shape;
  enum rank rank;
  bool must;
  size_t owner;              /* of context: offset of the line that it belongs to */
  uint64_t count, last_line; /* of the lines folded into this one; count 1: none */
};
struct group {
  UT_hash_handle hh;
  uint64_t key;
  unsigned members; /* of a shape: distinct lines, at most MEMBERS_MAX + 1 */
  struct pick pick;
};
struct groups {
  struct group *map;
  size_t units;
  bool overflow; /* above the hard limit already: not to be used */
};
struct picks {
  struct pick *at;
  size_t count, cap;
};
struct digest {
  struct ctxp_str text;
  struct ctxp_digest_limits limits;
  struct ctxp_matcher matcher;
  struct ctxp_hunk hunk;
  struct groups must[GROUPINGS];
  struct picks others, tail; /* tail: a ring of the last TAIL_LINES */
  struct group *kinds;
  size_t first_must;
  size_t owner; /* offset of the last line that must survive */
  uint64_t lines, shown; /* shown: not blank, so far */
  struct pick before[BEFORE];
  bool compact; /* gaps are marked by their lines' number alone */
  unsigned after, taken[RANK_REPEAT + 1];
  uint64_t above; /* shape of the last line */
};

/* ---- collecting ---- */
static int push(struct picks *picks, const struct pick *pick) {
  if (picks->count == picks->cap) {
    size_t cap = picks->cap ? picks->cap * 2 : 64;
    struct pick *grown = realloc(picks->at, cap * sizeof(*grown));
    if (!grown) return -ENOMEM;
    picks->at = grown;
    picks->cap = cap;
  }
  picks->at[picks->count++] = *pick;
  return 0;
}

static int take(struct digest *d, struct pick pick, enum rank rank, unsigned max) {
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

static int new_group(struct group **map, uint64_t key, const struct pick *pick) {
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

static size_t fold_text(const struct pick *pick, char ret_text[128]) {
  return (size_t)snprintf(ret_text, 128, "\xe2\x80\xa6 %" PRIu64 " like the line above, lines %" PRIu64 "-%" PRIu64 " \xe2\x80\xa6", pick->count - 1, pick->line, pick->last_line);
}

/* 1: the key was there */
static int add_must(struct digest *d, enum grouping grouping, uint64_t key, const struct pick *pick) {
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
static int add_to_groups(struct digest *d, const struct pick *pick, struct ctxp_str text) {
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

static int must(struct digest *d, const struct pick *pick, struct ctxp_str text) {
  if (d->first_must == SIZE_MAX) d->first_must = pick->offset;
  int r = 0;
  for (unsigned i = 0; i < BEFORE && r == 0; i++)
    if (d->before[i].units) {
      d->before[i].owner = pick->offset;
      r = take(d, d->before[i], RANK_CONTEXT, CONTEXT_MAX);
      d->before[i].units = 0;
    }
  d->after = AFTER;
  d->owner = pick->offset;
  return r ? r : add_to_groups(d, pick, text);
}

/* a shape that was not there before; 1: it is new */
static int new_kind(struct digest *d, const struct pick *pick) {
  struct group *group;
  if (HASH_COUNT(d->kinds) >= KINDS_SEEN) return 0;
  HASH_FIND(hh, d->kinds, &pick->shape, sizeof(pick->shape), group);
  if (group) return 0;
  int r = new_group(&d->kinds, pick->shape, pick);
  return r < 0 ? r : 1;
}

static int other(struct digest *d, const struct pick *pick, enum ctxp_line_class class) {
  int r = 0, new = new_kind(d, pick);
  if (new < 0) return new;
  if (d->after) {
    struct pick context = *pick;
    context.owner = d->owner;
    d->after--;
    if (pick->shape != d->above) r = take(d, context, RANK_CONTEXT, CONTEXT_MAX);
  } else {
    if (pick->shape != d->above) d->before[0] = d->before[1];
    d->before[1] = *pick;
  }
  if (pick->shape == d->above) return r == 0 && class != CTXP_LINE_NOISE ? take(d, *pick, RANK_REPEAT, REPEATS_MAX) : r;
  if (r == 0 && d->shown <= HEAD_LINES) r = take(d, *pick, d->shown <= 2 ? RANK_FIRST : RANK_HEAD, HEAD_LINES);
  if (r < 0 || !new) return r;
  switch (class) {
  case CTXP_LINE_WARNING: return take(d, *pick, RANK_WARNING, WARNINGS_MAX);
  case CTXP_LINE_TOTAL: return take(d, *pick, RANK_TOTAL, TOTALS_MAX);
  case CTXP_LINE_NOISE: return take(d, *pick, RANK_NOISE, NOISE_MAX);
  case CTXP_LINE_NORMAL: case CTXP_LINE_MUST: default: return take(d, *pick, RANK_KIND, KINDS_MAX);
  }
}

/* the last lines; of a run of one shape its first and its last */
static void to_tail(struct digest *d, const struct pick *pick) {
  size_t count = d->tail.count;
  bool run = count > 1 && !pick->must && d->tail.at[(count - 1) % TAIL_LINES].shape == pick->shape && d->tail.at[(count - 2) % TAIL_LINES].shape == pick->shape;
  if (!run) d->tail.count++;
  d->tail.at[(d->tail.count - 1) % TAIL_LINES] = *pick;
}

static size_t shown_units(size_t units) { return units > CUT_UNITS ? CUT_HEAD + CUT_TAIL + 30 : units; }

/* inside of a hunk of a diff lines are what they quote */
static enum ctxp_line_class classify(struct digest *d, struct ctxp_str line) {
  if (ctxp_hunk_quotes(&d->hunk, line)) return CTXP_LINE_NORMAL;
  return ctxp_line_classify(&d->matcher, line);
}

static int collect(struct digest *d) {
  ctxp_cleanup(ctxp_digest_lines_deinit) struct ctxp_lines lines;
  struct ctxp_line line;
  int r;
  ctxp_digest_lines_init(&lines, d->text);
  while ((r = ctxp_digest_lines_next(&lines, &line)) > 0) {
    d->lines = line.number;
    if (ctxp_str_blank(line.text)) {
      if (!line.overwritten) ctxp_hunk_quotes(&d->hunk, line.text);
      continue;
    }
    enum ctxp_line_class class = classify(d, line.text);
    if (line.overwritten && class != CTXP_LINE_MUST) continue;
    struct pick pick = {.offset = line.offset, .len = line.len, .line = line.number, .shape = ctxp_line_shape(line.text), .count = 1, .last_line = line.number};
    size_t units = ctxp_utf16_units(line.text);
    d->shown++;
    pick.must = class == CTXP_LINE_MUST;
    pick.units = (pick.must ? units : shown_units(units)) + 1;
    r = pick.must ? must(d, &pick, line.text) : other(d, &pick, class);
    if (r < 0) return r;
    to_tail(d, &pick);
    d->above = pick.shape;
  }
  return r;
}

/* ---- choosing ---- */
static size_t digits(uint64_t n) {
  size_t count = 1;
  for (; n >= 10; n /= 10) count++;
  return count;
}

/* most that the mark of the gap between two lines may take, its newline included */
static size_t gap_units(const struct digest *d, uint64_t from, uint64_t to) {
  if (from > to) return 0;
  return d->compact ? 11 + digits(to - from + 1) : 34 + 3 * digits(to);
}

static size_t cost(const struct digest *d, const struct picks *chosen) {
  size_t units = 0;
  uint64_t next = 1;
  char mark[128];
  for (size_t i = 0; i < chosen->count; i++) {
    const struct pick *pick = &chosen->at[i];
    units += pick->units + (pick->line > next ? gap_units(d, next, pick->line - 1) : 0);
    if (pick->count > 1) units += fold_text(pick, mark);
    next = pick->line + 1;
  }
  return units + gap_units(d, next, d->lines);
}

static int by_offset(const void *a, const void *b) {
  const struct pick *p = a, *q = b;
  return (p->offset > q->offset) - (p->offset < q->offset);
}
static size_t away(const struct pick *context) { return context->offset > context->owner ? context->offset - context->owner : context->owner - context->offset; }
static int by_rank(const void *a, const void *b) {
  const struct pick *p = a, *q = b;
  if (p->rank != q->rank) return p->rank < q->rank ? -1 : 1;
  if (p->rank == RANK_CONTEXT && away(p) != away(q)) return away(p) < away(q) ? -1 : 1;
  return p->rank == RANK_TAIL || p->rank == RANK_LAST ? by_offset(b, a) : by_offset(a, b); /* from the end backwards */
}

/* inserts in the order of the text; 1: it is there already */
static int insert(struct picks *chosen, const struct pick *pick) {
  size_t i = chosen->count;
  while (i && chosen->at[i - 1].offset > pick->offset) i--;
  if (i && chosen->at[i - 1].offset == pick->offset) return 1;
  int r = push(chosen, pick);
  if (r < 0) return r;
  memmove(chosen->at + i + 1, chosen->at + i, (chosen->count - 1 - i) * sizeof(*pick));
  chosen->at[i] = *pick;
  return 0;
}

static void take_out(struct picks *chosen, size_t offset) {
  size_t i = 0;
  while (chosen->at[i].offset != offset) i++;
  memmove(chosen->at + i, chosen->at + i + 1, (--chosen->count - i) * sizeof(*chosen->at));
}

static int choose_from(const struct digest *d, enum grouping grouping, unsigned members, struct picks *chosen) {
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
static int unfold(const struct digest *d, struct picks *chosen) {
  unsigned misses = 0;
  for (const struct group *group = d->must[EQUAL].map; group && misses < MISSES_MAX; group = group->hh.next) {
    int r = insert(chosen, &group->pick);
    if (r < 0) return r;
    if (r == 1 || cost(d, chosen) <= d->limits.hard) continue;
    take_out(chosen, group->pick.offset);
    misses++;
  }
  return 0;
}

/* What must survive, folded as little as fits: each line, else equal ones in one, else the shapes with most members first; 1: not
 * even one line of each shape fits. */
static int choose_must(struct digest *d, struct picks *chosen) {
  if (d->must[SHAPED].overflow) return 1;
  if (!d->must[EACH].overflow) {
    bool repeats = HASH_COUNT(d->must[EQUAL].map) < HASH_COUNT(d->must[EACH].map);
    int r = choose_from(d, EACH, 0, chosen);
    if (r < 0 || cost(d, chosen) <= (repeats ? d->limits.soft : d->limits.hard)) return r;
  }
  for (unsigned members = MEMBERS_MAX; members; members /= 2) {
    int r = choose_from(d, EQUAL, members, chosen);
    if (r < 0) return r;
    for (int compact = 0; compact < 2; compact++) {
      d->compact = compact;
      if (cost(d, chosen) <= d->limits.hard) return unfold(d, chosen);
    }
  }
  return 1;
}

static bool chosen_at(const struct picks *chosen, size_t offset) {
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

static int fill(struct digest *d, struct picks *chosen) {
  size_t tail = d->tail.count < TAIL_LINES ? d->tail.count : TAIL_LINES;
  for (size_t i = 0; i < tail; i++) {
    struct pick pick = d->tail.at[(d->tail.count - 1 - i) % TAIL_LINES];
    int r = pick.must ? 0 : take(d, pick, i < 3 ? RANK_LAST : RANK_TAIL, TAIL_LINES);
    if (r < 0) return r;
  }
  if (d->others.count) qsort(d->others.at, d->others.count, sizeof(*d->others.at), by_rank);
  size_t misses = 0;
  for (size_t i = 0; i < d->others.count && misses < MISSES_MAX; i++) {
    const struct pick *pick = &d->others.at[i];
    if (pick->rank == RANK_CONTEXT && !chosen_at(chosen, pick->owner)) continue; /* of a line that was folded */
    int r = insert(chosen, pick);
    if (r < 0) return r;
    if (r == 1 || cost(d, chosen) <= d->limits.soft) continue;
    take_out(chosen, pick->offset);
    misses++;
  }
  return 0;
}

/* ---- writing ---- */
static void write_cut(struct ctxp_buf *out, struct ctxp_str text) {
  size_t units = ctxp_utf16_units(text);
  struct ctxp_str head = ctxp_utf16_prefix(text, CUT_HEAD), tail = ctxp_utf16_prefix(text, units - CUT_TAIL);
  ctxp_buf_add(out, head.ptr, head.len);
  ctxp_buf_printf(out, "\xe2\x80\xa6 %zu characters \xe2\x80\xa6", units - CUT_HEAD - CUT_TAIL);
  ctxp_buf_add(out, text.ptr + tail.len, text.len - tail.len);
}

static int write_pick(const struct digest *d, const struct pick *pick, struct ctxp_buf *out) {
  ctxp_cleanup(ctxp_digest_lines_deinit) struct ctxp_lines lines;
  struct ctxp_line line;
  char mark[128];
  ctxp_digest_lines_init(&lines, (struct ctxp_str){d->text.ptr + pick->offset, pick->len});
  int r = ctxp_digest_lines_next(&lines, &line);
  if (r <= 0) return r;
  if (!pick->must && ctxp_utf16_units(line.text) > CUT_UNITS)
    write_cut(out, line.text);
  else
    ctxp_buf_add(out, line.text.ptr, line.text.len);
  ctxp_buf_char(out, '\n');
  if (pick->count > 1) {
    fold_text(pick, mark);
    ctxp_buf_printf(out, "%s\n", mark);
  }
  return 0;
}

/* kinds of lines in a piece of the text, at most 65; *ret_like: all are of the shape given */
static int count_kinds(struct ctxp_str piece, uint64_t shape, unsigned *ret_kinds, bool *ret_like) {
  ctxp_cleanup(ctxp_digest_lines_deinit) struct ctxp_lines lines;
  struct ctxp_line line;
  uint64_t seen[64], last = 0;
  unsigned kinds = 0, i;
  bool like = true;
  int r = 0;
  ctxp_digest_lines_init(&lines, piece);
  while (kinds <= 64 && (r = ctxp_digest_lines_next(&lines, &line)) > 0) {
    if (line.overwritten || ctxp_str_blank(line.text)) continue;
    uint64_t one = ctxp_line_shape(line.text);
    like = like && one == shape;
    if (kinds && one == last) continue;
    last = one;
    for (i = 0; i < kinds && i < 64; i++)
      if (seen[i] == one) break;
    if (i < kinds) continue;
    if (kinds < 64) seen[kinds] = one;
    kinds++;
  }
  *ret_kinds = kinds;
  *ret_like = like && kinds == 1;
  return r < 0 ? r : 0;
}

static int write_gap(const struct digest *d, const struct pick *above, const struct pick *below, struct ctxp_buf *out) {
  uint64_t from = above ? above->line + 1 : 1, to = below ? below->line - 1 : d->lines;
  size_t start = above ? above->offset + above->len : 0, end = below ? below->offset : d->text.len;
  unsigned kinds;
  bool like;
  if (from > to || to == UINT64_MAX) return 0;
  const char *newline = above ? memchr(d->text.ptr + start, '\n', end - start) : NULL;
  if (newline) start = (size_t)(newline - d->text.ptr) + 1;
  while (below && end > start && d->text.ptr[end - 1] != '\n') end--; /* what a carriage return overwrote in the line below */
  int r = count_kinds((struct ctxp_str){d->text.ptr + start, end - start}, above ? above->shape : 0, &kinds, &like);
  if (r < 0 || !kinds) return r; /* blank lines need no mark */
  if (d->compact)
    ctxp_buf_printf(out, "\xe2\x80\xa6 %" PRIu64 " line%s \xe2\x80\xa6\n", to - from + 1, from == to ? "" : "s");
  else if (from == to)
    ctxp_buf_printf(out, "\xe2\x80\xa6 line %" PRIu64 " \xe2\x80\xa6\n", from);
  else if (above && like)
    ctxp_buf_printf(out, "\xe2\x80\xa6 lines %" PRIu64 "-%" PRIu64 ": %" PRIu64 " like the one above \xe2\x80\xa6\n", from, to, to - from + 1);
  else
    ctxp_buf_printf(out, "\xe2\x80\xa6 lines %" PRIu64 "-%" PRIu64 ": %" PRIu64 " lines, %u%s kind%s \xe2\x80\xa6\n", from, to, to - from + 1, kinds > 64 ? 64 : kinds,
                    kinds > 64 ? "+" : "", kinds == 1 ? "" : "s");
  return 0;
}

static int write_all(const struct digest *d, const struct picks *chosen, struct ctxp_buf *out) {
  int r = 0;
  for (size_t i = 0; i < chosen->count && r == 0; i++) {
    r = write_gap(d, i ? &chosen->at[i - 1] : NULL, &chosen->at[i], out);
    if (r == 0) r = write_pick(d, &chosen->at[i], out);
  }
  if (r == 0) r = write_gap(d, chosen->count ? &chosen->at[chosen->count - 1] : NULL, NULL, out);
  return r ? r : ctxp_buf_error(out);
}

static int make(struct digest *d, struct picks *chosen, struct ctxp_str head, struct ctxp_buf *out) {
  size_t head_units = ctxp_utf16_units(head) + 1;
  d->tail.at = calloc(TAIL_LINES, sizeof(*d->tail.at));
  if (!d->tail.at) return -ENOMEM;
  bool room = head_units < d->limits.hard;
  d->limits.hard = room ? d->limits.hard - head_units : 0;
  d->limits.soft = d->limits.soft > head_units ? d->limits.soft - head_units : 0;
  int r = collect(d);
  if (r == 0) r = room ? choose_must(d, chosen) : 1;
  if (r == 0) r = fill(d, chosen);
  if (r) return r;
  ctxp_buf_add(out, head.ptr, head.len);
  ctxp_buf_char(out, '\n');
  r = write_all(d, chosen, out);
  if (r == 0 && out->len && out->ptr[out->len - 1] == '\n') out->len--;
  return r;
}

int ctxp_digest_make(struct ctxp_str text, struct ctxp_str head, struct ctxp_digest_limits limits, struct ctxp_buf *out, struct ctxp_digest *ret_digest) {
  struct digest d = {.text = text, .limits = limits, .first_must = SIZE_MAX};
  struct picks chosen = {0};
  ctxp_matcher_init(&d.matcher);
  int r = make(&d, &chosen, head, out);
  *ret_digest = (struct ctxp_digest){.lines = d.lines, .first_must = d.first_must};
  for (unsigned i = 0; i < GROUPINGS; i++) drop_groups(&d.must[i].map);
  drop_groups(&d.kinds);
  free(d.others.at);
  free(d.tail.at);
  free(chosen.at);
  return r;
}
