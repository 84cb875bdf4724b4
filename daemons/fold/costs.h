/* What a request cost: the provider's own figures where it says them by class, else the price table. */
#pragma once
#include "config/prices.h"
#include "ctxpipe/event.h"
#include "fold/window.h"

/* Fills tokens, money and the flags REPORTED, PRICED, PRICED_OUT of a request from a prompt. prices may be NULL.
 *
 * Rates are those of the model named, the long-context tier chosen once by the input of all classes (exactly at the limit: base)
 * and applied to the whole request; the sum over classes is rounded half up to nano-dollars. A class that has tokens and no price
 * leaves its side (input or output) without a price. Reported costs are taken where any class has one that is not zero:
 * pi reports zeros for a model without a price.
 *
 * The tokens of a call count whatever else it says. A cost that cannot be right is not taken, and the call is priced as if it
 * had not been said; reasoning beyond the output counts as the output. NULL: all is taken as it is; else a sentence on what is not. */
const char *ctxp_fold_price(const struct ctxp_prompt *prompt, const struct ctxp_prices *prices, struct ctxp_fold_request *ret);
/* All tokens of a usage report: of two reports of one response the larger holds. */
uint64_t ctxp_fold_usage_sum(const struct ctxp_usage *usage);
