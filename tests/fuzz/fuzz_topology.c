/* A topology from outside: it is refused with at least one line, or what is written of it reads back and is written as the same bytes. */
#include <string.h>
#include "base/str.h"
#include "config/topology.h"
#include "fuzz.h"

static struct ctxp_config *parse(struct ctxp_str text, struct ctxp_buf *faults) {
  struct ctxp_config *config = NULL;
  int r = ctxp_topology_parse("/nonexistent/topology.yaml", text, ctxp_registry_get(), &config, faults);
  fuzz_check((r < 0) == (faults->len > 0));
  fuzz_check((r < 0) == !config);
  return config;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ctxp_auto_buf faults = {0}, first = {0}, second = {0};
  struct ctxp_config *config = parse((struct ctxp_str){(const char *)data, size}, &faults);
  if (!config) return 0;
  fuzz_check(ctxp_topology_write(config, &first) == 0);
  ctxp_topology_free(config);
  config = parse(ctxp_buf_view(&first), &faults);
  fuzz_check(config);
  fuzz_check(ctxp_topology_write(config, &second) == 0);
  ctxp_topology_free(config);
  fuzz_check(first.len == second.len && memcmp(first.ptr, second.ptr, first.len) == 0);
  return 0;
}
