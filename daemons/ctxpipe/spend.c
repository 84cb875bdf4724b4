#include "ctxpipe/spend.h"
#include <errno.h>
#include "base/clock.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/csv.h"
#include "ctxpipe/when.h"

#define ROWS_SHOWN 20
#define COLUMNS 80 /* of what is no terminal; --csv and --json have the names whole */

/* flags that say the opposite of each other, or nothing together */
static int check_clashes(const struct ctxp_args *args, const struct ctxp_spend_choice *c, struct ctxp_error *err) {
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
      .json = ctxp_args_has(args, "json"),
      .csv = ctxp_args_has(args, "csv"),
      .limited = ctxp_args_has(args, "top"),
      .bill = {.now_ms = ctxp_clock_utc_ms()}};
  int sort = -1, r = ctxp_args_choice(args, "by", ctxp_grain_names, -1, &choice.bill.grain, err);
  if (r == 0) r = ctxp_args_choice(args, "sort", ctxp_bill_sort_names, -1, &sort, err);
  choice.bill.sort = (enum ctxp_bill_sort)(sort + CTXP_SORT_COST);
  if (r == 0) r = check_clashes(args, &choice, err);
  if (r == 0 && since) r = ctxp_when(since, args->command->name, choice.bill.now_ms, &choice.since_ms, err);
  if (r == 0) r = ctxp_args_number(args, "top", 1, 10000000, ROWS_SHOWN, &choice.bill.top, err);
  *ret_choice = choice;
  return r;
}

void ctxp_spend_query(const struct ctxp_spend_choice *choice, struct ctxp_buf *out) {
  const char *by = choice->bill.grain >= 0 ? ctxp_grain_names[choice->bill.grain] : NULL;
  const char *const pairs[][2] = {
      {"what", "spend"}, {"by", by}, {"session", choice->session}, {"agent", choice->agent}, {"model", choice->model}};
  bool top = choice->json && choice->limited; /* tables fold the rest into one row themselves */
  uint32_t count = 0;
  size_t mark = ctxp_pack_map_open(out);
  for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
    if (!pairs[i][1]) continue;
    ctxp_pack_cstr(out, pairs[i][0]);
    ctxp_pack_cstr(out, pairs[i][1]);
    count++;
  }
  if (top) {
    ctxp_pack_cstr(out, "top");
    ctxp_pack_u64(out, choice->bill.top);
    count++;
  }
  if (choice->since_ms) {
    ctxp_pack_cstr(out, "since");
    ctxp_pack_u64(out, choice->since_ms);
    count++;
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

int ctxp_spend_show(
    const struct ctxp_spend_choice *choice, struct ctxp_raw reply, const struct ctxp_buf *passed_over, struct ctxp_error *err) {
  static const struct ctxp_buf none = {0};
  struct ctxp_style style = ctxp_style_of(stdout);
  if (!style.columns) style.columns = COLUMNS;
  ctxp_auto_buf out = {0};
  struct ctxp_raw passed = passed_over ? ctxp_buf_raw(passed_over) : (struct ctxp_raw){0};
  int r = choice->json ? put_json(reply, passed_over ? passed_over : &none, &out) :
      choice->csv      ? ctxp_csv_print(reply, &choice->bill, &out) :
                         ctxp_bill_print(reply, passed, &choice->bill, &style, &out);
  if (r < 0) return ctxp_error_set(err, r, "the fold's answer could not be read; its version and this one's differ");
  fwrite(out.ptr, 1, out.len, stdout);
  return 0;
}
