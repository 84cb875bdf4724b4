/* Files in a folder of the test's own, and what an import of them gives. */
#pragma once
#include "reference.h"

struct scratch {
  char dir[64];
  struct ref ref;
  struct ctxp_import_sink sink;
  struct ctxp_import_result result;
  struct ctxp_error err;
  bool bare; /* texts are left out */
  struct ctxp_buf log; /* the events as JSON lines, one a line, each behind its number and a blank */
};
int scratch_open(void **state);
int scratch_close(void **state);
void scratch_watch(struct scratch *s); /* after the reference was begun anew: its events are logged again */
const char *scratch_path(struct scratch *s, const char *name); /* until the fourth call after it */
void scratch_write(struct scratch *s, const char *name, const char *bytes, size_t len);
void scratch_text(struct scratch *s, const char *name, const char *text);
/* What ctxp_import_files returns for this path; the reference goes on from what it has. */
int scratch_import(struct scratch *s, const char *name);
/* The n-th logged event that holds all these texts (NULL ends them), or NULL. */
const char *scratch_find(struct scratch *s, unsigned n, ...);
unsigned scratch_count(struct scratch *s, const char *text);
bool scratch_said(struct scratch *s, const char *text); /* in the faults */
