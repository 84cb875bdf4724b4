/* Log lines: time, level, node, topic, sentence, then key=value. Never an event's payload above debug. */
#pragma once

enum ctxp_level { CTXP_LOG_ERROR,
  CTXP_LOG_WARN,
  CTXP_LOG_INFO,
  CTXP_LOG_DEBUG };

void ctxp_log_set(const char *node, enum ctxp_level level); /* node: borrowed for ever */
enum ctxp_level ctxp_log_level(void);
/* One line to standard error, in one write. */
void ctxp_log(enum ctxp_level level, const char *topic, const char *format, ...) __attribute__((format(printf, 3, 4)));
