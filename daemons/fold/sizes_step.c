/* One reported request: the rule of the ledger (sizes.h). */
#include <errno.h>
#include <stdlib.h>
#include "fold/sizes_int.h"

#define UP 3 /* what came in is at most so many times its estimate, the rest is X */
#define DOWN 20 /* and at least so much of it: a client may record more than it sends */
#define WEIGHT 60000 /* pieces that a family's factor counts as */
#define HALF 400000 /* pieces after which the past counts half */
#define IMAGE_ROOM 30000 /* tokens that an image may take */
#define DROP_MIN 100 /* tokens of thinking from which on it shows whether they were dropped */
#define LEARN_MIN 500 /* pieces */

enum { REPLY = 1,
  REST = 2 };

struct taken { /* places that came in, of one kind */
  uint64_t estimate, least, pieces, smallest;
  uint32_t count, images;
};
struct step {
  struct ctxp_fold_sizes *z;
  const struct ctxp_fold_window *w;
  struct ctxp_fold_calibration *cal;
  uint64_t factor, output, reasoning, thinking, signature;
  int64_t input;
  uint32_t request, from, thinker; /* from: first place that came in; thinker: the reply that holds thinking, + 1 */
  struct taken reply, rest;
  bool person, appended, thinks, real;
};

/* ---- models ---- */
static struct ctxp_fold_calibration *calibration(struct ctxp_fold_sizes *z, const struct ctxp_fold_window *w, uint32_t model) {
  uint32_t number = model == CTXP_FOLD_OPEN ? 0 : model + 1;
  while (z->models.count <= number) {
    if (!ctxp_fold_grow(&z->models, sizeof(*z->models.at))) return NULL;
    z->models.at[z->models.count++] = (struct ctxp_fold_calibration){0};
  }
  struct ctxp_fold_calibration *c = &z->models.at[number];
  if (c->tokenizer) return c;
  c->tokenizer = ctxp_tokenizer(number ? w->models.at[model] : (struct ctxp_str){"", 0});
  c->tokens = (uint64_t)c->tokenizer->factor * WEIGHT / 1024;
  c->pieces = WEIGHT;
  c->vote = c->tokenizer->thinking;
  return c;
}

/* ---- what came in ---- */
static const struct ctxp_fold_message *message_at(const struct step *st, uint32_t place) {
  return &st->w->messages.at[st->z->places.at[place].message];
}

static uint64_t pieces_of(const struct ctxp_fold_message *m) { return m->defined ? m->pieces : 0; }

static uint64_t estimate_of(const struct step *st, const struct ctxp_fold_message *m) {
  uint64_t tokens = (pieces_of(m) * st->factor + 5120) / 10240;
  return tokens ? tokens : 1;
}

static unsigned kind_of(const struct step *st, uint32_t place) {
  return st->request && message_at(st, place)->reply_of == st->request ? REPLY : REST;
}

static void take(struct taken *t, const struct ctxp_fold_message *m, uint64_t estimate) {
  t->estimate += estimate;
  t->least += (estimate + DOWN - 1) / DOWN;
  t->pieces += pieces_of(m);
  t->images += m->images;
  if (t->count++ == 0 || estimate < t->smallest) t->smallest = estimate;
}

static void take_in(struct step *st) {
  struct ctxp_fold_sizes *z = st->z;
  for (uint32_t i = st->from; i < z->places.count; i++) {
    struct ctxp_fold_weight *p = &z->places.at[i];
    const struct ctxp_fold_message *m = message_at(st, i);
    const struct ctxp_fold_known *known = &z->known.at[p->message];
    if (known->sized) { /* it was here before */
      p->sized = known->sized;
      ctxp_fold_sizes_set(z, i, known->size, known->think);
      st->appended = false;
      continue;
    }
    bool reply = kind_of(st, i) == REPLY;
    take(reply ? &st->reply : &st->rest, m, estimate_of(st, m));
    st->person |= m->person && !reply;
    if (!reply || !m->thinks) continue;
    st->thinks = true;
    st->signature += m->signature;
    st->thinker = i + 1;
  }
}

