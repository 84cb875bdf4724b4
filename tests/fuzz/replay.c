/* Runs the files of a corpus through a fuzz target: each an ordinary test case. */
#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"

static bool read_file(const char *path, struct ctxp_buf *out) {
  ctxp_auto_fclose FILE *file = fopen(path, "rb");
  uint8_t *room;
  size_t got = 0;
  while (file && (room = ctxp_buf_room(out, 65536)) && (got = fread(room, 1, 65536, file)) > 0) out->len += got;
  return file && !ferror(file) && !out->failed;
}

static int visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static bool run_file(const char *folder, const char *name) {
  ctxp_auto_buf path = {0}, bytes = {0};
  ctxp_buf_printf(&path, "%s/%s", folder, name);
  if (!read_file(ctxp_buf_cstr(&path), &bytes)) return false;
  uint8_t *exact = malloc(bytes.len ? bytes.len : 1); /* of its own size, so that a read beyond it is seen */
  if (!exact) return false;
  if (bytes.len) memcpy(exact, bytes.ptr, bytes.len);
  bool ok = LLVMFuzzerTestOneInput(exact, bytes.len) == 0;
  free(exact);
  return ok;
}

/* runs the files of one folder, numbered on; returns how many failed, -1: there are none */
static int run_folder(const char *folder, int *number) {
  struct dirent **names;
  int count = scandir(folder, &names, visible, alphasort), failed = 0;
  if (count <= 0) return -1;
  for (int i = 0; i < count; i++) {
    bool ok = run_file(folder, names[i]->d_name);
    printf("%s %d - %s\n", ok ? "ok" : "not ok", ++*number, names[i]->d_name);
    fflush(stdout);
    failed += !ok;
    free(names[i]);
  }
  free(names);
  return failed;
}

int main(int argc, char **argv) {
  int number = 0, failed = 0;
  for (int i = 1; i < argc; i++) {
    int r = run_folder(argv[i], &number);
    if (r < 0) {
      fprintf(stderr, "%s: needs folders of a corpus with files in them; '%s' is none\n", argv[0], argv[i]);
      return 1;
    }
    failed += r;
  }
  printf("1..%d\n", number);
  return failed || !number ? 1 : 0;
}
