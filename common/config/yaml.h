/* YAML as configuration needs it: one document of mappings, sequences and scalars, each with its place, bounded in size, depth
 * and count. What YAML adds to that (anchors, aliases, merge keys, tags, second documents) is a fault with its place: a file
 * that means something else than it shows is a surprise, and an alias is a bomb. JSON is read by the same parser. */
#pragma once
#include "config/faults.h"

#define CTXP_YAML_BYTES_MAX (1024u * 1024u)
#define CTXP_YAML_DEPTH_MAX 16
#define CTXP_YAML_VALUES_MAX 65536u
#define CTXP_YAML_KEYS_MAX 4096u /* of one mapping */

enum ctxp_yaml_type {
  CTXP_YAML_SCALAR,
  CTXP_YAML_SEQUENCE,
  CTXP_YAML_MAPPING,
  CTXP_YAML_BAD /* there was a fault here already: say nothing more about it */
};
struct ctxp_yaml {
  enum ctxp_yaml_type type;
  bool plain; /* scalar: without quotes, so that it may be a number or true */
  struct ctxp_place place;
  struct ctxp_str text; /* scalar; NUL-terminated beyond its length */
  struct ctxp_yaml *key; /* of a mapping's value: its key, a scalar */
  struct ctxp_yaml *first; /* of a sequence or mapping: its values, in order, linked by next */
  struct ctxp_yaml *next;
  unsigned count; /* of values in it */
};
struct ctxp_yaml_doc {
  struct ctxp_yaml *root;
  void *chunks; /* what holds it all */
};

/* Reads a regular file of at most CTXP_YAML_BYTES_MAX. -ENOENT, ..., -EFBIG: with a fault. */
int ctxp_yaml_load(const char *file, struct ctxp_faults *faults, struct ctxp_buf *out) __attribute__((warn_unused_result));
/* 0: there is a tree, and perhaps faults, after which it is worth looking for more; -EINVAL: no tree, and a fault; -ENOMEM. */
int ctxp_yaml_parse(struct ctxp_str text, struct ctxp_faults *faults, struct ctxp_yaml_doc *ret_doc) __attribute__((warn_unused_result));
void ctxp_yaml_deinit(struct ctxp_yaml_doc *doc);
/* A mapping's value; NULL: not there, or not a mapping. */
const struct ctxp_yaml *ctxp_yaml_get(const struct ctxp_yaml *mapping, const char *key);
/* true: a plain empty scalar, `null` or `~`: nothing was written */
bool ctxp_yaml_is_null(const struct ctxp_yaml *value);
