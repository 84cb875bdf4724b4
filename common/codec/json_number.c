/* Numbers by their text: whole ones exactly, money exactly, the rest as doubles. */
#include <errno.h>
#include <math.h>
#include "codec/json_index.h"
#include "codec/json_read.h"

struct parts { /* -whole.fraction e exponent */
  bool negative, bad;
  struct ctxp_str whole, fraction;
  long exponent;
};

static struct ctxp_str digits(struct ctxp_str text, size_t *at) {
  size_t from = *at;
  while (*at < text.len && text.ptr[*at] >= '0' && text.ptr[*at] <= '9') (*at)++;
  return (struct ctxp_str){text.ptr + from, *at - from};
}

static long read_exponent(struct ctxp_str text, size_t *at, bool *bad) {
  long exponent = 0;
  bool minus = *at < text.len && text.ptr[*at] == '-';
  if (*at < text.len && (minus || text.ptr[*at] == '+')) (*at)++;
  struct ctxp_str run = digits(text, at);
  *bad = run.len == 0;
  for (size_t i = 0; i < run.len; i++)
    if (exponent < 1000000) exponent = exponent * 10 + (run.ptr[i] - '0');
  return minus ? -exponent : exponent;
}

static struct parts take_apart(struct ctxp_str text) {
  struct parts p = {.negative = text.len && text.ptr[0] == '-'};
  size_t at = p.negative;
  p.whole = digits(text, &at);
  p.bad = p.whole.len == 0 || (p.whole.len > 1 && p.whole.ptr[0] == '0');
  if (!p.bad && at < text.len && text.ptr[at] == '.') {
    at++;
    p.fraction = digits(text, &at);
    p.bad = p.fraction.len == 0;
  }
  if (!p.bad && at < text.len && (text.ptr[at] == 'e' || text.ptr[at] == 'E')) {
    at++;
    p.exponent = read_exponent(text, &at, &p.bad);
  }
  p.bad = p.bad || at != text.len;
  return p;
}

static bool add_digits(uint64_t *value, struct ctxp_str run) {
  for (size_t i = 0; i < run.len; i++)
    if (__builtin_mul_overflow(*value, UINT64_C(10), value) || __builtin_add_overflow(*value, (uint64_t)(run.ptr[i] - '0'), value))
      return false;
  return true;
}

static struct ctxp_number from_double(struct ctxp_str text) {
  struct ctxp_number n = {.type = CTXP_NUMBER_F64, .f = ctxp_json_double(text)};
  if (fabs(n.f) > 9007199254740992.0 || n.f != floor(n.f)) return n;
  int64_t whole = (int64_t)n.f;
  if (whole < 0) return (struct ctxp_number){.type = CTXP_NUMBER_I64, .i = whole};
  return (struct ctxp_number){.type = CTXP_NUMBER_U64, .u = (uint64_t)whole};
}

struct ctxp_number ctxp_number_read(struct ctxp_str text) {
  struct parts p = take_apart(text);
  uint64_t value = 0;
  if (p.bad) return (struct ctxp_number){.type = CTXP_NUMBER_BAD};
  if (p.fraction.ptr || p.whole.ptr + p.whole.len != text.ptr + text.len || !add_digits(&value, p.whole)) return from_double(text);
  if (!p.negative || value == 0) return (struct ctxp_number){.type = CTXP_NUMBER_U64, .u = value};
  if (value > (uint64_t)INT64_MAX + 1) return from_double(text);
  return (struct ctxp_number){.type = CTXP_NUMBER_I64, .i = (int64_t)(0 - value)};
}

static char digit_at(const struct parts *p, size_t i) {
  return i < p->whole.len ? p->whole.ptr[i] : i - p->whole.len < p->fraction.len ? p->fraction.ptr[i - p->whole.len] :
                                                                                   '0';
}

int ctxp_nano_read(struct ctxp_str text, int64_t *ret_nano) {
  struct parts p = take_apart(text);
  if (p.bad) return -EBADMSG;
  long kept = (long)p.whole.len + p.exponent + 9; /* digits down to the nano-dollar */
  size_t all = p.whole.len + p.fraction.len;
  uint64_t nano = 0;
  for (size_t i = 0; (long)i < kept; i++) {
    if (i >= all && nano == 0) break;
    if (__builtin_mul_overflow(nano, UINT64_C(10), &nano) || __builtin_add_overflow(nano, (uint64_t)(digit_at(&p, i) - '0'), &nano))
      return -ERANGE;
  }
  if (kept >= 0 && (size_t)kept < all && digit_at(&p, (size_t)kept) >= '5') nano++;
  if (nano > INT64_MAX) return -ERANGE;
  *ret_nano = p.negative ? -(int64_t)nano : (int64_t)nano;
  return 0;
}
