#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "codec/json_index.h"
#include "codec/json_read.h"

struct ctxp_json_texts {
  struct ctxp_json_texts *next;
  size_t len, cap;
  char bytes[];
};

static void drop_texts(struct ctxp_json *json, bool all) {
  while (json->texts && (all || json->texts->next)) {
    struct ctxp_json_texts *block = json->texts;
    json->texts = block->next;
    free(block);
  }
  if (json->texts) json->texts->len = 0;
}

void ctxp_json_deinit(struct ctxp_json *json) {
  drop_texts(json, true);
  free(json->after);
  json->index = ctxp_json_index_free(json->index);
  ctxp_buf_deinit(&json->clean);
  *json = (struct ctxp_json){0};
}

/* ---- loading: tokens, then grammar ---- */
static char byte_at(const struct ctxp_json *json, uint32_t i) { return json->text.ptr[json->at[i]]; }

static int refuse(const struct ctxp_json *json, uint32_t i, struct ctxp_error *err, const char *expected) {
  if (i >= json->count) return ctxp_error_set(err, -EBADMSG, "the JSON text ends too early, %s is missing", expected);
  return ctxp_error_set(err, -EBADMSG, "not JSON at byte %u: %s should stand there", json->at[i] + 1, expected);
}

static bool word_at(const struct ctxp_json *json, uint32_t i, const char *word) {
  struct ctxp_str rest = {json->text.ptr + json->at[i], json->text.len - json->at[i]};
  return ctxp_str_starts(rest, word);
}

/* a string, a number or a word; numbers are looked at when they are read */
static bool scalar_at(const struct ctxp_json *json, uint32_t i) {
  char c = byte_at(json, i);
  if (c == '"' || c == '-' || (c >= '0' && c <= '9')) return true;
  return (c == 't' && word_at(json, i, "true")) || (c == 'f' && word_at(json, i, "false")) || (c == 'n' && word_at(json, i, "null"));
}

/* Walks the tokens once, notes where each bracket ends. */
static int check_grammar(struct ctxp_json *json, struct ctxp_error *err) {
  uint32_t open[CTXP_JSON_DEPTH], i = 0;
  unsigned depth = 0;
  for (;;) {
    /* token i begins a value */
    if (i >= json->count) return refuse(json, i, err, "a value");
    char c = byte_at(json, i);
    if (c == '{' || c == '[') {
      if (depth == CTXP_JSON_DEPTH) return ctxp_error_set(err, -EBADMSG, "the JSON text has more than %d levels", CTXP_JSON_DEPTH);
      open[depth++] = i++;
      if (i < json->count && byte_at(json, i) == (c == '{' ? '}' : ']')) goto close;
      if (c == '[') continue;
    key:
      if (i >= json->count || byte_at(json, i) != '"') return refuse(json, i, err, "a key");
      if (i + 1 >= json->count || byte_at(json, i + 1) != ':') return refuse(json, i + 1, err, "a colon");
      i += 2;
      continue;
    }
    if (!scalar_at(json, i)) return refuse(json, i, err, "a value");
    i++;
  after_value:
    if (depth == 0) return i == json->count ? 0 : refuse(json, i, err, "nothing more");
    bool object = byte_at(json, open[depth - 1]) == '{';
    if (i >= json->count) return refuse(json, i, err, object ? "a comma or }" : "a comma or ]");
    c = byte_at(json, i);
    if (c == ',') {
      i++;
      if (object) goto key;
      continue;
    }
    if (c != (object ? '}' : ']')) return refuse(json, i, err, object ? "a comma or }" : "a comma or ]");
  close:
    json->after[open[--depth]] = ++i;
    goto after_value;
  }
}

struct ctxp_str ctxp_utf8_clean(struct ctxp_str text, struct ctxp_buf *scratch) {
  size_t plain = 0;
  if (ctxp_utf8_valid(text)) return text;
  ctxp_buf_reset(scratch);
  for (size_t i = 0; i < text.len;) {
    unsigned n = ctxp_utf8_sequence(text.ptr + i, text.len - i);
    if (n == 0) {
      ctxp_buf_add(scratch, text.ptr + plain, i - plain);
      ctxp_buf_str(scratch, "\xef\xbf\xbd");
      plain = i + 1;
    }
    i += n ? n : 1;
  }
  ctxp_buf_add(scratch, text.ptr + plain, text.len - plain);
  return ctxp_buf_view(scratch);
}

