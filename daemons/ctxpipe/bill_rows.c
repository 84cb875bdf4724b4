#include "ctxpipe/bill_rows.h"
#include <errno.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"

const char *const ctxp_grain_names[] = {"band", "view", "tool", "message", NULL};
const char *const ctxp_bill_sort_names[] = {"cost", "billed", "own", "turns", "name", NULL};
static const char *const row_keys[CTXP_GRAINS] = {"bands", "views", "tools", "messages"};

struct ctxp_str ctxp_bill_row_name(const struct ctxp_bill_row *row, enum ctxp_grain grain) {
  struct ctxp_str name = ctxp_map_str(row->map, grain == CTXP_GRAIN_BAND ? "band" : grain == CTXP_GRAIN_TOOL ? "tool" :
                                                                                                               "label");
  return name.len ? name : ctxp_map_str(row->map, "kind"); /* unattributed */
}

struct order {
  enum ctxp_grain grain;
  enum ctxp_bill_sort sort;
};

static uint64_t figure(const struct ctxp_bill_row *row, enum ctxp_bill_sort sort) {
  return sort == CTXP_SORT_OWN ? row->own : sort == CTXP_SORT_TURNS ? row->turns :
                                                                      row->billed;
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
    struct ctxp_bill_row *r = &rows[count];
    struct ctxp_raw cost = ctxp_map_get(r->map, "costNano");
    r->billed = ctxp_map_u64(r->map, "billed", 0);
    r->own = ctxp_map_u64(r->map, "own", 0);
    r->turns = ctxp_map_u64(r->map, "turns", 0);
    r->priced = cost.len && ctxp_raw_type(cost) != CTXP_PACK_NIL;
    r->cost = ctxp_map_u64(r->map, "costNano", 0);
    r->place = count++;
  }
  if (sort != CTXP_SORT_COST) qsort_r(rows, count, sizeof(*rows), compare, &order); /* by cost they come */
  *ret_rows = rows;
  *ret_count = count;
  return 0;
}
