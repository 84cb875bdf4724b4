#include <errno.h>
#include "base/str.h"
#include "config/decimal.h"

#define NANO_MAX INT64_C(1000000000000000) /* a million */

struct scan {
  struct ctxp_str text;
  size_t at;
};

static bool digit_at(const struct scan *s) { return s->at < s->text.len && s->text.ptr[s->at] >= '0' && s->text.ptr[s->at] <= '9'; }

static bool take_char(struct scan *s, char c) {
  if (s->at >= s->text.len || s->text.ptr[s->at] != c) return false;
  s->at++;
  return true;
}

/* Digits onto *value, zeros at the end only counted, so that 1.500000000000 is 1.5; false: more than it can hold. */
static bool take_digits(struct scan *s, int64_t *value, int *zeros, int *count) {
  for (; digit_at(s); s->at++, (*count)++) {
    int digit = s->text.ptr[s->at] - '0';
    if (digit == 0) {
      (*zeros)++;
      continue;
    }
    for (; *zeros > 0 && *value > 0; (*zeros)--) {
      if (*value > NANO_MAX * 100) return false;
      *value *= 10;
    }
    *zeros = 0;
    if (*value > NANO_MAX * 100) return false;
    *value = *value * 10 + digit;
  }
  return true;
}

static bool take_exponent(struct scan *s, int *ret) {
  *ret = 0;
  if (!take_char(s, 'e') && !take_char(s, 'E')) return true;
  bool minus = take_char(s, '-');
  if (!minus) take_char(s, '+');
  if (!digit_at(s)) return false;
  for (; digit_at(s); s->at++)
    if (*ret < 1000) *ret = *ret * 10 + (s->text.ptr[s->at] - '0');
  if (minus) *ret = -*ret;
  return true;
}

int ctxp_decimal_nano(struct ctxp_str text, int64_t *ret_nano) {
  struct scan s = {text, 0};
  bool minus = take_char(&s, '-');
  int64_t value = 0;
  int zeros = 0, whole = 0, fraction = 0, exponent;
  if (!digit_at(&s)) return -EINVAL;
  bool fits = take_digits(&s, &value, &zeros, &whole);
  if (fits && take_char(&s, '.')) {
    if (!digit_at(&s)) return -EINVAL;
    fits = take_digits(&s, &value, &zeros, &fraction);
  }
  if (!fits) return -ERANGE;
  if (!take_exponent(&s, &exponent) || s.at != text.len) return -EINVAL;
  int power = 9 - fraction + zeros + exponent;
  if (value == 0) power = 0;
  if (minus && value) return -ERANGE;
  if (power < 0 || power > 15) return -ERANGE; /* value has no zero at its end: dividing would lose something */
  for (; power > 0; power--) {
    if (value > NANO_MAX) return -ERANGE;
    value *= 10;
  }
  if (value > NANO_MAX) return -ERANGE;
  *ret_nano = value;
  return 0;
}
