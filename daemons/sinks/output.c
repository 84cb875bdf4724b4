#include "sinks/output.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    int r = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
    *slash = '/';
    if (r < 0) return r;
  }
  return 0;
}

int ctxp_output_folder(const char *node, const char *path, int *ret_fd, struct ctxp_error *err) {
  ctxp_auto_buf copy = {0};
  ctxp_buf_str(&copy, path[0] == '/' ? "" : "./");
  ctxp_buf_str(&copy, path);
  char *slash = ctxp_buf_error(&copy) == 0 ? strrchr((char *)(uintptr_t)ctxp_buf_cstr(&copy), '/') : NULL;
  if (!slash) return ctxp_error_set(err, -ENOMEM, "node '%s': out of memory", node);
  int r = make_folders((char *)copy.ptr);
  *slash = 0;
  if (r < 0) return ctxp_error_set(err, r, "node '%s': could not make the folder '%s': %s", node, (char *)copy.ptr, strerror(-r));
  int fd = open(copy.ptr[0] ? (char *)copy.ptr : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ctxp_error_set(err, -errno, "node '%s': could not open the folder '%s': %s", node, (char *)copy.ptr, strerror(errno));
  *ret_fd = fd;
  return 0;
}

int ctxp_output_write(int fd, const void *bytes, size_t len, size_t *ret_written) {
  *ret_written = 0;
  while (*ret_written < len) {
    ssize_t n = write(fd, (const char *)bytes + *ret_written, len - *ret_written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? -errno : -EIO;
    *ret_written += (size_t)n;
  }
  return 0;
}
