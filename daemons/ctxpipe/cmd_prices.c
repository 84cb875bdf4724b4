/* Shows, checks and hands out the price table: what it says is what the bill is made with. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "config/prices.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/table.h"

#define RATES 5
static const char *const rate_keys[RATES] = {"input", "output", "cacheRead", "cacheWrite5m", "cacheWrite1h"};

static void drop(struct ctxp_prices **prices) { ctxp_prices_free(*prices); }

/* nano-dollars as dollars, exactly: 0.0375 */
static void put_rate(struct ctxp_buf *out, int64_t nano) {
  ctxp_auto_buf text = {0};
  ctxp_buf_printf(&text, "%" PRId64 ".%09" PRId64, nano / 1000000000, nano % 1000000000);
  while (text.len && text.ptr[text.len - 1] == '0') text.len--;
  if (text.len && text.ptr[text.len - 1] == '.') text.len--;
  ctxp_buf_add(out, text.ptr, text.len);
}

static int read_rates(struct ctxp_raw list, int64_t ret_rates[RATES]) {
  struct ctxp_cursor it = ctxp_cursor(list);
  struct ctxp_pack_value value;
  uint32_t count;
  if (!list.len || ctxp_array_open(&it, &count) < 0 || count != RATES) return -EBADMSG;
  for (unsigned i = 0; i < RATES; i++) {
    if (ctxp_cursor_next(&it, &value) < 0) return -EBADMSG;
    ret_rates[i] = value.type == CTXP_PACK_U64 ? (int64_t)value.u : -1; /* -1: this class has no price */
  }
  return 0;
}

static void put_names(struct ctxp_raw names, struct ctxp_str model, struct ctxp_buf *out) {
  struct ctxp_cursor it = ctxp_cursor(names);
  struct ctxp_raw name;
  uint32_t left;
  bool any = false;
  if (!names.len || ctxp_array_open(&it, &left) < 0) return;
  while (ctxp_array_next(&it, &left, &name) > 0) {
    struct ctxp_str text = ctxp_raw_str(name);
    if (ctxp_str_eq(text, model)) continue;
    ctxp_buf_printf(out, "%s%.*s", any ? ", " : "", (int)text.len, text.ptr);
    any = true;
  }
}

/* ---- the three forms ---- */
static void table_rates(struct ctxp_table *table, const int64_t rates[RATES]) {
  for (unsigned i = 0; i < RATES; i++) {
    ctxp_auto_buf text = {0};
    if (rates[i] >= 0)
      put_rate(&text, rates[i]);
    else
      ctxp_buf_char(&text, '-');
    ctxp_table_text(table, ctxp_buf_view(&text));
  }
}

static int table_row(struct ctxp_raw row, struct ctxp_table *table) {
  ctxp_auto_buf names = {0}, above = {0};
  int64_t rates[RATES];
  struct ctxp_str model = ctxp_map_str(row, "model");
  uint64_t tokens = ctxp_map_u64(row, "aboveTokens", 0);
  if (read_rates(ctxp_map_get(row, "rates"), rates) < 0) return -EBADMSG;
  put_names(ctxp_map_get(row, "names"), model, &names);
  ctxp_table_text(table, model);
  table_rates(table, rates);
  ctxp_table_text(table, ctxp_buf_view(&names));
  if (!tokens) return 0;
  if (read_rates(ctxp_map_get(row, "above"), rates) < 0) return -EBADMSG;
  ctxp_buf_str(&above, "  above ");
  ctxp_put_count(&above, tokens);
  ctxp_table_text(table, ctxp_buf_view(&above));
  table_rates(table, rates);
  ctxp_table_text(table, (struct ctxp_str){"", 0});
  return 0;
}

static void yaml_rates(struct ctxp_buf *out, const int64_t rates[RATES]) {
  bool any = false;
  for (unsigned i = 0; i < RATES; i++) {
    if (rates[i] < 0) continue;
    ctxp_buf_printf(out, "%s%s: ", any ? ", " : "", rate_keys[i]);
    put_rate(out, rates[i]);
    any = true;
  }
}

