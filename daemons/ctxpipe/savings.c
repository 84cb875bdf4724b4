#include "ctxpipe/savings.h"
#include <errno.h>
#include "base/str.h"
#include "codec/msgpack.h"

__extension__ typedef unsigned __int128 u128;

static const char *const mechanisms[] = {"bash", "amnesia", "write", "lazy"};
static const char *const looked_at[] = {"shell results", "read, search and skill results", "written contents", "tool and skill descriptions"};

void ctxp_savings_line(struct ctxp_raw cumulative, struct ctxp_buf *out) {
  static const char *const order[] = {"bash", "amnesia", "lazy", "write"};
  ctxp_buf_str(out, "ctxwm saved ");
  ctxp_put_thousands(out, ctxp_map_i64(cumulative, "total", 0));
  ctxp_buf_str(out, " tok (");
  for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
    ctxp_buf_printf(out, "%s%s ", i ? " · " : "", order[i]);
    ctxp_put_thousands(out, ctxp_map_i64(cumulative, order[i], 0));
  }
  ctxp_buf_char(out, ')');
}

static void put_share(struct ctxp_table *table, uint64_t part, uint64_t whole) {
  ctxp_auto_buf text = {0};
  uint64_t tenths = whole ? (uint64_t)(((u128)part * 2000 + whole) / ((u128)whole * 2)) : 0;
  if (whole)
    ctxp_buf_printf(&text, "%llu.%llu%%", (unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10));
  else
    ctxp_buf_char(&text, '-');
  ctxp_table_text(table, ctxp_buf_view(&text));
}

int ctxp_savings_potential(struct ctxp_raw potential, const struct ctxp_style *style, struct ctxp_buf *out) {
  static const struct ctxp_column columns[] = {{"mechanism", CTXP_COLUMN_TEXT}, {"could save", CTXP_COLUMN_NUMBER}, {"of", CTXP_COLUMN_NUMBER}, {"share", CTXP_COLUMN_NUMBER},
    {"tokens of", CTXP_COLUMN_TEXT}};
  struct ctxp_table table = {.columns = columns, .column_count = 5};
  if (ctxp_raw_type(potential) != CTXP_PACK_MAP) return 0;
  ctxp_put_heading(out, style, "Potential savings (what the mechanisms would have kept out, had the agent asked; estimates, in no total)");
  for (size_t i = 0; i < sizeof(mechanisms) / sizeof(*mechanisms); i++) {
    struct ctxp_raw figures = ctxp_map_get(potential, mechanisms[i]);
    ctxp_auto_buf saved = {0};
    int64_t tokens = ctxp_map_i64(figures, "saved", 0);
    ctxp_put_signed(&saved, tokens);
    ctxp_table_text(&table, ctxp_str(mechanisms[i]));
    ctxp_table_text(&table, ctxp_buf_view(&saved));
    ctxp_table_count(&table, ctxp_map_u64(figures, "of", 0));
    put_share(&table, tokens > 0 ? (uint64_t)tokens : 0, ctxp_map_u64(figures, "of", 0));
    ctxp_table_text(&table, ctxp_str(looked_at[i]));
  }
  int r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  return r;
}
