/* What the file sinks share: places on disk. */
#pragma once
#include <sys/stat.h>
#include "base/buf.h"
#include "ctxpipe/error.h"

/* Makes the folders above a file (0700), and opens the one it lies in. The descriptor, or -errno with a sentence. */
int ctxp_output_folder(const char *node, const char *path, int *ret_fd, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Writes everything; on an error *ret_written says how much of it. */
int ctxp_output_write(int fd, const void *bytes, size_t len, size_t *ret_written) __attribute__((warn_unused_result));
