/* Claude Code's records as an index of one file: lines, messages, calls and responses, all by number. The rules are those of its own
 * client: which lines make up a request is told by the chain of parents, not by their order.
 *
 * A response is written as one line per content block, all with its message id and (mostly) its usage, so it is counted by that id,
 * with the largest usage among its lines. */
#pragma once
#include "feeders/format.h"
#include "feeders/window.h"

enum claude_kind { CLAUDE_LINK,
  CLAUDE_USER,
  CLAUDE_ASSISTANT,
  CLAUDE_ATTACHMENT,
  CLAUDE_BOUNDARY };

struct claude_line {
  uint64_t offset, ts_ms;
  uint64_t sum; /* assistant: reported tokens of all classes; boundary: tokens before the compaction */
  uint32_t bytes;
  uint32_t uuid, parent; /* names; 0: none */
  uint32_t thread; /* name: 0 the main one, else the sub-agent's id */
  uint32_t messages; /* user, attachment: number of the first */
  uint32_t response; /* assistant: its number */
  uint32_t calls; /* assistant: first call of this line + 1 */
  uint32_t previous; /* in the same thread, of those that can be messages, + 1 */
  uint16_t message_count;
  uint8_t kind; /* enum claude_kind */
  bool sidechain, unthreaded /* a sub-agent's, without its id */, summary, cleaned /* was no UTF-8 */;
};

struct claude_message {
  uint32_t id, label; /* names */
  uint32_t answers; /* name of the call that it answers; 0: none */
  uint32_t line;
  uint32_t tokens, images;
  uint32_t text_at, text_len; /* of a result or a listing of skills: its content's JSON, within the line */
  uint64_t units, pieces;
  uint8_t band, role;
  bool person, failed, listing; /* of skills */
};

struct claude_call {
  uint32_t id, name, path; /* names */
  uint32_t tokens, content_tokens;
  uint32_t input_at, input_len; /* its input's JSON, within its line */
  uint32_t next_in_line, next_in_response; /* + 1 */
  struct ctxp_buf input; /* kept until its result */
};

struct claude_usage {
  uint64_t input, cache_read, write_5m, write_1h, output;
};

struct claude_response {
  uint32_t id, request, model, speed, tier; /* names; id is 0 where there was none */
  uint32_t first, last; /* lines */
  uint32_t message;
  uint32_t calls, last_call; /* + 1 */
  uint32_t blocks; /* hashes of its blocks, a list, + 1 */
  uint32_t twin; /* an earlier response of the same message id, + 1 */
  uint64_t sum, signature_units;
  struct claude_usage usage;
  bool thinks, synthetic, reported;
};

struct claude_block {
  uint64_t hash;
  uint32_t next;
};

struct claude {
  struct ctxp_texts names;
  struct claude_line *lines;
  struct claude_message *messages;
  struct claude_call *calls;
  struct claude_response *responses;
  struct claude_block *blocks;
  uint32_t line_count, line_cap, message_count, message_cap, call_count, call_cap, response_count, response_cap, block_count, block_cap;
  struct ctxp_slots line_of, response_of, call_of, result_of; /* by name, + 1 */
  struct ctxp_slots last_of; /* by thread's name: its last line that can be a message, + 1 */
  struct ctxp_slots spawned_by; /* by the sub-agent's name: name of the call */
  uint32_t session, cwd, branch; /* names */
  bool session_is_stem;
  struct ctxp_buf scratch;
};

int claude_index(struct ctxp_transcript *transcript, struct ctxp_error *err);
int claude_emit(struct ctxp_transcript *transcript, struct ctxp_feed *feed, struct ctxp_error *err);
void claude_close(struct ctxp_transcript *transcript);
