#include <errno.h>
#include <inttypes.h>
#include "mechanisms/clean.h"
#include "mechanisms/digest.h"
#include "mechanisms/digest_json.h"
#include "mechanisms/digest_reply.h"
#include "mechanisms/replacement.h"
#include "tokens/estimate.h"

enum { TAIL_LINES = 120,
  UNITS_PER_TOKEN = 4,
  LARGE = 10000 /* tokens of an output whose digest aims at a twentieth of it; a smaller one's at a tenth */ };

bool ctxp_bash_as_seed(const struct ctxp_bash_options *options) {
  return options->engine.kind == CTXP_ENGINE_AUX && options->errors == CTXP_ERRORS_KEEP;
}

static void add_exit(const struct ctxp_tool_result *result, struct ctxp_buf *out) {
  if (ctxp_has(result, tool_result, exitCode))
    ctxp_buf_printf(out, "; exit code %" PRId64, result->exitCode);
  else if (result->isError)
    ctxp_buf_str(out, "; the command failed, its exit code was not reported");
}

static int fall_back(const struct ctxp_tool_result *result, struct ctxp_str text, const struct ctxp_bash_options *options,
    size_t first_must, struct ctxp_replacement *new) {
  struct ctxp_tail tail = ctxp_output_tail(text, TAIL_LINES, options->fallback_bytes);
  if (first_must < (size_t)(tail.content.ptr - text.ptr)) {
    new->why = "its error lines do not fit into a digest";
    return 0;
  }
  new->fallback = true;
  ctxp_buf_reset(&new->text);
  ctxp_buf_add(&new->text, tail.content.ptr, tail.content.len);
  ctxp_buf_printf(&new->text, "\n[ctxpipe: the last %" PRIu64 " of %" PRIu64 " lines, %zu of %zu bytes", tail.lines, tail.total_lines,
      tail.content.len, text.len);
  add_exit(result, &new->text);
  ctxp_buf_char(&new->text, ']');
  return ctxp_buf_error(&new->text);
}

/* What a digest aims at, as shares of the output; error lines may take more before same-shaped ones are folded. */
static struct ctxp_digest_limits limits_of(uint64_t tokens, const struct ctxp_bash_options *options) {
  size_t units = (size_t)tokens * UNITS_PER_TOKEN, hard = (size_t)options->max_summary_tokens * UNITS_PER_TOKEN;
  size_t soft = units / (tokens > LARGE ? 20 : 10), firm = units / (tokens > LARGE ? 20 : 5);
  return (struct ctxp_digest_limits){soft < hard ? soft : hard, firm < hard ? firm : hard, hard};
}

/* what is digested: the text, or its JSON laid out; and the digest's first line */
static int lay_out(const struct ctxp_tool_result *result, struct ctxp_str text, struct ctxp_buf *room, struct ctxp_buf *head,
    struct ctxp_str *ret_text) {
  uint64_t lines = ctxp_str_lines(text);
  int r = ctxp_digest_json(text, room);
  if (r < 0) return r;
  *ret_text = r == 1 ? text : ctxp_buf_view(room);
  ctxp_buf_printf(head, "[ctxpipe: digest of %" PRIu64 " line%s", lines, lines == 1 ? "" : "s");
  if (r == 0) ctxp_buf_printf(head, " of JSON, laid out on %" PRIu64, ctxp_str_lines(*ret_text));
  add_exit(result, head);
  ctxp_buf_char(head, ']');
  return ctxp_buf_error(head);
}

