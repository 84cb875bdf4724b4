#include <errno.h>
#include "bus/answers.h"

void ctxp_verdict_write(struct ctxp_buf *out, const struct ctxp_verdict *verdict) {
  ctxp_pack_array(out, 4);
  ctxp_pack_u64(out, CTXP_ANSWERS_VERSION);
  ctxp_pack_str(out, verdict->node);
  ctxp_pack_u64(out, verdict->ask_seq);
  if (verdict->kind == CTXP_VERDICT_ACTIONS)
    ctxp_pack_raw(out, verdict->actions);
  else
    ctxp_pack_bool(out, verdict->kind == CTXP_VERDICT_WORKING);
}

int ctxp_verdict_read(struct ctxp_raw message, struct ctxp_verdict *ret) {
  struct ctxp_cursor c = ctxp_cursor(message);
  struct ctxp_pack_value version, node, seq, verdict;
  uint32_t count;
  if (message.len == 0 || ctxp_pack_check(message) < 0 || ctxp_array_open(&c, &count) < 0 || count != 4) return -EBADMSG;
  if (ctxp_cursor_next(&c, &version) < 0 || version.type != CTXP_PACK_U64 || version.u != CTXP_ANSWERS_VERSION) return -EBADMSG;
  if (ctxp_cursor_next(&c, &node) < 0 || node.type != CTXP_PACK_STR) return -EBADMSG;
  if (ctxp_cursor_next(&c, &seq) < 0 || seq.type != CTXP_PACK_U64) return -EBADMSG;
  struct ctxp_raw rest = {c.at, (size_t)(c.end - c.at)};
  if (ctxp_cursor_next(&c, &verdict) < 0 || (verdict.type != CTXP_PACK_BOOL && verdict.type != CTXP_PACK_MAP)) return -EBADMSG;
  *ret = (struct ctxp_verdict){node.str, seq.u, CTXP_VERDICT_ACTIONS, rest};
  if (verdict.type == CTXP_PACK_BOOL) {
    ret->kind = verdict.b ? CTXP_VERDICT_WORKING : CTXP_VERDICT_PASS;
    ret->actions = (struct ctxp_raw){0};
  }
  return 0;
}
