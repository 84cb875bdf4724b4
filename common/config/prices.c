#include <errno.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "config/builtin.h"
#include "config/decimal.h"
#include "config/prices_table.h"
#include "config/schema.h"

struct price_reader {
  struct ctxp_faults *faults;
  struct ctxp_prices *prices;
  unsigned file;
};

static const struct {
  const char *key;
  size_t offset;
} classes[] = {
    {"input", offsetof(struct ctxp_rates, input)}, {"output", offsetof(struct ctxp_rates, output)},
    {"cacheRead", offsetof(struct ctxp_rates, cache_read)}, {"cacheWrite5m", offsetof(struct ctxp_rates, cache_write_5m)},
    {"cacheWrite1h", offsetof(struct ctxp_rates, cache_write_1h)}};
#define CLASSES (sizeof(classes) / sizeof(*classes))

static int64_t *rate_of(struct ctxp_rates *rates, size_t class) { return (int64_t *)((char *)rates + classes[class].offset); }

static void read_rate(struct price_reader *r, const struct ctxp_yaml *value, int64_t *ret_nano) {
  if (value->type == CTXP_YAML_BAD) return;
  int err = value->type == CTXP_YAML_SCALAR && value->plain ? ctxp_decimal_nano(value->text, ret_nano) : -EINVAL;
  if (err == -EINVAL)
    ctxp_faults_add(r->faults, value->place, "'%s' is '%s'; it takes a number of dollars per million tokens", value->key->text.ptr,
        value->type == CTXP_YAML_SCALAR ? ctxp_shown(value->text).text : "a list or mapping");
  else if (err < 0)
    ctxp_faults_add(r->faults, value->place,
        "'%s' is '%s'; it takes dollars per million tokens from 0 to 1000000 with at most nine decimals", value->key->text.ptr,
        ctxp_shown(value->text).text);
}

static void read_rates(struct price_reader *r, const struct ctxp_yaml *mapping, struct ctxp_rates *rates) {
  for (size_t i = 0; i < CLASSES; i++) {
    const struct ctxp_yaml *value = ctxp_yaml_get(mapping, classes[i].key);
    *rate_of(rates, i) = -1;
    if (value) read_rate(r, value, rate_of(rates, i));
  }
}

static void read_above(struct price_reader *r, const struct ctxp_yaml *above, struct ctxp_model_price *price) {
  static const char *const keys[] = {"inputTokens", "input", "output", "cacheRead", "cacheWrite5m", "cacheWrite1h", NULL};
  if (above->type == CTXP_YAML_BAD) return;
  if (above->type != CTXP_YAML_MAPPING) {
    ctxp_faults_add(r->faults, above->place, "'above' takes a mapping: {inputTokens: 200000, input: ..., output: ...}");
    return;
  }
  ctxp_schema_keys(r->faults, above, "key", keys);
  const struct ctxp_yaml *tokens = ctxp_yaml_get(above, "inputTokens");
  if (!tokens)
    ctxp_faults_add(r->faults, above->place, "'above' lacks 'inputTokens', the size of a request beyond which it holds");
  else if (tokens->type != CTXP_YAML_SCALAR || !tokens->plain || !ctxp_schema_u64(tokens->text, &price->above_tokens) ||
      price->above_tokens == 0)
    ctxp_faults_add(r->faults, tokens->place, "'inputTokens' takes a whole number from 1");
  read_rates(r, above, &price->above);
  for (size_t i = 0; i < CLASSES; i++)
    if (*rate_of(&price->base, i) >= 0 && !ctxp_yaml_get(above, classes[i].key))
      ctxp_faults_add(
          r->faults, above->place, "'above' lacks '%s', which the row has; write the rate of long requests too", classes[i].key);
}

static bool two_digits(const char *p, int most) {
  return p[0] >= '0' && p[0] <= '9' && p[1] >= '0' && p[1] <= '9' && (p[0] - '0') * 10 + p[1] - '0' <= most;
}

static void read_date(struct price_reader *r, const struct ctxp_yaml *date) {
  if (date->type == CTXP_YAML_BAD) return;
  struct ctxp_str t = date->type == CTXP_YAML_SCALAR ? date->text : (struct ctxp_str){0};
  if (t.len != 10 || t.ptr[4] != '-' || t.ptr[7] != '-' || !two_digits(t.ptr, 99) || !two_digits(t.ptr + 2, 99) ||
      !two_digits(t.ptr + 5, 12) || !two_digits(t.ptr + 8, 31)) {
    ctxp_faults_add(r->faults, date->place, "'date' takes a day: YYYY-MM-DD");
    return;
  }
  if (strncmp(t.ptr, r->prices->date, 10) > 0) memcpy(r->prices->date, t.ptr, 11);
}

