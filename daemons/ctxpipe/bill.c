/* Rows stand as the fold ranked them, as in --json: by cost, then by billed tokens. Shares and costs are rounded so that they add up. */
#include "ctxpipe/bill.h"
#include <errno.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "ctxpipe/bill_rows.h"
#include "ctxpipe/savings.h"

__extension__ typedef unsigned __int128 u128;

static const char *const headings[CTXP_GRAINS] = {"The bill by band", "The bill by view", "The bill by tool", "The bill by message"};

#define COST_DECIMALS 4
#define COST_UNIT 100000 /* nano-dollars of the last decimal */

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
    line(out, "tokens without a price", unpriced, "the cost is not known: no model in use is in the price table");
    return;
  }
  uint64_t parts[] = {input, all > input ? all - input : 0};
  ctxp_auto_buf text = {0};
  if (ctxp_round_together(parts, 2, COST_UNIT) < 0) out->failed = true;
  ctxp_put_dollars(&text, (int64_t)((parts[0] + parts[1]) * COST_UNIT), COST_DECIMALS);
  ctxp_buf_printf(out, "  %-22s %15s  input ", unpriced ? "cost of what is priced" : "cost", ctxp_buf_cstr(&text));
  ctxp_put_dollars(out, (int64_t)(parts[0] * COST_UNIT), COST_DECIMALS);
  ctxp_buf_str(out, ", output ");
  ctxp_put_dollars(out, (int64_t)(parts[1] * COST_UNIT), COST_DECIMALS);
  ctxp_buf_char(out, '\n');
  if (unpriced) line(out, "unpriced tokens", unpriced, "the cost is incomplete: their model has no price");
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

/* ---- rows ---- */
/* what is below the top becomes one row; returns how many rows are shown */
static unsigned fold_others(struct ctxp_bill_row *rows, unsigned count, uint64_t top) {
  if (count <= top) return count;
  struct ctxp_bill_row others = {0};
  for (unsigned i = (unsigned)top; i < count; i++) {
    others.billed += rows[i].billed;
    others.own += rows[i].own;
    others.cost += rows[i].cost;
    others.priced |= rows[i].priced;
  }
  others.place = count - (unsigned)top;
  rows[top] = others;
  return (unsigned)top + 1;
}

/* shares of `whole`; what the rows lack of it is not shown, but rounded with them, so that they add up to what they are of it */
static int round_rows(struct ctxp_bill_row *rows, unsigned count, uint64_t whole) {
  uint64_t *values = calloc(count ? count : 1, sizeof(*values));
  if (!values) return -ENOMEM;
  for (unsigned i = 0; i < count; i++) values[i] = whole ? (uint64_t)((u128)rows[i].billed * 1000000 / whole) : 0;
  int r = ctxp_round_together(values, count, 1000);
  for (unsigned i = 0; i < count; i++) {
    rows[i].share = values[i];
    values[i] = rows[i].cost;
  }
  if (r == 0) r = ctxp_round_together(values, count, COST_UNIT);
  for (unsigned i = 0; i < count; i++) rows[i].cost = values[i];
  free(values);
  return r;
}

static void put_name(struct ctxp_table *table, enum ctxp_grain grain, const struct ctxp_bill_row *row) {
  ctxp_auto_buf text = {0};
  enum ctxp_band band;
  if (!row->map.len) {
    ctxp_buf_printf(&text, "(%u other%s)", row->place, row->place == 1 ? "" : "s");
  } else if (grain == CTXP_GRAIN_BAND) {
    struct ctxp_str name = ctxp_map_str(row->map, "band");
    if (ctxp_band_parse(name, &band))
      ctxp_buf_str(&text, ctxp_band_shown(band));
    else
      ctxp_buf_add(&text, name.ptr, name.len);
  } else {
    struct ctxp_str name = ctxp_bill_row_name(row, grain);
    ctxp_buf_add(&text, name.ptr, name.len);
  }
  ctxp_table_text(table, ctxp_buf_view(&text));
}

