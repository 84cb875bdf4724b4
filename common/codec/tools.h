/* Tool names of the products, as data: the class of a tool is the sub-topic of its results, so that a mechanism receives the
 * texts that it needs and no others. */
#pragma once
#include "ctxpipe/stage.h"

/* The class of a tool; skill_load beats the name. Names that no product uses are OTHER. */
enum ctxp_tool_class ctxp_tool_class(struct ctxp_str tool, bool skill_load);
const char *ctxp_tool_class_name(enum ctxp_tool_class class); /* shell, read, search, write, skill, other */

/* Topics: "kind/" and for tool_result "tool_result/CLASS/". The number of a topic is dense, for tables: 0 .. CTXP_TOPICS-1. */
#define CTXP_TOPICS (CTXP_KIND_MAX + CTXP_TOOL_CLASSES)
#define CTXP_TOPIC_MAX 48 /* bytes of a topic's text, its NUL included */
unsigned ctxp_topic_of(const struct ctxp_event *event);
void ctxp_topic_text(unsigned topic, char ret_text[CTXP_TOPIC_MAX]);
enum ctxp_kind ctxp_topic_kind(unsigned topic);
/* Does a stage that consumes this table receive that topic? */
bool ctxp_topic_consumed(unsigned topic, const struct ctxp_consume *consumes);
