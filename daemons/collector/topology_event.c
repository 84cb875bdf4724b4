#include <errno.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "collector/topology_event.h"

static struct ctxp_derivation derivation(const struct ctxp_node_config *node) {
  static const uint8_t no_options[] = {0x80};
  struct ctxp_derivation d = {.node = ctxp_str(node->name), .daemon = ctxp_str(node->ops->name), .version = node->ops->version,
                              .options = node->options.len ? ctxp_buf_raw(&node->options) : (struct ctxp_raw){no_options, 1}};
  return d;
}

int ctxp_topology_event(const struct ctxp_config *config, struct ctxp_buf *scratch, struct ctxp_event *ret) {
  struct ctxp_list mechanisms = {0};
  *ret = (struct ctxp_event){.kind = CTXP_KIND_topology};
  for (unsigned i = 0; i < config->node_count; i++) {
    struct ctxp_derivation d = derivation(&config->nodes[i]);
    if (config->nodes[i].ops->role == CTXP_ROLE_MECHANISM_NODE && ctxp_list_add(&mechanisms, scratch, &ctxp_shape_derivation, &d) < 0) return -ENOMEM;
    if (config->nodes[i].ops->role == CTXP_ROLE_FOLD_NODE) ctxp_set(&ret->topology, topology, fold, d);
  }
  size_t prices = scratch->len; /* behind the list, which the buffer may move */
  if (config->prices) {
    int r = ctxp_prices_encode(config->prices, scratch);
    if (r < 0) return r;
  } else {
    ctxp_pack_map(scratch, 2); /* a table without rows */
    ctxp_pack_cstr(scratch, "version");
    ctxp_pack_cstr(scratch, "none");
    ctxp_pack_cstr(scratch, "models");
    ctxp_pack_array(scratch, 0);
  }
  if (scratch->failed) return -ENOMEM;
  mechanisms.ptr = scratch->ptr;
  ctxp_set(&ret->topology, topology, mechanisms, mechanisms);
  ctxp_set(&ret->topology, topology, prices, (struct ctxp_raw){scratch->ptr + prices, scratch->len - prices});
  return 0;
}
