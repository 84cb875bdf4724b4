/* Judging: a result when it comes, and the older ones that it supersedes. */
#include <errno.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "codec/tools.h"
#include "mechanisms/amnesia.h"
#include "mechanisms/paths.h"
#include "tokens/estimate.h"

static struct ctxp_str call_of(const struct ctxp_result *r) { return (struct ctxp_str){r->call, r->call_len}; }

static int tag(struct ctxp_stage *stage, const struct ctxp_result *result, const char *decision) {
  struct ctxp_event out = {.kind = CTXP_KIND_amnesia_tag};
  out.amnesia_tag = (struct ctxp_amnesia_tag){
      .toolCallId = call_of(result), .tool = ctxp_str(result->tool), .decision = ctxp_str(decision), .tokens = result->tokens};
  ctxp_set_verdict(&out.amnesia_tag, amnesia_tag, result->asked, NULL);
  return ctxp_stage_emit(stage, &out);
}

static bool same_path(const struct ctxp_result *a, const struct ctxp_result *b) {
  return a->path_len && a->path_len == b->path_len && memcmp(a->path, b->path, a->path_len) == 0;
}

/* Does the new read show what the old one showed? */
static bool covers(const struct ctxp_result *new, const struct ctxp_result *old) {
  if (!new->read || !old->read || !same_path(new, old)) return false;
  if (new->odd || old->odd) return new->input == old->input;
  if (new->whole && old->whole) return true;
  return new->start <= old->start &&new->start + new->lines >= old->start + old->lines;
}

static bool same_text(const struct ctxp_result *a, const struct ctxp_result *b) {
  return a->text.hi == b->text.hi && a->text.lo == b->text.lo && a->tokens == b->tokens;
}

static int supersede(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_result *by, bool written) {
  for (struct ctxp_result *old = window->results; old; old = old->hh.next) {
    bool gone = written ? old->read && same_path(by, old) : covers(by, old) || (by->tokens && same_text(by, old));
    if (!gone || old->candidate || old->removed || ctxp_str_eq(call_of(old), call_of(by))) continue;
    old->candidate = window->base.changed = true;
    int r = tag(stage, old, "DROP");
    if (r < 0) return r;
  }
  return 0;
}

/* The bytes of a removed result come in again, and the window does not hold them: removing it was no saving. */
static int read_again(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_result *new) {
  struct ctxp_result *removed = NULL;
  for (struct ctxp_result *old = window->results; old; old = old->hh.next) {
    if (!same_text(new, old)) continue;
    if (!old->removed) return 0;
    if (!old->regretted) removed = old;
  }
  if (!removed) return 0;
  struct ctxp_event out = {.kind = CTXP_KIND_regret};
  out.regret = (struct ctxp_regret){
      .mechanism = CTXP_STR("amnesia"), .toolCallId = call_of(removed), .tokens = removed->tokens, .reason = CTXP_STR("read again")};
  removed->regretted = window->base.changed = true;
  return ctxp_stage_emit(stage, &out);
}

/* which lines of the file a read shows; arguments that are not known make it `odd` */
static void describe_read(struct ctxp_result *result, const struct ctxp_tool_result *ev) {
  struct ctxp_cursor it = ctxp_cursor(ev->input);
  struct ctxp_str key;
  struct ctxp_raw value;
  uint32_t left;
  result->read = true;
  result->lines = ctxp_str_lines(ev->text);
  result->start = ctxp_map_u64(ev->input, "offset", 1);
  result->whole = true;
  if (ctxp_map_open(&it, &left) < 0) return;
  while (left && ctxp_map_next(&it, &left, &key, &value) >= 0) {
    bool range = ctxp_str_is(key, "offset") || ctxp_str_is(key, "limit");
    if (range) result->whole = false;
    if (!range && !ctxp_str_is(key, "path")) result->odd = true;
  }
}

static int describe(const struct ctxp_amnesia *window, const struct ctxp_event *ev, enum ctxp_tool_class class, struct ctxp_buf *texts,
    struct ctxp_result *ret) {
  const struct ctxp_tool_result *result = &ev->tool_result;
  struct ctxp_str path = ctxp_map_str(result->input, "path");
  size_t call, tool;
  ctxp_buf_add(texts, result->toolCallId.ptr, result->toolCallId.len);
  ctxp_buf_char(texts, 0);
  call = texts->len;
  ctxp_buf_add(texts, result->tool.ptr, result->tool.len);
  ctxp_buf_char(texts, 0);
  tool = texts->len;
  if (path.len) ctxp_path_normalise(ctxp_str(window->cwd), path, texts);
  size_t path_len = texts->len - tool;
  ctxp_buf_char(texts, 0);
  if (texts->failed) return -ENOMEM;
  char *at = (char *)texts->ptr;
  *ret = (struct ctxp_result){.call = at,
      .call_len = result->toolCallId.len,
      .tool = at + call,
      .path = at + tool,
      .path_len = path_len,
      .text = ctxp_hash128(result->text.ptr, result->text.len),
      .input = ctxp_hash64(result->input.ptr, result->input.len, 0),
      .tokens = ctxp_estimate_text(result->text),
      .asked = result->ask};
  if (class == CTXP_TOOL_READ) describe_read(ret, result);
  return 0;
}

int ctxp_amnesia_judge(struct ctxp_stage *stage, struct ctxp_amnesia *window, const struct ctxp_event *ev) {
  const struct ctxp_amnesia_options *options = ctxp_stage_options(stage);
  const struct ctxp_tool_result *result = &ev->tool_result;
  enum ctxp_tool_class class = ctxp_tool_class(result->tool, result->skillLoad);
  bool write = class == CTXP_TOOL_WRITE;
  ctxp_auto_buf texts = {0};
  struct ctxp_result new;
  if (result->isError || (!write && ctxp_str_blank(result->text))) return 0;
  if (write && ctxp_raw_type(ctxp_map_get(result->input, "content")) != CTXP_PACK_STR) return 0;
  int r = describe(window, ev, class, &texts, &new);
  if (r < 0) return r;
  if (write) return supersede(stage, window, &new, true);
  bool skill = class == CTXP_TOOL_SKILL, eligible = skill || new.tokens >= options->min_tokens;
  if (eligible && (r = read_again(stage, window, &new)) < 0) return r;
  if (eligible && !skill && (r = tag(stage, &new, "RETAIN")) < 0) return r;
  if ((r = supersede(stage, window, &new, false)) < 0 || !eligible) return r;
  new.candidate = skill;
  return ctxp_amnesia_add(window, &new);
}
