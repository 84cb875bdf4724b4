#include <errno.h>
#include "codec/msgpack.h"
#include "codec/tools.h"
#include "fold/savings.h"

/* ---- the walk ---- */
static bool passes(const struct ctxp_fold_filter *f, const struct ctxp_fold_session *s) {
  return (f->agent.len == 0 || ctxp_str_eq(f->agent, s->agent)) && (f->session.len == 0 || ctxp_str_eq(f->session, s->session));
}

int ctxp_fold_each_session(struct ctxp_stage *stage, const struct ctxp_fold_filter *filter,
    int (*visit)(void *data, struct ctxp_stage *stage, struct ctxp_fold_session *session), void *data) {
  uint64_t count;
  int r = ctxp_fold_session_count(stage, &count);
  for (uint64_t n = 1; r == 0 && n <= count; n++) {
    struct ctxp_fold_session *s;
    r = ctxp_fold_session_by_number(stage, n, &s);
    if (r < 0) return r;
    s->loaded_windows++; /* holds it for the visit */
    if (passes(filter, s)) r = visit(data, stage, s);
    s->loaded_windows--;
    ctxp_fold_unload_session(stage, s);
  }
  return r;
}

int ctxp_fold_each_window(
    struct ctxp_stage *stage, struct ctxp_fold_session *s, int (*visit)(void *data, struct ctxp_fold_window *window), void *data) {
  struct ctxp_fold *f = ctxp_stage_state(stage);
  int r = 0;
  for (uint32_t i = 0; r == 0 && i < s->windows.count; i++) {
    struct ctxp_fold_window *w, *was;
    HASH_FIND(hh, f->windows, &s->windows.at[i], sizeof(s->windows.at[i]), was);
    r = ctxp_fold_window_by_key(stage, s->windows.at[i], &w);
    if (r == 0 && w) r = visit(data, w);
    if (w && !was) ctxp_fold_unload(stage, w);
  }
  return r;
}

/* ---- what was asked for is not there ---- */
#define NAMES_TOLD 3
struct names {
  bool agents; /* of agents; else of sessions */
  bool more;
  struct ctxp_buf at[NAMES_TOLD];
  unsigned count;
};

static int note_name(void *data, struct ctxp_stage *stage, struct ctxp_fold_session *s) {
  struct names *n = data;
  struct ctxp_str name = n->agents ? s->agent : s->session;
  (void)stage;
  for (unsigned i = 0; i < n->count; i++)
    if (ctxp_str_eq(ctxp_buf_view(&n->at[i]), name)) return 0;
  if (n->count == NAMES_TOLD) {
    n->more = true;
    return 0;
  }
  ctxp_buf_add(&n->at[n->count], name.ptr, name.len);
  return ctxp_buf_error(&n->at[n->count++]);
}

static int note_any(void *data, struct ctxp_stage *stage, struct ctxp_fold_session *s) {
  (void)stage;
  (void)s;
  *(bool *)data = true;
  return 0;
}

/* "; there are 'a', 'b' and more" */
static int put_names(struct ctxp_stage *stage, const struct ctxp_fold_filter *among, bool agents, struct ctxp_buf *out) {
  struct names names = {.agents = agents};
  int r = ctxp_fold_each_session(stage, among, note_name, &names);
  ctxp_buf_str(out, names.count == 0 ? "; there are none yet" : names.count == 1 && !names.more ? "; there is " :
                                                                                                  "; there are ");
  for (unsigned i = 0; i < names.count; i++) {
    bool last = i + 1 == names.count && !names.more;
    ctxp_buf_printf(out, "%s'%s'", i == 0 ? "" : last ? " and " :
                                                        ", ",
        ctxp_buf_cstr(&names.at[i]));
    ctxp_buf_deinit(&names.at[i]);
  }
  if (names.more) ctxp_buf_str(out, " and more");
  return r < 0 ? r : ctxp_buf_error(out);
}

int ctxp_fold_check_filter(struct ctxp_stage *stage, const struct ctxp_fold_filter *filter, struct ctxp_error *err) {
  const struct ctxp_fold_filter of_agent = {.agent = filter->agent}, all = {.agent = {"", 0}};
  struct ctxp_str agent = filter->agent, session = filter->session;
  bool agent_known = agent.len == 0, known = false;
  ctxp_auto_buf there = {0};
  if (agent.len == 0 && session.len == 0) return 0;
  int r = ctxp_fold_each_session(stage, filter, note_any, &known);
  if (r == 0 && known) return 0;
  if (r == 0 && agent.len) r = ctxp_fold_each_session(stage, &of_agent, note_any, &agent_known);
  if (r == 0) r = put_names(stage, agent_known ? &of_agent : &all, !agent_known, &there);
  if (r < 0) return ctxp_error_set(err, r, "the sessions could not be looked through");
  if (!agent_known) return ctxp_error_set(err, -ENOENT, "no agent '%.*s' is known%s", (int)agent.len, agent.ptr, ctxp_buf_cstr(&there));
  return ctxp_error_set(err, -ENOENT, "no session '%.*s' %s%.*s%s%s", (int)session.len, session.ptr, agent.len ? "of agent '" : "",
      (int)agent.len, agent.len ? agent.ptr : "", agent.len ? "' is known" : "is known", ctxp_buf_cstr(&there));
}

