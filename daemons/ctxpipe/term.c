/* Texts and numbers for people. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/str.h"
#include "ctxpipe/table.h"

struct range {
  uint32_t first, last;
};

static bool within(uint32_t c, const struct range *ranges, size_t count) {
  for (size_t i = 0; i < count && c >= ranges[i].first; i++)
    if (c <= ranges[i].last) return true;
  return false;
}

static bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
      (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

static unsigned char_width(uint32_t c) {
  static const struct range zero[] = {{0x300, 0x36f}, {0x483, 0x489}, {0x591, 0x5bd}, {0x610, 0x61a}, {0x64b, 0x65f}, {0x6d6, 0x6dc},
      {0x900, 0x902}, {0x93c, 0x93c}, {0x941, 0x948}, {0xe31, 0xe31}, {0xe34, 0xe3a}, {0xe47, 0xe4e}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
      {0x200b, 0x200d}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef}};
  static const struct range wide[] = {{0x1100, 0x115f}, {0x231a, 0x231b}, {0x23e9, 0x23ec}, {0x2614, 0x2615}, {0x26a1, 0x26a1},
      {0x2705, 0x2705}, {0x274c, 0x274c}, {0x2795, 0x2797}, {0x2e80, 0x303e}, {0x3041, 0x33ff}, {0x3400, 0x4dbf}, {0x4e00, 0xa4cf},
      {0xa960, 0xa97f}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f},
      {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
  if (c < 0x300) return 1;
  if (within(c, zero, sizeof(zero) / sizeof(*zero))) return 0;
  return within(c, wide, sizeof(wide) / sizeof(*wide)) ? 2 : 1;
}

static void visible(struct ctxp_buf *out, uint32_t c) {
  if (c == '\n')
    ctxp_buf_str(out, "\\n");
  else if (c == '\r')
    ctxp_buf_str(out, "\\r");
  else if (c == '\t')
    ctxp_buf_str(out, "\\t");
  else
    ctxp_buf_printf(out, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
}

static void safe(struct ctxp_buf *out, struct ctxp_str text, bool lines) {
  for (size_t i = 0; i < text.len;) {
    unsigned n = ctxp_utf8_sequence(text.ptr + i, text.len - i);
    uint32_t c;
    if (n == 0) {
      ctxp_buf_str(out, "\xef\xbf\xbd");
      i++;
      continue;
    }
    ctxp_utf8_decode(text.ptr + i, &c);
    if (is_control(c) && !(lines && (c == '\n' || c == '\t')))
      visible(out, c);
    else
      ctxp_buf_add(out, text.ptr + i, n);
    i += n;
  }
}

void ctxp_term_text(struct ctxp_buf *out, struct ctxp_str text) { safe(out, text, false); }
void ctxp_term_lines(struct ctxp_buf *out, struct ctxp_str text) { safe(out, text, true); }

unsigned ctxp_term_width(struct ctxp_str text) {
  unsigned width = 0;
  for (size_t i = 0; i < text.len;) {
    unsigned n = ctxp_utf8_sequence(text.ptr + i, text.len - i);
    uint32_t c = 0xfffd;
    if (n) ctxp_utf8_decode(text.ptr + i, &c);
    width += char_width(c);
    i += n ? n : 1;
  }
  return width;
}

struct ctxp_style ctxp_style_of(FILE *file) {
  struct ctxp_style style = {0};
  struct winsize size;
  const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
  int fd = fileno(file);
  setlocale(LC_CTYPE, "");
  style.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  if (!isatty(fd)) return style;
  style.colour = !(none && *none) && term && strcmp(term, "dumb") != 0;
  style.columns = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  return style;
}

void ctxp_put_count(struct ctxp_buf *out, uint64_t number) {
  char text[32];
  int at = (int)sizeof(text);
  unsigned digits = 0;
  do {
    if (digits && digits % 3 == 0) text[--at] = ',';
    text[--at] = (char)('0' + number % 10);
    number /= 10;
    digits++;
  } while (number);
  ctxp_buf_add(out, text + at, sizeof(text) - (size_t)at);
}

void ctxp_put_counted(struct ctxp_buf *out, uint64_t number, const char *noun) {
  ctxp_put_count(out, number);
  ctxp_buf_printf(out, " %s%s", noun, number == 1 ? "" : "s");
}

void ctxp_put_signed(struct ctxp_buf *out, int64_t number) {
  if (number < 0) ctxp_buf_char(out, '-');
  ctxp_put_count(out, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void ctxp_put_thousands(struct ctxp_buf *out, int64_t number) {
  if (number < 1000) {
    ctxp_buf_printf(out, "%lld", (long long)number);
    return;
  }
  /* toFixed takes the decimal nearest to the double itself, of two the larger; printf the same, but for exact ties, which it takes
   * to even: .25 and .75 are the only exact ones */
  if (number % 500 == 250)
    ctxp_buf_printf(out, "%lld.%dk", (long long)(number / 1000), number % 1000 == 250 ? 3 : 8);
  else
    ctxp_buf_printf(out, "%.1fk", (double)number / 1000);
}

