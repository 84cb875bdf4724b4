#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "feeders/import.h"
#include "feeders/opencode_store.h"
#include "feeders/walk.h"

#define KEY_MAX 200
#define VERSIONS_MAX 64 /* of one session: each other content under one identity */
#define TELL_MS 100
#define AHEAD 8 /* small files that are indexed before the first of them is sent: the collector is asked for their positions meanwhile */
#define AHEAD_BYTES (256u << 10)

struct indexed { /* a file that is read to be sent */
  struct ctxp_transcript t;
  struct ctxp_lines lines;
  uint32_t number; /* of the file */
};

struct run {
  const struct ctxp_import_options *options;
  const struct ctxp_import_sink *sink;
  const struct ctxp_format *format; /* that the user named */
  struct ctxp_import_result *result;
  struct ctxp_notes notes;
  struct ctxp_json json;
  struct indexed large, ahead[AHEAD]; /* ahead: a ring */
  uint32_t ahead_first, ahead_count;
  struct ctxp_import_progress progress;
  uint64_t told_ms, before; /* before: bytes of the files that are done */
  uint64_t half; /* bytes of the file at hand that are indexed, halved: the other half is sending */
  struct ctxp_texts sessions;
  struct ctxp_texts spawned; /* sub-agents, and the calls that spawned them */
  struct ctxp_slots spawned_by;
  struct ctxp_texts calls; /* hashes of their ids */
  struct ctxp_slots told_by; /* the file that told of a call first */
  uint32_t file, settled; /* number of the one at hand; those up to `settled` have arrived */
};

static bool stopped(const struct run *run) { return run->options->stop && *run->options->stop; }

static void tell(struct run *run, bool now) {
  uint64_t ms = ctxp_clock_ms();
  if (!run->options->progress || (!now && ms - run->told_ms < TELL_MS)) return;
  run->told_ms = ms;
  run->options->progress(run->options->data, &run->progress);
}

static void index_tick(void *data, uint64_t bytes) {
  struct run *run = data;
  run->half = bytes / 2;
  run->progress.bytes_done = run->before + run->half;
  tell(run, false);
}

/* Files are on their way side by side; those that tell of the same call one after the other. */
static int in_order(struct run *run, const struct ctxp_event *event, struct ctxp_error *err) {
  struct ctxp_str id = event->kind == CTXP_KIND_prompt ? event->prompt.callId :
      event->kind == CTXP_KIND_tool_result             ? event->tool_result.toolCallId :
                                                         (struct ctxp_str){"", 0};
  if (!id.len) return 0;
  uint64_t hash = ctxp_hash64(id.ptr, id.len, event->kind);
  uint32_t name = ctxp_texts_add(&run->calls, (struct ctxp_str){(const char *)&hash, sizeof(hash)});
  if (name == CTXP_NO_NAME) return ctxp_error_set(err, -ENOMEM, "out of memory");
  uint32_t file = ctxp_slots_get(&run->told_by, name);
  if (!file) return ctxp_slots_set(&run->told_by, name, run->file) < 0 ? ctxp_error_set(err, -ENOMEM, "out of memory") : 0;
  if (file == run->file || file <= run->settled || !run->sink->settle) return 0;
  run->settled = run->file - 1;
  return run->sink->settle(run->sink->data, err);
}

static int send_event(void *data, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err) {
  struct run *run = data;
  if (stopped(run)) return ctxp_error_set(err, -EINTR, "the import was stopped");
  int r = in_order(run, event, err);
  if (r == 0) r = run->sink->send(run->sink->data, event, seq, err);
  if (r < 0) return r;
  run->progress.events++;
  if (run->progress.events % 64 == 0) {
    run->progress.bytes_done = run->before + run->half + ctxp_place_of(seq) / 2;
    tell(run, false);
  }
  return 0;
}