/* ---- potential ---- */
void ctxp_fold_look(const struct ctxp_fold_window *w, struct ctxp_fold_potential *seen) {
  for (uint32_t i = 0; i < w->messages.count; i++) {
    const struct ctxp_fold_message *m = &w->messages.at[i];
    if (!m->defined || m->copied || m->role == CTXP_ROLE_assistant) continue;
    const struct ctxp_fold_call *call = m->tool.len ? NULL : ctxp_fold_window_call(w, m->answers);
    struct ctxp_str tool = call ? call->name : m->tool;
    enum ctxp_tool_class class = tool.len ? ctxp_tool_class(tool, m->band == CTXP_BAND_skill) : CTXP_TOOL_OTHER;
    if (class == CTXP_TOOL_SHELL) seen->of[CTXP_FOLD_BASH] += m->tokens;
    if (class == CTXP_TOOL_READ || class == CTXP_TOOL_SEARCH || class == CTXP_TOOL_SKILL) seen->of[CTXP_FOLD_AMNESIA] += m->tokens;
  }
  for (uint32_t i = 0; i < w->calls.count; i++)
    if (!w->calls.at[i].copied && ctxp_tool_class(w->calls.at[i].name, false) == CTXP_TOOL_WRITE)
      seen->of[CTXP_FOLD_WRITE] += w->calls.at[i].content_tokens;
}

/* Where an agent defines no messages, what the mechanism's own events say that they looked at is all there is. */
void ctxp_fold_add_potential(struct ctxp_fold_potential *sum, const struct ctxp_fold_session *s, const struct ctxp_fold_potential *seen) {
  for (unsigned m = 0; m < CTXP_FOLD_MECHANISMS; m++) {
    uint64_t offered = m == CTXP_FOLD_LAZY ? s->offered_lazy : seen->of[m];
    uint64_t told = s->looked_at[m] > s->potential[m] ? s->looked_at[m] : s->potential[m];
    sum->saved[m] += s->potential[m];
    sum->of[m] += offered > told ? offered : told;
  }
}

/* the order in which people read them */
static const struct {
  const char *name;
  unsigned mechanism;
} shown[CTXP_FOLD_MECHANISMS] = {
    {"bash", CTXP_FOLD_BASH}, {"amnesia", CTXP_FOLD_AMNESIA}, {"lazy", CTXP_FOLD_LAZY}, {"write", CTXP_FOLD_WRITE}};

static void pair_u64(struct ctxp_buf *out, const char *key, uint64_t value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_u64(out, value);
}

void ctxp_fold_pack_potential(struct ctxp_buf *out, const struct ctxp_fold_potential *p) {
  ctxp_pack_map(out, CTXP_FOLD_MECHANISMS);
  for (size_t i = 0; i < CTXP_FOLD_MECHANISMS; i++) {
    ctxp_pack_cstr(out, shown[i].name);
    ctxp_pack_map(out, 2);
    pair_u64(out, "saved", p->saved[shown[i].mechanism]);
    pair_u64(out, "of", p->of[shown[i].mechanism]);
  }
}

/* ---- stats ---- */
struct sums {
  uint64_t saved[CTXP_FOLD_MECHANISMS], turns, aux, regret, carried, carried_cost_nano;
  bool carried_priced;
  struct ctxp_fold_potential potential;
};
struct stats {
  struct ctxp_buf sessions; /* elements of the array */
  uint32_t count;
  struct sums all;
};

/* five pairs; rest: of the total, beyond its parts */
static void pack_savings(struct ctxp_buf *out, const uint64_t *saved, const uint64_t *more, int64_t rest) {
  uint64_t total = (uint64_t)rest;
  for (size_t i = 0; i < CTXP_FOLD_MECHANISMS; i++) {
    uint64_t value = saved[shown[i].mechanism] + (more ? more[shown[i].mechanism] : 0);
    pair_u64(out, shown[i].name, value);
    total += value;
  }
  pair_u64(out, "total", total);
}

static void pack_carried(struct ctxp_buf *out, uint64_t tokens, uint64_t cost_nano, bool priced) {
  pair_u64(out, "carried", tokens);
  ctxp_pack_cstr(out, "carriedCostNano");
  priced ? ctxp_pack_u64(out, cost_nano) : ctxp_pack_nil(out);
}

