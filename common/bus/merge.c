#include <errno.h>
#include <stdlib.h>
#include "bus/merge.h"

struct hold {
  uint64_t from, to;
  bool said;
};
struct input {
  char *name;
  enum ctxp_flow_role role;
  struct ctxp_flow flow;
  unsigned rank; /* place among the mechanisms of the topology in force; UINT_MAX: not named */
  struct hold *holds;
  unsigned hold_count;
};
struct ctxp_merge {
  struct input *inputs;
  unsigned count, *order; /* order: of the inputs, within a cause */
  unsigned at; /* in `order`, within the cause in hand */
  bool inside; /* a cause is in hand */
  uint64_t cause, done, late, skipped, applied; /* applied: the last topology event that was */
  struct ctxp_merge_hold_begun begun;
  struct { /* what the last look found to be waiting */
    bool yes;
    unsigned input;
    uint64_t from, to;
  } waits;
};

#define NOT_NAMED UINT32_MAX

struct ctxp_merge *ctxp_merge_new(void) {
  return calloc(1, sizeof(struct ctxp_merge));
}

struct ctxp_merge *ctxp_merge_free(struct ctxp_merge *m) {
  if (!m) return NULL;
  for (unsigned i = 0; i < m->count; i++) {
    free(m->inputs[i].name);
    free(m->inputs[i].holds);
  }
  free(m->inputs);
  free(m->order);
  free(m);
  return NULL;
}

static unsigned weight(const struct input *input) {
  if (input->role == CTXP_FLOW_COLLECTOR) return 0;
  return input->role == CTXP_FLOW_MECHANISM ? 1 : 2;
}

static bool before(const struct ctxp_merge *m, unsigned a, unsigned b) {
  const struct input *x = &m->inputs[a], *y = &m->inputs[b];
  if (weight(x) != weight(y)) return weight(x) < weight(y);
  if (x->rank != y->rank) return x->rank < y->rank;
  return a < b;
}

static void sort_inputs(struct ctxp_merge *m) {
  for (unsigned i = 0; i < m->count; i++) { /* a handful: insertion */
    unsigned k = i;
    for (; k > 0 && before(m, i, m->order[k - 1]); k--) m->order[k] = m->order[k - 1];
    m->order[k] = i;
  }
}

int ctxp_merge_add(struct ctxp_merge *m, const char *name, enum ctxp_flow_role role, const struct ctxp_flow *flow) {
  struct input *inputs = realloc(m->inputs, (m->count + 1) * sizeof(*inputs));
  if (!inputs) return -ENOMEM;
  m->inputs = inputs;
  unsigned *order = realloc(m->order, (m->count + 1) * sizeof(*order));
  if (!order) return -ENOMEM;
  m->order = order;
  inputs[m->count] = (struct input){.name = strdup(name), .role = role, .flow = *flow, .rank = NOT_NAMED};
  if (!inputs[m->count].name) return -ENOMEM;
  m->count++;
  sort_inputs(m);
  return 0;
}

static int apply_topology(struct ctxp_merge *m, struct ctxp_raw body) {
  struct ctxp_event event;
  struct ctxp_derivation entry;
  unsigned rank = 0;
  if (ctxp_event_decode(body.ptr, body.len, &event, NULL, NULL) < 0 || event.kind != CTXP_KIND_topology) return -EBADMSG;
  for (unsigned i = 0; i < m->count; i++) m->inputs[i].rank = NOT_NAMED;
  for (struct ctxp_list list = event.topology.mechanisms; ctxp_list_next(&list, &ctxp_shape_derivation, &entry) > 0; rank++)
    for (unsigned i = 0; i < m->count; i++)
      if (m->inputs[i].role == CTXP_FLOW_MECHANISM && ctxp_str_is(entry.node, m->inputs[i].name)) m->inputs[i].rank = rank;
  sort_inputs(m);
  return 0;
}

