#include "fold/costs.h"

uint64_t ctxp_fold_usage_sum(const struct ctxp_usage *u) { return u->input + u->cacheRead + u->cacheWrite5m + u->cacheWrite1h + u->output; }

#define MAX_PART (CTXP_FOLD_MAX_COST / 4)
#define ROUNDING 2 /* nano-dollars: four parts and their sum, each rounded by at most a half */

/* are there tokens of a class whose cost is not said? */
static bool part_missing(const struct ctxp_usage *u, const struct ctxp_cost *c) {
  return (u->input && !ctxp_has(c, cost, inputNano)) || (u->cacheRead && !ctxp_has(c, cost, cacheReadNano)) ||
      ((u->cacheWrite5m || u->cacheWrite1h) && !ctxp_has(c, cost, cacheWriteNano)) || (u->output && !ctxp_has(c, cost, outputNano));
}

/* why a reported cost is not one; NULL: it is, or nothing is said by class */
static const char *cost_fault(const struct ctxp_usage *usage, const struct ctxp_cost *c) {
  const int64_t parts[] = {c->inputNano, c->cacheReadNano, c->cacheWriteNano, c->outputNano};
  int64_t sum = 0;
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    if (parts[i] < 0) return "a part of its cost is negative";
    if (parts[i] > MAX_PART) return "a part of its cost is beyond what one call can cost";
    sum += parts[i];
  }
  bool adds_up = c->totalNano >= sum - ROUNDING && c->totalNano <= sum + ROUNDING;
  if (sum && part_missing(usage, c)) return "its cost says nothing of some of its tokens";
  return sum && ctxp_has(c, cost, totalNano) && !adds_up ? "cost.total is not the sum of its parts" : NULL;
}

/* money of a class that has no tokens goes to the last class that has some; without any tokens it stays with the uncached */
static void settle_parts(struct ctxp_fold_request *q) {
  unsigned last = CTXP_FOLD_UNCACHED;
  for (unsigned c = 0; c < CTXP_FOLD_CLASSES; c++)
    if (q->tokens[c]) last = c;
  for (unsigned c = 0; c < CTXP_FOLD_CLASSES; c++) {
    if (q->tokens[c] || c == last) continue;
    q->parts[last] += q->parts[c];
    q->parts[c] = 0;
  }
}

/* the provider's own figures; one for both writes is shared by their tokens */
static void take_reported(const struct ctxp_cost *c, struct ctxp_fold_request *q) {
  uint64_t write = (uint64_t)c->cacheWriteNano << CTXP_FOLD_PART, written = q->tokens[CTXP_FOLD_WRITE_5M] + q->tokens[CTXP_FOLD_WRITE_1H];
  q->parts[CTXP_FOLD_READ] = (uint64_t)c->cacheReadNano << CTXP_FOLD_PART;
  q->parts[CTXP_FOLD_UNCACHED] = (uint64_t)c->inputNano << CTXP_FOLD_PART;
  q->parts[CTXP_FOLD_WRITE_1H] = written ? (uint64_t)((ctxp_u128)write * q->tokens[CTXP_FOLD_WRITE_1H] / written) : 0;
  q->parts[CTXP_FOLD_WRITE_5M] = write - q->parts[CTXP_FOLD_WRITE_1H];
  q->cost_output_nano = (uint64_t)c->outputNano;
  q->flags |= CTXP_FOLD_PRICED | CTXP_FOLD_PRICED_OUT;
}

static uint64_t half_up(ctxp_u128 micro_nano) { return (uint64_t)((micro_nano + 500000) / 1000000); }

/* tokens x rate in 10^-6 nano-dollars; false: there are tokens and no rate, or more money than the fold counts */
static bool charge(uint64_t tokens, int64_t rate, ctxp_u128 *ret) {
  *ret = 0;
  if (tokens == 0) return true;
  if (rate < 0) return false;
  *ret = (ctxp_u128)tokens * (uint64_t)rate;
  return *ret <= (ctxp_u128)CTXP_FOLD_MAX_COST / 8 * 1000000;
}

