/* The bill by what requests have in common, and the tree of sessions. Here `cost` is that of input and output. */
#include <errno.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "ctxpipe/bill_grain.h"
#include "ctxpipe/when.h"

#define FIGURES \
  {"requests", CTXP_COLUMN_NUMBER}, {"input", CTXP_COLUMN_NUMBER}, {"output", CTXP_COLUMN_NUMBER}, {"cost", CTXP_COLUMN_NUMBER}, \
      {"share", CTXP_COLUMN_NUMBER}, { \
    "", CTXP_COLUMN_BAR \
  }
static const struct ctxp_column of_groups[] = {{"", CTXP_COLUMN_TEXT}, FIGURES},
                                with_subagents[] = {{"", CTXP_COLUMN_TEXT}, {"sub-agents", CTXP_COLUMN_NUMBER}, FIGURES},
                                of_sessions[] = {{"", CTXP_COLUMN_TEXT}, {"agent", CTXP_COLUMN_TEXT}, FIGURES};
#define COLUMNS 8

struct shown {
  enum ctxp_bill_sort sort;
  bool by_cost;
  uint64_t widest;
};

static struct shown measure(const struct ctxp_bill_row *rows, unsigned count, enum ctxp_bill_sort sort) {
  struct shown shown = {.sort = sort, .by_cost = ctxp_bill_rows_priced(rows, count)};
  for (unsigned i = 0; i < count; i++) {
    uint64_t weight = ctxp_bill_row_weight(&rows[i], sort, shown.by_cost);
    if (rows[i].map.len && weight > shown.widest) shown.widest = weight;
  }
  return shown;
}

static void put_figures(struct ctxp_table *table, const struct ctxp_bill_row *row, const struct shown *shown) {
  if (row->map.len)
    ctxp_table_count(table, row->turns);
  else
    ctxp_table_text(table, CTXP_STR(""));
  ctxp_table_count(table, row->billed);
  ctxp_table_count(table, row->own);
  ctxp_bill_cell_cost(table, row);
  ctxp_bill_cell_share(table, row->share);
  ctxp_table_bar(table, ctxp_bill_row_weight(row, shown->sort, shown->by_cost), shown->widest);
}

static void put_others(struct ctxp_table *table, unsigned count) {
  ctxp_auto_buf name = {0};
  ctxp_buf_printf(&name, "(%u other%s)", count, count == 1 ? "" : "s");
  ctxp_table_text(table, ctxp_buf_view(&name));
}

static uint64_t of_subagents(const struct ctxp_bill_row *row) { return ctxp_map_u64(ctxp_map_get(row->map, "ofSubagents"), "billed", 0); }

static bool any_subagents(const struct ctxp_bill_row *rows, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    if (of_subagents(&rows[i])) return true;
  return false;
}

/* how much of a row's input sub-agents had: it is in the row */
static void put_subagents(struct ctxp_table *table, const struct ctxp_bill_row *row) {
  uint64_t billed = of_subagents(row);
  ctxp_auto_buf text = {0};
  if (billed && row->billed) ctxp_buf_printf(&text, "%llu%%", (unsigned long long)((billed * 100 + row->billed / 2) / row->billed));
  ctxp_table_text(table, ctxp_buf_view(&text));
}

int ctxp_bill_groups(struct ctxp_raw reply, enum ctxp_grain grain, const struct ctxp_bill_options *options,
    const struct ctxp_style *style, struct ctxp_buf *out) {
  ctxp_auto_buf heading = {0};
  unsigned count = 0;
  struct ctxp_bill_row *rows;
  int r = ctxp_bill_rows_read(reply, grain, options->sort, &rows, &count);
  if (r < 0) return r;
  ctxp_buf_printf(&heading, "The bill by %s", ctxp_grain_names[grain]);
  if (grain == CTXP_GRAIN_DAY) {
    ctxp_buf_str(&heading, " (local time: ");
    ctxp_put_zone(&heading, options->now_ms);
    ctxp_buf_char(&heading, ')');
  }
  ctxp_bill_put_heading(out, style, ctxp_buf_cstr(&heading), options, count);
  count = ctxp_bill_rows_fold(rows, count, options->top);
  struct shown shown = measure(rows, count, options->sort);
  bool parts = any_subagents(rows, count);
  struct ctxp_table table = {.columns = parts ? with_subagents : of_groups, .column_count = parts ? COLUMNS : COLUMNS - 1};
  for (unsigned i = 0; i < count; i++) {
    if (rows[i].map.len)
      ctxp_table_text(&table, ctxp_bill_row_name(&rows[i], grain));
    else
      put_others(&table, rows[i].place);
    if (parts) put_subagents(&table, &rows[i]);
    put_figures(&table, &rows[i], &shown);
  }
  r = ctxp_table_print(&table, style, out);
  ctxp_bill_put_incomplete(reply, rows, count, style, out);
  ctxp_table_deinit(&table);
  free(rows);
  return r;
}

