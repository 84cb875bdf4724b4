/* Tables: cells are kept as safe text, widths are counted in columns of a terminal. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "ctxpipe/table.h"

#define BAR_COLUMNS 20
#define BAR_MIN 4 /* a bar below this says nothing: it goes */
#define TEXT_MIN 8 /* a text column is not cut below this */

struct cell {
  size_t at, len; /* in texts */
  uint64_t part, whole; /* of a bar */
};

static void add(struct ctxp_table *table, size_t at, uint64_t part, uint64_t whole) {
  struct cell cell = {at, table->texts.len - at, part, whole};
  ctxp_buf_add(&table->cells, &cell, sizeof(cell));
}

void ctxp_table_text(struct ctxp_table *table, struct ctxp_str text) {
  size_t at = table->texts.len;
  ctxp_term_text(&table->texts, text);
  add(table, at, 0, 0);
}

void ctxp_table_count(struct ctxp_table *table, uint64_t number) {
  size_t at = table->texts.len;
  ctxp_put_count(&table->texts, number);
  add(table, at, 0, 0);
}

void ctxp_table_bar(struct ctxp_table *table, uint64_t part, uint64_t whole) { add(table, table->texts.len, part, whole); }

void ctxp_table_deinit(struct ctxp_table *table) {
  ctxp_buf_deinit(&table->texts);
  ctxp_buf_deinit(&table->cells);
}

static struct ctxp_str text_of(const struct ctxp_table *table, const struct cell *cell) {
  return cell->len ? (struct ctxp_str){(const char *)table->texts.ptr + cell->at, cell->len} : (struct ctxp_str){0};
}

static struct cell cell_at(const struct ctxp_table *table, size_t index) {
  struct cell cell;
  memcpy(&cell, table->cells.ptr + index * sizeof(cell), sizeof(cell));
  return cell;
}

static size_t cell_count(const struct ctxp_table *table) { return table->cells.len / sizeof(struct cell); }

static unsigned find_bar(const struct ctxp_table *table) {
  unsigned c = 0;
  while (c < table->column_count && table->columns[c].kind != CTXP_COLUMN_BAR) c++;
  return c;
}

/* what is too much: first the bar, then of the widest text */
static void shrink(const struct ctxp_table *table, unsigned too_much, unsigned widths[CTXP_COLUMNS_MAX]) {
  unsigned bar = find_bar(table);
  if (bar < table->column_count) {
    unsigned give = widths[bar] - BAR_MIN < too_much ? widths[bar] + 2 : too_much; /* with the blanks before it */
    widths[bar] = give > widths[bar] ? 0 : widths[bar] - give;
    too_much -= give < too_much ? give : too_much;
  }
  for (; too_much; too_much--) {
    unsigned widest = CTXP_COLUMNS_MAX;
    for (unsigned c = 0; c < table->column_count; c++)
      if (table->columns[c].kind == CTXP_COLUMN_TEXT && (widest == CTXP_COLUMNS_MAX || widths[c] > widths[widest])) widest = c;
    if (widest == CTXP_COLUMNS_MAX || widths[widest] <= TEXT_MIN) return;
    widths[widest]--;
  }
}

static void measure(const struct ctxp_table *table, const struct ctxp_style *style, unsigned widths[CTXP_COLUMNS_MAX]) {
  unsigned total = 0;
  for (unsigned c = 0; c < table->column_count; c++)
    widths[c] = table->columns[c].kind == CTXP_COLUMN_BAR ? BAR_COLUMNS : ctxp_term_width(ctxp_str(table->columns[c].title));
  for (size_t i = 0; table->column_count && i < cell_count(table); i++) {
    struct cell cell = cell_at(table, i);
    unsigned width = ctxp_term_width(text_of(table, &cell)), c = (unsigned)(i % table->column_count);
    if (width > widths[c]) widths[c] = width;
  }
  for (unsigned c = 0; c < table->column_count; c++) total += widths[c] + (c ? 2 : 0);
  if (style->columns && total > style->columns) shrink(table, total - style->columns, widths);
}

/* the longest piece from the front (or the back) that is at most `width` wide */
static struct ctxp_str piece(struct ctxp_str text, unsigned width, bool front) {
  size_t len = front ? 0 : text.len;
  for (;;) {
    size_t next = len;
    if (front && len < text.len) {
      unsigned n = ctxp_utf8_sequence(text.ptr + len, text.len - len);
      next = len + (n ? n : 1);
    } else if (!front && len > 0) {
      do next--;
      while (next > 0 && ((unsigned char)text.ptr[next] & 0xc0) == 0x80);
    }
    struct ctxp_str got = front ? (struct ctxp_str){text.ptr, next} : (struct ctxp_str){text.ptr + next, text.len - next};
    if (next == len || ctxp_term_width(got) > width) break;
    len = next;
  }
  return front ? (struct ctxp_str){text.ptr, len} : (struct ctxp_str){text.ptr + len, text.len - len};
}

