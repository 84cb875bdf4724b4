#include <errno.h>
#include "mechanisms/digest_lines.h"

/* A line says what it is near its beginning or at its end; what is longer is data, and is looked at there only. */
enum { HEAD_BYTES = 800,
  TAIL_BYTES = 200 };
/* more blanks than this after a carriage return are taken for text behind which more may come */
enum { ERASED_MAX = 64 };

static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static char lower(char c) { return is_upper(c) ? (char)(c + 32) : c; }
static bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }
static bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || (c & 0x80); }

static bool is_path_byte(char c) { return is_word(c) || c == '/' || c == '.' || c == '-' || c == '_' || c == '~' || c == '+'; }

/* ---- reading ---- */
void ctxp_digest_lines_init(struct ctxp_lines *lines, struct ctxp_str source) {
  *lines = (struct ctxp_lines){.source = source, .number = 1};
}
void ctxp_digest_lines_deinit(struct ctxp_lines *lines) { ctxp_buf_deinit(&lines->shown); }

/* bytes of the escape sequence at the start of s: CSI up to its final byte, OSC and the like up to BEL or ST, else two */
static size_t escape(const char *s, size_t len) {
  if (len < 2) return len;
  size_t i = 2;
  if (s[1] == '[') {
    while (i < len && (unsigned char)s[i] >= 0x20 && (unsigned char)s[i] < 0x40) i++;
    return i < len && (unsigned char)s[i] >= 0x40 && (unsigned char)s[i] < 0x7f ? i + 1 : i;
  }
  if (s[1] == ']' || s[1] == 'P' || s[1] == '_' || s[1] == '^') {
    while (i < len && s[i] != 7 && s[i] != 0x1b) i++;
    if (i == len) return 2; /* never ended: the text behind it is text */
    return s[i] == 7 ? i + 1 : i + 1 < len && s[i + 1] == '\\' ? i + 2 :
                                                                 i;
  }
  if (s[1] == '(' || s[1] == ')') return len < 3 ? len : 3; /* character set */
  return (unsigned char)s[1] >= 0x20 && (unsigned char)s[1] < 0x7f ? 2 : 1;
}

static void show(struct ctxp_buf *out, struct ctxp_str piece) {
  size_t from = 0, i = 0;
  while (i < piece.len) {
    unsigned char c = (unsigned char)piece.ptr[i];
    bool c1 = c == 0xc2 && i + 1 < piece.len && (unsigned char)piece.ptr[i + 1] < 0xa0; /* the control characters U+0080 to U+009F */
    if (!c1 && ((c >= 0x20 && c != 0x7f) || c == '\t')) {
      i++;
      continue;
    }
    ctxp_buf_add(out, piece.ptr + from, i - from);
    i += c == 0x1b ? escape(piece.ptr + i, piece.len - i) : c1 ? 2 :
                                                                 1;
    from = i;
  }
  ctxp_buf_add(out, piece.ptr + from, piece.len - from);
}

static bool blank_bytes(const char *s, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r') return false;
  return true;
}

int ctxp_digest_lines_next(struct ctxp_lines *lines, struct ctxp_line *ret_line) {
  struct ctxp_str s = lines->source;
  if (lines->at >= s.len) return 0;
  const char *start = s.ptr + lines->at;
  if (lines->at >= lines->newline) { /* looked for once a line: a line may have a million carriage returns */
    const char *newline = memchr(start, '\n', s.len - lines->at);
    lines->newline = newline ? (size_t)(newline - s.ptr) : s.len;
  }
  size_t end = lines->newline - lines->at;
  const char *cr = memchr(start, '\r', end);
  size_t len = cr ? (size_t)(cr - start) : end;
  bool more = cr && (end - len > ERASED_MAX || !blank_bytes(cr, end - len));
  ctxp_buf_reset(&lines->shown);
  show(&lines->shown, (struct ctxp_str){start, len});
  if (lines->shown.failed) return -ENOMEM;
  *ret_line = (struct ctxp_line){ctxp_buf_view(&lines->shown), lines->number, lines->at, len, more};
  lines->at += more ? len + 1 : end + 1;
  if (!more) lines->number++;
  return 1;
}

