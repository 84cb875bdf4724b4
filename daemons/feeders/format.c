#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "codec/tools.h"
#include "feeders/format.h"
#include "tokens/facts.h"

#define DETECT_LINES 200
#define TEXT_MAX ((size_t)8 << 20) /* of one event: well below the collector's limit of an event */

static const struct ctxp_format *const formats[] = {&ctxp_format_pi, &ctxp_format_codex, &ctxp_format_gemini, &ctxp_format_gg,
    &ctxp_format_opencode, &ctxp_format_claude_code /* whose lines have the least of their own */};

const struct ctxp_format *ctxp_format_find(const char *name) {
  for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
    if (ctxp_str_is(ctxp_str(name), formats[i]->name)) return formats[i];
  return NULL;
}

/* the format that the first lines show, if it is the one that is wanted; notes nothing, as the lines are read again */
static int detect(struct ctxp_transcript *t, const struct ctxp_format *wanted) {
  struct ctxp_line line;
  for (unsigned n = 0; n < DETECT_LINES; n++) {
    int r = ctxp_lines_next(t->lines, &line);
    if (r <= 0) return r;
    r = line.text.len ? ctxp_json_load(t->json, line.text, NULL) : -EBADMSG;
    if (r == -ENOMEM) return r;
    if (r < 0) continue;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
      if ((!wanted || wanted == formats[i]) && formats[i]->detect && formats[i]->detect(t->json)) {
        t->format = formats[i];
        t->shown = true;
        return 0;
      }
    if (t->json->failed) return -ENOMEM;
  }
  return 0;
}

/* Is the file one JSON text, of this format or of any? It begins with a line that is all of it, or that opens it. The format reads its text
 * again. */
static int detect_document(struct ctxp_transcript *t, const struct ctxp_format *wanted) {
  struct ctxp_line line;
  ctxp_auto_buf text = {0};
  struct ctxp_error unused;
  int r;
  do r = ctxp_lines_next(t->lines, &line);
  while (r > 0 && !line.too_long && ctxp_str_blank(line.text));
  if (r <= 0) return r;
  if (ctxp_str_is(ctxp_js_trim(line.text), "{"))
    r = ctxp_transcript_document(t, &text, &unused);
  else
    r = ctxp_json_load(t->json, line.text, NULL);
  for (size_t i = 0; r == 0 && i < sizeof(formats) / sizeof(formats[0]); i++) {
    if ((wanted && wanted != formats[i]) || !formats[i]->detect_document || !formats[i]->detect_document(t->json)) continue;
    t->format = formats[i];
    t->document = t->shown = true;
    break;
  }
  t->lines->at = 0;
  t->lines->number = 1;
  return r == -ENOMEM || t->json->failed ? -ENOMEM : 0;
}

int ctxp_transcript_open(struct ctxp_transcript *t, const struct ctxp_format *format, struct ctxp_error *err) {
  int r = 0;
  if (t->lines->size >> CTXP_PLACE_BITS) return ctxp_error_set(err, -EFBIG, "%s: is larger than 1 TiB", t->path);
  t->format = format;
  if (!format || format->detect_document) r = detect_document(t, format);
  if (r == 0 && !t->shown) r = detect(t, format);
  if (r == 0 && t->format && !t->format->detect && !t->document)
    return ctxp_error_set(err, -EBADMSG, "%s: is no JSON text of the format %s", t->path, t->format->name);
  t->lines->at = 0;
  t->lines->number = 1;
  if (r == 0 && t->format) r = t->format->index(t, err);
  if (r == -EBADMSG || r == -EFBIG) return r; /* said by the format */
  if (r < 0 && r != -ENOMEM) return ctxp_error_set(err, r, "%s: cannot be read: %s", t->path, strerror(-r));
  return r < 0 ? ctxp_error_set(err, r, "%s: out of memory while reading it", t->path) : 0;
}

