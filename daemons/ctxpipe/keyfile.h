/* Files of CURVE keys. A collector has DIR/collector.secret and DIR/clients; a client one file with all that it needs to connect:
 *
 *   server KEY    the collector's public key
 *   public KEY    the client's own two
 *   secret KEY
 *
 * Each KEY is 40 characters of Z85. All files are 0600 and never written over. */
#pragma once
#include "base/buf.h"
#include "ctxpipe/error.h"

#define CTXP_KEY_BYTES 41

struct ctxp_client_keys {
  char server[CTXP_KEY_BYTES], public[CTXP_KEY_BYTES], secret[CTXP_KEY_BYTES];
};
/* Makes the folder, the collector's secret key and its empty list of clients where they are not there yet. ret_public: the key of the
 * secret that is there. 1: all was there already. */
int ctxp_keyfile_server(const char *dir, char ret_public[CTXP_KEY_BYTES], struct ctxp_error *err) __attribute__((warn_unused_result));
/* Makes DIR/NAME.client and adds its public key to the list of clients. -EEXIST with a sentence: there is one. */
int ctxp_keyfile_client(const char *dir, const char *name, const char *server_public, struct ctxp_error *err)
    __attribute__((warn_unused_result));
int ctxp_keyfile_read_client(const char *path, struct ctxp_client_keys *ret_keys, struct ctxp_error *err)
    __attribute__((warn_unused_result));
