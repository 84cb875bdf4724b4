/* The bill as CSV (RFC 4180): one line a row, figures as they are, so that a sum over a column is the total. */
#include "ctxpipe/csv.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "ctxpipe/bill_rows.h"

static const char *const texts[CTXP_GRAINS][8] = {{"band", NULL}, {"band", "kind", "label", NULL}, {"tool", NULL},
    {"label", "band", "tool", "path", "agent", "session", "thread", NULL}, {"day", NULL}, {"project", NULL}, {"model", NULL},
    {"agent", NULL}, {"agent", "session", "thread", "parentThread", "spawnedBy", "project", NULL}};
static const char *const of_material[] = {"own", "billed", "cost", "costTiered", "messages", "turns", "first", "last", NULL};
static const char *const of_requests[] = {"requests", "requestsUnreported", "input", "cacheRead", "cacheWrite5m", "cacheWrite1h", "output",
    "reasoning", "billed", "cost", "costInput", "unpricedTokens", NULL};

static const char *const *figures_of(enum ctxp_grain grain) { return grain < CTXP_GRAIN_DAY ? of_material : of_requests; }

static void put_text(struct ctxp_buf *out, struct ctxp_str text) {
  bool plain = true;
  for (size_t i = 0; i < text.len; i++) plain &= text.ptr[i] != ',' && text.ptr[i] != '"' && text.ptr[i] != '\n' && text.ptr[i] != '\r';
  if (!plain) ctxp_buf_char(out, '"');
  for (size_t i = 0; i < text.len; i++) {
    if (text.ptr[i] == '"') ctxp_buf_char(out, '"');
    ctxp_buf_char(out, text.ptr[i]);
  }
  if (!plain) ctxp_buf_char(out, '"');
}

static void put_money(struct ctxp_buf *out, struct ctxp_raw map, const char *key) {
  ctxp_auto_buf nano_key = {0};
  ctxp_buf_printf(&nano_key, "%sNano", key);
  struct ctxp_raw value = ctxp_map_get(map, ctxp_buf_cstr(&nano_key));
  uint64_t nano = ctxp_map_u64(map, ctxp_buf_cstr(&nano_key), 0);
  if (!value.len || ctxp_raw_type(value) == CTXP_PACK_NIL) return; /* no price: empty */
  ctxp_buf_printf(out, "%" PRIu64 ".%09" PRIu64, nano / 1000000000, nano % 1000000000);
}

static void put_row(struct ctxp_buf *out, enum ctxp_grain grain, const struct ctxp_bill_row *row) {
  for (unsigned i = 0; texts[grain][i]; i++) {
    if (i) ctxp_buf_char(out, ',');
    put_text(out, ctxp_map_str(row->map, texts[grain][i]));
  }
  const char *const *figures = figures_of(grain);
  for (unsigned i = 0; figures[i]; i++) {
    ctxp_buf_char(out, ',');
    if (ctxp_str_starts(ctxp_str(figures[i]), "cost"))
      put_money(out, row->map, figures[i]);
    else
      ctxp_buf_printf(out, "%" PRIu64, ctxp_map_u64(row->map, figures[i], 0));
  }
  ctxp_buf_str(out, "\r\n");
}

int ctxp_csv_print(struct ctxp_raw reply, const struct ctxp_bill_options *options, struct ctxp_buf *out) {
  enum ctxp_grain grain = options->grain < 0 ? CTXP_GRAIN_VIEW : (enum ctxp_grain)options->grain;
  struct ctxp_bill_row *rows;
  unsigned count;
  int r = ctxp_bill_rows_read(reply, grain, options->sort, &rows, &count);
  if (r < 0) return r;
  for (unsigned i = 0; texts[grain][i]; i++) ctxp_buf_printf(out, "%s%s", i ? "," : "", texts[grain][i]);
  for (unsigned i = 0; figures_of(grain)[i]; i++) ctxp_buf_printf(out, ",%s", figures_of(grain)[i]);
  ctxp_buf_str(out, "\r\n");
  for (unsigned i = 0; i < count; i++) put_row(out, grain, &rows[i]);
  free(rows);
  return ctxp_buf_error(out);
}