/* ---- sizes of what came in ---- */
static uint32_t bar_of(const struct step *st, const struct taken *t, unsigned sized, uint64_t size) {
  uint64_t bar = 20;
  if (sized == CTXP_FOLD_SPLIT) bar = t->smallest / 4;
  if (sized == CTXP_FOLD_ESTIMATED) bar = st->cal->grown ? 2 * size * st->cal->off / st->cal->grown : size * 54 / 100;
  return bar > size ? (uint32_t)size : (uint32_t)bar;
}

static void give(struct step *st, const struct taken *t, uint32_t place, uint64_t size, unsigned sized) {
  struct ctxp_fold_sizes *z = st->z;
  struct ctxp_fold_weight *p = &z->places.at[place];
  struct ctxp_fold_known *known = &z->known.at[p->message];
  ctxp_fold_sizes_set(z, place, size, p->think);
  p->sized = known->sized = (uint8_t)sized;
  known->bar = bar_of(st, t, sized, p->size);
}

/* The places of these kinds share `total` by their estimates; *ret_left: what no place has room for. -ENOMEM. */
static int share(struct step *st, unsigned kinds, const struct taken *t, uint64_t total, unsigned sized, uint64_t *ret_left) {
  struct ctxp_fold_sizes *z = st->z;
  uint64_t *out = malloc((t->count + 1) * sizeof(*out)), before = z->resident;
  ctxp_u128 *parts = malloc((t->count + 1) * sizeof(*parts));
  uint32_t n = 0;
  int r = out && parts ? 0 : -ENOMEM;
  for (uint32_t i = st->from; r == 0 && i < z->places.count; i++)
    if (!z->places.at[i].sized && kind_of(st, i) & kinds) parts[n++] = (ctxp_u128)estimate_of(st, message_at(st, i)) * total;
  if (r == 0 && n) r = ctxp_fold_apportion(parts, n, t->estimate, total, out);
  n = 0;
  for (uint32_t i = st->from; r == 0 && i < z->places.count; i++)
    if (!z->places.at[i].sized && kind_of(st, i) & kinds) give(st, t, i, out[n++], sized);
  free(out);
  free(parts);
  *ret_left = total - (z->resident - before);
  return r;
}

/* ---- the first request ---- */
static int first(struct step *st) {
  struct ctxp_fold_sizes *z = st->z;
  uint32_t behind = 0; /* the last message of a person */
  struct taken all = {0};
  for (uint32_t i = 0; i < z->places.count; i++)
    if (message_at(st, i)->person) behind = i + 1;
  for (uint32_t i = 0; i < z->places.count; i++) {
    const struct ctxp_fold_message *m = message_at(st, i);
    bool reply = m->role == CTXP_ROLE_assistant, kept = st->cal->vote <= 0 || i >= behind;
    uint64_t think = m->thinking ? m->thinking : ctxp_thinking_by_signature(st->cal->tokenizer->family, m->signature);
    take(&all, m, estimate_of(st, m));
    z->places.at[i].think = 0;
    ctxp_fold_sizes_set(z, i, estimate_of(st, m), reply && m->thinks && kept ? think : 0);
    give(st, &all, i, z->places.at[i].size, CTXP_FOLD_ESTIMATED);
    z->with_history |= reply;
    if (!ctxp_fold_grow(&z->pool, sizeof(*z->pool.at)) || !ctxp_fold_grow(&z->turn, sizeof(*z->turn.at))) return -ENOMEM;
    if (i < behind) continue;
    if (reply)
      z->pool.at[z->pool.count++] = i;
    else
      z->turn.at[z->turn.count++] = i;
  }
  int r = z->resident > (uint64_t)st->input ? ctxp_fold_sizes_scale(z, (uint64_t)st->input) : 0;
  z->u = st->input - (int64_t)z->resident;
  z->x = 0;
  z->begun = true;
  z->first_u = ctxp_fold_positive(z->u);
  z->first_bar = z->with_history ? (uint64_t)st->input * 4 / 100 : z->resident * 27 / 100;
  return r < 0 ? r : ctxp_fold_sizes_unseen(z, 0);
}

