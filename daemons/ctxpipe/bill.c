/* Rows stand as the fold ranked them, as in --json: by cost, then by billed tokens. Shares and costs are rounded so that they add up. */
#include "ctxpipe/bill.h"
#include <errno.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "ctxpipe/balance.h"
#include "ctxpipe/bill_grain.h"
#include "ctxpipe/savings.h"
#include "ctxpipe/when.h"

__extension__ typedef unsigned __int128 u128;

/* ---- totals ---- */
static void line(struct ctxp_buf *out, const char *name, uint64_t number, const char *note) {
  ctxp_auto_buf text = {0};
  ctxp_put_count(&text, number);
  ctxp_buf_printf(out, "  %-22s %15s%s%s\n", name, ctxp_buf_cstr(&text), note[0] ? "  " : "", note);
}

/* ---- unpriced models ---- */
#define MODELS_TOLD 6
struct unpriced {
  struct ctxp_str models[MODELS_TOLD];
  unsigned count;
  bool more; /* than are known */
};

/* the model of a window that had only one; len 0: it had several, and which of them has no price is not known */
static struct ctxp_str only_model(struct ctxp_raw window) {
  struct ctxp_raw list = ctxp_map_get(window, "models"), model;
  struct ctxp_cursor it = ctxp_cursor(list);
  uint32_t left;
  if (!list.len || ctxp_array_open(&it, &left) < 0 || left != 1 || ctxp_array_next(&it, &left, &model) <= 0)
    return (struct ctxp_str){"", 0};
  return ctxp_raw_str(model);
}

static void add_unpriced(struct unpriced *u, struct ctxp_str model) {
  for (unsigned i = 0; model.len && i < u->count; i++)
    if (ctxp_str_eq(u->models[i], model)) return;
  if (model.len && u->count < MODELS_TOLD)
    u->models[u->count++] = model;
  else
    u->more = true;
}

static void put_unpriced_models(struct ctxp_raw windows, struct ctxp_buf *out) {
  struct unpriced unpriced = {.count = 0};
  struct ctxp_cursor it = ctxp_cursor(windows);
  struct ctxp_raw window;
  uint32_t left;
  if (!windows.len || ctxp_array_open(&it, &left) < 0) return;
  while (ctxp_array_next(&it, &left, &window) > 0)
    if (ctxp_map_u64(window, "unpricedTokens", 0)) add_unpriced(&unpriced, only_model(window));
  if (!unpriced.count) return;
  ctxp_buf_printf(out, "  %-22s ", "unpriced models");
  for (unsigned i = 0; i < unpriced.count; i++) {
    if (i) ctxp_buf_str(out, ", ");
    ctxp_term_text(out, unpriced.models[i]);
  }
  ctxp_buf_str(out, unpriced.more ? " and perhaps others\n" : "\n");
}

static void put_cost(struct ctxp_raw totals, struct ctxp_buf *out) {
  uint64_t all = ctxp_map_u64(totals, "costNano", 0), input = ctxp_map_u64(totals, "costInputNano", 0),
           unpriced = ctxp_map_u64(totals, "unpricedTokens", 0);
  if (!all && unpriced) {
    line(out, "tokens without a price", unpriced, "no model in use has a price");
    return;
  }
  uint64_t parts[] = {input, all > input ? all - input : 0};
  ctxp_auto_buf text = {0};
  if (ctxp_round_together(parts, 2, CTXP_COST_UNIT) < 0) out->failed = true;
  ctxp_put_dollars(&text, (int64_t)((parts[0] + parts[1]) * CTXP_COST_UNIT), CTXP_COST_DECIMALS);
  ctxp_buf_printf(out, "  %-22s %15s  input ", unpriced ? "cost of what is priced" : "cost", ctxp_buf_cstr(&text));
  ctxp_put_dollars(out, (int64_t)(parts[0] * CTXP_COST_UNIT), CTXP_COST_DECIMALS);
  ctxp_buf_str(out, ", output ");
  ctxp_put_dollars(out, (int64_t)(parts[1] * CTXP_COST_UNIT), CTXP_COST_DECIMALS);
  ctxp_buf_char(out, '\n');
  if (unpriced) line(out, "unpriced tokens", unpriced, "their model has no price");
}

