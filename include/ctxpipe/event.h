/* Events, as a stage sees them: typed structs made from event.def.
 *
 * A decoded event borrows from the bytes it was decoded from: texts, lists and raw values point into them and live as long.
 * Whether an optional field was there: ctxp_has(&ev->prompt, prompt, usage). An absent field is zero.
 * Lists stay encoded; read them with ctxp_list_first/next, write them with ctxp_list_add. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ctxpipe/event.def"
#pragma GCC visibility push(default) /* exported by the client library, too */

struct ctxp_buf;

struct ctxp_str { /* UTF-8, not NUL-terminated; borrowed */
  const char *ptr;
  size_t len;
};
struct ctxp_raw { /* one MessagePack value; len 0: absent */
  const uint8_t *ptr;
  size_t len;
};
struct ctxp_list { /* `count` MessagePack values, without the array's head */
  const uint8_t *ptr;
  size_t len;
  uint32_t count;
};

/* enums: CTXP_BAND_file_view, ... ; CTXP_BAND_COUNT */
#define CTXP_ENUM_MEMBER_band(name, shown) CTXP_BAND_##name,
#define CTXP_ENUM_MEMBER_role(name, shown) CTXP_ROLE_##name,
#define CTXP_ENUM_MEMBER_label_kind(name, shown) CTXP_LABEL_##name,
#define CTXP_ENUM_MEMBER_gap_side(name, shown) CTXP_GAP_##name,
enum ctxp_band { CTXP_BANDS(CTXP_ENUM_MEMBER_band) CTXP_BAND_COUNT };
enum ctxp_role { CTXP_ROLES(CTXP_ENUM_MEMBER_role) CTXP_ROLE_COUNT };
enum ctxp_label_kind { CTXP_LABEL_KINDS(CTXP_ENUM_MEMBER_label_kind) CTXP_LABEL_COUNT };
enum ctxp_gap_side { CTXP_GAP_SIDES(CTXP_ENUM_MEMBER_gap_side) CTXP_GAP_COUNT };

enum ctxp_kind {
  CTXP_KIND_NONE = 0,
#define CTXP_KIND_MEMBER(id, c, wire, group, fields, doc) CTXP_KIND_##c = (id),
  CTXP_KINDS(CTXP_KIND_MEMBER)
#undef CTXP_KIND_MEMBER
      CTXP_KIND_MAX = 128
};
enum ctxp_group { CTXP_GROUP_AGENT,
  CTXP_GROUP_COLLECTOR,
  CTXP_GROUP_MECHANISM,
  CTXP_GROUP_FOLD,
  CTXP_GROUP_ANY };

#define CTXP_MEMBER_STR(rec, name) struct ctxp_str name;
#define CTXP_MEMBER_U64(rec, name) uint64_t name;
#define CTXP_MEMBER_I64(rec, name) int64_t name;
#define CTXP_MEMBER_BOOL(rec, name) bool name;
#define CTXP_MEMBER_TIME(rec, name) uint64_t name;
#define CTXP_MEMBER_NANO(rec, name) int64_t name;
#define CTXP_MEMBER_ENUM(rec, name) enum ctxp_##rec name;
#define CTXP_MEMBER_REC(rec, name) struct ctxp_##rec name;
#define CTXP_MEMBER_LIST(rec, name) struct ctxp_list name;
#define CTXP_MEMBER_STRS(rec, name) struct ctxp_list name;
#define CTXP_MEMBER_RAW(rec, name) struct ctxp_raw name;
#define CTXP_FIELD_MEMBER(S, type, rec, name, need, doc) CTXP_MEMBER_##type(rec, name)
#define CTXP_FIELD_INDEX(S, type, rec, name, need, doc) CTXP_IX_##S##_##name,

/* struct ctxp_usage, struct ctxp_call, ...; bit CTXP_IX_usage_cacheRead of `has` says that cacheRead is there */
#define CTXP_RECORD_STRUCT(c, fields) \
  enum { fields(CTXP_FIELD_INDEX, c) CTXP_COUNT_##c }; \
  struct ctxp_##c { \
    uint64_t has; \
    fields(CTXP_FIELD_MEMBER, c) \
  };
CTXP_RECORDS(CTXP_RECORD_STRUCT)
#define CTXP_KIND_STRUCT(id, c, wire, group, fields, doc) CTXP_RECORD_STRUCT(c, fields)
CTXP_KINDS(CTXP_KIND_STRUCT)

