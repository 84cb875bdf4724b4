/* opencode's older storage: a JSON file for each session, message and part. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "feeders/opencode_store.h"
#include "feeders/texts.h"

#define FILE_BYTES ((off_t)64 << 20)

struct reading {
  struct opencode_text *text;
  struct ctxp_buf file; /* the last one that was read */
  uint64_t modified_ms; /* newest of all */
};
struct entry { /* a message's file */
  char *id;
  uint64_t created_ms;
};

static void deinit(struct reading *reading) { ctxp_buf_deinit(&reading->file); }

/* 1: it is not there, is no file, or is larger than any such file */
static int load(struct reading *reading, const char *path) {
  struct stat st;
  ctxp_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  ctxp_buf_reset(&reading->file);
  if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_BYTES) return 1;
  uint8_t *room = ctxp_buf_room(&reading->file, (size_t)st.st_size + 1);
  if (!room) return -ENOMEM;
  for (ssize_t n; reading->file.len < (size_t)st.st_size; reading->file.len += (size_t)n)
    if ((n = read(fd, room + reading->file.len, (size_t)st.st_size - reading->file.len)) <= 0) break;
  uint64_t modified_ms = (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
  if (modified_ms > reading->modified_ms) reading->modified_ms = modified_ms;
  return 0;
}

static int load_json(struct reading *reading, const char *path) {
  int r = load(reading, path);
  if (r == 0) r = ctxp_json_load(reading->text->json, ctxp_buf_view(&reading->file), NULL);
  return r == -ENOMEM ? r : r != 0;
}

static struct ctxp_str stem(const char *name) {
  struct ctxp_str s = ctxp_str(name);
  return ctxp_str_ends(s, ".json") ? (struct ctxp_str){s.ptr, s.len - strlen(".json")} : (struct ctxp_str){"", 0};
}

static int is_json(const struct dirent *entry) { return stem(entry->d_name).len > 0; }

static void free_names(struct dirent **names, int count) {
  for (int i = 0; i < count; i++) free(names[i]);
  free(names);
}

static int add_parts(struct reading *reading, const char *folder) {
  struct dirent **names = NULL;
  int count = scandir(folder, &names, is_json, alphasort), r = 0; /* ids rise */
  for (int i = 0; r >= 0 && i < count; i++) {
    ctxp_auto_buf path = {0};
    ctxp_buf_printf(&path, "%s/%s", folder, names[i]->d_name);
    r = path.failed ? -ENOMEM : load(reading, ctxp_buf_cstr(&path));
    if (r == 0) opencode_text_part(reading->text, stem(names[i]->d_name), ctxp_buf_view(&reading->file));
    if (r > 0) reading->text->bad++;
  }
  free_names(names, count);
  return r < 0 ? r : 0;
}

static int by_time(const void *a, const void *b) {
  const struct entry *x = a, *y = b;
  return x->created_ms != y->created_ms ? (x->created_ms < y->created_ms ? -1 : 1) : strcmp(x->id, y->id);
}

/* the messages in their order */
static int list_messages(struct reading *reading, const char *folder, struct entry **ret_entries, uint32_t *ret_count) {
  struct dirent **names = NULL;
  int count = scandir(folder, &names, is_json, alphasort), r = 0;
  struct entry *entries = count > 0 ? calloc((size_t)count, sizeof(*entries)) : NULL;
  if (count > 0 && !entries) r = -ENOMEM;
  *ret_count = 0;
  for (int i = 0; r >= 0 && i < count; i++) {
    ctxp_auto_buf path = {0};
    ctxp_buf_printf(&path, "%s/%s", folder, names[i]->d_name);
    r = path.failed ? -ENOMEM : load_json(reading, ctxp_buf_cstr(&path));
    if (r > 0) reading->text->bad++;
    if (r != 0) continue;
    struct ctxp_json *json = reading->text->json;
    entries[*ret_count].created_ms = ctxp_json_u64(json, ctxp_json_get(json, ctxp_json_get(json, 0, "time"), "created"), 0);
    entries[*ret_count].id = ctxp_str_dup(stem(names[i]->d_name));
    if (!entries[(*ret_count)++].id) r = -ENOMEM;
  }
  free_names(names, count);
  if (r >= 0 && entries) qsort(entries, *ret_count, sizeof(*entries), by_time);
  *ret_entries = entries;
  return r < 0 ? r : 0;
}