static void put_totals(struct ctxp_raw reply, const struct ctxp_style *style, struct ctxp_buf *out) {
  struct ctxp_raw totals = ctxp_map_get(reply, "totals"), prices = ctxp_map_get(reply, "prices");
  uint64_t unreported = ctxp_map_u64(totals, "requestsUnreported", 0), unexplained = ctxp_map_u64(totals, "unexplainedTokens", 0);
  ctxp_auto_buf reasoning = {0};
  ctxp_put_heading(out, style, "Reported");
  line(out, "sessions", ctxp_map_u64(totals, "sessions", 0), "");
  line(out, "requests", ctxp_map_u64(totals, "requests", 0), "");
  if (unreported) line(out, "  without usage", unreported, "they bill nothing");
  line(out, "input, not cached", ctxp_map_u64(totals, "input", 0), "");
  line(out, "cache read", ctxp_map_u64(totals, "cacheRead", 0), "");
  line(out, "cache write, 5 min", ctxp_map_u64(totals, "cacheWrite5m", 0), "");
  line(out, "cache write, 1 h", ctxp_map_u64(totals, "cacheWrite1h", 0), "");
  line(out, "input in all (billed)", ctxp_map_u64(totals, "billed", 0), "");
  if (ctxp_map_u64(totals, "reasoning", 0)) {
    ctxp_put_count(&reasoning, ctxp_map_u64(totals, "reasoning", 0));
    ctxp_buf_str(&reasoning, " of it reasoning");
  }
  line(out, "output", ctxp_map_u64(totals, "output", 0), ctxp_buf_cstr(&reasoning));
  put_cost(totals, out);
  put_unpriced_models(ctxp_map_get(reply, "sessions"), out);
  if (unexplained) line(out, "unexplained tokens", unexplained, "left the window, and nothing says why");
  struct ctxp_str version = ctxp_map_str(prices, "version");
  if (version.len) {
    ctxp_buf_printf(out, "  %-22s ", "prices");
    ctxp_term_text(out, version);
    ctxp_buf_char(out, '\n');
  }
}

/* ---- what else there is ---- */
struct calibrated { /* of all windows */
  uint64_t visible, reported, misfits, wrong, growth;
  bool ledger, estimate;
};

static struct calibrated calibrated(struct ctxp_raw sessions) {
  struct calibrated sum = {0};
  struct ctxp_cursor it = ctxp_cursor(sessions);
  struct ctxp_raw session;
  uint32_t left;
  if (!sessions.len || ctxp_array_open(&it, &left) < 0) return sum;
  while (ctxp_array_next(&it, &left, &session) > 0) {
    struct ctxp_raw c = ctxp_map_get(session, "calibration");
    bool ledger = ctxp_str_is(ctxp_map_str(c, "sizes"), "ledger");
    sum.ledger |= ledger;
    sum.wrong += ctxp_map_u64(c, "predictionError", 0);
    sum.growth += ctxp_map_u64(c, "growth", 0);
    sum.misfits += ctxp_map_u64(c, "misfits", 0);
    if (ledger) continue;
    sum.estimate = true;
    sum.visible += ctxp_map_u64(c, "estimated", 0);
    sum.reported += ctxp_map_u64(c, "reported", 0);
  }
  return sum;
}

static void put_tenths(struct ctxp_buf *out, uint64_t part, uint64_t whole) {
  uint64_t tenths = (uint64_t)(((u128)part * 2000 + whole) / ((u128)whole * 2));
  ctxp_buf_printf(out, "%llu.%llu%%", (unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10));
}

/* What the sizes are worth: by the ledger how well they foretell the next request, by estimates alone how much of what was reported they
 * account for. */
