/* The engine of a mechanism: its rules, or an auxiliary model whose complete replies alone count. The options of both, what is
 * asked, and the `aux` event of each call, for every mechanism that has a choice. */
#pragma once
#include "base/buf.h"
#include "base/str.h"
#include "ctxpipe/stage.h"

enum ctxp_engine_kind { CTXP_ENGINE_RULES,
  CTXP_ENGINE_AUX };
struct ctxp_engine { /* a part of the mechanism's options */
  int kind;
  const char *url, *model, *api_key_env, *api_key_file;
  uint64_t timeout_ms, max_inflight;
  bool aux_recorded;
};
extern const char *const ctxp_engine_kinds[];

/* rows of an option table; `whole` is the mechanism's options struct, with a member `engine` */
#define CTXP_ENGINE_OPTIONS(whole) \
  {.name = "engine", \
      .type = CTXP_OPTION_ENUM, \
      .initial = "rules", \
      .unit = "", \
      .choices = ctxp_engine_kinds, \
      .help = "rules: local and free; aux: a model behind an OpenAI-compatible endpoint, for agents that ask", \
      .offset = offsetof(whole, engine.kind)}, \
      {.name = "url", \
          .type = CTXP_OPTION_STRING, \
          .initial = "", \
          .unit = "", \
          .help = "of engine aux: base of the endpoint, such as http://127.0.0.1:11434/v1", \
          .offset = offsetof(whole, engine.url)}, \
      {.name = "model", \
          .type = CTXP_OPTION_STRING, \
          .initial = "", \
          .unit = "", \
          .help = "of engine aux: the model's name at the endpoint", \
          .offset = offsetof(whole, engine.model)}, \
      {.name = "api_key_env", \
          .type = CTXP_OPTION_STRING, \
          .initial = "", \
          .unit = "", \
          .help = "environment variable of the pipeline that holds the API key; none: no key is sent", \
          .offset = offsetof(whole, engine.api_key_env)}, \
      {.name = "api_key_file", \
          .type = CTXP_OPTION_PATH, \
          .initial = "", \
          .unit = "", \
          .help = "file whose first line is the API key, read for each call", \
          .offset = offsetof(whole, engine.api_key_file)}, \
      {.name = "timeout_ms", \
          .type = CTXP_OPTION_U64, \
          .initial = "20000", \
          .min = 10, \
          .max = 600000, \
          .unit = "ms", \
          .help = "from an event's arrival to the end of the model's reply, waiting for a free call included", \
          .offset = offsetof(whole, engine.timeout_ms)}, \
      {.name = "max_inflight", \
          .type = CTXP_OPTION_U64, \
          .initial = "4", \
          .min = 1, \
          .max = 64, \
          .unit = "calls", \
          .help = "calls of the model at the same time", \
          .offset = offsetof(whole, engine.max_inflight)}, \
  { \
    .name = "aux_recorded", .type = CTXP_OPTION_BOOL, .initial = "false", .unit = "", \
    .help = "ask the model for sessions too that do not wait for an answer, to learn what it would save", \
    .offset = offsetof(whole, engine.aux_recorded) \
  }

/* For `check`: what engine aux needs. */
int ctxp_engine_check(const struct ctxp_engine *engine, struct ctxp_error *err) __attribute__((warn_unused_result));
/* Is the model asked for an event, whose agent waits for an answer or does not? */
bool ctxp_engine_asks(const struct ctxp_engine *engine, bool waits);

struct ctxp_question { /* borrowed for the call */
  const char *system;
  struct ctxp_str user;
  uint64_t max_tokens;
  bool answers; /* as in struct ctxp_model_call */
};
/* In `prepare`. */
int ctxp_engine_call(struct ctxp_stage *stage, const struct ctxp_engine *engine, const struct ctxp_question *question)
    __attribute__((warn_unused_result));
/* In `event`: the reply, with its `aux` events emitted, before what is derived from it; 1: none was asked for. mechanism: bash,
 * amnesia or write. */
int ctxp_engine_reply(struct ctxp_stage *stage, const struct ctxp_engine *engine, const char *mechanism, struct ctxp_model_reply *ret_reply)
    __attribute__((warn_unused_result));
/* A reply without the one code fence around it, and white space. */
struct ctxp_str ctxp_engine_unfence(struct ctxp_str reply);
