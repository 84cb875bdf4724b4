/* What can be read and still is no event that anybody behind could count: refused here, by name, before it is acknowledged. */
#pragma once
#include "ctxpipe/event.h"

/* false: *ret_fault says what is wrong. */
bool ctxp_within_bounds(const struct ctxp_event *event, struct ctxp_fault *ret_fault);
