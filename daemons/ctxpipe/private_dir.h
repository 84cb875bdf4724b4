/* A directory of its own for a private pipeline, under TMPDIR or /tmp. */
#pragma once
#include <stddef.h>
#include "ctxpipe/error.h"

/* Removes what killed reports have left there, and makes a new one. ret_lock: says that it is in use, to whoever removes; held until
 * every copy of it is closed. */
int ctxp_private_dir(char *ret_dir, size_t size, int *ret_lock, struct ctxp_error *err) __attribute__((warn_unused_result));
