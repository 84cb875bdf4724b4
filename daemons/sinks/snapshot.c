/* sink-snapshot: the savings of every session as one small file, which can be given back as `restore` of its session_start.
 *
 * What a session's file holds is a function of the session's events alone, its `seq` too (that of the last event that changed
 * it). A file is replaced as a whole (written beside, synced, renamed; many together, with one sync), and never by an older one: after a
 * crash the events since the last save come again, and would bring an older state first. Files from before this node's own store began are
 * known by their seq, and give way. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/log.h"
#include "ctxpipe/stage.h"
#include "sinks/output.h"

#define HEAD "{\"schema\":1,\"seq\":" /* what a snapshot begins with; its seq follows */
#define TURNS_KEPT 40
#define NAME_UNITS 80 /* bytes of the session's id that a file name shows */
#define SESSIONS_KEPT 1024 /* in memory after a save; the others are in the store */
#define SYNCED_ALONE 8 /* up to so many files are synced one by one, more with one sync of the file system */
#define FIGURES 6

struct options {
  const char *dir;
};
struct figures { /* of one turn */
  uint64_t v[FIGURES];
};
static const char *const figure_names[FIGURES] = {"turn", "bash", "amnesia", "lazy", "write", "total"};

struct session {
  UT_hash_handle hh;
  char key[CTXP_HASH_HEX]; /* of agent and session */
  struct ctxp_str agent, id; /* owned; hostile texts, which may hold a NUL */
  uint64_t seq, ts_ms, turn_count, aux, carried;
  int64_t net;
  struct ctxp_savings cumulative;
  struct figures turns[TURNS_KEPT]; /* the last ones, oldest first */
  unsigned turns_held;
  bool restored, dirty, beside; /* beside: its new file waits for its name */
};
struct state {
  int dir;
  bool opened;
  struct session *sessions;
  unsigned dirty; /* sessions */
  struct ctxp_buf text;
};

/* ---- names ---- */
static void key_of(struct ctxp_str agent, struct ctxp_str id, char ret_key[CTXP_HASH_HEX]) {
  ctxp_auto_buf both = {0};
  ctxp_pack_str(&both, agent); /* with lengths, so that no two pairs read the same */
  ctxp_pack_str(&both, id);
  ctxp_hash128_hex(ctxp_hash128(both.ptr, both.len), ret_key);
}

/* letters, digits, '-', '_' and inner '.' stay, the rest becomes '_': the hash tells sessions apart */
static void file_name(const struct session *s, struct ctxp_buf *out) {
  ctxp_buf_reset(out);
  for (size_t i = 0; i < s->id.len && i < NAME_UNITS; i++) {
    char c = s->id.ptr[i];
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && i > 0);
    ctxp_buf_char(out, plain ? c : '_');
  }
  ctxp_buf_printf(out, "-%s.json", s->key);
}

/* ---- a session in the store: an array of what the file says ---- */
static void pack_figures(struct ctxp_buf *out, const struct figures *f) {
  ctxp_pack_array(out, FIGURES);
  for (unsigned i = 0; i < FIGURES; i++) ctxp_pack_u64(out, f->v[i]);
}

static struct figures cumulative_of(const struct session *s) {
  const struct ctxp_savings *c = &s->cumulative;
  return (struct figures){{s->turn_count, c->bash, c->amnesia, c->lazy, c->write, c->total}};
}

static int put_session(struct ctxp_stage *stage, const struct session *s) {
  ctxp_auto_buf out = {0};
  struct figures cumulative = cumulative_of(s);
  ctxp_pack_array(&out, 9 + s->turns_held);
  ctxp_pack_str(&out, s->agent);
  ctxp_pack_str(&out, s->id);
  ctxp_pack_u64(&out, s->seq);
  ctxp_pack_u64(&out, s->ts_ms);
  ctxp_pack_u64(&out, s->aux);
  ctxp_pack_u64(&out, s->carried);
  ctxp_pack_i64(&out, s->net);
  ctxp_pack_bool(&out, s->restored);
  pack_figures(&out, &cumulative);
  for (unsigned i = 0; i < s->turns_held; i++) pack_figures(&out, &s->turns[i]);
  int r = ctxp_buf_error(&out);
  char key[CTXP_HASH_HEX + 2];
  snprintf(key, sizeof(key), "s:%s", s->key);
  return r < 0 ? r : ctxp_stage_put(stage, ctxp_str_raw(ctxp_str(key)), ctxp_buf_raw(&out));
}