static void pad(struct ctxp_buf *out, unsigned count) {
  for (unsigned i = 0; i < count; i++) ctxp_buf_char(out, ' ');
}

static void put_text(struct ctxp_buf *out, const struct ctxp_style *style, struct ctxp_str text, unsigned width, bool right) {
  unsigned have = ctxp_term_width(text);
  if (have > width) { /* a path's end says more than its beginning */
    const char *dots = style->utf8 ? "…" : "~";
    struct ctxp_str head = piece(text, (width - 1) / 3, true), tail = piece(text, width - 1 - (width - 1) / 3, false);
    ctxp_buf_add(out, head.ptr, head.len);
    ctxp_buf_str(out, dots);
    ctxp_buf_add(out, tail.ptr, tail.len);
    have = ctxp_term_width(head) + 1 + ctxp_term_width(tail);
    pad(out, width > have ? width - have : 0);
    return;
  }
  if (right) pad(out, width - have);
  ctxp_buf_add(out, text.ptr, text.len);
  if (!right) pad(out, width - have);
}

static void put_bar(struct ctxp_buf *out, const struct ctxp_style *style, const struct cell *cell, unsigned width) {
  static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  unsigned used = 0, steps = cell->whole ? (unsigned)((double)cell->part / (double)cell->whole * width * 8 + 0.5) : 0;
  if (steps > width * 8) steps = width * 8;
  if (!width) return;
  if (!style->utf8) steps = (steps + 4) / 8 * 8;
  if (style->colour) ctxp_buf_str(out, "\x1b[36m");
  for (; used < steps / 8; used++) ctxp_buf_str(out, style->utf8 ? "█" : "#");
  if (style->utf8 && steps % 8) {
    ctxp_buf_str(out, eighths[steps % 8]);
    used++;
  }
  if (style->colour) ctxp_buf_str(out, "\x1b[0m");
  pad(out, width - used);
}

/* cuts the blanks at the end of a line, and ends it */
static void end_line(struct ctxp_buf *out, size_t start) {
  while (out->len > start && out->ptr[out->len - 1] == ' ') out->len--;
  ctxp_buf_char(out, '\n');
}

static void put_header(const struct ctxp_table *table, const struct ctxp_style *style, const unsigned *widths, struct ctxp_buf *out) {
  size_t start = out->len;
  if (style->colour) ctxp_buf_str(out, "\x1b[2m");
  for (unsigned c = 0; c < table->column_count; c++) {
    if (c) pad(out, 2);
    put_text(out, style, ctxp_str(table->columns[c].title), widths[c], table->columns[c].kind == CTXP_COLUMN_NUMBER);
  }
  while (out->len > start && out->ptr[out->len - 1] == ' ') out->len--;
  if (style->colour) ctxp_buf_str(out, "\x1b[0m");
  end_line(out, start);
}

int ctxp_table_print(const struct ctxp_table *table, const struct ctxp_style *style, struct ctxp_buf *out) {
  unsigned widths[CTXP_COLUMNS_MAX];
  if (table->texts.failed || table->cells.failed) return -ENOMEM;
  measure(table, style, widths);
  put_header(table, style, widths, out);
  for (size_t i = 0; i + table->column_count <= cell_count(table); i += table->column_count) {
    size_t start = out->len;
    for (unsigned c = 0; c < table->column_count; c++) {
      struct cell cell = cell_at(table, i + c);
      if (c) pad(out, 2);
      if (table->columns[c].kind == CTXP_COLUMN_BAR)
        put_bar(out, style, &cell, widths[c]);
      else
        put_text(out, style, text_of(table, &cell), widths[c], table->columns[c].kind == CTXP_COLUMN_NUMBER);
    }
    end_line(out, start);
  }
  return ctxp_buf_error(out);
}

void ctxp_put_wrapped(struct ctxp_buf *out, const struct ctxp_style *style, const char *text) {
  unsigned columns = style->columns && style->columns < 80 ? style->columns : 80, at = 0;
  while (*text) {
    size_t len = strcspn(text, " ");
    unsigned width = ctxp_term_width((struct ctxp_str){text, len});
    if (at && at + 1 + width > columns) {
      ctxp_buf_char(out, '\n');
      at = 0;
    }
    if (at) ctxp_buf_char(out, ' ');
    ctxp_buf_add(out, text, len);
    at += width + (at ? 1 : 0);
    text += len;
    while (*text == ' ') text++;
  }
  ctxp_buf_char(out, '\n');
}

void ctxp_put_heading(struct ctxp_buf *out, const struct ctxp_style *style, const char *text) {
  ctxp_buf_printf(out, "%s%s%s%s\n", out->len ? "\n" : "", style->colour ? "\x1b[1m" : "", text, style->colour ? "\x1b[0m" : "");
}
