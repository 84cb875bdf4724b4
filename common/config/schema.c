#include <errno.h>
#include <inttypes.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "config/path.h"
#include "config/schema.h"

bool ctxp_schema_u64(struct ctxp_str text, uint64_t *ret_value) {
  uint64_t value = 0;
  if (text.len == 0) return false;
  for (size_t i = 0; i < text.len; i++) {
    unsigned digit = (unsigned char)text.ptr[i] - '0';
    if (digit > 9 || value > (UINT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
  }
  *ret_value = value;
  return true;
}

static uint64_t upper(const struct ctxp_option *option) { return option->max ? option->max : UINT64_MAX; }

static void choices(const struct ctxp_option *option, struct ctxp_buf *out) {
  for (const char *const *it = option->choices; *it; it++)
    ctxp_buf_printf(out, "%s%s", it == option->choices ? "" : it[1] ? ", " :
                                                                      " or ",
        *it);
}

void ctxp_option_range(const struct ctxp_option *option, struct ctxp_buf *out) {
  const char *space = option->unit && *option->unit ? " " : "", *unit = option->unit ? option->unit : "";
  switch (option->type) {
  case CTXP_OPTION_BOOL: ctxp_buf_str(out, "true or false"); break;
  case CTXP_OPTION_U64:
    if (upper(option) == UINT64_MAX)
      ctxp_buf_printf(out, "%" PRIu64 "%s%s or more", option->min, space, unit);
    else
      ctxp_buf_printf(out, "%" PRIu64 " to %" PRIu64 "%s%s", option->min, option->max, space, unit);
    break;
  case CTXP_OPTION_STRING: ctxp_buf_str(out, "a text"); break;
  case CTXP_OPTION_ENUM: choices(option, out); break;
  case CTXP_OPTION_PATH: ctxp_buf_str(out, "a path; a relative one is under state_dir"); break;
  }
}

const char *ctxp_option_type_name(enum ctxp_option_type type) {
  static const char *const names[] = {"boolean", "number", "text", "choice", "path"};
  return names[type];
}

void ctxp_schema_keys(struct ctxp_faults *faults, const struct ctxp_yaml *mapping, const char *what, const char *const *known) {
  for (const struct ctxp_yaml *it = mapping->first; it; it = it->next) {
    bool found = false;
    for (const char *const *name = known; *name && !found; name++) found = ctxp_str_is(it->key->text, *name);
    if (!found)
      ctxp_faults_add(faults, it->key->place, "unknown %s '%s'%s", what, ctxp_shown(it->key->text).text,
          ctxp_hint(it->key->text, known, "known are").text);
  }
}

static const char *type_words(const struct ctxp_yaml *value) {
  return value->type == CTXP_YAML_MAPPING ? "a mapping" : value->type == CTXP_YAML_SEQUENCE ? "a list" :
                                                                                              "nothing";
}

const struct ctxp_yaml *ctxp_schema_text(struct ctxp_faults *faults, const struct ctxp_yaml *value, const char *what) {
  if (value->type == CTXP_YAML_BAD) return NULL;
  if (value->type == CTXP_YAML_SCALAR && !ctxp_yaml_is_null(value)) return value;
  ctxp_faults_add(faults, value->place, "%s is %s; it takes one text", what, type_words(value));
  return NULL;
}

/* "'name' is X; it takes RANGE" */
static bool bad_value(struct ctxp_faults *faults, const struct ctxp_option *option, const struct ctxp_yaml *value) {
  ctxp_auto_buf range = {0};
  ctxp_option_range(option, &range);
  if (value->type != CTXP_YAML_SCALAR || ctxp_yaml_is_null(value)) {
    ctxp_faults_add(faults, value->place, "'%s' is %s; it takes %s", option->name, type_words(value), ctxp_buf_cstr(&range));
    return false;
  }
  bool quoted = !value->plain && (option->type == CTXP_OPTION_BOOL || option->type == CTXP_OPTION_U64);
  ctxp_faults_add(faults, value->place, "'%s' is '%s'; it takes %s%s", option->name, ctxp_shown(value->text).text, ctxp_buf_cstr(&range),
      quoted ? ", without quotes" : "");
  return false;
}

static bool number(struct ctxp_faults *faults, const struct ctxp_option *option, const struct ctxp_yaml *value, struct ctxp_buf *out) {
  uint64_t n;
  if (!value->plain || !ctxp_schema_u64(value->text, &n) || n < option->min || n > upper(option)) return bad_value(faults, option, value);
  ctxp_pack_u64(out, n);
  return true;
}

static bool boolean(struct ctxp_faults *faults, const struct ctxp_option *option, const struct ctxp_yaml *value, struct ctxp_buf *out) {
  bool yes = ctxp_str_is(value->text, "true");
  if (!value->plain || (!yes && !ctxp_str_is(value->text, "false"))) return bad_value(faults, option, value);
  ctxp_pack_bool(out, yes);
  return true;
}

static bool choice(struct ctxp_faults *faults, const struct ctxp_option *option, const struct ctxp_yaml *value, struct ctxp_buf *out) {
  for (const char *const *it = option->choices; *it; it++) {
    if (!ctxp_str_is(value->text, *it)) continue;
    ctxp_pack_cstr(out, *it);
    return true;
  }
  const char *near = ctxp_nearest(value->text, option->choices);
  if (!near) return bad_value(faults, option, value);
  ctxp_faults_add(faults, value->place, "'%s' cannot be '%s'; did you mean '%s'?", option->name, ctxp_shown(value->text).text, near);
  return false;
}

static bool path(struct ctxp_faults *faults, const struct ctxp_option *option, const struct ctxp_yaml *value,
    struct ctxp_place_of_paths paths, struct ctxp_buf *out) {
  if (value->text.len == 0 && option->initial && !*option->initial) { /* none, as the default is */
    ctxp_pack_cstr(out, "");
    return true;
  }
  ctxp_auto_buf absolute = {0};
  struct ctxp_error why;
  int err = ctxp_path_resolve(value->text, paths.base, paths.under, &absolute, &why);
  if (err == -EINVAL)
    ctxp_faults_add(faults, value->place, "'%s': %s", option->name, why.text);
  else if (err < 0)
    faults->failed = true;
  else
    ctxp_pack_str(out, ctxp_buf_view(&absolute));
  return err == 0;
}

static bool append_value(struct ctxp_faults *faults, const struct ctxp_option *option, const struct ctxp_yaml *value,
    struct ctxp_place_of_paths paths, struct ctxp_buf *out) {
  switch (option->type) {
  case CTXP_OPTION_BOOL: return boolean(faults, option, value, out);
  case CTXP_OPTION_U64: return number(faults, option, value, out);
  case CTXP_OPTION_ENUM: return choice(faults, option, value, out);
  case CTXP_OPTION_PATH: return path(faults, option, value, paths, out);
  case CTXP_OPTION_STRING: break;
  }
  ctxp_pack_str(out, value->text);
  return true;
}

bool ctxp_schema_value(struct ctxp_faults *faults, const struct ctxp_option *option, const struct ctxp_yaml *value,
    struct ctxp_place missing, struct ctxp_place_of_paths paths, struct ctxp_buf *out) {
  struct ctxp_yaml initial = {.type = CTXP_YAML_SCALAR, .plain = true, .place = missing};
  if (!value) {
    if (!option->initial) {
      ctxp_faults_add(faults, missing, "option '%s' is missing: %s", option->name, option->help);
      return false;
    }
    initial.text = ctxp_str(option->initial);
    value = &initial;
  } else if (value->type == CTXP_YAML_BAD) {
    return false;
  } else if (value->type != CTXP_YAML_SCALAR || ctxp_yaml_is_null(value)) {
    return bad_value(faults, option, value);
  }
  bool good = append_value(faults, option, value, paths, out);
  if (out->failed) faults->failed = true;
  return good && !out->failed;
}

static void check_names(struct ctxp_faults *faults, const struct ctxp_option *table, const struct ctxp_yaml *mapping) {
  const char *names[64];
  size_t count = 0;
  for (const struct ctxp_option *it = table; it->name && count + 1 < sizeof(names) / sizeof(*names); it++) names[count++] = it->name;
  names[count] = NULL;
  ctxp_schema_keys(faults, mapping, "option", names);
}

bool ctxp_schema_options(struct ctxp_faults *faults, const struct ctxp_option *table, const struct ctxp_yaml *mapping,
    struct ctxp_place missing, struct ctxp_place_of_paths paths, struct ctxp_buf *out) {
  static const struct ctxp_option none[] = {{0}};
  if (!table) table = none;
  bool good = true;
  if (mapping && mapping->type == CTXP_YAML_SCALAR && ctxp_yaml_is_null(mapping)) mapping = NULL; /* `options:` with nothing under it */
  if (mapping && mapping->type == CTXP_YAML_BAD) return false;
  if (mapping && mapping->type != CTXP_YAML_MAPPING) {
    ctxp_faults_add(faults, mapping->place, "'options' takes a mapping: {name: value}");
    return false;
  }
  size_t before = faults->count;
  if (mapping) check_names(faults, table, mapping);
  good = faults->count == before;
  uint32_t pairs = 0;
  size_t mark = ctxp_pack_map_open(out);
  for (const struct ctxp_option *it = table; it->name; it++, pairs++) {
    ctxp_pack_cstr(out, it->name);
    if (!ctxp_schema_value(faults, it, ctxp_yaml_get(mapping, it->name), missing, paths, out)) {
      good = false;
      ctxp_pack_nil(out);
    }
  }
  ctxp_pack_close(out, mark, pairs);
  return good;
}