/* ---- sessions ---- */
struct tree {
  const struct ctxp_bill_row *threads; /* one for each window */
  unsigned count;
  unsigned *session; /* of a thread: the number of its session */
};

static bool same_session(const struct ctxp_bill_row *a, const struct ctxp_bill_row *b) {
  return ctxp_str_eq(ctxp_map_str(a->map, "session"), ctxp_map_str(b->map, "session")) &&
      ctxp_str_eq(ctxp_map_str(a->map, "agent"), ctxp_map_str(b->map, "agent"));
}

static void add(struct ctxp_bill_row *sum, const struct ctxp_bill_row *one) {
  sum->partly = (sum->partly || one->partly || (sum->priced ? one->billed && !one->priced : sum->billed && one->priced));
  sum->billed += one->billed;
  sum->own += one->own;
  sum->turns += one->turns;
  sum->cost += one->cost;
  sum->share += one->share;
  sum->shown += one->shown;
  sum->priced |= one->priced;
}

static int compare_names(const void *a, const void *b, void *data) {
  const struct ctxp_bill_row *rows = data, *x = &rows[*(const unsigned *)a], *y = &rows[*(const unsigned *)b];
  int r = ctxp_str_cmp(ctxp_map_str(x->map, "agent"), ctxp_map_str(y->map, "agent"));
  if (r == 0) r = ctxp_str_cmp(ctxp_map_str(x->map, "session"), ctxp_map_str(y->map, "session"));
  return r ? r : (x->place < y->place ? -1 : x->place > y->place);
}

/* One row for each session, in `sums`; of its threads' rows the first gives its names. */
static int sum_sessions(struct tree *t, struct ctxp_bill_row *sums, unsigned *ret_count) {
  unsigned *order = malloc((t->count + 1) * sizeof(*order)), n = 0;
  if (!order) return -ENOMEM;
  for (unsigned i = 0; i < t->count; i++) order[i] = i;
  qsort_r(order, t->count, sizeof(*order), compare_names, (void *)t->threads);
  for (unsigned i = 0; i < t->count; i++) {
    const struct ctxp_bill_row *one = &t->threads[order[i]];
    if (n == 0 || !same_session(&sums[n - 1], one)) {
      sums[n] = (struct ctxp_bill_row){.map = one->map, .place = n};
      n++;
    }
    add(&sums[n - 1], one);
    t->session[order[i]] = n - 1;
  }
  free(order);
  *ret_count = n;
  return 0;
}

struct sessions_order {
  const struct ctxp_bill_row *sums;
  enum ctxp_bill_sort sort;
  bool by_cost;
};

static int compare_sums(const void *a, const void *b, void *data) {
  const struct sessions_order *o = data;
  const struct ctxp_bill_row *x = &o->sums[*(const unsigned *)a], *y = &o->sums[*(const unsigned *)b];
  uint64_t left = ctxp_bill_row_weight(x, o->sort, o->by_cost), right = ctxp_bill_row_weight(y, o->sort, o->by_cost);
  if (o->sort != CTXP_SORT_NAME && left != right) return left > right ? -1 : 1;
  return x->place < y->place ? -1 : x->place > y->place;
}

#define DEPTH_SHOWN 8

static void put_thread(struct ctxp_table *table, const struct ctxp_bill_row *row, unsigned depth) {
  ctxp_auto_buf name = {0}, by = {0};
  struct ctxp_str thread = ctxp_map_str(row->map, "thread"), call = ctxp_map_str(row->map, "spawnedBy");
  for (unsigned i = 0; i < depth; i++) ctxp_buf_str(&name, "  ");
  ctxp_buf_add(&name, thread.len ? thread.ptr : "(itself)", thread.len ? thread.len : 8);
  if (call.len) ctxp_buf_printf(&by, "by %.*s", (int)call.len, call.ptr);
  ctxp_table_text(table, ctxp_buf_view(&name));
  ctxp_table_text(table, ctxp_buf_view(&by));
}

