/* The main of every daemon, built once for each: CTXP_DAEMON is its stage, CTXP_DAEMON_SOURCE the hooks of one that is a source. */
#include "runtime/daemon_main.h"

extern const struct ctxp_stage_ops CTXP_DAEMON;

#ifdef CTXP_DAEMON_SOURCE
extern const struct ctxp_source_ops CTXP_DAEMON_SOURCE;
int main(int argc, char **argv) { return ctxp_daemon_main_source(&CTXP_DAEMON, &CTXP_DAEMON_SOURCE, argc, argv); }
#else
int main(int argc, char **argv) { return ctxp_daemon_main(&CTXP_DAEMON, argc, argv); }
#endif