#define ctxp_has(record, shape, field) ((((record)->has) >> CTXP_IX_##shape##_##field) & 1u)
/* sets a field of a record that is being built, and its presence */
#define ctxp_set(record, shape, field, ...) \
  ((record)->field = __VA_ARGS__, (record)->has |= UINT64_C(1) << CTXP_IX_##shape##_##field)

/* What one model call and one message can have. The collector refuses an event beyond it by name, before it is acknowledged. */
#define CTXP_MAX_CLASS_TOKENS ((UINT64_C(1) << 32) - 1)
#define CTXP_MAX_MESSAGE_TOKENS ((UINT64_C(1) << 28) - 1)

struct ctxp_event {
  enum ctxp_kind kind;
  uint64_t seq; /* number in the stream that it was read from; 0: in no stream yet */
  uint64_t cause; /* the collector's number of the event that it derives from; 0 on the collector's own stream */
  uint64_t ts_ms; /* UTC; the agent's time of the causing event; 0: not stamped yet. Never used for order */
  struct ctxp_str agent, session, thread; /* together: one context window */
  union {
#define CTXP_KIND_UNION(id, c, wire, group, fields, doc) struct ctxp_##c c;
    CTXP_KINDS(CTXP_KIND_UNION)
#undef CTXP_KIND_UNION
  };
};

/* ---- shapes: the table as data ---- */
enum ctxp_type {
  CTXP_TYPE_STR,
  CTXP_TYPE_U64,
  CTXP_TYPE_I64,
  CTXP_TYPE_BOOL,
  CTXP_TYPE_TIME,
  CTXP_TYPE_NANO,
  CTXP_TYPE_ENUM,
  CTXP_TYPE_REC,
  CTXP_TYPE_LIST,
  CTXP_TYPE_STRS,
  CTXP_TYPE_RAW
};
enum ctxp_need { CTXP_NEED_REQ,
  CTXP_NEED_OPT,
  CTXP_NEED_OWN };
struct ctxp_names { /* of an enum */
  const char *name;
  const char *const *wire, *const *shown;
  unsigned count;
};
struct ctxp_shape;
struct ctxp_field {
  const char *name;
  uint8_t name_len;
  enum ctxp_type type;
  enum ctxp_need need;
  const struct ctxp_shape *shape; /* REC, LIST */
  const struct ctxp_names *names; /* ENUM */
  size_t offset;
  const char *doc;
};
struct ctxp_shape {
  const char *name;
  const struct ctxp_field *fields;
  unsigned count;
  size_t size; /* of the struct */
  uint64_t required; /* bits */
};
struct ctxp_kind_info {
  const char *name; /* on the wire */
  enum ctxp_group group;
  const struct ctxp_shape *shape;
  const char *doc;
};

/* NULL for a number that is no kind */
const struct ctxp_kind_info *ctxp_kind_info(enum ctxp_kind kind);
/* CTXP_KIND_NONE for a name that is no kind */
enum ctxp_kind ctxp_kind_parse(struct ctxp_str name);
const char *ctxp_band_name(enum ctxp_band band); /* wire name */
const char *ctxp_band_shown(enum ctxp_band band); /* for people */
/* false: no band of that name */
bool ctxp_band_parse(struct ctxp_str name, enum ctxp_band *ret_band);

extern const struct ctxp_names ctxp_names_band, ctxp_names_role, ctxp_names_label_kind, ctxp_names_gap_side;
#define CTXP_RECORD_SHAPE(c, fields) extern const struct ctxp_shape ctxp_shape_##c;
CTXP_RECORDS(CTXP_RECORD_SHAPE)
#define CTXP_KIND_SHAPE(id, c, wire, group, fields, doc) extern const struct ctxp_shape ctxp_shape_##c;
CTXP_KINDS(CTXP_KIND_SHAPE)

/* ---- decode and encode ---- */
struct ctxp_fault { /* why a body was refused; names the field and what is wrong with it */
  char field[64];
  char reason[160];
};

/* Decodes a body (a MessagePack map with `kind`, the common fields and the kind's own) into *ret_event, borrowed from `body`.
 * Everything is checked, nested lists too, so that iterating them later cannot fail: depth at most 32, the value ends where
 * the bytes end, texts are UTF-8, required fields are there and well typed, enum names are known. Unknown keys are passed
 * over and counted in *ret_unknown (may be NULL). Equal keys: the last counts. seq and cause are not in the body: set to 0.
 * -EBADMSG: *ret_fault (may be NULL) says why. */
int ctxp_event_decode(const uint8_t *body, size_t len, struct ctxp_event *ret_event, unsigned *ret_unknown, struct ctxp_fault *ret_fault)
    __attribute__((warn_unused_result));
/* The same for what a node of ctxpipe has checked and encoded, and published or stored: in the bounds of `body`, but neither are
 * texts checked again for UTF-8 nor the elements of lists. */
int ctxp_event_read(struct ctxp_raw body, struct ctxp_event *ret_event, struct ctxp_fault *ret_fault) __attribute__((warn_unused_result));
/* Appends the canonical body: `kind`, `ts`, agent, session, thread, then the present fields in the table's order. The same
 * event always gives the same bytes. -ENOMEM. */
int ctxp_event_encode(const struct ctxp_event *event, struct ctxp_buf *out) __attribute__((warn_unused_result));

/* Reads the next element of a list of records into *ret (struct of `shape`). 1: read; 0: at the end; <0: malformed. */
int ctxp_list_next(struct ctxp_list *list, const struct ctxp_shape *shape, void *ret);
/* The same for a STRS list. */
int ctxp_strs_next(struct ctxp_list *list, struct ctxp_str *ret);
/* Appends a record to a list that is being built in `buf`; `list` then spans the buffer. Add to one list at a time, and do not
 * touch the buffer in between. -ENOMEM. */
int ctxp_list_add(struct ctxp_list *list, struct ctxp_buf *buf, const struct ctxp_shape *shape, const void *record);
int ctxp_strs_add(struct ctxp_list *list, struct ctxp_buf *buf, struct ctxp_str text);
#pragma GCC visibility pop
