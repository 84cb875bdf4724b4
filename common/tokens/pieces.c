#include "tokens/pieces.h"

#define BASE64_MIN 200

enum class { PUNCT,
  LOWER,
  UPPER,
  DIGIT,
  BLANK,
  NEWLINE,
  OTHER };
#define P PUNCT
#define L LOWER
#define U UPPER
#define D DIGIT
static const uint8_t classes[128] = {
    P, P, P, P, P, P, P, P, P, BLANK, NEWLINE, P, P, NEWLINE, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, /* controls */
    BLANK, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, D, D, D, D, D, D, D, D, D, D, P, P, P, P, P, P, /* to ? */
    P, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, P, P, P, P, P, /* to _ */
    P, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, P, P, P, P, P};
#undef P
#undef L
#undef U
#undef D

static enum class class_of(char c) { return (uint8_t)c < 128 ? (enum class)classes[(uint8_t)c] : OTHER; }

static size_t run(struct ctxp_str t, size_t at, enum class class) {
  while (at < t.len && class_of(t.ptr[at]) == class) at++;
  return at;
}

static uint64_t word(size_t len) { return len <= 6 ? 10 : 10 * ((len + 3) / 5); }

static bool base64_char(char c) {
  enum class class = class_of(c);
  return class == LOWER || class == UPPER || class == DIGIT || c == '+' || c == '/' || c == '=';
}

/* Where a stretch of base64 that begins here ends; 0: none does. A few probes tell nearly always. */
static size_t base64_end(struct ctxp_str t, size_t at) {
  bool digit = false, capital = false;
  size_t end = at;
  if (t.len - at < BASE64_MIN) return 0;
  for (size_t probe = BASE64_MIN; probe > 0; probe -= 20)
    if (!base64_char(t.ptr[at + probe - 1])) return 0;
  for (; end < t.len && base64_char(t.ptr[end]); end++) {
    digit |= class_of(t.ptr[end]) == DIGIT;
    capital |= class_of(t.ptr[end]) == UPPER;
  }
  return digit && capital && end - at >= BASE64_MIN ? end : 0;
}

/* scripts that are written without spaces, and full width forms */
static bool wide(uint32_t c) {
  return (c >= 0x1100 && c < 0x1200) || (c >= 0x3000 && c < 0x3100) || (c >= 0x3400 && c < 0x4dc0) || (c >= 0x4e00 && c < 0xa000) ||
      (c >= 0xac00 && c < 0xd7b0) || (c >= 0xf900 && c < 0xfb00) || (c >= 0xff00 && c < 0xff61) || (c >= 0x20000 && c < 0x40000);
}

static size_t add_other(struct ctxp_str t, size_t at, uint64_t *sum) {
  uint32_t c = 0xfffd;
  unsigned len = ctxp_utf8_sequence(t.ptr + at, t.len - at);
  if (len) ctxp_utf8_decode(t.ptr + at, &c);
  *sum += wide(c) ? 11 : 7;
  return at + (len ? len : 1);
}

/* capitals, the last of which may begin a word */
static size_t add_capitals(struct ctxp_str t, size_t at, uint64_t *sum) {
  size_t end = run(t, at, UPPER), lower = run(t, end, LOWER);
  if (lower > end) end--;
  if (end > at) *sum += word(end - at);
  if (lower > end && class_of(t.ptr[end]) == UPPER) *sum += word(lower - end);
  return lower;
}

uint64_t ctxp_pieces(struct ctxp_str t) {
  uint64_t sum = 0;
  size_t at = 0, looked = 0; /* looked: up to here it is known that there is no base64 */
  while (at < t.len) {
    enum class class = class_of(t.ptr[at]);
    size_t end;
    if (at >= looked && (class == LOWER || class == UPPER || class == DIGIT)) {
      end = base64_end(t, at);
      if (end) {
        sum += 6 * (uint64_t)(end - at);
        at = end;
        continue;
      }
      for (looked = at; looked < t.len && base64_char(t.ptr[looked]);) looked++;
    }
    end = class == OTHER ? add_other(t, at, &sum) : class == UPPER ? add_capitals(t, at, &sum) :
                                                                     run(t, at, class);
    switch (class) {
    case LOWER: sum += word(end - at); break;
    case PUNCT: sum += 10 * ((end - at + 1) / 2); break;
    case DIGIT: sum += 16 * ((end - at + 2) / 3); break;
    case BLANK: sum += end - at > 1 ? 10 : 0; break;
    case NEWLINE: sum += 10; break;
    case UPPER:
    case OTHER: break;
    }
    at = end;
  }
  return sum;
}

/* ---- models ---- */
/* the first that fits; longer names before the ones that they begin with */
static const struct ctxp_tokenizer tokenizers[] = {
    {"claude-opus-4-7", CTXP_FAMILY_CLAUDE_47, 1340, -1},
    {"claude-opus-4-8", CTXP_FAMILY_CLAUDE_47, 1340, -1},
    {"claude-opus-4-5", CTXP_FAMILY_CLAUDE, 990, -1},
    {"claude-opus-4-6", CTXP_FAMILY_CLAUDE, 990, -1},
    {"claude-sonnet-4-6", CTXP_FAMILY_CLAUDE, 990, -1},
    {"claude-sonnet-4-5", CTXP_FAMILY_CLAUDE, 990, 1},
    {"claude-", CTXP_FAMILY_CLAUDE, 990, 0},
    {"gpt-5", CTXP_FAMILY_GPT, 795, 1},
    {"glm-", CTXP_FAMILY_GLM, 815, 1},
    {"deepseek", CTXP_FAMILY_DEEPSEEK, 860, -1},
};
static const struct ctxp_tokenizer unknown = {"", CTXP_FAMILY_UNKNOWN, 1024, 0};

/* letters in any case; a dot and a dash are the same */
static bool begins(struct ctxp_str model, const char *name) {
  for (size_t i = 0; name[i]; i++) {
    char c = i < model.len ? model.ptr[i] : '\0';
    if (c >= 'A' && c <= 'Z') c = (char)(c + ('a' - 'A'));
    if ((c == '.' ? '-' : c) != name[i]) return false;
  }
  return true;
}

const struct ctxp_tokenizer *ctxp_tokenizer(struct ctxp_str model) {
  for (size_t from = 0; from < model.len; from++) { /* anthropic/claude-..., us.anthropic.claude-... */
    if (from && model.ptr[from - 1] != '/' && model.ptr[from - 1] != '.') continue;
    for (size_t i = 0; i < sizeof(tokenizers) / sizeof(tokenizers[0]); i++)
      if (begins((struct ctxp_str){model.ptr + from, model.len - from}, tokenizers[i].name)) return &tokenizers[i];
  }
  return &unknown;
}

uint64_t ctxp_thinking_by_signature(enum ctxp_family family, uint64_t units) {
  uint64_t tokens = family == CTXP_FAMILY_CLAUDE_47 ? units * 28 / 100 : family == CTXP_FAMILY_GPT ? units * 15 / 100 :
                                                                                                     units * 22 / 100;
  uint64_t less = family == CTXP_FAMILY_CLAUDE_47 ? 0 : family == CTXP_FAMILY_GPT ? 100 :
                                                                                    37;
  return tokens > less ? tokens - less : 0;
}
