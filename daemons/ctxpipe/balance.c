#include "ctxpipe/balance.h"
#include <errno.h>
#include "base/str.h"
#include "codec/msgpack.h"

static const char *const titles[] = {"billed", "kept out", "aux", "re-cached", "regret", "gain", "net"};
static const char *const tokens[] = {"billed", "carried", "aux", "rewritten", "regret", "gain", "net"};
static const char *const money[] = {
    "costNano", "carriedCostNano", "auxCostNano", "rewrittenCostNano", "regretCostNano", "gainCostNano", "netCostNano"};
#define FIGURES (sizeof(titles) / sizeof(*titles))

static uint32_t count_of(struct ctxp_raw list) {
  struct ctxp_cursor it = ctxp_cursor(list);
  uint32_t left;
  return list.len && ctxp_array_open(&it, &left) == 0 ? left : 0;
}

static void put_figure(struct ctxp_table *table, int64_t value, bool dollars) {
  ctxp_auto_buf text = {0};
  if (!dollars) {
    ctxp_put_signed(&text, value);
  } else {
    if (value < 0) ctxp_buf_char(&text, '-');
    ctxp_put_dollars(&text, value < 0 ? -value : value, 4);
  }
  ctxp_table_text(table, ctxp_buf_view(&text));
}

static int put_rows(struct ctxp_raw list, const char *name, bool dollars, const struct ctxp_style *style, struct ctxp_buf *out) {
  struct ctxp_column columns[FIGURES + 1] = {{"", CTXP_COLUMN_TEXT}};
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_raw row;
  uint32_t left;
  for (size_t i = 0; i < FIGURES; i++) columns[i + 1] = (struct ctxp_column){titles[i], CTXP_COLUMN_NUMBER};
  struct ctxp_table table = {.columns = columns, .column_count = FIGURES + 1};
  if (!list.len || ctxp_array_open(&it, &left) < 0) return -EBADMSG;
  while (ctxp_array_next(&it, &left, &row) > 0) {
    ctxp_table_text(&table, ctxp_map_str(row, name));
    for (size_t i = 0; i < FIGURES; i++) put_figure(&table, ctxp_map_i64(row, dollars ? money[i] : tokens[i], 0), dollars);
  }
  int r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  return r;
}

static uint64_t unpriced_of(struct ctxp_raw list) {
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_raw row;
  uint64_t sum = 0;
  uint32_t left;
  if (!list.len || ctxp_array_open(&it, &left) < 0) return 0;
  while (ctxp_array_next(&it, &left, &row) > 0) sum += ctxp_map_u64(row, "unpricedTokens", 0);
  return sum;
}

int ctxp_balance_print(struct ctxp_raw balance, bool empty, const struct ctxp_style *style, struct ctxp_buf *out) {
  static const char *const headings[2][2] = {{"Balance by view, tokens", "Balance by view, dollars"},
      {"Balance by tool, tokens", "Balance by tool, dollars"}};
  struct ctxp_raw lists[] = {ctxp_map_get(balance, "views"), ctxp_map_get(balance, "tools")};
  uint64_t unpriced = unpriced_of(lists[1]);
  int r = 0;
  if (!count_of(lists[1]) && empty) {
    ctxp_put_heading(out, style, "Balance");
    ctxp_buf_str(out, "  nothing was kept out, and no auxiliary model was asked\n");
  }
  if (!count_of(lists[1])) return ctxp_buf_error(out);
  for (unsigned i = 0; r == 0 && i < 4; i++) {
    ctxp_put_heading(out, style, headings[i / 2][i % 2]);
    r = put_rows(lists[i / 2], i / 2 ? "tool" : "label", i % 2, style, out);
  }
  ctxp_put_wrapped(out, style,
      "gain = kept out of the requests that would have carried it - tokens of auxiliary models - cache paid for anew because of a "
      "removal - what came back (regret); net = billed + gain.");
  if (unpriced) {
    ctxp_put_counted(out, unpriced, "token");
    ctxp_buf_str(out, " of these have no price; the dollars are of the others\n");
  }
  return r < 0 ? r : ctxp_buf_error(out);
}
