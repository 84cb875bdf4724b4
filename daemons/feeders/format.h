/* The one interface of the formats of agents' records. A file is read twice: first its lines are indexed (a line's parent may stand
 * behind it), then the events are made in the order of the lines. */
#pragma once
#include "codec/json_read.h"
#include "feeders/lines.h"
#include "feeders/notes.h"
#include "feeders/places.h"

#define CTXP_WINDOW_NAME_MAX 400 /* bytes of a session's or a thread's name: the collector takes 512 */

/* Where the events of one file go. An event's place is that of the line that gives it, plus 1, plus its ordinal within the line; so the
 * same file always gives the same places, and what is at or below `position` has been sent before. Its number is made of the place and of
 * what the file was up to the line's end (places.h). */
struct ctxp_feed {
  int (*send)(void *data, const struct ctxp_event *event, uint64_t seq, struct ctxp_error *err);
  void *data;
  const struct ctxp_places *places;
  uint32_t check; /* of the line at hand */
  uint64_t position; /* a place */
  uint64_t seq; /* place of the next event */
  uint64_t line_end; /* the first place of the next line */
  uint64_t events; /* that were sent */
  uint64_t told; /* that the file gives, whether or not they were sent before */
  bool live; /* the sessions of the file go on */
  bool bare; /* texts of results that only their facts are taken of are left out */
  struct ctxp_str agent, session, thread; /* of the next event */
  uint64_t ts_ms;
};

struct ctxp_transcript { /* one file being read */
  const char *path;
  struct ctxp_str stem; /* the file's name without .jsonl */
  struct ctxp_lines *lines;
  struct ctxp_json *json; /* scratch */
  struct ctxp_notes *notes;
  const struct ctxp_format *format;
  void *state; /* the format's */
  struct ctxp_buf identity; /* out of index(): what the file is, wherever it lies: session and thread */
  struct ctxp_places places; /* of its lines */
  uint64_t line_count;
  bool document; /* the file is one JSON text, not lines */
  bool shown; /* its beginning shows the format; else the user said so */
  bool live; /* it is still being written */
  void (*tick)(void *data, uint64_t bytes); /* progress of index(); may be NULL */
  void *tick_data;
  /* The calls that spawned sub-agents, known from other files of the session; empty: not known. */
  struct ctxp_str (*spawned)(void *data, struct ctxp_str agent);
  void (*note_spawned)(void *data, struct ctxp_str agent, struct ctxp_str call);
  void *spawned_data;
};

struct ctxp_format {
  const char *name; /* the product, as `session_start` has it and the default agent */
  /* Does this line (its root is value 0) show that the file is of this format? */
  bool (*detect)(struct ctxp_json *line); /* NULL: the format has no lines */
  bool (*detect_document)(struct ctxp_json *document); /* NULL: the format is never one JSON text as a whole */
  int (*index)(struct ctxp_transcript *transcript, struct ctxp_error *err);
  int (*emit)(struct ctxp_transcript *transcript, struct ctxp_feed *feed, struct ctxp_error *err);
  void (*close)(struct ctxp_transcript *transcript);
};

extern const struct ctxp_format ctxp_format_claude_code, ctxp_format_pi, ctxp_format_codex, ctxp_format_gemini, ctxp_format_gg,
    ctxp_format_opencode;
/* by name; NULL: there is none */
const struct ctxp_format *ctxp_format_find(const char *name);

/* Reads one file of a known or unknown format from `lines` through index(); NULL in transcript->format: no line shows a format. */
int ctxp_transcript_open(struct ctxp_transcript *transcript, const struct ctxp_format *format, struct ctxp_error *err)
    __attribute__((warn_unused_result));
void ctxp_transcript_close(struct ctxp_transcript *transcript);
/* Reads and passes the next line that holds a JSON object to transcript->json; notes the others. 1: a line; 0: the end. */
int ctxp_transcript_line(struct ctxp_transcript *transcript, struct ctxp_line *line) __attribute__((warn_unused_result));

/* The whole file, as a format that is one JSON text has it: kept in *out (as UTF-8) and read into transcript->json. */
int ctxp_transcript_document(struct ctxp_transcript *transcript, struct ctxp_buf *out, struct ctxp_error *err)
    __attribute__((warn_unused_result));

/* ---- sending ---- */
void ctxp_feed_line(struct ctxp_feed *feed, uint64_t offset, uint64_t bytes, uint64_t ts_ms);
/* Sends one event at the next number, unless that has been sent before. */
int ctxp_feed_send(struct ctxp_feed *feed, struct ctxp_event *event, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Uses up a number without an event. */
static inline void ctxp_feed_skip(struct ctxp_feed *feed) { feed->seq++; }
static inline bool ctxp_feed_known(const struct ctxp_feed *feed) { return feed->seq <= feed->position; }
/* At the end of the good lines, and where a shorter version of the file ended: is there room for the next closing event? */
static inline bool ctxp_feed_room(const struct ctxp_feed *feed) { return feed->seq < feed->line_end; }
