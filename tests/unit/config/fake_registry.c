#include "unit/config/fake_registry.h"
#include <stddef.h>

static const struct ctxp_consume results[] = {{CTXP_KIND_tool_result, 1u << CTXP_TOOL_SHELL}, {CTXP_KIND_NONE, 0}},
                                 starts[] = {{CTXP_KIND_agent_start, 0}, {CTXP_KIND_NONE, 0}},
                                 everything[] = {{CTXP_KIND_prompt, 0}, {CTXP_KIND_bash, 0}, {CTXP_KIND_lazy, 0}, {CTXP_KIND_NONE, 0}},
                                 figures[] = {{CTXP_KIND_turn, 0}, {CTXP_KIND_spend, 0}, {CTXP_KIND_NONE, 0}},
                                 spends[] = {{CTXP_KIND_hold, 0}, {CTXP_KIND_NONE, 0}};
static const enum ctxp_kind bash_events[] = {CTXP_KIND_bash, CTXP_KIND_NONE}, lazy_events[] = {CTXP_KIND_lazy, CTXP_KIND_NONE},
                            fold_events[] = {CTXP_KIND_turn, CTXP_KIND_spend, CTXP_KIND_NONE};

static const char *const engines[] = {"rules", "aux", NULL};
static const struct ctxp_option bash_options[] = {
    {"min_tokens", CTXP_OPTION_U64, "2000", 0, 1000000, "tokens", "smallest result that is digested", NULL,
        offsetof(struct fake_bash_options, min_tokens)},
    {"engine", CTXP_OPTION_ENUM, "rules", 0, 0, "", "what digests", engines, offsetof(struct fake_bash_options, engine)},
    {"keep_errors", CTXP_OPTION_BOOL, "false", 0, 0, "", "failed results stay", NULL, offsetof(struct fake_bash_options, keep_errors)},
    {"url", CTXP_OPTION_STRING, "", 0, 0, "", "of the auxiliary model", NULL, offsetof(struct fake_bash_options, url)},
    {"key_file", CTXP_OPTION_PATH, "", 0, 0, "", "file with its key", NULL, offsetof(struct fake_bash_options, key_file)}, {0}};
static const struct ctxp_option log_options[] = {
    {"path", CTXP_OPTION_PATH, "events.jsonl", 0, 0, "", "the file", NULL, offsetof(struct fake_log_options, path)},
    {"rotate_bytes", CTXP_OPTION_U64, "0", 0, 0, "bytes", "size of a part; 0: one file", NULL,
        offsetof(struct fake_log_options, rotate_bytes)},
    {0}};
static const struct ctxp_option snapshot_options[] = {{"dir", CTXP_OPTION_PATH, NULL, 0, 0, "", "the folder", NULL, 0}, {0}};

static const struct ctxp_stage_ops
    collector = {.name = "collector", .summary = "takes events", .role = CTXP_ROLE_COLLECTOR_NODE},
    bash = {.name = "bash-digest",
        .summary = "digests",
        .role = CTXP_ROLE_MECHANISM_NODE,
        .consumes = results,
        .emits = bash_events,
        .options = bash_options,
        .options_size = sizeof(struct fake_bash_options)},
    lazy = {.name = "lazy-estimator", .summary = "estimates", .role = CTXP_ROLE_MECHANISM_NODE, .consumes = starts, .emits = lazy_events},
    fold = {.name = "fold", .summary = "sums", .role = CTXP_ROLE_FOLD_NODE, .consumes = everything, .emits = fold_events},
    sink_log = {.name = "sink-log",
        .summary = "writes lines",
        .role = CTXP_ROLE_SINK_NODE,
        .consumes = figures,
        .options = log_options,
        .options_size = sizeof(struct fake_log_options)},
    sink_snapshot = {.name = "sink-snapshot",
        .summary = "writes files",
        .role = CTXP_ROLE_SINK_NODE,
        .consumes = figures,
        .options = snapshot_options,
        .options_size = sizeof(const char *)},
    sink_holds = {.name = "sink-holds", .summary = "takes what nobody sends", .role = CTXP_ROLE_SINK_NODE, .consumes = spends};

const struct ctxp_stage_ops *const fake_registry[] = {&collector, &bash, &lazy, &fold, &sink_log, &sink_snapshot, &sink_holds, NULL};