void ctxp_put_dollars(struct ctxp_buf *out, int64_t nano, unsigned decimals) {
  uint64_t unit = 1, size = nano < 0 ? 0 - (uint64_t)nano : (uint64_t)nano, scale = 1;
  for (unsigned i = decimals; i < 9; i++) unit *= 10;
  for (unsigned i = 0; i < decimals; i++) scale *= 10;
  uint64_t units = size / unit + (size % unit >= (unit + 1) / 2 && unit > 1);
  ctxp_buf_str(out, nano < 0 && units ? "-$" : "$");
  ctxp_put_count(out, units / scale);
  if (decimals) ctxp_buf_printf(out, ".%0*llu", (int)decimals, (unsigned long long)(units % scale));
}

void ctxp_put_bytes(struct ctxp_buf *out, uint64_t bytes) {
  static const char *const names[] = {"B", "kB", "MB", "GB", "TB"};
  unsigned unit = 0;
  double value = (double)bytes;
  for (; value >= 999.95 && unit < 4; unit++) value /= 1000;
  ctxp_buf_printf(out, unit ? "%.1f %s" : "%.0f %s", value, names[unit]);
}

void ctxp_put_duration(struct ctxp_buf *out, uint64_t ms) {
  unsigned long long s = ms / 1000;
  if (s < 60)
    ctxp_buf_printf(out, "%llu s", s);
  else if (s < 3600)
    ctxp_buf_printf(out, "%llu min %llu s", s / 60, s % 60);
  else if (s < 86400)
    ctxp_buf_printf(out, "%llu h %llu min", s / 3600, s / 60 % 60);
  else
    ctxp_buf_printf(out, "%llu d %llu h", s / 86400, s / 3600 % 24);
}

struct remainder {
  uint64_t left;
  unsigned place;
};

static int by_remainder(const void *a, const void *b) {
  const struct remainder *x = a, *y = b;
  if (x->left != y->left) return x->left < y->left ? 1 : -1;
  return x->place < y->place ? -1 : 1;
}

int ctxp_round_together(uint64_t *values, unsigned count, uint64_t unit) {
  if (count == 0) return 0;
  struct remainder *rest = calloc(count, sizeof(*rest));
  if (!rest) return -ENOMEM;
  uint64_t part = 0; /* of the sum; part < count * unit */
  for (unsigned i = 0; i < count; i++) {
    rest[i] = (struct remainder){values[i] % unit, i};
    values[i] /= unit;
    part += rest[i].left;
  }
  uint64_t extra = part / unit + (part % unit >= (unit + 1) / 2 && unit > 1);
  qsort(rest, count, sizeof(*rest), by_remainder);
  for (uint64_t i = 0; i < extra && i < count; i++) values[rest[i].place]++;
  free(rest);
  return 0;
}
