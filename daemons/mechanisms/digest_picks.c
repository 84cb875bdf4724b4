#include <inttypes.h>
#include <stdio.h>
#include "base/cleanup.h"
#include "mechanisms/digest_lines.h"
#include "mechanisms/digest_picks.h"

enum { CUT_UNITS = 300,
  CUT_HEAD = 200,
  CUT_TAIL = 60 /* a line that need not survive is shown cut above the first */ };

size_t ctxp_pick_units(size_t units) { return units > CUT_UNITS ? CUT_HEAD + CUT_TAIL + 30 : units; }

static size_t fold_text(const struct ctxp_pick *pick, char ret_text[128]) {
  return (size_t)snprintf(ret_text, 128, "\xe2\x80\xa6 %" PRIu64 " like the line above, lines %" PRIu64 "-%" PRIu64 " \xe2\x80\xa6",
      pick->count - 1, pick->line, pick->last_line);
}

static size_t digits(uint64_t n) {
  size_t count = 1;
  for (; n >= 10; n /= 10) count++;
  return count;
}

/* most that the mark of the gap between two lines may take, its newline included */
static size_t gap_units(const struct ctxp_outline *d, uint64_t from, uint64_t to) {
  if (from > to) return 0;
  return d->compact ? 11 + digits(to - from + 1) : 34 + 3 * digits(to);
}

size_t ctxp_picks_cost(const struct ctxp_outline *d, const struct ctxp_picks *chosen) {
  size_t units = 0;
  uint64_t next = 1;
  char mark[128];
  for (size_t i = 0; i < chosen->count; i++) {
    const struct ctxp_pick *pick = &chosen->at[i];
    units += pick->units + (pick->line > next ? gap_units(d, next, pick->line - 1) : 0);
    if (pick->count > 1) units += fold_text(pick, mark);
    next = pick->line + 1;
  }
  return units + gap_units(d, next, d->lines);
}

static void write_cut(struct ctxp_buf *out, struct ctxp_str text) {
  size_t units = ctxp_utf16_units(text);
  struct ctxp_str head = ctxp_utf16_prefix(text, CUT_HEAD), tail = ctxp_utf16_prefix(text, units - CUT_TAIL);
  ctxp_buf_add(out, head.ptr, head.len);
  ctxp_buf_printf(out, "\xe2\x80\xa6 %zu characters \xe2\x80\xa6", units - CUT_HEAD - CUT_TAIL);
  ctxp_buf_add(out, text.ptr + tail.len, text.len - tail.len);
}

static int write_pick(const struct ctxp_outline *d, const struct ctxp_pick *pick, struct ctxp_buf *out) {
  ctxp_cleanup(ctxp_digest_lines_deinit) struct ctxp_lines lines;
  struct ctxp_line line;
  char mark[128];
  ctxp_digest_lines_init(&lines, (struct ctxp_str){d->text.ptr + pick->offset, pick->len});
  int r = ctxp_digest_lines_next(&lines, &line);
  if (r <= 0) return r;
  if (!pick->must && ctxp_utf16_units(line.text) > CUT_UNITS)
    write_cut(out, line.text);
  else
    ctxp_buf_add(out, line.text.ptr, line.text.len);
  ctxp_buf_char(out, '\n');
  if (pick->count > 1) {
    fold_text(pick, mark);
    ctxp_buf_printf(out, "%s\n", mark);
  }
  return 0;
}

/* kinds of lines in a piece of the text, at most 65; *ret_like: all are of the shape given */
static int count_kinds(struct ctxp_str piece, uint64_t shape, unsigned *ret_kinds, bool *ret_like) {
  ctxp_cleanup(ctxp_digest_lines_deinit) struct ctxp_lines lines;
  struct ctxp_line line;
  uint64_t seen[64], last = 0;
  unsigned kinds = 0, i;
  bool like = true;
  int r = 0;
  ctxp_digest_lines_init(&lines, piece);
  while (kinds <= 64 && (r = ctxp_digest_lines_next(&lines, &line)) > 0) {
    if (line.overwritten || ctxp_str_blank(line.text)) continue;
    uint64_t one = ctxp_line_shape(line.text);
    like = like && one == shape;
    if (kinds && one == last) continue;
    last = one;
    for (i = 0; i < kinds && i < 64; i++)
      if (seen[i] == one) break;
    if (i < kinds) continue;
    if (kinds < 64) seen[kinds] = one;
    kinds++;
  }
  *ret_kinds = kinds;
  *ret_like = like && kinds == 1;
  return r < 0 ? r : 0;
}

static int write_gap(const struct ctxp_outline *d, const struct ctxp_pick *above, const struct ctxp_pick *below, struct ctxp_buf *out) {
  uint64_t from = above ? above->line + 1 : 1, to = below ? below->line - 1 : d->lines;
  size_t start = above ? above->offset + above->len : 0, end = below ? below->offset : d->text.len;
  unsigned kinds;
  bool like;
  if (from > to || to == UINT64_MAX) return 0;
  const char *newline = above ? memchr(d->text.ptr + start, '\n', end - start) : NULL;
  if (newline) start = (size_t)(newline - d->text.ptr) + 1;
  while (below && end > start && d->text.ptr[end - 1] != '\n') end--; /* what a carriage return overwrote in the line below */
  int r = count_kinds((struct ctxp_str){d->text.ptr + start, end - start}, above ? above->shape : 0, &kinds, &like);
  if (r < 0 || !kinds) return r; /* blank lines need no mark */
  if (d->compact)
    ctxp_buf_printf(out, "\xe2\x80\xa6 %" PRIu64 " line%s \xe2\x80\xa6\n", to - from + 1, from == to ? "" : "s");
  else if (from == to)
    ctxp_buf_printf(out, "\xe2\x80\xa6 line %" PRIu64 " \xe2\x80\xa6\n", from);
  else if (above && like)
    ctxp_buf_printf(
        out, "\xe2\x80\xa6 lines %" PRIu64 "-%" PRIu64 ": %" PRIu64 " like the one above \xe2\x80\xa6\n", from, to, to - from + 1);
  else
    ctxp_buf_printf(out, "\xe2\x80\xa6 lines %" PRIu64 "-%" PRIu64 ": %" PRIu64 " lines, %u%s kind%s \xe2\x80\xa6\n", from, to,
        to - from + 1, kinds > 64 ? 64 : kinds, kinds > 64 ? "+" : "", kinds == 1 ? "" : "s");
  return 0;
}

int ctxp_picks_write(const struct ctxp_outline *d, const struct ctxp_picks *chosen, struct ctxp_buf *out) {
  int r = 0;
  for (size_t i = 0; i < chosen->count && r == 0; i++) {
    r = write_gap(d, i ? &chosen->at[i - 1] : NULL, &chosen->at[i], out);
    if (r == 0) r = write_pick(d, &chosen->at[i], out);
  }
  if (r == 0) r = write_gap(d, chosen->count ? &chosen->at[chosen->count - 1] : NULL, NULL, out);
  return r ? r : ctxp_buf_error(out);
}
