/* Texts: views, UTF-8, and lengths in UTF-16 code units, the unit of every token estimate. */
#pragma once
#include <stdbool.h>
#include <string.h>
#include "ctxpipe/event.h"

#define CTXP_STR(literal) ((struct ctxp_str){(literal), sizeof(literal) - 1})
static inline struct ctxp_str ctxp_str(const char *text) { return (struct ctxp_str){text, text ? strlen(text) : 0}; }
static inline bool ctxp_str_eq(struct ctxp_str a, struct ctxp_str b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
static inline bool ctxp_str_is(struct ctxp_str a, const char *b) { return ctxp_str_eq(a, ctxp_str(b)); }
static inline struct ctxp_raw ctxp_str_raw(struct ctxp_str s) { return (struct ctxp_raw){(const uint8_t *)s.ptr, s.len}; }
int ctxp_str_cmp(struct ctxp_str a, struct ctxp_str b); /* by bytes, which is code point order in UTF-8 */
bool ctxp_str_starts(struct ctxp_str s, const char *prefix);
bool ctxp_str_ends(struct ctxp_str s, const char *suffix);
/* Position of needle at or after `from`, or SIZE_MAX. */
size_t ctxp_str_find(struct ctxp_str s, struct ctxp_str needle, size_t from);
size_t ctxp_str_count(struct ctxp_str s, char c);
/* Lines as an editor counts them: the last one needs no newline. */
static inline uint64_t ctxp_str_lines(struct ctxp_str s) { return ctxp_str_count(s, '\n') + (s.len && s.ptr[s.len - 1] != '\n'); }
/* A NUL-terminated copy, the caller frees it; NULL: out of memory. */
char *ctxp_str_dup(struct ctxp_str s);

/* Bytes of the well-formed UTF-8 sequence at the start (1..4), or 0: none starts there. Surrogates and overlong forms are not. */
unsigned ctxp_utf8_sequence(const char *ptr, size_t len);
bool ctxp_utf8_valid(struct ctxp_str s);
/* Decodes one well-formed sequence; returns its length. */
unsigned ctxp_utf8_decode(const char *ptr, uint32_t *ret_code_point);
/* Length in UTF-16 code units; a byte that is not UTF-8 counts as one unit (it is shown as U+FFFD). */
size_t ctxp_utf16_units(struct ctxp_str s);
/* The longest prefix of at most `units` UTF-16 units; never splits a character. */
struct ctxp_str ctxp_utf16_prefix(struct ctxp_str s, size_t units);
/* White space as JavaScript's trim and \s have it. */
bool ctxp_js_space(uint32_t code_point);
struct ctxp_str ctxp_js_trim(struct ctxp_str s);
/* true: nothing but such white space */
static inline bool ctxp_str_blank(struct ctxp_str s) { return ctxp_js_trim(s).len == 0; }
