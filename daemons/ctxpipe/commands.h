/* One cmd_NAME.c each, which exports its row of the table. */
#pragma once
#include "ctxpipe/command.h"

extern const struct ctxp_command ctxp_cmd_up, ctxp_cmd_down, ctxp_cmd_status, ctxp_cmd_stats, ctxp_cmd_replay, ctxp_cmd_spend,
    ctxp_cmd_report, ctxp_cmd_import, ctxp_cmd_watch, ctxp_cmd_send, ctxp_cmd_tail, ctxp_cmd_show, ctxp_cmd_logs, ctxp_cmd_check,
    ctxp_cmd_graph, ctxp_cmd_options, ctxp_cmd_help, ctxp_cmd_keys, ctxp_cmd_prices, ctxp_cmd_completion;