/* ---- what is taken from residents ---- */
static int64_t pool_thinking(const struct ctxp_fold_sizes *z) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < z->pool.count; i++) sum += z->places.at[z->pool.at[i]].think;
  return sum;
}

static void drop_thinking(struct ctxp_fold_sizes *z) {
  for (uint32_t i = z->pool.count; i-- > 0;) {
    uint32_t place = z->pool.at[i];
    if (z->places.at[place].think) ctxp_fold_sizes_set(z, place, z->places.at[place].size, 0);
  }
}

/* results of the turn that ended, at most a quarter */
static void take_results(struct ctxp_fold_sizes *z, uint64_t *n) {
  uint64_t sum = 0, left;
  for (uint32_t i = 0; i < z->turn.count; i++) sum += z->places.at[z->turn.at[i]].size;
  uint64_t part = sum / 4 < *n ? sum / 4 : *n;
  left = part;
  *n -= part;
  for (uint32_t i = 0; left && i < z->turn.count; i++) {
    uint32_t place = z->turn.at[i];
    struct ctxp_fold_weight *p = &z->places.at[place];
    uint64_t own = p->size, mine = sum ? left * own / sum : 0;
    sum -= own;
    left -= mine;
    ctxp_fold_sizes_set(z, place, own - mine, p->think);
  }
}

static void take_thinking_of(struct ctxp_fold_sizes *z, uint32_t place, uint64_t *n) {
  struct ctxp_fold_weight *p = &z->places.at[place];
  uint64_t part = p->think < *n ? p->think : *n;
  if (part) ctxp_fold_sizes_set(z, place, p->size, p->think - part);
  *n -= part;
}

/* the newest first: of the reply that came in, then of those since the last message of a person */
static void take_thinking(const struct step *st, uint64_t *n) {
  const struct ctxp_fold_sizes *z = st->z;
  if (st->thinker) take_thinking_of(st->z, st->thinker - 1, n);
  for (uint32_t i = z->pool.count; *n && i-- > 0;) take_thinking_of(st->z, z->pool.at[i], n);
}

static int shrink(struct step *st, uint64_t n, bool dropped) {
  struct ctxp_fold_sizes *z = st->z;
  uint64_t deep = (uint64_t)st->input / 10 > 2000 ? (uint64_t)st->input / 10 : 2000;
  if (dropped) take_results(z, &n);
  take_thinking(st, &n);
  uint64_t room = n <= deep || n >= z->resident ? ctxp_fold_positive(z->u + z->x) : ctxp_fold_positive(z->x), part = n < room ? n : room;
  int r = ctxp_fold_sizes_unseen(z, -(int64_t)part);
  n -= part;
  if (r < 0 || n == 0) return r;
  uint64_t left = n < z->resident ? n : z->resident;
  z->unexplained += n;
  r = ctxp_fold_sizes_scale(z, z->resident - left);
  return r == 0 && n > left ? ctxp_fold_sizes_unseen(z, -(int64_t)(n - left)) : r;
}

/* ---- every other request ---- */
static uint64_t thinking_of_reply(const struct step *st) {
  if (st->reply.count == 0) return 0;
  if (st->reasoning) return st->real && st->reasoning > st->output ? st->output : st->reasoning;
  if (!st->thinks) return 0;
  if (!st->real) return ctxp_thinking_by_signature(st->cal->tokenizer->family, st->signature);
  return st->output > st->reply.estimate ? st->output - st->reply.estimate : 0;
}

