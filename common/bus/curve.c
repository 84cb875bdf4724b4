#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>
#include "base/cleanup.h"
#include "bus/curve.h"

#define FRAMES 8 /* of a ZAP request: version, id, domain, address, identity, mechanism, credentials; one more is too many */
#define CLIENTS_MAX 65536

struct ctxp_curve {
  char secret[CTXP_CURVE_KEY];
  char *clients_file;
  uint8_t (*clients)[32];
  unsigned client_count;
  struct stat read; /* the clients file as it was when the list was read */
  struct ctxp_error fault; /* what is wrong with the file as it is now; the list is then that of before */
  void *socket;
  uint64_t refused;
};

/* The next line of interest, without its end; the key is its first word. false: no more. */
static bool next_key(FILE *file, unsigned *line, char ret_word[256]) {
  char text[256];
  while (fgets(text, sizeof(text), file)) {
    (*line)++;
    if (!strchr(text, '\n')) /* the rest of an over-long line is no key */
      for (int c = 0; c != EOF && c != '\n';) c = fgetc(file);
    char *word = text + strspn(text, " \t\r\n");
    if (*word == 0 || *word == '#') continue;
    word[strcspn(word, " \t\r\n")] = 0;
    snprintf(ret_word, 256, "%s", word);
    return true;
  }
  return false;
}

static int decode_key(const char *word, uint8_t ret_key[32]) {
  if (strlen(word) != CTXP_CURVE_KEY - 1) return -EINVAL;
  for (const char *c = word; *c; c++)
    if (*c < '!' || *c > '~') return -EINVAL;
  return zmq_z85_decode(ret_key, word) ? 0 : -EINVAL;
}

static int open_file(const char *path, FILE **ret_file, struct ctxp_error *err) {
  *ret_file = fopen(path, "re");
  return *ret_file ? 0 : ctxp_error_set(err, -errno, "%s: %s", path, strerror(errno));
}

static int read_secret(const char *path, char ret_key[CTXP_CURVE_KEY], struct ctxp_error *err) {
  ctxp_auto_fclose FILE *file = NULL;
  char word[256], more[256];
  uint8_t key[32];
  unsigned line = 0;
  struct stat st;
  int r = open_file(path, &file, err);
  if (r < 0) return r;
  if (fstat(fileno(file), &st) < 0) return ctxp_error_set(err, -errno, "%s: %s", path, strerror(errno));
  if (st.st_mode & 077) return ctxp_error_set(err, -EPERM, "%s: others can read this secret key; chmod 600 it", path);
  if (!next_key(file, &line, word)) return ctxp_error_set(err, -EINVAL, "%s: holds no key; the secret key is 40 characters of Z85", path);
  if (decode_key(word, key) < 0)
    return ctxp_error_set(err, -EINVAL, "%s:%u: not a key; the secret key is 40 characters of Z85", path, line);
  if (next_key(file, &line, more))
    return ctxp_error_set(err, -EINVAL, "%s:%u: a second key; the file holds the secret key alone", path, line);
  memcpy(ret_key, word, CTXP_CURVE_KEY);
  return 0;
}

static int read_clients(
    const char *path, uint8_t (**ret_keys)[32], unsigned *ret_count, struct stat *ret_read, struct ctxp_error *err) {
  ctxp_auto_fclose FILE *file = NULL;
  ctxp_auto_free uint8_t(*keys)[32] = NULL;
  char word[256];
  unsigned line = 0, count = 0, cap = 0;
  int r = open_file(path, &file, err);
  if (r < 0) return r;
  if (fstat(fileno(file), ret_read) < 0) return ctxp_error_set(err, -errno, "%s: %s", path, strerror(errno));
  while (next_key(file, &line, word)) {
    if (count == CLIENTS_MAX) return ctxp_error_set(err, -E2BIG, "%s:%u: more than %d keys", path, line, CLIENTS_MAX);
    if (count == cap) {
      cap = cap ? cap * 2 : 16;
      void *more = realloc(keys, cap * sizeof(*keys));
      if (!more) return ctxp_error_set(err, -ENOMEM, "%s: out of memory", path);
      keys = more;
    }
    if (decode_key(word, keys[count]) < 0)
      return ctxp_error_set(err, -EINVAL, "%s:%u: not a key; a client's public key is 40 characters of Z85", path, line);
    count++;
  }
  *ret_keys = ctxp_steal(&keys);
  *ret_count = count;
  return 0;
}

static bool same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
      a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads the list where its file is another than the one that was read; a fault leaves the list as it was. */
static int refresh(struct ctxp_curve *curve) {
  uint8_t(*keys)[32] = NULL;
  unsigned count = 0;
  struct stat now;
  if (stat(curve->clients_file, &now) == 0 && same_file(&now, &curve->read)) return 0;
  int r = read_clients(curve->clients_file, &keys, &count, &now, &curve->fault);
  if (r < 0) return r;
  free(curve->clients);
  curve->clients = keys;
  curve->client_count = count;
  curve->read = now;
  curve->fault.text[0] = 0;
  return 0;
}

