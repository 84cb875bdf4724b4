/* What a byte of a shell output is; for the digest's files. */
#pragma once
#include "base/str.h"

static inline bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
static inline char lower(char c) { return is_upper(c) ? (char)(c + 32) : c; }
static inline bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }
static inline bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || (c & 0x80); }

static inline bool is_path_byte(char c) { return is_word(c) || c == '/' || c == '.' || c == '-' || c == '_' || c == '~' || c == '+'; }
static inline char at(struct ctxp_str s, size_t i) { return i < s.len ? s.ptr[i] : 0; }
