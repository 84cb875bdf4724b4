#include "collector/collector.h"
#include "runtime/daemon_main.h"

int main(int argc, char **argv) { return ctxp_daemon_main_source(&ctxp_stage_collector, &ctxp_source_collector, argc, argv); }
