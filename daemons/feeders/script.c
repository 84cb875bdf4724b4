#include "feeders/script.h"
#include "base/str.h"

#define WORDS_MAX 16

/* A part of the script as words; quotes are taken off, and their places written over in the words' own buffer. */
struct words {
  struct ctxp_buf text;
  struct {
    size_t at, len;
  } items[WORDS_MAX];
  unsigned count;
  bool strange; /* something that is more than words */
};

static struct ctxp_str word(const struct words *w, unsigned i) {
  if (!w->items[i].len) return (struct ctxp_str){"", 0};
  return (struct ctxp_str){(const char *)w->text.ptr + w->items[i].at, w->items[i].len};
}

static bool any_of(struct ctxp_str name, const char *const *names) {
  for (; *names; names++)
    if (ctxp_str_is(name, *names)) return true;
  return false;
}

static size_t quoted(struct words *w, const char *at, size_t left) {
  char quote = at[0];
  for (size_t n = 1; n < left; n++) {
    if (at[n] == quote) return n + 1;
    if (quote == '"' && (at[n] == '$' || at[n] == '`')) w->strange = true;
    if (quote == '"' && at[n] == '\\' && n + 1 < left) n++;
    ctxp_buf_char(&w->text, at[n]);
  }
  w->strange = true;
  return left;
}

/* one word from `at` on; returns how many bytes it took */
static size_t read_word(struct words *w, const char *at, size_t left) {
  size_t n = 0, from = w->text.len;
  while (n < left && at[n] != ' ' && at[n] != '\t') {
    if (at[n] == '\'' || at[n] == '"') {
      n += quoted(w, at + n, left - n);
      continue;
    }
    if (at[n] == '>' || at[n] == '<' || at[n] == '$' || at[n] == '`' || at[n] == '(' || at[n] == ')' || at[n] == '&' || at[n] == '*')
      w->strange = true;
    ctxp_buf_char(&w->text, at[n++]);
  }
  if (w->count == WORDS_MAX)
    w->strange = true;
  else
    w->items[w->count].at = from, w->items[w->count++].len = w->text.len - from;
  return n;
}

static void split_words(struct words *w, struct ctxp_str part) {
  ctxp_buf_reset(&w->text);
  w->count = 0;
  w->strange = false;
  for (size_t i = 0; i < part.len;) {
    if (part.ptr[i] == ' ' || part.ptr[i] == '\t')
      i++;
    else
      i += read_word(w, part.ptr + i, part.len - i);
  }
  if (w->text.failed) w->strange = true;
}

/* 1: the words print one file, *ret_file; 0: they print what they are given; <0: they do something else */
static int reads(const struct words *w, struct ctxp_str *ret_file) {
  static const char *const readers[] = {"cat", "head", "tail", "nl", "less", "sed", "Get-Content", NULL};
  unsigned files = 0;
  if (w->strange || w->count == 0 || !any_of(word(w, 0), readers)) return -1;
  bool sed = ctxp_str_is(word(w, 0), "sed"), script_seen = false;
  if (sed && (w->count < 3 || !ctxp_str_is(word(w, 1), "-n"))) return -1;
  for (unsigned i = 1; i < w->count; i++) {
    struct ctxp_str at = word(w, i);
    bool takes_number = ctxp_str_is(at, "-n") || ctxp_str_is(at, "-c") || ctxp_str_is(at, "-TotalCount") || ctxp_str_is(at, "-Tail");
    if (sed && !script_seen && i >= 2) {
      if (at.len < 2 || at.ptr[at.len - 1] != 'p') return -1;
      script_seen = true;
    } else if (takes_number && !sed) {
      i++;
    } else if (at.len && at.ptr[0] != '-') {
      *ret_file = at;
      files++;
    }
  }
  return files == 1 ? 1 : files ? -1 :
                                  0;
}

/* what stands behind a pipe may only shorten or number */
static bool only_filters(struct words *w) {
  static const char *const filters[] = {"head", "tail", "sed", "nl", "cat", "wc", NULL};
  return !w->strange && w->count && any_of(word(w, 0), filters);
}

/* One command with its pipe. 1: it reads *ret_file; 0: it reads nothing (cd); <0: it does something else. */
static int pipeline(struct words *w, struct ctxp_str command, struct ctxp_buf *ret_file) {
  struct ctxp_str file = {0};
  bool first = true;
  int r = -1;
  for (size_t at = 0; at <= command.len;) {
    size_t end = at;
    char quote = 0;
    for (; end < command.len && (quote || command.ptr[end] != '|'); end++)
      if (quote ? command.ptr[end] == quote : command.ptr[end] == '\'' || command.ptr[end] == '"') quote = quote ? 0 : command.ptr[end];
    split_words(w, (struct ctxp_str){command.ptr + at, end - at});
    if (first && w->count == 0) return 0;
    if (first && end == command.len && w->count <= 2 && ctxp_str_is(word(w, 0), "cd")) return w->strange ? -1 : 0;
    if (first) {
      r = reads(w, &file);
      if (r <= 0) return -1;
      ctxp_buf_reset(ret_file);
      ctxp_buf_add(ret_file, file.ptr, file.len);
    } else if (!only_filters(w)) {
      return -1;
    }
    first = false;
    at = end + 1;
  }
  return ret_file->failed ? -1 : r;
}

struct ctxp_str ctxp_script_reads(struct ctxp_str script, struct ctxp_buf *scratch) {
  struct words w = {0};
  ctxp_auto_buf file = {0};
  bool good = true;
  unsigned files = 0;
  ctxp_buf_reset(scratch);
  for (size_t at = 0; good && at < script.len;) {
    size_t end = at;
    char quote = 0;
    for (; end < script.len; end++) {
      char c = script.ptr[end];
      if (quote ? c == quote : c == '\'' || c == '"')
        quote = quote ? 0 : c;
      else if (!quote && (c == ';' || c == '\n' || (end + 1 < script.len && (c == '&' || c == '|') && script.ptr[end + 1] == c)))
        break;
    }
    int r = pipeline(&w, (struct ctxp_str){script.ptr + at, end - at}, &file);
    good = r >= 0 && (r == 0 || files == 0 || ctxp_str_eq(ctxp_buf_view(&file), ctxp_buf_view(scratch)));
    if (r > 0 && files++ == 0) ctxp_buf_add(scratch, file.ptr, file.len);
    at =
        end + (end + 1 < script.len && script.ptr[end] == script.ptr[end + 1] && script.ptr[end] != '\n' && script.ptr[end] != ';' ? 2 : 1);
  }
  ctxp_buf_deinit(&w.text);
  if (!good || scratch->failed) ctxp_buf_reset(scratch);
  return ctxp_buf_view(scratch);
}
