/* The one C++ file: simdjson's stage 1 finds the tokens of a text and checks its UTF-8, at memory speed. The second stages
 * (DOM, on-demand) are not used, as both refuse texts with lone surrogates, which JSON.stringify writes; json_read.c reads the
 * values that are asked for. */
#include <charconv>
#include <cmath>
#include <memory>
#include <new>
#include <simdjson.h>
#include "codec/json_index.h"

struct ctxp_json_index {
  std::unique_ptr<simdjson::internal::dom_parser_implementation> stage;
  size_t capacity = 0;
};

static bool grow(ctxp_json_index *index, size_t len) {
  if (index->stage && len <= index->capacity) return true;
  size_t capacity = 4096;
  while (capacity < len) capacity *= 2;
  simdjson::error_code error = simdjson::SUCCESS;
  if (index->stage)
    error = index->stage->set_capacity(capacity);
  else
    error = simdjson::get_active_implementation()->create_dom_parser_implementation(capacity, 1, index->stage);
  if (error) return false;
  index->capacity = capacity;
  return true;
}

extern "C" struct ctxp_json_index *ctxp_json_index_new(void) { return new (std::nothrow) ctxp_json_index; }

extern "C" struct ctxp_json_index *ctxp_json_index_free(struct ctxp_json_index *index) {
  delete index;
  return nullptr;
}

extern "C" enum ctxp_json_indexed ctxp_json_index_text(
    struct ctxp_json_index *index, struct ctxp_str text, const uint32_t **ret_at, uint32_t *ret_count) {
  if (!grow(index, text.len)) return CTXP_JSON_NO_MEMORY;
  auto *bytes = reinterpret_cast<const uint8_t *>(text.ptr);
  switch (index->stage->stage1(bytes, text.len, simdjson::stage1_mode::regular)) {
  case simdjson::SUCCESS: break;
  case simdjson::EMPTY: return CTXP_JSON_EMPTY;
  case simdjson::UTF8_ERROR: return CTXP_JSON_NOT_UTF8;
  case simdjson::UNCLOSED_STRING: return CTXP_JSON_OPEN_TEXT;
  case simdjson::UNESCAPED_CHARS: return CTXP_JSON_CONTROL;
  default: return CTXP_JSON_NO_MEMORY;
  }
  *ret_at = index->stage->structural_indexes.get(); /* stage 1 has written the length behind the last one */
  *ret_count = index->stage->n_structural_indexes;
  return CTXP_JSON_INDEXED;
}

/* the power of ten of the first digit that is not zero, plus one: above 0 for a number of 1 or more */
static long magnitude(struct ctxp_str number) {
  long point = 0, zeros = 0, exponent = 0;
  size_t i = number.ptr[0] == '-';
  bool fraction = false, significant = false;
  for (; i < number.len && number.ptr[i] != 'e' && number.ptr[i] != 'E'; i++) {
    if (number.ptr[i] == '.') {
      fraction = true;
      continue;
    }
    significant = significant || number.ptr[i] != '0';
    if (!fraction && significant) point++;
    if (fraction && !significant) zeros++;
  }
  for (bool minus = i + 1 < number.len && number.ptr[i + 1] == '-'; ++i < number.len;)
    if (number.ptr[i] >= '0' && number.ptr[i] <= '9' && exponent < 1000000 && exponent > -1000000)
      exponent = exponent * 10 + (minus ? '0' - number.ptr[i] : number.ptr[i] - '0');
  return (point ? point : -zeros) + exponent;
}

extern "C" double ctxp_json_double(struct ctxp_str number) {
  double value = 0;
  auto read = std::from_chars(number.ptr, number.ptr + number.len, value);
  if (read.ec != std::errc::result_out_of_range) return value;
  value = magnitude(number) > 0 ? HUGE_VAL : 0;
  return number.ptr[0] == '-' ? -value : value;
}
