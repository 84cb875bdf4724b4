#include <stdio.h>
#include "base/str.h"
#include "codec/tools.h"

static const struct {
  const char *name;
  enum ctxp_tool_class class;
} tools[] = {
    /* pi, OpenClaw */
    {"bash", CTXP_TOOL_SHELL},
    {"read", CTXP_TOOL_READ},
    {"grep", CTXP_TOOL_SEARCH},
    {"find", CTXP_TOOL_SEARCH},
    {"ls", CTXP_TOOL_SEARCH},
    {"write", CTXP_TOOL_WRITE},
    {"edit", CTXP_TOOL_WRITE},
    {"find_capability", CTXP_TOOL_SEARCH},
    /* Claude Code */
    {"Bash", CTXP_TOOL_SHELL},
    {"BashOutput", CTXP_TOOL_SHELL},
    {"Read", CTXP_TOOL_READ},
    {"NotebookRead", CTXP_TOOL_READ},
    {"Grep", CTXP_TOOL_SEARCH},
    {"Glob", CTXP_TOOL_SEARCH},
    {"LS", CTXP_TOOL_SEARCH},
    {"Write", CTXP_TOOL_WRITE},
    {"Edit", CTXP_TOOL_WRITE},
    {"MultiEdit", CTXP_TOOL_WRITE},
    {"NotebookEdit", CTXP_TOOL_WRITE},
    {"Skill", CTXP_TOOL_SKILL},
    {"ToolSearch", CTXP_TOOL_SEARCH},
    /* Codex */
    {"shell", CTXP_TOOL_SHELL},
    {"shell_command", CTXP_TOOL_SHELL},
    {"exec_command", CTXP_TOOL_SHELL},
    {"local_shell_call", CTXP_TOOL_SHELL},
    {"local_shell", CTXP_TOOL_SHELL},
    {"unified_exec", CTXP_TOOL_SHELL},
    {"container.exec", CTXP_TOOL_SHELL},
    {"apply_patch", CTXP_TOOL_WRITE},
    /* gg */
    {"read_file", CTXP_TOOL_READ},
    {"write_file", CTXP_TOOL_WRITE},
    {"list_dir", CTXP_TOOL_SEARCH},
    {"evict_file_view", CTXP_TOOL_OTHER},
    /* opencode, Gemini CLI */
    {"glob", CTXP_TOOL_SEARCH},
    {"list", CTXP_TOOL_SEARCH},
    {"patch", CTXP_TOOL_WRITE},
    {"run_shell_command", CTXP_TOOL_SHELL},
    {"read_many_files", CTXP_TOOL_READ},
    {"list_directory", CTXP_TOOL_SEARCH},
    {"search_file_content", CTXP_TOOL_SEARCH},
    {"replace", CTXP_TOOL_WRITE},
};

enum ctxp_tool_class ctxp_tool_class(struct ctxp_str tool, bool skill_load) {
  if (skill_load) return CTXP_TOOL_SKILL;
  for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
    if (ctxp_str_is(tool, tools[i].name)) return tools[i].class;
  return CTXP_TOOL_OTHER;
}

const char *ctxp_tool_class_name(enum ctxp_tool_class class) {
  static const char *const names[CTXP_TOOL_CLASSES] = {"shell", "read", "search", "write", "skill", "other"};
  return class < CTXP_TOOL_CLASSES ? names[class] : "?";
}

unsigned ctxp_topic_of(const struct ctxp_event *event) {
  if (event->kind != CTXP_KIND_tool_result) return (unsigned)event->kind;
  return CTXP_KIND_MAX + (unsigned)ctxp_tool_class(event->tool_result.tool, event->tool_result.skillLoad);
}

enum ctxp_kind ctxp_topic_kind(unsigned topic) { return topic >= CTXP_KIND_MAX ? CTXP_KIND_tool_result : (enum ctxp_kind)topic; }

void ctxp_topic_text(unsigned topic, char ret_text[CTXP_TOPIC_MAX]) {
  const struct ctxp_kind_info *info = ctxp_kind_info(ctxp_topic_kind(topic));
  const char *kind = info ? info->name : "?";
  if (topic >= CTXP_KIND_MAX)
    snprintf(ret_text, CTXP_TOPIC_MAX, "%s/%s/", kind, ctxp_tool_class_name((enum ctxp_tool_class)(topic - CTXP_KIND_MAX)));
  else
    snprintf(ret_text, CTXP_TOPIC_MAX, "%s/", kind);
}

bool ctxp_topic_consumed(unsigned topic, const struct ctxp_consume *consumes) {
  enum ctxp_kind kind = ctxp_topic_kind(topic);
  for (; consumes && consumes->kind != CTXP_KIND_NONE; consumes++)
    if (consumes->kind == kind && (topic < CTXP_KIND_MAX || consumes->classes == 0 || consumes->classes >> (topic - CTXP_KIND_MAX) & 1u))
      return true;
  return false;
}
