/* A fuzz target: one function over bytes, linked with libFuzzer where the build has -Dfuzz=true, with the replay of the corpus
 * elsewhere. It returns when the bytes were read or refused; what it finds wrong aborts. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a release build has to find the same. */
#define fuzz_check(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      abort(); \
    } \
  } while (0)
