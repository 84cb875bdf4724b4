/* Prints docs/events.md from the one table of events (include/ctxpipe/event.def). */
#include <stdio.h>
#include <string.h>
#include "ctxpipe/event.h"

static const char *const type_names[] = {
    "text", "number", "signed number", "true or false", "time", "money", "name", "record", "list", "list of texts", "any value"};
static const struct {
  enum ctxp_group group;
  const char *title, *about;
} groups[] = {{CTXP_GROUP_AGENT, "From agents", "What an agent or a feeder sends to the collector."},
    {CTXP_GROUP_ANY, "From anybody", "What every part may say."},
    {CTXP_GROUP_COLLECTOR, "From the collector", "What the collector adds to its own stream."},
    {CTXP_GROUP_MECHANISM, "From mechanisms",
        "In the log: `ts`, `kind`, then the fields in this order, then agent, session and thread, then those marked *added*."},
    {CTXP_GROUP_FOLD, "From the fold", "In the log as those of mechanisms."}};

static void cell(const char *text) {
  for (; *text; text++) {
    if (*text == '|') putchar('\\');
    putchar(*text);
  }
}

static void print_type(const struct ctxp_field *field) {
  printf("%s", type_names[field->type]);
  if (field->names) printf(": %s", field->names->name);
  if (field->shape) printf(" of [%s](#%s)", field->shape->name, field->shape->name);
}

static void print_fields(const struct ctxp_shape *shape) {
  static const char *const needs[] = {"required", "", "added"};
  if (shape->count == 0) {
    puts("\nNo fields of its own.");
    return;
  }
  puts("\n| field | type | | what it says |\n| --- | --- | --- | --- |");
  for (unsigned i = 0; i < shape->count; i++) {
    const struct ctxp_field *field = &shape->fields[i];
    printf("| `%s` | ", field->name);
    print_type(field);
    printf(" | %s | ", needs[field->need]);
    cell(field->doc);
    puts(" |");
  }
}

static void print_names(const struct ctxp_names *names) {
  printf("\n### %s\n\n| name | shown as |\n| --- | --- |\n", names->name);
  for (unsigned i = 0; i < names->count; i++) printf("| `%s` | %s |\n", names->wire[i], names->shown[i]);
}

static void print_group(enum ctxp_group group) {
  for (unsigned kind = 1; kind < CTXP_KIND_MAX; kind++) {
    const struct ctxp_kind_info *info = ctxp_kind_info((enum ctxp_kind)kind);
    if (!info || info->group != group) continue;
    printf("\n### %s\n\nKind %u: %s.\n", info->name, kind, info->doc);
    print_fields(info->shape);
  }
}

int main(void) {
#define SHAPE(c, fields) &ctxp_shape_##c,
  static const struct ctxp_shape *const records[] = {CTXP_RECORDS(SHAPE)};
#undef SHAPE
  const struct ctxp_names *const names[] = {&ctxp_names_band, &ctxp_names_role, &ctxp_names_label_kind, &ctxp_names_gap_side};
  puts(
      "# Events\n\nMade from `include/ctxpipe/event.def` by `ninja -C build docs`. On the wire an event is a MessagePack map with `kind`, "
      "`ts` (milliseconds UTC), `agent`,\n"
      "`session`, `thread` (together one context window; an empty thread is the main one) and the fields below. In JSON, times are ISO "
      "8601 with\n"
      "milliseconds, and money, which is whole nano-dollars on the wire under a name that ends in `Nano`, is decimal dollars under the "
      "name without it.\n"
      "Tokens and counts are whole numbers. Unknown fields are passed over and counted; a required one that is missing refuses the event.");
  for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
    printf("\n## %s\n\n%s\n", groups[i].title, groups[i].about);
    print_group(groups[i].group);
  }
  puts("\n## Records inside events");
  for (size_t i = 0; i < sizeof(records) / sizeof(*records); i++) {
    printf("\n### %s\n", records[i]->name);
    print_fields(records[i]);
  }
  puts("\n## Names");
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) print_names(names[i]);
  return fflush(stdout) == 0 ? 0 : 1;
}
