#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"

int ctxp_str_cmp(struct ctxp_str a, struct ctxp_str b) {
  size_t shorter = a.len < b.len ? a.len : b.len;
  int order = shorter ? memcmp(a.ptr, b.ptr, shorter) : 0;
  return order ? order : (a.len > b.len) - (a.len < b.len);
}

bool ctxp_str_starts(struct ctxp_str s, const char *prefix) {
  size_t len = strlen(prefix);
  return s.len >= len && memcmp(s.ptr, prefix, len) == 0;
}

bool ctxp_str_ends(struct ctxp_str s, const char *suffix) {
  size_t len = strlen(suffix);
  return s.len >= len && memcmp(s.ptr + s.len - len, suffix, len) == 0;
}

size_t ctxp_str_find(struct ctxp_str s, struct ctxp_str needle, size_t from) {
  if (from > s.len) return SIZE_MAX;
  if (needle.len == 0) return from;
  const char *hit = memmem(s.ptr + from, s.len - from, needle.ptr, needle.len);
  return hit ? (size_t)(hit - s.ptr) : SIZE_MAX;
}

size_t ctxp_str_count(struct ctxp_str s, char c) {
  size_t count = 0, i = 0;
  for (; i + 128 <= s.len; i += 128) { /* few enough for a byte to count them: a loop that the compiler makes vectors of */
    uint8_t some = 0;
    for (unsigned k = 0; k < 128; k++) some = (uint8_t)(some + (s.ptr[i + k] == c));
    count += some;
  }
  for (; i < s.len; i++) count += s.ptr[i] == c;
  return count;
}

char *ctxp_str_dup(struct ctxp_str s) {
  char *copy = malloc(s.len + 1);
  if (!copy) return NULL;
  if (s.len) memcpy(copy, s.ptr, s.len);
  copy[s.len] = 0;
  return copy;
}

unsigned ctxp_utf8_sequence(const char *ptr, size_t len) {
  const unsigned char *p = (const unsigned char *)ptr;
  if (len == 0) return 0;
  if (p[0] < 0x80) return 1;
  unsigned want = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 :
                                                    2;
  if (p[0] < 0xc2 || p[0] > 0xf4 || len < want) return 0;
  unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 :
                                                           0x80;
  unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f :
                                                            0xbf;
  if (p[1] < low || p[1] > high) return 0;
  for (unsigned i = 2; i < want; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  return want;
}

#define HIGH_BITS UINT64_C(0x8080808080808080)

static uint64_t high_bits(const char *ptr) {
  uint64_t word;
  memcpy(&word, ptr, sizeof(word));
  return le64toh(word) & HIGH_BITS;
}

/* bytes of ASCII at the start */
static size_t ascii_run(const char *ptr, size_t len) {
  size_t i = 0;
  while (i + 8 <= len) {
    uint64_t high = high_bits(ptr + i);
    if (high) return i + (size_t)__builtin_ctzll(high) / 8;
    i += 8;
    for (uint64_t words[8]; i + sizeof(words) <= len; i += sizeof(words)) { /* a loop that the compiler makes vectors of */
      uint64_t all = 0;
      memcpy(words, ptr + i, sizeof(words));
      for (size_t k = 0; k < sizeof(words) / sizeof(*words); k++) all |= words[k];
      if (all & HIGH_BITS) break;
    }
  }
  while (i < len && (unsigned char)ptr[i] < 0x80) i++;
  return i;
}

bool ctxp_utf8_valid(struct ctxp_str s) {
  for (size_t i = 0; i < s.len;) {
    i += ascii_run(s.ptr + i, s.len - i);
    if (i >= s.len) break;
    unsigned n = ctxp_utf8_sequence(s.ptr + i, s.len - i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

unsigned ctxp_utf8_decode(const char *ptr, uint32_t *ret_code_point) {
  const unsigned char *p = (const unsigned char *)ptr;
  if (p[0] < 0x80) return *ret_code_point = p[0], 1;
  if (p[0] < 0xe0) return *ret_code_point = (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f), 2;
  if (p[0] < 0xf0) return *ret_code_point = (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f), 3;
  return *ret_code_point = (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f), 4;
}

size_t ctxp_utf16_units(struct ctxp_str s) {
  size_t units = 0;
  for (size_t i = 0; i < s.len;) {
    size_t run = ascii_run(s.ptr + i, s.len - i);
    units += run;
    i += run;
    if (i >= s.len) break;
    unsigned n = ctxp_utf8_sequence(s.ptr + i, s.len - i);
    units += n == 4 ? 2 : 1;
    i += n ? n : 1;
  }
  return units;
}

struct ctxp_str ctxp_utf16_prefix(struct ctxp_str s, size_t units) {
  size_t i = 0;
  while (i < s.len) {
    unsigned n = ctxp_utf8_sequence(s.ptr + i, s.len - i);
    size_t cost = n == 4 ? 2 : 1;
    if (cost > units) break;
    units -= cost;
    i += n ? n : 1;
  }
  return (struct ctxp_str){s.ptr, i};
}

bool ctxp_js_space(uint32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
      c == 0x202f || c == 0x205f || c == 0x3000 || c == 0xfeff;
}

struct ctxp_str ctxp_js_trim(struct ctxp_str s) {
  uint32_t c;
  while (s.len) {
    unsigned n = ctxp_utf8_sequence(s.ptr, s.len);
    if (n == 0 || (ctxp_utf8_decode(s.ptr, &c), !ctxp_js_space(c))) break;
    s.ptr += n;
    s.len -= n;
  }
  while (s.len) {
    size_t at = s.len - 1;
    while (at > 0 && s.len - at < 4 && ((unsigned char)s.ptr[at] & 0xc0) == 0x80) at--;
    if (ctxp_utf8_sequence(s.ptr + at, s.len - at) != s.len - at || (ctxp_utf8_decode(s.ptr + at, &c), !ctxp_js_space(c))) break;
    s.len = at;
  }
  return s;
}
