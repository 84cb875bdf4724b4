#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/daemon_main.h"

static int usage(const char *name, const char *what, const char *which) {
  fprintf(stderr, "%s: %s%s\nusage: %s --topology FILE --node NAME [--ready-fd N] [--life-fd M] [--log-level error|warn|info|debug]\n",
      name, what, which, name);
  return CTXP_EXIT_ERROR;
}

static int parse_fd(const char *text) {
  char *end;
  long fd = strtol(text, &end, 10);
  return *end || end == text || fd < 0 || fd > 1 << 20 ? -1 : (int)fd;
}

static int parse_level(const char *text) {
  static const char *const names[] = {"error", "warn", "info", "debug"};
  for (int i = 0; i < 4; i++)
    if (strcmp(text, names[i]) == 0) return i;
  return -1;
}

int ctxp_daemon_run(const struct ctxp_node_options *options, enum ctxp_level level) {
  ctxp_log_set(options->name, level);
  return ctxp_node_run(options);
}

int ctxp_daemon_main_source(const struct ctxp_stage_ops *ops, const struct ctxp_source_ops *source, int argc, char **argv) {
  static const struct option known[] = {{"topology", required_argument, NULL, 't'}, {"node", required_argument, NULL, 'n'},
      {"ready-fd", required_argument, NULL, 'r'}, {"life-fd", required_argument, NULL, 'l'}, {"log-level", required_argument, NULL, 'v'},
      {NULL, 0, NULL, 0}};
  struct ctxp_node_options options = {.ops = ops, .source = source, .ready_fd = -1, .life_fd = -1};
  int level = CTXP_LOG_INFO, c;
  opterr = 0;
  while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
    if (c == 't')
      options.topology_file = optarg;
    else if (c == 'n')
      options.name = optarg;
    else if (c == 'r' && (options.ready_fd = parse_fd(optarg)) < 0)
      return usage(ops->name, "--ready-fd is no descriptor: ", optarg);
    else if (c == 'l' && (options.life_fd = parse_fd(optarg)) < 0)
      return usage(ops->name, "--life-fd is no descriptor: ", optarg);
    else if (c == 'v' && (level = parse_level(optarg)) < 0)
      return usage(ops->name, "unknown log level: ", optarg);
    else if (c == '?')
      return usage(ops->name, "not understood: ", argv[optind - 1]);
  }
  if (!options.topology_file || !options.name || optind < argc)
    return usage(ops->name, "--topology and --node are needed, and nothing else", "");
  /* one arena: a daemon has one thread that allocates, and idle pipelines are to be small */
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  return ctxp_daemon_run(&options, (enum ctxp_level)level);
}

int ctxp_daemon_main(const struct ctxp_stage_ops *ops, int argc, char **argv) { return ctxp_daemon_main_source(ops, NULL, argc, argv); }