static int make_clean(struct ctxp_json *json) {
  json->text = ctxp_utf8_clean(json->text, &json->clean);
  return ctxp_buf_error(&json->clean);
}

static int find_tokens(struct ctxp_json *json, struct ctxp_error *err) {
  switch (ctxp_json_index_text(json->index, json->text, &json->at, &json->count)) {
  case CTXP_JSON_INDEXED: return 0;
  case CTXP_JSON_EMPTY: return ctxp_error_set(err, -EBADMSG, "the JSON text is empty");
  case CTXP_JSON_OPEN_TEXT: return ctxp_error_set(err, -EBADMSG, "the JSON text ends within a string");
  case CTXP_JSON_CONTROL: return ctxp_error_set(err, -EBADMSG, "a string of the JSON text holds a control character that is not escaped");
  case CTXP_JSON_NOT_UTF8: return 1;
  case CTXP_JSON_NO_MEMORY: break;
  }
  return ctxp_error_set(err, -ENOMEM, "out of memory while reading JSON");
}

int ctxp_json_load(struct ctxp_json *json, struct ctxp_str text, struct ctxp_error *err) {
  drop_texts(json, false);
  json->text = text;
  json->failed = false;
  json->count = 0;
  if (text.len >= UINT32_MAX - 64) return ctxp_error_set(err, -EMSGSIZE, "a JSON text of %zu bytes is too long", text.len);
  if (text.len == 0) return ctxp_error_set(err, -EBADMSG, "the JSON text is empty");
  if (!json->index && !(json->index = ctxp_json_index_new())) return ctxp_error_set(err, -ENOMEM, "out of memory while reading JSON");
  int r = find_tokens(json, err);
  if (r > 0) r = make_clean(json) < 0 ? ctxp_error_set(err, -ENOMEM, "out of memory while reading JSON") : find_tokens(json, err);
  if (r != 0) return json->count = 0, r > 0 ? -EBADMSG : r;
  if (json->count > json->after_cap) {
    uint32_t *grown = realloc(json->after, sizeof(*grown) * ((size_t)json->count + json->count / 2));
    if (!grown) return json->count = 0, ctxp_error_set(err, -ENOMEM, "out of memory while reading JSON");
    json->after = grown;
    json->after_cap = json->count + json->count / 2;
  }
  r = check_grammar(json, err);
  if (r < 0) json->count = 0;
  return r;
}

/* ---- walking ---- */
static bool opens(const struct ctxp_json *json, uint32_t value, char bracket) {
  return value < json->count && byte_at(json, value) == bracket;
}

static uint32_t token_after(const struct ctxp_json *json, uint32_t value) {
  char c = byte_at(json, value);
  return c == '{' || c == '[' ? json->after[value] : value + 1;
}

enum ctxp_json_type ctxp_json_type(const struct ctxp_json *json, uint32_t value) {
  if (value >= json->count) return CTXP_JSON_ABSENT;
  switch (byte_at(json, value)) {
  case '"': return CTXP_JSON_STRING;
  case '{': return CTXP_JSON_OBJECT;
  case '[': return CTXP_JSON_ARRAY;
  case 'n': return CTXP_JSON_NULL;
  case 't':
  case 'f': return CTXP_JSON_BOOL;
  default: return CTXP_JSON_NUMBER;
  }
}

struct ctxp_str ctxp_json_source(const struct ctxp_json *json, uint32_t value) {
  if (value >= json->count) return (struct ctxp_str){0};
  uint32_t from = json->at[value], end = json->at[token_after(json, value)];
  while (json->text.ptr[end - 1] == ' ' || json->text.ptr[end - 1] == '\n' || json->text.ptr[end - 1] == '\t' ||
      json->text.ptr[end - 1] == '\r')
    end--;
  return (struct ctxp_str){json->text.ptr + from, end - from};
}

struct ctxp_str ctxp_json_escaped(const struct ctxp_json *json, uint32_t string) {
  if (!opens(json, string, '"')) return (struct ctxp_str){0};
  struct ctxp_str source = ctxp_json_source(json, string);
  return (struct ctxp_str){source.ptr + 1, source.len - 2};
}