static int64_t distance(int64_t a, int64_t b) { return a > b ? a - b : b - a; }

static void learn(struct step *st, int64_t growth, const struct taken *group) {
  struct ctxp_fold_calibration *c = st->cal;
  int64_t expected = (int64_t)group->estimate;
  if (!st->appended || group->images || group->pieces < LEARN_MIN || growth * 3 < expected || growth > 3 * expected) return;
  c->tokens += 10 * (uint64_t)growth;
  c->pieces += group->pieces;
  c->off += (uint64_t)distance(growth, expected);
  c->grown += (uint64_t)expected;
  c->steps++;
  if (c->pieces <= HALF) return;
  c->tokens /= 2;
  c->pieces /= 2;
  c->off /= 2;
  c->grown /= 2;
}

/* who spoke since, and what: `pool` and `turn` */
static int remember(struct step *st) {
  struct ctxp_fold_sizes *z = st->z;
  if (st->person) z->pool.count = z->turn.count = 0;
  for (uint32_t i = st->from; i < z->places.count; i++) {
    bool reply = kind_of(st, i) == REPLY;
    if (!ctxp_fold_grow(&z->pool, sizeof(*z->pool.at)) || !ctxp_fold_grow(&z->turn, sizeof(*z->turn.at))) return -ENOMEM;
    if (!reply)
      z->turn.at[z->turn.count++] = i;
    else if (!st->person)
      z->pool.at[z->pool.count++] = i;
  }
  return 0;
}

/* did the provider drop the thinking of the turn that ended? Returns how much. */
static int64_t dropped(struct step *st, int64_t growth) {
  struct ctxp_fold_calibration *c = st->cal;
  int64_t thinking = st->person ? pool_thinking(st->z) + (int64_t)st->thinking : 0, rest = (int64_t)st->rest.estimate;
  st->z->wrong += (uint64_t)distance(growth, rest - (thinking >= DROP_MIN && c->vote > 0 ? thinking : 0));
  if (thinking < DROP_MIN) return 0;
  bool drop = distance(growth + thinking, rest) < distance(growth, rest);
  if (drop && c->vote < 3) c->vote++;
  if (!drop && c->vote > -3) c->vote--;
  return drop ? thinking : 0;
}

static int settle(struct step *st, int64_t growth, const struct taken *group, unsigned kinds, uint64_t reply, bool drop) {
  struct ctxp_fold_sizes *z = st->z;
  int64_t most = (int64_t)(UP * group->estimate + (uint64_t)IMAGE_ROOM * group->images), total, rest, limit;
  limit = st->input / 20 > 1000 ? st->input / 20 : 1000;
  bool suspect = st->appended && growth < 0 && -growth > limit && !z->suspect;
  total = suspect                    ? (int64_t)group->estimate :
      group->count == 0              ? 0 :
      growth < (int64_t)group->least ? (int64_t)group->least :
      growth > most                  ? most :
                                       growth;
  rest = growth - total;
  z->suspect = suspect;
  z->misfits += suspect;
  uint64_t left = 0, over = 0;
  unsigned sized = suspect || rest ? CTXP_FOLD_ESTIMATED : group->count == 1 ? CTXP_FOLD_EXACT :
                                                                               CTXP_FOLD_SPLIT;
  int r = share(st, kinds, group, (uint64_t)total, sized, &left);
  if (r == 0 && reply)
    r = share(st, REPLY, &st->reply, reply, CTXP_FOLD_EXACT, &over);
  else if (r == 0 && !(kinds & REPLY) && st->reply.count)
    r = share(st, REPLY, &st->reply, 0, CTXP_FOLD_EXACT, &over);
  if (r == 0 && st->thinker && !drop) ctxp_fold_sizes_set(z, st->thinker - 1, z->places.at[st->thinker - 1].size, st->thinking);
  if (drop) drop_thinking(z);
  rest += (int64_t)(left + over);
  if (r == 0 && !suspect && rest > 0) z->came_in += (uint64_t)rest;
  if (r == 0 && !suspect && rest > 0) r = ctxp_fold_sizes_unseen(z, rest);
  if (r == 0 && !suspect && rest < 0) r = shrink(st, (uint64_t)-rest, drop || (st->person && st->cal->vote > 0));
  return r;
}

