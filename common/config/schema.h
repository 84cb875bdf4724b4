/* Option tables to values. One table gives parsing, `ctxpipe check`, `ctxpipe options` and the documentation; this is the only
 * maker of sentences about values. */
#pragma once
#include "config/yaml.h"
#include "ctxpipe/option.h"

struct ctxp_place_of_paths {
  const char *base; /* directory of relative paths, absolute */
  const char *under; /* its name in a sentence */
};

/* One fault for every key of the mapping that is not in `known` (NULL-terminated); what: "key", "option". */
void ctxp_schema_keys(struct ctxp_faults *faults, const struct ctxp_yaml *mapping, const char *what, const char *const *known);
/* Appends the option's value, or its default where value is NULL, as MessagePack; paths absolute. `missing`: where a required one
 * should have stood. false: a fault was added, and nothing appended. */
bool ctxp_schema_value(struct ctxp_faults *faults, const struct ctxp_option *option, const struct ctxp_yaml *value,
    struct ctxp_place missing, struct ctxp_place_of_paths paths, struct ctxp_buf *out);
/* Appends the complete map of a table's options, in the table's order, from the mapping (NULL: all defaults). */
bool ctxp_schema_options(struct ctxp_faults *faults, const struct ctxp_option *table, const struct ctxp_yaml *mapping,
    struct ctxp_place missing, struct ctxp_place_of_paths paths, struct ctxp_buf *out);
/* A scalar that is a text (a word in quotes or not); NULL and a fault otherwise. */
const struct ctxp_yaml *ctxp_schema_text(struct ctxp_faults *faults, const struct ctxp_yaml *value, const char *what);
/* What may stand there, for people: "0 to 100 tokens", "power or process", "true or false", "a path under state_dir". */
void ctxp_option_range(const struct ctxp_option *option, struct ctxp_buf *out);
const char *ctxp_option_type_name(enum ctxp_option_type type);
/* Decimal digits alone. false: not a whole number, or too large. */
bool ctxp_schema_u64(struct ctxp_str text, uint64_t *ret_value);
