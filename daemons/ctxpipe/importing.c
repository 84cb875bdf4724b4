#include "ctxpipe/importing.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/str.h"
#include "ctxpipe/stop.h"

int ctxp_importing_choose(const struct ctxp_args *args, struct ctxp_error *err) {
  const char *format = ctxp_args_get(args, "format");
  return format ? ctxp_import_check_format(format, err) : 0;
}

int ctxp_importing_check(const struct ctxp_args *args, struct ctxp_error *err) {
  struct stat file;
  for (unsigned i = 0; i < args->operand_count; i++)
    if (stat(args->operands[i], &file) == 0) return 0;
  return ctxp_error_set(err, -errno, "could not read '%s': %s", args->operands[0], strerror(errno));
}

static int private_alive(const void *data, struct ctxp_error *err) { return ctxp_private_check(data, err); }

int ctxp_importing(const struct ctxp_args *args, const char *agent, const char *endpoint, const struct ctxp_private *private,
    struct ctxp_import_result *ret_result, struct ctxp_error *err) {
  struct ctxp_progress progress;
  ctxp_progress_begin(&progress);
  struct ctxp_import_options options = {.endpoint = endpoint,
      .paths = args->operands,
      .path_count = args->operand_count,
      .agent = agent,
      .format = ctxp_args_get(args, "format"),
      .bare = private != NULL,
      .alive = private ? private_alive : NULL,
      .alive_data = private,
      .progress = ctxp_progress_show,
      .data = &progress,
      .stop = &ctxp_stop};
  int r = ctxp_import_run(&options, ret_result, err);
  ctxp_progress_end(&progress);
  if (r == 0 && ret_result->files == 0 && ret_result->fault_count == 0)
    r = ctxp_error_set(err, -ENOENT, "no transcript was found in '%s'%s; name files or folders with sessions of " CTXP_FORMAT_NAMES,
        args->operands[0], args->operand_count > 1 ? " and the others" : "");
  return r;
}

/* what the figures are of, though not all could be read */
static void put_counted(const struct ctxp_import_result *result, struct ctxp_buf *out) {
  if (!result->files) return;
  ctxp_buf_str(out, "; what could be read is counted: ");
  ctxp_put_counted(out, result->sessions, "session");
  ctxp_buf_str(out, " from ");
  ctxp_put_counted(out, result->files, "file");
}

bool ctxp_importing_complain(const struct ctxp_import_result *result) {
  ctxp_auto_buf text = {0};
  ctxp_term_lines(&text, ctxp_buf_view(&result->remarks));
  ctxp_term_lines(&text, ctxp_buf_view(&result->faults));
  while (text.len && text.ptr[text.len - 1] == '\n') text.len--;
  if (result->fault_count) put_counted(result, &text);
  if (text.len) ctxp_buf_char(&text, '\n');
  if (result->refused) {
    ctxp_buf_str(&text, "ctxpipe: the collector refused ");
    ctxp_put_counted(&text, result->refused, "event");
    ctxp_buf_printf(&text, "; the first of them: %s\n", result->refusal.text);
  }
  fflush(stdout);
  fwrite(text.ptr, 1, text.len, stderr);
  return result->fault_count == 0 && result->refused == 0;
}