static void pack_net(struct ctxp_buf *out, uint64_t aux, int64_t net) {
  pair_u64(out, "aux", aux);
  ctxp_pack_cstr(out, "net");
  ctxp_pack_i64(out, net);
}

static void pack_last(struct ctxp_buf *out, const struct ctxp_fold_session *s) {
  const struct ctxp_fold_closed_turn *l = &s->last;
  ctxp_pack_cstr(out, "last");
  if (s->turns == 0) {
    ctxp_pack_nil(out);
    return;
  }
  ctxp_pack_map(out, 10);
  pair_u64(out, "turn", l->turn);
  pack_savings(out, l->saved, NULL, 0);
  pack_net(out, l->aux, l->net);
  pack_carried(out, l->carried, l->carried_cost_nano, l->carried_priced);
}

/* eight pairs */
static void pack_sums(struct ctxp_buf *out, const struct sums *a, const uint64_t *restored, int64_t rest) {
  uint64_t total = a->saved[0] + a->saved[1] + a->saved[2] + a->saved[3];
  ctxp_pack_cstr(out, "cumulative");
  ctxp_pack_map(out, 5);
  pack_savings(out, a->saved, restored, rest);
  pair_u64(out, "turns", a->turns);
  pack_net(out, a->aux, (int64_t)(total - a->aux - a->regret));
  pair_u64(out, "regret", a->regret);
  pack_carried(out, a->carried, a->carried_cost_nano, a->carried_priced);
  ctxp_pack_cstr(out, "potential");
  ctxp_fold_pack_potential(out, &a->potential);
}

static void add_sums(struct sums *all, const struct sums *one) {
  for (unsigned m = 0; m < CTXP_FOLD_MECHANISMS; m++) {
    all->saved[m] += one->saved[m];
    all->potential.saved[m] += one->potential.saved[m];
    all->potential.of[m] += one->potential.of[m];
  }
  all->turns += one->turns;
  all->aux += one->aux;
  all->regret += one->regret;
  all->carried += one->carried;
  all->carried_cost_nano += one->carried_cost_nano;
  all->carried_priced |= one->carried_priced;
}

static int look(void *data, struct ctxp_fold_window *w) {
  ctxp_fold_look(w, data);
  return 0;
}

static int visit(void *data, struct ctxp_stage *stage, struct ctxp_fold_session *s) {
  struct stats *st = data;
  struct ctxp_fold_potential seen = {{0}, {0}};
  struct sums one = {.turns = s->turns,
      .aux = s->aux,
      .regret = s->regret,
      .carried = s->carried,
      .carried_cost_nano = s->carried_cost_nano,
      .carried_priced = s->carried_priced};
  int r = ctxp_fold_each_window(stage, s, look, &seen);
  if (r < 0) return r;
  memcpy(one.saved, s->saved, sizeof(one.saved));
  ctxp_fold_add_potential(&one.potential, s, &seen);
  ctxp_pack_map(&st->sessions, 3 + 8 + (s->has_restored ? 1 : 0));
  ctxp_pack_cstr(&st->sessions, "agent");
  ctxp_pack_str(&st->sessions, s->agent);
  ctxp_pack_cstr(&st->sessions, "session");
  ctxp_pack_str(&st->sessions, s->session);
  if (s->has_restored) {
    ctxp_pack_cstr(&st->sessions, "restored");
    ctxp_pack_map(&st->sessions, 5);
    pack_savings(&st->sessions, s->restored, NULL, s->restored_rest);
  }
  pack_last(&st->sessions, s);
  pack_sums(&st->sessions, &one, s->restored, s->restored_rest);
  add_sums(&st->all, &one);
  st->count++;
  return ctxp_buf_error(&st->sessions);
}

int ctxp_fold_stats(struct ctxp_stage *stage, const struct ctxp_fold_filter *filter, struct ctxp_buf *reply, struct ctxp_error *err) {
  struct stats st = {.count = 0};
  int r = ctxp_fold_each_session(stage, filter, visit, &st);
  ctxp_pack_map(reply, 3);
  pair_u64(reply, "schema", 1);
  ctxp_pack_cstr(reply, "sessions");
  ctxp_pack_array(reply, st.count);
  ctxp_buf_add(reply, st.sessions.ptr, st.sessions.len);
  ctxp_pack_cstr(reply, "all");
  ctxp_pack_map(reply, 1 + 8);
  pair_u64(reply, "sessions", st.count);
  pack_sums(reply, &st.all, NULL, 0);
  ctxp_buf_deinit(&st.sessions);
  if (r == 0) r = ctxp_buf_error(reply);
  return r < 0 ? ctxp_error_set(err, r, "the savings could not be put together: %s",
                     r == -ENOMEM ? "out of memory" : "a record of the fold's state is damaged") :
                 0;
}
