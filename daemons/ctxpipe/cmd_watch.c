/* Follows transcripts while agents write them: inotify says what changed, and the importer reads it. How far each file was read is known to
 * the collector, so that nothing has to be kept here: a watch that was killed goes on where it was. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/str.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/importing.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/stop.h"
#include "feeders/feeder.h"
#include "feeders/texts.h"

#define DEPTH_MAX 64
#define QUIET_MS 100 /* without a change, before it is read */
#define PATIENCE_MS 1000 /* at most, where changes go on */
#define SHARE 20 /* reading takes at most one in so many parts of the time */
#define RETRY_MS 1000
#define MASK (IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVE_SELF | IN_DELETE_SELF)

struct paths {
  char **items;
  unsigned count, cap;
};
struct folder {
  int wd;
  char *path;
  bool named_only; /* only files that were named are looked at */
};
struct watch {
  const struct ctxp_args *args;
  const char *endpoint;
  int fd;
  struct folder *folders;
  unsigned folder_count, folder_cap;
  struct paths changed, writing; /* to be read; read while they may go on being written */
  uint64_t *written_ms; /* of `writing` */
  unsigned written_cap;
  uint64_t first_ms, last_ms; /* of the changes that wait; 0: none */
  uint64_t not_before_ms, whole_ms, idle_s; /* whole_ms: when everything is looked through again */
  bool away; /* the collector did not answer; it was said */
};

/* ---- paths ---- */
static int paths_find(const struct paths *paths, const char *path) {
  for (unsigned i = 0; i < paths->count; i++)
    if (strcmp(paths->items[i], path) == 0) return (int)i;
  return -1;
}

static int paths_add(struct paths *paths, const char *path) {
  int at = paths_find(paths, path);
  if (at >= 0) return at;
  char *copy = ctxp_grow(&paths->items, &paths->cap, paths->count, sizeof(*paths->items)) == 0 ? strdup(path) : NULL;
  if (!copy) return -ENOMEM;
  paths->items[paths->count] = copy;
  return (int)paths->count++;
}

static void paths_drop(struct paths *paths, unsigned at) {
  free(paths->items[at]);
  paths->items[at] = paths->items[--paths->count];
}

static void paths_clear(struct paths *paths) {
  while (paths->count) paths_drop(paths, paths->count - 1);
}

static int mark(struct watch *w, const char *path) {
  int r = paths_add(&w->changed, path);
  w->last_ms = ctxp_clock_ms();
  if (!w->first_ms) w->first_ms = w->last_ms;
  return r < 0 ? r : 0;
}

static int mark_all(struct watch *w) {
  int r = 0;
  for (unsigned i = 0; r == 0 && i < w->args->operand_count; i++) r = mark(w, w->args->operands[i]);
  return r;
}

/* ---- folders ---- */
static int join(const char *folder, const char *name, struct ctxp_buf *out) {
  ctxp_buf_reset(out);
  ctxp_buf_printf(out, "%s%s%s", folder, ctxp_str_ends(ctxp_str(folder), "/") ? "" : "/", name);
  return ctxp_buf_error(out);
}

/* 1: it is followed already */
static int follow(struct watch *w, const char *path, bool named_only, struct ctxp_error *err) {
  int wd = inotify_add_watch(w->fd, path, MASK);
  if (wd < 0 && errno == ENOSPC)
    return ctxp_error_set(err, -ENOSPC, "there are more folders to follow than this system allows; raise fs.inotify.max_user_watches");
  if (wd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) return 1; /* the importer names what it cannot read */
  if (wd < 0) return ctxp_error_set(err, -errno, "'%s' cannot be followed: %s", path, strerror(errno));
  for (unsigned i = 0; i < w->folder_count; i++) {
    if (w->folders[i].wd != wd) continue;
    bool more = w->folders[i].named_only && !named_only;
    if (more) w->folders[i].named_only = false;
    return more ? 0 : 1;
  }
  char *copy = ctxp_grow(&w->folders, &w->folder_cap, w->folder_count, sizeof(*w->folders)) == 0 ? strdup(path) : NULL;
  if (!copy) return ctxp_error_set(err, -ENOMEM, "out of memory");
  w->folders[w->folder_count++] = (struct folder){wd, copy, named_only};
  return 0;
}

