/* The graph of a topology. Its shape is always agents, collector, mechanisms, fold, sinks, so that the drawing is a table. */
#include <stdio.h>
#include "base/str.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/table.h"

#define NODES_MAX 64

struct lines { /* how connections are drawn */
  const char *dash, *arrow, *first, *middle, *last, *join_first, *join_middle, *join_last;
};
static const struct lines utf8 = {"─", "─▶ ", "─┬", " ├", " └", "─┬─", "─┤ ", "─┘ "},
                          ascii = {"-", "-> ", "-+", " +", " +", "-+-", "-+ ", "-+ "};

struct drawing {
  const struct ctxp_node_config *collector, *fold, *mechanisms[NODES_MAX], *sinks[NODES_MAX];
  unsigned mechanism_count, sink_count;
};

/* the mechanisms in the order in which the fold merges them */
static struct drawing arrange(const struct ctxp_config *config) {
  struct drawing d = {
      .collector = ctxp_pipeline_node(config, CTXP_ROLE_COLLECTOR_NODE), .fold = ctxp_pipeline_node(config, CTXP_ROLE_FOLD_NODE)};
  for (char **it = d.fold ? d.fold->subscribe : NULL; it && *it; it++) {
    const struct ctxp_node_config *node = ctxp_topology_node(config, *it);
    if (node && node->ops->role == CTXP_ROLE_MECHANISM_NODE && d.mechanism_count < NODES_MAX) d.mechanisms[d.mechanism_count++] = node;
  }
  for (unsigned i = 0; i < config->node_count; i++)
    if (config->nodes[i].ops->role == CTXP_ROLE_SINK_NODE && d.sink_count < NODES_MAX) d.sinks[d.sink_count++] = &config->nodes[i];
  return d;
}

static unsigned label(const struct ctxp_node_config *node, struct ctxp_buf *out) {
  size_t before = out->len;
  ctxp_buf_str(out, node->name);
  if (strcmp(node->name, node->ops->name) != 0) ctxp_buf_printf(out, " (%s)", node->ops->name);
  return (unsigned)(out->len - before);
}

static void repeat(struct ctxp_buf *out, const char *text, unsigned times) {
  while (times-- > 0) ctxp_buf_str(out, text);
}

static unsigned label_width(const struct ctxp_node_config *node) {
  ctxp_auto_buf text = {0};
  return label(node, &text);
}

/* row i of a fan of `count` */
static const char *branch(const struct lines *l, unsigned i, unsigned count) {
  if (count == 1) return l->dash;
  return i == 0 ? l->first : i + 1 == count ? l->last :
                                              l->middle;
}

static void draw_start(const struct drawing *d, const struct lines *l, unsigned row, struct ctxp_buf *out) {
  if (row == 0) {
    ctxp_buf_printf(out, "agents %s%s", l->dash, l->arrow);
    label(d->collector, out);
    ctxp_buf_char(out, ' ');
  } else {
    repeat(out, " ", 7 + 4 + label_width(d->collector) + 1);
  }
}

/* Row by row a mechanism, and in the last the way around them. */
static void draw_mechanism(const struct drawing *d, const struct lines *l, unsigned row, unsigned width, struct ctxp_buf *out) {
  unsigned ways = d->mechanism_count + 1, used = 0;
  if (row >= ways) {
    repeat(out, " ", 2 + 3 + width + 1 + 3);
    return;
  }
  ctxp_buf_str(out, branch(l, row, ways));
  if (ways == 1) {
    ctxp_buf_str(out, l->dash);
  } else if (row < d->mechanism_count) {
    ctxp_buf_str(out, l->arrow);
    used = label(d->mechanisms[row], out);
    ctxp_buf_char(out, ' ');
    repeat(out, l->dash, width - used);
  } else {
    repeat(out, l->dash, 3 + width + 1);
  }
  if (ways > 1) ctxp_buf_str(out, row == 0 ? l->join_first : row + 1 == ways ? l->join_last :
                                                                               l->join_middle);
}

static void draw_sink(const struct drawing *d, const struct lines *l, unsigned row, struct ctxp_buf *out) {
  if (row >= d->sink_count) return;
  ctxp_buf_str(out, branch(l, row, d->sink_count));
  ctxp_buf_str(out, l->arrow);
  label(d->sinks[row], out);
}

static void draw(const struct ctxp_config *config, const struct lines *l, struct ctxp_buf *out) {
  struct drawing d = arrange(config);
  unsigned rows = d.mechanism_count + 1 > d.sink_count ? d.mechanism_count + 1 : d.sink_count, width = 0;
  for (unsigned i = 0; i < d.mechanism_count; i++)
    if (label_width(d.mechanisms[i]) > width) width = label_width(d.mechanisms[i]);
  for (unsigned row = 0; row < rows; row++) {
    draw_start(&d, l, row, out);
    draw_mechanism(&d, l, row, width, out);
    if (row == 0) {
      ctxp_buf_str(out, l->arrow);
      label(d.fold, out);
      ctxp_buf_char(out, ' ');
    } else if (row < d.sink_count) {
      repeat(out, " ", 3 + label_width(d.fold) + 1);
    }
    draw_sink(&d, l, row, out);
    while (out->len && out->ptr[out->len - 1] == ' ') out->len--;
    ctxp_buf_char(out, '\n');
  }
  for (char **it = d.collector->ingest; *it; it++)
    ctxp_buf_printf(out, "%s%s\n", it == d.collector->ingest ? "\nagents connect to " : "                  ", *it);
}

static void dot(const struct ctxp_config *config, struct ctxp_buf *out) {
  ctxp_buf_str(out, "digraph ctxpipe {\n  rankdir=LR;\n  node [shape=box];\n  agents [shape=plaintext];\n");
  for (unsigned i = 0; i < config->node_count; i++) {
    const struct ctxp_node_config *node = &config->nodes[i];
    ctxp_buf_printf(out, "  \"%s\" [label=\"%s\\n%s\"];\n", node->name, node->name, node->ops->name);
  }
  for (unsigned i = 0; i < config->node_count; i++) {
    const struct ctxp_node_config *node = &config->nodes[i];
    if (node->ops->role == CTXP_ROLE_COLLECTOR_NODE) ctxp_buf_printf(out, "  agents -> \"%s\";\n", node->name);
    for (char **it = node->subscribe; it && *it; it++) ctxp_buf_printf(out, "  \"%s\" -> \"%s\";\n", *it, node->name);
  }
  ctxp_buf_str(out, "}\n");
}

static int run(const struct ctxp_args *args) {
  struct ctxp_config *config = NULL;
  struct ctxp_error err;
  ctxp_auto_buf text = {0};
  struct ctxp_style style = ctxp_style_of(stdout);
  if (ctxp_pipeline_config(args, &config, &err) < 0) return ctxp_command_fail(&err);
  if (ctxp_args_has(args, "dot"))
    dot(config, &text);
  else
    draw(config, style.utf8 ? &utf8 : &ascii, &text);
  ctxp_topology_free(config);
  return !text.failed && fwrite(text.ptr, 1, text.len, stdout) == text.len && fflush(stdout) == 0 ? 0 : 1;
}

static const struct ctxp_flag flags[] = {
    {.name = "file", .letter = 'f', .value = "FILE", .help = "the topology (default: the built-in one)"},
    {.name = "dot", .help = "print it in the language of Graphviz"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_graph = {
    .name = "graph",
    .summary = "draw how the nodes of a topology hang together",
    .operands = "",
    .flags = flags,
    .run = run,
    .details = "",
    .example = "ctxpipe graph --dot | dot -Tsvg > graph.svg",
};
