/* One answer from the actions of several mechanisms, in the topology's order: the first `replace` and the first `inject` win;
 * `remove`, `strip` and `stripContent` are united, messages and calls in the order of the request, and nothing is stripped from a
 * message that is removed. */
#pragma once
#include "codec/msgpack.h"

/* messages: of the `context` event (a list of skeletons); empty for a tool_result. actions[i].len 0: that one has passed.
 * Appends a map of what is to be done to `out`. Returns the number of its pairs: 0 means unchanged; <0: -ENOMEM. */
int ctxp_merge(struct ctxp_list messages, const struct ctxp_raw *actions, unsigned count, struct ctxp_buf *out)
    __attribute__((warn_unused_result));
