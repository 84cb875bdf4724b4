#include <inttypes.h>
#include <stdio.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "config/schema.h"
#include "config/topology.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/table.h"

struct group { /* options that stand together: of the topology, of one daemon */
  const char *name, *summary;
  const struct ctxp_option *table;
};
static const struct group whole = {"topology", "numbers of the whole pipeline, beside 'nodes'", ctxp_topology_options};

/* the i-th group: the topology, then the daemons; false: no more */
static bool group_at(unsigned i, struct group *ret) {
  const struct ctxp_stage_ops *const *stages = ctxp_registry_get();
  *ret = whole;
  if (i == 0) return true;
  if (!stages[i - 1]) return false;
  *ret = (struct group){stages[i - 1]->name, stages[i - 1]->summary, stages[i - 1]->options};
  return true;
}

static bool wanted(const struct ctxp_args *args, const char *name) {
  for (unsigned i = 0; i < args->operand_count; i++)
    if (strcmp(args->operands[i], name) == 0) return true;
  return args->operand_count == 0;
}

static const char *initial(const struct ctxp_option *option) {
  return !option->initial ? "required" : *option->initial ? option->initial :
                                                            "none";
}

/* ---- for people ---- */
static void text_group(const struct group *g, struct ctxp_buf *out) {
  ctxp_buf_printf(out, "%s: %s\n", g->name, g->summary);
  if (!g->table || !g->table->name) ctxp_buf_str(out, "  no options\n");
  for (const struct ctxp_option *it = g->table; it && it->name; it++) {
    ctxp_auto_buf range = {0};
    ctxp_option_range(it, &range);
    ctxp_buf_printf(out, "  %s (%s; %s)\n      %s\n", it->name, initial(it), ctxp_buf_cstr(&range), it->help);
  }
  ctxp_buf_char(out, '\n');
}

/* ---- Markdown ---- */
static void cell(struct ctxp_buf *out, const char *text) {
  for (; *text; text++) {
    if (*text == '|') ctxp_buf_char(out, '\\');
    ctxp_buf_char(out, *text);
  }
}

static void markdown_group(const struct group *g, struct ctxp_buf *out) {
  ctxp_buf_printf(out, "\n## %s\n\n%c%s.\n", g->name, g->summary[0] >= 'a' && g->summary[0] <= 'z' ? g->summary[0] - 32 : g->summary[0],
      g->summary + 1);
  if (!g->table || !g->table->name) {
    ctxp_buf_str(out, "It has no options.\n");
    return;
  }
  ctxp_buf_str(out, "\n| option | default | takes | what it does |\n| --- | --- | --- | --- |\n");
  for (const struct ctxp_option *it = g->table; it->name; it++) {
    ctxp_auto_buf range = {0};
    ctxp_option_range(it, &range);
    ctxp_buf_printf(out, "| `%s` | %s | ", it->name, initial(it));
    cell(out, ctxp_buf_cstr(&range));
    ctxp_buf_str(out, " | ");
    cell(out, it->help);
    ctxp_buf_str(out, " |\n");
  }
}

static const char markdown_head[] =
    "# Options\n\nMade by `ctxpipe options --markdown` from the tables in the program. Those of the topology stand beside `nodes`; those "
    "of a daemon in the\n"
    "`options` of its node. A number is written without unit and without quotes. Unknown options and values out of range are errors.\n";

/* ---- JSON ---- */
static void json_initial(const struct ctxp_option *option, struct ctxp_buf *out) {
  uint64_t number;
  if (!option->initial)
    ctxp_pack_nil(out);
  else if (option->type == CTXP_OPTION_U64 && ctxp_schema_u64(ctxp_str(option->initial), &number))
    ctxp_pack_u64(out, number);
  else if (option->type == CTXP_OPTION_BOOL)
    ctxp_pack_bool(out, strcmp(option->initial, "true") == 0);
  else
    ctxp_pack_cstr(out, option->initial);
}

static void json_choices(const struct ctxp_option *option, struct ctxp_buf *out) {
  uint32_t count = 0;
  size_t mark = ctxp_pack_array_open(out);
  for (const char *const *it = option->choices; *it; it++, count++) ctxp_pack_cstr(out, *it);
  ctxp_pack_close(out, mark, count);
}

