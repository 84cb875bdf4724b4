/* What is known while a topology is read: between topology.c, endpoint.c, topology_check.c and topology_places.c. */
#pragma once
#include "config/schema.h"
#include "config/topology.h"

struct ctxp_reading {
  struct ctxp_faults *faults;
  struct ctxp_config *topology;
  const struct ctxp_stage_ops *const *registry;
  const struct ctxp_yaml *root;
  const struct ctxp_yaml **nodes; /* of topology->nodes, same index: where each stands */
  const char *dir; /* of the file */
  bool lean; /* price tables are not read */
};

/* Ingest endpoints and CURVE of a node, from its mapping. */
void ctxp_reading_ingest(struct ctxp_reading *r, struct ctxp_node_config *node, const struct ctxp_yaml *mapping);
/* What only the whole shows: edges, cycles, lonely nodes, and the places. */
void ctxp_reading_check(struct ctxp_reading *r);
/* Files and sockets of one node: none where another, or ctxpipe itself, has its own. And of all: paths too long for a socket. */
void ctxp_reading_check_places(struct ctxp_reading *r, unsigned node);
void ctxp_reading_check_sockets(struct ctxp_reading *r);
/* Appends to a NULL-terminated array; takes `text`. false: out of memory (text is freed, faults->failed set). */
bool ctxp_reading_push(struct ctxp_reading *r, char ***list, char *text);
/* Resolves a path of the file; NULL and a fault where it cannot be. what: its key. The caller frees. */
char *ctxp_reading_path(struct ctxp_reading *r, const struct ctxp_yaml *value, const char *what, const char *base, const char *under);
