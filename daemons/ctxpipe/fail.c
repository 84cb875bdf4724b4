#include <stdio.h>
#include "base/str.h"
#include "ctxpipe/command.h"
#include "ctxpipe/table.h"

int ctxp_command_fail(const struct ctxp_error *err) {
  ctxp_auto_buf line = {0};
  ctxp_buf_str(&line, "ctxpipe: ");
  ctxp_term_lines(&line, ctxp_str(err->text));
  ctxp_buf_char(&line, '\n');
  fflush(stdout);
  fwrite(line.ptr, 1, line.len, stderr);
  return 1;
}

int ctxp_command_misuse(const struct ctxp_error *err) {
  ctxp_command_fail(err);
  return 2;
}