static void put_calibration(struct ctxp_raw sessions, const struct ctxp_style *style, struct ctxp_buf *out) {
  struct calibrated c = calibrated(sessions);
  ctxp_auto_buf text = {0};
  if (c.ledger && c.growth) {
    ctxp_buf_str(&text, "Sizes are what the reported input grew by. Before a request was known, its growth was foretold to within ");
    put_tenths(&text, c.wrong, c.growth);
    ctxp_buf_str(&text, " (sum of the errors, of the growth)");
    if (c.misfits) {
      ctxp_buf_str(&text, "; ");
      ctxp_put_counted(&text, c.misfits, "request");
      ctxp_buf_str(&text, " did not fit and taught nothing");
    }
    ctxp_buf_char(&text, '.');
    ctxp_buf_char(out, '\n');
    ctxp_put_wrapped(out, style, ctxp_buf_cstr(&text));
  }
  if (!c.visible || (u128)c.visible * 5 >= (u128)c.reported * 4) return;
  ctxp_buf_reset(&text);
  ctxp_buf_str(&text, "The messages are estimated at ");
  ctxp_put_count(&text, c.visible);
  ctxp_buf_str(&text, " of the ");
  ctxp_put_count(&text, c.reported);
  ctxp_buf_str(&text, " reported input tokens (");
  put_tenths(&text, c.visible, c.reported);
  ctxp_buf_str(&text, "). Each request's input is split over its messages by their estimates, so what none of them shows, such as the "
                      "system prompt and the tool declarations, is in their rows too.");
  ctxp_buf_char(out, '\n');
  ctxp_put_wrapped(out, style, ctxp_buf_cstr(&text));
}

static struct ctxp_str bust_cause(struct ctxp_str cause) {
  static const char *const words[][2] = {{"compaction", "the window was compacted"}, {"model", "another model"}, {"tools", "other tools"},
      {"removal", "messages were taken out"}, {"idle", "a pause longer than the cache lives"}, {"unknown", "not known"}};
  for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
    if (ctxp_str_is(cause, words[i][0])) return ctxp_str(words[i][1]);
  return cause;
}

static int put_busts(struct ctxp_raw list, const struct ctxp_style *style, struct ctxp_buf *out) {
  static const struct ctxp_column columns[] = {
      {"why", CTXP_COLUMN_TEXT}, {"times", CTXP_COLUMN_NUMBER}, {"tokens", CTXP_COLUMN_NUMBER}, {"cost", CTXP_COLUMN_NUMBER}};
  struct ctxp_table table = {.columns = columns, .column_count = 4};
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_raw bust;
  uint32_t left;
  if (!list.len || ctxp_array_open(&it, &left) < 0 || !left) return 0;
  ctxp_put_heading(out, style, "Cache lost, and paid for anew (part of the bill, not added to it)");
  while (ctxp_array_next(&it, &left, &bust) > 0) {
    ctxp_auto_buf cost = {0};
    ctxp_table_text(&table, bust_cause(ctxp_map_str(bust, "cause")));
    ctxp_table_count(&table, ctxp_map_u64(bust, "count", 0));
    ctxp_table_count(&table, ctxp_map_u64(bust, "tokens", 0));
    ctxp_put_dollars(&cost, ctxp_map_i64(bust, "costNano", 0), 4);
    ctxp_table_text(&table, ctxp_buf_view(&cost));
  }
  int r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  return r;
}

struct passed { /* of one kind, over all files */
  struct ctxp_str kind;
  uint64_t count, files;
};

static int by_count(const void *a, const void *b) {
  const struct passed *x = a, *y = b;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  return ctxp_str_cmp(x->kind, y->kind);
}

/* one for each kind, the most frequent first; of a file every kind is told once */
static int sum_passed(struct ctxp_raw list, struct passed **ret_kinds, unsigned *ret_count) {
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_raw item;
  uint32_t left;
  unsigned count = 0;
  *ret_kinds = NULL;
  *ret_count = 0;
  if (!list.len || ctxp_array_open(&it, &left) < 0 || !left) return 0;
  struct passed *kinds = calloc(left, sizeof(*kinds));
  if (!kinds) return -ENOMEM;
  while (ctxp_array_next(&it, &left, &item) > 0) {
    struct ctxp_str kind = ctxp_map_str(item, "kind");
    unsigned k = 0;
    while (k < count && !ctxp_str_eq(kinds[k].kind, kind)) k++;
    if (k == count) kinds[count++].kind = kind;
    kinds[k].count += ctxp_map_u64(item, "count", 0);
    kinds[k].files++;
  }
  qsort(kinds, count, sizeof(*kinds), by_count);
  *ret_kinds = kinds;
  *ret_count = count;
  return 0;
}