/* The classes' money in parts that add up to the rounded cost of the input: each class rounded down, and what is then missing or
 * too much (under one nano-dollar) added to the last class or taken from those that have it. */
static void part_classes(const ctxp_u128 *charged, uint64_t cost_nano, struct ctxp_fold_request *q) {
  uint64_t want = cost_nano << CTXP_FOLD_PART, sum = 0, last = 0;
  for (unsigned c = 0; c < CTXP_FOLD_CLASSES; c++) {
    q->parts[c] = (uint64_t)((charged[c] << CTXP_FOLD_PART) / 1000000);
    sum += q->parts[c];
    if (q->parts[c]) last = c;
  }
  if (want > sum) q->parts[last] += want - sum;
  for (unsigned c = 0; sum > want && c < CTXP_FOLD_CLASSES; c++) {
    uint64_t take = sum - want < q->parts[c] ? sum - want : q->parts[c];
    q->parts[c] -= take;
    sum -= take;
  }
}

/* beside: reasoning tokens that are no part of the output */
static void take_table(const struct ctxp_model_price *price, uint64_t beside, struct ctxp_fold_request *q) {
  const struct ctxp_rates *r = price->above_tokens && ctxp_fold_request_input(q) > price->above_tokens ? &price->above : &price->base;
  const int64_t rates[CTXP_FOLD_CLASSES] = {r->cache_read, r->cache_write_5m, r->cache_write_1h, r->input};
  ctxp_u128 charged[CTXP_FOLD_CLASSES], input = 0, output;
  bool in = true, out = charge(q->output + beside, r->output, &output);
  for (unsigned c = 0; c < CTXP_FOLD_CLASSES; c++) {
    in = charge(q->tokens[c], rates[c], &charged[c]) && in;
    input += charged[c];
  }
  if (in) {
    part_classes(charged, half_up(input), q);
    q->flags |= CTXP_FOLD_PRICED;
  }
  if (out) {
    q->cost_output_nano =
        in ? half_up(input + output) - half_up(input) : half_up(output); /* input and output add up to the rounded whole */
    q->flags |= CTXP_FOLD_PRICED_OUT;
  }
}

const char *ctxp_fold_price(const struct ctxp_prompt *p, const struct ctxp_prices *prices, struct ctxp_fold_request *q) {
  const struct ctxp_cost *c = &p->cost;
  if (!ctxp_has(p, prompt, usage)) return ctxp_has(p, prompt, cost) ? "it has a cost and no usage" : NULL;
  q->flags |= CTXP_FOLD_REPORTED;
  q->tokens[CTXP_FOLD_UNCACHED] = p->usage.input;
  q->tokens[CTXP_FOLD_READ] = p->usage.cacheRead;
  q->tokens[CTXP_FOLD_WRITE_5M] = p->usage.cacheWrite5m;
  q->tokens[CTXP_FOLD_WRITE_1H] = p->usage.cacheWrite1h;
  q->output = p->usage.output;
  bool apart = p->usage.reasoningApart, reasons_more = !apart && p->usage.reasoning > q->output;
  q->reasoning = reasons_more ? q->output : p->usage.reasoning;
  if (apart) q->flags |= CTXP_FOLD_REASONING_APART;
  const struct ctxp_model_price *price = prices ? ctxp_prices_find(prices, p->model) : NULL;
  const char *fault = cost_fault(&p->usage, c);
  if (!fault && (c->inputNano || c->cacheReadNano || c->cacheWriteNano || c->outputNano))
    take_reported(c, q);
  else if (price)
    take_table(price, apart ? q->reasoning : 0, q);
  else if (ctxp_fold_usage_sum(&p->usage) == 0)
    q->flags |= CTXP_FOLD_PRICED | CTXP_FOLD_PRICED_OUT; /* nothing was used: it cost nothing */
  settle_parts(q);
  return fault ? fault : reasons_more ? "usage.reasoning is more than usage.output" :
                                        NULL;
}