static int add_messages(struct reading *reading, const char *messages, const char *parts) {
  struct entry *entries;
  uint32_t count;
  int r = list_messages(reading, messages, &entries, &count);
  for (uint32_t i = 0; r >= 0 && i < count; i++) {
    ctxp_auto_buf path = {0}, folder = {0};
    ctxp_buf_printf(&path, "%s/%s.json", messages, entries[i].id);
    ctxp_buf_printf(&folder, "%s/%s", parts, entries[i].id);
    r = path.failed || folder.failed ? -ENOMEM : load(reading, ctxp_buf_cstr(&path));
    if (r != 0) continue; /* gone since */
    opencode_text_message(reading->text, ctxp_str(entries[i].id), ctxp_buf_view(&reading->file));
    r = add_parts(reading, ctxp_buf_cstr(&folder));
  }
  for (uint32_t i = 0; i < count; i++) free(entries[i].id);
  free(entries);
  return r < 0 ? r : 0;
}

/* path without its last `count` names, which must be there */
static struct ctxp_str up(const char *path, unsigned count) {
  struct ctxp_str s = ctxp_str(path);
  for (; count && s.len; count--) {
    while (s.len && s.ptr[s.len - 1] != '/') s.len--;
    if (s.len) s.len--;
  }
  return s;
}

static bool is_folder(struct ctxp_buf *path) {
  struct stat st;
  return !path->failed && stat(ctxp_buf_cstr(path), &st) == 0 && S_ISDIR(st.st_mode);
}

/* where the messages and the parts of the session are, in the newer of the layouts that is there */
static bool find_folders(const char *path, struct ctxp_buf *messages, struct ctxp_buf *parts) {
  const char *slash = strrchr(path, '/');
  struct ctxp_str id = stem(slash ? slash + 1 : path), newer = up(path, 3), older = up(path, 2);
  if (!id.len || !newer.len) return false;
  ctxp_buf_printf(messages, "%.*s/message/%.*s", (int)newer.len, newer.ptr, (int)id.len, id.ptr);
  ctxp_buf_printf(parts, "%.*s/part", (int)newer.len, newer.ptr);
  if (is_folder(messages)) return true;
  ctxp_buf_reset(messages);
  ctxp_buf_reset(parts);
  ctxp_buf_printf(messages, "%.*s/message/%.*s", (int)older.len, older.ptr, (int)id.len, id.ptr);
  ctxp_buf_printf(parts, "%.*s/part/%.*s", (int)older.len, older.ptr, (int)id.len, id.ptr);
  return is_folder(messages);
}

int opencode_files_read(const char *path, struct opencode_text *text, uint64_t *ret_modified_ms, struct ctxp_error *err) {
  ctxp_cleanup(deinit) struct reading reading = {.text = text};
  ctxp_auto_buf messages = {0}, parts = {0};
  ctxp_auto_free char *full = realpath(path, NULL);
  struct ctxp_json *json = text->json;
  if (!full || !find_folders(full, &messages, &parts)) return 1;
  int r = load_json(&reading, full);
  if (r > 0 ||
      (r == 0 &&
          (ctxp_json_type(json, ctxp_json_get(json, 0, "id")) != CTXP_JSON_STRING ||
              ctxp_json_type(json, ctxp_json_get(json, 0, "time")) != CTXP_JSON_OBJECT)))
    return 1;
  if (r == 0) {
    opencode_text_begin(text, ctxp_buf_view(&reading.file));
    r = add_messages(&reading, ctxp_buf_cstr(&messages), ctxp_buf_cstr(&parts));
    opencode_text_end(text);
  }
  if (r < 0 || text->out->failed) return ctxp_error_set(err, -ENOMEM, "%s: out of memory while reading it", path);
  *ret_modified_ms = reading.modified_ms;
  return 0;
}

bool opencode_files_inner(const char *folder) {
  static const char *const beside[] = {"session", "info"};
  const char *slash = strrchr(folder, '/');
  struct ctxp_str name = ctxp_str(slash ? slash + 1 : folder);
  if (!ctxp_str_is(name, "message") && !ctxp_str_is(name, "part") && !ctxp_str_is(name, "session_diff")) return false;
  for (unsigned i = 0; i < 2; i++) {
    ctxp_auto_buf path = {0};
    ctxp_buf_printf(&path, "%.*s%s", (int)(strlen(folder) - name.len), folder, beside[i]);
    if (is_folder(&path)) return true;
  }
  return false;
}
