/* Hash maps are uthash (Debian's uthash-dev): iteration in order of insertion, so that no order depends on a hash. Out of memory
 * is an error like any other: the element is then not in the table, which the adder sees in `ctxp_map_failed`. */
#pragma once
#include <stdbool.h>
#include "base/hash.h"

#define HASH_NONFATAL_OOM 1
extern _Thread_local bool ctxp_map_failed; /* set false before an add, read after it */
#define uthash_nonfatal_oom(element) (ctxp_map_failed = true)
/* one hash for everything; uthash's own falls through the labels of a switch, of which compilers warn wherever it is used */
#define HASH_FUNCTION(key, len, hash) (hash) = (unsigned)ctxp_hash64((key), (len), 0)
#include <uthash.h>
