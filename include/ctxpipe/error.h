/* Errors. A function that can fail returns int: 0 success, < 0 -errno (forward it), > 0 a condition that its header documents.
 * Where a person will read of it, the function also takes a struct ctxp_error and leaves one sentence there: the file and
 * place, what is wrong, what would be right. The sentence is written once, where the error arises. */
#pragma once
#include <stddef.h>

#define CTXP_ERROR_MAX 1024 /* bytes of a sentence, its NUL included; longer ones are cut at a character */

struct ctxp_error {
  char text[CTXP_ERROR_MAX];
};

/* Writes the sentence and returns `code`, so that `return ctxp_error_set(err, -EINVAL, "...")` is the whole statement. err may be NULL. */
int ctxp_error_set(struct ctxp_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
