#include "ctxpipe/keyfile.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>
#include "base/cleanup.h"
#include "base/str.h"

#define SECRET "collector.secret"
#define CLIENTS "clients"

static int no_curve(struct ctxp_error *err) {
  return ctxp_error_set(err, -ENOTSUP, "this libzmq was built without CURVE; connections between machines need it");
}

/* a new file as a whole, on disk when this returns; a file that is there stays as it is: 1 */
static int write_new(const char *path, const char *text, struct ctxp_error *err) {
  ctxp_auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  size_t len = strlen(text);
  if (fd < 0 && errno == EEXIST) return 1;
  if (fd < 0) return ctxp_error_set(err, -errno, "could not make '%s': %s", path, strerror(errno));
  ssize_t n = write(fd, text, len);
  if (n == (ssize_t)len && fsync(fd) == 0) return 0;
  int r = ctxp_error_set(err, n < 0 ? -errno : -EIO, "could not write '%s': %s", path, n < 0 ? strerror(errno) : "it is not whole");
  unlink(path);
  return r;
}

/* The value of the line NAME VALUE; NAME NULL: of the first line that is no comment. */
static int find_key(const char *path, const char *name, char ret_key[CTXP_KEY_BYTES], struct ctxp_error *err) {
  ctxp_auto_fclose FILE *file = fopen(path, "re");
  char line[256], word[32], key[128];
  uint8_t bytes[32];
  struct stat st;
  if (!file || fstat(fileno(file), &st) < 0) return ctxp_error_set(err, -errno, "could not read '%s': %s", path, strerror(errno));
  if (st.st_mode & 077)
    return ctxp_error_set(err, -EPERM, "'%s' holds a secret key and can be read by others; run: chmod 600 '%s'", path, path);
  while (fgets(line, sizeof(line), file)) {
    if (line[0] == '#' || line[0] == '\n') continue;
    int words = name ? sscanf(line, "%31s %127s", word, key) : sscanf(line, "%127s", key) + 1;
    if (words != 2 || (name && strcmp(word, name) != 0)) continue;
    if (strlen(key) != CTXP_KEY_BYTES - 1 || !zmq_z85_decode(bytes, key)) break;
    memcpy(ret_key, key, CTXP_KEY_BYTES);
    return 0;
  }
  return ctxp_error_set(
      err, -EINVAL, "'%s' holds no %s key of 40 characters; 'ctxpipe keys' makes such files", path, name ? name : "secret");
}

int ctxp_keyfile_server(const char *dir, char ret_public[CTXP_KEY_BYTES], struct ctxp_error *err) {
  ctxp_auto_buf secret_file = {0}, clients = {0};
  char public[CTXP_KEY_BYTES], secret[CTXP_KEY_BYTES], text[CTXP_KEY_BYTES + 128];
  if (mkdir(dir, 0700) < 0 && errno != EEXIST)
    return ctxp_error_set(err, -errno, "could not make the folder '%s': %s", dir, strerror(errno));
  ctxp_buf_printf(&secret_file, "%s/" SECRET, dir);
  ctxp_buf_printf(&clients, "%s/" CLIENTS, dir);
  if (zmq_curve_keypair(public, secret) < 0) return no_curve(err);
  snprintf(text, sizeof(text), "# The secret key of a ctxpipe collector. It stays on its machine.\n%s\n", secret);
  int made = write_new(ctxp_buf_cstr(&secret_file), text, err);
  int listed = made < 0 ? made : write_new(ctxp_buf_cstr(&clients), "# Public keys of those who may connect: KEY NAME\n", err);
  explicit_bzero(text, sizeof(text));
  if (listed < 0) return listed;
  int r = find_key(ctxp_buf_cstr(&secret_file), NULL, secret, err);
  if (r == 0 && zmq_curve_public(ret_public, secret) < 0) r = no_curve(err);
  explicit_bzero(secret, sizeof(secret));
  return r < 0 ? r : made && listed;
}

static bool name_is_good(const char *name) {
  size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@");
  return len && !name[len] && len <= 64 && name[0] != '.' && name[0] != '-';
}

static int list_client(const char *dir, const char *name, const char *public, struct ctxp_error *err) {
  ctxp_auto_buf path = {0}, line = {0};
  ctxp_buf_printf(&path, "%s/" CLIENTS, dir);
  ctxp_buf_printf(&line, "%s %s\n", public, name);
  ctxp_auto_close int fd = open(ctxp_buf_cstr(&path), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 || write(fd, line.ptr, line.len) != (ssize_t)line.len || fsync(fd) < 0)
    return ctxp_error_set(err, errno ? -errno : -EIO, "could not add '%s' to '%s': %s", name, ctxp_buf_cstr(&path), strerror(errno));
  return 0;
}

int ctxp_keyfile_client(const char *dir, const char *name, const char *server_public, struct ctxp_error *err) {
  ctxp_auto_buf path = {0};
  char public[CTXP_KEY_BYTES], secret[CTXP_KEY_BYTES], text[512];
  if (!name_is_good(name))
    return ctxp_error_set(err, -EINVAL, "'%s' is no name of a client; use up to 64 letters, digits, '-', '_', '.' and '@'", name);
  ctxp_buf_printf(&path, "%s/%s.client", dir, name);
  if (zmq_curve_keypair(public, secret) < 0) return no_curve(err);
  snprintf(text, sizeof(text),
      "# Keys of the ctxpipe client %s. Copy this file to its machine, and nowhere else.\nserver %s\npublic %s\nsecret %s\n", name,
      server_public, public, secret);
  int r = write_new(ctxp_buf_cstr(&path), text, err);
  explicit_bzero(text, sizeof(text));
  explicit_bzero(secret, sizeof(secret));
  if (r > 0)
    return ctxp_error_set(err, -EEXIST, "'%s' is there already, and stays as it is; take it away to make new keys", ctxp_buf_cstr(&path));
  if (r == 0) r = list_client(dir, name, public, err);
  if (r < 0) unlink(ctxp_buf_cstr(&path));
  return r;
}

int ctxp_keyfile_read_client(const char *path, struct ctxp_client_keys *ret_keys, struct ctxp_error *err) {
  struct ctxp_client_keys keys = {0};
  int r = find_key(path, "server", keys.server, err);
  if (r == 0) r = find_key(path, "public", keys.public, err);
  if (r == 0) r = find_key(path, "secret", keys.secret, err);
  if (r == 0) *ret_keys = keys;
  return r;
}
