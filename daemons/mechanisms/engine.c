#include "mechanisms/engine.h"
#include <errno.h>
#include <strings.h>

const char *const ctxp_engine_kinds[] = {"rules", "aux", NULL};

int ctxp_engine_check(const struct ctxp_engine *engine, struct ctxp_error *err) {
  if (engine->kind != CTXP_ENGINE_AUX) return 0;
  struct ctxp_str url = ctxp_str(engine->url);
  if (!ctxp_str_starts(url, "http://") && !ctxp_str_starts(url, "https://"))
    return ctxp_error_set(
        err, -EINVAL, "'engine: aux' takes a 'url' that begins with http:// or https://, such as http://127.0.0.1:11434/v1");
  if (!engine->model[0]) return ctxp_error_set(err, -EINVAL, "'engine: aux' takes a 'model', its name at the endpoint");
  if (engine->api_key_env[0] && engine->api_key_file[0])
    return ctxp_error_set(err, -EINVAL, "'api_key_env' and 'api_key_file' are both set; a key has one place");
  return 0;
}

bool ctxp_engine_asks(const struct ctxp_engine *engine, bool waits) {
  return engine->kind == CTXP_ENGINE_AUX && (waits || engine->aux_recorded);
}

int ctxp_engine_call(struct ctxp_stage *stage, const struct ctxp_engine *engine, const struct ctxp_question *question) {
  struct ctxp_model_call call = {.url = engine->url,
      .model = engine->model,
      .key_env = engine->api_key_env,
      .key_file = engine->api_key_file,
      .system = ctxp_str(question->system),
      .user = question->user,
      .max_tokens = question->max_tokens,
      .timeout_ms = engine->timeout_ms,
      .max_inflight = engine->max_inflight,
      .answers = question->answers};
  return ctxp_stage_call(stage, &call);
}

static int emit_call(
    struct ctxp_stage *stage, const struct ctxp_engine *engine, const char *mechanism, const struct ctxp_model_reply *reply) {
  static const char *const outcomes[CTXP_MODEL_OUTCOMES] = {"ok", "timeout", "failed", "lost"};
  struct ctxp_event out = {.kind = CTXP_KIND_aux};
  out.aux = (struct ctxp_aux){.mechanism = ctxp_str(mechanism),
      .model = ctxp_str(engine->model),
      .inputTokens = reply->input_tokens,
      .outputTokens = reply->output_tokens,
      .durationMs = reply->duration_ms,
      .outcome = ctxp_str(outcomes[reply->outcome])};
  return ctxp_stage_emit(stage, &out);
}

int ctxp_engine_reply(
    struct ctxp_stage *stage, const struct ctxp_engine *engine, const char *mechanism, struct ctxp_model_reply *ret_reply) {
  int r = ctxp_stage_reply(stage, ret_reply);
  if (r) return r;
  for (uint64_t i = 0; i < ret_reply->lost; i++) { /* the same question each time */
    struct ctxp_model_reply lost = {.outcome = CTXP_MODEL_LOST, .input_tokens = ret_reply->lost_tokens / ret_reply->lost};
    if ((r = emit_call(stage, engine, mechanism, &lost)) < 0) return r;
  }
  return ret_reply->outcome == CTXP_MODEL_LOST ? 0 : emit_call(stage, engine, mechanism, ret_reply);
}

struct ctxp_str ctxp_engine_unfence(struct ctxp_str reply) {
  struct ctxp_str s = ctxp_js_trim(reply);
  if (!ctxp_str_starts(s, "```") || s.len < 6 || !ctxp_str_ends(s, "```")) return s;
  s = (struct ctxp_str){s.ptr + 3, s.len - 6};
  if (s.len >= 4 && strncasecmp(s.ptr, "json", 4) == 0) s = (struct ctxp_str){s.ptr + 4, s.len - 4};
  return ctxp_js_trim(s);
}