static int put_passed_over(struct ctxp_raw list, const struct ctxp_style *style, struct ctxp_buf *out) {
  static const struct ctxp_column columns[] = {{"what", CTXP_COLUMN_TEXT}, {"count", CTXP_COLUMN_NUMBER}, {"files", CTXP_COLUMN_NUMBER}};
  struct ctxp_table table = {.columns = columns, .column_count = 3};
  struct passed *kinds;
  unsigned count;
  int r = sum_passed(list, &kinds, &count);
  if (r < 0 || !count) return r;
  ctxp_put_heading(out, style, "Passed over (--json has it by file)");
  for (unsigned i = 0; i < count; i++) {
    ctxp_table_text(&table, kinds[i].kind);
    ctxp_table_count(&table, kinds[i].count);
    ctxp_table_count(&table, kinds[i].files);
  }
  r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  free(kinds);
  return r;
}

static int put_grain(struct ctxp_raw reply, enum ctxp_grain grain, const struct ctxp_bill_options *options, const struct ctxp_style *style,
    struct ctxp_buf *out) {
  if (grain == CTXP_GRAIN_SESSION) return ctxp_bill_sessions(reply, options, style, out);
  return grain < CTXP_GRAIN_DAY ? ctxp_bill_material(reply, grain, options, style, out) :
                                  ctxp_bill_groups(reply, grain, options, style, out);
}

/* what the question was narrowed to */
static void put_filter(struct ctxp_raw filter, struct ctxp_buf *out) {
  static const char *const names[] = {"agent", "session", "model"};
  uint64_t since = ctxp_map_u64(filter, "sinceMs", 0);
  unsigned n = 0;
  if (!filter.len) return;
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
    struct ctxp_str value = ctxp_map_str(filter, names[i]);
    if (!value.len) continue;
    ctxp_buf_printf(out, "%s%s ", n++ ? ", " : "Only ", names[i]);
    ctxp_term_text(out, value);
  }
  if (since) {
    ctxp_buf_str(out, n++ ? ", since " : "Only since ");
    ctxp_put_local(out, since);
  }
  if (n) ctxp_buf_char(out, '\n');
}

int ctxp_bill_print(struct ctxp_raw reply, struct ctxp_raw passed_over, const struct ctxp_bill_options *options,
    const struct ctxp_style *style, struct ctxp_buf *out) {
  if (ctxp_raw_type(ctxp_map_get(reply, "totals")) != CTXP_PACK_MAP) return -EBADMSG;
  put_filter(ctxp_map_get(reply, "filter"), out);
  if (options->balance) return ctxp_balance_print(ctxp_map_get(reply, "balance"), true, style, out);
  if (options->grain >= 0) return put_grain(reply, (enum ctxp_grain)options->grain, options, style, out);
  put_totals(reply, style, out);
  int r = 0;
  for (int grain = 0; r == 0 && grain < CTXP_GRAIN_MESSAGE; grain++) r = put_grain(reply, (enum ctxp_grain)grain, options, style, out);
  if (r == 0) put_calibration(ctxp_map_get(reply, "sessions"), style, out);
  if (r == 0) r = put_busts(ctxp_map_get(reply, "cacheBusts"), style, out);
  if (r == 0) r = ctxp_balance_print(ctxp_map_get(reply, "balance"), false, style, out);
  if (r == 0) r = ctxp_savings_potential(ctxp_map_get(reply, "potential"), style, out);
  if (r == 0) r = put_passed_over(passed_over, style, out);
  return r < 0 ? r : ctxp_buf_error(out);
}
