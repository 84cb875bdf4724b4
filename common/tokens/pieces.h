/* The estimator "pieces": about how many tokens a tokenizer of today makes of a text, in tenths, in one pass.
 *
 * Letters are cut at a change of case into words of one piece up to six letters, then one more for each five; punctuation makes a
 * piece of two characters, digits of three; a run of newlines is one, so are two blanks and more, and one blank is none. Scripts
 * without spaces have a piece a character, and text that is base64 one for less than two. What a model makes of a piece is a
 * factor of its family of tokenizers; the window of a conversation learns the rest (daemons/fold/sizes.h). */
#pragma once
#include "base/str.h"

#define CTXP_PIECES_MESSAGE 130 /* tenths that a message costs beside its contents */
#define CTXP_PIECES_IMAGE 15000
#define CTXP_PIECES_REPLY 200 /* the same of an assistant's */
#define CTXP_PIECES_REPLY_TEXT 100 /* and of each text in it; a call is two, its name and its arguments */

uint64_t ctxp_pieces(struct ctxp_str text); /* tenths */

enum ctxp_family { /* of tokenizers */
  CTXP_FAMILY_UNKNOWN,
  CTXP_FAMILY_CLAUDE,
  CTXP_FAMILY_CLAUDE_47,
  CTXP_FAMILY_GPT,
  CTXP_FAMILY_GLM,
  CTXP_FAMILY_DEEPSEEK
};
struct ctxp_tokenizer {
  const char *name; /* how the names of its models begin, behind a provider's prefix */
  enum ctxp_family family;
  uint16_t factor; /* tokens in 1024 pieces */
  int8_t thinking; /* of earlier turns: > 0 dropped at the next message of a person, < 0 kept, 0 unknown */
};
/* What is known of a model; never NULL. */
const struct ctxp_tokenizer *ctxp_tokenizer(struct ctxp_str model);
/* Tokens of thinking that is known by the length of its signature only. */
uint64_t ctxp_thinking_by_signature(enum ctxp_family family, uint64_t units);