/* ---- what a line is ---- */
void ctxp_matcher_init(struct ctxp_matcher *matcher) {
  size_t i = 0;
  for (unsigned letter = 0; letter < CTXP_LETTERS; letter++) {
    matcher->from[letter] = (uint16_t)i;
    while (i < ctxp_phrases_count && (unsigned)(lower(ctxp_phrases[i].text[0]) - 'a') == letter) i++;
  }
  matcher->from[CTXP_LETTERS] = (uint16_t)i;
}

struct word {
  size_t at, end;
  bool first; /* of the line */
  bool reported; /* "...: " stands somewhere before it */
  bool number_left; /* a number and a blank stand before it */
  bool zero_left; /* ... which is 0, or it is "no" */
  bool quoted; /* the line quotes a line of a file */
};

static char at(struct ctxp_str s, size_t i) { return i < s.len ? s.ptr[i] : 0; }

/* not a part of a path, an option or a name */
static bool stands_alone(struct ctxp_str s, size_t from, size_t to, bool call) {
  char before = from ? s.ptr[from - 1] : ' ', after = at(s, to), beyond = at(s, to + 1);
  if (before == '/' || before == '\\' || before == '$' || before == '@' || before == '-' ||
      (before == '.' && from > 1 && is_word(s.ptr[from - 2])))
    return false;
  if (after == '/' || after == '\\' || (after == '(' && !call)) return false;
  if ((after == '.' || after == '-') && is_word(beyond)) return false;
  return !(after == ':' && beyond == ':');
}

/* the end of the phrase's text at s[from], or 0 */
static size_t spelled(struct ctxp_str s, size_t from, const struct ctxp_phrase *phrase) {
  size_t i = from;
  for (const char *p = phrase->text; *p; p++, i++) {
    char c = at(s, i);
    if (c != *p && !(lower(c) == *p && !(phrase->flags & CTXP_PHRASE_CASE))) return 0;
  }
  return i < s.len && is_word(s.ptr[i]) ? 0 : i;
}

static bool capitals(struct ctxp_str s, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    if (lower(s.ptr[i]) == s.ptr[i] && is_letter(s.ptr[i])) return false;
  return true;
}

static bool phrase_counts(struct ctxp_str s, const struct word *w, const struct ctxp_phrase *phrase, size_t end) {
  if (w->quoted && !w->first && !(end - w->at > 3 && capitals(s, w->at, end))) return false;
  if (phrase->flags & CTXP_PHRASE_FIRST && !w->first) return false;
  if (!stands_alone(s, w->at, end, phrase->flags & CTXP_PHRASE_CALL)) return false;
  if (!(phrase->flags & CTXP_PHRASE_WEAK)) return true;
  return w->first || w->reported || at(s, end) == ':' || capitals(s, w->at, end);
}

/* AssertionError, java.io.IOException: a name that ends so and is not called */
static bool error_name(struct ctxp_str s, const struct word *w) {
  static const char *const ends[] = {"Error", "Exception", "Errors", "Panic", "Failure"};
  struct ctxp_str name = {s.ptr + w->at, w->end - w->at};
  for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
    if (name.len > strlen(ends[i]) && ctxp_str_ends(name, ends[i]))
      return at(s, w->end) != '(' && at(s, w->end) != '.' && at(s, w->end) != '/';
  return false;
}

/* ": 12" or "=12"; or " 12" and no more */
static bool number_right(struct ctxp_str s, size_t end) {
  char c = at(s, end);
  size_t i = c == ' ' || at(s, end + 1) != ' ' ? end + 1 : end + 2;
  if (c == ':' || c == '=') return is_digit(at(s, i));
  while (is_digit(at(s, i))) i++;
  return c == ' ' && i > end + 1 && i == s.len;
}

static bool counted(struct ctxp_str s, const struct word *w) {
  if (!w->number_left && !number_right(s, w->end)) return false;
  struct ctxp_phrase phrase = {0};
  for (size_t i = 0; i < ctxp_counted_words_count; i++) {
    phrase.text = ctxp_counted_words[i];
    if (spelled(s, w->at, &phrase) == w->end) return true;
  }
  return false;
}