static void json_option(const char *owner, const struct ctxp_option *option, struct ctxp_buf *out) {
  uint32_t pairs = 7;
  size_t mark = ctxp_pack_map_open(out);
  const struct {
    const char *key, *value;
  } texts[] = {{"daemon", owner}, {"name", option->name}, {"type", ctxp_option_type_name(option->type)},
      {"unit", option->unit ? option->unit : ""}, {"help", option->help}};
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
    ctxp_pack_cstr(out, texts[i].key);
    ctxp_pack_cstr(out, texts[i].value);
  }
  ctxp_pack_cstr(out, "required");
  ctxp_pack_bool(out, !option->initial);
  ctxp_pack_cstr(out, "default");
  json_initial(option, out);
  if (option->type == CTXP_OPTION_U64) {
    ctxp_pack_cstr(out, "min");
    ctxp_pack_u64(out, option->min);
    ctxp_pack_cstr(out, "max");
    ctxp_pack_u64(out, option->max ? option->max : UINT64_MAX);
    pairs += 2;
  }
  if (option->type == CTXP_OPTION_ENUM) {
    ctxp_pack_cstr(out, "choices");
    json_choices(option, out);
    pairs++;
  }
  ctxp_pack_close(out, mark, pairs);
}

static int json(const struct ctxp_args *args, struct ctxp_buf *out) {
  ctxp_auto_buf list = {0};
  struct group g;
  uint32_t count = 0;
  size_t mark = ctxp_pack_array_open(&list);
  for (unsigned i = 0; group_at(i, &g); i++) {
    if (!wanted(args, g.name)) continue;
    for (const struct ctxp_option *it = g.table; it && it->name; it++, count++) json_option(g.name, it, &list);
  }
  ctxp_pack_close(&list, mark, count);
  int r = ctxp_buf_error(&list);
  if (r == 0) r = ctxp_json_from_raw(ctxp_buf_raw(&list), out);
  ctxp_buf_char(out, '\n');
  return r;
}

/* ---- the command ---- */
static int check_names(const struct ctxp_args *args, struct ctxp_error *err) {
  const char *names[65];
  unsigned count = 0;
  struct group g;
  for (unsigned i = 0; count < 64 && group_at(i, &g); i++) names[count++] = g.name;
  names[count] = NULL;
  for (unsigned i = 0; i < args->operand_count; i++) {
    bool known = false;
    for (unsigned k = 0; k < count; k++) known |= strcmp(args->operands[i], names[k]) == 0;
    if (known) continue;
    struct ctxp_str name = ctxp_str(args->operands[i]);
    return ctxp_error_set(err, -1, "there is no daemon '%s'%s", ctxp_shown(name).text, ctxp_hint(name, names, "there are").text);
  }
  return 0;
}

static int run(const struct ctxp_args *args) {
  ctxp_auto_buf text = {0};
  struct ctxp_error err;
  struct group g;
  bool markdown = ctxp_args_has(args, "markdown");
  if (check_names(args, &err) < 0) return ctxp_command_misuse(&err);
  if (ctxp_args_has(args, "json") && json(args, &text) < 0) text.failed = true;
  if (markdown) ctxp_buf_str(&text, markdown_head);
  for (unsigned i = 0; !ctxp_args_has(args, "json") && group_at(i, &g); i++)
    if (wanted(args, g.name)) (markdown ? markdown_group : text_group)(&g, &text);
  while (!markdown && text.len > 1 && text.ptr[text.len - 1] == '\n' && text.ptr[text.len - 2] == '\n') text.len--;
  return !text.failed && fwrite(text.ptr, 1, text.len, stdout) == text.len && fflush(stdout) == 0 ? 0 : 1;
}

static const struct ctxp_flag flags[] = {
    {.name = "json", .help = "print one JSON array"},
    {.name = "markdown", .help = "print docs/options.md"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_options = {
    .name = "options",
    .summary = "list every option, with default, range and unit",
    .operands = "[DAEMON...]",
    .flags = flags,
    .operands_max = 64,
    .run = run,
    .example = "ctxpipe options bash-digest",
    .details = "'topology' names the numbers of the whole pipeline.",
};
