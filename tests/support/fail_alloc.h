/* Makes the n-th allocation fail. Link with `fail_alloc`; the wrapped calls are those of the program and our libraries, not of the
 * C library or of ZeroMQ. */
#pragma once
#include <stdbool.h>

/* The n-th call from now on (1 is the next) of malloc, calloc, realloc, strdup returns NULL, once. 0: none does. */
void fail_alloc_at(unsigned n);
/* Whether it has happened. */
bool fail_alloc_happened(void);