static enum ctxp_line_class word_class(const struct ctxp_matcher *matcher, struct ctxp_str s, const struct word *w) {
  enum ctxp_line_class best = CTXP_LINE_NORMAL;
  unsigned letter = (unsigned)(lower(s.ptr[w->at]) - 'a');
  if (letter >= CTXP_LETTERS - 1) return best;
  for (size_t i = matcher->from[letter]; i < matcher->from[letter + 1]; i++) {
    size_t end = spelled(s, w->at, &ctxp_phrases[i]);
    if (!end || !phrase_counts(s, w, &ctxp_phrases[i], end)) continue;
    enum ctxp_line_class class = ctxp_phrases[i].class;
    if (class == CTXP_LINE_MUST && w->zero_left) continue; /* "0 errors" is no error; counted() makes it a summary */
    if (class > best || (class == CTXP_LINE_NOISE && best == CTXP_LINE_NORMAL)) best = class;
  }
  if (best < CTXP_LINE_MUST && !w->quoted && (counted(s, w) || (is_upper(s.ptr[w->at]) && error_name(s, w)))) best = CTXP_LINE_MUST;
  return best;
}

static enum ctxp_line_class scan(const struct ctxp_matcher *matcher, struct ctxp_str s, size_t from, bool quoted) {
  enum ctxp_line_class best = CTXP_LINE_NORMAL;
  struct word w = {.first = from == 0 || quoted, .quoted = quoted};
  for (size_t i = from; i < s.len;) {
    if (!is_word(s.ptr[i])) {
      if (s.ptr[i] == ':' && at(s, i + 1) == ' ') w.reported = true;
      if (s.ptr[i] != ' ') w.number_left = w.zero_left = false;
      i++;
      continue;
    }
    w.at = i;
    while (i < s.len && is_word(s.ptr[i])) i++;
    w.end = i;
    enum ctxp_line_class class = word_class(matcher, s, &w);
    if (class == CTXP_LINE_MUST) return class;
    if (class > best || (class == CTXP_LINE_NOISE && best == CTXP_LINE_NORMAL)) best = class;
    struct ctxp_str word = {s.ptr + w.at, w.end - w.at};
    w.number_left = is_digit(word.ptr[0]) && is_digit(word.ptr[word.len - 1]);
    w.zero_left = ctxp_str_is(word, "0") || ctxp_str_is(word, "no") || ctxp_str_is(word, "No");
    w.first = false;
  }
  return best;
}

/* "#3 0x4f2a in main" of a debugger or a sanitizer, "  12: 0x55 - name" of Rust */
static bool frame(struct ctxp_str line) {
  size_t i = 0;
  bool hash = at(line, 0) == '#';
  if (hash) i++;
  size_t digits = i;
  while (is_digit(at(line, i))) i++;
  if (i == digits || (!hash && at(line, i) != ':')) return false;
  while (at(line, i) == ' ' || at(line, i) == ':') i++;
  struct ctxp_str rest = {line.ptr + i, line.len - i};
  return ctxp_str_starts(rest, "0x") ||
      (hash && (ctxp_str_find(rest, CTXP_STR(" at "), 0) != SIZE_MAX || ctxp_str_find(rest, CTXP_STR(" from "), 0) != SIZE_MAX));
}

static enum ctxp_line_class beginning(struct ctxp_str line) {
  size_t indent = 0;
  while (indent < line.len && (line.ptr[indent] == ' ' || line.ptr[indent] == '\t')) indent++;
  struct ctxp_str inner = {line.ptr + indent, line.len - indent};
  if (!inner.len) return CTXP_LINE_NORMAL;
  if (frame(inner)) return CTXP_LINE_MUST;
  for (size_t i = 0; i < ctxp_beginnings_count; i++) {
    const struct ctxp_beginning *b = &ctxp_beginnings[i];
    struct ctxp_str from = b->indent ? inner : line;
    if (b->text[0] != from.ptr[0] || (b->indent == CTXP_INDENTED && !indent)) continue;
    if (ctxp_str_starts(from, b->text)) return (enum ctxp_line_class)b->class;
  }
  return CTXP_LINE_NORMAL;
}

