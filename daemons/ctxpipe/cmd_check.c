#include <stdio.h>
#include "base/str.h"
#include "config/builtin.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/spawn.h"
#include "ctxpipe/table.h"

static void print_faults(struct ctxp_buf *faults) {
  ctxp_auto_buf safe = {0};
  ctxp_term_lines(&safe, ctxp_buf_view(faults));
  fflush(stdout);
  fwrite(safe.ptr, 1, safe.len, stderr);
}

/* What `up` does before its first child: the same reader, the same search for the programs. */
static int check(const char *file, struct ctxp_config **ret_config) {
  ctxp_auto_buf faults = {0};
  int r = file ? ctxp_topology_read(file, ctxp_registry_get(), ret_config, &faults) :
                 ctxp_topology_parse("/built-in", ctxp_str(ctxp_builtin_topology_text), ctxp_registry_get(), ret_config, &faults);
  if (r < 0) {
    print_faults(&faults);
    return r;
  }
  for (unsigned i = 0; i < (*ret_config)->node_count; i++) {
    const struct ctxp_node_config *node = &(*ret_config)->nodes[i];
    ctxp_auto_buf program = {0};
    struct ctxp_error err;
    int one = ctxp_spawn_find(node->ops->name, &program, &err);
    if (one < 0) ctxp_buf_printf(&faults, "%s:%u: node '%s': %s\n", file ? file : "built-in", node->line, node->name, err.text);
    if (one < 0) r = one;
  }
  print_faults(&faults);
  return r;
}

static void summary(const char *file, const struct ctxp_config *config, struct ctxp_buf *out) {
  ctxp_buf_printf(out, "%s: good, ", file ? file : "the built-in topology");
  ctxp_put_counted(out, config->node_count, "node");
  ctxp_buf_char(out, '\n');
  ctxp_buf_printf(out, "  state_dir %s\n  run_dir   %s\n", config->state_dir, config->run_dir);
  if (config->prices) {
    ctxp_buf_printf(out, "  prices    %s, ", ctxp_prices_version(config->prices));
    ctxp_put_counted(out, ctxp_prices_count(config->prices), "model");
    ctxp_buf_char(out, '\n');
  } else {
    ctxp_buf_str(out, "  prices    none: every token is unpriced\n");
  }
  for (unsigned i = 0; i < config->node_count; i++) {
    const struct ctxp_node_config *node = &config->nodes[i];
    if (node->ops->role == CTXP_ROLE_SINK_NODE)
      ctxp_buf_printf(out, "  %s, when it is new, reads %s\n", node->name,
          node->from_start ? "from the start of what is retained; what is gone already is said in a gap line" : "from now on");
  }
}

static int run(const struct ctxp_args *args) {
  struct ctxp_config *config = NULL;
  ctxp_auto_buf text = {0}, safe = {0};
  const char *file = args->operand_count ? args->operands[0] : ctxp_args_get(args, "file");
  bool resolved = ctxp_args_has(args, "resolved");
  int r = check(file, &config);
  if (r == 0 && resolved) r = ctxp_topology_write(config, &text);
  if (r == 0 && !resolved) summary(file, config, &text);
  if (r == 0) r = ctxp_buf_error(&text);
  ctxp_topology_free(config);
  if (r < 0) return 1;
  ctxp_term_lines(&safe, ctxp_buf_view(&text));
  const struct ctxp_buf *shown = resolved ? &text : &safe;
  return fwrite(shown->ptr, 1, shown->len, stdout) == shown->len && fflush(stdout) == 0 ? 0 : 1;
}

static const struct ctxp_flag flags[] = {
    {.name = "file", .letter = 'f', .value = "FILE", .help = "the topology (default: the built-in one)"},
    {.name = "resolved", .help = "print the topology as the daemons get it: absolute paths, every default written out"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_check = {
    .name = "check",
    .summary = "say what is wrong with a topology, all at once",
    .operands = "[FILE]",
    .flags = flags,
    .operands_max = 1,
    .run = run,
    .example = "ctxpipe check -f TOPOLOGY.yaml",
    .details = "Does what 'ctxpipe up' does before it starts its first daemon, and stops there. Each fault is one line: file, line, "
               "column, node,\n"
               "what is wrong and what would be right.",
};
