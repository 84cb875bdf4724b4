/* Ctrl-C and friends, for commands that have something to put away first. */
#pragma once

/* Set once SIGINT, SIGTERM or SIGHUP has come. */
extern volatile int ctxp_stop;
void ctxp_stop_on_signals(void);
