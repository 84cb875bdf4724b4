/* What an import says beside the events: sentences about what could not be read, and how many records it passed over, by kind. */
#pragma once
#include "feeders/feeder.h"
#include "feeders/texts.h"

struct ctxp_notes {
  struct ctxp_import_result *result;
  const char *file; /* the one being read */
  struct ctxp_texts kinds; /* of its records that were passed over */
  struct ctxp_slots counts;
  unsigned bad_lines; /* in it, of which only the first few are told one by one */
  uint32_t passed; /* entries in result->passed_over */
  size_t mark;
};

void ctxp_notes_begin(struct ctxp_notes *notes, struct ctxp_import_result *result);
void ctxp_notes_file(struct ctxp_notes *notes, const char *file);
void ctxp_notes_fault(struct ctxp_notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Of the file as a whole, and no fault of it. */
void ctxp_notes_remark(struct ctxp_notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ctxp_notes_bad_line(struct ctxp_notes *notes, uint64_t number, const char *why);
void ctxp_notes_passed(struct ctxp_notes *notes, struct ctxp_str kind);
void ctxp_notes_file_end(struct ctxp_notes *notes);
void ctxp_notes_end(struct ctxp_notes *notes); /* closes the list in result->passed_over */