static void yaml_name(struct ctxp_buf *out, struct ctxp_str text) { ctxp_json_str(out, text); } /* JSON is YAML */

static int yaml_row(struct ctxp_raw row, struct ctxp_buf *out) {
  int64_t rates[RATES];
  uint64_t tokens = ctxp_map_u64(row, "aboveTokens", 0);
  if (read_rates(ctxp_map_get(row, "rates"), rates) < 0) return -EBADMSG;
  ctxp_buf_str(out, "  ");
  yaml_name(out, ctxp_map_str(row, "model"));
  ctxp_buf_str(out, ": {");
  yaml_rates(out, rates);
  if (tokens && read_rates(ctxp_map_get(row, "above"), rates) == 0) {
    ctxp_buf_printf(out, ", above: {inputTokens: %" PRIu64 ", ", tokens);
    yaml_rates(out, rates);
    ctxp_buf_char(out, '}');
  }
  ctxp_buf_str(out, "}\n");
  return 0;
}

static int json_row(struct ctxp_raw row, bool first, struct ctxp_buf *out) {
  static const char *const sets[] = {"rates", "above"};
  ctxp_buf_str(out, first ? "{\"model\":" : ",{\"model\":");
  ctxp_json_str(out, ctxp_map_str(row, "model"));
  ctxp_buf_str(out, ",\"names\":");
  if (ctxp_json_from_raw(ctxp_map_get(row, "names"), out) < 0) return -EBADMSG;
  for (unsigned s = 0; s < 2; s++) {
    int64_t rates[RATES];
    if (read_rates(ctxp_map_get(row, sets[s]), rates) < 0) continue;
    if (s) ctxp_buf_printf(out, ",\"aboveTokens\":%" PRIu64, ctxp_map_u64(row, "aboveTokens", 0));
    ctxp_buf_printf(out, ",\"%s\":{", sets[s]);
    for (unsigned i = 0; i < RATES; i++) {
      ctxp_buf_printf(out, "%s\"%s\":", i ? "," : "", rate_keys[i]);
      if (rates[i] >= 0)
        put_rate(out, rates[i]);
      else
        ctxp_buf_str(out, "null");
    }
    ctxp_buf_char(out, '}');
  }
  ctxp_buf_char(out, '}');
  return 0;
}

/* ---- which rows ---- */
static bool has_name(struct ctxp_raw row, const char *name) {
  struct ctxp_raw names = ctxp_map_get(row, "names"), one;
  struct ctxp_cursor it = ctxp_cursor(names);
  uint32_t left;
  if (!names.len || ctxp_array_open(&it, &left) < 0) return false;
  while (ctxp_array_next(&it, &left, &one) > 0)
    if (ctxp_str_is(ctxp_raw_str(one), name)) return true;
  return false;
}

static bool is_asked_for(const struct ctxp_args *args, struct ctxp_raw row) {
  for (unsigned i = 0; i < args->operand_count; i++)
    if (has_name(row, args->operands[i])) return true;
  return args->operand_count == 0;
}

static int check_operands(const struct ctxp_args *args, const struct ctxp_prices *prices, struct ctxp_error *err) {
  for (unsigned i = 0; i < args->operand_count; i++)
    if (!ctxp_prices_find(prices, ctxp_str(args->operands[i])))
      return ctxp_error_set(err, -ENOENT,
          "'%s' has no price; 'ctxpipe prices' lists the names that have one, and a table given with --prices adds to them",
          args->operands[i]);
  return 0;
}

