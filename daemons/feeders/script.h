/* What a shell script reads, if reading one file is all that it does. */
#pragma once
#include "base/buf.h"

/* The file that every part of the script prints, in whole or in part: `cd DIR && sed -n 1,80p FILE | head`. Empty: it does something else,
 * or several files. Borrowed from the script, or made in `scratch` (a quoted name). */
struct ctxp_str ctxp_script_reads(struct ctxp_str script, struct ctxp_buf *scratch);