/* the threads that `parent` spawned, each with its own below it; a thread whose parent is not there stands below the session */
static void put_threads(struct ctxp_table *table, const struct tree *t, const struct shown *shown, unsigned session, struct ctxp_str parent,
    unsigned depth) {
  for (unsigned i = 0; i < t->count; i++) {
    const struct ctxp_bill_row *row = &t->threads[i];
    struct ctxp_str thread = ctxp_map_str(row->map, "thread"), above = ctxp_map_str(row->map, "parentThread");
    bool known = above.len == 0;
    if (t->session[i] != session || thread.len == 0) continue;
    for (unsigned k = 0; k < t->count && !known; k++)
      known = k != i && t->session[k] == session && ctxp_str_eq(ctxp_map_str(t->threads[k].map, "thread"), above);
    if (!ctxp_str_eq(known ? above : (struct ctxp_str){"", 0}, parent)) continue;
    put_thread(table, row, depth);
    put_figures(table, row, shown);
    if (depth < DEPTH_SHOWN) put_threads(table, t, shown, session, thread, depth + 1);
  }
}

static unsigned threads_of(const struct tree *t, unsigned session, unsigned *ret_main) {
  unsigned n = 0;
  *ret_main = t->count;
  for (unsigned i = 0; i < t->count; i++) {
    if (t->session[i] != session) continue;
    n++;
    if (ctxp_map_str(t->threads[i].map, "thread").len == 0) *ret_main = i;
  }
  return n;
}

static int print_tree(const struct tree *t, struct ctxp_bill_row *sums, const unsigned *order, unsigned count, unsigned all,
    const struct ctxp_bill_options *options, const struct ctxp_style *style, struct ctxp_buf *out) {
  struct ctxp_table table = {.columns = of_sessions, .column_count = COLUMNS};
  struct shown shown = measure(sums, all, options->sort);
  for (unsigned i = 0; i < count; i++) {
    struct ctxp_bill_row *sum = &sums[order[i]];
    unsigned main, threads = threads_of(t, order[i], &main);
    ctxp_table_text(&table, ctxp_map_str(sum->map, "session"));
    ctxp_table_text(&table, ctxp_map_str(sum->map, "agent"));
    put_figures(&table, sum, &shown);
    if (threads > 1 && main < t->count) {
      put_thread(&table, &t->threads[main], 1);
      put_figures(&table, &t->threads[main], &shown);
    }
    if (threads > 1 || main == t->count) put_threads(&table, t, &shown, order[i], (struct ctxp_str){"", 0}, 1);
  }
  struct ctxp_bill_row others = {.place = all - count};
  for (unsigned i = count; i < all; i++) add(&others, &sums[order[i]]);
  if (others.place) {
    put_others(&table, others.place);
    ctxp_table_text(&table, CTXP_STR(""));
    put_figures(&table, &others, &shown);
  }
  int r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  return r;
}

int ctxp_bill_sessions(
    struct ctxp_raw reply, const struct ctxp_bill_options *options, const struct ctxp_style *style, struct ctxp_buf *out) {
  struct ctxp_bill_row *threads, *sums = NULL;
  unsigned count = 0, all = 0, *order = NULL;
  int r = ctxp_bill_rows_read(reply, CTXP_GRAIN_SESSION, CTXP_SORT_RANK, &threads, &count);
  if (r < 0) return r;
  struct tree tree = {.threads = threads, .count = count, .session = calloc(count + 1, sizeof(*tree.session))};
  sums = calloc(count + 1, sizeof(*sums));
  order = calloc(count + 1, sizeof(*order));
  r = tree.session && sums && order ? sum_sessions(&tree, sums, &all) : -ENOMEM;
  if (r == 0) {
    struct sessions_order how = {sums, options->sort, ctxp_bill_rows_priced(sums, all)};
    unsigned shown = all < options->top ? all : (unsigned)options->top;
    for (unsigned i = 0; i < all; i++) order[i] = i;
    qsort_r(order, all, sizeof(*order), compare_sums, &how);
    ctxp_bill_put_heading(out, style, "The bill by session", options, all);
    r = print_tree(&tree, sums, order, shown, all, options, style, out);
    ctxp_bill_put_incomplete(reply, sums, all, style, out);
  }
  free(threads);
  free(tree.session);
  free(sums);
  free(order);
  return r;
}
