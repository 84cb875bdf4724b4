#include <errno.h>
#include "collector/chain.h"

static struct ctxp_hash128 window_of(const struct ctxp_event *event) {
  const struct ctxp_str parts[3] = {event->agent, event->session, event->thread};
  uint8_t bytes[3 * 516];
  size_t len = 0;
  for (int i = 0; i < 3; i++) { /* the decoder allows 512 bytes each */
    uint32_t part = parts[i].len > 512 ? 512 : (uint32_t)parts[i].len;
    memcpy(bytes + len, &part, 4);
    if (part) memcpy(bytes + len + 4, parts[i].ptr, part);
    len += 4 + part;
  }
  return ctxp_hash128(bytes, len);
}

static unsigned find(const struct ctxp_chain *chain, struct ctxp_hash128 window) {
  unsigned i = 0;
  while (i < chain->count && (chain->exceptions[i].hi != window.hi || chain->exceptions[i].lo != window.lo)) i++;
  return i;
}

static void take_out(struct ctxp_chain *chain, unsigned i) {
  chain->count--;
  memmove(chain->exceptions + i, chain->exceptions + i + 1, (chain->count - i) * sizeof(chain->exceptions[0]));
}

static void set(struct ctxp_chain *chain, struct ctxp_hash128 window, bool broken) {
  unsigned i = find(chain, window);
  bool listed = i < chain->count;
  if (broken == chain->broken) {
    if (listed) take_out(chain, i);
    return;
  }
  if (listed) return;
  if (chain->count == CTXP_CHAIN_MAX) {
    if (broken) {
      ctxp_chain_break_all(chain);
      return;
    }
    take_out(chain, 0);
  }
  chain->exceptions[chain->count++] = window;
}

void ctxp_chain_break_all(struct ctxp_chain *chain) {
  chain->broken = true;
  chain->count = 0;
}

void ctxp_chain_break(struct ctxp_chain *chain, const struct ctxp_event *event) {
  if (event->session.len == 0)
    ctxp_chain_break_all(chain);
  else
    set(chain, window_of(event), true);
}

bool ctxp_chain_prompt(struct ctxp_chain *chain, const struct ctxp_event *prompt) {
  if (!chain->broken && chain->count == 0) return true;
  struct ctxp_hash128 window = window_of(prompt);
  bool whole = ctxp_has(&prompt->prompt, prompt, request) || prompt->prompt.keep == 0;
  bool broken = (find(chain, window) < chain->count) != chain->broken;
  if (broken && !whole) return false;
  set(chain, window, false);
  return true;
}

void ctxp_chain_pack(struct ctxp_buf *out, const struct ctxp_chain *chain) {
  ctxp_pack_array(out, 1 + 2 * chain->count);
  ctxp_pack_bool(out, chain->broken);
  for (unsigned i = 0; i < chain->count; i++) {
    ctxp_pack_u64(out, chain->exceptions[i].hi);
    ctxp_pack_u64(out, chain->exceptions[i].lo);
  }
}

int ctxp_chain_unpack(struct ctxp_raw value, struct ctxp_chain *ret) {
  struct ctxp_cursor c = ctxp_cursor(value);
  struct ctxp_pack_value v;
  struct ctxp_chain chain = {0};
  uint32_t count;
  if (ctxp_array_open(&c, &count) < 0 || count % 2 == 0 || count / 2 > CTXP_CHAIN_MAX) return -EBADMSG;
  if (ctxp_cursor_next(&c, &v) < 0 || v.type != CTXP_PACK_BOOL) return -EBADMSG;
  chain.broken = v.b;
  for (chain.count = 0; chain.count < count / 2; chain.count++) {
    uint64_t part[2];
    for (int i = 0; i < 2; i++) {
      if (ctxp_cursor_next(&c, &v) < 0 || v.type != CTXP_PACK_U64) return -EBADMSG;
      part[i] = v.u;
    }
    chain.exceptions[chain.count] = (struct ctxp_hash128){part[0], part[1]};
  }
  *ret = chain;
  return 0;
}
