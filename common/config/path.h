/* Paths as a topology writes them: `~`, ${VAR} and ${VAR:-text}, and nothing else; `$$` is a dollar sign. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/error.h"

/* Appends the path with its variables replaced. A variable that is empty counts as not set, as the XDG rules have it.
 * -EINVAL: the sentence says what is wrong with it. */
int ctxp_path_expand(struct ctxp_str text, struct ctxp_buf *out, struct ctxp_error *why) __attribute__((warn_unused_result));
/* Appends the absolute path: expanded; a relative one under `base`, which it may not leave; without `.`, `..` and empty parts,
 * by its text alone: the disk is not asked. `under` names the base in a sentence. */
int ctxp_path_resolve(struct ctxp_str text, const char *base, const char *under, struct ctxp_buf *out, struct ctxp_error *why)
    __attribute__((warn_unused_result));
/* The directory of a file, absolute, and the file itself, absolute; both by text and the working directory. The caller frees. */
int ctxp_path_locate(const char *file, char **ret_file, char **ret_dir) __attribute__((warn_unused_result));
/* Appends the path so that ctxp_path_expand gives it back. */
void ctxp_path_escape(struct ctxp_str path, struct ctxp_buf *out);