/* Within one file a name stands for one model; a later file goes over an earlier one. */
static bool claim(struct price_reader *r, const struct ctxp_yaml *at, struct ctxp_str name, unsigned row) {
  struct ctxp_price_name *known = ctxp_prices_lookup(r->prices, name);
  if (known && known->file == r->file) {
    struct ctxp_str model = r->prices->rows[known->row].price.model;
    ctxp_faults_add(r->faults, at->place, ctxp_str_eq(model, name) ? "'%s' has a row of its own already" : "'%s' stands for '%s' already",
        ctxp_shown(name).text, ctxp_shown(model).text);
    return false;
  }
  if (ctxp_prices_name(r->prices, name, row) < 0)
    r->faults->failed = true;
  else
    ctxp_prices_lookup(r->prices, name)->file = r->file;
  return true;
}

/* A row goes over the earlier row of the model, in all of its names. */
static void replace(struct price_reader *r, unsigned old, unsigned row) {
  struct ctxp_price_name *name, *next;
  HASH_ITER(hh, r->prices->names, name, next) {
    if (name->row != old) continue;
    name->row = row;
    r->prices->rows[old].names--;
    r->prices->rows[row].names++;
  }
}

static void read_aliases(struct price_reader *r, const struct ctxp_yaml *aliases, unsigned row) {
  if (aliases->type == CTXP_YAML_BAD) return;
  if (aliases->type != CTXP_YAML_SEQUENCE) {
    ctxp_faults_add(r->faults, aliases->place, "'aliases' takes a list of names");
    return;
  }
  for (const struct ctxp_yaml *it = aliases->first; it; it = it->next)
    if (ctxp_schema_text(r->faults, it, "an alias")) claim(r, it, it->text, row);
}

static void read_text(struct price_reader *r, const struct ctxp_yaml *mapping, const char *key) {
  const struct ctxp_yaml *value = ctxp_yaml_get(mapping, key);
  if (value) (void)ctxp_schema_text(r->faults, value, key);
}

static void read_row(struct price_reader *r, const struct ctxp_yaml *mapping) {
  static const char *const keys[] = {
      "input", "output", "cacheRead", "cacheWrite5m", "cacheWrite1h", "above", "aliases", "date", "source", "note", NULL};
  struct ctxp_model_price price = {0};
  r->faults->node = mapping->key->text;
  if (mapping->type != CTXP_YAML_MAPPING) {
    if (mapping->type != CTXP_YAML_BAD)
      ctxp_faults_add(r->faults, mapping->place, "a row is a mapping: {input: 3, output: 15, cacheRead: 0.3, ...}");
    return;
  }
  ctxp_schema_keys(r->faults, mapping, "key", keys);
  read_rates(r, mapping, &price.base);
  for (size_t i = 0; i < 2; i++)
    if (!ctxp_yaml_get(mapping, classes[i].key)) ctxp_faults_add(r->faults, mapping->key->place, "'%s' is missing", classes[i].key);
  const struct ctxp_yaml *above = ctxp_yaml_get(mapping, "above"), *aliases = ctxp_yaml_get(mapping, "aliases"),
                         *date = ctxp_yaml_get(mapping, "date");
  if (above) read_above(r, above, &price);
  if (date) read_date(r, date);
  read_text(r, mapping, "source");
  read_text(r, mapping, "note");
  int row = ctxp_prices_add(r->prices, mapping->key->text, &price, r->file);
  if (row == -E2BIG)
    ctxp_faults_add(r->faults, mapping->key->place, "more than %d models", CTXP_PRICES_MAX);
  else if (row < 0)
    r->faults->failed = true;
  if (row < 0) return;
  struct ctxp_price_name *old = ctxp_prices_lookup(r->prices, mapping->key->text);
  if (old && old->file != r->file && r->prices->rows[old->row].file != r->file) {
    replace(r, old->row, (unsigned)row);
    old->file = r->file;
  } else
    claim(r, mapping->key, mapping->key->text, (unsigned)row);
  if (aliases) read_aliases(r, aliases, (unsigned)row);
}

static void read_table(struct price_reader *r, const struct ctxp_yaml *root) {
  static const char *const keys[] = {"note", "unit", "models", NULL};
  const struct ctxp_yaml *unit = ctxp_yaml_get(root, "unit"), *models = ctxp_yaml_get(root, "models");
  if (root->type == CTXP_YAML_MAPPING) ctxp_schema_keys(r->faults, root, "key", keys);
  read_text(r, root, "note");
  if (unit && (unit->type != CTXP_YAML_SCALAR || !ctxp_str_is(unit->text, "USD per million tokens")))
    ctxp_faults_add(r->faults, unit->place, "'unit' can only be 'USD per million tokens'");
  if (!models || models->type != CTXP_YAML_MAPPING) {
    if (!models || models->type != CTXP_YAML_BAD)
      ctxp_faults_add(r->faults, (models ? models : root)->place,
          "not a price table; write 'models: {NAME: {input: 3, output: 15}}', in dollars per million tokens");
    return;
  }
  for (const struct ctxp_yaml *it = models->first; it; it = it->next) read_row(r, it);
  r->faults->node = (struct ctxp_str){0};
}