static int follow_tree(struct watch *w, const char *path, unsigned depth, struct ctxp_error *err) {
  int r = follow(w, path, false, err);
  if (r != 0 || depth == DEPTH_MAX) return r < 0 ? r : 0;
  DIR *dir = opendir(path);
  ctxp_auto_buf inner = {0};
  for (const struct dirent *entry; r == 0 && dir && (entry = readdir(dir));) {
    struct stat st;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || entry->d_type == DT_REG) continue;
    if (join(path, entry->d_name, &inner) < 0) r = ctxp_error_set(err, -ENOMEM, "out of memory");
    if (r == 0 && stat(ctxp_buf_cstr(&inner), &st) == 0 && S_ISDIR(st.st_mode)) r = follow_tree(w, ctxp_buf_cstr(&inner), depth + 1, err);
  }
  if (dir) closedir(dir);
  return r;
}

/* a file: its folder, where only it is looked at, and its side folder */
static int follow_file(struct watch *w, const char *path, struct ctxp_error *err) {
  const char *slash = strrchr(path, '/');
  struct stat st;
  ctxp_auto_buf folder = {0}, side = {0};
  ctxp_buf_add(&folder, slash ? path : ".", slash == path ? 1 : slash ? (size_t)(slash - path) :
                                                                        1);
  struct ctxp_str stem = ctxp_str(path);
  if (ctxp_str_ends(stem, ".jsonl")) ctxp_buf_add(&side, path, stem.len - strlen(".jsonl"));
  if (folder.failed || side.failed) return ctxp_error_set(err, -ENOMEM, "out of memory");
  int r = follow(w, ctxp_buf_cstr(&folder), true, err);
  if (r < 0 || !side.len || stat(ctxp_buf_cstr(&side), &st) < 0 || !S_ISDIR(st.st_mode)) return r < 0 ? r : 0;
  return follow_tree(w, ctxp_buf_cstr(&side), 1, err);
}

static int follow_operands(struct watch *w, struct ctxp_error *err) {
  int r = 0;
  for (unsigned i = 0; r == 0 && i < w->args->operand_count; i++) {
    struct stat st;
    const char *path = w->args->operands[i];
    if (stat(path, &st) < 0) continue; /* the importer says it */
    r = S_ISDIR(st.st_mode) ? follow_tree(w, path, 0, err) : follow_file(w, path, err);
  }
  return r;
}

/* ---- what changed ---- */
static bool named(const struct watch *w, const char *path) {
  for (unsigned i = 0; i < w->args->operand_count; i++)
    if (strcmp(w->args->operands[i], path) == 0 || (strncmp(path, "./", 2) == 0 && strcmp(w->args->operands[i], path + 2) == 0))
      return true;
  return false;
}

/* a folder has another name now, and so has all within it */
static int follow_anew(struct watch *w, struct ctxp_error *err) {
  while (w->folder_count) {
    struct folder *folder = &w->folders[--w->folder_count];
    (void)inotify_rm_watch(w->fd, folder->wd); /* its IN_IGNORED names a folder that is not known any more */
    free(folder->path);
  }
  int r = follow_operands(w, err);
  return r == 0 ? mark_all(w) : r;
}

static int on_change(struct watch *w, const struct inotify_event *event, struct ctxp_error *err) {
  unsigned at = 0;
  ctxp_auto_buf path = {0};
  if (event->mask & IN_Q_OVERFLOW) return mark_all(w);
  while (at < w->folder_count && w->folders[at].wd != event->wd) at++;
  if (at == w->folder_count) return 0;
  if (event->mask & IN_MOVE_SELF) return follow_anew(w, err);
  if (event->mask & IN_IGNORED) {
    free(w->folders[at].path);
    w->folders[at] = w->folders[--w->folder_count];
    return 0;
  }
  if (event->len == 0) return 0;
  struct ctxp_str name = ctxp_str(event->name);
  if (join(w->folders[at].path, event->name, &path) < 0) return ctxp_error_set(err, -ENOMEM, "out of memory");
  if (w->folders[at].named_only) return named(w, ctxp_buf_cstr(&path)) ? mark(w, ctxp_buf_cstr(&path)) : 0;
  if (event->mask & IN_ISDIR) {
    int r = follow_tree(w, ctxp_buf_cstr(&path), 1, err);
    return r == 0 ? mark(w, ctxp_buf_cstr(&path)) : r;
  }
  return ctxp_str_ends(name, ".jsonl") || ctxp_str_ends(name, ".json") ? mark(w, ctxp_buf_cstr(&path)) : 0;
}

