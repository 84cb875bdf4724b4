#include <errno.h>
#include "collector/merge.h"

struct all { /* what every mechanism said */
  const struct ctxp_raw *actions;
  unsigned count;
};

static bool in_array(struct ctxp_raw array, struct ctxp_str text) {
  struct ctxp_cursor it = ctxp_cursor(array);
  struct ctxp_raw value;
  uint32_t left;
  if (array.len == 0 || ctxp_array_open(&it, &left) < 0) return false;
  while (ctxp_array_next(&it, &left, &value) > 0)
    if (ctxp_str_eq(ctxp_raw_str(value), text)) return true;
  return false;
}

/* does somebody name this text in the array `key`? */
static bool named(struct all all, const char *key, struct ctxp_str text) {
  for (unsigned i = 0; i < all.count; i++)
    if (in_array(ctxp_map_get(all.actions[i], key), text)) return true;
  return false;
}

static bool stripped(struct all all, struct ctxp_str message, struct ctxp_str call) {
  for (unsigned i = 0; i < all.count; i++) {
    struct ctxp_raw strip = ctxp_map_get(all.actions[i], "strip"), value;
    struct ctxp_cursor it = ctxp_cursor(strip);
    struct ctxp_str id;
    uint32_t left;
    if (strip.len == 0 || ctxp_map_open(&it, &left) < 0) continue;
    while (ctxp_map_next(&it, &left, &id, &value) > 0)
      if (ctxp_str_eq(id, message) && in_array(value, call)) return true;
  }
  return false;
}

static int first(struct all all, const char *key, struct ctxp_buf *out) {
  for (unsigned i = 0; i < all.count; i++) {
    struct ctxp_raw value = ctxp_map_get(all.actions[i], key);
    if (ctxp_raw_type(value) == CTXP_PACK_NIL) continue;
    ctxp_pack_cstr(out, key);
    ctxp_pack_raw(out, value);
    return 1;
  }
  return 0;
}

/* what was written from `mark` on goes again if it is empty */
static int keep_if(struct ctxp_buf *out, size_t mark, size_t head, uint32_t count) {
  if (count == 0 || out->failed) {
    if (!out->failed) out->len = mark;
    return 0;
  }
  ctxp_pack_close(out, head, count);
  return 1;
}

static int merge_remove(struct all all, struct ctxp_list messages, struct ctxp_buf *out) {
  struct ctxp_skeleton m;
  size_t mark = out->len;
  uint32_t count = 0;
  ctxp_pack_cstr(out, "remove");
  size_t head = ctxp_pack_array_open(out);
  while (ctxp_list_next(&messages, &ctxp_shape_skeleton, &m) > 0)
    if (named(all, "remove", m.id)) count++, ctxp_pack_str(out, m.id);
  return keep_if(out, mark, head, count);
}

/* the calls of one message that are stripped, as a pair of the map */
static uint32_t strip_calls(struct all all, const struct ctxp_skeleton *m, struct ctxp_buf *out) {
  struct ctxp_list calls = m->calls;
  struct ctxp_call call;
  size_t mark = out->len;
  uint32_t count = 0;
  ctxp_pack_str(out, m->id);
  size_t head = ctxp_pack_array_open(out);
  while (ctxp_list_next(&calls, &ctxp_shape_call, &call) > 0)
    if (stripped(all, m->id, call.id)) count++, ctxp_pack_str(out, call.id);
  return (uint32_t)keep_if(out, mark, head, count);
}

static int merge_strip(struct all all, struct ctxp_list messages, struct ctxp_buf *out) {
  struct ctxp_skeleton m;
  size_t mark = out->len;
  uint32_t count = 0;
  ctxp_pack_cstr(out, "strip");
  size_t head = ctxp_pack_map_open(out);
  while (ctxp_list_next(&messages, &ctxp_shape_skeleton, &m) > 0)
    if (!named(all, "remove", m.id)) count += strip_calls(all, &m, out);
  return keep_if(out, mark, head, count);
}

static int merge_strip_content(struct all all, struct ctxp_list messages, struct ctxp_buf *out) {
  struct ctxp_skeleton m;
  struct ctxp_call call;
  size_t mark = out->len;
  uint32_t count = 0;
  ctxp_pack_cstr(out, "stripContent");
  size_t head = ctxp_pack_array_open(out);
  while (ctxp_list_next(&messages, &ctxp_shape_skeleton, &m) > 0)
    while (ctxp_list_next(&m.calls, &ctxp_shape_call, &call) > 0)
      if (named(all, "stripContent", call.id)) count++, ctxp_pack_str(out, call.id);
  return keep_if(out, mark, head, count);
}

int ctxp_merge(struct ctxp_list messages, const struct ctxp_raw *actions, unsigned count, struct ctxp_buf *out) {
  struct all all = {actions, count};
  size_t head = ctxp_pack_map_open(out);
  int pairs = first(all, "replace", out) + first(all, "inject", out) + merge_remove(all, messages, out) + merge_strip(all, messages, out) +
      merge_strip_content(all, messages, out);
  ctxp_pack_close(out, head, (uint32_t)pairs);
  return out->failed ? -ENOMEM : pairs;
}
