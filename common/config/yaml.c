#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <yaml.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "config/yaml.h"

#define CHUNK_BYTES 8192u

struct chunk {
  struct chunk *next;
  size_t used, size;
  _Alignas(max_align_t) char bytes[];
};

struct reader {
  yaml_parser_t parser;
  struct ctxp_faults *faults;
  struct chunk *chunks;
  unsigned values;
};

static void *take(struct reader *r, size_t len) {
  size_t need = (len + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  if (!r->chunks || r->chunks->size - r->chunks->used < need) {
    size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
    struct chunk *chunk = malloc(sizeof(*chunk) + size);
    if (!chunk) return NULL;
    *chunk = (struct chunk){.next = r->chunks, .size = size};
    r->chunks = chunk;
  }
  void *ptr = r->chunks->bytes + r->chunks->used;
  r->chunks->used += need;
  return memset(ptr, 0, len);
}

static void free_chunks(struct chunk *chunk) {
  while (chunk) {
    struct chunk *next = chunk->next;
    free(chunk);
    chunk = next;
  }
}

static struct ctxp_place place_of(const yaml_mark_t *mark) {
  return (struct ctxp_place){(unsigned)mark->line + 1, (unsigned)mark->column + 1};
}

/* The parser's own words, with its context where that helps ("while parsing a block mapping"). */
static int syntax_fault(struct reader *r) {
  const yaml_parser_t *p = &r->parser;
  if (p->error == YAML_MEMORY_ERROR) return -ENOMEM;
  const char *problem = p->problem ? p->problem : "cannot be read";
  if (p->context)
    ctxp_faults_add(r->faults, place_of(&p->problem_mark), "not YAML: %s %s", problem, p->context);
  else
    ctxp_faults_add(r->faults, place_of(&p->problem_mark), "not YAML: %s", problem);
  return -EINVAL;
}

static void drop_event(yaml_event_t *event) { yaml_event_delete(event); }

static int next_event(struct reader *r, yaml_event_t *ret_event) {
  return yaml_parser_parse(&r->parser, ret_event) ? 0 : syntax_fault(r);
}

static int new_value(struct reader *r, const yaml_event_t *event, enum ctxp_yaml_type type, struct ctxp_yaml **ret_value) {
  struct ctxp_place place = place_of(&event->start_mark);
  if (++r->values > CTXP_YAML_VALUES_MAX) {
    ctxp_faults_add(r->faults, place, "the file holds more than %u values", CTXP_YAML_VALUES_MAX);
    return -EINVAL;
  }
  struct ctxp_yaml *value = take(r, sizeof(*value));
  if (!value) return -ENOMEM;
  value->type = type;
  value->place = place;
  *ret_value = value;
  return 0;
}

/* Anchors and tags are said to be wrong, and passed over. */
static void refuse_extras(struct reader *r, const yaml_event_t *event, const yaml_char_t *anchor, const yaml_char_t *tag) {
  struct ctxp_place place = place_of(&event->start_mark);
  if (anchor)
    ctxp_faults_add(
        r->faults, place, "anchors are not used here ('&%s'); write the value out", ctxp_shown(ctxp_str((const char *)anchor)).text);
  if (tag)
    ctxp_faults_add(r->faults, place, "tags are not used here ('%s'); write the value alone", ctxp_shown(ctxp_str((const char *)tag)).text);
}

static int read_scalar(struct reader *r, const yaml_event_t *event, struct ctxp_yaml *value) {
  size_t len = event->data.scalar.length;
  char *text = take(r, len + 1);
  if (!text) return -ENOMEM;
  memcpy(text, event->data.scalar.value, len);
  value->text = (struct ctxp_str){text, len};
  value->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  refuse_extras(r, event, event->data.scalar.anchor, event->data.scalar.tag);
  if (memchr(text, 0, len)) {
    ctxp_faults_add(r->faults, value->place, "a text holds a NUL character");
    value->type = CTXP_YAML_BAD;
  }
  return 0;
}

static int read_value(struct reader *r, yaml_event_t *event, unsigned depth, struct ctxp_yaml **ret_value);

static void append(struct ctxp_yaml *parent, struct ctxp_yaml ***tail, struct ctxp_yaml *value) {
  **tail = value;
  *tail = &value->next;
  parent->count++;
}

static int read_sequence(struct reader *r, struct ctxp_yaml *sequence, unsigned depth) {
  struct ctxp_yaml **tail = &sequence->first;
  for (;;) {
    ctxp_cleanup(drop_event) yaml_event_t event = {0};
    int err = next_event(r, &event);
    if (err < 0) return err;
    if (event.type == YAML_SEQUENCE_END_EVENT) return 0;
    struct ctxp_yaml *value;
    err = read_value(r, &event, depth, &value);
    if (err < 0) return err;
    append(sequence, &tail, value);
  }
}

/* false: this key's value is to be passed over */
static bool key_is_good(struct reader *r, const struct ctxp_yaml *mapping, const struct ctxp_yaml *key) {
  if (key->type == CTXP_YAML_BAD) return false;
  if (key->type != CTXP_YAML_SCALAR) {
    ctxp_faults_add(r->faults, key->place, "a key must be a word");
    return false;
  }
  if (key->plain && ctxp_str_is(key->text, "<<")) {
    ctxp_faults_add(r->faults, key->place, "merge keys ('<<') are not used here; write the keys out");
    return false;
  }
  for (const struct ctxp_yaml *it = mapping->first; it; it = it->next) {
    if (!ctxp_str_eq(it->key->text, key->text)) continue;
    ctxp_faults_add(r->faults, key->place, "'%s' is repeated; the first is in line %u", ctxp_shown(key->text).text, it->key->place.line);
    return false;
  }
  return true;
}

static int read_pair(struct reader *r, yaml_event_t *key_event, unsigned depth, struct ctxp_yaml **ret_key, struct ctxp_yaml **ret_value) {
  int err = read_value(r, key_event, depth, ret_key);
  if (err < 0) return err;
  ctxp_cleanup(drop_event) yaml_event_t event = {0};
  err = next_event(r, &event);
  return err < 0 ? err : read_value(r, &event, depth, ret_value);
}

static int read_mapping(struct reader *r, struct ctxp_yaml *mapping, unsigned depth) {
  struct ctxp_yaml **tail = &mapping->first;
  for (;;) {
    ctxp_cleanup(drop_event) yaml_event_t event = {0};
    int err = next_event(r, &event);
    if (err < 0) return err;
    if (event.type == YAML_MAPPING_END_EVENT) return 0;
    struct ctxp_yaml *key, *value;
    err = read_pair(r, &event, depth, &key, &value);
    if (err < 0) return err;
    if (mapping->count >= CTXP_YAML_KEYS_MAX) {
      ctxp_faults_add(r->faults, key->place, "a mapping with more than %u keys", CTXP_YAML_KEYS_MAX);
      return -EINVAL;
    }
    if (!key_is_good(r, mapping, key)) continue;
    value->key = key;
    append(mapping, &tail, value);
  }
}

static int too_deep(struct reader *r, const yaml_event_t *event) {
  ctxp_faults_add(r->faults, place_of(&event->start_mark), "nested more than %u levels deep", CTXP_YAML_DEPTH_MAX);
  return -EINVAL;
}

static int read_value(struct reader *r, yaml_event_t *event, unsigned depth, struct ctxp_yaml **ret_value) {
  enum ctxp_yaml_type type = event->type == YAML_SCALAR_EVENT ? CTXP_YAML_SCALAR :
      event->type == YAML_SEQUENCE_START_EVENT                ? CTXP_YAML_SEQUENCE :
      event->type == YAML_MAPPING_START_EVENT                 ? CTXP_YAML_MAPPING :
                                                                CTXP_YAML_BAD;
  int err = new_value(r, event, type, ret_value);
  if (err < 0) return err;
  if (type == CTXP_YAML_SCALAR) return read_scalar(r, event, *ret_value);
  if (type == CTXP_YAML_BAD) { /* nothing else begins a value */
    ctxp_faults_add(r->faults, (*ret_value)->place, "aliases are not used here ('*%s'); write the value out",
        event->type == YAML_ALIAS_EVENT ? ctxp_shown(ctxp_str((const char *)event->data.alias.anchor)).text : "");
    return 0;
  }
  if (depth >= CTXP_YAML_DEPTH_MAX) return too_deep(r, event);
  if (type == CTXP_YAML_SEQUENCE) {
    refuse_extras(r, event, event->data.sequence_start.anchor, event->data.sequence_start.tag);
    return read_sequence(r, *ret_value, depth + 1);
  }
  refuse_extras(r, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
  return read_mapping(r, *ret_value, depth + 1);
}

static int expect(struct reader *r, yaml_event_type_t type, const char *otherwise) {
  ctxp_cleanup(drop_event) yaml_event_t event = {0};
  int err = next_event(r, &event);
  if (err < 0 || event.type == type) return err;
  ctxp_faults_add(r->faults, place_of(&event.start_mark), "%s", otherwise);
  return -EINVAL;
}

static int read_document(struct reader *r, struct ctxp_yaml **ret_root) {
  int err = expect(r, YAML_STREAM_START_EVENT, "the file does not begin");
  if (err == 0) err = expect(r, YAML_DOCUMENT_START_EVENT, "the file is empty");
  if (err < 0) return err;
  ctxp_cleanup(drop_event) yaml_event_t event = {0};
  err = next_event(r, &event);
  if (err == 0) err = read_value(r, &event, 0, ret_root);
  if (err == 0) err = expect(r, YAML_DOCUMENT_END_EVENT, "the document does not end");
  if (err == 0) err = expect(r, YAML_STREAM_END_EVENT, "a second document begins here; one file holds one");
  return err;
}

/* The parser would read UTF-16 as well, and name no line for a bad byte. */
static int check_bytes(struct ctxp_str text, struct ctxp_faults *faults) {
  struct ctxp_place place = {1, 1};
  for (size_t at = 0; at < text.len;) {
    unsigned char c = (unsigned char)text.ptr[at];
    unsigned n = ctxp_utf8_sequence(text.ptr + at, text.len - at);
    bool control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
    if (n == 0 || control) {
      ctxp_faults_add(faults, place, n == 0 ? "byte 0x%02x is not UTF-8" : "control character 0x%02x", c);
      return -EINVAL;
    }
    place.column++;
    if (c == '\n') place = (struct ctxp_place){place.line + 1, 1};
    at += n;
  }
  return 0;
}

int ctxp_yaml_parse(struct ctxp_str text, struct ctxp_faults *faults, struct ctxp_yaml_doc *ret_doc) {
  struct reader r = {.faults = faults};
  if (text.len > CTXP_YAML_BYTES_MAX) {
    ctxp_faults_add(
        faults, (struct ctxp_place){0}, "larger than %u bytes, the most that a file of this kind may have", CTXP_YAML_BYTES_MAX);
    return -EINVAL;
  }
  int err = check_bytes(text, faults);
  if (err < 0) return err;
  if (!yaml_parser_initialize(&r.parser)) return -ENOMEM;
  yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
  if (ctxp_str_starts(text, "\xef\xbb\xbf")) text = (struct ctxp_str){text.ptr + 3, text.len - 3}; /* a byte order mark */
  yaml_parser_set_input_string(&r.parser, (const unsigned char *)(text.len ? text.ptr : ""), text.len);
  struct ctxp_yaml *root = NULL;
  err = read_document(&r, &root);
  yaml_parser_delete(&r.parser);
  if (err < 0) {
    free_chunks(r.chunks);
    return err;
  }
  *ret_doc = (struct ctxp_yaml_doc){root, r.chunks};
  return 0;
}

void ctxp_yaml_deinit(struct ctxp_yaml_doc *doc) {
  free_chunks(doc->chunks);
  *doc = (struct ctxp_yaml_doc){0};
}

static int load_fault(struct ctxp_faults *faults, int code, const char *why) {
  ctxp_faults_add(faults, (struct ctxp_place){0}, "cannot be read: %s", why);
  return code;
}

static int check_file(int fd, struct ctxp_faults *faults) {
  struct stat st;
  if (fstat(fd, &st) < 0) return load_fault(faults, -errno, strerror(errno));
  if (S_ISDIR(st.st_mode)) return load_fault(faults, -EISDIR, "it is a directory");
  if (!S_ISREG(st.st_mode)) return load_fault(faults, -EINVAL, "it is not a regular file");
  if (st.st_size > (off_t)CTXP_YAML_BYTES_MAX)
    return load_fault(faults, -EFBIG, "it is larger than 1 MiB, the most that a file of this kind may have");
  return 0;
}

int ctxp_yaml_load(const char *file, struct ctxp_faults *faults, struct ctxp_buf *out) {
  ctxp_auto_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return load_fault(faults, -errno, strerror(errno));
  int err = check_file(fd, faults);
  if (err < 0) return err;
  for (;;) {
    uint8_t *room = ctxp_buf_room(out, 65536);
    if (!room) return -ENOMEM;
    ssize_t n = read(fd, room, 65536);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return load_fault(faults, -errno, strerror(errno));
    if (n == 0) return 0;
    out->len += (size_t)n;
    if (out->len > CTXP_YAML_BYTES_MAX) return load_fault(faults, -EFBIG, "it grew beyond 1 MiB while it was read");
  }
}

const struct ctxp_yaml *ctxp_yaml_get(const struct ctxp_yaml *mapping, const char *key) {
  if (!mapping || mapping->type != CTXP_YAML_MAPPING) return NULL;
  for (const struct ctxp_yaml *it = mapping->first; it; it = it->next)
    if (ctxp_str_is(it->key->text, key)) return it;
  return NULL;
}

bool ctxp_yaml_is_null(const struct ctxp_yaml *value) {
  return value->type == CTXP_YAML_SCALAR && value->plain &&
      (value->text.len == 0 || ctxp_str_is(value->text, "null") || ctxp_str_is(value->text, "~"));
}