/* of a view its kind; of a message what it is: the tool that made it, and of what */
static void put_kind(struct ctxp_table *table, enum ctxp_grain grain, const struct ctxp_bill_row *row) {
  ctxp_auto_buf text = {0};
  struct ctxp_str kind = ctxp_map_str(row->map, "kind"), tool = ctxp_map_str(row->map, "tool"), path = ctxp_map_str(row->map, "path");
  if (!tool.len || grain != CTXP_GRAIN_MESSAGE) tool = kind.len ? kind : ctxp_map_str(row->map, "band");
  ctxp_buf_add(&text, tool.ptr, tool.len);
  if (path.len && grain == CTXP_GRAIN_MESSAGE) ctxp_buf_printf(&text, " %.*s", (int)path.len, path.ptr);
  ctxp_table_text(table, ctxp_buf_view(&text));
}

/* of the bar: by what the rows are in order, as far as every row has it */
static uint64_t weight(const struct ctxp_bill_row *row, bool by_cost) { return by_cost ? row->cost : row->billed; }

static void put_row(struct ctxp_table *table, enum ctxp_grain grain, const struct ctxp_bill_row *row, bool by_cost, uint64_t widest) {
  ctxp_auto_buf share = {0}, cost = {0};
  put_name(table, grain, row);
  if (grain == CTXP_GRAIN_VIEW || grain == CTXP_GRAIN_MESSAGE) put_kind(table, grain, row);
  ctxp_table_count(table, row->billed);
  ctxp_table_count(table, row->own);
  if (row->priced) ctxp_put_dollars(&cost, (int64_t)(row->cost * COST_UNIT), COST_DECIMALS);
  ctxp_table_text(table, row->priced ? ctxp_buf_view(&cost) : CTXP_STR("-"));
  ctxp_buf_printf(&share, "%llu.%llu%%", (unsigned long long)(row->share / 10), (unsigned long long)(row->share % 10));
  ctxp_table_text(table, ctxp_buf_view(&share));
  if (row->map.len)
    ctxp_table_count(table, row->turns);
  else
    ctxp_table_text(table, CTXP_STR(""));
  ctxp_table_bar(table, weight(row, by_cost), widest);
}

struct shown {
  enum ctxp_grain grain;
  enum ctxp_bill_sort sort;
  const struct ctxp_bill_row *rows;
  unsigned count;
};

static int print_rows(const struct shown *shown, const struct ctxp_style *style, struct ctxp_buf *out) {
  const struct ctxp_bill_row *rows = shown->rows;
  enum ctxp_grain grain = shown->grain;
  unsigned count = shown->count;
  static const struct ctxp_column narrow[] = {{"", CTXP_COLUMN_TEXT}, {"billed", CTXP_COLUMN_NUMBER}, {"own", CTXP_COLUMN_NUMBER},
      {"cost", CTXP_COLUMN_NUMBER}, {"share", CTXP_COLUMN_NUMBER}, {"turns", CTXP_COLUMN_NUMBER}, {"", CTXP_COLUMN_BAR}};
  static const struct ctxp_column wide[] = {{"", CTXP_COLUMN_TEXT}, {"what", CTXP_COLUMN_TEXT}, {"billed", CTXP_COLUMN_NUMBER},
      {"own", CTXP_COLUMN_NUMBER}, {"cost", CTXP_COLUMN_NUMBER}, {"share", CTXP_COLUMN_NUMBER}, {"turns", CTXP_COLUMN_NUMBER},
      {"", CTXP_COLUMN_BAR}};
  bool kinds = grain == CTXP_GRAIN_VIEW || grain == CTXP_GRAIN_MESSAGE;
  struct ctxp_table table = {.columns = kinds ? wide : narrow, .column_count = kinds ? 8 : 7};
  uint64_t widest = 0;
  bool by_cost = shown->sort == CTXP_SORT_COST;
  for (unsigned i = 0; i < count; i++) by_cost &= rows[i].priced || !rows[i].billed;
  for (unsigned i = 0; i < count; i++)
    if (rows[i].map.len && weight(&rows[i], by_cost) > widest) widest = weight(&rows[i], by_cost);
  for (unsigned i = 0; i < count; i++) put_row(&table, grain, &rows[i], by_cost, widest);
  int r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  return r;
}

/* a row with some priced and some unpriced requests has the cost of the priced ones alone */
static void put_incomplete(struct ctxp_raw totals, struct ctxp_buf *out) {
  uint64_t unpriced = ctxp_map_u64(totals, "unpricedTokens", 0);
  if (!unpriced || !ctxp_map_u64(totals, "costNano", 0)) return;
  ctxp_buf_str(out, "cost: of what has a price alone; ");
  ctxp_put_counted(out, unpriced, "token");
  ctxp_buf_str(out, " of the bill have none\n");
}