/* a part that is done, of all: "12%", "[ 3/40]" */
static bool progress(struct ctxp_str line) {
  const char *sign = memchr(line.ptr, '%', line.len);
  if (sign && sign > line.ptr && is_digit(sign[-1])) return true;
  if (at(line, 0) != '[') return false;
  size_t i = 1;
  while (at(line, i) == ' ' || is_digit(at(line, i))) i++;
  return at(line, i) == '/' && is_digit(at(line, i + 1));
}

/* "path:12:text" or, below its path, "12:text" of a search in files: where the text begins; 0: it is none. A compiler puts one blank
 * behind its numbers. */
static size_t found_at(struct ctxp_str line) {
  size_t i = 0, digits;
  while (is_digit(at(line, i))) i++;
  if (!i || at(line, i) != ':' || is_digit(at(line, i + 1))) {
    while (i < line.len && is_path_byte(line.ptr[i])) i++;
    if (!i || at(line, i) != ':') return 0;
    for (digits = ++i; is_digit(at(line, i));) i++;
    if (i == digits || at(line, i) != ':') return 0;
  }
  char next = at(line, ++i), beyond = at(line, i + 1);
  return next && !is_digit(next) && (next != ' ' || beyond == ' ' || beyond == '\t') ? i : 0;
}

/* "-rw-r--r-- 1 ..." of ls */
static bool listed_file(struct ctxp_str line) {
  if (line.len < 12 || !strchr("-dlcbps", line.ptr[0])) return false;
  for (size_t i = 1; i < 10; i++)
    if (!strchr("rwxsStT-", line.ptr[i])) return false;
  return line.ptr[10] == ' ' || line.ptr[11] == ' ';
}

/* without "==123== ", which valgrind puts before each of its lines */
static struct ctxp_str behind_process(struct ctxp_str line) {
  size_t i = 2;
  if (!ctxp_str_starts(line, "==")) return line;
  while (is_digit(at(line, i))) i++;
  if (i == 2 || at(line, i) != '=' || at(line, i + 1) != '=') return line;
  i += at(line, i + 2) == ' ' ? 3 : 2;
  return (struct ctxp_str){line.ptr + i, line.len - i};
}

/* "app/money.py:14: in convert" of pytest */
static bool pytest_frame(struct ctxp_str line) {
  size_t i = 0;
  while (i < line.len && is_path_byte(line.ptr[i])) i++;
  if (!i || at(line, i) != ':' || !is_digit(at(line, i + 1))) return false;
  for (i++; is_digit(at(line, i));) i++;
  struct ctxp_str rest = {line.ptr + i, line.len - i};
  return ctxp_str_starts(rest, ": in ");
}

enum ctxp_line_class ctxp_line_classify(const struct ctxp_matcher *matcher, struct ctxp_str line) {
  line = behind_process(line);
  if (!line.len || listed_file(line)) return CTXP_LINE_NORMAL;
  if (pytest_frame(line)) return CTXP_LINE_MUST;
  enum ctxp_line_class class = beginning(line);
  if (class == CTXP_LINE_MUST) return class;
  struct ctxp_str head = line.len > HEAD_BYTES ? (struct ctxp_str){line.ptr, HEAD_BYTES} : line;
  size_t found = found_at(head);
  enum ctxp_line_class words = scan(matcher, head, found, found > 0);
  if (words < CTXP_LINE_MUST && line.len > HEAD_BYTES && !found) {
    size_t from = line.len - HEAD_BYTES > TAIL_BYTES ? line.len - TAIL_BYTES : HEAD_BYTES;
    enum ctxp_line_class tail = scan(matcher, line, from, false);
    if (tail > words) words = tail;
  }
  if (words > CTXP_LINE_NORMAL) return words;
  if (class != CTXP_LINE_NORMAL) return class;
  return words == CTXP_LINE_NORMAL && progress(head) ? CTXP_LINE_NOISE : words;
}

/* ",12" or nothing: 1 */
static uint64_t hunk_count(struct ctxp_str s, size_t *i) {
  uint64_t count = 0;
  while (is_digit(at(s, *i))) ++*i;
  if (at(s, *i) != ',') return 1;
  for (++*i; is_digit(at(s, *i)) && count < 100000000; ++*i) count = count * 10 + (uint64_t)(at(s, *i) - '0');
  return count;
}

