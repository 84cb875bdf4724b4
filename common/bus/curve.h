/* CURVE for sockets that are reached from other machines: keys from files, and the list of clients that are let in.
 *
 * The secret file holds one key, 40 characters of Z85, readable by its owner alone. The clients file holds one public key a line,
 * and behind it, if wanted, a name. In both, empty lines and lines that begin with `#` are passed over. A guard answers libzmq's
 * questions (ZAP, inproc://zeromq.zap.01) from the loop that owns it: one in each ZeroMQ context. The clients file is read again when
 * it has changed, before a connection is judged: a new client gets in at once, and one that was taken out does not come back (a
 * connection that stands is not cut). A fault in it leaves the list as it was, and is said with the next refusal. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "ctxpipe/error.h"

#define CTXP_CURVE_KEY 41 /* Z85, its NUL included */
struct ctxp_curve;

/* Reads the files and opens the guard's socket; every fault is a sentence with file and line. */
int ctxp_curve_new(void *zmq_context, const char *secret_file, const char *clients_file, struct ctxp_curve **ret_curve,
    struct ctxp_error *err) __attribute__((warn_unused_result));
struct ctxp_curve *ctxp_curve_free(struct ctxp_curve *curve);
/* Makes a socket a CURVE server that asks this guard. Before it is bound. */
int ctxp_curve_serve(struct ctxp_curve *curve, void *socket, struct ctxp_error *err) __attribute__((warn_unused_result));
void *ctxp_curve_socket(const struct ctxp_curve *curve); /* to be polled */
/* Answers what waits at the guard's socket. Returns how many connections were refused; the last one is named in `sentence`. */
unsigned ctxp_curve_answer(struct ctxp_curve *curve, struct ctxp_error *sentence);
uint64_t ctxp_curve_refused(const struct ctxp_curve *curve); /* in all */

/* Does this endpoint need CURVE: tcp, and beyond loopback? */
bool ctxp_curve_needed(const char *endpoint);