static int digest(const struct ctxp_tool_result *result, struct ctxp_str text, const struct ctxp_bash_options *options,
    struct ctxp_replacement *new, size_t *ret_first_must) {
  ctxp_auto_buf head = {0}, room = {0};
  struct ctxp_digest made;
  struct ctxp_str source;
  int r = lay_out(result, text, &room, &head, &source);
  if (r < 0) return r;
  r = ctxp_digest_make(source, ctxp_buf_view(&head), limits_of(new->original_tokens, options), &new->text, &made);
  bool moved = source.ptr != text.ptr && made.first_must != SIZE_MAX; /* it stands nobody knows where in the text itself */
  *ret_first_must = moved ? 0 : made.first_must;
  return r == 1 ? fall_back(result, text, options, *ret_first_must, new) : r;
}

/* The seed's note, to the letter, where its options are asked for; else what is really shown. */
static void add_tail(const struct ctxp_tool_result *result, const struct ctxp_tail *tail, size_t bytes,
    const struct ctxp_bash_options *options, struct ctxp_buf *out) {
  ctxp_buf_add(out, tail->content.ptr, tail->content.len);
  if (ctxp_bash_as_seed(options)) {
    ctxp_buf_printf(
        out, "\n[context-window-manager: summarization unavailable; showing last %" PRIu64 " bytes of output]", options->fallback_bytes);
    return;
  }
  ctxp_buf_printf(out, "\n[ctxpipe: no digest of a model; the last %" PRIu64 " of %" PRIu64 " lines, %zu of %zu bytes", tail->lines,
      tail->total_lines, tail->content.len, bytes);
  add_exit(result, out);
  ctxp_buf_char(out, ']');
}

/* the tail, or the digest by rules where the tail would lose what must survive */
static int degrade(
    const struct ctxp_tool_result *result, struct ctxp_str text, const struct ctxp_bash_options *options, struct ctxp_replacement *new) {
  struct ctxp_tail tail = ctxp_output_tail(text, TAIL_LINES, options->fallback_bytes);
  size_t shown_from = (size_t)(tail.content.ptr - text.ptr), first_must;
  ctxp_buf_reset(&new->text);
  int r = digest(result, text, options, new, &first_must);
  new->fallback = true;
  if (r < 0 || first_must < shown_from) return r;
  new->why = NULL;
  ctxp_buf_reset(&new->text);
  add_tail(result, &tail, text.len, options, &new->text);
  return ctxp_buf_error(&new->text);
}

/* what the model made of it; 1: of no use */
static int take_reply(const struct ctxp_tool_result *result, struct ctxp_str text, struct ctxp_str reply,
    const struct ctxp_bash_options *options, struct ctxp_replacement *new) {
  ctxp_auto_buf note = {0};
  size_t hard = (size_t)options->max_summary_tokens * UNITS_PER_TOKEN;
  add_exit(result, &note);
  if (note.failed) return -ENOMEM;
  int r = ctxp_digest_reply(text, reply, ctxp_buf_view(&note), hard, &new->text);
  if (r == 2) {
    new->why = "its error lines do not fit into a digest";
    return 0;
  }
  if (r == 1) new->note = CTXP_STR("the model gave nothing but a verdict");
  bool larger = ctxp_estimate_text(ctxp_buf_view(&new->text)) >= new->original_tokens;
  if (r == 0 && !larger && ctxp_utf16_units(reply) > hard) {
    new->note = CTXP_STR("the model's digest is longer than it may be");
    r = 1;
  }
  return r;
}

int ctxp_replacement_by_model(const struct ctxp_tool_result *result, struct ctxp_str text, const struct ctxp_model_reply *reply,
    const struct ctxp_bash_options *options, struct ctxp_replacement *new) {
  new->by = "aux";
  new->note = reply->why;
  int r = reply->outcome == CTXP_MODEL_OK ? take_reply(result, text, reply->text, options, new) : 1;
  return r == 1 ? degrade(result, text, options, new) : r;
}

int ctxp_replacement_by_rules(const struct ctxp_tool_result *result, struct ctxp_str text, const struct ctxp_bash_options *options,
    struct ctxp_replacement *new) {
  size_t first_must;
  new->by = "rules";
  return digest(result, text, options, new, &first_must);
}
