#include <errno.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "collector/topology_event.h"

static struct ctxp_derivation derivation(const struct ctxp_node_config *node) {
  static const uint8_t no_options[] = {0x80};
  struct ctxp_derivation d = {.node = ctxp_str(node->name),
      .daemon = ctxp_str(node->ops->name),
      .version = node->ops->version,
      .options = node->options.len ? ctxp_buf_raw(&node->options) : (struct ctxp_raw){no_options, 1}};
  return d;
}

/* none named: the empty table, which has a version as any other */
static int encode_prices(const struct ctxp_prices *prices, struct ctxp_buf *out) {
  ctxp_auto_buf faults = {0};
  struct ctxp_prices *none = NULL;
  int r = prices ? 0 : ctxp_prices_read(NULL, 0, &none, &faults);
  if (r == 0) r = ctxp_prices_encode(prices ? prices : none, out);
  ctxp_prices_free(none);
  return r < 0 ? r : ctxp_buf_error(out);
}

int ctxp_topology_event(const struct ctxp_config *config, struct ctxp_buf *scratch, struct ctxp_event *ret) {
  struct ctxp_list mechanisms = {0};
  *ret = (struct ctxp_event){.kind = CTXP_KIND_topology};
  for (unsigned i = 0; i < config->node_count; i++) {
    struct ctxp_derivation d = derivation(&config->nodes[i]);
    if (config->nodes[i].ops->role == CTXP_ROLE_MECHANISM_NODE && ctxp_list_add(&mechanisms, scratch, &ctxp_shape_derivation, &d) < 0)
      return -ENOMEM;
    if (config->nodes[i].ops->role == CTXP_ROLE_FOLD_NODE) ctxp_set(&ret->topology, topology, fold, d);
  }
  size_t prices = scratch->len; /* behind the list, which the buffer may move */
  int r = encode_prices(config->prices, scratch);
  if (r < 0) return r;
  mechanisms.ptr = scratch->ptr;
  ctxp_set(&ret->topology, topology, mechanisms, mechanisms);
  ctxp_set(&ret->topology, topology, prices, (struct ctxp_raw){scratch->ptr + prices, scratch->len - prices});
  return 0;
}
