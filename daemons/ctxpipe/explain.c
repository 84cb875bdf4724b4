#include "ctxpipe/explain.h"
#include <errno.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "ctxpipe/when.h"

#define DECIMALS 6 /* of a dollar: parts of a request are small */

static const char *const titles[] = {"uncached", "read", "written", "size", "billed", "cost", "by place"};
#define FIGURES (sizeof(titles) / sizeof(*titles))

static void cell_money(struct ctxp_table *table, uint64_t nano, bool known) {
  ctxp_auto_buf text = {0};
  if (known) ctxp_put_dollars(&text, (int64_t)nano, DECIMALS);
  ctxp_table_text(table, known ? ctxp_buf_view(&text) : CTXP_STR("-"));
}

static bool known(struct ctxp_raw map, const char *key) {
  struct ctxp_raw value = ctxp_map_get(map, key);
  return value.len && ctxp_raw_type(value) != CTXP_PACK_NIL;
}

static void put_request(struct ctxp_table *table, struct ctxp_raw q, bool models) {
  ctxp_auto_buf when = {0};
  ctxp_put_local_short(&when, ctxp_map_u64(q, "timeMs", 0));
  ctxp_table_count(table, ctxp_map_u64(q, "request", 0));
  ctxp_table_text(table, ctxp_buf_view(&when));
  if (models) ctxp_table_text(table, ctxp_map_str(q, "model"));
  ctxp_table_count(table, ctxp_map_u64(q, "input", 0));
  ctxp_table_count(table, ctxp_map_u64(q, "cacheRead", 0));
  ctxp_table_count(table, ctxp_map_u64(q, "cacheWrite5m", 0) + ctxp_map_u64(q, "cacheWrite1h", 0));
  ctxp_table_count(table, ctxp_map_u64(q, "size", 0));
  ctxp_table_count(table, ctxp_map_u64(q, "billed", 0));
  cell_money(table, ctxp_map_u64(q, "costNano", 0), known(q, "costNano"));
  cell_money(table, ctxp_map_u64(q, "costTieredNano", 0), known(q, "costTieredNano"));
}

struct sum {
  uint64_t count, billed, cost, tiered;
  bool priced;
};

static void put_sum(struct ctxp_table *table, const char *name, const struct sum *sum, bool models) {
  ctxp_table_text(table, CTXP_STR(""));
  ctxp_table_text(table, ctxp_str(name));
  for (unsigned i = 0; i < (models ? 5u : 4u); i++) ctxp_table_text(table, CTXP_STR(""));
  ctxp_table_count(table, sum->billed);
  cell_money(table, sum->cost, sum->priced);
  cell_money(table, sum->tiered, sum->priced);
}

static void add(struct sum *sum, struct ctxp_raw q) {
  sum->count++;
  sum->billed += ctxp_map_u64(q, "billed", 0);
  sum->cost += ctxp_map_u64(q, "costNano", 0);
  sum->tiered += ctxp_map_u64(q, "costTieredNano", 0);
  sum->priced |= known(q, "costNano");
}

/* the one model of all requests; len 0: several, or none is said */
static struct ctxp_str one_model(struct ctxp_raw requests) {
  struct ctxp_cursor it = ctxp_cursor(requests);
  struct ctxp_raw q;
  struct ctxp_str model = {"", 0};
  uint32_t left;
  if (!requests.len || ctxp_array_open(&it, &left) < 0) return model;
  for (bool first = true; ctxp_array_next(&it, &left, &q) > 0; first = false) {
    struct ctxp_str name = ctxp_map_str(q, "model");
    if (first) model = name;
    if (!ctxp_str_eq(name, model)) return (struct ctxp_str){"", 0};
  }
  return model;
}

