#include "runtime/decision.h"
#include "codec/msgpack.h"
#include <errno.h>

struct ctxp_raw ctxp_decision_key(uint64_t cause, uint8_t room[CTXP_DECISION_KEY]) {
  memcpy(room, "call/", 5);
  for (int i = 0; i < 8; i++) room[5 + i] = (uint8_t)(cause >> (56 - 8 * i));
  room[13] = 0; /* the event's first call, and its only one */
  return (struct ctxp_raw){room, CTXP_DECISION_KEY};
}

uint64_t ctxp_decision_cause(struct ctxp_raw key) {
  uint64_t cause = 0;
  if (key.len != CTXP_DECISION_KEY) return 0;
  for (int i = 0; i < 8; i++) cause = cause << 8 | key.ptr[5 + i];
  return cause;
}

static void pair_u64(struct ctxp_buf *out, const char *key, uint64_t value) {
  ctxp_pack_cstr(out, key);
  ctxp_pack_u64(out, value);
}

void ctxp_decision_pack_begun(struct ctxp_buf *out, uint64_t times, uint64_t tokens) {
  ctxp_pack_map(out, 2);
  pair_u64(out, "lost", times);
  pair_u64(out, "lostTokens", tokens);
}

void ctxp_decision_pack(struct ctxp_buf *out, const struct ctxp_model_reply *reply) {
  ctxp_pack_map(out, 8);
  pair_u64(out, "lost", reply->lost);
  pair_u64(out, "lostTokens", reply->lost_tokens);
  pair_u64(out, "outcome", reply->outcome);
  ctxp_pack_cstr(out, "text");
  ctxp_pack_str(out, reply->text);
  ctxp_pack_cstr(out, "why");
  ctxp_pack_str(out, reply->why);
  pair_u64(out, "inputTokens", reply->input_tokens);
  pair_u64(out, "outputTokens", reply->output_tokens);
  pair_u64(out, "durationMs", reply->duration_ms);
}

int ctxp_decision_unpack(struct ctxp_raw record, struct ctxp_model_reply *ret_reply) {
  if (record.len == 0 || ctxp_pack_check(record) < 0 || ctxp_raw_type(record) != CTXP_PACK_MAP) return -EBADMSG;
  uint64_t outcome = ctxp_map_u64(record, "outcome", CTXP_MODEL_OUTCOMES);
  bool begun = !ctxp_map_get(record, "outcome").len;
  if (!begun && outcome >= CTXP_MODEL_OUTCOMES) return -EBADMSG;
  *ret_reply = (struct ctxp_model_reply){.outcome = begun ? CTXP_MODEL_LOST : (enum ctxp_model_outcome)outcome,
      .text = ctxp_map_str(record, "text"),
      .why = ctxp_map_str(record, "why"),
      .input_tokens = ctxp_map_u64(record, "inputTokens", 0),
      .output_tokens = ctxp_map_u64(record, "outputTokens", 0),
      .duration_ms = ctxp_map_u64(record, "durationMs", 0),
      .lost = ctxp_map_u64(record, "lost", 0),
      .lost_tokens = ctxp_map_u64(record, "lostTokens", 0)};
  return begun;
}