bool ctxp_hunk_quotes(struct ctxp_hunk *hunk, struct ctxp_str line) {
  char c = at(line, 0);
  if (ctxp_str_starts(line, "@@ -")) {
    size_t i = 4;
    hunk->old_left = hunk_count(line, &i);
    bool whole = at(line, i) == ' ' && at(line, i + 1) == '+';
    i += 2;
    hunk->new_left = whole ? hunk_count(line, &i) : 0;
    if (!whole) hunk->old_left = 0;
    return whole;
  }
  if (!hunk->old_left && !hunk->new_left) return false;
  bool both = c == ' ' || c == 0, quotes = both || c == '+' || c == '-' || c == '\\';
  if (!quotes) hunk->old_left = hunk->new_left = 0;
  if ((both || c == '-') && hunk->old_left) hunk->old_left--;
  if ((both || c == '+') && hunk->new_left) hunk->new_left--;
  return quotes;
}

/* ---- shape ---- */
static void mix(uint64_t *hash, unsigned char c) { *hash = (*hash ^ c) * UINT64_C(0x100000001b3); }

/* the end of a run of path bytes, or of several with "::" between them: a name of a test, a module, a class */
static size_t token_end(struct ctxp_str s, size_t from, bool *ret_chained) {
  size_t i = from;
  *ret_chained = false;
  while (i < s.len && is_path_byte(s.ptr[i])) i++;
  while (at(s, i) == ':' && at(s, i + 1) == ':' && i + 2 < s.len && is_path_byte(s.ptr[i + 2])) {
    *ret_chained = true;
    for (i += 2; i < s.len && is_path_byte(s.ptr[i]);) i++;
  }
  return i;
}

/* one run of path bytes: a path or a chain becomes P, else its numbers become # */
static void mix_token(uint64_t *hash, struct ctxp_str token, bool path) {
  for (size_t i = 0; i < token.len; i++)
    path = path || token.ptr[i] == '/' || (token.ptr[i] == '.' && i && i + 1 < token.len && !is_digit(token.ptr[i + 1]));
  if (path) {
    mix(hash, 'P');
    return;
  }
  bool address = token.len > 2 && token.ptr[0] == '0' && token.ptr[1] == 'x';
  bool hex = token.len >= 6 || address, digits = false;
  for (size_t i = address ? 2 : 0; i < token.len; i++) {
    hex = hex && (is_digit(token.ptr[i]) || (lower(token.ptr[i]) >= 'a' && lower(token.ptr[i]) <= 'f'));
    digits = digits || is_digit(token.ptr[i]);
  }
  if (hex && (digits || address)) {
    mix(hash, '#');
    return;
  }
  for (size_t i = 0; i < token.len; i++) {
    char c = token.ptr[i], before = i ? token.ptr[i - 1] : 0;
    if (c == '_' && before == '_') continue; /* a line that is drawn */
    if (!is_digit(c))
      mix(hash, (unsigned char)c);
    else if (!is_digit(before))
      mix(hash, '#');
  }
}

uint64_t ctxp_line_shape(struct ctxp_str line) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  if (line.len > HEAD_BYTES) line.len = HEAD_BYTES;
  for (size_t i = 0; i < line.len;) {
    size_t start = i;
    char c = line.ptr[i];
    if (is_path_byte(c)) {
      bool chained;
      i = token_end(line, start, &chained);
      mix_token(&hash, (struct ctxp_str){line.ptr + start, i - start}, chained);
      mix(&hash, ' ');
    } else if (c == '\'' || c == '"' || c == '`') {
      const char *close = memchr(line.ptr + i + 1, c == '`' ? '\'' : c, line.len - i - 1);
      const char *same = c == '`' ? memchr(line.ptr + i + 1, '`', line.len - i - 1) : NULL;
      if (same && (!close || same < close)) close = same;
      i = close ? (size_t)(close - line.ptr) + 1 : i + 1;
      mix(&hash, close ? 'Q' : '\'');
    } else {
      while (i < line.len && line.ptr[i] == c) i++; /* runs of dashes, stars, ... count as one, blanks not at all */
      if (c != ' ' && c != '\t') mix(&hash, (unsigned char)c);
    }
  }
  return hash;
}
