#include "runtime/mark.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/cleanup.h"

int ctxp_mark_open(const char *run_dir, const char *node, volatile uint64_t **ret_mark, struct ctxp_error *err) {
  ctxp_auto_buf path = {0};
  ctxp_buf_printf(&path, "%s/%s.event", run_dir, node);
  ctxp_auto_close int fd = open(ctxp_buf_cstr(&path), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  uint64_t none = 0;
  void *page = fd >= 0 && write(fd, &none, sizeof(none)) == (ssize_t)sizeof(none) ? mmap(NULL, sizeof(none), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (page == MAP_FAILED) {
    int code = errno ? -errno : -EIO;
    return ctxp_error_set(err, code, "node '%s': cannot write '%s': %s", node, ctxp_buf_cstr(&path), strerror(-code));
  }
  *ret_mark = page;
  return 0;
}

void ctxp_mark_close(volatile uint64_t *mark) {
  if (mark) munmap((void *)(uintptr_t)mark, sizeof(*mark));
}

uint64_t ctxp_mark_read(const char *run_dir, const char *node) {
  ctxp_auto_buf path = {0};
  uint64_t number;
  ctxp_buf_printf(&path, "%s/%s.event", run_dir, node);
  ctxp_auto_close int fd = open(ctxp_buf_cstr(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  return fd >= 0 && read(fd, &number, sizeof(number)) == (ssize_t)sizeof(number) ? number : 0;
}
