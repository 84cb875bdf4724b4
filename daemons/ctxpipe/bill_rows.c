#include "ctxpipe/bill_rows.h"
#include <errno.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "ctxpipe/table.h"

__extension__ typedef unsigned __int128 u128;

const char *const ctxp_grain_names[] = {"band", "view", "tool", "message", "day", "project", "model", "agent", "session", NULL};
const char *const ctxp_bill_sort_names[] = {"cost", "billed", "own", "turns", "name", NULL};
static const char *const row_keys[CTXP_GRAINS] = {
    "bands", "views", "tools", "messages", "days", "projects", "models", "agents", "sessions"};
static const char *const name_keys[CTXP_GRAINS] = {
    "band", "label", "tool", "label", "day", "project", "model", "agent", "session"};

struct ctxp_str ctxp_bill_row_name(const struct ctxp_bill_row *row, enum ctxp_grain grain) {
  struct ctxp_str name = ctxp_map_str(row->map, name_keys[grain]);
  if (name.len == 0 && grain == CTXP_GRAIN_VIEW) name = ctxp_map_str(row->map, "kind"); /* unattributed */
  return name.len || grain < CTXP_GRAIN_DAY ? name : CTXP_STR("(not said)");
}

struct order {
  enum ctxp_grain grain;
  enum ctxp_bill_sort sort;
};

static uint64_t figure(const struct ctxp_bill_row *row, enum ctxp_bill_sort sort) {
  return sort == CTXP_SORT_OWN ? row->own : sort == CTXP_SORT_TURNS ? row->turns : sort == CTXP_SORT_BILLED ? row->billed : row->cost;
}

/* the largest first, names from a to z; what is equal as the fold ranked it */
static int compare(const void *a, const void *b, void *data) {
  const struct ctxp_bill_row *x = a, *y = b;
  const struct order *order = data;
  if (order->sort == CTXP_SORT_NAME) {
    int names = ctxp_str_cmp(ctxp_bill_row_name(x, order->grain), ctxp_bill_row_name(y, order->grain));
    if (names) return names;
  } else if (figure(x, order->sort) != figure(y, order->sort)) {
    return figure(x, order->sort) < figure(y, order->sort) ? 1 : -1;
  }
  return x->place < y->place ? -1 : 1;
}

static void read_row(struct ctxp_bill_row *r, enum ctxp_grain grain) {
  struct ctxp_raw cost = ctxp_map_get(r->map, "costNano"), error = ctxp_map_get(r->map, "error");
  bool of_requests = grain >= CTXP_GRAIN_DAY;
  uint64_t unpriced = ctxp_map_u64(r->map, "unpricedTokens", 0);
  r->billed = ctxp_map_u64(r->map, "billed", 0);
  r->own = ctxp_map_u64(r->map, of_requests ? "output" : "own", 0);
  r->turns = ctxp_map_u64(r->map, of_requests ? "requests" : "turns", 0);
  r->cost = ctxp_map_u64(r->map, "costNano", 0);
  r->priced = cost.len && ctxp_raw_type(cost) != CTXP_PACK_NIL && !(of_requests && unpriced && !r->cost);
  r->partly = r->priced && (unpriced || ctxp_map_bool(r->map, "partlyPriced", false));
  r->has_error = error.len && ctxp_raw_type(error) != CTXP_PACK_NIL;
  r->error = ctxp_map_u64(r->map, "error", 0);
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
  if (r == 0) r = ctxp_round_together(values, count, CTXP_COST_UNIT);
  for (unsigned i = 0; i < count; i++) rows[i].shown = values[i];
  free(values);
  return r;
}

int ctxp_bill_rows_read(struct ctxp_raw reply, enum ctxp_grain grain, enum ctxp_bill_sort sort, struct ctxp_bill_row **ret_rows,
    unsigned *ret_count) {
  struct ctxp_raw list = ctxp_map_get(reply, row_keys[grain]);
  struct ctxp_cursor it = ctxp_cursor(list);
  struct order order = {grain, sort};
  uint32_t left;
  if (!list.len || ctxp_array_open(&it, &left) < 0) return -EBADMSG;
  struct ctxp_bill_row *rows = calloc(left + 1u, sizeof(*rows)); /* one more: the others */
  if (!rows) return -ENOMEM;
  unsigned count = 0;
  while (ctxp_array_next(&it, &left, &rows[count].map) > 0) {
    read_row(&rows[count], grain);
    rows[count].place = count;
    count++;
  }
  int r = round_rows(rows, count, ctxp_map_u64(ctxp_map_get(reply, "totals"), "billed", 0));
  bool ranked = sort == CTXP_SORT_RANK || (sort == CTXP_SORT_COST && grain != CTXP_GRAIN_DAY && grain != CTXP_GRAIN_SESSION);
  if (!ranked) qsort_r(rows, count, sizeof(*rows), compare, &order);
  *ret_rows = r < 0 ? NULL : rows;
  *ret_count = count;
  if (r < 0) free(rows);
  return r;
}

unsigned ctxp_bill_rows_fold(struct ctxp_bill_row *rows, unsigned count, uint64_t top) {
  if (count <= top) return count;
  struct ctxp_bill_row others = {0};
  for (unsigned i = (unsigned)top; i < count; i++) {
    others.billed += rows[i].billed;
    others.own += rows[i].own;
    others.cost += rows[i].cost;
    others.share += rows[i].share;
    others.shown += rows[i].shown;
    others.partly |= rows[i].partly || (rows[i].billed && !rows[i].priced);
    others.priced |= rows[i].priced;
  }
  others.partly &= others.priced;
  others.place = count - (unsigned)top;
  rows[top] = others;
  return (unsigned)top + 1;
}

bool ctxp_bill_rows_priced(const struct ctxp_bill_row *rows, unsigned count) {
  bool priced = true;
  for (unsigned i = 0; i < count; i++) priced &= rows[i].priced || !rows[i].billed;
  return priced;
}

uint64_t ctxp_bill_row_weight(const struct ctxp_bill_row *row, enum ctxp_bill_sort sort, bool by_cost) {
  bool cost = sort == CTXP_SORT_RANK || sort == CTXP_SORT_COST || sort == CTXP_SORT_NAME;
  return cost && !by_cost ? row->billed : figure(row, sort);
}