static int next_u64(struct ctxp_cursor *it, uint64_t *ret) {
  struct ctxp_pack_value v;
  if (ctxp_cursor_next(it, &v) < 0 || v.type != CTXP_PACK_U64) return -EBADMSG;
  *ret = v.u;
  return 0;
}

static int next_figures(struct ctxp_cursor *it, struct figures *ret) {
  struct ctxp_pack_value v;
  if (ctxp_cursor_next(it, &v) < 0 || v.type != CTXP_PACK_ARRAY || v.count != FIGURES) return -EBADMSG;
  for (unsigned i = 0; i < FIGURES; i++)
    if (next_u64(it, &ret->v[i]) < 0) return -EBADMSG;
  return 0;
}

static int read_session(struct session *s, struct ctxp_raw value) {
  struct ctxp_cursor it = ctxp_cursor(value);
  struct ctxp_pack_value head, agent, id, net, restored;
  struct figures c;
  if (ctxp_cursor_next(&it, &head) < 0 || head.type != CTXP_PACK_ARRAY || head.count < 9 || head.count > 9 + TURNS_KEPT) return -EBADMSG;
  if (ctxp_cursor_next(&it, &agent) < 0 || ctxp_cursor_next(&it, &id) < 0 || agent.type != CTXP_PACK_STR || id.type != CTXP_PACK_STR)
    return -EBADMSG;
  if (!ctxp_str_eq(agent.str, s->agent) || !ctxp_str_eq(id.str, s->id)) return -EBADMSG;
  if (next_u64(&it, &s->seq) < 0 || next_u64(&it, &s->ts_ms) < 0 || next_u64(&it, &s->aux) < 0 || next_u64(&it, &s->carried) < 0)
    return -EBADMSG;
  if (ctxp_cursor_next(&it, &net) < 0 || ctxp_cursor_next(&it, &restored) < 0 || next_figures(&it, &c) < 0) return -EBADMSG;
  s->net = net.type == CTXP_PACK_U64 ? (int64_t)net.u : net.i;
  s->restored = restored.b;
  s->turn_count = c.v[0];
  s->cumulative = (struct ctxp_savings){.bash = c.v[1], .amnesia = c.v[2], .lazy = c.v[3], .write = c.v[4], .total = c.v[5]};
  s->turns_held = head.count - 9;
  for (unsigned i = 0; i < s->turns_held; i++)
    if (next_figures(&it, &s->turns[i]) < 0) return -EBADMSG;
  return 0;
}

/* ---- sessions ---- */
static struct session *session_free(struct session *s) {
  if (!s) return NULL;
  free((char *)(uintptr_t)s->agent.ptr);
  free((char *)(uintptr_t)s->id.ptr);
  free(s);
  return NULL;
}

static int load(struct ctxp_stage *stage, struct session *s) {
  char key[CTXP_HASH_HEX + 2];
  struct ctxp_raw value;
  snprintf(key, sizeof(key), "s:%s", s->key);
  int r = ctxp_stage_get(stage, ctxp_str_raw(ctxp_str(key)), &value);
  return r ? (r > 0 ? 0 : r) : read_session(s, value);
}

static int session_of(struct ctxp_stage *stage, const struct ctxp_event *ev, struct session **ret) {
  struct state *st = ctxp_stage_state(stage);
  char key[CTXP_HASH_HEX];
  key_of(ev->agent, ev->session, key);
  HASH_FIND_STR(st->sessions, key, *ret);
  if (*ret) return 0;
  struct session *s = calloc(1, sizeof(*s));
  if (!s) return -ENOMEM;
  memcpy(s->key, key, sizeof(key));
  s->agent = (struct ctxp_str){ctxp_str_dup(ev->agent), ev->agent.len};
  s->id = (struct ctxp_str){ctxp_str_dup(ev->session), ev->session.len};
  int r = s->agent.ptr && s->id.ptr ? load(stage, s) : -ENOMEM;
  ctxp_map_failed = false;
  if (r == 0) HASH_ADD_STR(st->sessions, key, s);
  if (r == 0 && ctxp_map_failed) r = -ENOMEM;
  if (r < 0) {
    session_free(s);
    return r;
  }
  *ret = s;
  return 0;
}

