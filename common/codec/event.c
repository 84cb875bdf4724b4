/* The table of events as data, and the decoder and encoder that walk it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "codec/msgpack.h"
#include "ctxpipe/event.h"

/* ---- tables from event.def ---- */
#define WIRE(name, shown) #name,
#define SHOWN(name, shown) shown,
#define ENUM_NAMES(e, members) \
  static const char *const wire_##e[] = {members(WIRE)}; \
  static const char *const shown_##e[] = {members(SHOWN)}; \
  const struct ctxp_names ctxp_names_##e = {#e, wire_##e, shown_##e, sizeof(wire_##e) / sizeof(wire_##e[0])};
CTXP_ENUMS(ENUM_NAMES)

#define SHAPE_STR(rec) NULL, NULL
#define SHAPE_U64(rec) NULL, NULL
#define SHAPE_I64(rec) NULL, NULL
#define SHAPE_BOOL(rec) NULL, NULL
#define SHAPE_TIME(rec) NULL, NULL
#define SHAPE_NANO(rec) NULL, NULL
#define SHAPE_STRS(rec) NULL, NULL
#define SHAPE_RAW(rec) NULL, NULL
#define SHAPE_ENUM(rec) NULL, &ctxp_names_##rec
#define SHAPE_REC(rec) &ctxp_shape_##rec, NULL
#define SHAPE_LIST(rec) &ctxp_shape_##rec, NULL
#define FIELD(S, type, rec, name, need, doc) \
  {#name, sizeof(#name) - 1, CTXP_TYPE_##type, CTXP_NEED_##need, SHAPE_##type(rec), offsetof(struct ctxp_##S, name), doc},
#define REQUIRED_REQ(S, name) | UINT64_C(1) << CTXP_IX_##S##_##name
#define REQUIRED_OPT(S, name)
#define REQUIRED_OWN(S, name)
#define REQUIRED(S, type, rec, name, need, doc) REQUIRED_##need(S, name)
#define SHAPE(c, fields) \
  static const struct ctxp_field fields_##c[] = {fields(FIELD, c){NULL, 0, CTXP_TYPE_STR, CTXP_NEED_OPT, NULL, NULL, 0, NULL}}; \
  const struct ctxp_shape ctxp_shape_##c = {#c, fields_##c, CTXP_COUNT_##c, sizeof(struct ctxp_##c), 0 fields(REQUIRED, c)}; \
  _Static_assert(CTXP_COUNT_##c <= 64, "presence is one bit a field");
CTXP_RECORDS(SHAPE)
#define KIND_SHAPE(id, c, wire, group, fields, doc) SHAPE(c, fields)
CTXP_KINDS(KIND_SHAPE)

#define KIND_INFO(id, c, wire, group, fields, doc) [id] = {wire, CTXP_GROUP_##group, &ctxp_shape_##c, doc},
static const struct ctxp_kind_info kinds[CTXP_KIND_MAX] = {CTXP_KINDS(KIND_INFO)};

const struct ctxp_kind_info *ctxp_kind_info(enum ctxp_kind kind) {
  return (unsigned)kind < CTXP_KIND_MAX && kinds[kind].name ? &kinds[kind] : NULL;
}

/* most names differ in their first letter */
static bool is_name(struct ctxp_str text, const char *name) { return text.len && text.ptr[0] == name[0] && ctxp_str_is(text, name); }

enum ctxp_kind ctxp_kind_parse(struct ctxp_str name) {
  for (unsigned i = 0; i < CTXP_KIND_MAX; i++)
    if (kinds[i].name && is_name(name, kinds[i].name)) return (enum ctxp_kind)i;
  return CTXP_KIND_NONE;
}

static bool names_parse(const struct ctxp_names *names, struct ctxp_str text, unsigned *ret) {
  for (unsigned i = 0; i < names->count; i++)
    if (is_name(text, names->wire[i])) return *ret = i, true;
  return false;
}

const char *ctxp_band_name(enum ctxp_band band) { return band < CTXP_BAND_COUNT ? wire_band[band] : "?"; }
const char *ctxp_band_shown(enum ctxp_band band) { return band < CTXP_BAND_COUNT ? shown_band[band] : "?"; }
bool ctxp_band_parse(struct ctxp_str name, enum ctxp_band *ret_band) {
  unsigned index;
  if (!names_parse(&ctxp_names_band, name, &index)) return false;
  *ret_band = (enum ctxp_band)index;
  return true;
}

/* ---- decoding ---- */
static int refuse(struct ctxp_fault *fault, const char *field, const char *reason) {
  if (fault) {
    snprintf(fault->field, sizeof(fault->field), "%s", field);
    snprintf(fault->reason, sizeof(fault->reason), "%s", reason);
  }
  return -EBADMSG;
}

static const char *const type_said[] = {[CTXP_TYPE_STR] = "a text in UTF-8",
    [CTXP_TYPE_U64] = "a whole number from 0",
    [CTXP_TYPE_I64] = "a whole number",
    [CTXP_TYPE_BOOL] = "true or false",
    [CTXP_TYPE_TIME] = "a time",
    [CTXP_TYPE_NANO] = "a whole number of nano-dollars",
    [CTXP_TYPE_ENUM] = "a known name",
    [CTXP_TYPE_REC] = "a map",
    [CTXP_TYPE_LIST] = "an array of maps",
    [CTXP_TYPE_STRS] = "an array of texts",
    [CTXP_TYPE_RAW] = "a well-formed value"};

static int decode_record(
    struct ctxp_raw raw, const struct ctxp_shape *shape, bool deep, void *out, unsigned *unknown, struct ctxp_fault *fault);

/* checks every element once, so that reading the list later cannot fail */
static int decode_list(
    struct ctxp_raw raw, const struct ctxp_field *field, bool deep, struct ctxp_list *out, unsigned *unknown, struct ctxp_fault *fault) {
  struct ctxp_cursor it = ctxp_cursor(raw);
  uint32_t left;
  if (ctxp_array_open(&it, &left) < 0) return -EBADMSG;
  *out = (struct ctxp_list){it.at, (size_t)(it.end - it.at), left};
  if (!deep) return 0;
  union {
#define RECORD_UNION(c, fields) struct ctxp_##c c;
    CTXP_RECORDS(RECORD_UNION)
  } scratch;
  struct ctxp_raw element;
  while (left && ctxp_array_next(&it, &left, &element) > 0) {
    if (field->type == CTXP_TYPE_STRS) {
      if (ctxp_raw_type(element) != CTXP_PACK_STR) return -EBADMSG;
    } else {
      int r = decode_record(element, field->shape, true, &scratch, unknown, fault);
      if (r < 0) return r;
    }
  }
  return 0;
}

static int decode_number(const struct ctxp_pack_value *v, enum ctxp_type type, void *at) {
  if (type == CTXP_TYPE_U64 || type == CTXP_TYPE_TIME) {
    if (v->type != CTXP_PACK_U64) return -EBADMSG;
    memcpy(at, &v->u, sizeof(v->u));
    return 0;
  }
  if (v->type != CTXP_PACK_I64 && (v->type != CTXP_PACK_U64 || v->u > INT64_MAX)) return -EBADMSG;
  memcpy(at, &v->i, sizeof(v->i)); /* the same bits, as it is not above INT64_MAX */
  return 0;
}

static int decode_field(
    struct ctxp_raw raw, const struct ctxp_field *field, bool deep, void *at, unsigned *unknown, struct ctxp_fault *fault) {
  struct ctxp_pack_value v;
  struct ctxp_cursor c = ctxp_cursor(raw);
  unsigned index;
  int r = ctxp_cursor_next(&c, &v);
  if (r < 0) return r;
  switch (field->type) {
  case CTXP_TYPE_STR:
    if (v.type != CTXP_PACK_STR) return -EBADMSG;
    *(struct ctxp_str *)at = v.str;
    return 0;
  case CTXP_TYPE_U64:
  case CTXP_TYPE_I64:
  case CTXP_TYPE_TIME:
  case CTXP_TYPE_NANO: return decode_number(&v, field->type, at);
  case CTXP_TYPE_BOOL:
    if (v.type != CTXP_PACK_BOOL) return -EBADMSG;
    *(bool *)at = v.b;
    return 0;
  case CTXP_TYPE_ENUM:
    if (v.type != CTXP_PACK_STR || !names_parse(field->names, v.str, &index)) return -EBADMSG;
    memcpy(at, &index, sizeof(index));
    return 0;
  case CTXP_TYPE_REC: return decode_record(raw, field->shape, deep, at, unknown, fault);
  case CTXP_TYPE_LIST:
  case CTXP_TYPE_STRS: return decode_list(raw, field, deep, at, unknown, fault);
  case CTXP_TYPE_RAW: *(struct ctxp_raw *)at = raw; return 0;
  }
  return -EBADMSG;
}

/* *next: where to look first; what ctxpipe encodes has its fields in the order of the shape */
static const struct ctxp_field *find_field(const struct ctxp_shape *shape, struct ctxp_str key, unsigned *next, unsigned *ret_index) {
  for (unsigned n = 0, i = *next; n < shape->count; n++, i++) {
    if (i >= shape->count) i = 0;
    if (shape->fields[i].name_len != key.len || memcmp(shape->fields[i].name, key.ptr, key.len) != 0) continue;
    *next = i + 1;
    return *ret_index = i, &shape->fields[i];
  }
  return NULL;
}

/* a record that is being filled */
struct filling {
  const struct ctxp_shape *shape;
  void *out;
  bool deep; /* are lists checked too? */
  unsigned next;
};

static int set_field(struct filling *f, struct ctxp_str key, struct ctxp_raw value, unsigned *unknown, struct ctxp_fault *fault) {
  unsigned index;
  const struct ctxp_field *field = find_field(f->shape, key, &f->next, &index);
  if (!field) return (*unknown)++, 0;
  uint64_t bit = UINT64_C(1) << index, *has = f->out; /* `has` is the first member of every record */
  if (ctxp_raw_type(value) == CTXP_PACK_NIL && field->type != CTXP_TYPE_RAW && !(f->shape->required & bit)) return 0; /* null: absent */
  if (fault) fault->field[0] = 0;
  if (decode_field(value, field, f->deep, (char *)f->out + field->offset, unknown, fault) < 0) {
    if (fault && fault->field[0]) return -EBADMSG; /* an inner record has said it */
    char said[120];
    snprintf(said, sizeof(said), "must be %s", type_said[field->type]);
    return refuse(fault, field->name, said);
  }
  *has |= bit;
  return 0;
}

static int check_required(const struct ctxp_shape *shape, const void *record, struct ctxp_fault *fault) {
  uint64_t has;
  memcpy(&has, record, sizeof(has));
  uint64_t missing = shape->required & ~has;
  if (!missing) return 0;
  return refuse(fault, shape->fields[__builtin_ctzll(missing)].name, "is required");
}

static int decode_record(
    struct ctxp_raw raw, const struct ctxp_shape *shape, bool deep, void *out, unsigned *unknown, struct ctxp_fault *fault) {
  struct ctxp_cursor it = ctxp_cursor(raw);
  struct filling filling = {shape, out, deep, 0};
  struct ctxp_str key;
  struct ctxp_raw value;
  uint32_t left;
  memset(out, 0, shape->size);
  if (ctxp_map_open(&it, &left) < 0) return -EBADMSG;
  while (left) {
    if (ctxp_map_next(&it, &left, &key, &value) < 0) return -EBADMSG;
    int r = set_field(&filling, key, value, unknown, fault);
    if (r < 0) return r;
  }
  return check_required(shape, out, fault);
}

/* one text of the window */
static int set_text(struct ctxp_str *text, const char *name, struct ctxp_raw value, struct ctxp_fault *fault) {
  if (ctxp_raw_type(value) != CTXP_PACK_STR) return refuse(fault, name, "must be a text in UTF-8");
  *text = ctxp_raw_str(value);
  return text->len > 512 ? refuse(fault, name, "is longer than 512 bytes") : 1;
}

/* ts and the window; the rest is the kind's own. 1: it was one of them. */
static int set_common(struct ctxp_event *ev, struct ctxp_str key, struct ctxp_raw value, struct ctxp_fault *fault) {
  if (ctxp_str_is(key, "agent")) return set_text(&ev->agent, "agent", value, fault);
  if (ctxp_str_is(key, "session")) return set_text(&ev->session, "session", value, fault);
  if (ctxp_str_is(key, "thread")) return set_text(&ev->thread, "thread", value, fault);
  if (ctxp_str_is(key, "ts")) {
    struct ctxp_pack_value v;
    struct ctxp_cursor c = ctxp_cursor(value);
    if (ctxp_cursor_next(&c, &v) < 0 || v.type != CTXP_PACK_U64) return refuse(fault, "ts", "must be milliseconds since 1970, UTC");
    ev->ts_ms = v.u;
    return 1;
  }
  return 0;
}

/* Decodes as an event of that kind; deep: its lists too. 1: the map names another kind too, and it is not known yet (last) that this one is
 * the last of them. */
static int decode_as(struct ctxp_raw raw, struct ctxp_str kind, bool last, bool deep, struct ctxp_event *ret_event, unsigned *unknown,
    struct ctxp_fault *fault) {
  struct ctxp_cursor it = ctxp_cursor(raw);
  struct ctxp_str key;
  struct ctxp_raw value;
  uint32_t left;
  const struct ctxp_kind_info *info = ctxp_kind_info(ctxp_kind_parse(kind));
  if (!info && !last) return 1;
  if (!info) return refuse(fault, "kind", kind.len ? "is no kind of event" : "is required");
  memset(ret_event, 0, offsetof(struct ctxp_event, session_start)); /* the union behind it: only the kind's own record is used */
  void *own = &ret_event->session_start;
  struct filling filling = {info->shape, own, deep, 0};
  memset(own, 0, info->shape->size);
  ret_event->kind = (enum ctxp_kind)(info - kinds);
  if (ctxp_map_open(&it, &left) < 0) return refuse(fault, "", "must be a map");
  while (left) {
    if (ctxp_map_next(&it, &left, &key, &value) < 0) return refuse(fault, "", "is malformed");
    if (ctxp_str_is(key, "kind")) {
      if (!last && !ctxp_str_eq(ctxp_raw_str(value), kind)) return 1;
      continue;
    }
    int r = set_common(ret_event, key, value, fault);
    if (r == 0) r = set_field(&filling, key, value, unknown, fault);
    if (r < 0) return r;
  }
  return check_required(info->shape, own, fault);
}

static int decode(struct ctxp_raw raw, bool deep, struct ctxp_event *ret_event, unsigned *ret_unknown, struct ctxp_fault *ret_fault) {
  struct ctxp_cursor it = ctxp_cursor(raw);
  struct ctxp_raw value;
  struct ctxp_str key;
  uint32_t left;
  unsigned unknown = 0;
  if (ctxp_map_open(&it, &left) < 0) return refuse(ret_fault, "", "must be a map");
  /* what ctxpipe itself encodes has the kind in front, and once */
  bool front = left && ctxp_map_next(&it, &left, &key, &value) > 0 && ctxp_str_is(key, "kind");
  int r = front ? decode_as(raw, ctxp_raw_str(value), false, deep, ret_event, &unknown, ret_fault) : 1;
  if (r > 0) {
    unknown = 0;
    r = decode_as(raw, ctxp_map_str(raw, "kind"), true, deep, ret_event, &unknown, ret_fault);
  }
  if (ret_unknown) *ret_unknown = unknown;
  return r;
}

int ctxp_event_decode(const uint8_t *body, size_t len, struct ctxp_event *ret_event, unsigned *ret_unknown, struct ctxp_fault *ret_fault) {
  struct ctxp_raw raw = {body, len};
  if (ctxp_pack_check(raw) < 0) return refuse(ret_fault, "", "is not one MessagePack value with texts in UTF-8 and at most 32 levels");
  return decode(raw, true, ret_event, ret_unknown, ret_fault);
}

int ctxp_event_read(struct ctxp_raw body, struct ctxp_event *ret_event, struct ctxp_fault *ret_fault) {
  return decode(body, false, ret_event, NULL, ret_fault);
}

/* ---- encoding ---- */
static void encode_record(const struct ctxp_shape *shape, const void *record, struct ctxp_buf *out);

static void encode_field(const struct ctxp_field *field, const void *at, struct ctxp_buf *out) {
  const struct ctxp_list *list = at;
  switch (field->type) {
  case CTXP_TYPE_STR: ctxp_pack_str(out, *(const struct ctxp_str *)at); break;
  case CTXP_TYPE_U64:
  case CTXP_TYPE_TIME: ctxp_pack_u64(out, *(const uint64_t *)at); break;
  case CTXP_TYPE_I64:
  case CTXP_TYPE_NANO: ctxp_pack_i64(out, *(const int64_t *)at); break;
  case CTXP_TYPE_BOOL: ctxp_pack_bool(out, *(const bool *)at); break;
  case CTXP_TYPE_ENUM: ctxp_pack_cstr(out, field->names->wire[*(const unsigned *)at]); break;
  case CTXP_TYPE_REC: encode_record(field->shape, at, out); break;
  case CTXP_TYPE_LIST:
  case CTXP_TYPE_STRS:
    ctxp_pack_array(out, list->count);
    ctxp_buf_add(out, list->ptr, list->len);
    break;
  case CTXP_TYPE_RAW: ctxp_pack_raw(out, *(const struct ctxp_raw *)at); break;
  }
}

static void encode_fields(const struct ctxp_shape *shape, const void *record, struct ctxp_buf *out) {
  uint64_t has;
  memcpy(&has, record, sizeof(has));
  for (unsigned i = 0; i < shape->count; i++) {
    const struct ctxp_field *field = &shape->fields[i];
    if (!((has | shape->required) >> i & 1)) continue;
    ctxp_pack_str(out, (struct ctxp_str){field->name, field->name_len});
    encode_field(field, (const char *)record + field->offset, out);
  }
}

static uint32_t present(const struct ctxp_shape *shape, const void *record) {
  uint64_t has;
  memcpy(&has, record, sizeof(has));
  return (uint32_t)__builtin_popcountll(has | shape->required);
}

static void encode_record(const struct ctxp_shape *shape, const void *record, struct ctxp_buf *out) {
  ctxp_pack_map(out, present(shape, record));
  encode_fields(shape, record, out);
}

int ctxp_event_encode(const struct ctxp_event *event, struct ctxp_buf *out) {
  const struct ctxp_kind_info *info = ctxp_kind_info(event->kind);
  if (!info) return -EINVAL;
  ctxp_pack_map(out, present(info->shape, &event->session_start) + 4 + (event->ts_ms != 0));
  ctxp_pack_cstr(out, "kind");
  ctxp_pack_cstr(out, info->name);
  if (event->ts_ms) {
    ctxp_pack_cstr(out, "ts");
    ctxp_pack_u64(out, event->ts_ms);
  }
  ctxp_pack_cstr(out, "agent");
  ctxp_pack_str(out, event->agent);
  ctxp_pack_cstr(out, "session");
  ctxp_pack_str(out, event->session);
  ctxp_pack_cstr(out, "thread");
  ctxp_pack_str(out, event->thread);
  encode_fields(info->shape, &event->session_start, out);
  return ctxp_buf_error(out);
}

/* ---- lists ---- */
int ctxp_list_next(struct ctxp_list *list, const struct ctxp_shape *shape, void *ret) {
  struct ctxp_cursor it = ctxp_cursor((struct ctxp_raw){list->ptr, list->len});
  struct ctxp_raw element;
  unsigned unknown = 0;
  int r = ctxp_array_next(&it, &list->count, &element);
  if (r <= 0) return r;
  list->len -= (size_t)(it.at - list->ptr);
  list->ptr = it.at;
  r = decode_record(element, shape, false, ret, &unknown, NULL);
  return r < 0 ? r : 1;
}

int ctxp_strs_next(struct ctxp_list *list, struct ctxp_str *ret) {
  struct ctxp_cursor it = ctxp_cursor((struct ctxp_raw){list->ptr, list->len});
  struct ctxp_raw element;
  int r = ctxp_array_next(&it, &list->count, &element);
  if (r <= 0) return r;
  list->len -= (size_t)(it.at - list->ptr);
  list->ptr = it.at;
  *ret = ctxp_raw_str(element);
  return 1;
}

static int list_grown(struct ctxp_list *list, struct ctxp_buf *buf, size_t before) {
  if (buf->failed) return -ENOMEM;
  size_t start = list->count ? before - list->len : before;
  *list = (struct ctxp_list){buf->ptr + start, buf->len - start, list->count + 1};
  return 0;
}

int ctxp_list_add(struct ctxp_list *list, struct ctxp_buf *buf, const struct ctxp_shape *shape, const void *record) {
  size_t before = buf->len;
  encode_record(shape, record, buf);
  return list_grown(list, buf, before);
}

int ctxp_strs_add(struct ctxp_list *list, struct ctxp_buf *buf, struct ctxp_str text) {
  size_t before = buf->len;
  ctxp_pack_str(buf, text);
  return list_grown(list, buf, before);
}
