/* Decimal numbers, exactly: no double between what a person wrote and what is charged. */
#pragma once
#include "ctxpipe/event.h"

/* [-]DIGITS[.DIGITS][e[+-]DIGITS], times 10^9. -EINVAL: not a number; -ERANGE: finer than 10^-9, negative, or above a million. */
int ctxp_decimal_nano(struct ctxp_str text, int64_t *ret_nano) __attribute__((warn_unused_result));
