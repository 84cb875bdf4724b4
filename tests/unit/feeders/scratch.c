#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/json.h"
#include "scratch.h"

static int log_event(void *data, const struct ctxp_event *event, uint64_t seq) {
  struct scratch *s = data;
  ctxp_buf_printf(&s->log, "%llu ", (unsigned long long)seq);
  assert_int_equal(ctxp_json_from_event(event, false, &s->log), 0);
  ctxp_buf_char(&s->log, '\n');
  return 0;
}

void scratch_watch(struct scratch *s) {
  s->ref.watch = log_event;
  s->ref.watch_data = s;
}

int scratch_open(void **state) {
  struct scratch *s = calloc(1, sizeof(*s));
  if (!s) return -1;
  strcpy(s->dir, "/tmp/ctxpipe-test-XXXXXX");
  if (!mkdtemp(s->dir)) return free(s), -1;
  ref_init(&s->ref, &s->sink);
  scratch_watch(s);
  *state = s;
  return 0;
}

static void remove_all(const char *path) {
  struct dirent **entries = NULL;
  struct stat st;
  if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
    unlink(path);
    return;
  }
  chmod(path, 0700);
  int n = scandir(path, &entries, NULL, NULL);
  for (int i = 0; i < n; i++) {
    char inner[8192];
    snprintf(inner, sizeof(inner), "%s/%s", path, entries[i]->d_name);
    if (strcmp(entries[i]->d_name, ".") != 0 && strcmp(entries[i]->d_name, "..") != 0) remove_all(inner);
    free(entries[i]);
  }
  free(entries);
  rmdir(path);
}

int scratch_close(void **state) {
  struct scratch *s = *state;
  remove_all(s->dir);
  ref_deinit(&s->ref);
  ctxp_import_result_deinit(&s->result);
  ctxp_buf_deinit(&s->log);
  free(s);
  return 0;
}

const char *scratch_path(struct scratch *s, const char *name) {
  static char paths[4][4096];
  static unsigned at;
  at = (at + 1) % 4;
  snprintf(paths[at], sizeof(paths[at]), "%s/%s", s->dir, name);
  return paths[at];
}

void scratch_write(struct scratch *s, const char *name, const char *bytes, size_t len) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", s->dir, name);
  for (char *slash = path + strlen(s->dir) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = 0;
    mkdir(path, 0700);
  }
  ctxp_auto_fclose FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, len, file), len);
}

void scratch_text(struct scratch *s, const char *name, const char *text) { scratch_write(s, name, text, strlen(text)); }

int scratch_import(struct scratch *s, const char *name) {
  const char *path = scratch_path(s, name);
  const struct ctxp_import_options options = {.paths = &path, .path_count = 1, .bare = s->bare};
  ctxp_import_result_deinit(&s->result);
  ctxp_buf_reset(&s->log);
  s->err.text[0] = 0;
  return ctxp_import_files(&options, &s->sink, &s->result, &s->err);
}

const char *scratch_find(struct scratch *s, unsigned n, ...) {
  for (char *line = (char *)(uintptr_t)ctxp_buf_cstr(&s->log), *end; *line; line = end + 1) {
    end = strchr(line, '\n');
    bool all = true;
    va_list texts;
    va_start(texts, n);
    *end = 0;
    for (const char *text; (text = va_arg(texts, const char *)) && all;) all = strstr(line, text) != NULL;
    va_end(texts);
    if (all && n-- == 0) {
      static char found[65536];
      snprintf(found, sizeof(found), "%s", line);
      *end = '\n';
      return found;
    }
    *end = '\n';
  }
  return NULL;
}

unsigned scratch_count(struct scratch *s, const char *text) {
  unsigned count = 0;
  for (const char *at = ctxp_buf_cstr(&s->log); (at = strstr(at, text)); at++) count++;
  return count;
}

bool scratch_said(struct scratch *s, const char *text) { return strstr(ctxp_buf_cstr(&s->result.faults), text) != NULL; }
