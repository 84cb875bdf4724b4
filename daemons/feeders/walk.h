/* Which files an import reads. */
#pragma once
#include "feeders/notes.h"

struct ctxp_files {
  struct ctxp_file {
    char *path;
    uint64_t size, device, inode;
    bool named; /* by the user, not found in a folder */
  } * items;
  uint32_t count, cap;
  uint64_t bytes;
};

/* All .jsonl files under the folders, the .json files that begin as a session does, and all files that are named, each with its side folder
 * (the same path without .jsonl), in the order of their paths, each file once. What cannot be read becomes a fault. 0 or -ENOMEM. */
int ctxp_files_find(struct ctxp_files *files, const char *const *paths, unsigned count, struct ctxp_notes *notes)
    __attribute__((warn_unused_result));
void ctxp_files_deinit(struct ctxp_files *files);
