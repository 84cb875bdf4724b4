/* Words of the command line, read by a command's own table of flags. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "ctxpipe/command.h"

static const struct ctxp_flag help_flag = {.name = "help", .letter = 'h', .help = "show this text"};

static int flag_index(const struct ctxp_command *command, const char *name, size_t len) {
  for (int i = 0; command->flags && command->flags[i].name; i++)
    if (strlen(command->flags[i].name) == len && memcmp(command->flags[i].name, name, len) == 0) return i;
  return -1;
}

static int letter_index(const struct ctxp_command *command, char letter) {
  for (int i = 0; command->flags && command->flags[i].name; i++)
    if (command->flags[i].letter == letter) return i;
  return -1;
}

static unsigned flag_count(const struct ctxp_command *command) {
  unsigned count = 0;
  while (command->flags && command->flags[count].name) count++;
  return count;
}

static int unknown_flag(const struct ctxp_command *command, const char *word, struct ctxp_error *err) {
  const char *near =
      word[0] == '-' && word[1] == '-' ? ctxp_args_suggest(word + 2, command->flags, sizeof(*command->flags), flag_count(command)) : NULL;
  if (near) return ctxp_error_set(err, -EINVAL, "%s: unknown option '%s'; did you mean '--%s'?", command->name, word, near);
  return ctxp_error_set(err, -EINVAL, "%s: unknown option '%s'; 'ctxpipe %s --help' lists them", command->name, word, command->name);
}

/* one word that begins with a dash; *at moves past the value where that is a word of its own */
static int read_flag(const struct ctxp_command *command, int argc, char **argv, int *at, struct ctxp_args *args, struct ctxp_error *err) {
  const char *word = argv[*at], *value = NULL;
  int index;
  if (word[1] == '-') {
    const char *equals = strchr(word, '=');
    index = flag_index(command, word + 2, equals ? (size_t)(equals - word) - 2 : strlen(word + 2));
    value = equals ? equals + 1 : NULL;
  } else {
    index = letter_index(command, word[1]);
    value = word[2] ? word + 2 : NULL;
  }
  if (index < 0) return unknown_flag(command, word, err);
  const struct ctxp_flag *flag = &command->flags[index];
  if (!flag->value && value) return ctxp_error_set(err, -EINVAL, "%s: '--%s' takes no value", command->name, flag->name);
  if (flag->value && !value) {
    if (*at + 1 >= argc)
      return ctxp_error_set(err, -EINVAL, "%s: '%s' needs a value: --%s %s", command->name, word, flag->name, flag->value);
    value = argv[++*at];
  }
  if (flag->value && !*value)
    return ctxp_error_set(err, -EINVAL, "%s: the value of '--%s' is empty: --%s %s", command->name, flag->name, flag->name,
        flag->value);
  if (args->values[index]) return ctxp_error_set(err, -EINVAL, "%s: '--%s' is given twice; once is enough", command->name, flag->name);
  args->values[index] = flag->value ? value : "";
  return 0;
}

int ctxp_args_read(const struct ctxp_command *command, int argc, char **argv, struct ctxp_args *ret_args, struct ctxp_error *err) {
  struct ctxp_args args = {.command = command};
  bool only_operands = false;
  int kept = 0;
  for (int i = 0; i < argc; i++) {
    if (!only_operands && strcmp(argv[i], "--") == 0) {
      only_operands = true;
    } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
      int r = read_flag(command, argc, argv, &i, &args, err);
      if (r < 0) return r;
    } else {
      argv[kept++] = argv[i];
    }
  }
  if ((unsigned)kept < command->operands_min)
    return ctxp_error_set(err, -EINVAL, "%s: needs %s; for example: %s", command->name, command->operands, command->example);
  if ((unsigned)kept > command->operands_max)
    return ctxp_error_set(err, -EINVAL, "%s: '%s' is one word too many; 'ctxpipe %s --help' shows what it takes", command->name,
        argv[command->operands_max], command->name);
  argv[kept] = NULL; /* argv[argc] is NULL already, so there is room */
  args.operands = (const char *const *)argv;
  args.operand_count = (unsigned)kept;
  *ret_args = args;
  return 0;
}

