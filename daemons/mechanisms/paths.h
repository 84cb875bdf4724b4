/* Paths as texts; the disk is never touched. */
#pragma once
#include "base/buf.h"

/* Appends `path`, taken against the working directory `cwd` (may be empty), without `.`, `..` and double slashes. */
void ctxp_path_normalise(struct ctxp_str cwd, struct ctxp_str path, struct ctxp_buf *out);
