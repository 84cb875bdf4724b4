#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "codec/msgpack.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/rundir.h"

static int wait_for(int pidfd, int timeout_ms, struct ctxp_error *err) {
  struct pollfd item = {.fd = pidfd, .events = POLLIN};
  int r = poll(&item, 1, timeout_ms);
  if (r > 0) return 0;
  return ctxp_error_set(
      err, r < 0 ? -errno : -ETIMEDOUT, "the pipeline has not ended %s; 'ctxpipe down --now' stops it at once", r < 0 ? "yet" : "in time");
}

static int stop(const struct ctxp_pipeline *pipeline, bool now, int timeout_ms, struct ctxp_error *err) {
  pid_t pid = (pid_t)ctxp_map_u64(ctxp_buf_raw(&pipeline->supervisor), "pid", 0);
  ctxp_auto_close int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
  ctxp_auto_buf still = {0};
  if (pidfd < 0) return ctxp_error_set(err, -ESRCH, "the supervisor (pid %d) is gone; 'ctxpipe up' starts anew", (int)pid);
  int r = ctxp_rundir_read(pipeline->config->run_dir, &still, err); /* the pid is the supervisor's as long as it holds its lock */
  if (r < 0) return r;
  if (r > 0) return ctxp_rundir_ended(pipeline->config->run_dir, pid, err); /* it ended between the two looks */
  for (int i = 0; i < (now ? 2 : 1); i++)
    if (pidfd_send_signal(pidfd, i ? SIGINT : SIGTERM, NULL, 0) < 0 && errno != ESRCH)
      return ctxp_error_set(err, -errno, "could not signal the supervisor (pid %d): %s", (int)pid, strerror(errno));
  r = wait_for(pidfd, timeout_ms, err);
  return r < 0 ? r : ctxp_rundir_ended(pipeline->config->run_dir, pid, err);
}

static int run(const struct ctxp_args *args) {
  struct ctxp_pipeline pipeline;
  struct ctxp_error err;
  uint64_t timeout_s;
  int r = ctxp_args_number(args, "timeout", 1, 86400, 120, &timeout_s, &err);
  if (r < 0) return ctxp_command_misuse(&err);
  if (ctxp_pipeline_find(args, &pipeline, &err) < 0) return ctxp_command_fail(&err);
  r = stop(&pipeline, ctxp_args_has(args, "now"), (int)timeout_s * 1000, &err);
  if (r == 0) printf("the pipeline in %s has ended\n", pipeline.config->run_dir);
  ctxp_pipeline_deinit(&pipeline);
  return r < 0 ? ctxp_command_fail(&err) : 0;
}

static const struct ctxp_flag flags[] = {
    CTXP_PIPELINE_FLAGS,
    {.name = "now", .help = "stop at once instead of draining; the next 'up' goes on from what is stored"},
    {.name = "timeout", .value = "SECONDS", .help = "how long to wait for the end (default 120)"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_down = {
    .name = "down",
    .summary = "drain a running pipeline and wait for its end",
    .operands = "",
    .details =
        "Ingest closes, every node does what it has to, and leaves. A node that could not, as on a full disk, is named, and the exit code\n"
        "is 1: nothing of it is lost, and the next 'up' goes on with it.",
    .flags = flags,
    .example = "ctxpipe down",
    .run = run,
};
