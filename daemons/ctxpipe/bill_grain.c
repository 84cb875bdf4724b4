#include "ctxpipe/bill_grain.h"
#include <errno.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"

static const char *const headings[] = {"The bill by band", "The bill by view", "The bill by tool", "The bill by message"};

/* ---- cells ---- */
void ctxp_bill_put_heading(struct ctxp_buf *out, const struct ctxp_style *style, const char *text, const struct ctxp_bill_options *options,
    unsigned count) {
  ctxp_auto_buf heading = {0};
  ctxp_buf_str(&heading, text);
  if (count > options->top)
    ctxp_buf_printf(&heading, " (the %s %llu of %u; --top N shows more)",
        options->sort == CTXP_SORT_NAME || options->grain == CTXP_GRAIN_DAY ? "first" : "largest", (unsigned long long)options->top, count);
  ctxp_put_heading(out, style, ctxp_buf_cstr(&heading));
}

void ctxp_bill_cell_cost(struct ctxp_table *table, const struct ctxp_bill_row *row) {
  ctxp_auto_buf cost = {0};
  if (row->partly) ctxp_buf_char(&cost, '>');
  if (row->priced) ctxp_put_dollars(&cost, (int64_t)(row->shown * CTXP_COST_UNIT), CTXP_COST_DECIMALS);
  ctxp_table_text(table, row->priced ? ctxp_buf_view(&cost) : CTXP_STR("-"));
}

void ctxp_bill_cell_share(struct ctxp_table *table, uint64_t tenths) {
  ctxp_auto_buf share = {0};
  ctxp_buf_printf(&share, "%llu.%llu%%", (unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10));
  ctxp_table_text(table, ctxp_buf_view(&share));
}

void ctxp_bill_put_incomplete(struct ctxp_raw reply, const struct ctxp_bill_row *rows, unsigned count, struct ctxp_buf *out) {
  struct ctxp_raw totals = ctxp_map_get(reply, "totals");
  uint64_t unpriced = ctxp_map_u64(totals, "unpricedTokens", 0);
  bool partly = false;
  for (unsigned i = 0; i < count; i++) partly |= rows[i].partly;
  if (!unpriced || !ctxp_map_u64(totals, "costNano", 0)) return;
  ctxp_buf_str(out, "cost: of what has a price alone; ");
  ctxp_put_counted(out, unpriced, "token");
  ctxp_buf_printf(out, " of the bill have none%s\n", partly ? " (>: a part of the row)" : "");
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

/* how far billed may be off, in percent; the others' is not summed up */
static void put_error(struct ctxp_table *table, const struct ctxp_bill_row *row) {
  ctxp_auto_buf text = {0};
  uint64_t percent = row->billed ? (row->error * 100 + row->billed / 2) / row->billed : 0;
  if (row->has_error && row->billed)
    ctxp_buf_printf(&text, percent > 999 ? ">999%%" : percent == 0 && row->error ? "<1%%" : "%llu%%", (unsigned long long)percent);
  ctxp_table_text(table, ctxp_buf_view(&text));
}

struct shown {
  enum ctxp_grain grain;
  enum ctxp_bill_sort sort;
  const struct ctxp_bill_row *rows;
  unsigned count;
  bool by_cost, errors;
  uint64_t widest;
};

static void put_row(struct ctxp_table *table, const struct shown *shown, const struct ctxp_bill_row *row) {
  put_name(table, shown->grain, row);
  if (shown->grain == CTXP_GRAIN_VIEW || shown->grain == CTXP_GRAIN_MESSAGE) put_kind(table, shown->grain, row);
  ctxp_table_count(table, row->billed);
  if (shown->errors) put_error(table, row);
  ctxp_table_count(table, row->own);
  ctxp_bill_cell_cost(table, row);
  ctxp_bill_cell_share(table, row->share);
  if (row->map.len)
    ctxp_table_count(table, row->turns);
  else
    ctxp_table_text(table, CTXP_STR(""));
  ctxp_table_bar(table, ctxp_bill_row_weight(row, shown->sort, shown->by_cost), shown->widest);
}

static int print_rows(struct shown *shown, const struct ctxp_style *style, struct ctxp_buf *out) {
  struct ctxp_column columns[CTXP_COLUMNS_MAX];
  unsigned n = 0;
  shown->by_cost = ctxp_bill_rows_priced(shown->rows, shown->count);
  for (unsigned i = 0; i < shown->count; i++) {
    uint64_t weight = ctxp_bill_row_weight(&shown->rows[i], shown->sort, shown->by_cost);
    shown->errors |= shown->rows[i].has_error;
    if (shown->rows[i].map.len && weight > shown->widest) shown->widest = weight;
  }
  columns[n++] = (struct ctxp_column){"", CTXP_COLUMN_TEXT};
  if (shown->grain == CTXP_GRAIN_VIEW || shown->grain == CTXP_GRAIN_MESSAGE) columns[n++] = (struct ctxp_column){"what", CTXP_COLUMN_TEXT};
  columns[n++] = (struct ctxp_column){"billed", CTXP_COLUMN_NUMBER};
  if (shown->errors) columns[n++] = (struct ctxp_column){style->utf8 ? "±" : "+-", CTXP_COLUMN_NUMBER};
  columns[n++] = (struct ctxp_column){"own", CTXP_COLUMN_NUMBER};
  columns[n++] = (struct ctxp_column){"cost", CTXP_COLUMN_NUMBER};
  columns[n++] = (struct ctxp_column){"share", CTXP_COLUMN_NUMBER};
  columns[n++] = (struct ctxp_column){"turns", CTXP_COLUMN_NUMBER};
  columns[n++] = (struct ctxp_column){"", CTXP_COLUMN_BAR};
  struct ctxp_table table = {.columns = columns, .column_count = n};
  for (unsigned i = 0; i < shown->count; i++) put_row(&table, shown, &shown->rows[i]);
  int r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  return r;
}

int ctxp_bill_material(struct ctxp_raw reply, enum ctxp_grain grain, const struct ctxp_bill_options *options,
    const struct ctxp_style *style, struct ctxp_buf *out) {
  unsigned count = 0;
  struct ctxp_bill_row *rows;
  int r = ctxp_bill_rows_read(reply, grain, options->sort, &rows, &count);
  if (r < 0) return r;
  ctxp_bill_put_heading(out, style, headings[grain], options, count);
  struct shown shown = {.grain = grain, .sort = options->sort, .rows = rows, .count = ctxp_bill_rows_fold(rows, count, options->top)};
  if (shown.count) r = print_rows(&shown, style, out);
  if (!shown.count) ctxp_buf_str(out, "  nothing\n");
  if (shown.count && options->grain >= 0) ctxp_bill_put_incomplete(reply, rows, shown.count, out); /* the whole bill says it at its top */
  free(rows);
  return r;
}