/* The client's key of a file: what it is, wherever it lies. Another content under the same identity is another version of it. */
static void make_key(const struct ctxp_transcript *t, unsigned version, char ret_key[KEY_MAX]) {
  struct ctxp_str identity = ctxp_buf_view(&t->identity);
  char end[16] = "";
  if (version > 1) snprintf(end, sizeof(end), "~%u", version);
  int len = snprintf(ret_key, KEY_MAX, "%s:%.*s%s", t->format->name, (int)identity.len, identity.ptr, end);
  bool plain = len > 0 && len < KEY_MAX;
  for (size_t i = 0; i < identity.len; i++) plain = plain && identity.ptr[i] > ' ' && identity.ptr[i] < 0x7f && identity.ptr[i] != '~';
  if (plain) return;
  char hex[CTXP_HASH_HEX];
  ctxp_hash128_hex(ctxp_hash128(identity.ptr, identity.len), hex);
  snprintf(ret_key, KEY_MAX, "%s:#%s%s", t->format->name, hex, end);
}

static struct ctxp_str spawned(void *data, struct ctxp_str agent) {
  struct run *run = data;
  uint32_t name = ctxp_texts_find(&run->spawned, agent);
  return ctxp_texts_text(&run->spawned, name == CTXP_NO_NAME ? 0 : ctxp_slots_get(&run->spawned_by, name));
}

static void note_spawned(void *data, struct ctxp_str agent, struct ctxp_str call) {
  struct run *run = data;
  uint32_t name = ctxp_texts_add(&run->spawned, agent), by = ctxp_texts_add(&run->spawned, call);
  if (name == CTXP_NO_NAME || by == CTXP_NO_NAME || ctxp_slots_set(&run->spawned_by, name, by) < 0)
    return; /* then it is not said who spawned it */
}

/* Begins with the version of the session whose content this file goes on from, or with a new one. 1: there are too many. */
static int open_version(struct run *run, struct ctxp_transcript *t, struct ctxp_feed *feed, struct ctxp_error *err) {
  enum ctxp_fit fit = CTXP_FIT_SAME, first = CTXP_FIT_SAME;
  unsigned version = 0;
  do {
    char key[KEY_MAX];
    uint64_t number;
    if (++version > VERSIONS_MAX) return 1;
    make_key(t, version, key);
    int r = run->sink->open(run->sink->data, key, t->format->name, feed->agent.ptr, &number, err);
    if (r < 0) return r;
    fit = ctxp_places_fit(&t->places, number);
    if (version == 1) first = fit;
    feed->position = ctxp_place_of(number);
  } while (fit != CTXP_FIT_SAME);
  if (version == 1 || feed->position || t->places.count == 0) return 0;
  if (first == CTXP_FIT_SHORTER)
    ctxp_notes_remark(&run->notes, "%s: is shorter than what was read of this session before; what both have counts once", t->path);
  else
    ctxp_notes_remark(&run->notes, "%s: differs from what was read of this session before; what both have counts once", t->path);
  return 0;
}

static int send_file(struct run *run, struct ctxp_transcript *t, struct ctxp_error *err) {
  struct ctxp_feed feed = {.send = send_event, .data = run, .places = &t->places, .live = t->live, .bare = run->options->bare};
  feed.agent = ctxp_str(run->options->agent ? run->options->agent : t->format->name);
  int r = open_version(run, t, &feed, err);
  if (r > 0) {
    ctxp_notes_fault(
        &run->notes, "%s: its session was read with other contents %d times before; this one was not read", t->path, VERSIONS_MAX);
    return 0;
  }
  if (r < 0) return r;
  r = t->format->emit(t, &feed, err);
  run->result->events += feed.events;
  if (r == 0 && !feed.told && !t->shown && !t->live) { /* as the user said it is read */
    ctxp_notes_fault(
        &run->notes, "%s: holds nothing of the format %s; without --format it is read by its content", t->path, t->format->name);
    return run->sink->close(run->sink->data, err);
  }
  run->result->files++;
  if (r < 0) {
    struct ctxp_error second;
    (void)!run->sink->close(run->sink->data, &second); /* the first error is told */
    return r;
  }
  if (feed.session.len && ctxp_texts_add(&run->sessions, feed.session) == CTXP_NO_NAME)
    return ctxp_error_set(err, -ENOMEM, "out of memory");
  return run->sink->close(run->sink->data, err);
}

