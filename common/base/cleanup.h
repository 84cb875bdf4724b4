/* The one cleanup idiom: free on leaving the scope, hand over with ctxp_steal. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ctxp_cleanup(function) __attribute__((cleanup(function)))
#define ctxp_auto_free ctxp_cleanup(ctxp_free_ptr)
#define ctxp_auto_close ctxp_cleanup(ctxp_close_ptr)
#define ctxp_auto_fclose ctxp_cleanup(ctxp_fclose_ptr)
/* the pointer's value; the variable is NULL afterwards */
#define ctxp_steal(pointer) \
  __extension__({ __auto_type _p = (pointer); __auto_type _v = *_p; *_p = NULL; _v; })

static inline void ctxp_free_ptr(void *pointer) { free(*(void **)pointer); }
static inline void ctxp_close_ptr(const int *fd) {
  if (*fd >= 0) close(*fd);
}
static inline void ctxp_fclose_ptr(FILE **file) {
  if (*file) fclose(*file);
}
