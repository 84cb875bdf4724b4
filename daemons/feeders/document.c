/* Formats that are one JSON text, whole: the text is kept while the file is read. Its events stand where its messages would, were they
 * laid one behind the other, so that what else the document holds may change its length. */
#include <errno.h>
#include "feeders/story.h"

#define DOCUMENT_BYTES ((uint64_t)256 << 20)

int ctxp_transcript_document(struct ctxp_transcript *t, struct ctxp_buf *out, struct ctxp_error *err) {
  struct ctxp_str text;
  ctxp_auto_buf clean = {0};
  if (t->lines->size > DOCUMENT_BYTES)
    return ctxp_error_set(err, -EFBIG, "%s: is a JSON text of %llu bytes, more than %llu; it was not read", t->path,
        (unsigned long long)t->lines->size, (unsigned long long)DOCUMENT_BYTES);
  int r = ctxp_lines_read(t->lines, 0, (size_t)t->lines->size, &text);
  if (r <= 0) return r < 0 ? r : ctxp_error_set(err, -EBADMSG, "%s: became shorter while it was read", t->path);
  if (ctxp_str_starts(text, "\xef\xbb\xbf")) text.ptr += 3, text.len -= 3;
  text = ctxp_utf8_clean(text, &clean);
  ctxp_buf_reset(out);
  ctxp_buf_add(out, text.ptr, text.len);
  if (clean.failed || out->failed) return -ENOMEM;
  struct ctxp_error why;
  r = ctxp_json_load(t->json, ctxp_buf_view(out), &why);
  return r < 0 && r != -ENOMEM ? ctxp_error_set(err, r, "%s: %s", t->path, why.text) : r;
}

int ctxp_story_part(struct ctxp_transcript *t, uint32_t value, uint64_t ts_ms) {
  struct ctxp_story *s = t->state;
  struct ctxp_str source = ctxp_json_source(t->json, value);
  int r = ctxp_places_add(&t->places, s->laid, source.len, source);
  if (r < 0) return r;
  ctxp_story_record(s, s->laid, source.len, ts_ms, false);
  s->laid += source.len;
  t->line_count++;
  return s->failed || t->json->failed ? -ENOMEM : 0;
}
