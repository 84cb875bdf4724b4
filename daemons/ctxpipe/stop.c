#include "ctxpipe/stop.h"
#include <signal.h>
#include <stddef.h>

volatile int ctxp_stop;

static void on_signal(int signal) {
  (void)signal;
  ctxp_stop = 1;
}

void ctxp_stop_on_signals(void) {
  struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: calls that wait come back */
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGHUP, &action, NULL);
}