static struct ctxp_str stem_of(const char *path) {
  const char *slash = strrchr(path, '/');
  struct ctxp_str stem = ctxp_str(slash ? slash + 1 : path);
  if (ctxp_str_ends(stem, ".jsonl")) stem.len -= strlen(".jsonl");
  if (ctxp_str_ends(stem, ".json")) stem.len -= strlen(".json");
  return stem;
}

static void init_transcript(struct run *run, struct ctxp_transcript *t, const char *path, struct ctxp_lines *lines) {
  *t = (struct ctxp_transcript){.path = path, .stem = stem_of(path), .lines = lines, .json = &run->json, .notes = &run->notes};
  t->tick = index_tick;
  t->tick_data = run;
  t->spawned = spawned;
  t->note_spawned = note_spawned;
  t->spawned_data = run;
}

static bool is_database(struct ctxp_lines *lines) {
  struct ctxp_str head;
  return lines->size >= 16 && ctxp_lines_read(lines, 0, 15, &head) > 0 && ctxp_str_is(head, "SQLite format 3");
}

static bool is_live(const struct run *run, uint64_t modified_ms) {
  uint64_t now = ctxp_clock_utc_ms(), age = now > modified_ms ? now - modified_ms : 0;
  return age < run->options->live_s * 1000;
}

/* What could not be read as it is told; <0 only where nothing more can be read. */
static int tell_fault(struct run *run, int r, const struct ctxp_error *why, struct ctxp_error *err) {
  if (r == -ENOMEM) return ctxp_error_set(err, r, "%s", why->text);
  ctxp_notes_fault(&run->notes, "%s", why->text);
  return 0;
}

/* ---- small files: indexed ahead ---- */
static int send_indexed(struct run *run, struct indexed *x, struct ctxp_error *err) {
  run->file = x->number;
  int r = send_file(run, &x->t, err);
  ctxp_transcript_close(&x->t);
  return r;
}

/* Sends the first of those that wait until only so many are left. */
static int send_ahead(struct run *run, uint32_t left, struct ctxp_error *err) {
  int r = 0;
  while (r == 0 && run->ahead_count > left) {
    struct indexed *x = &run->ahead[run->ahead_first];
    run->ahead_first = (run->ahead_first + 1) % AHEAD;
    run->ahead_count--;
    r = send_indexed(run, x, err);
  }
  return r;
}

static int wait_ahead(struct run *run, struct indexed *x, struct ctxp_error *err) {
  char key[KEY_MAX];
  const char *agent = run->options->agent ? run->options->agent : x->t.format->name;
  run->ahead_count++;
  make_key(&x->t, 1, key);
  return run->sink->expect ? run->sink->expect(run->sink->data, key, x->t.format->name, agent, err) : 0;
}

/* ---- opencode's storage: sessions that are no files of their own ---- */
static int send_text(struct run *run, const char *name, struct opencode_text *text, uint64_t modified_ms, struct ctxp_error *err) {
  ctxp_cleanup(ctxp_transcript_close) struct ctxp_transcript t = {0};
  struct ctxp_lines lines;
  struct ctxp_error why;
  if (text->bad)
    ctxp_notes_fault(&run->notes, "%s: %u of its records could not be read and %s passed over", name, text->bad,
        text->bad == 1 ? "was" : "were");
  int r = send_ahead(run, 0, err);
  if (r < 0) return r;
  ctxp_lines_memory(&lines, ctxp_buf_raw(text->out));
  init_transcript(run, &t, name, &lines);
  t.live = is_live(run, modified_ms);
  r = ctxp_transcript_open(&t, &ctxp_format_opencode, &why);
  if (r < 0) return tell_fault(run, r, &why, err);
  run->result->lines += t.line_count;
  return t.live && !t.places.count ? 0 : send_file(run, &t, err);
}

