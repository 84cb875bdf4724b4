#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include "base/clock.h"

static uint64_t read_ms(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t ctxp_clock_ms(void) { return read_ms(CLOCK_MONOTONIC); }
uint64_t ctxp_clock_utc_ms(void) { return read_ms(CLOCK_REALTIME); }

void ctxp_time_iso(uint64_t utc_ms, char ret_text[CTXP_ISO_SIZE]) {
  const uint64_t last = UINT64_C(253402300799999); /* 9999-12-31T23:59:59.999Z */
  if (utc_ms > last) utc_ms = last;
  time_t seconds = (time_t)(utc_ms / 1000);
  struct tm tm;
  gmtime_r(&seconds, &tm);
  snprintf(ret_text, CTXP_ISO_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", (unsigned)(tm.tm_year + 1900) % 10000u,
      (unsigned)(tm.tm_mon + 1) % 100u, (unsigned)tm.tm_mday % 100u, (unsigned)tm.tm_hour % 100u, (unsigned)tm.tm_min % 100u,
      (unsigned)tm.tm_sec % 100u, (unsigned)(utc_ms % 1000));
}

/* `digits` decimal digits at *pos, then the character `then` unless it is 0 */
static int number(struct ctxp_str text, size_t *pos, unsigned digits, char then, unsigned *ret) {
  unsigned value = 0;
  for (unsigned i = 0; i < digits; i++, (*pos)++) {
    if (*pos >= text.len || text.ptr[*pos] < '0' || text.ptr[*pos] > '9') return -EINVAL;
    value = value * 10 + (unsigned)(text.ptr[*pos] - '0');
  }
  if (then) {
    if (*pos >= text.len || text.ptr[*pos] != then) return -EINVAL;
    (*pos)++;
  }
  *ret = value;
  return 0;
}

static int64_t days_from_civil(int64_t y, unsigned m, unsigned d) {
  y -= m <= 2;
  int64_t era = (y >= 0 ? y : y - 399) / 400;
  unsigned yoe = (unsigned)(y - era * 400);
  unsigned doy = (153 * (m + (m > 2 ? -3u : 9u)) + 2) / 5 + d - 1;
  unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146097 + (int64_t)doe - 719468;
}

static int zone(struct ctxp_str text, size_t *pos, int64_t *ret_minutes) {
  if (*pos >= text.len) return -EINVAL;
  char sign = text.ptr[(*pos)++];
  *ret_minutes = 0;
  if (sign == 'Z') return 0;
  unsigned hours, minutes;
  if ((sign != '+' && sign != '-') || number(text, pos, 2, ':', &hours) < 0 || number(text, pos, 2, 0, &minutes) < 0) return -EINVAL;
  if (hours > 23 || minutes > 59) return -EINVAL;
  *ret_minutes = (sign == '+' ? 1 : -1) * (int64_t)(hours * 60 + minutes);
  return 0;
}

int ctxp_time_parse(struct ctxp_str text, uint64_t *ret_utc_ms) {
  size_t pos = 0;
  unsigned year, month, day, hour, minute, second, ms = 0;
  int64_t offset;
  if (number(text, &pos, 4, '-', &year) < 0 || number(text, &pos, 2, '-', &month) < 0 || number(text, &pos, 2, 'T', &day) < 0 ||
      number(text, &pos, 2, ':', &hour) < 0 || number(text, &pos, 2, ':', &minute) < 0 || number(text, &pos, 2, 0, &second) < 0)
    return -EINVAL;
  if (pos < text.len && text.ptr[pos] == '.') {
    unsigned scale = 100;
    size_t first = ++pos;
    for (; pos < text.len && text.ptr[pos] >= '0' && text.ptr[pos] <= '9'; pos++, scale /= 10)
      ms += scale * (unsigned)(text.ptr[pos] - '0');
    if (pos == first) return -EINVAL;
  }
  if (zone(text, &pos, &offset) < 0 || pos != text.len) return -EINVAL;
  static const unsigned days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (month < 1 || month > 12 || day < 1 || day > days[month - 1] - (month == 2 && !leap) || hour > 23 || minute > 59 || second > 60)
    return -EINVAL;
  int64_t seconds = days_from_civil(year, month, day) * 86400 + (int64_t)hour * 3600 + (int64_t)minute * 60 + second - offset * 60;
  if (seconds < 0) return -EINVAL;
  *ret_utc_ms = (uint64_t)seconds * 1000 + ms;
  return 0;
}