int ctxp_merge_restore(struct ctxp_merge *m, uint64_t done, struct ctxp_raw topology) {
  m->done = done;
  for (unsigned i = 0; i < m->count; i++)
    for (unsigned k = 0; k < m->inputs[i].hold_count; k++)
      if (m->inputs[i].holds[k].from <= done) m->inputs[i].holds[k].said = true;
  return topology.len ? apply_topology(m, topology) : 0;
}

int ctxp_merge_hold(struct ctxp_merge *m, unsigned input, uint64_t from, uint64_t to) {
  struct input *in = &m->inputs[input];
  struct hold *holds = realloc(in->holds, (in->hold_count + 1) * sizeof(*holds));
  if (!holds) return -ENOMEM;
  in->holds = holds;
  holds[in->hold_count++] = (struct hold){from, to, from <= m->done};
  return 0;
}

/* ---- who takes part in a cause ---- */
static struct hold *held(const struct input *in, uint64_t cause) {
  for (unsigned k = in->hold_count; k-- > 0;)
    if (cause >= in->holds[k].from && cause <= in->holds[k].to) return &in->holds[k];
  return NULL;
}

static bool named(const struct input *in) { return in->role != CTXP_FLOW_MECHANISM || in->rank != NOT_NAMED; }

static uint64_t cause_of(const struct input *in, const struct ctxp_item *item) {
  return in->role == CTXP_FLOW_COLLECTOR ? item->seq : item->cause;
}

/* passes over what the input derived from causes up to `upto` without taking part */
static void pass_over(struct ctxp_merge *m, struct input *in, uint64_t upto) {
  struct ctxp_item item;
  while (in->flow.peek(in->flow.data, &item) && cause_of(in, &item) <= upto) {
    if (held(in, cause_of(in, &item)))
      m->late++;
    else
      m->skipped++;
    in->flow.next(in->flow.data);
  }
}

/* the least cause for which something is at hand from one that takes part; UINT64_MAX: none */
static uint64_t next_cause(struct ctxp_merge *m) {
  uint64_t least = UINT64_MAX;
  struct ctxp_item item;
  for (unsigned i = 0; i < m->count; i++) {
    struct input *in = &m->inputs[i];
    pass_over(m, in, m->done);
    while (in->flow.peek(in->flow.data, &item) && held(in, cause_of(in, &item))) pass_over(m, in, cause_of(in, &item));
    if (named(in) && in->flow.peek(in->flow.data, &item) && cause_of(in, &item) < least) least = cause_of(in, &item);
  }
  return least;
}

/* how far all that take part have said everything; *ret_last: the one that has said least, *ret_others: how far the others are */
static uint64_t common_reach(const struct ctxp_merge *m, unsigned *ret_last, uint64_t *ret_others) {
  uint64_t least = UINT64_MAX, second = UINT64_MAX;
  for (unsigned i = 0; i < m->count; i++) {
    const struct input *in = &m->inputs[i];
    if (!named(in)) continue;
    uint64_t reach = in->flow.reach(in->flow.data);
    for (const struct hold *hold; (hold = held(in, reach + 1)) != NULL;) reach = hold->to;
    if (reach < least) {
      second = least;
      least = reach;
      *ret_last = i;
    } else if (reach < second) {
      second = reach;
    }
  }
  *ret_others = second == UINT64_MAX ? least : second;
  return least;
}

/* A topology event is the first of its cause and is in force for it, but not before all that took part until then have said
 * everything that comes before. 1: it must wait. */
static int look_at_topology(struct ctxp_merge *m, uint64_t cause) {
  struct ctxp_item item;
  if (cause == m->applied) return 0;
  for (unsigned i = 0; i < m->count; i++) {
    struct input *in = &m->inputs[i];
    if (in->role != CTXP_FLOW_COLLECTOR || !in->flow.peek(in->flow.data, &item)) continue;
    if (item.seq != cause || item.topic != CTXP_KIND_topology) continue;
    if (common_reach(m, &m->waits.input, &m->waits.to) + 1 < cause) return 1;
    m->applied = cause;
    return apply_topology(m, item.body);
  }
  return 0;
}

