#include <stdarg.h>
#include <stdio.h>
#include "codec/json_read.h"
#include "codec/msgpack.h"
#include "feeders/notes.h"

#define BAD_LINES_TOLD 5

void ctxp_notes_begin(struct ctxp_notes *notes, struct ctxp_import_result *result) {
  *notes = (struct ctxp_notes){.result = result};
  notes->mark = ctxp_pack_array_open(&result->passed_over);
}

void ctxp_notes_file(struct ctxp_notes *notes, const char *file) {
  notes->file = file;
  notes->bad_lines = 0;
}

__attribute__((format(printf, 2, 0))) static void add_sentence(struct ctxp_buf *out, const char *format, va_list args) {
  char sentence[CTXP_ERROR_MAX];
  vsnprintf(sentence, sizeof(sentence), format, args);
  ctxp_buf_str(out, sentence);
  ctxp_buf_char(out, '\n');
}

void ctxp_notes_fault(struct ctxp_notes *notes, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_sentence(&notes->result->faults, format, args);
  va_end(args);
  notes->result->fault_count++;
}

void ctxp_notes_remark(struct ctxp_notes *notes, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_sentence(&notes->result->remarks, format, args);
  va_end(args);
}

void ctxp_notes_bad_line(struct ctxp_notes *notes, uint64_t number, const char *why) {
  if (++notes->bad_lines <= BAD_LINES_TOLD)
    ctxp_notes_fault(notes, "%s:%llu: %s; the line was passed over", notes->file, (unsigned long long)number, why);
  ctxp_notes_passed(notes, CTXP_STR("unreadable line"));
}

void ctxp_notes_passed(struct ctxp_notes *notes, struct ctxp_str kind) {
  if (kind.len > 100) kind.len = 100;
  uint32_t name = ctxp_texts_add(&notes->kinds, kind.len ? kind : CTXP_STR("without a type"));
  if (name == CTXP_NO_NAME || ctxp_slots_set(&notes->counts, name, ctxp_slots_get(&notes->counts, name) + 1) < 0)
    notes->result->passed_over.failed = true;
}

void ctxp_notes_file_end(struct ctxp_notes *notes) {
  struct ctxp_buf *out = &notes->result->passed_over;
  if (notes->bad_lines > BAD_LINES_TOLD) {
    unsigned more = notes->bad_lines - BAD_LINES_TOLD;
    ctxp_notes_fault(notes, "%s: %u more line%s could not be read and %s passed over", notes->file, more, more == 1 ? "" : "s",
        more == 1 ? "was" : "were");
  }
  for (uint32_t name = 1; name < notes->kinds.count; name++, notes->passed++) {
    struct ctxp_str kind = ctxp_texts_text(&notes->kinds, name);
    ctxp_auto_buf clean = {0}; /* cut texts and file names may be no UTF-8 */
    ctxp_pack_map(out, 3);
    ctxp_pack_cstr(out, "file");
    ctxp_pack_str(out, ctxp_utf8_clean(ctxp_str(notes->file), &clean));
    ctxp_pack_cstr(out, "kind");
    while (kind.len && !ctxp_utf8_valid(kind)) kind.len--;
    ctxp_pack_str(out, kind);
    ctxp_pack_cstr(out, "count");
    ctxp_pack_u64(out, ctxp_slots_get(&notes->counts, name));
  }
  ctxp_texts_deinit(&notes->kinds);
  ctxp_slots_deinit(&notes->counts);
}

void ctxp_notes_end(struct ctxp_notes *notes) { ctxp_pack_close(&notes->result->passed_over, notes->mark, notes->passed); }