static int read_changes(struct watch *w, struct ctxp_error *err) {
  union {
    struct inotify_event event;
    char bytes[65536];
  } buf;
  ssize_t n;
  int r = 0;
  while (r == 0 && (n = read(w->fd, &buf, sizeof(buf))) > 0)
    for (size_t at = 0; r == 0 && at + sizeof(struct inotify_event) <= (size_t)n;) {
      const struct inotify_event *event = (const struct inotify_event *)(const void *)(buf.bytes + at);
      r = on_change(w, event, err);
      at += sizeof(*event) + event->len;
    }
  return r == -ENOMEM ? ctxp_error_set(err, r, "out of memory") : r;
}

/* ---- reading ---- */
static void say(const struct ctxp_import_result *result) {
  ctxp_auto_buf line = {0};
  if (result->events) {
    ctxp_put_counted(&line, result->events, "new event");
    ctxp_buf_str(&line, " of ");
    ctxp_put_counted(&line, result->sessions, "session");
    printf("%s\n", ctxp_buf_cstr(&line));
  }
  (void)ctxp_importing_complain(result);
  fflush(stdout);
}

/* they are looked at again when they were silent for long enough for their sessions to have ended */
static int note_written(struct watch *w, const struct paths *paths) {
  for (unsigned i = 0; i < paths->count; i++) {
    int at = paths_add(&w->writing, paths->items[i]);
    if (at < 0 || ctxp_grow(&w->written_ms, &w->written_cap, w->writing.count, sizeof(*w->written_ms)) < 0) return -ENOMEM;
    w->written_ms[at] = ctxp_clock_ms();
  }
  return 0;
}

static int read_now(struct watch *w, struct ctxp_error *err) {
  struct ctxp_import_result result = {0};
  uint64_t began = ctxp_clock_ms();
  struct stat st;
  for (unsigned i = w->changed.count; i-- > 0;)
    if (stat(w->changed.items[i], &st) < 0 && errno == ENOENT) paths_drop(&w->changed, i); /* gone again */
  w->first_ms = 0;
  if (w->changed.count == 0) return 0;
  const struct ctxp_import_options options = {.endpoint = w->endpoint,
      .paths = (const char *const *)w->changed.items,
      .path_count = w->changed.count,
      .agent = ctxp_args_get(w->args, "agent"),
      .format = ctxp_args_get(w->args, "format"),
      .live_s = w->idle_s,
      .stop = &ctxp_stop};
  int r = ctxp_import_run(&options, &result, err);
  uint64_t now = ctxp_clock_ms(), rest = (now - began) * SHARE;
  if (r == 0) say(&result);
  ctxp_import_result_deinit(&result);
  w->not_before_ms = now + (rest < 30000 ? rest : 30000);
  if (r == -ETIMEDOUT || r == -ESTALE) { /* the pipeline may come back, the other importer end; what changed is kept */
    if (!w->away) fprintf(stderr, "ctxpipe: %s; trying again\n", err->text);
    w->away = true;
    w->first_ms = w->last_ms = now;
    w->not_before_ms = now + RETRY_MS;
    return 0;
  }
  if (r < 0) return r;
  w->away = false;
  if (note_written(w, &w->changed) < 0) return ctxp_error_set(err, -ENOMEM, "out of memory");
  paths_clear(&w->changed);
  return 0;
}

static int mark_silent(struct watch *w) {
  uint64_t now = ctxp_clock_ms(), idle_ms = (w->idle_s + 1) * 1000;
  int r = 0;
  for (unsigned i = w->writing.count; r == 0 && i-- > 0;) {
    if (now - w->written_ms[i] < idle_ms) continue;
    r = mark(w, w->writing.items[i]);
    paths_drop(&w->writing, i);
    w->written_ms[i] = w->written_ms[w->writing.count];
  }
  if (r == 0 && now >= w->whole_ms) {
    w->whole_ms = UINT64_MAX;
    r = mark_all(w);
  }
  return r;
}