int ctxp_curve_new(
    void *zmq_context, const char *secret_file, const char *clients_file, struct ctxp_curve **ret_curve, struct ctxp_error *err) {
  if (!zmq_has("curve")) return ctxp_error_set(err, -ENOTSUP, "this libzmq was built without CURVE; endpoints beyond this machine need it");
  struct ctxp_curve *curve = calloc(1, sizeof(*curve));
  if (curve) curve->clients_file = strdup(clients_file);
  int r = curve && curve->clients_file ? read_secret(secret_file, curve->secret, err) : ctxp_error_set(err, -ENOMEM, "out of memory");
  if (r == 0 && (r = refresh(curve)) < 0) *err = curve->fault;
  if (r == 0) {
    int linger = 0;
    curve->socket = zmq_socket(zmq_context, ZMQ_ROUTER);
    if (!curve->socket || zmq_setsockopt(curve->socket, ZMQ_LINGER, &linger, sizeof(linger)) < 0 ||
        zmq_bind(curve->socket, "inproc://zeromq.zap.01") < 0)
      r = ctxp_error_set(err, -errno, "no socket for the guard of encrypted connections: %s", zmq_strerror(errno));
  }
  if (r < 0) {
    ctxp_curve_free(curve);
    return r;
  }
  *ret_curve = curve;
  return 0;
}

struct ctxp_curve *ctxp_curve_free(struct ctxp_curve *curve) {
  if (!curve) return NULL;
  if (curve->socket) zmq_close(curve->socket);
  explicit_bzero(curve->secret, sizeof(curve->secret));
  free(curve->clients_file);
  free(curve->clients);
  free(curve);
  return NULL;
}

int ctxp_curve_serve(struct ctxp_curve *curve, void *socket, struct ctxp_error *err) {
  int server = 1;
  if (zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &server, sizeof(server)) < 0 || zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, "ctxpipe", 7) < 0 ||
      zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, curve->secret, CTXP_CURVE_KEY) < 0)
    return ctxp_error_set(err, -errno, "encryption: %s", zmq_strerror(errno));
  return 0;
}

void *ctxp_curve_socket(const struct ctxp_curve *curve) { return curve->socket; }
uint64_t ctxp_curve_refused(const struct ctxp_curve *curve) { return curve->refused; }

struct request {
  zmq_msg_t frames[FRAMES + 2]; /* routing id and delimiter before */
  unsigned count;
};

static void request_close(struct request *q) {
  for (unsigned i = 0; i < q->count; i++) zmq_msg_close(&q->frames[i]);
}

/* false: nothing waits. What is beyond the frames of a request is dropped. */
static bool receive(void *socket, struct request *q) {
  int more = 1;
  q->count = 0;
  while (more) {
    zmq_msg_t msg;
    zmq_msg_init(&msg);
    if (zmq_msg_recv(&msg, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&msg);
      return false;
    }
    more = zmq_msg_more(&msg);
    if (q->count < FRAMES + 2)
      q->frames[q->count++] = msg;
    else
      zmq_msg_close(&msg);
  }
  return true;
}

static bool frame_is(struct request *q, unsigned i, const char *text) {
  return zmq_msg_size(&q->frames[i]) == strlen(text) && memcmp(zmq_msg_data(&q->frames[i]), text, strlen(text)) == 0;
}

static bool known(const struct ctxp_curve *curve, const uint8_t *key) {
  for (unsigned i = 0; i < curve->client_count; i++)
    if (memcmp(curve->clients[i], key, 32) == 0) return true;
  return false;
}

static void reply(void *socket, struct request *q, bool welcome) {
  const char *const texts[] = {"1.0", NULL, welcome ? "200" : "400", welcome ? "OK" : "this key is not in the list of clients", "", ""};
  zmq_send(socket, zmq_msg_data(&q->frames[0]), zmq_msg_size(&q->frames[0]), ZMQ_SNDMORE);
  zmq_send(socket, "", 0, ZMQ_SNDMORE);
  for (unsigned i = 0; i < 6; i++) {
    const void *data = i == 1 ? zmq_msg_data(&q->frames[3]) : texts[i];
    size_t len = i == 1 ? zmq_msg_size(&q->frames[3]) : strlen(texts[i]);
    zmq_send(socket, data, len, i < 5 ? ZMQ_SNDMORE : 0);
  }
}

static bool judge(struct ctxp_curve *curve, struct request *q, struct ctxp_error *sentence) {
  char z85[CTXP_CURVE_KEY] = "?";
  refresh(curve);
  bool whole = q->count == 9 && frame_is(q, 2, "1.0") && frame_is(q, 7, "CURVE") && zmq_msg_size(&q->frames[8]) == 32;
  if (whole && known(curve, zmq_msg_data(&q->frames[8]))) return true;
  if (whole) zmq_z85_encode(z85, zmq_msg_data(&q->frames[8]), 32);
  int len = q->count > 5 ? (int)zmq_msg_size(&q->frames[5]) : 0;
  const char *fault = curve->fault.text;
  ctxp_error_set(sentence, 0, "a connection from %.*s was refused: its key %s is not in %s%s%s%s", len < 200 ? len : 200,
      len ? (const char *)zmq_msg_data(&q->frames[5]) : "", z85, curve->clients_file, fault[0] ? " as it was before (" : "", fault,
      fault[0] ? ")" : "");
  return false;
}

unsigned ctxp_curve_answer(struct ctxp_curve *curve, struct ctxp_error *sentence) {
  struct request q;
  unsigned refused = 0;
  while (receive(curve->socket, &q)) {
    bool welcome = judge(curve, &q, sentence);
    if (!welcome) refused++;
    if (q.count >= 4) reply(curve->socket, &q, welcome);
    request_close(&q);
  }
  request_close(&q);
  curve->refused += refused;
  return refused;
}

bool ctxp_curve_needed(const char *endpoint) {
  if (strncmp(endpoint, "tcp://", 6) != 0) return false;
  const char *host = endpoint + 6;
  return strncmp(host, "127.", 4) != 0 && strncmp(host, "localhost:", 10) != 0 && strncmp(host, "[::1]:", 6) != 0;
}