static int render(const struct ctxp_args *args, struct ctxp_raw table, struct ctxp_buf *out) {
  static const struct ctxp_column columns[] = {{"model", CTXP_COLUMN_TEXT}, {"input", CTXP_COLUMN_NUMBER}, {"output", CTXP_COLUMN_NUMBER},
      {"cache read", CTXP_COLUMN_NUMBER}, {"write 5 min", CTXP_COLUMN_NUMBER}, {"write 1 h", CTXP_COLUMN_NUMBER},
      {"also called", CTXP_COLUMN_TEXT}};
  struct ctxp_table rows = {.columns = columns, .column_count = 7};
  struct ctxp_style style = ctxp_style_of(stdout);
  struct ctxp_raw models = ctxp_map_get(table, "models"), row;
  struct ctxp_cursor it = ctxp_cursor(models);
  bool json = ctxp_args_has(args, "json"), yaml = ctxp_args_has(args, "yaml"), first = true;
  uint32_t left;
  int r = models.len ? ctxp_array_open(&it, &left) : -EBADMSG;
  if (r < 0) return r;
  if (yaml) ctxp_buf_str(out, "# US dollars per million tokens; rows of this file go over the built-in ones\nmodels:\n");
  if (json) ctxp_buf_str(out, "{\"schema\":1,\"unit\":\"USD per million tokens\",\"version\":");
  if (json) ctxp_json_str(out, ctxp_map_str(table, "version"));
  if (json) ctxp_buf_str(out, ",\"models\":[");
  while (r == 0 && ctxp_array_next(&it, &left, &row) > 0) {
    if (!is_asked_for(args, row)) continue;
    r = json ? json_row(row, first, out) : yaml ? yaml_row(row, out) :
                                                  table_row(row, &rows);
    first = false;
  }
  if (json) ctxp_buf_str(out, "]}\n");
  if (r == 0 && !json && !yaml) {
    struct ctxp_str version = ctxp_map_str(table, "version");
    ctxp_buf_printf(out, "US dollars per million tokens, table %.*s\n", (int)version.len, version.ptr);
    r = ctxp_table_print(&rows, &style, out);
  }
  ctxp_table_deinit(&rows);
  return r < 0 ? r : ctxp_buf_error(out);
}

static int show(const struct ctxp_args *args, const struct ctxp_prices *prices, struct ctxp_error *err) {
  ctxp_auto_buf table = {0}, out = {0};
  int r = check_operands(args, prices, err);
  if (r < 0) return r;
  r = ctxp_prices_encode(prices, &table);
  if (r == 0) r = render(args, ctxp_buf_raw(&table), &out);
  if (r < 0) return ctxp_error_set(err, r, "the price table could not be shown: out of memory");
  fwrite(out.ptr, 1, out.len, stdout);
  return 0;
}

static int run(const struct ctxp_args *args) {
  const char *own = ctxp_args_get(args, "prices"), *const files[] = {CTXP_PRICES_BUILTIN, own};
  ctxp_cleanup(drop) struct ctxp_prices *prices = NULL;
  ctxp_auto_buf faults = {0}, safe = {0};
  struct ctxp_error err;
  if (ctxp_args_has(args, "json") && ctxp_args_has(args, "yaml")) {
    ctxp_error_set(&err, -EINVAL, "prices: '--yaml' does not go with '--json'; leave one out");
    return ctxp_command_misuse(&err);
  }
  int r = ctxp_prices_read(files, own ? 2 : 1, &prices, &faults);
  if (r == 0) return show(args, prices, &err) < 0 ? ctxp_command_fail(&err) : 0;
  ctxp_term_lines(&safe, ctxp_buf_view(&faults));
  fwrite(safe.ptr, 1, safe.len, stderr);
  return 1;
}

static const struct ctxp_flag flags[] = {
    {.name = "prices", .value = "FILE", .help = "a table that goes over the built-in one: read, checked, and shown with it"},
    {.name = "yaml", .help = "print the rows as a table of your own, to be changed and given to --prices"},
    {.name = "json", .help = "print one JSON object"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_prices = {
    .name = "prices",
    .summary = "show the price table, or check one of your own",
    .operands = "[MODEL...]",
    .flags = flags,
    .operands_max = 1000,
    .run = run,
    .example = "ctxpipe prices --yaml MODEL > mine.yaml",
    .details = "Dollars per million tokens by class of token; a second line where long requests cost more. A model is found by its name or "
               "by one\n"
               "of the others that it has, exactly; one without a row has no price. Your own rows go over the built-in ones: report "
               "--prices FILE,\n"
               "or 'prices: [built-in, FILE]' in the topology. Every fault of FILE is named with line and column, and the exit code is 1.",
};