static uint64_t time_of(const struct ctxp_merge *m, uint64_t cause) {
  struct ctxp_item item;
  for (unsigned k = 0; k < m->count; k++) {
    const struct input *in = &m->inputs[m->order[k]];
    if (named(in) && !held(in, cause) && in->flow.peek(in->flow.data, &item) && cause_of(in, &item) == cause) return item.ts_ms;
  }
  return 0;
}

static bool hold_begins(struct ctxp_merge *m, uint64_t cause) {
  for (unsigned k = 0; k < m->count; k++) {
    unsigned i = m->order[k];
    struct hold *hold = held(&m->inputs[i], cause);
    if (!hold || hold->said || !named(&m->inputs[i])) continue;
    hold->said = true;
    m->begun = (struct ctxp_merge_hold_begun){i, hold->from, hold->to, time_of(m, cause)};
    return true;
  }
  return false;
}

static void finish(struct ctxp_merge *m, uint64_t upto) {
  if (upto <= m->done) return;
  m->done = upto;
  for (unsigned i = 0; i < m->count; i++) pass_over(m, &m->inputs[i], upto);
}

/* opens the next cause: 1, 0 none for now, 2 a hold begins */
static int open_cause(struct ctxp_merge *m) {
  uint64_t cause = next_cause(m), reach;
  int r = cause == UINT64_MAX ? 0 : look_at_topology(m, cause);
  if (r < 0 || m->count == 0) return r;
  reach = common_reach(m, &m->waits.input, &m->waits.to);
  m->waits.yes = cause != UINT64_MAX && (r == 1 || reach < cause);
  m->waits.from = cause;
  if (r == 1 || reach < cause) {
    finish(m, reach < cause ? reach : cause - 1);
    return 0;
  }
  finish(m, cause - 1);
  if (hold_begins(m, cause)) return 2;
  m->inside = true;
  m->cause = cause;
  m->at = 0;
  return 1;
}

/* to the next event of the cause in hand; false: there is none left, and the cause is done */
static bool settle(struct ctxp_merge *m, struct ctxp_item *item) {
  for (; m->at < m->count; m->at++) {
    struct input *in = &m->inputs[m->order[m->at]];
    if (named(in) && !held(in, m->cause) && in->flow.peek(in->flow.data, item) && cause_of(in, item) == m->cause) return true;
  }
  m->inside = false;
  finish(m, m->cause);
  return false;
}

int ctxp_merge_next(struct ctxp_merge *m, struct ctxp_item *ret_item, unsigned *ret_input) {
  for (;;) {
    int r = m->inside ? 1 : open_cause(m);
    if (r != 1) return r;
    if (!settle(m, ret_item)) continue;
    *ret_input = m->order[m->at];
    return 1;
  }
}

void ctxp_merge_take(struct ctxp_merge *m) {
  struct ctxp_item item;
  struct input *in = &m->inputs[m->order[m->at]];
  in->flow.next(in->flow.data);
  settle(m, &item);
}

struct ctxp_merge_hold_begun ctxp_merge_begun(const struct ctxp_merge *m) {
  return m->begun;
}
bool ctxp_merge_between(const struct ctxp_merge *m) { return !m->inside; }
uint64_t ctxp_merge_done(const struct ctxp_merge *m) { return m->done; }
uint64_t ctxp_merge_late(const struct ctxp_merge *m) { return m->late; }
uint64_t ctxp_merge_skipped(const struct ctxp_merge *m) { return m->skipped; }

bool ctxp_merge_waits(const struct ctxp_merge *m, unsigned *ret_input, uint64_t *ret_from, uint64_t *ret_to) {
  if (m->inside || !m->waits.yes) return false;
  *ret_input = m->waits.input;
  *ret_from = m->waits.from;
  *ret_to = m->waits.to;
  return true;
}
