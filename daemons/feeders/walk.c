#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "feeders/walk.h"

#define DEPTH_MAX 64
#define HEAD_BYTES ((size_t)64 << 10)

struct folders { /* that were visited: a link may lead back into one */
  struct {
    uint64_t device, inode;
  } * items;
  uint32_t count, cap;
};

static int add_file(struct ctxp_files *files, const char *path, const struct stat *st, bool named) {
  if (ctxp_grow(&files->items, &files->cap, files->count, sizeof(*files->items)) < 0) return -ENOMEM;
  struct ctxp_file *file = &files->items[files->count];
  *file = (struct ctxp_file){strdup(path), (uint64_t)st->st_size, st->st_dev, st->st_ino, named};
  if (!file->path) return -ENOMEM;
  files->count++;
  return 0;
}

/* 1: it is new */
static int enter(struct folders *seen, const struct stat *st) {
  for (uint32_t i = 0; i < seen->count; i++)
    if (seen->items[i].device == st->st_dev && seen->items[i].inode == st->st_ino) return 0;
  if (ctxp_grow(&seen->items, &seen->cap, seen->count, sizeof(*seen->items)) < 0) return -ENOMEM;
  seen->items[seen->count].device = st->st_dev;
  seen->items[seen->count++].inode = st->st_ino;
  return 1;
}

/* A JSON text is only looked into where its beginning shows a session: folders are full of others. */
static bool shows_session(const char *path) {
  static const char messages[] = "\"messages\"", info[] = "\"info\"", project[] = "\"projectHash\"";
  ctxp_auto_buf head = {0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return false;
  uint8_t *room = ctxp_buf_room(&head, HEAD_BYTES);
  ssize_t n = room ? read(fd, room, HEAD_BYTES) : -1;
  close(fd);
  if (n <= 0 || !memmem(room, (size_t)n, messages, sizeof(messages) - 1)) return false;
  return memmem(room, (size_t)n, info, sizeof(info) - 1) || memmem(room, (size_t)n, project, sizeof(project) - 1);
}

static bool is_transcript(const char *path) {
  struct ctxp_str name = ctxp_str(path);
  return ctxp_str_ends(name, ".jsonl") || (ctxp_str_ends(name, ".json") && shows_session(path));
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int walk(struct ctxp_files *files, struct folders *seen, const char *path, unsigned depth, struct ctxp_notes *notes);

static int visit(struct ctxp_files *files, struct folders *seen, const char *path, unsigned depth, struct ctxp_notes *notes) {
  struct stat st;
  if (stat(path, &st) < 0) {
    ctxp_notes_fault(notes, "%s: %s", path, errno == ELOOP ? "is a link that leads nowhere" : strerror(errno));
    return 0;
  }
  if (S_ISREG(st.st_mode) && is_transcript(path)) return add_file(files, path, &st, false);
  if (!S_ISDIR(st.st_mode)) return 0;
  int r = enter(seen, &st);
  return r > 0 ? walk(files, seen, path, depth, notes) : r;
}

static int walk(struct ctxp_files *files, struct folders *seen, const char *path, unsigned depth, struct ctxp_notes *notes) {
  struct dirent **entries = NULL;
  if (depth == DEPTH_MAX) {
    ctxp_notes_fault(notes, "%s: is nested deeper than %d folders and was not looked into", path, DEPTH_MAX);
    return 0;
  }
  int n = scandir(path, &entries, NULL, by_name), r = 0;
  if (n < 0) {
    ctxp_notes_fault(notes, "%s: the folder cannot be read: %s", path, strerror(errno));
    return 0;
  }
  for (int i = 0; i < n; i++) {
    const char *name = entries[i]->d_name;
    ctxp_auto_buf inner = {0};
    ctxp_buf_printf(&inner, "%s%s%s", path, ctxp_str_ends(ctxp_str(path), "/") ? "" : "/", name);
    bool worth = entries[i]->d_type != DT_REG || ctxp_str_ends(ctxp_str(name), ".jsonl") || ctxp_str_ends(ctxp_str(name), ".json");
    if (inner.failed) r = -ENOMEM;
    if (r == 0 && worth && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
      r = visit(files, seen, ctxp_buf_cstr(&inner), depth + 1, notes);
    free(entries[i]);
  }
  free(entries);
  return r;
}

/* a file that the user named, and the folder beside it that belongs to it */
static int add_named(struct ctxp_files *files, struct folders *seen, const char *path, struct ctxp_notes *notes) {
  struct stat st;
  struct ctxp_str name = ctxp_str(path);
  if (stat(path, &st) < 0) {
    ctxp_notes_fault(notes, "%s: %s", path, strerror(errno));
    return 0;
  }
  if (S_ISDIR(st.st_mode)) return visit(files, seen, path, 0, notes);
  if (!S_ISREG(st.st_mode)) {
    ctxp_notes_fault(notes, "%s: is neither a file nor a folder", path);
    return 0;
  }
  int r = add_file(files, path, &st, true);
  if (r < 0 || !ctxp_str_ends(name, ".jsonl")) return r;
  name.len -= strlen(".jsonl");
  ctxp_auto_free char *side = ctxp_str_dup(name);
  if (!side) return -ENOMEM;
  return stat(side, &st) == 0 && S_ISDIR(st.st_mode) ? visit(files, seen, side, 1, notes) : 0;
}

static int by_path(const void *a, const void *b) {
  const struct ctxp_file *x = a, *y = b;
  int order = strcmp(x->path, y->path);
  return order ? order : y->named - x->named;
}

/* the same file by another path (a link, or named and found): the first one is kept */
static int drop_twins(struct ctxp_files *files) {
  struct ctxp_texts seen = {0};
  uint32_t kept = 0;
  int r = 0;
  for (uint32_t i = 0; i < files->count; i++) {
    struct ctxp_file *file = &files->items[i];
    uint64_t id[2] = {file->device, file->inode};
    struct ctxp_str key = {(const char *)id, sizeof(id)};
    bool twin = ctxp_texts_find(&seen, key) != CTXP_NO_NAME;
    if (!twin && ctxp_texts_add(&seen, key) == CTXP_NO_NAME) r = -ENOMEM;
    if (twin) {
      free(file->path);
      continue;
    }
    files->bytes += file->size;
    files->items[kept++] = *file;
  }
  files->count = kept;
  ctxp_texts_deinit(&seen);
  return r;
}

int ctxp_files_find(struct ctxp_files *files, const char *const *paths, unsigned count, struct ctxp_notes *notes) {
  struct folders seen = {0};
  int r = 0;
  for (unsigned i = 0; r == 0 && i < count; i++) r = add_named(files, &seen, paths[i], notes);
  free(seen.items);
  if (r == 0 && files->count) {
    qsort(files->items, files->count, sizeof(*files->items), by_path);
    r = drop_twins(files);
  }
  return r;
}

void ctxp_files_deinit(struct ctxp_files *files) {
  for (uint32_t i = 0; i < files->count; i++) free(files->items[i].path);
  free(files->items);
  *files = (struct ctxp_files){0};
}
