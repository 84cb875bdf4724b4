/* sink-log: the fold's stream as JSON lines.
 *
 * Lines are written in `event` and counted in `save`: data first, then the file's device, inode and length with the cursor. After
 * a crash the file may hold lines beyond the cursor, which will come again: they are cut. Where the file is cut into parts is a
 * function of the lines and of the events' times, never of the clock; a part is renamed to NAME-000001.EXT, and a rotation after
 * the last save is undone at open. What a person's own tools did to the file (renamed, emptied, removed it) is found at open, at
 * a reopen or at a write, and a `gap` line says how many lines are no longer in this file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/log.h"
#include "ctxpipe/stage.h"
#include "sinks/output.h"

#define PENDING_MAX (256 * 1024) /* bytes of lines that wait to be written */

struct options {
  const char *path;
  int keys; /* 0 all, 1 seed */
  uint64_t rotate_bytes, rotate_hours, rotate_keep;
};
struct place { /* what is stored with the cursor */
  uint64_t dev, ino, len, lines, part, first_ms, gap_lines, gap_bytes;
};
struct state {
  int folder, fd;
  char *name; /* in the folder */
  struct place at; /* of the file, without what is pending */
  uint64_t saved_part;
  struct ctxp_buf pending, line;
  uint64_t pending_lines, pending_ms;
};

static struct ctxp_raw place_key(void) { return ctxp_str_raw(CTXP_STR("file")); }

static int put_place(struct ctxp_stage *stage, const struct place *at) {
  ctxp_auto_buf value = {0};
  const uint64_t numbers[] = {at->dev, at->ino, at->len, at->lines, at->part, at->first_ms, at->gap_lines, at->gap_bytes};
  ctxp_pack_array(&value, sizeof(numbers) / sizeof(*numbers));
  for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) ctxp_pack_u64(&value, numbers[i]);
  int r = ctxp_buf_error(&value);
  return r < 0 ? r : ctxp_stage_put(stage, place_key(), ctxp_buf_raw(&value));
}

/* 1: this node has no file yet */
static int get_place(struct ctxp_stage *stage, struct place *ret) {
  uint64_t *const numbers[] = {&ret->dev, &ret->ino, &ret->len, &ret->lines, &ret->part, &ret->first_ms, &ret->gap_lines, &ret->gap_bytes};
  struct ctxp_raw value;
  struct ctxp_pack_value v;
  int r = ctxp_stage_get(stage, place_key(), &value);
  if (r) return r;
  struct ctxp_cursor it = ctxp_cursor(value);
  if (ctxp_cursor_next(&it, &v) < 0 || v.type != CTXP_PACK_ARRAY || v.count != sizeof(numbers) / sizeof(*numbers)) return -EBADMSG;
  for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
    if (ctxp_cursor_next(&it, &v) < 0 || v.type != CTXP_PACK_U64) return -EBADMSG;
    *numbers[i] = v.u;
  }
  return 0;
}

/* events.jsonl, part 1: events-000001.jsonl */
static void part_name(const struct state *st, uint64_t part, struct ctxp_buf *out) {
  const char *dot = strrchr(st->name, '.');
  size_t stem = dot && dot != st->name ? (size_t)(dot - st->name) : strlen(st->name);
  ctxp_buf_reset(out);
  ctxp_buf_printf(out, "%.*s-%06llu%s", (int)stem, st->name, (unsigned long long)part, st->name + stem);
}