/* the key's text as it stands; keys with escapes are rare, and unescaped */
static struct ctxp_str key_text(struct ctxp_json *json, uint32_t key) {
  const char *at = json->text.ptr + json->at[key] + 1;
  size_t len = json->at[key + 1] - json->at[key] - 1; /* up to the colon */
  while (at[len - 1] != '"') len--;
  len--;
  return memchr(at, '\\', len) ? ctxp_json_text(json, key) : (struct ctxp_str){at, len};
}

/* the next key of the object in which *key is one, or the first if it is the object itself; false at the end */
static bool next_key(const struct ctxp_json *json, uint32_t object, uint32_t *key) {
  uint32_t i = *key == object ? object : token_after(json, *key + 2);
  if (*key == object ? byte_at(json, i + 1) == '}' : byte_at(json, i) == '}') return false;
  *key = i + 1;
  return true;
}

void ctxp_json_pick(struct ctxp_json *json, uint32_t object, const struct ctxp_str *keys, unsigned count, uint32_t *ret_values) {
  for (unsigned k = 0; k < count; k++) ret_values[k] = CTXP_JSON_NONE;
  if (!opens(json, object, '{')) return;
  for (uint32_t key = object; next_key(json, object, &key);) {
    struct ctxp_str text = key_text(json, key);
    for (unsigned k = 0; k < count; k++) {
      if (keys[k].len != text.len || (text.len && (keys[k].ptr[0] != text.ptr[0] || memcmp(keys[k].ptr, text.ptr, text.len) != 0)))
        continue;
      ret_values[k] = key + 2;
      break;
    }
  }
}

uint32_t ctxp_json_get(struct ctxp_json *json, uint32_t object, const char *key) {
  struct ctxp_str name = ctxp_str(key);
  uint32_t value;
  ctxp_json_pick(json, object, &name, 1, &value);
  return value;
}

bool ctxp_json_each(const struct ctxp_json *json, uint32_t array, uint32_t *it) {
  if (!opens(json, array, '[')) return false;
  if (*it == array) return byte_at(json, array + 1) != ']' ? *it = array + 1, true : false;
  uint32_t i = token_after(json, *it);
  return byte_at(json, i) == ',' ? *it = i + 1, true : false;
}

bool ctxp_json_member(struct ctxp_json *json, uint32_t object, uint32_t *it, struct ctxp_str *ret_key) {
  if (!opens(json, object, '{')) return false;
  uint32_t key = *it == object ? object : *it - 2;
  if (!next_key(json, object, &key)) return false;
  *ret_key = ctxp_json_text(json, key);
  *it = key + 2;
  return true;
}

uint32_t ctxp_json_size(const struct ctxp_json *json, uint32_t container) {
  uint32_t count = 0;
  if (opens(json, container, '{'))
    for (uint32_t key = container; next_key(json, container, &key);) count++;
  for (uint32_t it = container; ctxp_json_each(json, container, &it);) count++;
  return count;
}

/* ---- texts ---- */
static int hex4(const char *p) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    char c = p[i];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
        c >= 'A' && c <= 'F'                                          ? c - 'A' + 10 :
                                                                        -1;
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

static char *put_utf8(char *out, uint32_t c) {
  if (c < 0x80) return *out++ = (char)c, out;
  if (c < 0x800) return *out++ = (char)(0xc0 | c >> 6), *out++ = (char)(0x80 | (c & 0x3f)), out;
  if (c < 0x10000) {
    *out++ = (char)(0xe0 | c >> 12);
  } else {
    *out++ = (char)(0xf0 | c >> 18);
    *out++ = (char)(0x80 | (c >> 12 & 0x3f));
  }
  return *out++ = (char)(0x80 | (c >> 6 & 0x3f)), *out++ = (char)(0x80 | (c & 0x3f)), out;
}