void ctxp_transcript_close(struct ctxp_transcript *t) {
  if (t->format) t->format->close(t);
  t->format = NULL;
  ctxp_buf_deinit(&t->identity);
  ctxp_places_deinit(&t->places);
  t->state = NULL;
}

static void note_bad(struct ctxp_transcript *t, const struct ctxp_line *line, const struct ctxp_error *err) {
  char why[CTXP_ERROR_MAX + 64];
  if (line->torn)
    snprintf(why, sizeof(why), "the file ends within this line (%s)", err->text);
  else
    snprintf(why, sizeof(why), "%s", err->text);
  ctxp_notes_bad_line(t->notes, line->number, why);
}

int ctxp_transcript_line(struct ctxp_transcript *t, struct ctxp_line *line) {
  struct ctxp_error why;
  for (;;) {
    int r = ctxp_lines_next(t->lines, line);
    if (r <= 0) return r;
    t->line_count++;
    if (t->tick && t->line_count % 64 == 0) t->tick(t->tick_data, line->offset);
    if (line->too_long) {
      snprintf(why.text, sizeof(why.text), "the line has %llu bytes, more than %zu", (unsigned long long)line->bytes, t->lines->line_bytes);
      note_bad(t, line, &why);
      ctxp_places_pass(&t->places, (struct ctxp_str){why.text, strlen(why.text)});
      continue;
    }
    if (ctxp_str_blank(line->text)) continue;
    r = ctxp_json_load(t->json, line->text, &why);
    if (r == -ENOMEM) return r;
    if (r == 0 && ctxp_json_type(t->json, 0) == CTXP_JSON_OBJECT) {
      r = ctxp_places_add(&t->places, line->offset, line->bytes, line->text);
      return r < 0 ? r : 1;
    }
    if (r == 0) ctxp_error_set(&why, 0, "the line is no JSON object");
    if (line->torn && t->live) continue;
    note_bad(t, line, &why);
    ctxp_places_pass(&t->places, line->text);
  }
}

/* ---- sending ---- */
void ctxp_feed_line(struct ctxp_feed *feed, uint64_t offset, uint64_t bytes, uint64_t ts_ms) {
  feed->seq = offset + 1;
  feed->line_end = offset + bytes + 1;
  const struct ctxp_text_place *place = ctxp_places_find(feed->places, offset);
  feed->check = place ? place->check : 0;
  if (ts_ms) feed->ts_ms = ts_ms;
}

static void cut_text(struct ctxp_event *event) {
  struct ctxp_tool_result *result = &event->tool_result;
  if (event->kind != CTXP_KIND_tool_result || result->text.len <= TEXT_MAX) return;
  size_t len = TEXT_MAX;
  while (len && ((unsigned char)result->text.ptr[len] & 0xc0) == 0x80) len--;
  ctxp_set(result, tool_result, textUnits, ctxp_utf16_units(result->text));
  result->text.len = len;
}

/* Of what a shell said its text is digested; of the others there is no more to take than the facts (tokens/facts.h). */
static void leave_out(struct ctxp_event *event, char hex[CTXP_HASH_HEX]) {
  struct ctxp_tool_result *result = &event->tool_result;
  if (event->kind != CTXP_KIND_tool_result || ctxp_tool_class(result->tool, result->skillLoad) == CTXP_TOOL_SHELL) return;
  ctxp_text_leave_out(result, hex);
}

int ctxp_feed_send(struct ctxp_feed *feed, struct ctxp_event *event, struct ctxp_error *err) {
  char hex[CTXP_HASH_HEX];
  uint64_t seq = feed->seq++;
  feed->told++;
  if (seq <= feed->position) return 0;
  event->ts_ms = feed->ts_ms;
  event->agent = feed->agent;
  event->session = feed->session;
  event->thread = feed->thread;
  cut_text(event);
  if (feed->bare) leave_out(event, hex);
  int r = feed->send(feed->data, event, ctxp_place_number(seq, feed->check), err);
  if (r == 0) feed->events++;
  return r;
}
