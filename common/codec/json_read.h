/* Reading JSON without building anything: the tokens are found once, the grammar is checked once, and then only what is asked
 * for is looked at, in any order. Made for lines of transcripts, of which a reader wants ten values out of hundreds.
 *
 * A value is named by the number of its token; CTXP_JSON_NONE is a value that is not there, and every function takes it. What is
 * absent or of another type gives the default. Lone surrogates come out as U+FFFD, bytes that are not UTF-8 too. */
#pragma once
#include "base/buf.h"
#include "base/str.h"
#include "ctxpipe/error.h"

#define CTXP_JSON_NONE UINT32_MAX
#define CTXP_JSON_DEPTH 1024 /* levels that a text may have to be read at all */

enum ctxp_json_type {
  CTXP_JSON_ABSENT,
  CTXP_JSON_NULL,
  CTXP_JSON_BOOL,
  CTXP_JSON_NUMBER,
  CTXP_JSON_STRING,
  CTXP_JSON_ARRAY,
  CTXP_JSON_OBJECT
};

struct ctxp_json_index;
struct ctxp_json_texts; /* texts that had to be unescaped */
struct ctxp_json { /* {0} is one that has read nothing */
  struct ctxp_str text; /* what is being read: the caller's bytes, or `clean` */
  const uint32_t *at; /* where each token stands; at[count] is the text's length */
  uint32_t *after; /* of an opening bracket: the token behind its end */
  uint32_t count, after_cap;
  struct ctxp_json_index *index;
  struct ctxp_json_texts *texts;
  struct ctxp_buf clean; /* the text with U+FFFD where it was not UTF-8 */
  bool failed; /* out of memory since the last load: a text came out empty, or a length too small; look at it at the end */
};
void ctxp_json_deinit(struct ctxp_json *json);

/* Reads one JSON text; the root is value 0. `text` is borrowed until the next load. -EBADMSG with what is wrong and at which
 * byte; -ENOMEM; -EMSGSIZE: 4 GiB or more. */
int ctxp_json_load(struct ctxp_json *json, struct ctxp_str text, struct ctxp_error *err) __attribute__((warn_unused_result));

enum ctxp_json_type ctxp_json_type(const struct ctxp_json *json, uint32_t value);
uint32_t ctxp_json_get(struct ctxp_json *json, uint32_t object, const char *key); /* of equal keys the last */
/* Several members in one pass over the object; ret_values[i] belongs to keys[i]. */
void ctxp_json_pick(struct ctxp_json *json, uint32_t object, const struct ctxp_str *keys, unsigned count, uint32_t *ret_values);
/* Visits the elements of an array: *it begins as the array's value. false: no more, or no array. */
bool ctxp_json_each(const struct ctxp_json *json, uint32_t array, uint32_t *it);
/* The same for an object; *it is then the value, *ret_key its key. */
bool ctxp_json_member(struct ctxp_json *json, uint32_t object, uint32_t *it, struct ctxp_str *ret_key);
uint32_t ctxp_json_size(const struct ctxp_json *json, uint32_t container); /* elements or members */

/* The text of a string, unescaped; borrowed until the next load. */
struct ctxp_str ctxp_json_text(struct ctxp_json *json, uint32_t string);
struct ctxp_str ctxp_json_escaped(const struct ctxp_json *json, uint32_t string); /* as it stands, between the quotes */
struct ctxp_str ctxp_json_source(const struct ctxp_json *json, uint32_t value); /* the JSON text of any value */
bool ctxp_json_is(struct ctxp_json *json, uint32_t string, const char *text);
uint64_t ctxp_json_u64(const struct ctxp_json *json, uint32_t number, uint64_t missing); /* whole and from 0, else missing */
bool ctxp_json_bool(const struct ctxp_json *json, uint32_t value, bool missing);
size_t ctxp_json_units(const struct ctxp_json *json, uint32_t string); /* UTF-16 units of the text */
/* UTF-16 units of the value as JSON.stringify would print it after parsing: no blanks, of equal keys the last. */
size_t ctxp_json_compact_units(struct ctxp_json *json, uint32_t value);

/* Appends the text that `escaped` (a string without its quotes) stands for. false: an escape was malformed and became U+FFFD. */
bool ctxp_json_unescape(struct ctxp_str escaped, struct ctxp_buf *out);
/* Appends one value as MessagePack. -EBADMSG: deeper than CTXP_DEPTH_MAX, a malformed number or escape. */
int ctxp_json_pack(struct ctxp_json *json, uint32_t value, struct ctxp_buf *out, struct ctxp_error *err)
    __attribute__((warn_unused_result));

/* The text with U+FFFD in the place of each byte that is not UTF-8: itself, or made in `scratch`. */
struct ctxp_str ctxp_utf8_clean(struct ctxp_str text, struct ctxp_buf *scratch);

/* ---- numbers by their text ---- */
enum ctxp_number_type { CTXP_NUMBER_BAD,
  CTXP_NUMBER_U64,
  CTXP_NUMBER_I64 /* negative */,
  CTXP_NUMBER_F64 };
struct ctxp_number {
  enum ctxp_number_type type;
  union {
    uint64_t u;
    int64_t i;
    double f;
  };
};
/* Whole numbers from -2^63 to 2^64-1 stay whole, also where they are written 1.0 or 1e3 (below 2^53, as a double holds them). */
struct ctxp_number ctxp_number_read(struct ctxp_str text);
/* Decimal dollars to nano-dollars, by their digits: exact, halves away from zero. -EBADMSG: no number; -ERANGE. */
int ctxp_nano_read(struct ctxp_str text, int64_t *ret_nano) __attribute__((warn_unused_result));
