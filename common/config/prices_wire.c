/* The price table as it stands in the `topology` event: {version, models: [{model, names, rates, aboveTokens?, above?}]}, rates in
 * nano-dollars per million tokens. Models and names are in the order of their bytes, so that equal tables are equal bytes. */
#include <errno.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/prices_table.h"

struct entry { /* a name and the row that it finds */
  struct ctxp_str name;
  const struct ctxp_price_row *row;
};

static int by_row(const void *pa, const void *pb) {
  const struct entry *a = pa, *b = pb;
  int order = ctxp_str_cmp(a->row->price.model, b->row->price.model);
  if (order == 0 && a->row != b->row) order = a->row < b->row ? -1 : 1;
  return order ? order : ctxp_str_cmp(a->name, b->name);
}

static int sorted(const struct ctxp_prices *prices, struct entry **ret_entries, unsigned *ret_count) {
  unsigned count = HASH_COUNT(prices->names), i = 0;
  struct entry *entries = calloc(count + 1, sizeof(*entries));
  if (!entries) return -ENOMEM;
  for (const struct ctxp_price_name *it = prices->names; it; it = it->hh.next)
    entries[i++] = (struct entry){{it->text, it->hh.keylen}, &prices->rows[it->row]};
  qsort(entries, count, sizeof(*entries), by_row);
  *ret_entries = entries;
  *ret_count = count;
  return 0;
}

static void pack_rates(struct ctxp_buf *out, const struct ctxp_rates *rates) {
  const int64_t all[] = {rates->input, rates->output, rates->cache_read, rates->cache_write_5m, rates->cache_write_1h};
  ctxp_pack_array(out, 5);
  for (size_t i = 0; i < 5; i++) ctxp_pack_i64(out, all[i]);
}

static void pack_row(struct ctxp_buf *out, const struct entry *entries) {
  const struct ctxp_price_row *row = entries->row;
  bool above = row->price.above_tokens > 0;
  ctxp_pack_map(out, above ? 5 : 3);
  ctxp_pack_cstr(out, "model");
  ctxp_pack_str(out, row->price.model);
  ctxp_pack_cstr(out, "names");
  ctxp_pack_array(out, row->names);
  for (unsigned i = 0; i < row->names; i++) ctxp_pack_str(out, entries[i].name);
  ctxp_pack_cstr(out, "rates");
  pack_rates(out, &row->price.base);
  if (!above) return;
  ctxp_pack_cstr(out, "aboveTokens");
  ctxp_pack_u64(out, row->price.above_tokens);
  ctxp_pack_cstr(out, "above");
  pack_rates(out, &row->price.above);
}

static int pack_models(const struct ctxp_prices *prices, struct ctxp_buf *out) {
  ctxp_auto_free struct entry *entries = NULL;
  unsigned count;
  int err = sorted(prices, &entries, &count);
  if (err < 0) return err;
  ctxp_pack_array(out, ctxp_prices_count(prices));
  for (unsigned i = 0; i < count; i += entries[i].row->names) pack_row(out, &entries[i]);
  return ctxp_buf_error(out);
}

int ctxp_prices_stamp(struct ctxp_prices *prices) {
  ctxp_auto_buf models = {0};
  char hex[CTXP_HASH_HEX];
  int err = pack_models(prices, &models);
  if (err < 0) return err;
  ctxp_hash128_hex(ctxp_hash128(models.ptr, models.len), hex);
  snprintf(prices->version, sizeof(prices->version), "%s-%.8s", *prices->date ? prices->date : "undated", hex);
  return 0;
}

int ctxp_prices_encode(const struct ctxp_prices *prices, struct ctxp_buf *out) {
  ctxp_pack_map(out, 2);
  ctxp_pack_cstr(out, "version");
  ctxp_pack_cstr(out, prices->version);
  ctxp_pack_cstr(out, "models");
  return pack_models(prices, out);
}

static int unpack_rates(struct ctxp_raw raw, struct ctxp_rates *rates) {
  int64_t *const all[] = {&rates->input, &rates->output, &rates->cache_read, &rates->cache_write_5m, &rates->cache_write_1h};
  struct ctxp_cursor it = ctxp_cursor(raw);
  uint32_t count;
  struct ctxp_pack_value v;
  if (raw.len == 0 || ctxp_array_open(&it, &count) < 0 || count != 5) return -EBADMSG;
  for (size_t i = 0; i < 5; i++) {
    if (ctxp_cursor_next(&it, &v) < 0) return -EBADMSG;
    if (v.type == CTXP_PACK_U64 && v.u <= INT64_MAX)
      *all[i] = (int64_t)v.u;
    else if (v.type == CTXP_PACK_I64 && v.i == -1)
      *all[i] = -1;
    else
      return -EBADMSG;
  }
  return 0;
}

static int unpack_names(struct ctxp_prices *prices, struct ctxp_raw raw, unsigned row) {
  struct ctxp_cursor it = ctxp_cursor(raw);
  uint32_t left;
  struct ctxp_raw value;
  if (raw.len == 0 || ctxp_array_open(&it, &left) < 0 || left == 0) return -EBADMSG;
  while (ctxp_array_next(&it, &left, &value) > 0) {
    struct ctxp_str name = ctxp_raw_str(value);
    if (name.len == 0 || ctxp_prices_lookup(prices, name)) return -EBADMSG;
    int err = ctxp_prices_name(prices, name, row);
    if (err < 0) return err;
  }
  return 0;
}

static int unpack_row(struct ctxp_prices *prices, struct ctxp_raw raw) {
  struct ctxp_model_price price = {0};
  struct ctxp_str model = ctxp_map_str(raw, "model");
  struct ctxp_raw above = ctxp_map_get(raw, "above");
  if (ctxp_raw_type(raw) != CTXP_PACK_MAP || model.len == 0) return -EBADMSG;
  int err = unpack_rates(ctxp_map_get(raw, "rates"), &price.base);
  if (err == 0 && above.len) {
    price.above_tokens = ctxp_map_u64(raw, "aboveTokens", 0);
    err = price.above_tokens ? unpack_rates(above, &price.above) : -EBADMSG;
  }
  if (err < 0) return err;
  int row = ctxp_prices_add(prices, model, &price, 0);
  if (row == -E2BIG) return -EBADMSG;
  return row < 0 ? row : unpack_names(prices, ctxp_map_get(raw, "names"), (unsigned)row);
}

static void drop(struct ctxp_prices **prices) { ctxp_prices_free(*prices); }

int ctxp_prices_decode(struct ctxp_raw raw, struct ctxp_prices **ret_prices) {
  if (ctxp_pack_check(raw) < 0 || ctxp_raw_type(raw) != CTXP_PACK_MAP) return -EBADMSG;
  struct ctxp_str version = ctxp_map_str(raw, "version");
  struct ctxp_raw models = ctxp_map_get(raw, "models"), value;
  struct ctxp_cursor it = ctxp_cursor(models);
  uint32_t left;
  if (version.len == 0 || version.len >= sizeof((*ret_prices)->version) || memchr(version.ptr, 0, version.len)) return -EBADMSG;
  if (models.len == 0 || ctxp_array_open(&it, &left) < 0) return -EBADMSG;
  ctxp_cleanup(drop) struct ctxp_prices *prices = calloc(1, sizeof(*prices));
  if (!prices) return -ENOMEM;
  memcpy(prices->version, version.ptr, version.len);
  while (ctxp_array_next(&it, &left, &value) > 0) {
    int err = unpack_row(prices, value);
    if (err < 0) return err;
  }
  *ret_prices = ctxp_steal(&prices);
  return 0;
}