static int next(struct step *st) {
  struct ctxp_fold_sizes *z = st->z;
  take_in(st);
  st->real = st->output && 2 * st->output >= st->reply.estimate;
  st->thinking = thinking_of_reply(st);
  if (st->thinking && !st->thinker) { /* reported, but nothing of it is shown */
    for (uint32_t i = st->from; i < z->places.count; i++)
      if (!z->places.at[i].sized && kind_of(st, i) == REPLY) st->thinker = i + 1;
  }
  uint64_t reply = st->reply.count == 0 ? 0 : st->real ? st->output - st->thinking :
                                                         st->reply.estimate;
  int64_t growth = st->input - z->u - z->x - (int64_t)z->resident - (int64_t)reply - (int64_t)st->thinking;
  int64_t expected = (int64_t)st->rest.estimate;
  int r = 0;
  if (z->shrunk && z->x && distance(growth + z->x, expected) < distance(growth, expected)) {
    growth += z->x;
    r = ctxp_fold_sizes_unseen(z, -z->x);
  }
  int64_t drop = dropped(st, growth);
  growth += drop;
  struct taken group = st->rest;
  unsigned kinds = REST;
  if (!st->real && st->reply.count) {
    growth += (int64_t)reply;
    group.estimate += st->reply.estimate;
    group.least += st->reply.least;
    group.pieces += st->reply.pieces;
    group.images += st->reply.images;
    if (!group.count || st->reply.smallest < group.smallest) group.smallest = st->reply.smallest;
    group.count += st->reply.count;
    kinds = REST | REPLY;
    reply = 0;
  }
  if (r == 0) r = settle(st, growth, &group, kinds, reply, drop != 0);
  if (r == 0 && !z->suspect && !drop) learn(st, growth, &group);
  return r < 0 ? r : remember(st);
}

static void convert(struct step *st) {
  struct ctxp_fold_sizes *z = st->z;
  const struct ctxp_fold_calibration *before = &z->models.at[z->model == CTXP_FOLD_OPEN ? 0 : z->model + 1];
  if (before->tokenizer->family == st->cal->tokenizer->family) return;
  ctxp_fold_sizes_convert(z, st->factor, ctxp_fold_factor(before));
  st->appended = false;
}

int ctxp_fold_sizes_step(struct ctxp_fold_sizes *z, const struct ctxp_fold_window *w, uint32_t request) {
  const struct ctxp_fold_request *q = &w->requests.at[request], *before = request ? q - 1 : NULL;
  if (z->by_estimate || ctxp_fold_request_input(q) == 0) return 0;
  struct step st = {.z = z, .w = w, .request = request, .from = z->sized_to, .appended = !z->shrunk};
  st.input = (int64_t)ctxp_fold_request_input(q);
  st.cal = calibration(z, w, q->model);
  if (!st.cal) return -ENOMEM;
  st.factor = ctxp_fold_factor(st.cal);
  if (before && before->flags & CTXP_FOLD_REPORTED) {
    st.output = before->output + (before->flags & CTXP_FOLD_REASONING_APART ? before->reasoning : 0);
    st.reasoning = before->reasoning;
  }
  bool begun = z->begun;
  if (begun) {
    convert(&st);
    z->growth += (uint64_t)distance(st.input, (int64_t)z->input);
  }
  int r = begun ? next(&st) : first(&st);
  z->model = q->model;
  z->input = (uint64_t)st.input;
  z->shrunk = false;
  z->sized_to = z->places.count;
  return r;
}
