/* Hashes (XXH3 of libxxhash): checksums of records, content ids, keys. Not for secrets. */
#pragma once
#include <stddef.h>
#include <stdint.h>

uint64_t ctxp_hash64(const void *bytes, size_t len, uint64_t seed);
struct ctxp_hash128 {
  uint64_t hi, lo;
};
struct ctxp_hash128 ctxp_hash128(const void *bytes, size_t len);
#define CTXP_HASH_HEX 33
void ctxp_hash128_hex(struct ctxp_hash128 hash, char ret_text[CTXP_HASH_HEX]);
