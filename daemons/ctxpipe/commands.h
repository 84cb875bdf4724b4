/* One cmd_NAME.c each, which exports its row of the table. */
#pragma once
#include "ctxpipe/command.h"

extern const struct ctxp_command ctxp_cmd_help, ctxp_cmd_completion;