const char *ctxp_args_get(const struct ctxp_args *args, const char *flag) {
  int index = flag_index(args->command, flag, strlen(flag));
  return index < 0 ? NULL : args->values[index];
}

bool ctxp_args_has(const struct ctxp_args *args, const char *flag) { return ctxp_args_get(args, flag) != NULL; }

int ctxp_args_number(const struct ctxp_args *args, const char *flag, uint64_t min, uint64_t max, uint64_t missing, uint64_t *ret_number,
    struct ctxp_error *err) {
  const char *text = ctxp_args_get(args, flag);
  *ret_number = missing;
  if (!text) return 0;
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end || errno || number < min || number > max)
    return ctxp_error_set(err, -EINVAL, "%s: '--%s %s' is not a whole number from %llu to %llu", args->command->name, flag, text,
        (unsigned long long)min, (unsigned long long)max);
  *ret_number = number;
  return 0;
}

int ctxp_args_choice(
    const struct ctxp_args *args, const char *flag, const char *const *choices, int missing, int *ret_index, struct ctxp_error *err) {
  const char *text = ctxp_args_get(args, flag);
  ctxp_auto_buf list = {0};
  *ret_index = missing;
  if (!text) return 0;
  for (int i = 0; choices[i]; i++) {
    if (strcmp(choices[i], text) == 0) {
      *ret_index = i;
      return 0;
    }
    ctxp_buf_printf(&list, "%s%s", i == 0 ? "" : choices[i + 1] ? ", " :
                                                                  " or ",
        choices[i]);
  }
  return ctxp_error_set(err, -EINVAL, "%s: '--%s %s' is none of its values; use %s", args->command->name, flag, text, ctxp_buf_cstr(&list));
}

/* edit distance with swaps of neighbours, cut off at 3 */
static unsigned distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  unsigned rows[3][48];
  if (n >= 48 || m >= 48) return 3;
  for (size_t j = 0; j <= m; j++) rows[0][j] = (unsigned)j;
  for (size_t i = 1; i <= n; i++) {
    unsigned *row = rows[i % 3], *above = rows[(i - 1) % 3], *twice = rows[(i + 1) % 3];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= m; j++) {
      unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && twice[j - 2] + 1 < best) best = twice[j - 2] + 1;
      row[j] = best;
    }
  }
  return rows[n % 3][m];
}

const char *ctxp_args_suggest(const char *word, const void *names, size_t stride, unsigned count) {
  const char *best = NULL;
  unsigned best_distance = 3;
  for (unsigned i = 0; i < count; i++) {
    const char *name;
    memcpy(&name, (const char *)names + i * stride, sizeof(name));
    unsigned d = distance(word, name);
    if (strlen(word) > 2 && strncmp(word, name, strlen(word)) == 0) d = 1; /* an abbreviation */
    if (d < best_distance && d < strlen(name)) {
      best = name;
      best_distance = d;
    }
  }
  return best;
}

static void help_line(const struct ctxp_flag *flag, struct ctxp_buf *out) {
  ctxp_auto_buf left = {0};
  if (flag->letter)
    ctxp_buf_printf(&left, "  -%c, ", flag->letter);
  else
    ctxp_buf_str(&left, "      ");
  ctxp_buf_printf(&left, "--%s%s%s", flag->name, flag->value ? " " : "", flag->value ? flag->value : "");
  ctxp_buf_printf(out, "%-28s %s\n", ctxp_buf_cstr(&left), flag->help);
}

void ctxp_command_help(const struct ctxp_command *command, struct ctxp_buf *out) {
  ctxp_buf_printf(out, "ctxpipe %s: %s\n\nUsage: ctxpipe %s [OPTIONS]%s%s\n", command->name, command->summary, command->name,
      command->operands[0] ? " " : "", command->operands);
  if (command->details[0]) ctxp_buf_printf(out, "\n%s\n", command->details);
  ctxp_buf_str(out, "\nOptions:\n");
  for (const struct ctxp_flag *flag = command->flags; flag && flag->name; flag++) help_line(flag, out);
  help_line(&help_flag, out);
  ctxp_buf_printf(out, "\nExample:\n  %s\n", command->example);
}
