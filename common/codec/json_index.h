/* Where the tokens of a JSON text stand: the first stage of simdjson behind a C function. Only json_read.c uses it. */
#pragma once
#include "ctxpipe/event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ctxp_json_index; /* grows with the longest text it has seen */

enum ctxp_json_indexed {
  CTXP_JSON_INDEXED,
  CTXP_JSON_EMPTY, /* nothing but white space */
  CTXP_JSON_NOT_UTF8,
  CTXP_JSON_OPEN_TEXT, /* a string without its end */
  CTXP_JSON_CONTROL, /* a control character within a string */
  CTXP_JSON_NO_MEMORY,
};

struct ctxp_json_index *ctxp_json_index_new(void); /* NULL: out of memory */
struct ctxp_json_index *ctxp_json_index_free(struct ctxp_json_index *index);
/* Offsets of the tokens: brackets, colons, commas, and the starts of strings, numbers and words; then the text's length. They
 * belong to the index and hold until the next call. The text needs no padding. */
enum ctxp_json_indexed ctxp_json_index_text(
    struct ctxp_json_index *index, struct ctxp_str text, const uint32_t **ret_at, uint32_t *ret_count);
/* A number's text, already checked, as a double: independent of the locale; too large: infinite. */
double ctxp_json_double(struct ctxp_str number);

#ifdef __cplusplus
}
#endif