static int read_database(struct run *run, const struct ctxp_file *file, struct ctxp_error *err) {
  struct opencode_db *db = NULL;
  ctxp_auto_buf bytes = {0};
  struct opencode_text text = {.out = &bytes, .json = &run->json};
  struct ctxp_error why;
  uint64_t modified_ms, files = run->result->files;
  int r = opencode_db_open(file->path, &db, &why);
  if (r > 0 && file->named)
    ctxp_notes_fault(&run->notes, "%s: is a database, but not opencode's: it lacks the tables session, message and part", file->path);
  else if (r > 0)
    ctxp_notes_passed(&run->notes, CTXP_STR("database that is not opencode's"));
  if (r != 0) return r > 0 ? 0 : tell_fault(run, r, &why, err);
  for (unsigned i = 0, count = opencode_db_count(db); r == 0 && i < count; i++) {
    ctxp_auto_buf name = {0};
    struct ctxp_str id = opencode_db_session(db, i, &modified_ms);
    run->half = file->size * i / count;
    if (modified_ms < run->options->since_ms) continue;
    if (stopped(run)) r = ctxp_error_set(err, -EINTR, "the import was stopped");
    ctxp_buf_printf(&name, "%s: session %.*s", file->path, (int)(id.len < 200 ? id.len : 200), id.ptr);
    if (r == 0) r = opencode_db_read(db, i, &text, &why);
    if (r == 0)
      r = send_text(run, ctxp_buf_cstr(&name), &text, modified_ms, err);
    else if (r != -EINTR)
      r = tell_fault(run, r, &why, err);
  }
  opencode_db_free(db);
  run->result->files = files + (run->result->files > files); /* it is one file, however many sessions it holds */
  return r;
}

/* 1: it is no session of opencode's */
static int read_storage(struct run *run, const struct ctxp_file *file, struct ctxp_error *err) {
  ctxp_auto_buf bytes = {0};
  struct opencode_text text = {.out = &bytes, .json = &run->json};
  struct ctxp_error why;
  uint64_t modified_ms = 0;
  int r = opencode_files_read(file->path, &text, &modified_ms, &why);
  if (r < 0) return tell_fault(run, r, &why, err);
  return r > 0 ? 1 : send_text(run, file->path, &text, modified_ms, err);
}

/* ---- files ---- */
static void tell_unknown(struct run *run, const struct ctxp_file *file, uint64_t size) {
  if (size == 0)
    ctxp_notes_fault(&run->notes, "%s: is empty", file->path);
  else if (file->named)
    ctxp_notes_fault(&run->notes, "%s: is no transcript of a format that is known (" CTXP_FORMAT_NAMES ")", file->path);
  else
    ctxp_notes_passed(&run->notes, CTXP_STR("file of an unknown format"));
}

/* a file that cannot be read is told and passed over; <0: nothing more can be sent */
static int read_file(struct run *run, const struct ctxp_file *file, uint32_t number, struct ctxp_error *err) {
  struct ctxp_error why = {""};
  bool stored = !run->format || run->format == &ctxp_format_opencode, small = file->size <= AHEAD_BYTES;
  int r = send_ahead(run, small ? AHEAD - 1 : 0, err), s;
  if (r < 0) return r;
  struct indexed *x = small ? &run->ahead[(run->ahead_first + run->ahead_count) % AHEAD] : &run->large;
  x->number = run->file = number;
  r = ctxp_lines_open(&x->lines, file->path, &why);
  init_transcript(run, &x->t, file->path, &x->lines);
  x->t.live = is_live(run, x->lines.modified_ms);
  if (r == 0 && x->t.live && x->lines.size == 0) return 0;
  if (r == 0 && stored && is_database(&x->lines)) return read_database(run, file, err);
  if (r == 0 && stored && ctxp_str_ends(ctxp_str(file->path), ".json") && (s = read_storage(run, file, err)) <= 0) return s;
  if (r == 0) r = ctxp_transcript_open(&x->t, run->format, &why);
  if (r == 0 && !x->t.format && !x->t.live) tell_unknown(run, file, x->lines.size); /* else it may not be whole */
  run->result->lines += r == 0 ? x->t.line_count : 0;
  if (r == 0 && x->t.format) return small ? wait_ahead(run, x, err) : send_indexed(run, x, err);
  ctxp_transcript_close(&x->t);
  return r < 0 ? tell_fault(run, r, &why, err) : 0;
}