/* One escape, in[0] being its backslash: its code point and its length; a lone surrogate as its number. 0: malformed. */
static unsigned read_escape(const char *in, size_t len, uint32_t *ret) {
  static const char plain[256] = {
      ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'};
  if (len < 2) return 0;
  if (in[1] != 'u') return (*ret = (unsigned char)plain[(unsigned char)in[1]]) ? 2 : 0;
  int high = len < 6 ? -1 : hex4(in + 2);
  if (high < 0) return 0;
  *ret = (uint32_t)high;
  if (high < 0xd800 || high > 0xdbff || len < 12 || in[6] != '\\' || in[7] != 'u') return 6;
  int low = hex4(in + 8);
  if (low < 0xdc00 || low > 0xdfff) return 6;
  *ret = 0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
  return 12;
}

static bool surrogate(uint32_t c) { return c >= 0xd800 && c <= 0xdfff; }

/* out has room for in.len bytes: no escape is shorter than what it stands for */
static size_t unescape(struct ctxp_str in, char *out, bool *ok) {
  char *start = out;
  for (size_t i = 0; i < in.len;) {
    const char *hit = memchr(in.ptr + i, '\\', in.len - i);
    size_t run = hit ? (size_t)(hit - in.ptr) - i : in.len - i;
    memcpy(out, in.ptr + i, run);
    out += run;
    i += run;
    if (!hit) break;
    uint32_t c;
    unsigned n = read_escape(hit, in.len - i, &c);
    if (n) {
      out = put_utf8(out, surrogate(c) ? 0xfffd : c);
    } else { /* the backslash goes, what follows stays */
      *ok = false;
      n = 1;
    }
    i += n;
  }
  return (size_t)(out - start);
}

bool ctxp_json_unescape(struct ctxp_str escaped, struct ctxp_buf *out) {
  bool ok = true;
  char *room = (char *)ctxp_buf_room(out, escaped.len);
  if (room && escaped.len) out->len += unescape(escaped, room, &ok);
  return ok;
}

struct ctxp_str ctxp_json_text(struct ctxp_json *json, uint32_t string) {
  struct ctxp_str escaped = ctxp_json_escaped(json, string);
  if (escaped.len == 0 || !memchr(escaped.ptr, '\\', escaped.len)) return escaped;
  struct ctxp_json_texts *block = json->texts;
  if (!block || block->cap - block->len < escaped.len) {
    size_t cap = escaped.len < 65536 ? 65536 : escaped.len;
    block = malloc(sizeof(*block) + cap);
    if (!block) return json->failed = true, (struct ctxp_str){0};
    *block = (struct ctxp_json_texts){.next = json->texts, .cap = cap};
    json->texts = block;
  }
  bool ok = true;
  char *at = block->bytes + block->len;
  size_t len = unescape(escaped, at, &ok);
  block->len += len;
  return (struct ctxp_str){at, len};
}

bool ctxp_json_is(struct ctxp_json *json, uint32_t string, const char *text) {
  return opens(json, string, '"') && ctxp_str_is(ctxp_json_text(json, string), text);
}

/* UTF-16 units of what is known to be UTF-8: each character one, those of four bytes two */
static size_t valid_units(struct ctxp_str s) {
  const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
  size_t units = 0, i = 0;
  for (uint64_t w; i + 8 <= s.len; i += 8) {
    memcpy(&w, s.ptr + i, 8);
    units += 8;
    if (!(w & highs)) continue;
    units -= (size_t)((w >> 7 & ~(w >> 6) & ones) * ones >> 56); /* the bytes that are one, added up */
    units += (size_t)((w >> 7 & w >> 6 & w >> 5 & w >> 4 & ones) * ones >> 56);
  }
  for (; i < s.len; i++) {
    unsigned char c = (unsigned char)s.ptr[i];
    units += ((c & 0xc0) != 0x80) + (c >= 0xf0);
  }
  return units;
}

size_t ctxp_json_units(const struct ctxp_json *json, uint32_t string) {
  struct ctxp_str in = ctxp_json_escaped(json, string);
  if (in.len == 0) return 0;
  size_t units = valid_units(in);
  const char *end = in.ptr + in.len;
  for (const char *p = in.ptr; p < end && (p = memchr(p, '\\', (size_t)(end - p)));) {
    uint32_t c;
    unsigned n = read_escape(p, (size_t)(end - p), &c);
    units -= n ? n - (n == 12 ? 2 : 1) : 1;
    p += n ? n : 1;
  }
  return units;
}

uint64_t ctxp_json_u64(const struct ctxp_json *json, uint32_t number, uint64_t missing) {
  if (ctxp_json_type(json, number) != CTXP_JSON_NUMBER) return missing;
  struct ctxp_number n = ctxp_number_read(ctxp_json_source(json, number));
  return n.type == CTXP_NUMBER_U64 ? n.u : missing;
}

bool ctxp_json_bool(const struct ctxp_json *json, uint32_t value, bool missing) {
  return ctxp_json_type(json, value) == CTXP_JSON_BOOL ? byte_at(json, value) == 't' : missing;
}
