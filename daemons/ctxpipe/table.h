/* What people read: texts made safe for a terminal, numbers, bars, tables. Everything is appended to a buffer; nothing here knows
 * of files or of the pipeline. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/buf.h"

/* ---- texts ---- */
/* Labels and ids come from agents and are hostile: control characters (C0, DEL, C1), line separators and marks that reorder text
 * are made visible (\n, \x1b, \u202e), bytes that are not UTF-8 become U+FFFD. */
void ctxp_term_text(struct ctxp_buf *out, struct ctxp_str text);
/* The same, but newlines and tabs stay. */
void ctxp_term_lines(struct ctxp_buf *out, struct ctxp_str text);
/* Columns on a terminal of a text without control characters: wide letters count 2, combining marks 0. */
unsigned ctxp_term_width(struct ctxp_str text);

/* ---- where it goes ---- */
struct ctxp_style {
  bool colour;
  bool utf8; /* bars of blocks; else of # */
  unsigned columns; /* that a line may have; 0: any number */
};
/* Colours and a width only for a terminal (and no colours with NO_COLOR or TERM=dumb). */
struct ctxp_style ctxp_style_of(FILE *file);

/* ---- numbers ---- */
void ctxp_put_count(struct ctxp_buf *out, uint64_t number); /* 12,345,678 */
void ctxp_put_counted(struct ctxp_buf *out, uint64_t number, const char *noun); /* 1 event, 2,345 events */
void ctxp_put_signed(struct ctxp_buf *out, int64_t number);
/* 999, 12.7k: thousands with one decimal, as JavaScript's toFixed(1) rounds */
void ctxp_put_thousands(struct ctxp_buf *out, int64_t number);
void ctxp_put_dollars(struct ctxp_buf *out, int64_t nano, unsigned decimals); /* $12.3456, rounded half up */
void ctxp_put_bytes(struct ctxp_buf *out, uint64_t bytes); /* 1.5 MB: powers of 1000 */
void ctxp_put_duration(struct ctxp_buf *out, uint64_t ms); /* 3 s, 4 min 10 s, 2 h 5 min, 3 d 4 h */
/* Rounds values to multiples of `unit` so that the rounded ones add up to their rounded sum: largest remainder, ties to the
 * earlier. In place, as numbers of units. -ENOMEM. */
int ctxp_round_together(uint64_t *values, unsigned count, uint64_t unit) __attribute__((warn_unused_result));

/* ---- tables ---- */
enum ctxp_column_kind { CTXP_COLUMN_TEXT,
  CTXP_COLUMN_NUMBER,
  CTXP_COLUMN_BAR };
struct ctxp_column {
  const char *title;
  enum ctxp_column_kind kind;
};
#define CTXP_COLUMNS_MAX 20

struct ctxp_table { /* {.columns, .column_count}, the rest zeroed */
  const struct ctxp_column *columns;
  unsigned column_count;
  struct ctxp_buf texts, cells; /* cells: array of struct cell, row after row */
};
/* The cells of a row, from left to right. A text too wide for the line loses its middle. */
void ctxp_table_text(struct ctxp_table *table, struct ctxp_str text);
void ctxp_table_count(struct ctxp_table *table, uint64_t number);
void ctxp_table_bar(struct ctxp_table *table, uint64_t part, uint64_t whole); /* whole: of the widest bar */
/* Prints header and rows; two blanks between columns, none at the end of a line. -ENOMEM. */
int ctxp_table_print(const struct ctxp_table *table, const struct ctxp_style *style, struct ctxp_buf *out)
    __attribute__((warn_unused_result));
void ctxp_table_deinit(struct ctxp_table *table);
/* A text in lines of at most 80 columns (fewer on a narrower terminal), broken at blanks; ends with a newline. */
void ctxp_put_wrapped(struct ctxp_buf *out, const struct ctxp_style *style, const char *text);
/* A heading, after a blank line where something stands before it. */
void ctxp_put_heading(struct ctxp_buf *out, const struct ctxp_style *style, const char *text);
