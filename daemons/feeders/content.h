/* Contents of messages, as several formats write them: a text, or blocks. Estimates are ceil(units / 4) per block; an image or a
 * document counts 1500 whatever its size. */
#pragma once
#include "codec/json_read.h"

#define CTXP_IMAGE_TOKENS 1500

struct ctxp_content {
  uint64_t tokens, units;
  uint64_t pieces; /* tenths (tokens/pieces.h); of thinking none: its size is told otherwise */
  uint32_t images, texts;
};
/* One block {type: text, input_text, output_text, image, input_image, document, thinking, tool_reference}; others count nothing. */
void ctxp_content_block(struct ctxp_json *json, uint32_t block, struct ctxp_content *sum);
/* A string, or an array of blocks and strings. */
void ctxp_content_all(struct ctxp_json *json, uint32_t content, struct ctxp_content *sum);
/* Of a call in an assistant's message: its name and its arguments. */
uint64_t ctxp_content_call_pieces(struct ctxp_json *json, uint32_t name, uint32_t arguments);
/* The text of a content given as JSON text: the string, or the text blocks joined by newlines. */
int ctxp_content_text(struct ctxp_json *scratch, struct ctxp_str source, struct ctxp_buf *out) __attribute__((warn_unused_result));
/* The arguments of a call as `tool_result.input` has them: path, command, content and other short ones under their names.
 * Appends a MessagePack map. */
int ctxp_content_input(struct ctxp_json *scratch, struct ctxp_str source, struct ctxp_buf *out) __attribute__((warn_unused_result));
/* The value among a call's arguments that is its path. */
uint32_t ctxp_content_path(struct ctxp_json *json, uint32_t arguments);
