/* Paths of views, compared as texts: absolute against the session's working directory, without `.`, `..` and doubled slashes. The
 * disk is not asked: a transcript may be of another machine. */
#pragma once
#include "base/buf.h"
#include "base/str.h"

/* The normal form; borrowed from `buf` until its next use, or the path itself where nothing is left of it. */
struct ctxp_str ctxp_fold_path(struct ctxp_str path, struct ctxp_str cwd, struct ctxp_buf *buf);
