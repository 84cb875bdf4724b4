/* Errors. A function that can fail returns int: 0 success, < 0 -errno (forward it), > 0 a condition that its header documents.
 * Where a person will read of it, the function also takes a struct ctxp_error and leaves one sentence there: the file and
 * place, what is wrong, what would be right. The sentence is written once, where the error arises. */
#pragma once
#include <stddef.h>

#define CTXP_ERROR_MAX 1024 /* bytes of a sentence, its NUL included; longer ones are cut at a character */

struct ctxp_error {
  char text[CTXP_ERROR_MAX];
};

/* Writes the sentence and is `code`, so that `return ctxp_error_set(err, -EINVAL, "...")` is the whole statement. err may be NULL.
 * A macro, so that compilers and analysers see which code comes back. */
#define ctxp_error_set(err, code, ...) \
  __extension__({ \
    int ctxp_error_code = (code); \
    ctxp_error_write((err), __VA_ARGS__); \
    ctxp_error_code; \
  })
void ctxp_error_write(struct ctxp_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