static void put_title(struct ctxp_raw window, struct ctxp_str model, const struct ctxp_style *style, struct ctxp_buf *out) {
  ctxp_auto_buf heading = {0};
  struct ctxp_str thread = ctxp_map_str(window, "thread");
  ctxp_term_text(&heading, ctxp_map_str(window, "agent"));
  ctxp_buf_char(&heading, ' ');
  ctxp_term_text(&heading, ctxp_map_str(window, "session"));
  if (thread.len) ctxp_buf_char(&heading, ' ');
  ctxp_term_text(&heading, thread);
  if (model.len) ctxp_buf_str(&heading, ", ");
  ctxp_term_text(&heading, model);
  ctxp_put_heading(out, style, ctxp_buf_cstr(&heading));
}

static int put_window(struct ctxp_raw window, uint64_t top, const struct ctxp_style *style, struct ctxp_buf *out) {
  struct ctxp_raw requests = ctxp_map_get(window, "requests"), q;
  struct ctxp_str model = one_model(requests);
  struct ctxp_column columns[CTXP_COLUMNS_MAX] = {{"", CTXP_COLUMN_NUMBER}, {"when", CTXP_COLUMN_TEXT}, {"model", CTXP_COLUMN_TEXT}};
  struct ctxp_cursor it = ctxp_cursor(requests);
  struct sum all = {0}, others = {0};
  bool models = model.len == 0;
  ctxp_auto_buf name = {0};
  uint32_t left, n = 0;
  unsigned count = models ? 3 : 2;
  if (!requests.len || ctxp_array_open(&it, &left) < 0) return -EBADMSG;
  for (size_t i = 0; i < FIGURES; i++) columns[count++] = (struct ctxp_column){titles[i], CTXP_COLUMN_NUMBER};
  struct ctxp_table table = {.columns = columns, .column_count = count};
  put_title(window, model, style, out);
  while (ctxp_array_next(&it, &left, &q) > 0) {
    add(&all, q);
    if (top && ++n > top)
      add(&others, q);
    else
      put_request(&table, q, models);
  }
  ctxp_buf_printf(&name, "(%llu more)", (unsigned long long)others.count);
  if (others.count) put_sum(&table, ctxp_buf_cstr(&name), &others, models);
  put_sum(&table, "sum", &all, models);
  int r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  return r;
}

static void put_row(struct ctxp_raw reply, struct ctxp_buf *out) {
  struct ctxp_raw row = ctxp_map_get(reply, "row");
  ctxp_term_text(out, ctxp_map_str(reply, "kind"));
  ctxp_buf_char(out, ' ');
  ctxp_term_text(out, ctxp_map_str(reply, "name"));
  ctxp_buf_str(out, ": billed ");
  ctxp_put_counted(out, ctxp_map_u64(row, "billed", 0), "token");
  if (known(row, "costNano")) {
    ctxp_buf_str(out, ", cost ");
    ctxp_put_dollars(out, ctxp_map_i64(row, "costNano", 0), DECIMALS);
    ctxp_buf_str(out, " (by place in the cached prefix ");
    ctxp_put_dollars(out, ctxp_map_i64(row, "costTieredNano", 0), DECIMALS);
    ctxp_buf_char(out, ')');
  }
  ctxp_buf_char(out, '\n');
}

int ctxp_explain_print(struct ctxp_raw reply, uint64_t top, const struct ctxp_style *style, struct ctxp_buf *out) {
  struct ctxp_raw windows = ctxp_map_get(reply, "windows"), window;
  struct ctxp_cursor it = ctxp_cursor(windows);
  uint32_t left;
  int r = 0;
  if (ctxp_raw_type(ctxp_map_get(reply, "row")) != CTXP_PACK_MAP || !windows.len || ctxp_array_open(&it, &left) < 0) return -EBADMSG;
  put_row(reply, out);
  ctxp_put_wrapped(out, style,
      "Of each request it pays the part that its size is of the input (uncached + read + written): billed. 'cost' is the same part of the "
      "input's cost; 'by place' goes by where in the prefix it stands: read, then written, then uncached tokens, each at its rate.");
  while (r == 0 && ctxp_array_next(&it, &left, &window) > 0) r = put_window(window, top, style, out);
  return r < 0 ? r : ctxp_buf_error(out);
}