static int read_files(struct run *run, const struct ctxp_files *files, struct ctxp_error *err) {
  int r = 0;
  run->progress.files_total = files->count;
  run->progress.bytes_total = files->bytes;
  for (uint32_t i = 0; r == 0 && i < files->count; i++) {
    if (stopped(run)) return ctxp_error_set(err, -EINTR, "the import was stopped");
    run->half = 0;
    ctxp_notes_file(&run->notes, files->items[i].path);
    r = read_file(run, &files->items[i], i + 1, err);
    ctxp_notes_file_end(&run->notes);
    run->before += files->items[i].size;
    run->progress.files_done++;
    run->progress.bytes_done = run->before;
    tell(run, false);
  }
  return r == 0 ? send_ahead(run, 0, err) : r;
}

static void init_run(struct run *run) {
  run->large.lines.fd = -1;
  for (unsigned i = 0; i < AHEAD; i++) run->ahead[i].lines.fd = -1;
}

static void deinit_run(struct run *run) {
  ctxp_json_deinit(&run->json);
  ctxp_lines_deinit(&run->large.lines);
  ctxp_transcript_close(&run->large.t);
  for (unsigned i = 0; i < AHEAD; i++) {
    ctxp_transcript_close(&run->ahead[i].t);
    ctxp_lines_deinit(&run->ahead[i].lines);
  }
  ctxp_texts_deinit(&run->sessions);
  ctxp_texts_deinit(&run->spawned);
  ctxp_slots_deinit(&run->spawned_by);
  ctxp_texts_deinit(&run->calls);
  ctxp_slots_deinit(&run->told_by);
}

int ctxp_import_check_format(const char *name, struct ctxp_error *err) {
  if (ctxp_format_find(name)) return 0;
  return ctxp_error_set(err, -EINVAL, "there is no format '%s'; the formats are " CTXP_FORMAT_NAMES, name);
}

int ctxp_import_files(const struct ctxp_import_options *options, const struct ctxp_import_sink *sink, struct ctxp_import_result *ret_result,
    struct ctxp_error *err) {
  ctxp_cleanup(ctxp_files_deinit) struct ctxp_files files = {0};
  ctxp_cleanup(deinit_run) struct run run = {.options = options, .sink = sink, .result = ret_result};
  init_run(&run);
  *ret_result = (struct ctxp_import_result){0};
  if (options->format && ctxp_import_check_format(options->format, err) < 0) return -EINVAL;
  if (options->format) run.format = ctxp_format_find(options->format);
  ctxp_notes_begin(&run.notes, ret_result);
  int r = ctxp_files_find(&files, options->paths, options->path_count, &run.notes);
  if (r < 0) ctxp_error_set(err, r, "out of memory while looking for files");
  if (r == 0) r = read_files(&run, &files, err);
  ret_result->sessions = run.sessions.count ? run.sessions.count - 1 : 0;
  ctxp_notes_end(&run.notes);
  tell(&run, true);
  if (r == 0 && (ret_result->passed_over.failed || ret_result->faults.failed || ret_result->remarks.failed))
    r = ctxp_error_set(err, -ENOMEM, "out of memory");
  return r;
}

void ctxp_import_result_deinit(struct ctxp_import_result *result) {
  ctxp_buf_deinit(&result->passed_over);
  ctxp_buf_deinit(&result->faults);
  ctxp_buf_deinit(&result->remarks);
}

int ctxp_import_memory(
    struct ctxp_raw bytes, int (*send)(void *data, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err), void *data) {
  const struct ctxp_import_options options = {0};
  ctxp_cleanup(ctxp_import_result_deinit) struct ctxp_import_result result = {0};
  ctxp_cleanup(deinit_run) struct run run = {.options = &options, .result = &result};
  ctxp_cleanup(ctxp_transcript_close) struct ctxp_transcript t = {0};
  struct ctxp_lines lines;
  struct ctxp_error err;
  init_run(&run);
  ctxp_notes_begin(&run.notes, &result);
  ctxp_notes_file(&run.notes, "memory");
  ctxp_lines_memory(&lines, bytes);
  init_transcript(&run, &t, "memory.jsonl", &lines);
  int r = ctxp_transcript_open(&t, NULL, &err);
  if (r == 0 && t.format) {
    struct ctxp_feed feed = {.send = send, .data = data, .places = &t.places, .agent = ctxp_str(t.format->name)};
    r = t.format->emit(&t, &feed, &err);
  }
  ctxp_notes_file_end(&run.notes);
  ctxp_notes_end(&run.notes);
  return r;
}
