/* Writes the manual page from the table of commands: ctxpipe.1. */
#include <stdio.h>
#include "base/str.h"
#include "ctxpipe/commands.h"

/* text for troff: a dash that is meant as one, no line that looks like a request */
static void put(struct ctxp_buf *out, const char *text) {
  bool begin = out->len == 0 || out->ptr[out->len - 1] == '\n';
  for (const char *c = text; *c; c++) {
    if (begin && (*c == '.' || *c == '\'')) ctxp_buf_str(out, "\\&");
    begin = *c == '\n';
    if (*c == '-')
      ctxp_buf_str(out, "\\-");
    else if (*c == '\\')
      ctxp_buf_str(out, "\\e");
    else
      ctxp_buf_char(out, *c);
  }
}

static void section(struct ctxp_buf *out, const char *title) { ctxp_buf_printf(out, ".SH %s\n", title); }

static void flag(struct ctxp_buf *out, const struct ctxp_flag *f) {
  ctxp_buf_str(out, ".TP\n");
  if (f->letter) ctxp_buf_printf(out, "\\fB\\-%c\\fR, ", f->letter);
  ctxp_buf_str(out, "\\fB\\-\\-");
  put(out, f->name);
  ctxp_buf_str(out, "\\fR");
  if (f->value) ctxp_buf_printf(out, " \\fI%s\\fR", f->value);
  ctxp_buf_char(out, '\n');
  put(out, f->help);
  ctxp_buf_str(out, ".\n");
}

static void command(struct ctxp_buf *out, const struct ctxp_command *c) {
  ctxp_buf_printf(out, ".SS \"%s%s%s\"\n", c->name, c->operands[0] ? " " : "", c->operands);
  put(out, c->summary);
  ctxp_buf_str(out, ".\n");
  if (c->details[0]) {
    ctxp_buf_str(out, ".PP\n");
    put(out, c->details);
    ctxp_buf_char(out, '\n');
  }
  for (const struct ctxp_flag *f = c->flags; f && f->name; f++) flag(out, f);
  ctxp_buf_str(out, ".PP\nExample:\n.PP\n.in +4\n.nf\n");
  put(out, c->example);
  ctxp_buf_str(out, "\n.fi\n.in\n");
}

static void closing(struct ctxp_buf *out) {
  static const char *const files[][2] = {
    {"RUN_DIR/topology.yaml", "the topology that runs, with every default written out"},
    {"RUN_DIR/supervisor.json", "what the supervisor knows of its nodes"},
    {"STATE_DIR/NODE/", "a node's stream, cursors and state"},
    {"STATE_DIR/logs/NODE.log", "what a node wrote to its standard error; 'ctxpipe logs NODE' prints it"}};
  static const char *const variables[][2] = {
    {"CTXPIPE_LIBEXEC", "where the daemons are, instead of where they were installed"},
    {"XDG_RUNTIME_DIR", "holds the sockets of the built-in topology"},
    {"TMPDIR", "holds the private pipeline of 'report'"},
    {"NO_COLOR", "set and not empty: no colours on a terminal"}};
  section(out, "FILES");
  for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
    ctxp_buf_printf(out, ".TP\n.I %s\n", files[i][0]);
    put(out, files[i][1]);
    ctxp_buf_str(out, ".\n");
  }
  section(out, "ENVIRONMENT");
  for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
    ctxp_buf_printf(out, ".TP\n.B %s\n", variables[i][0]);
    put(out, variables[i][1]);
    ctxp_buf_str(out, ".\n");
  }
  section(out, "EXIT STATUS");
  put(out, "0 when the command did all that was asked; 1 when it could not, or only in part, which a sentence on standard error explains;\n"
           "2 when it did not understand what was asked.\n");
}

int main(void) {
  ctxp_auto_buf out = {0};
  ctxp_buf_str(&out, ".TH CTXPIPE 1 \"\" \"ctxpipe " CTXP_VERSION "\" \"User Commands\"\n");
  section(&out, "NAME");
  put(&out, "ctxpipe - what could be kept out of a coding agent's context window, and which material drove the bill\n");
  section(&out, "SYNOPSIS");
  ctxp_buf_str(&out, ".B ctxpipe\n.I COMMAND\n[\\fIOPTIONS\\fR] [...]\n");
  section(&out, "DESCRIPTION");
  put(&out, "A coding agent sends its whole context window again on every model call. ctxpipe is a pipeline of small daemons that says what could be kept\n"
            "out of that window and what keeping it out saved, and splits every request's reported tokens and their cost over the messages that were in it.\n"
            "'ctxpipe report' does that once for recorded sessions; 'ctxpipe up' starts a pipeline that agents and feeders send to.\n");
  section(&out, "COMMANDS");
  for (const struct ctxp_command *const *c = ctxp_commands; *c; c++) command(&out, *c);
  closing(&out);
  if (ctxp_buf_error(&out) < 0) return 1;
  fwrite(out.ptr, 1, out.len, stdout);
  return fflush(stdout) == 0 ? 0 : 1;
}
