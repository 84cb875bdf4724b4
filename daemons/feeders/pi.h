/* pi's session files (and OpenClaw's, which are the same) and the streams of `pi --mode json` as an index of one file. A session is a tree
 * of entries; the request of a call is the path from the root to it, from the latest compaction on that path. */
#pragma once
#include "feeders/format.h"
#include "feeders/window.h"

enum pi_kind { PI_LINK,
  PI_MESSAGE,
  PI_REPLY,
  PI_COMPACTION,
  PI_EDIT };

struct pi_call {
  uint32_t id, name, path, tokens, content_tokens, next; /* + 1 */
  uint32_t input_at, input_len, result; /* entry + 1 */
  struct ctxp_buf input;
};

struct pi_usage { /* of a reply, or beside the window: of a compaction, a branch summary, a cache kept warm */
  uint64_t input, cache_read, write_5m, write_1h, output, reasoning;
  int64_t input_nano, cache_read_nano, cache_write_nano, output_nano, total_nano;
  uint32_t call_id, model; /* names */
  bool reported, priced, split, total;
};

struct pi_entry {
  uint64_t offset, ts_ms;
  uint64_t units, pieces;
  uint32_t bytes;
  uint32_t id, parent_id; /* names */
  uint32_t parent; /* entry + 1 */
  uint32_t place; /* among all lines, the header being 0 */
  uint32_t tokens, images;
  uint32_t usage; /* + 1 */
  uint32_t calls; /* of a reply: the first + 1 */
  uint32_t answers, tool, label; /* names */
  uint32_t kept; /* compaction: name of the first entry kept; edit: name of its target */
  uint32_t kept_place; /* compaction, in old files: its place; 0: none */
  uint64_t before; /* compaction: tokens before it */
  uint64_t signature_units;
  uint32_t text_at, text_len; /* of a result: its content's JSON, within the line */
  uint8_t kind, band, role;
  bool resident; /* it is sent to the model */
  bool person, failed, thinks, cleaned, rootless /* says that it has no parent */;
};

struct pi {
  struct ctxp_texts names;
  struct pi_entry *entries;
  struct pi_usage *usages;
  struct pi_call *calls;
  uint32_t entry_count, entry_cap, usage_count, usage_cap, call_count, call_cap;
  struct ctxp_slots entry_of, call_of; /* by name, + 1 */
  uint32_t session, thread, cwd, model; /* names; model: as the last model_change has it */
  uint64_t start_ms;
  bool edits; /* there are context edits: requests are made anew each time */
  struct ctxp_buf scratch;
};

int pi_index(struct ctxp_transcript *transcript, struct ctxp_error *err);
int pi_emit(struct ctxp_transcript *transcript, struct ctxp_feed *feed, struct ctxp_error *err);
void pi_close(struct ctxp_transcript *transcript);
