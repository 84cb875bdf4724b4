/* opencode's sessions as JSON: what the parts of its reader share. */
#pragma once
#include "codec/json_read.h"

/* The session that `json` has read, {info, messages: [{info, parts}]}, with what is looked at only. live: only the messages that opencode
 * is done with. */
void opencode_project(struct ctxp_json *json, bool live, struct ctxp_buf *out);
