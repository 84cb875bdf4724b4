#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/spend.h"
#include "runtime/offline.h"

#define SINKS_MAX 64

struct replay {
  char out[PATH_MAX]; /* absolute; "": no sinks */
  struct ctxp_config *config;
  struct ctxp_offline_sink sinks[SINKS_MAX];
  struct ctxp_buf options[SINKS_MAX];
  unsigned sink_count;
};

/* the options of a sink, its paths moved into the folder of the output */
static int move_options(struct replay *replay, const struct ctxp_node_config *node, struct ctxp_buf *out) {
  struct ctxp_raw options = ctxp_buf_raw(&node->options);
  uint32_t count = 0;
  size_t mark = ctxp_pack_map_open(out);
  for (const struct ctxp_option *o = node->ops->options; o && o->name; o++, count++) {
    struct ctxp_raw value = ctxp_map_get(options, o->name);
    ctxp_pack_cstr(out, o->name);
    if (o->type == CTXP_OPTION_PATH) {
      ctxp_auto_buf path = {0};
      struct ctxp_str old = ctxp_raw_str(value);
      const char *slash = memrchr(old.ptr, '/', old.len);
      size_t from = slash ? (size_t)(slash - old.ptr) + 1 : 0;
      ctxp_buf_printf(&path, "%s/%.*s", replay->out, (int)(old.len - from), old.ptr + from);
      ctxp_pack_str(out, ctxp_buf_view(&path));
    } else {
      ctxp_pack_raw(out, value);
    }
  }
  ctxp_pack_close(out, mark, count);
  return ctxp_buf_error(out);
}

static int add_sinks(struct replay *replay, struct ctxp_error *err) {
  for (unsigned i = 0; i < replay->config->node_count && replay->out[0]; i++) {
    const struct ctxp_node_config *node = &replay->config->nodes[i];
    if (node->ops->role != CTXP_ROLE_SINK_NODE) continue;
    unsigned n = replay->sink_count;
    if (n == SINKS_MAX) return ctxp_error_set(err, -E2BIG, "the topology has more than %d sinks", SINKS_MAX);
    if (move_options(replay, node, &replay->options[n]) < 0) return ctxp_error_set(err, -ENOMEM, "out of memory");
    replay->sinks[n] = (struct ctxp_offline_sink){.name = node->name, .ops = node->ops, .options = ctxp_buf_raw(&replay->options[n])};
    replay->sink_count++;
  }
  return 0;
}

/* what is there must not mix with what is written */
static int make_out(struct replay *replay, const char *dir, struct ctxp_error *err) {
  if (!dir) return 0;
  if (mkdir(dir, 0700) < 0 && errno != EEXIST)
    return ctxp_error_set(err, -errno, "could not make the directory '%s': %s", dir, strerror(errno));
  if (rmdir(dir) < 0) return ctxp_error_set(err, -errno, "'%s' must be an empty directory, or none yet: %s", dir, strerror(errno));
  if (mkdir(dir, 0700) < 0 || !realpath(dir, replay->out))
    return ctxp_error_set(err, -errno, "could not make the directory '%s': %s", dir, strerror(errno));
  return 0;
}

static int recompute(const struct ctxp_args *args, const struct ctxp_spend_choice *choice, struct replay *replay, struct ctxp_buf *reply,
    struct ctxp_offline_result *result, struct ctxp_error *err) {
  ctxp_auto_buf query = {0};
  int r = ctxp_pipeline_config(args, &replay->config, err);
  if (r == 0) r = make_out(replay, ctxp_args_get(args, "out"), err);
  if (r == 0) r = add_sinks(replay, err);
  if (r < 0) return r;
  const struct ctxp_node_config *collector = ctxp_pipeline_node(replay->config, CTXP_ROLE_COLLECTOR_NODE),
                                *fold = ctxp_pipeline_node(replay->config, CTXP_ROLE_FOLD_NODE);
  struct ctxp_offline_options options = {.state_dir = args->operands[0],
      .collector = collector ? collector->name : NULL,
      .fold = fold ? fold->name : NULL,
      .registry = ctxp_registry_get(),
      .sinks = replay->sinks,
      .sink_count = replay->sink_count};
  ctxp_spend_query(choice, &query);
  return ctxp_offline_run(&options, ctxp_buf_raw(&query), reply, result, err);
}

static int run(const struct ctxp_args *args) {
  struct ctxp_spend_choice choice;
  struct ctxp_error err;
  struct ctxp_offline_result result = {0};
  ctxp_auto_buf reply = {0};
  if (ctxp_spend_choose(args, &choice, &err) < 0) return ctxp_command_misuse(&err);
  struct replay *replay = calloc(1, sizeof(*replay));
  int r = replay ? recompute(args, &choice, replay, &reply, &result, &err) : ctxp_error_set(&err, -ENOMEM, "out of memory");
  if (r == 0) r = ctxp_spend_show(&choice, ctxp_buf_raw(&reply), NULL, &err);
  if (r == 0)
    fprintf(stderr, "%llu events of the collector, %llu of the mechanisms, %llu of the fold\n", (unsigned long long)result.events,
        (unsigned long long)result.derived, (unsigned long long)result.emitted);
  if (r == 0 && result.first > 1)
    fprintf(stderr, "ctxpipe: the stream begins with event %llu; what came before is no longer kept, and is in no figure\n",
        (unsigned long long)result.first);
  if (r == 0 && result.undecided)
    fprintf(stderr,
        "ctxpipe: no reply is recorded of %llu calls of an auxiliary model; what they would have decided counts as not decided\n",
        (unsigned long long)result.undecided);
  for (unsigned i = 0; replay && i < replay->sink_count; i++) ctxp_buf_deinit(&replay->options[i]);
  if (replay) ctxp_topology_free(replay->config);
  free(replay);
  return r < 0 ? ctxp_command_fail(&err) : 0;
}

static const struct ctxp_flag flags[] = {
    {.name = "file", .letter = 'f', .value = "FILE", .help = "the topology that names the nodes and the sinks (default: the built-in one)"},
    {.name = "out", .letter = 'o', .value = "DIR", .help = "let the topology's sinks write into this empty directory"},
    CTXP_SPEND_FLAGS,
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_replay = {
    .name = "replay",
    .summary = "compute everything again from a collector's stored stream",
    .operands = "STATE_DIR",
    .flags = flags,
    .operands_min = 1,
    .operands_max = 1,
    .example = "ctxpipe replay ~/.local/state/ctxpipe --out /tmp/again",
    .run = run,
    .details = "No node of that directory may be running. Options and prices are those that were in force; log and snapshots come out byte "
               "for byte as the\n"
               "running pipeline wrote them. The bill is printed as 'spend' prints it.\n" CTXP_SPEND_READ,
};
