#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/str.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/table.h"

/* where the last `lines` lines begin */
static size_t begin_of(const struct ctxp_buf *text, uint64_t lines) {
  size_t at = text->len;
  if (at && text->ptr[at - 1] == '\n') at--;
  for (; at > 0; at--)
    if (text->ptr[at - 1] == '\n' && --lines == 0) break;
  return at;
}

static int not_there(const char *path, const char *node, struct ctxp_error *err) {
  if (strcmp(node, "supervisor") == 0)
    return ctxp_error_set(err, -ENOENT, "there is no '%s': the supervisor keeps a log when it is started with 'ctxpipe up --detach'", path);
  return ctxp_error_set(err, -ENOENT, "there is no '%s': node '%s' has not been started yet", path, node);
}

static int read_file(const char *path, const char *node, struct ctxp_buf *text, struct ctxp_error *err) {
  ctxp_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  char block[65536];
  ssize_t n = 0;
  if (fd < 0 && errno == ENOENT) return not_there(path, node, err);
  if (fd < 0) return ctxp_error_set(err, -errno, "could not read '%s': %s", path, strerror(errno));
  while ((n = read(fd, block, sizeof(block))) > 0) ctxp_buf_add(text, block, (size_t)n);
  return n < 0 ? ctxp_error_set(err, -errno, "could not read '%s': %s", path, strerror(errno)) : ctxp_buf_error(text);
}

static int show(const struct ctxp_config *config, const char *node, uint64_t lines, struct ctxp_error *err) {
  ctxp_auto_buf path = {0}, text = {0}, safe = {0};
  if (!ctxp_topology_node(config, node) && strcmp(node, "supervisor") != 0)
    return ctxp_error_set(err, -ENOENT, "there is no node '%s'; 'ctxpipe status' lists them", node);
  ctxp_buf_printf(&path, "%s/logs/%s.log", config->state_dir, node);
  int r = read_file(ctxp_buf_cstr(&path), node, &text, err);
  if (r < 0) return r;
  if (text.len == 0) fprintf(stderr, "ctxpipe: the log of '%s' is empty: it has had nothing to say\n", node);
  size_t from = begin_of(&text, lines);
  ctxp_term_lines(&safe, ctxp_buf_from(&text, from));
  fwrite(safe.ptr, 1, safe.len, stdout);
  return 0;
}

/* of a pipeline that runs, else of the topology: the words of one that could not start are what is looked for */
static int run(const struct ctxp_args *args) {
  struct ctxp_pipeline pipeline = {0};
  struct ctxp_error err;
  uint64_t lines;
  int r = ctxp_args_number(args, "lines", 1, 1000000, 100, &lines, &err);
  if (r < 0) return ctxp_command_misuse(&err);
  if (ctxp_pipeline_find(args, &pipeline, &err) < 0)
    r = ctxp_args_has(args, "run-dir") ? -ENOENT : ctxp_pipeline_config(args, &pipeline.config, &err);
  if (r == 0) r = show(pipeline.config, args->operands[0], lines, &err);
  ctxp_pipeline_deinit(&pipeline);
  return r < 0 ? ctxp_command_fail(&err) : 0;
}

static const struct ctxp_flag flags[] = {
    CTXP_PIPELINE_FLAGS,
    {.name = "lines", .letter = 'n', .value = "N", .help = "how many of the last lines (default 100)"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_logs = {
    .name = "logs",
    .summary = "print what a node wrote to its own log",
    .operands = "NODE",
    .flags = flags,
    .operands_min = 1,
    .operands_max = 1,
    .example = "ctxpipe logs collector",
    .run = run,
    .details = "The logs are in STATE_DIR/logs, of each node the current one and one older. 'supervisor' has one too, with --detach.",
};