static void add_turn(struct session *s, const struct figures *f) {
  if (s->turns_held == TURNS_KEPT) memmove(s->turns, s->turns + 1, --s->turns_held * sizeof(*s->turns));
  s->turns[s->turns_held++] = *f;
}

static void on_turn(struct session *s, const struct ctxp_turn *t) {
  struct figures f = {{t->turn, t->bash, t->amnesia, t->lazy, t->write, t->total}};
  add_turn(s, &f);
  s->turn_count++;
  s->cumulative = t->cumulative;
  s->aux += t->aux;
  s->net += ctxp_has(t, turn, net) ? t->net : (int64_t)t->total;
  s->carried += t->carried;
}

static void on_restored(struct session *s, struct ctxp_raw snapshot) {
  struct ctxp_raw cumulative = ctxp_map_get(snapshot, "cumulative"), turn;
  struct ctxp_cursor it = ctxp_cursor(ctxp_map_get(snapshot, "turns"));
  uint32_t left;
  s->restored = true;
  s->cumulative = (struct ctxp_savings){.bash = ctxp_map_u64(cumulative, "bash", 0),
      .amnesia = ctxp_map_u64(cumulative, "amnesia", 0),
      .lazy = ctxp_map_u64(cumulative, "lazy", 0),
      .write = ctxp_map_u64(cumulative, "write", 0),
      .total = ctxp_map_u64(cumulative, "total", 0)};
  if (!it.at || ctxp_array_open(&it, &left) < 0) return;
  while (ctxp_array_next(&it, &left, &turn) > 0) {
    struct figures f;
    for (unsigned i = 0; i < FIGURES; i++) f.v[i] = ctxp_map_u64(turn, figure_names[i], 0);
    add_turn(s, &f);
  }
}

static int snapshot_event(struct ctxp_stage *stage, const struct ctxp_event *ev) {
  struct state *st = ctxp_stage_state(stage);
  struct session *s;
  int r = session_of(stage, ev, &s);
  if (r < 0) return r;
  if (ev->kind == CTXP_KIND_turn)
    on_turn(s, &ev->turn);
  else
    on_restored(s, ev->restored.snapshot);
  s->seq = ev->seq;
  s->ts_ms = ev->ts_ms;
  st->dirty += !s->dirty;
  s->dirty = true;
  return 0;
}

/* ---- files ---- */
static void write_figures(struct ctxp_buf *out, const struct figures *f, unsigned first) {
  for (unsigned i = first; i < FIGURES; i++)
    ctxp_buf_printf(out, "%c\"%s\":%llu", i == first ? '{' : ',', figure_names[i], (unsigned long long)f->v[i]);
  ctxp_buf_char(out, '}');
}

static void write_session(const struct session *s, struct ctxp_buf *out) {
  struct figures cumulative = cumulative_of(s);
  char iso[CTXP_ISO_SIZE];
  ctxp_buf_reset(out);
  ctxp_buf_printf(out, HEAD "%llu,\"agent\":", (unsigned long long)s->seq);
  ctxp_json_str(out, s->agent);
  ctxp_buf_str(out, ",\"session\":");
  ctxp_json_str(out, s->id);
  ctxp_buf_str(out, ",\"cumulative\":");
  write_figures(out, &cumulative, 1);
  ctxp_buf_str(out, ",\"turns\":[");
  for (unsigned i = 0; i < s->turns_held; i++) {
    if (i) ctxp_buf_char(out, ',');
    write_figures(out, &s->turns[i], 0);
  }
  ctxp_time_iso(s->ts_ms, iso);
  ctxp_buf_printf(out, "],\"turnCount\":%llu,\"aux\":%llu,\"net\":%lld,\"carried\":%llu,\"restored\":%s,\"ts\":\"%s\"}\n",
      (unsigned long long)s->turn_count, (unsigned long long)s->aux, (long long)s->net, (unsigned long long)s->carried,
      s->restored ? "true" : "false", iso);
}

/* the seq in a file; 1: no such file, or none of ours */
static int file_seq(int dir, const char *name, uint64_t *ret_seq) {
  char head[64] = {0};
  char *end;
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT || errno == ELOOP ? 1 : -errno;
  ssize_t n = read(fd, head, sizeof(head) - 1);
  close(fd);
  if (n < 0 || strncmp(head, HEAD, strlen(HEAD)) != 0 || head[strlen(HEAD)] < '0' || head[strlen(HEAD)] > '9') return 1;
  errno = 0;
  uint64_t seq = strtoull(head + strlen(HEAD), &end, 10);
  if (errno || *end != ',') return 1;
  *ret_seq = seq;
  return 0;
}