static int put_grain(struct ctxp_raw reply, enum ctxp_grain grain, const struct ctxp_bill_options *options, const struct ctxp_style *style,
    struct ctxp_buf *out) {
  uint64_t billed = ctxp_map_u64(ctxp_map_get(reply, "totals"), "billed", 0);
  unsigned count = 0;
  ctxp_auto_buf heading = {0};
  struct ctxp_bill_row *rows;
  int r = ctxp_bill_rows_read(reply, grain, options->sort, &rows, &count);
  if (r < 0) return r;
  ctxp_buf_str(&heading, headings[grain]);
  if (count > options->top)
    ctxp_buf_printf(&heading, " (the %s %llu of %u; --top N shows more)", options->sort == CTXP_SORT_NAME ? "first" : "largest",
        (unsigned long long)options->top, count);
  ctxp_put_heading(out, style, ctxp_buf_cstr(&heading));
  unsigned shown = fold_others(rows, count, options->top);
  r = round_rows(rows, shown, billed);
  if (r == 0 && shown) r = print_rows(&(struct shown){grain, options->sort, rows, shown}, style, out);
  if (!shown) ctxp_buf_str(out, "  nothing\n");
  if (shown && options->grain >= 0) put_incomplete(ctxp_map_get(reply, "totals"), out); /* the whole bill says it at its top */
  free(rows);
  return r;
}

/* ---- what else there is ---- */
/* Where much more was reported than the messages account for: the rows carry it, and no file or session shows it. */
static void put_invisible(struct ctxp_raw sessions, struct ctxp_buf *out) {
  struct ctxp_cursor it = ctxp_cursor(sessions);
  struct ctxp_raw session;
  uint64_t visible = 0, reported = 0;
  uint32_t left;
  if (!sessions.len || ctxp_array_open(&it, &left) < 0) return;
  while (ctxp_array_next(&it, &left, &session) > 0) {
    struct ctxp_raw calibration = ctxp_map_get(session, "calibration");
    visible += ctxp_map_u64(calibration, "estimated", 0);
    reported += ctxp_map_u64(calibration, "reported", 0);
  }
  if (!visible || (u128)visible * 5 >= (u128)reported * 4) return;
  uint64_t tenths = (uint64_t)(((u128)visible * 2000 + reported) / ((u128)reported * 2));
  ctxp_buf_str(out, "\nThe messages are estimated at ");
  ctxp_put_count(out, visible);
  ctxp_buf_str(out, " of the ");
  ctxp_put_count(out, reported);
  ctxp_buf_printf(out,
      " reported input tokens (%llu.%llu%%). What no transcript shows,\nsuch as the system prompt and the tool declarations, is split "
      "over them, and so is the error of the estimate.\n",
      (unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10));
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
  ctxp_put_heading(
      out, style, "Cache lost: what the last request had left in the cache, and the next had to pay in full (part of the bill)");
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

int ctxp_bill_print(struct ctxp_raw reply, struct ctxp_raw passed_over, const struct ctxp_bill_options *options,
    const struct ctxp_style *style, struct ctxp_buf *out) {
  if (ctxp_raw_type(ctxp_map_get(reply, "totals")) != CTXP_PACK_MAP) return -EBADMSG;
  if (options->grain >= 0) return put_grain(reply, (enum ctxp_grain)options->grain, options, style, out);
  put_totals(reply, style, out);
  int r = 0;
  for (int grain = 0; r == 0 && grain < CTXP_GRAIN_MESSAGE; grain++) r = put_grain(reply, (enum ctxp_grain)grain, options, style, out);
  if (r == 0) put_invisible(ctxp_map_get(reply, "sessions"), out);
  if (r == 0) r = put_busts(ctxp_map_get(reply, "cacheBusts"), style, out);
  if (r == 0) r = ctxp_savings_potential(ctxp_map_get(reply, "potential"), style, out);
  if (r == 0) r = put_passed_over(passed_over, style, out);
  return r < 0 ? r : ctxp_buf_error(out);
}