static int wait_ms(const struct watch *w) {
  uint64_t now = ctxp_clock_ms(), due = now + 1000;
  if (w->first_ms) {
    due = w->last_ms + QUIET_MS < w->first_ms + PATIENCE_MS ? w->last_ms + QUIET_MS : w->first_ms + PATIENCE_MS;
    if (due < w->not_before_ms) due = w->not_before_ms;
  }
  return due > now ? (int)(due - now) : 0;
}

static int loop(struct watch *w, struct ctxp_error *err) {
  int r = read_now(w, err);
  if (r == 0) printf("following %u folder%s\n", w->folder_count, w->folder_count == 1 ? "" : "s");
  fflush(stdout);
  while (r == 0 && !ctxp_stop) {
    struct pollfd in = {.fd = w->fd, .events = POLLIN};
    if (poll(&in, 1, wait_ms(w)) < 0 && errno != EINTR) return ctxp_error_set(err, -errno, "poll: %s", strerror(errno));
    r = read_changes(w, err);
    if (r == 0) r = mark_silent(w);
    if (r == 0 && !ctxp_stop && w->first_ms && wait_ms(w) == 0) r = read_now(w, err);
  }
  return r == -EINTR && ctxp_stop ? 0 : r;
}

static int watch(struct watch *w, struct ctxp_error *err) {
  struct ctxp_pipeline pipeline;
  int r = ctxp_pipeline_find(w->args, &pipeline, err);
  if (r < 0) return r;
  const struct ctxp_node_config *collector = ctxp_pipeline_node(pipeline.config, CTXP_ROLE_COLLECTOR_NODE);
  if (!collector) r = ctxp_error_set(err, -ENOENT, "the topology has no collector; add a node with 'daemon: collector'");
  w->fd = r == 0 ? inotify_init1(IN_NONBLOCK | IN_CLOEXEC) : -1;
  if (r == 0 && w->fd < 0) r = ctxp_error_set(err, -errno, "inotify: %s", strerror(errno));
  if (r == 0) {
    w->endpoint = collector->ingest[0];
    w->whole_ms = ctxp_clock_ms() + (w->idle_s + 1) * 1000;
    r = follow_operands(w, err);
  }
  if (r == 0 && mark_all(w) < 0) r = ctxp_error_set(err, -ENOMEM, "out of memory");
  if (r == 0) r = loop(w, err);
  if (w->fd >= 0) close(w->fd);
  for (unsigned i = 0; i < w->folder_count; i++) free(w->folders[i].path);
  paths_clear(&w->changed);
  paths_clear(&w->writing);
  free(w->folders);
  free(w->changed.items);
  free(w->writing.items);
  free(w->written_ms);
  ctxp_pipeline_deinit(&pipeline);
  return r;
}

static int run(const struct ctxp_args *args) {
  struct watch w = {.args = args, .fd = -1};
  struct ctxp_error err;
  int r = ctxp_importing_choose(args, &err);
  if (r == 0) r = ctxp_args_number(args, "idle", 1, 86400, 600, &w.idle_s, &err);
  if (r < 0) return ctxp_command_misuse(&err);
  if (ctxp_importing_check(args, &err) < 0) return ctxp_command_fail(&err);
  ctxp_stop_on_signals();
  r = watch(&w, &err);
  return r < 0 ? ctxp_command_fail(&err) : 0;
}

static const struct ctxp_flag flags[] = {
    CTXP_PIPELINE_FLAGS,
    CTXP_IMPORTING_FLAGS,
    {.name = "idle", .value = "SECONDS", .help = "a session whose file was not written to for so long has ended (default 600)"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_watch = {
    .name = "watch",
    .summary = "follow agents' transcripts into the running pipeline while they are written",
    .operands = "FILE|DIR...",
    .flags = flags,
    .operands_min = 1,
    .operands_max = ~0u,
    .example = "ctxpipe watch ~/.claude/projects ~/.codex/sessions",
    .run = run,
    .details =
        "Reads what is there, then what is written, new sessions and folders included, until it is interrupted. How far a file was read\n"
        "is known to the pipeline: a watch that is started again, after whatever end, neither repeats nor loses anything. A file that was\n"
        "shortened or rewritten is named and read as another version of its session.",
};
