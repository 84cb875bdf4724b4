#include "ctxpipe/when.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/str.h"
#include "codec/msgpack.h"

#define DAY_S 86400
#define YEARS_BACK 20 /* further back a day begins where it did then */

/* ---- reading ---- */
static bool read_duration(const char *text, uint64_t *ret_s) {
  static const struct {
    char unit;
    uint64_t s;
  } units[] = {{'m', 60}, {'h', 3600}, {'d', DAY_S}, {'w', 7 * DAY_S}};
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (!isdigit((unsigned char)text[0]) || errno || number > 1000000 || strlen(end) != 1) return false;
  for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
    if (*end == units[i].unit) return *ret_s = number * units[i].s, true;
  return false;
}

/* a day, or a time of a day, without a zone */
static bool read_local(const char *text, uint64_t *ret_ms) {
  static const char *const forms[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"};
  for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
    struct tm tm = {.tm_isdst = -1}, asked;
    const char *end = strptime(text, forms[i], &tm);
    if (!end || *end || !isdigit((unsigned char)text[0])) continue;
    asked = tm;
    tm.tm_isdst = -1;
    time_t s = mktime(&tm);
    if (s < 0 || tm.tm_mday != asked.tm_mday || tm.tm_mon != asked.tm_mon) return false; /* the 31st of February */
    *ret_ms = (uint64_t)s * 1000;
    return true;
  }
  return false;
}

int ctxp_when(const char *text, const char *command, uint64_t now_ms, uint64_t *ret_utc_ms, struct ctxp_error *err) {
  uint64_t s;
  if (read_duration(text, &s)) {
    *ret_utc_ms = s * 1000 < now_ms ? now_ms - s * 1000 : 1;
    return 0;
  }
  if (read_local(text, ret_utc_ms) || ctxp_time_parse(ctxp_str(text), ret_utc_ms) == 0) return 0;
  return ctxp_error_set(err, -EINVAL,
      "%s: '--since %s' is no time; use how long ago (30m, 12h, 7d, 2w), a local day (2026-11-30) or time (2026-11-30T08:00), or one with "
      "its zone (2026-11-30T08:00:00Z)",
      command, text);
}

/* ---- the zone ---- */
static int64_t offset_at(time_t s) {
  struct tm tm;
  return localtime_r(&s, &tm) ? (int64_t)tm.tm_gmtoff : 0;
}

static void add_offset(struct ctxp_buf *out, time_t from, int64_t offset) {
  ctxp_pack_array(out, 2);
  ctxp_pack_u64(out, (uint64_t)from * 1000);
  ctxp_pack_i64(out, offset);
}

/* the second of (low, high] from which on the offset is that of high */
static time_t change_between(time_t low, time_t high) {
  while (high - low > 1) {
    time_t mid = low + (high - low) / 2;
    if (offset_at(mid) == offset_at(high))
      high = mid;
    else
      low = mid;
  }
  return high;
}

void ctxp_when_offsets(uint64_t now_ms, struct ctxp_buf *out) {
  time_t end = (time_t)(now_ms / 1000) + 366 * DAY_S, at = end - (time_t)(YEARS_BACK + 1) * 366 * DAY_S;
  if (at < 0) at = 0;
  tzset();
  size_t mark = ctxp_pack_array_open(out);
  uint32_t count = 1;
  add_offset(out, at, offset_at(at));
  for (; at < end; at += DAY_S) {
    if (offset_at(at) == offset_at(at + DAY_S)) continue;
    add_offset(out, change_between(at, at + DAY_S), offset_at(at + DAY_S));
    count++;
  }
  ctxp_pack_close(out, mark, count);
}

static bool local_time(uint64_t utc_ms, struct tm *ret) {
  time_t s = (time_t)(utc_ms / 1000);
  tzset();
  return localtime_r(&s, ret) != NULL;
}

void ctxp_put_local(struct ctxp_buf *out, uint64_t utc_ms) {
  char text[64];
  struct tm tm;
  if (local_time(utc_ms, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M %Z", &tm)) ctxp_buf_str(out, text);
}

void ctxp_put_local_short(struct ctxp_buf *out, uint64_t utc_ms) {
  char text[64];
  struct tm tm;
  if (local_time(utc_ms, &tm) && strftime(text, sizeof(text), "%m-%d %H:%M", &tm)) ctxp_buf_str(out, text);
}

void ctxp_put_zone(struct ctxp_buf *out, uint64_t utc_ms) {
  char text[64];
  struct tm tm;
  if (!local_time(utc_ms, &tm)) return;
  long minutes = tm.tm_gmtoff / 60, size = minutes < 0 ? -minutes : minutes;
  if (strftime(text, sizeof(text), "%Z", &tm)) ctxp_buf_str(out, text);
  if (minutes) ctxp_buf_printf(out, ", UTC%c%02ld:%02ld", minutes < 0 ? '-' : '+', size / 60, size % 60);
}