static bool is_file(const struct state *st, const char *name, const struct place *at) {
  struct stat file;
  return fstatat(st->folder, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && file.st_dev == at->dev && file.st_ino == at->ino;
}

/* The part that was current at the last save goes back to its name, and the parts after it, which will be written again, go: they first
 * and the last of them before the others, so that an undo that was cut off is found again and goes on. */
static int undo_rotations(const struct state *st) {
  ctxp_auto_buf part = {0};
  part_name(st, st->at.part + 1, &part);
  if (is_file(st, st->name, &st->at) || !is_file(st, ctxp_buf_cstr(&part), &st->at)) return 0;
  uint64_t last = st->at.part + 1;
  do part_name(st, ++last, &part);
  while (faccessat(st->folder, ctxp_buf_cstr(&part), F_OK, AT_SYMLINK_NOFOLLOW) == 0);
  while (--last > st->at.part + 1) {
    part_name(st, last, &part);
    if (unlinkat(st->folder, ctxp_buf_cstr(&part), 0) < 0) return -errno;
  }
  part_name(st, last, &part);
  return renameat(st->folder, ctxp_buf_cstr(&part), st->folder, st->name) < 0 ? -errno : 0;
}

/* lines and bytes of whole lines in the file, and what follows the last newline cut off */
static int count_lines(int fd, uint64_t *ret_lines, uint64_t *ret_len) {
  char block[65536];
  uint64_t at = 0;
  ssize_t n;
  *ret_lines = *ret_len = 0;
  while ((n = pread(fd, block, sizeof(block), (off_t)at)) > 0) {
    for (ssize_t i = 0; i < n; i++) {
      if (block[i] != '\n') continue;
      ++*ret_lines;
      *ret_len = at + (uint64_t)i + 1;
    }
    at += (uint64_t)n;
  }
  if (n < 0 || (at > *ret_len && ftruncate(fd, (off_t)*ret_len) < 0)) return -errno;
  return 0;
}

static int open_file(struct state *st, struct stat *ret_file) {
  int fd = openat(st->folder, st->name, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return -errno;
  int r = fstat(fd, ret_file) < 0 ? -errno : !S_ISREG(ret_file->st_mode) ? -EINVAL :
      fsync(st->folder) < 0                                              ? -errno :
                                                                           0;
  if (r < 0) {
    close(fd);
    return r;
  }
  st->fd = fd;
  return 0;
}

/* what this file had is not in it any more */
static int lost(struct state *st, const struct stat *file, bool same) {
  uint64_t lines = 0, len = 0;
  int r = count_lines(st->fd, &lines, &len);
  if (r < 0) return r;
  st->at.gap_lines += same ? st->at.lines - (lines < st->at.lines ? lines : st->at.lines) : st->at.lines;
  st->at.gap_bytes += same ? st->at.len - (len < st->at.len ? len : st->at.len) : st->at.len;
  st->at = (struct place){file->st_dev, file->st_ino, len, same ? lines : 0, st->at.part, 0, st->at.gap_lines, st->at.gap_bytes};
  return 0;
}

/* takes up the file where the last save left it */
static int take_up(struct state *st) {
  struct stat file;
  int r = undo_rotations(st);
  if (r < 0 || (r = open_file(st, &file)) < 0) return r;
  bool same = file.st_dev == st->at.dev && file.st_ino == st->at.ino;
  if (!same || (uint64_t)file.st_size < st->at.len) return lost(st, &file, same);
  return (uint64_t)file.st_size > st->at.len && ftruncate(st->fd, (off_t)st->at.len) < 0 ? -errno : 0;
}

/* A node without a place yet: what stands in the file is somebody else's, and stays before ours. */
static int begin(struct state *st) {
  struct stat file;
  ctxp_auto_buf part = {0};
  int r = open_file(st, &file);
  if (r < 0) return r;
  st->at = (struct place){.dev = file.st_dev, .ino = file.st_ino};
  uint64_t lines;
  r = count_lines(st->fd, &lines, &st->at.len);
  do part_name(st, st->at.part + 1, &part);
  while (faccessat(st->folder, ctxp_buf_cstr(&part), F_OK, AT_SYMLINK_NOFOLLOW) == 0 && ++st->at.part);
  return r;
}

static int fail(struct ctxp_stage *stage, int r, const char *doing) {
  const struct options *options = ctxp_stage_options(stage);
  ctxp_log(CTXP_LOG_ERROR, "log", "could not %s '%s': %s", doing, options->path, strerror(-r));
  return r;
}

/* parts that no undo can need go when they are too many */
static void drop_old(struct state *st, uint64_t keep) {
  ctxp_auto_buf part = {0};
  for (uint64_t old = st->saved_part; keep && old > keep; old--) {
    part_name(st, old - keep, &part);
    if (unlinkat(st->folder, ctxp_buf_cstr(&part), 0) < 0) break;
  }
}

static int log_open(struct ctxp_stage *stage, struct ctxp_error *err) {
  struct state *st = ctxp_stage_state(stage);
  const struct options *options = ctxp_stage_options(stage);
  const char *slash = strrchr(options->path, '/');
  st->folder = st->fd = -1;
  st->name = ctxp_str_dup(ctxp_str(slash ? slash + 1 : options->path));
  if (!st->name) return ctxp_error_set(err, -ENOMEM, "node '%s': out of memory", ctxp_stage_node(stage));
  int r = ctxp_output_folder(ctxp_stage_node(stage), options->path, &st->folder, err);
  if (r < 0) return r;
  r = get_place(stage, &st->at);
  if (r >= 0) r = r ? begin(st) : take_up(st);
  if (r == -EINVAL || r == -ELOOP)
    return ctxp_error_set(
        err, r, "node '%s': '%s' is not a regular file; name one in the option 'path'", ctxp_stage_node(stage), options->path);
  if (r < 0)
    return ctxp_error_set(err, r, "node '%s': could not open the log '%s': %s", ctxp_stage_node(stage), options->path, strerror(-r));
  st->saved_part = st->at.part;
  drop_old(st, options->rotate_keep);
  return put_place(stage, &st->at);
}

/* The line goes before everything that waits. */
static int say_gap(struct state *st) {
  struct ctxp_event gap = {.kind = CTXP_KIND_gap, .ts_ms = st->pending_ms};
  ctxp_auto_buf line = {0};
  ctxp_set(&gap.gap, gap, side, CTXP_GAP_stream);
  ctxp_set(&gap.gap, gap, count, st->at.gap_lines);
  ctxp_set(&gap.gap, gap, bytes, st->at.gap_bytes);
  int r = ctxp_json_from_event(&gap, false, &line);
  if (r < 0) return r;
  ctxp_buf_char(&line, '\n');
  ctxp_buf_add(&line, st->pending.ptr, st->pending.len);
  if (ctxp_buf_error(&line) < 0) return -ENOMEM;
  struct ctxp_buf swap = st->pending;
  st->pending = line;
  line = swap;
  st->pending_lines++;
  st->at.gap_lines = st->at.gap_bytes = 0;
  return 0;
}

/* finds out what others did to the open file */
static int look(struct state *st) {
  struct stat file;
  if (fstat(st->fd, &file) < 0) return -errno;
  if (file.st_nlink == 0) {
    close(st->fd);
    st->fd = -1;
    int r = open_file(st, &file);
    return r < 0 ? r : lost(st, &file, false);
  }
  if ((uint64_t)file.st_size < st->at.len) return lost(st, &file, true);
  st->at.len = (uint64_t)file.st_size;
  return 0;
}

static int flush(struct state *st) {
  struct stat file;
  size_t written;
  if (st->fd < 0) { /* a rotation that got no further */
    int o = open_file(st, &file);
    if (o < 0) return o;
    st->at = (struct place){.dev = file.st_dev, .ino = file.st_ino, .len = (uint64_t)file.st_size, .part = st->at.part};
  }
  int r = look(st);
  if (r < 0 || !st->pending.len) return r;
  if (st->at.gap_bytes && (r = say_gap(st)) < 0) return r;
  r = ctxp_output_write(st->fd, st->pending.ptr, st->pending.len, &written);
  st->at.len += written;
  if (r < 0) { /* a disk may be full; what waits is written later, where this ended */
    memmove(st->pending.ptr, st->pending.ptr + written, st->pending.len - written);
    st->pending.len -= written;
    return r;
  }
  st->at.lines += st->pending_lines;
  st->pending_lines = 0;
  ctxp_buf_reset(&st->pending);
  return 0;
}

static int taken(const struct options *options, const char *part) {
  ctxp_log(CTXP_LOG_ERROR, "log", "'%s' is due for its next part, but there is a file '%s' beside it that is none of its own; move it away",
      options->path, part);
  return -EEXIST;
}

static int rotate(struct state *st, const struct options *options) {
  ctxp_auto_buf part = {0};
  int r = flush(st);
  if (r < 0) return r;
  part_name(st, st->at.part + 1, &part);
  if (fdatasync(st->fd) < 0) return -errno;
  if (renameat2(st->folder, st->name, st->folder, ctxp_buf_cstr(&part), RENAME_NOREPLACE) < 0)
    return errno == EEXIST ? taken(options, ctxp_buf_cstr(&part)) : -errno;
  close(st->fd);
  st->fd = -1;
  st->at.part++;
  st->at.first_ms = 0;
  return flush(st);
}

static bool is_full(const struct state *st, const struct options *options, uint64_t ts_ms) {
  uint64_t len = st->at.len + st->pending.len;
  if (!len) return false;
  if (options->rotate_bytes && len + st->line.len > options->rotate_bytes) return true;
  return options->rotate_hours && st->at.first_ms && ts_ms >= st->at.first_ms + options->rotate_hours * 3600000;
}

/* The seed's log has no key that could say that a saving is only potential, so it has those of applied events only. */
static bool in_seed(const struct ctxp_event *ev) {
  switch ((unsigned)ev->kind) {
  case CTXP_KIND_bash: return ev->bash.applied || ev->bash.saved == 0;
  case CTXP_KIND_bash_fallback: return ev->bash_fallback.applied || ev->bash_fallback.saved == 0;
  case CTXP_KIND_amnesia_remove: return ev->amnesia_remove.applied || ev->amnesia_remove.saved == 0;
  case CTXP_KIND_write: return ev->write.applied || ev->write.saved == 0;
  case CTXP_KIND_lazy: return ev->lazy.applied || ev->lazy.avoidedTokens == 0;
  case CTXP_KIND_amnesia_tag:
  case CTXP_KIND_write_inject_failed:
  case CTXP_KIND_turn:
  case CTXP_KIND_gap: return true;
  default: return false;
  }
}

static int log_event(struct ctxp_stage *stage, const struct ctxp_event *ev) {
  struct state *st = ctxp_stage_state(stage);
  const struct options *options = ctxp_stage_options(stage);
  if (options->keys && !in_seed(ev)) return 0;
  ctxp_buf_reset(&st->line);
  int r = ctxp_json_from_event(ev, options->keys, &st->line);
  ctxp_buf_char(&st->line, '\n');
  if (r < 0 || ctxp_buf_error(&st->line) < 0) return r < 0 ? r : -ENOMEM;
  if (st->fd < 0 || st->pending.len + st->line.len > PENDING_MAX) r = flush(st);
  if (r >= 0 && is_full(st, options, ev->ts_ms)) r = rotate(st, options);
  if (r == -EEXIST) return r; /* said */
  if (r < 0) return fail(stage, r, "write to");
  if (!st->pending.len) st->pending_ms = ev->ts_ms;
  if (!st->at.first_ms) st->at.first_ms = ev->ts_ms;
  size_t before = st->pending.len;
  ctxp_buf_add(&st->pending, st->line.ptr, st->line.len);
  if (st->pending.failed) { /* the event comes again; what waited still waits */
    st->pending.failed = false;
    st->pending.len = before;
    return -ENOMEM;
  }
  st->pending_lines++;
  return 0;
}

static int log_save(struct ctxp_stage *stage) {
  struct state *st = ctxp_stage_state(stage);
  const struct options *options = ctxp_stage_options(stage);
  int r = flush(st);
  if (r < 0) return fail(stage, r, "write to");
  if (fdatasync(st->fd) < 0) return fail(stage, -errno, "sync");
  if ((r = put_place(stage, &st->at)) < 0) return r;
  drop_old(st, options->rotate_keep);
  st->saved_part = st->at.part;
  return 0;
}

/* Somebody may have renamed the file: the old one is completed, and what comes goes to the name. Nothing is lost by that. */
static int log_reopen(struct ctxp_stage *stage, struct ctxp_error *err) {
  struct state *st = ctxp_stage_state(stage);
  const struct options *options = ctxp_stage_options(stage);
  struct stat file = {0};
  int r = flush(st), old = st->fd;
  if (r >= 0) r = fdatasync(old) < 0 ? -errno : open_file(st, &file);
  if (r < 0) return ctxp_error_set(err, r, "could not reopen the log '%s': %s", options->path, strerror(-r));
  close(old);
  if (file.st_dev != st->at.dev || file.st_ino != st->at.ino)
    st->at = (struct place){.dev = file.st_dev, .ino = file.st_ino, .len = (uint64_t)file.st_size, .part = st->at.part};
  return put_place(stage, &st->at);
}

static void log_close(struct ctxp_stage *stage) {
  struct state *st = ctxp_stage_state(stage);
  if (!st->name) return; /* never opened */
  ctxp_close_ptr(&st->fd);
  ctxp_close_ptr(&st->folder);
  ctxp_buf_deinit(&st->pending);
  ctxp_buf_deinit(&st->line);
  free(st->name);
}

static const struct ctxp_consume consumes[] = {
    {CTXP_KIND_bash, 0},
    {CTXP_KIND_bash_fallback, 0},
    {CTXP_KIND_amnesia_tag, 0},
    {CTXP_KIND_amnesia_remove, 0},
    {CTXP_KIND_write, 0},
    {CTXP_KIND_write_inject_failed, 0},
    {CTXP_KIND_lazy, 0},
    {CTXP_KIND_aux, 0},
    {CTXP_KIND_regret, 0},
    {CTXP_KIND_turn, 0},
    {CTXP_KIND_spend, 0},
    {CTXP_KIND_restored, 0},
    {CTXP_KIND_hold, 0},
    {CTXP_KIND_gap, 0},
    {CTXP_KIND_NONE, 0},
};
static const char *const key_choices[] = {"all", "seed", NULL};
static const struct ctxp_option option_table[] = {
    {.name = "path",
        .type = CTXP_OPTION_PATH,
        .initial = "events.jsonl",
        .unit = "",
        .help = "the file that the lines are appended to",
        .offset = offsetof(struct options, path)},
    {.name = "keys",
        .type = CTXP_OPTION_ENUM,
        .initial = "all",
        .unit = "",
        .choices = key_choices,
        .offset = offsetof(struct options, keys),
        .help = "all: every event with ctxpipe's keys after the seed's; seed: the seed's eight kinds (and gaps) with the seed's keys "
                "alone, and of savings the applied ones"},
    {.name = "rotate_bytes",
        .type = CTXP_OPTION_U64,
        .initial = "0",
        .max = UINT64_C(1) << 40,
        .unit = "bytes",
        .offset = offsetof(struct options, rotate_bytes),
        .help = "a file that would grow beyond this becomes NAME-000001.EXT and so on; 0: never"},
    {.name = "rotate_hours",
        .type = CTXP_OPTION_U64,
        .initial = "0",
        .max = 87600,
        .unit = "hours",
        .offset = offsetof(struct options, rotate_hours),
        .help = "a file whose first event is this much older than the next, by the events' own times, is rotated; 0: never"},
    {.name = "rotate_keep",
        .type = CTXP_OPTION_U64,
        .initial = "0",
        .max = 1000000,
        .unit = "files",
        .offset = offsetof(struct options, rotate_keep),
        .help = "rotated files that are kept; 0: all"},
    {.name = NULL},
};

const struct ctxp_stage_ops ctxp_stage_sink_log = {
    .api = CTXP_STAGE_API,
    .name = "sink-log",
    .summary = "writes the savings and the bill as JSON lines",
    .role = CTXP_ROLE_SINK_NODE,
    .version = 1,
    .consumes = consumes,
    .options = option_table,
    .options_size = sizeof(struct options),
    .state_size = sizeof(struct state),
    .open = log_open,
    .event = log_event,
    .save = log_save,
    .reopen = log_reopen,
    .close = log_close,
};
