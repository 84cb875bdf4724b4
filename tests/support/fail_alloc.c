#include <stddef.h>
#include "fail_alloc.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
char *__wrap_strdup(const char *text);

static unsigned left;

void fail_alloc_at(unsigned n) { left = n; }
bool fail_alloc_happened(void) { return left == 0; }

static bool fails(void) { return left && --left == 0; }

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *pointer, size_t size) { return fails() ? NULL : __real_realloc(pointer, size); }
char *__wrap_strdup(const char *text) { return fails() ? NULL : __real_strdup(text); }
