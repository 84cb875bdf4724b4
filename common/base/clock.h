/* Clocks, and times as text. Only the runtime and the commands ask for the time; a stage never does. */
#pragma once
#include <stdint.h>
#include "ctxpipe/event.h"

uint64_t ctxp_clock_ms(void); /* monotonic */
uint64_t ctxp_clock_utc_ms(void); /* since 1970 */
#define CTXP_ISO_SIZE 32
/* 2026-08-30T06:10:19.549Z; years 0000 to 9999, later ones are shown as 9999-12-31T23:59:59.999Z */
void ctxp_time_iso(uint64_t utc_ms, char ret_text[CTXP_ISO_SIZE]);
/* Reads YYYY-MM-DDTHH:MM:SS[.fraction](Z|+HH:MM|-HH:MM), fractions below a millisecond cut off. 0 or -EINVAL. Before 1970: -EINVAL. */
int ctxp_time_parse(struct ctxp_str text, uint64_t *ret_utc_ms) __attribute__((warn_unused_result));
