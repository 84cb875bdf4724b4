#include "ctxpipe/spend.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/csv.h"
#include "ctxpipe/explain.h"
#include "ctxpipe/when.h"

#define ROWS_SHOWN 20
#define COLUMNS 80 /* of what is no terminal, unless the environment says COLUMNS; --csv and --json have the names whole */

/* flags that say the opposite of each other, or nothing together */
static int check_clashes(const struct ctxp_args *args, const struct ctxp_spend_choice *c, struct ctxp_error *err) {
  static const char *const of_tables[] = {"by", "sort", "csv", "balance"};
  for (size_t i = 0; (c->explain || c->bill.balance) && i < 3 + (c->explain ? 1u : 0u); i++)
    if (ctxp_args_has(args, of_tables[i]))
      return ctxp_error_set(err, -EINVAL, "%s: '--%s' does not go with '--%s'; leave one out", args->command->name, of_tables[i],
          c->explain ? "explain" : "balance");
  const char *clash = c->json && c->csv                                       ? "csv" :
      c->json && ctxp_args_has(args, "sort")                                  ? "sort" :
      c->csv && c->limited                                                    ? "top" :
                                                                                NULL;
  if (clash)
    return ctxp_error_set(
        err, -EINVAL, "%s: '--%s' does not go with '--%s'; leave one out", args->command->name, clash, c->json ? "json" : "csv");
  if (c->bill.sort == CTXP_SORT_OWN && c->bill.grain >= CTXP_GRAIN_DAY)
    return ctxp_error_set(err, -EINVAL, "%s: '--sort own' does not go with '--by %s': only material has a size of its own; use cost, "
                                        "billed, turns or name", args->command->name, ctxp_grain_names[c->bill.grain]);
  return 0;
}

int ctxp_spend_choose(const struct ctxp_args *args, struct ctxp_spend_choice *ret_choice, struct ctxp_error *err) {
  const char *since = ctxp_args_get(args, "since");
  struct ctxp_spend_choice choice = {.session = ctxp_args_get(args, "session"),
      .agent = ctxp_args_get(args, "agent"),
      .model = ctxp_args_get(args, "model"),
      .explain = ctxp_args_get(args, "explain"),
      .json = ctxp_args_has(args, "json"),
      .csv = ctxp_args_has(args, "csv"),
      .limited = ctxp_args_has(args, "top"),
      .bill = {.balance = ctxp_args_has(args, "balance"), .now_ms = ctxp_clock_utc_ms()}};
  int sort = -1, r = ctxp_args_choice(args, "by", ctxp_grain_names, -1, &choice.bill.grain, err);
  if (r == 0) r = ctxp_args_choice(args, "sort", ctxp_bill_sort_names, -1, &sort, err);
  choice.bill.sort = (enum ctxp_bill_sort)(sort + CTXP_SORT_COST);
  if (r == 0) r = check_clashes(args, &choice, err);
  if (r == 0 && since) r = ctxp_when(since, args->command->name, choice.bill.now_ms, &choice.since_ms, err);
  if (r == 0) r = ctxp_args_number(args, "top", 1, 10000000, ROWS_SHOWN, &choice.bill.top, err);
  *ret_choice = choice;
  return r;
}

/* of "view:NAME" the kind and the name; of a name alone no kind */
static const char *split_kind(const char *text, struct ctxp_str *ret_name) {
  static const char *const kinds[] = {"message", "view", "tool", "part"};
  *ret_name = ctxp_str(text);
  for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
    size_t len = strlen(kinds[i]);
    if (strncmp(text, kinds[i], len) != 0 || text[len] != ':') continue;
    *ret_name = ctxp_str(text + len + 1);
    return kinds[i];
  }
  return NULL;
}

static uint32_t pair(struct ctxp_buf *out, const char *key, const char *value) {
  if (!value) return 0;
  ctxp_pack_cstr(out, key);
  ctxp_pack_cstr(out, value);
  return 1;
}

static uint32_t pair_u64(struct ctxp_buf *out, const char *key, uint64_t value) {
  if (!value) return 0;
  ctxp_pack_cstr(out, key);
  ctxp_pack_u64(out, value);
  return 1;
}

void ctxp_spend_query(const struct ctxp_spend_choice *choice, struct ctxp_buf *out) {
  bool top = choice->json && choice->limited && !choice->explain; /* tables fold the rest into one row themselves */
  size_t mark = ctxp_pack_map_open(out);
  uint32_t count = pair(out, "what", choice->explain ? "explain" : "spend");
  count += pair(out, "session", choice->session);
  count += pair(out, "agent", choice->agent);
  count += pair(out, "model", choice->model);
  count += pair_u64(out, "since", choice->since_ms);
  count += pair_u64(out, "top", top ? choice->bill.top : 0);
  if (choice->explain) {
    struct ctxp_str name;
    count += pair(out, "kind", split_kind(choice->explain, &name));
    count += pair(out, "name", name.ptr);
  } else if (choice->bill.grain >= 0) {
    count += pair(out, "by", ctxp_grain_names[choice->bill.grain]);
  }
  if (choice->bill.grain == CTXP_GRAIN_DAY) {
    ctxp_pack_cstr(out, "offsets");
    ctxp_when_offsets(choice->bill.now_ms, out);
    count++;
  }
  ctxp_pack_close(out, mark, count);
}

/* the reply's pairs, and passedOver after them */
static int put_json(struct ctxp_raw reply, const struct ctxp_buf *passed_over, struct ctxp_buf *out) {
  int r = ctxp_json_from_raw(reply, out);
  if (r < 0) return r;
  if (passed_over) {
    if (!out->len || out->ptr[out->len - 1] != '}') return -EBADMSG;
    out->len--;
    ctxp_buf_str(out, ",\"passedOver\":");
    r = passed_over->len ? ctxp_json_from_raw(ctxp_buf_raw(passed_over), out) : 0;
    if (!passed_over->len) ctxp_buf_str(out, "[]");
    ctxp_buf_char(out, '}');
  }
  ctxp_buf_char(out, '\n');
  return r < 0 ? r : ctxp_buf_error(out);
}

static unsigned columns(void) {
  const char *said = getenv("COLUMNS");
  unsigned long number = said && said[0] >= '1' && said[0] <= '9' ? strtoul(said, NULL, 10) : COLUMNS;
  return number > 1000000 ? 1000000 : (unsigned)number;
}

int ctxp_spend_show(
    const struct ctxp_spend_choice *choice, struct ctxp_raw reply, const struct ctxp_buf *passed_over, struct ctxp_error *err) {
  static const struct ctxp_buf none = {0};
  struct ctxp_style style = ctxp_style_of(stdout);
  if (!style.columns) style.columns = columns();
  ctxp_auto_buf out = {0};
  struct ctxp_raw passed = passed_over ? ctxp_buf_raw(passed_over) : (struct ctxp_raw){0};
  int r = choice->json ? put_json(reply, choice->explain ? NULL : passed_over ? passed_over : &none, &out) :
      choice->explain  ? ctxp_explain_print(reply, choice->limited ? choice->bill.top : 0, &style, &out) :
      choice->csv      ? ctxp_csv_print(reply, &choice->bill, &out) :
                         ctxp_bill_print(reply, passed, &choice->bill, &style, &out);
  if (r < 0) return ctxp_error_set(err, r, "the fold's answer could not be read; its version and this one's differ");
  fwrite(out.ptr, 1, out.len, stdout);
  return 0;
}
