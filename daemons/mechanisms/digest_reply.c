#include "mechanisms/digest_reply.h"
#include "mechanisms/digest.h"
#include <errno.h>

enum { LOOKED_UP_MAX = 64 }; /* lines of a reply that are looked for in the source; verdicts beyond them go unseen */

/* words by which a line calls something a success */
static const char *const verdicts[] = {"pass", "passed", "passes", "passing", "success", "successes", "successful", "successfully",
    "succeeded", "succeeds", "ok", "okay", "fine", "green", "no error", "no errors", "no failure", "no failures", "no issues",
    "no problems", "no warnings", "0 errors", "0 failed", "0 failures", "zero errors", "zero failures", "without error", "without errors",
    "without failures", "without issues", "all good", "completed", "worked", "works", "\xe2\x9c\x93", "\xe2\x9c\x94", "\xe2\x9c\x85"};

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }
static bool is_word(char c) { return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

static bool stands_at(struct ctxp_str line, size_t at, const char *text) {
  size_t len = strlen(text);
  if (at + len > line.len) return false;
  for (size_t i = 0; i < len; i++)
    if (lower(line.ptr[at + i]) != text[i]) return false;
  return (at == 0 || !is_word(line.ptr[at - 1]) || !is_word(text[0])) && (at + len == line.len || !is_word(line.ptr[at + len]));
}

static bool is_verdict(struct ctxp_str line) {
  for (size_t at = 0; at < line.len; at++)
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
      if (stands_at(line, at, verdicts[i])) return true;
  return false;
}

/* a whole line of the source, but for the blanks around it */
static bool quotes(struct ctxp_str source, struct ctxp_str line) {
  for (size_t at = 0; (at = ctxp_str_find(source, line, at)) != SIZE_MAX; at++) {
    size_t from = at, to = at + line.len;
    while (from && (source.ptr[from - 1] == ' ' || source.ptr[from - 1] == '\t')) from--;
    while (to < source.len && (source.ptr[to] == ' ' || source.ptr[to] == '\t' || source.ptr[to] == '\r')) to++;
    if ((from == 0 || source.ptr[from - 1] == '\n') && (to == source.len || source.ptr[to] == '\n')) return true;
  }
  return false;
}

static struct ctxp_str without_bullet(struct ctxp_str line) {
  line = ctxp_js_trim(line);
  if (ctxp_str_starts(line, "- ") || ctxp_str_starts(line, "* ")) line = (struct ctxp_str){line.ptr + 2, line.len - 2};
  return ctxp_js_trim(line);
}

/* the reply without the lines that are a verdict of its own */
static void add_reply(struct ctxp_str source, struct ctxp_str reply, struct ctxp_buf *out) {
  unsigned looked_up = 0;
  for (size_t at = 0; at < reply.len;) {
    const char *end = memchr(reply.ptr + at, '\n', reply.len - at);
    size_t len = end ? (size_t)(end - reply.ptr) - at : reply.len - at;
    struct ctxp_str line = {reply.ptr + at, len};
    bool keep = !is_verdict(line) || (looked_up++ < LOOKED_UP_MAX && quotes(source, without_bullet(line)));
    if (keep) ctxp_buf_add(out, reply.ptr + at, len + (end != NULL));
    at += len + 1;
  }
  while (out->len && (out->ptr[out->len - 1] == '\n' || out->ptr[out->len - 1] == ' ')) out->len--;
}

int ctxp_digest_reply(struct ctxp_str source, struct ctxp_str reply, struct ctxp_str exit_note, size_t hard, struct ctxp_buf *out) {
  ctxp_auto_buf said = {0}, must = {0}, head = {0};
  struct ctxp_digest made;
  add_reply(source, reply, &said);
  ctxp_buf_printf(&head, "[ctxpipe: lines of the output, as they were%.*s]", (int)exit_note.len, exit_note.ptr);
  if (said.failed || head.failed) return -ENOMEM;
  int r = ctxp_digest_make(source, ctxp_buf_view(&head), (struct ctxp_digest_limits){0, hard, hard}, &must, &made);
  if (r < 0) return r;
  bool none = made.first_must == SIZE_MAX;
  if (!none && r == 1) return 2;
  if (none && ctxp_str_blank(ctxp_buf_view(&said))) return 1;
  ctxp_buf_add(out, said.ptr, said.len);
  if (said.len && (!none || exit_note.len)) ctxp_buf_char(out, '\n');
  if (!none)
    ctxp_buf_add(out, must.ptr, must.len);
  else if (exit_note.len)
    ctxp_buf_printf(out, "[ctxpipe: %.*s]", (int)(exit_note.len - 2), exit_note.ptr + 2);
  return ctxp_buf_error(out);
}
