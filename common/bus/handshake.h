/* Why a client's connection does not come about, where that is known: a refused key looks like silence otherwise. */
#pragma once
#include <stdbool.h>
#include "ctxpipe/error.h"

struct ctxp_handshake {
  void *monitor; /* NULL: not watched */
  unsigned broken; /* handshakes in a row that ended without a reason */
  bool refused; /* the last one ended with a no */
};
/* Watches a socket before it connects. */
int ctxp_handshake_watch(struct ctxp_handshake *handshake, void *context, void *socket) __attribute__((warn_unused_result));
/* Takes what has happened since. <0 with a sentence: the other side does not let us in, or is not the one whose key we have. */
int ctxp_handshake_check(struct ctxp_handshake *handshake, struct ctxp_error *err) __attribute__((warn_unused_result));
void ctxp_handshake_deinit(struct ctxp_handshake *handshake);
