/* What of an opencode session is looked at, in one form: without blanks, in one order, and without what opencode changes later (titles,
 * summaries of changes, marks of pruning). So the same session gives the same text whether it was exported, stood in the database or in
 * files, and a session that goes on only grows. */
#include "base/str.h"
#include "feeders/opencode.h"
#include "feeders/opencode_store.h"

#define S(literal) \
  { literal, sizeof(literal) - 1 }

/* `"key":value` of each that is there; returns how many stand in the object now */
static unsigned put_members(struct ctxp_json *json, uint32_t object, const struct ctxp_str *keys, unsigned count, struct ctxp_buf *out) {
  uint32_t at[8];
  unsigned n = 0;
  ctxp_json_pick(json, object, keys, count, at);
  for (unsigned i = 0; i < count; i++) {
    if (at[i] == CTXP_JSON_NONE) continue;
    ctxp_buf_printf(out, "%s\"%s\":", n++ ? "," : "", keys[i].ptr);
    opencode_compact(ctxp_json_source(json, at[i]), out);
  }
  return n;
}
#define PUT(json, object, keys, out) put_members(json, object, keys, sizeof(keys) / sizeof((keys)[0]), out)

static void put_info(struct ctxp_json *json, uint32_t info, struct ctxp_buf *out) {
  static const struct ctxp_str keys[] = {S("id"), S("role"), S("modelID"), S("cost"), S("tokens")},
                               times[] = {S("created")};
  ctxp_buf_char(out, '{');
  if (PUT(json, info, keys, out)) ctxp_buf_char(out, ',');
  if (ctxp_json_bool(json, ctxp_json_get(json, info, "summary"), false)) ctxp_buf_str(out, "\"summary\":true,");
  ctxp_buf_str(out, "\"time\":{");
  PUT(json, ctxp_json_get(json, info, "time"), times, out);
  ctxp_buf_str(out, "}}");
}

static void put_tool(struct ctxp_json *json, uint32_t part, struct ctxp_buf *out) {
  static const struct ctxp_str keys[] = {S("type"), S("tool"), S("callID")},
                               states[] = {S("status"), S("input"), S("output"), S("error")},
                               facts[] = {S("exit"), S("sessionId")};
  uint32_t state = ctxp_json_get(json, part, "state");
  ctxp_buf_char(out, '{');
  if (PUT(json, part, keys, out)) ctxp_buf_char(out, ',');
  ctxp_buf_str(out, "\"state\":{");
  if (PUT(json, state, states, out)) ctxp_buf_char(out, ',');
  ctxp_buf_str(out, "\"metadata\":{");
  PUT(json, ctxp_json_get(json, state, "metadata"), facts, out);
  ctxp_buf_str(out, "}}}");
}

/* Is the part sent to the model? A file that is text was made text already, in a part of its own. */
static bool is_sent(struct ctxp_json *json, uint32_t part, struct ctxp_str type) {
  struct ctxp_str mime = ctxp_json_text(json, ctxp_json_get(json, part, "mime"));
  if (ctxp_str_starts(type, "step-") || ctxp_json_bool(json, ctxp_json_get(json, part, "ignored"), false)) return false;
  return !ctxp_str_is(type, "file") || !(ctxp_str_is(mime, "text/plain") || ctxp_str_is(mime, "application/x-directory"));
}

static void put_message(struct ctxp_json *json, uint32_t message, struct ctxp_buf *out) {
  static const struct ctxp_str keys[] = {S("type"), S("text")};
  uint32_t parts = ctxp_json_get(json, message, "parts");
  unsigned n = 0;
  ctxp_buf_str(out, "{\"info\":");
  put_info(json, ctxp_json_get(json, message, "info"), out);
  ctxp_buf_str(out, ",\"parts\":[");
  for (uint32_t it = parts; ctxp_json_each(json, parts, &it);) {
    struct ctxp_str type = ctxp_json_text(json, ctxp_json_get(json, it, "type"));
    if (!is_sent(json, it, type)) continue;
    if (n++) ctxp_buf_char(out, ',');
    if (ctxp_str_is(type, "tool")) {
      put_tool(json, it, out);
      continue;
    }
    ctxp_buf_char(out, '{');
    PUT(json, it, keys, out);
    ctxp_buf_char(out, '}');
  }
  ctxp_buf_str(out, "]}");
}

static bool is_reply(struct ctxp_json *json, uint32_t message, bool *ret_finished) {
  uint32_t info = ctxp_json_get(json, message, "info");
  bool error = ctxp_json_type(json, ctxp_json_get(json, info, "error")) == CTXP_JSON_OBJECT;
  *ret_finished = error || ctxp_json_get(json, ctxp_json_get(json, info, "time"), "completed") != CTXP_JSON_NONE;
  return ctxp_json_is(json, ctxp_json_get(json, info, "role"), "assistant");
}

/* how many of the messages will not change any more, where the session goes on */
static uint32_t settled(struct ctxp_json *json, uint32_t messages) {
  uint32_t count = 0, n = 0;
  bool finished;
  for (uint32_t it = messages; ctxp_json_each(json, messages, &it); n++)
    if (is_reply(json, it, &finished)) count = finished ? n + 1 : n;
  return count;
}

void opencode_project(struct ctxp_json *json, bool live, struct ctxp_buf *out) {
  static const struct ctxp_str keys[] = {S("id"), S("directory"), S("parentID")};
  uint32_t messages = ctxp_json_get(json, 0, "messages"), count = live ? settled(json, messages) : UINT32_MAX, n = 0;
  ctxp_buf_reset(out);
  ctxp_buf_str(out, "{\"info\":{");
  PUT(json, ctxp_json_get(json, 0, "info"), keys, out);
  ctxp_buf_str(out, "},\"messages\":[");
  for (uint32_t it = messages; n < count && ctxp_json_each(json, messages, &it); n++) {
    if (n) ctxp_buf_char(out, ',');
    put_message(json, it, out);
  }
  ctxp_buf_str(out, "]}");
}
