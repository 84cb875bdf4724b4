#include "config/resolved.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/cleanup.h"

int ctxp_resolved_write(const struct ctxp_config *config, struct ctxp_buf *ret_topology, struct ctxp_buf *ret_prices) {
  struct ctxp_config without = *config;
  without.price_files = NULL;
  int r = ctxp_topology_write(&without, ret_topology);
  return r == 0 && config->prices ? ctxp_prices_encode(config->prices, ret_prices) : r;
}

static int read_file(const char *path, struct ctxp_buf *ret) {
  char block[8192];
  size_t got;
  ctxp_auto_fclose FILE *file = fopen(path, "re");
  if (!file) return -errno;
  while ((got = fread(block, 1, sizeof(block), file)) > 0) ctxp_buf_add(ret, block, got);
  return ferror(file) ? -EIO : ctxp_buf_error(ret);
}

int ctxp_resolved_prices(struct ctxp_config *config, struct ctxp_error *err) {
  ctxp_auto_buf path = {0}, bytes = {0};
  if (config->prices) return 0;
  ctxp_buf_printf(&path, "%s/" CTXP_RESOLVED_PRICES, config->run_dir);
  int r = ctxp_buf_error(&path);
  if (r == 0) r = read_file(ctxp_buf_cstr(&path), &bytes);
  if (r == -ENOENT || (r == 0 && bytes.len == 0)) return 0;
  if (r == 0) r = ctxp_prices_decode(ctxp_buf_raw(&bytes), &config->prices);
  return r < 0 ? ctxp_error_set(err, r, "could not read the price table '%s': %s", ctxp_buf_cstr(&path), strerror(-r)) : 0;
}
