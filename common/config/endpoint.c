/* Where agents connect: ipc:// and tcp:// endpoints, and CURVE for those that leave the machine. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "config/path.h"
#include "config/topology_read.h"

#define ENDPOINTS_MAX 16

static struct ctxp_str after(struct ctxp_str text, size_t from) { return (struct ctxp_str){text.ptr + from, text.len - from}; }

static char *ipc(struct ctxp_reading *r, const struct ctxp_yaml *value) {
  ctxp_auto_buf endpoint = {0};
  struct ctxp_error why;
  const char *base = r->topology->run_dir ? r->topology->run_dir : "/"; /* "/": there is a fault already */
  ctxp_buf_str(&endpoint, "ipc://");
  int err = ctxp_path_resolve(after(value->text, 6), base, "run_dir", &endpoint, &why);
  if (err == -EINVAL) ctxp_faults_add(r->faults, value->place, "ingest: %s", why.text);
  char *text = err < 0 ? NULL : ctxp_str_dup(ctxp_buf_view(&endpoint));
  if (err == -ENOMEM || (err == 0 && !text)) r->faults->failed = true;
  return text;
}

static bool host_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == ':';
}

/* HOST:PORT, [IPV6]:PORT */
static bool split_tcp(struct ctxp_str text, struct ctxp_str *ret_host) {
  size_t colon = text.len;
  uint64_t port;
  while (colon > 0 && text.ptr[colon - 1] != ':') colon--;
  if (colon < 2 || !ctxp_schema_u64(after(text, colon), &port) || port < 1 || port > 65535) return false;
  struct ctxp_str host = {text.ptr, colon - 1};
  bool bracketed = host.ptr[0] == '[' && host.ptr[host.len - 1] == ']' && host.len > 2;
  if (bracketed) host = (struct ctxp_str){host.ptr + 1, host.len - 2};
  for (size_t i = 0; i < host.len; i++)
    if (!host_char(host.ptr[i]) || (host.ptr[i] == ':' && !bracketed)) return ctxp_str_is(host, "*") && (*ret_host = host, true);
  *ret_host = host;
  return true;
}

static bool is_loopback(struct ctxp_str host) {
  return ctxp_str_is(host, "localhost") || ctxp_str_is(host, "::1") || ctxp_str_starts(host, "127.");
}

static void check_tcp(struct ctxp_reading *r, const struct ctxp_node_config *node, const struct ctxp_yaml *value, bool *has_tcp) {
  struct ctxp_str host;
  *has_tcp = true;
  if (!split_tcp(after(value->text, 6), &host))
    ctxp_faults_add(
        r->faults, value->place, "ingest: '%s' is not tcp://HOST:PORT with a port from 1 to 65535", ctxp_shown(value->text).text);
  else if (!is_loopback(host) && !node->curve_secret_file)
    ctxp_faults_add(r->faults, value->place,
        "ingest: '%s' is open to other machines without encryption; add 'curve: {secret_file: ..., clients_file: ...}', or use 127.0.0.1",
        ctxp_shown(value->text).text);
}

static void add_endpoint(struct ctxp_reading *r, struct ctxp_node_config *node, const struct ctxp_yaml *value, bool *has_tcp) {
  char *endpoint = NULL;
  if (!ctxp_schema_text(r->faults, value, "an endpoint in 'ingest'")) return;
  if (ctxp_str_starts(value->text, "ipc://")) {
    endpoint = ipc(r, value);
    if (!endpoint) return;
  } else if (ctxp_str_starts(value->text, "tcp://")) {
    check_tcp(r, node, value, has_tcp);
    endpoint = ctxp_str_dup(value->text);
  } else {
    ctxp_faults_add(
        r->faults, value->place, "ingest: '%s' is no endpoint; write ipc://NAME or tcp://HOST:PORT", ctxp_shown(value->text).text);
    return;
  }
  for (char **it = node->ingest; endpoint && it && *it; it++) {
    if (strcmp(*it, endpoint) != 0) continue;
    ctxp_faults_add(r->faults, value->place, "ingest: '%s' stands there twice", ctxp_shown(value->text).text);
    free(endpoint);
    return;
  }
  ctxp_reading_push(r, &node->ingest, endpoint);
}

static char *key_file(struct ctxp_reading *r, const struct ctxp_yaml *curve, const char *key) {
  const struct ctxp_yaml *value = ctxp_yaml_get(curve, key);
  if (!value) {
    ctxp_faults_add(r->faults, curve->place, "'curve' lacks '%s'; it names a file beside the topology", key);
    return NULL;
  }
  char *path = ctxp_reading_path(r, value, key, r->dir, "the topology's directory");
  if (path && access(path, R_OK) < 0) ctxp_faults_add(r->faults, value->place, "%s: '%s' cannot be read: %s", key, path, strerror(errno));
  return path;
}

static void read_curve(struct ctxp_reading *r, struct ctxp_node_config *node, const struct ctxp_yaml *curve) {
  static const char *const keys[] = {"secret_file", "clients_file", NULL};
  if (curve->type == CTXP_YAML_BAD) return;
  if (curve->type != CTXP_YAML_MAPPING) {
    ctxp_faults_add(r->faults, curve->place, "'curve' takes a mapping: {secret_file: FILE, clients_file: FILE}");
    return;
  }
  ctxp_schema_keys(r->faults, curve, "key", keys);
  node->curve_secret_file = key_file(r, curve, "secret_file");
  node->curve_clients_file = key_file(r, curve, "clients_file");
}

static void only_for_collector(struct ctxp_reading *r, const struct ctxp_yaml *value) {
  if (value)
    ctxp_faults_add(r->faults, value->key->place, "'%s' is for the collector alone; agents connect nowhere else", value->key->text.ptr);
}

static void read_endpoints(struct ctxp_reading *r, struct ctxp_node_config *node, const struct ctxp_yaml *list, bool *has_tcp) {
  if (list->type == CTXP_YAML_BAD) return;
  if (list->type != CTXP_YAML_SEQUENCE || list->count == 0 || list->count > ENDPOINTS_MAX) {
    ctxp_faults_add(r->faults, list->place, "'ingest' takes a list of 1 to %d endpoints: [ipc://ingest.sock]", ENDPOINTS_MAX);
    return;
  }
  for (const struct ctxp_yaml *it = list->first; it; it = it->next) add_endpoint(r, node, it, has_tcp);
}

void ctxp_reading_ingest(struct ctxp_reading *r, struct ctxp_node_config *node, const struct ctxp_yaml *mapping) {
  const struct ctxp_yaml *ingest = ctxp_yaml_get(mapping, "ingest"), *curve = ctxp_yaml_get(mapping, "curve");
  bool has_tcp = false;
  if (!node->ops) return;
  if (node->ops->role != CTXP_ROLE_COLLECTOR_NODE) {
    only_for_collector(r, ingest);
    only_for_collector(r, curve);
    return;
  }
  if (!ingest) {
    ctxp_faults_add(r->faults, mapping->key->place, "'ingest' is missing; write 'ingest: [ipc://ingest.sock]'");
    return;
  }
  if (curve) read_curve(r, node, curve);
  read_endpoints(r, node, ingest, &has_tcp);
  if (curve && !has_tcp) ctxp_faults_add(r->faults, curve->key->place, "'curve' is for tcp:// endpoints, and 'ingest' has none");
}
