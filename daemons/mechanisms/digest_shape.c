#include "mechanisms/digest_chars.h"
#include "mechanisms/digest_lines.h"

enum { SHAPE_BYTES = 800 }; /* of a line that are looked at */

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

/* "[auth]", "[svc.db-2]": where it ends; else where it begins */
static size_t tag_end(struct ctxp_str s, size_t from) {
  size_t i = from + 1;
  if (!is_letter(at(s, i))) return from;
  while (i < s.len && is_path_byte(s.ptr[i]) && !is_upper(s.ptr[i])) i++;
  return at(s, i) == ']' ? i + 1 : from;
}

uint64_t ctxp_line_shape(struct ctxp_str line) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  if (line.len > SHAPE_BYTES) line.len = SHAPE_BYTES;
  for (size_t i = 0; i < line.len;) {
    size_t start = i;
    char c = line.ptr[i];
    if (is_path_byte(c)) {
      bool chained;
      i = token_end(line, start, &chained);
      mix_token(&hash, (struct ctxp_str){line.ptr + start, i - start}, chained);
      mix(&hash, ' ');
    } else if (c == '[' && (i = tag_end(line, start)) > start) {
      mix(&hash, 'B');
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
