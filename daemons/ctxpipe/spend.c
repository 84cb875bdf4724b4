#include "ctxpipe/spend.h"
#include <errno.h>
#include "base/str.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "ctxpipe/csv.h"

#define ROWS_SHOWN 20

int ctxp_spend_choose(const struct ctxp_args *args, struct ctxp_spend_choice *ret_choice, struct ctxp_error *err) {
  struct ctxp_spend_choice choice = {.session = ctxp_args_get(args, "session"),
      .json = ctxp_args_has(args, "json"),
      .csv = ctxp_args_has(args, "csv"),
      .limited = ctxp_args_has(args, "top")};
  int sort = CTXP_SORT_COST, r = ctxp_args_choice(args, "by", ctxp_grain_names, -1, &choice.bill.grain, err);
  if (r == 0) r = ctxp_args_choice(args, "sort", ctxp_bill_sort_names, CTXP_SORT_COST, &sort, err);
  choice.bill.sort = (enum ctxp_bill_sort)sort;
  const char *clash = choice.json && choice.csv ? "csv" : choice.json && ctxp_args_has(args, "sort") ? "sort" :
      choice.csv && choice.limited                                                                   ? "top" :
                                                                                                       NULL;
  if (r == 0 && clash)
    r = ctxp_error_set(
        err, -EINVAL, "%s: '--%s' does not go with '--%s'; leave one out", args->command->name, clash, choice.json ? "json" : "csv");
  if (r == 0) r = ctxp_args_number(args, "top", 1, 10000000, ROWS_SHOWN, &choice.bill.top, err);
  *ret_choice = choice;
  return r;
}

void ctxp_spend_query(const struct ctxp_spend_choice *choice, struct ctxp_buf *out) {
  const char *by = choice->bill.grain >= 0 ? ctxp_grain_names[choice->bill.grain] : NULL;
  const char *const pairs[][2] = {{"what", "spend"}, {"by", by}, {"session", choice->session}, {"agent", choice->agent}};
  bool top = choice->json && choice->limited; /* tables fold the rest into one row themselves */
  uint32_t count = top;
  for (size_t i = 0; i < 4; i++) count += pairs[i][1] != NULL;
  ctxp_pack_map(out, count);
  for (size_t i = 0; i < 4; i++) {
    if (!pairs[i][1]) continue;
    ctxp_pack_cstr(out, pairs[i][0]);
    ctxp_pack_cstr(out, pairs[i][1]);
  }
  if (!top) return;
  ctxp_pack_cstr(out, "top");
  ctxp_pack_u64(out, choice->bill.top);
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
  ctxp_auto_buf out = {0};
  struct ctxp_raw passed = passed_over ? ctxp_buf_raw(passed_over) : (struct ctxp_raw){0};
  int r = choice->json ? put_json(reply, passed_over ? passed_over : &none, &out) :
      choice->csv      ? ctxp_csv_print(reply, &choice->bill, &out) :
                         ctxp_bill_print(reply, passed, &choice->bill, &style, &out);
  if (r < 0) return ctxp_error_set(err, r, "the fold's answer could not be read; its version and this one's differ");
  fwrite(out.ptr, 1, out.len, stdout);
  return 0;
}
