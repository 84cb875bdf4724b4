#include "model/curl_lib.h"
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

int ctxp_curl_load(struct ctxp_curl *ret_curl, struct ctxp_error *err) {
  static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"}; /* one interface, two libraries for TLS */
  const char *missing = NULL;
  void *library = NULL;
  for (size_t i = 0; !library && i < sizeof(names) / sizeof(names[0]); i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return ctxp_error_set(err, -ENOENT, "a model cannot be asked, as libcurl cannot be loaded: %s; install libcurl4", dlerror());
#define LOOK_UP(name) \
  { \
    void *at = dlsym(library, "curl_" #name); \
    if (!at) missing = "curl_" #name; \
    memcpy(&ret_curl->name, &at, sizeof(at)); \
  }
  CTXP_CURL_FUNCTIONS(LOOK_UP)
  return missing ? ctxp_error_set(err, -ENOENT, "a model cannot be asked, as the libcurl that is installed has no %s", missing) : 0;
}