static void old_key(const char *name, struct ctxp_buf *out) {
  ctxp_buf_reset(out);
  ctxp_buf_printf(out, "f:%s", name);
}

/* May this state go over the file? Not if the file is newer, unless it is from before this store. */
static int may_replace(struct ctxp_stage *stage, const char *name, uint64_t seq) {
  struct state *st = ctxp_stage_state(stage);
  uint64_t there = 0;
  ctxp_auto_buf key = {0};
  struct ctxp_raw value;
  int r = file_seq(st->dir, name, &there);
  if (r) return r < 0 ? r : 1;
  old_key(name, &key);
  r = ctxp_stage_get(stage, ctxp_buf_raw(&key), &value);
  if (r < 0) return r;
  if (r == 0) {
    struct ctxp_cursor it = ctxp_cursor(value);
    uint64_t old;
    if (next_u64(&it, &old) == 0 && old == there) return (r = ctxp_stage_del(stage, ctxp_buf_raw(&key))) < 0 ? r : 1;
  }
  return there <= seq;
}

static void beside_name(const char *name, struct ctxp_buf *out) {
  ctxp_buf_reset(out);
  ctxp_buf_printf(out, ".%s.new", name);
}

static int write_beside(struct state *st, const char *name) {
  ctxp_auto_buf beside = {0};
  size_t written;
  beside_name(name, &beside);
  int fd = openat(st->dir, ctxp_buf_cstr(&beside), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return -errno;
  int r = ctxp_output_write(fd, st->text.ptr, st->text.len, &written);
  if (r == 0 && st->dirty <= SYNCED_ALONE && fsync(fd) < 0) r = -errno;
  if (close(fd) < 0 && r == 0) r = -errno;
  if (r < 0) unlinkat(st->dir, ctxp_buf_cstr(&beside), 0);
  return r;
}

/* the first half: what is new stands beside what it replaces. A session without a turn has nothing to give back: no file. */
static int write_session_file(struct ctxp_stage *stage, struct session *s) {
  struct state *st = ctxp_stage_state(stage);
  ctxp_auto_buf name = {0};
  s->beside = false;
  if (!s->turn_count) return 0;
  file_name(s, &name);
  write_session(s, &st->text);
  if (ctxp_buf_error(&st->text) < 0 || ctxp_buf_error(&name) < 0) return -ENOMEM;
  int r = may_replace(stage, ctxp_buf_cstr(&name), s->seq);
  if (r <= 0) return r;
  r = write_beside(st, ctxp_buf_cstr(&name));
  s->beside = r == 0;
  return r;
}

/* the second half, when all of it is on the disk */
static int rename_session_file(struct state *st, struct session *s) {
  ctxp_auto_buf name = {0}, beside = {0};
  if (!s->beside) return 0;
  file_name(s, &name);
  beside_name(ctxp_buf_cstr(&name), &beside);
  if (ctxp_buf_error(&name) < 0 || ctxp_buf_error(&beside) < 0) return -ENOMEM;
  s->beside = false;
  return renameat(st->dir, ctxp_buf_cstr(&beside), st->dir, ctxp_buf_cstr(&name)) < 0 ? -errno : 0;
}

static int write_files(struct ctxp_stage *stage) {
  struct state *st = ctxp_stage_state(stage);
  struct session *s, *next;
  int r = 0;
  HASH_ITER(hh, st->sessions, s, next)
  if (s->dirty && r == 0) r = write_session_file(stage, s);
  if (r == 0 && st->dirty > SYNCED_ALONE && syncfs(st->dir) < 0) r = -errno;
  HASH_ITER(hh, st->sessions, s, next)
  if (s->dirty && r == 0) r = rename_session_file(st, s);
  if (r == 0 && fsync(st->dir) < 0) r = -errno;
  return r;
}

static int snapshot_save(struct ctxp_stage *stage) {
  struct state *st = ctxp_stage_state(stage);
  const struct options *options = ctxp_stage_options(stage);
  struct session *s, *next;
  int r = st->dirty ? write_files(stage) : 0;
  if (r < 0) ctxp_log(CTXP_LOG_ERROR, "snapshot", "could not write the snapshots in '%s': %s", options->dir, strerror(-r));
  HASH_ITER(hh, st->sessions, s, next)
  if (s->dirty && r == 0) r = put_session(stage, s);
  if (r < 0) return r; /* all of them come again */
  st->dirty = 0;
  HASH_ITER(hh, st->sessions, s, next) {
    s->dirty = false;
    if (HASH_COUNT(st->sessions) <= SESSIONS_KEPT) continue;
    HASH_DEL(st->sessions, s);
    session_free(s);
  }
  return 0;
}

/* ---- open ---- */
static int note_old_files(struct ctxp_stage *stage, DIR *list) {
  struct state *st = ctxp_stage_state(stage);
  ctxp_auto_buf key = {0}, value = {0};
  struct dirent *entry;
  uint64_t seq = 0;
  while ((entry = readdir(list))) {
    if (!ctxp_str_ends(ctxp_str(entry->d_name), ".json") || file_seq(st->dir, entry->d_name, &seq) != 0) continue;
    old_key(entry->d_name, &key);
    ctxp_buf_reset(&value);
    ctxp_pack_u64(&value, seq);
    int r = key.failed || value.failed ? -ENOMEM : key.len > 255 ? 0 :
                                                                   ctxp_stage_put(stage, ctxp_buf_raw(&key), ctxp_buf_raw(&value));
    if (r < 0) return r;
  }
  return 0;
}

static int first_time(struct ctxp_stage *stage) {
  struct state *st = ctxp_stage_state(stage);
  struct ctxp_raw begun = ctxp_str_raw(CTXP_STR("begun")), value;
  static const uint8_t yes[] = {0xc3};
  int r = ctxp_stage_get(stage, begun, &value);
  if (r <= 0) return r;
  int fd = openat(st->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = fd < 0 ? NULL : fdopendir(fd);
  if (!list) return -errno;
  r = note_old_files(stage, list);
  closedir(list);
  return r < 0 ? r : ctxp_stage_put(stage, begun, (struct ctxp_raw){yes, 1});
}

static int snapshot_open(struct ctxp_stage *stage, struct ctxp_error *err) {
  struct state *st = ctxp_stage_state(stage);
  const struct options *options = ctxp_stage_options(stage);
  ctxp_auto_buf inside = {0};
  st->dir = -1;
  st->opened = true;
  ctxp_buf_printf(&inside, "%s/.", options->dir);
  int r = ctxp_output_folder(ctxp_stage_node(stage), ctxp_buf_cstr(&inside), &st->dir, err);
  if (r < 0) return r;
  r = first_time(stage);
  return r < 0 ? ctxp_error_set(err, r, "node '%s': could not read '%s': %s", ctxp_stage_node(stage), options->dir, strerror(-r)) : 0;
}

static void snapshot_close(struct ctxp_stage *stage) {
  struct state *st = ctxp_stage_state(stage);
  struct session *s, *next;
  HASH_ITER(hh, st->sessions, s, next) {
    HASH_DEL(st->sessions, s);
    session_free(s);
  }
  if (st->opened) ctxp_close_ptr(&st->dir);
  ctxp_buf_deinit(&st->text);
}

static const struct ctxp_consume consumes[] = {{CTXP_KIND_turn, 0}, {CTXP_KIND_restored, 0}, {CTXP_KIND_NONE, 0}};
static const struct ctxp_option option_table[] = {
    {.name = "dir",
        .type = CTXP_OPTION_PATH,
        .initial = "snapshots",
        .unit = "",
        .help = "the folder with one file a session",
        .offset = offsetof(struct options, dir)},
    {.name = NULL},
};

const struct ctxp_stage_ops ctxp_stage_sink_snapshot = {
    .api = CTXP_STAGE_API,
    .name = "sink-snapshot",
    .summary = "writes each session's savings to a file of its own, for the agent to come back to",
    .role = CTXP_ROLE_SINK_NODE,
    .version = 1,
    .consumes = consumes,
    .options = option_table,
    .options_size = sizeof(struct options),
    .state_size = sizeof(struct state),
    .open = snapshot_open,
    .event = snapshot_event,
    .save = snapshot_save,
    .close = snapshot_close,
};
