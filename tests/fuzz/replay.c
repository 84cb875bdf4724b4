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

int main(int argc, char **argv) {
  struct dirent **names;
  int count = argc == 2 ? scandir(argv[1], &names, visible, alphasort) : -1, failed = 0;
  if (count <= 0) {
    fprintf(stderr, "%s: needs the folder of a corpus with files in it\n", argv[0]);
    return 1;
  }
  printf("1..%d\n", count);
  for (int i = 0; i < count; i++) {
    ctxp_auto_buf path = {0}, bytes = {0};
    ctxp_buf_printf(&path, "%s/%s", argv[1], names[i]->d_name);
    bool there = read_file(ctxp_buf_cstr(&path), &bytes);
    uint8_t *exact = malloc(bytes.len + 1); /* of its own size, so that a read beyond it is seen */
    if (there && exact) {
      if (bytes.len) memcpy(exact, bytes.ptr, bytes.len);
      uint8_t *shrunk = realloc(exact, bytes.len ? bytes.len : 1);
      exact = shrunk ? shrunk : exact;
      there = LLVMFuzzerTestOneInput(exact, bytes.len) == 0;
    }
    printf("%s %d - %s\n", there && exact ? "ok" : "not ok", i + 1, names[i]->d_name);
    failed += !there || !exact;
    fflush(stdout);
    free(exact);
    free(names[i]);
  }
  free(names);
  return failed ? 1 : 0;
}