static int read_file(struct ctxp_prices *prices, const char *file, unsigned number, struct ctxp_buf *out) {
  ctxp_cleanup(ctxp_faults_deinit) struct ctxp_faults faults = {.file = file, .noun = "model"};
  ctxp_cleanup(ctxp_yaml_deinit) struct ctxp_yaml_doc doc = {0};
  ctxp_auto_buf text = {0};
  bool builtin = strcmp(file, CTXP_PRICES_BUILTIN) == 0;
  int err = builtin ? 0 : ctxp_yaml_load(file, &faults, &text);
  if (err == 0) err = ctxp_yaml_parse(builtin ? ctxp_str(ctxp_builtin_prices_text) : ctxp_buf_view(&text), &faults, &doc);
  if (err == 0) {
    read_table(&(struct price_reader){&faults, prices, number}, doc.root);
    err = ctxp_faults_error(&faults);
  }
  ctxp_faults_write(&faults, out);
  return err;
}

static void drop(struct ctxp_prices **prices) { ctxp_prices_free(*prices); }

int ctxp_prices_read(const char *const *files, unsigned count, struct ctxp_prices **ret_prices, struct ctxp_buf *faults) {
  ctxp_cleanup(drop) struct ctxp_prices *prices = calloc(1, sizeof(*prices));
  int err = prices ? 0 : -ENOMEM;
  for (unsigned i = 0; i < count && err != -ENOMEM; i++) {
    int one = read_file(prices, files[i], i, faults);
    if (one < 0 && (err == 0 || one == -ENOMEM)) err = one;
  }
  if (err == 0) err = ctxp_prices_stamp(prices);
  if (err == 0) *ret_prices = ctxp_steal(&prices);
  return err;
}

int ctxp_prices_add(struct ctxp_prices *prices, struct ctxp_str model, const struct ctxp_model_price *price, unsigned file) {
  if (prices->count >= CTXP_PRICES_MAX) return -E2BIG;
  if (prices->count == prices->cap) {
    unsigned cap = prices->cap ? prices->cap * 2 : 64;
    struct ctxp_price_row *rows = realloc(prices->rows, cap * sizeof(*rows));
    if (!rows) return -ENOMEM;
    prices->rows = rows;
    prices->cap = cap;
  }
  char *copy = ctxp_str_dup(model);
  if (!copy) return -ENOMEM;
  struct ctxp_price_row *row = &prices->rows[prices->count];
  *row = (struct ctxp_price_row){.price = *price, .model = copy, .file = file};
  row->price.model = (struct ctxp_str){copy, model.len};
  return (int)prices->count++;
}

struct ctxp_price_name *ctxp_prices_lookup(const struct ctxp_prices *prices, struct ctxp_str name) {
  struct ctxp_price_name *found;
  HASH_FIND(hh, prices->names, name.ptr, name.len, found);
  return found;
}

int ctxp_prices_name(struct ctxp_prices *prices, struct ctxp_str name, unsigned row) {
  struct ctxp_price_name *entry = ctxp_prices_lookup(prices, name);
  if (entry) {
    prices->rows[entry->row].names--;
  } else {
    entry = malloc(sizeof(*entry) + name.len + 1);
    if (!entry) return -ENOMEM;
    memcpy(entry->text, name.ptr, name.len);
    entry->text[name.len] = 0;
    ctxp_map_failed = false;
    HASH_ADD_KEYPTR(hh, prices->names, entry->text, name.len, entry);
    if (ctxp_map_failed) {
      free(entry);
      return -ENOMEM;
    }
  }
  entry->row = row;
  prices->rows[row].names++;
  return 0;
}

const struct ctxp_model_price *ctxp_prices_find(const struct ctxp_prices *prices, struct ctxp_str model) {
  const struct ctxp_price_name *name = prices && model.len ? ctxp_prices_lookup(prices, model) : NULL;
  return name ? &prices->rows[name->row].price : NULL;
}

const char *ctxp_prices_version(const struct ctxp_prices *prices) { return prices->version; }

unsigned ctxp_prices_count(const struct ctxp_prices *prices) {
  unsigned count = 0;
  for (unsigned i = 0; i < prices->count; i++) count += prices->rows[i].names > 0;
  return count;
}

struct ctxp_prices *ctxp_prices_free(struct ctxp_prices *prices) {
  if (!prices) return NULL;
  struct ctxp_price_name *name, *next;
  HASH_ITER(hh, prices->names, name, next) {
    HASH_DEL(prices->names, name);
    free(name);
  }
  for (unsigned i = 0; i < prices->count; i++) free(prices->rows[i].model);
  free(prices->rows);
  free(prices);
  return NULL;
}
