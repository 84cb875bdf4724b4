/* Topologies: every text ends in a topology, or in sentences with a place; a topology that is written out reads back as itself. */
#include <string.h>
#include "base/buf.h"
#include "base/str.h"
#include "config/topology.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ctxp_auto_buf faults = {0}, written = {0}, again = {0};
  struct ctxp_config *config = NULL, *second = NULL;
  struct ctxp_str text = {(const char *)data, size};
  if (ctxp_topology_parse("/nowhere/t.yaml", text, ctxp_registry_get(), &config, &faults) < 0) {
    fuzz_check(faults.len && faults.ptr[faults.len - 1] == '\n' && ctxp_utf8_valid(ctxp_buf_view(&faults)));
    return 0;
  }
  fuzz_check(config->node_count > 0);
  fuzz_check(ctxp_topology_write(config, &written) == 0);
  fuzz_check(ctxp_topology_parse("/nowhere/t.yaml", ctxp_buf_view(&written), ctxp_registry_get(), &second, &faults) == 0);
  fuzz_check(ctxp_topology_write(second, &again) == 0);
  fuzz_check(again.len == written.len && memcmp(again.ptr, written.ptr, again.len) == 0);
  ctxp_topology_free(second);
  ctxp_topology_free(config);
  return 0;
}
