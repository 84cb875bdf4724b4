#include "ctxpipe/savings.h"
#include <errno.h>
#include "base/str.h"
#include "codec/msgpack.h"

__extension__ typedef unsigned __int128 u128;

static const char *const mechanisms[] = {"bash", "amnesia", "write", "lazy"};
static const char *const looked_at[] = {
    "shell results", "read, search and skill results", "written contents", "tool and skill descriptions"};

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
  static const struct ctxp_column columns[] = {{"mechanism", CTXP_COLUMN_TEXT}, {"could save", CTXP_COLUMN_NUMBER},
      {"of", CTXP_COLUMN_NUMBER}, {"share", CTXP_COLUMN_NUMBER}, {"tokens of", CTXP_COLUMN_TEXT}};
  struct ctxp_table table = {.columns = columns, .column_count = 5};
  if (ctxp_raw_type(potential) != CTXP_PACK_MAP) return 0;
  ctxp_put_heading(out, style, "Potential savings, had the agent asked (estimates, in no total)");
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

/* ---- stats ---- */
static const char *const figures[] = {"bash", "amnesia", "lazy", "write", "total"};

static void put_figures(struct ctxp_table *table, struct ctxp_raw map) {
  for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) ctxp_table_count(table, ctxp_map_u64(map, figures[i], 0));
}

static void put_signed(struct ctxp_table *table, int64_t number) {
  ctxp_auto_buf text = {0};
  ctxp_put_signed(&text, number);
  ctxp_table_text(table, ctxp_buf_view(&text));
}

/* the only element; len 0: there are none, or several */
static struct ctxp_raw single(struct ctxp_raw list) {
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_raw one;
  uint32_t left;
  if (!list.len || ctxp_array_open(&it, &left) < 0 || left != 1 || ctxp_array_next(&it, &left, &one) <= 0) return (struct ctxp_raw){0};
  return one;
}

static int put_sums(struct ctxp_raw sums, const struct ctxp_style *style, struct ctxp_buf *out) {
  static const struct ctxp_column columns[] = {{"", CTXP_COLUMN_TEXT}, {"bash", CTXP_COLUMN_NUMBER}, {"amnesia", CTXP_COLUMN_NUMBER},
      {"lazy", CTXP_COLUMN_NUMBER}, {"write", CTXP_COLUMN_NUMBER}, {"total", CTXP_COLUMN_NUMBER}};
  struct ctxp_table table = {.columns = columns, .column_count = 6};
  struct ctxp_raw last = ctxp_map_get(sums, "last"), restored = ctxp_map_get(sums, "restored");
  ctxp_table_text(&table, CTXP_STR("cumulative"));
  put_figures(&table, ctxp_map_get(sums, "cumulative"));
  if (ctxp_raw_type(restored) == CTXP_PACK_MAP) {
    ctxp_table_text(&table, CTXP_STR("of it restored"));
    put_figures(&table, restored);
  }
  if (ctxp_raw_type(last) == CTXP_PACK_MAP) {
    ctxp_auto_buf name = {0};
    ctxp_buf_printf(&name, "last turn (%llu)", (unsigned long long)ctxp_map_u64(last, "turn", 0));
    ctxp_table_text(&table, ctxp_buf_view(&name));
    put_figures(&table, last);
  }
  int r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  return r;
}

static void put_balance(struct ctxp_raw sums, struct ctxp_buf *out) {
  struct ctxp_raw cost = ctxp_map_get(sums, "carriedCostNano");
  ctxp_put_counted(out, ctxp_map_u64(sums, "turns", 0), "turn");
  ctxp_buf_str(out, "; auxiliary models used ");
  ctxp_put_count(out, ctxp_map_u64(sums, "aux", 0));
  ctxp_buf_str(out, ", taken back ");
  ctxp_put_count(out, ctxp_map_u64(sums, "regret", 0));
  ctxp_buf_str(out, ", net ");
  ctxp_put_signed(out, ctxp_map_i64(sums, "net", 0));
  ctxp_buf_str(out, "; kept out of later requests ");
  ctxp_put_count(out, ctxp_map_u64(sums, "carried", 0));
  if (cost.len && ctxp_raw_type(cost) != CTXP_PACK_NIL) {
    ctxp_buf_str(out, ", worth ");
    ctxp_put_dollars(out, ctxp_map_i64(sums, "carriedCostNano", 0), 4);
  }
  ctxp_buf_char(out, '\n');
}

static int put_sessions(struct ctxp_raw list, const struct ctxp_style *style, struct ctxp_buf *out) {
  static const struct ctxp_column columns[] = {{"agent", CTXP_COLUMN_TEXT}, {"session", CTXP_COLUMN_TEXT}, {"turns", CTXP_COLUMN_NUMBER},
      {"bash", CTXP_COLUMN_NUMBER}, {"amnesia", CTXP_COLUMN_NUMBER}, {"lazy", CTXP_COLUMN_NUMBER}, {"write", CTXP_COLUMN_NUMBER},
      {"total", CTXP_COLUMN_NUMBER}, {"net", CTXP_COLUMN_NUMBER}, {"carried", CTXP_COLUMN_NUMBER}};
  struct ctxp_table table = {.columns = columns, .column_count = 10};
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_raw session;
  uint32_t left;
  if (!list.len || ctxp_array_open(&it, &left) < 0 || left < 2) return 0;
  ctxp_put_heading(out, style, "Sessions");
  while (ctxp_array_next(&it, &left, &session) > 0) {
    ctxp_table_text(&table, ctxp_map_str(session, "agent"));
    ctxp_table_text(&table, ctxp_map_str(session, "session"));
    ctxp_table_count(&table, ctxp_map_u64(session, "turns", 0));
    put_figures(&table, ctxp_map_get(session, "cumulative"));
    put_signed(&table, ctxp_map_i64(session, "net", 0));
    ctxp_table_count(&table, ctxp_map_u64(session, "carried", 0));
  }
  int r = ctxp_table_print(&table, style, out);
  ctxp_table_deinit(&table);
  return r;
}

int ctxp_savings_print(struct ctxp_raw reply, bool potential, const struct ctxp_style *style, struct ctxp_buf *out) {
  struct ctxp_raw one = single(ctxp_map_get(reply, "sessions")), all = ctxp_map_get(reply, "all"), sums = one.len ? one : all;
  if (ctxp_raw_type(all) != CTXP_PACK_MAP) return -EBADMSG;
  if (one.len) {
    ctxp_term_text(out, ctxp_map_str(one, "agent"));
    ctxp_buf_str(out, ", session ");
    ctxp_term_text(out, ctxp_map_str(one, "session"));
    ctxp_buf_char(out, '\n');
  }
  ctxp_savings_line(ctxp_map_get(sums, "cumulative"), out);
  ctxp_buf_str(out, "\n\n");
  int r = put_sums(sums, style, out);
  put_balance(sums, out);
  if (r == 0) r = put_sessions(ctxp_map_get(reply, "sessions"), style, out);
  if (r == 0 && potential) r = ctxp_savings_potential(ctxp_map_get(sums, "potential"), style, out);
  return r < 0 ? r : ctxp_buf_error(out);
}
