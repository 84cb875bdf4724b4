/* What the lines of shell outputs look like, as data: words, phrases and beginnings of compilers, test runners, version control,
 * package managers, listings and logs. digest_lines.c matches them; a new tool is a new row here. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum ctxp_line_class {
  CTXP_LINE_NOISE, /* progress, one line per thing that went well */
  CTXP_LINE_NORMAL,
  CTXP_LINE_TOTAL, /* says how much there was */
  CTXP_LINE_WARNING,
  CTXP_LINE_MUST /* error, failure, panic, traceback frame, assertion, summary of a test run: never left out */
};

enum { /* flags of a phrase */
  CTXP_PHRASE_CASE = 1, /* only as it is written here */
  CTXP_PHRASE_FIRST = 2, /* only as the first words of a line */
  CTXP_PHRASE_CALL = 4, /* also right before a parenthesis, where other words are the name of a function in a listing */
  CTXP_PHRASE_WEAK = 8 /* only where somebody reports it: first in its line, after "...: ", before a colon, or in capitals */
};
struct ctxp_phrase { /* lower case but for CTXP_PHRASE_CASE; grouped by first letter; single blanks between words */
  const char *text;
  uint8_t class, flags;
};
enum ctxp_indent { CTXP_FLUSH,
  CTXP_ANY_INDENT,
  CTXP_INDENTED };
struct ctxp_beginning { /* of a line, after its leading blanks where it may or must have some */
  const char *text;
  uint8_t class, indent;
};

extern const struct ctxp_phrase ctxp_phrases[];
extern const size_t ctxp_phrases_count;
extern const struct ctxp_beginning ctxp_beginnings[];
extern const size_t ctxp_beginnings_count;
/* words that make a test run's summary when a number stands beside them */
extern const char *const ctxp_counted_words[];
extern const size_t ctxp_counted_words_count;
