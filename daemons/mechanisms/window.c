#include <errno.h>
#include <stdlib.h>
#include "base/hash.h"
#include "base/str.h"
#include "codec/msgpack.h"
#include "mechanisms/window.h"

enum { KEY_MAX = 255 }; /* bytes of a key in a stage's store */

static void pack_names(const struct ctxp_event *ev, struct ctxp_buf *out) {
  ctxp_pack_array(out, 3);
  ctxp_pack_str(out, ev->agent);
  ctxp_pack_str(out, ev->session);
  ctxp_pack_str(out, ev->thread);
}

/* 'w' and the names; where they are too long for a key, 'h' and their hash. The value repeats the names: two long ones that an
 * agent has made to collide are told apart when they are loaded. */
static struct ctxp_raw store_key(struct ctxp_raw names, uint8_t room[KEY_MAX]) {
  if (names.len < KEY_MAX) {
    room[0] = 'w';
    memcpy(room + 1, names.ptr, names.len);
    return (struct ctxp_raw){room, names.len + 1};
  }
  struct ctxp_hash128 hash = ctxp_hash128(names.ptr, names.len);
  room[0] = 'h';
  memcpy(room + 1, &hash, sizeof(hash));
  return (struct ctxp_raw){room, 1 + sizeof(hash)};
}

static bool same(struct ctxp_raw a, struct ctxp_raw b) { return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0; }

static void free_window(struct ctxp_windows *windows, struct ctxp_window *window) {
  windows->ops->deinit(window);
  ctxp_buf_deinit(&window->names);
  free(window);
}

/* 1: not in the store */
static int load(struct ctxp_windows *windows, struct ctxp_stage *stage, struct ctxp_window *window) {
  uint8_t room[KEY_MAX];
  struct ctxp_raw value, names;
  struct ctxp_raw mine = ctxp_buf_raw(&window->names);
  int r = ctxp_stage_get(stage, store_key(mine, room), &value);
  if (r) return r;
  struct ctxp_cursor it = ctxp_cursor(value);
  uint32_t left;
  if (ctxp_array_open(&it, &left) < 0 || left != 2 || ctxp_array_next(&it, &left, &names) < 0) return -EBADMSG;
  if (!same(names, mine)) return 1;
  window->stored = true;
  return windows->ops->load(window, (struct ctxp_raw){it.at, (size_t)(it.end - it.at)});
}

static int insert(struct ctxp_windows *windows, struct ctxp_window *window) {
  ctxp_map_failed = false;
  HASH_ADD_KEYPTR(hh, windows->map, window->names.ptr, window->names.len, window);
  return ctxp_map_failed ? -ENOMEM : 0;
}

/* in the order of use, the latest last */
static int used(struct ctxp_windows *windows, struct ctxp_window *window) {
  if (!window->hh.next) return 0;
  HASH_DEL(windows->map, window);
  int r = insert(windows, window);
  if (r < 0) free_window(windows, window);
  return r;
}

static int lookup(struct ctxp_windows *windows, struct ctxp_stage *stage, const struct ctxp_event *ev, bool make, void *ret_window) {
  ctxp_auto_buf names = {0};
  struct ctxp_window *window;
  pack_names(ev, &names);
  if (names.failed) return -ENOMEM;
  HASH_FIND(hh, windows->map, names.ptr, names.len, window);
  int r;
  if (window) {
    if ((r = used(windows, window)) < 0) return r;
  } else {
    window = calloc(1, windows->ops->size);
    if (!window) return -ENOMEM;
    window->names = names;
    names = (struct ctxp_buf){0};
    r = load(windows, stage, window);
    if (r == 0 || (r == 1 && make)) r = insert(windows, window);
    if (r) {
      free_window(windows, window);
      return r;
    }
  }
  *(void **)ret_window = window;
  return 0;
}

int ctxp_windows_get(struct ctxp_windows *windows, struct ctxp_stage *stage, const struct ctxp_event *ev, void *ret_window) {
  return lookup(windows, stage, ev, true, ret_window);
}

int ctxp_windows_find(struct ctxp_windows *windows, struct ctxp_stage *stage, const struct ctxp_event *ev, void *ret_window) {
  return lookup(windows, stage, ev, false, ret_window);
}

static int store(struct ctxp_windows *windows, struct ctxp_stage *stage, struct ctxp_window *window) {
  uint8_t room[KEY_MAX];
  ctxp_auto_buf value = {0};
  struct ctxp_raw key = store_key(ctxp_buf_raw(&window->names), room);
  bool keep = windows->ops->keeps(window);
  int r = 0;
  if (keep) {
    ctxp_pack_array(&value, 2);
    ctxp_buf_add(&value, window->names.ptr, window->names.len);
    windows->ops->dump(window, &value);
    r = value.failed ? -ENOMEM : ctxp_stage_put(stage, key, ctxp_buf_raw(&value));
  } else if (window->stored) {
    r = ctxp_stage_del(stage, key);
  }
  if (r < 0) return r;
  window->stored = keep;
  window->changed = false;
  return 0;
}

int ctxp_windows_save(struct ctxp_windows *windows, struct ctxp_stage *stage) {
  struct ctxp_window *window, *next;
  for (window = windows->map; window; window = window->hh.next) {
    int r = window->changed ? store(windows, stage, window) : 0;
    if (r < 0) return r;
  }
  unsigned over = HASH_COUNT(windows->map) > CTXP_WINDOWS_MAX ? HASH_COUNT(windows->map) - CTXP_WINDOWS_MAX : 0;
  for (window = windows->map; window; window = next) {
    next = window->hh.next;
    if (window->stored && over == 0) continue;
    if (over) over--;
    HASH_DEL(windows->map, window);
    free_window(windows, window);
  }
  return 0;
}

void ctxp_windows_deinit(struct ctxp_windows *windows) {
  struct ctxp_window *window, *next;
  for (window = windows->map; window; window = next) {
    next = window->hh.next;
    HASH_DEL(windows->map, window);
    free_window(windows, window);
  }
}

bool ctxp_missed_here(const struct ctxp_stage *stage, const struct ctxp_answer_missed *said) {
  return !ctxp_has(said, answer_missed, mechanism) || ctxp_str_is(said->mechanism, ctxp_stage_node(stage));
}

int ctxp_windows_save_all(struct ctxp_stage *stage) { return ctxp_windows_save(ctxp_stage_state(stage), stage); }
void ctxp_windows_close(struct ctxp_stage *stage) { ctxp_windows_deinit(ctxp_stage_state(stage)); }
