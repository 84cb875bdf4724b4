/* libcurl, loaded when the first call is made: it brings thirty libraries along, and of many processes that never ask a model each
 * would start with them. Once loaded it stays. */
#pragma once
#include <curl/curl.h>
#include "ctxpipe/error.h"

#define CTXP_CURL_FUNCTIONS(F) \
  F(global_init) \
  F(global_cleanup) \
  F(easy_init) \
  F(easy_cleanup) \
  F(easy_setopt) \
  F(easy_getinfo) \
  F(easy_strerror) \
  F(multi_init) \
  F(multi_cleanup) \
  F(multi_add_handle) \
  F(multi_remove_handle) \
  F(multi_setopt) \
  F(multi_strerror) \
  F(multi_info_read) \
  F(multi_socket_action) \
  F(slist_append) \
  F(slist_free_all)

#define CTXP_CURL_MEMBER(name) __typeof__(&curl_##name) name;
struct ctxp_curl {
  CTXP_CURL_FUNCTIONS(CTXP_CURL_MEMBER)
};
/* -ENOENT with a sentence: it is not installed, or is another library. */
int ctxp_curl_load(struct ctxp_curl *ret_curl, struct ctxp_error *err) __attribute__((warn_unused_result));
