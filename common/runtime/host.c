/* A stage and its services. The host brings the vtable; defaults that every host would repeat (the window and time of an emitted
 * event, options and prices of a topology event) are here. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/str.h"
#include "codec/msgpack.h"
#include "codec/tools.h"
#include "config/prices.h"
#include "config/topology.h"
#include "runtime/host.h"

struct ctxp_stage {
  const struct ctxp_stage_ops *ops;
  char *node;
  void *state, *options;
  struct ctxp_buf option_texts;
  struct ctxp_prices *prices;
  const struct ctxp_event *in_hand; /* NULL outside of a delivery */
  bool preparing;
  const struct ctxp_host_ops *host;
  void *data;
  bool opened;
};

/* what the interface leaves to the stage's author, checked once so that no call through the vtable can be into nothing */
static int check_ops(const struct ctxp_stage_ops *ops, struct ctxp_error *err) {
  if (ops->api != CTXP_STAGE_API)
    return ctxp_error_set(err, -EINVAL, "stage '%s' was built for version %u of the stage interface, this is version %d", ops->name,
        ops->api, CTXP_STAGE_API);
  const char *missing = !ops->name ? "name" :
      !ops->summary                ? "summary" :
      !ops->open                   ? "open" :
      !ops->event                  ? "event" :
      !ops->save                   ? "save" :
      !ops->close                  ? "close" :
                                     NULL;
  if (missing) return ctxp_error_set(err, -EINVAL, "stage '%s' lacks its '%s'", ops->name ? ops->name : "?", missing);
  return 0;
}

int ctxp_stage_new(const struct ctxp_stage_ops *ops, const char *node, struct ctxp_raw options, const struct ctxp_host_ops *host,
    void *data, struct ctxp_stage **ret_stage, struct ctxp_error *err) {
  int r = check_ops(ops, err);
  if (r < 0) return r;
  struct ctxp_stage *stage = calloc(1, sizeof(*stage));
  if (!stage) return ctxp_error_set(err, -ENOMEM, "out of memory for node '%s'", node);
  *stage = (struct ctxp_stage){.ops = ops, .host = host, .data = data};
  stage->node = ctxp_str_dup(ctxp_str(node));
  stage->state = calloc(1, ops->state_size ? ops->state_size : 1);
  stage->options = calloc(1, ops->options_size ? ops->options_size : 1);
  r = !stage->node || !stage->state || !stage->options ?
      ctxp_error_set(err, -ENOMEM, "out of memory for node '%s'", node) :
      ctxp_options_fill(ops->options, options, stage->options, &stage->option_texts, err);
  if (r == 0 && ops->check) r = ops->check(stage->options, err);
  if (r < 0) {
    ctxp_stage_free(stage);
    return r;
  }
  *ret_stage = stage;
  return 0;
}

int ctxp_stage_open(struct ctxp_stage *stage, struct ctxp_error *err) {
  stage->opened = true; /* close takes half-opened state too */
  return stage->ops->open(stage, err);
}

/* the entry of this node: a mechanism's, or the fold's */
static bool entry_of(const struct ctxp_stage *stage, const struct ctxp_topology *topology, struct ctxp_derivation *ret) {
  struct ctxp_list list = topology->mechanisms;
  while (ctxp_list_next(&list, &ctxp_shape_derivation, ret) > 0)
    if (ctxp_str_is(ret->node, stage->node)) return true;
  *ret = topology->fold;
  return ctxp_has(topology, topology, fold) && ctxp_str_is(ret->node, stage->node);
}

static int apply_topology(struct ctxp_stage *stage, const struct ctxp_topology *topology) {
  struct ctxp_derivation entry;
  struct ctxp_prices *prices = NULL;
  struct ctxp_error err;
  /* an empty map: the topology names no price table */
  int r = ctxp_map_get(topology->prices, "models").len ? ctxp_prices_decode(topology->prices, &prices) : 0;
  if (r < 0) return r;
  ctxp_prices_free(stage->prices);
  stage->prices = prices;
  if (!entry_of(stage, topology, &entry)) return 0;
  r = ctxp_options_fill(stage->ops->options, entry.options, stage->options, &stage->option_texts, &err);
  if (r < 0) stage->host->refuse(stage->data, err.text);
  return r;
}

int ctxp_stage_configure(struct ctxp_stage *stage, const struct ctxp_event *topology) { return apply_topology(stage, &topology->topology); }

static bool consumes(const struct ctxp_stage *stage, const struct ctxp_event *event) {
  return ctxp_topic_consumed(ctxp_topic_of(event), stage->ops->consumes);
}

int ctxp_stage_deliver(struct ctxp_stage *stage, const struct ctxp_event *event) {
  if (event->kind == CTXP_KIND_topology) {
    int r = apply_topology(stage, &event->topology);
    if (r < 0) return r;
  }
  if (!consumes(stage, event)) return 0;
  stage->in_hand = event;
  int r = stage->ops->event(stage, event);
  stage->in_hand = NULL;
  return r;
}

int ctxp_stage_prepare(struct ctxp_stage *stage, const struct ctxp_event *event) {
  if (!stage->ops->prepare || !consumes(stage, event)) return 0;
  stage->in_hand = event;
  stage->preparing = true;
  int r = stage->ops->prepare(stage, event);
  stage->preparing = false;
  stage->in_hand = NULL;
  return r;
}

int ctxp_stage_save(struct ctxp_stage *stage) { return stage->ops->save(stage); }

int ctxp_stage_query(struct ctxp_stage *stage, struct ctxp_raw query, struct ctxp_buf *reply, struct ctxp_error *err) {
  if (!stage->ops->query) return ctxp_error_set(err, -ENOENT, "node '%s' (%s) answers no queries", stage->node, stage->ops->name);
  return stage->ops->query(stage, query, reply, err);
}

const struct ctxp_stage_ops *ctxp_stage_ops(const struct ctxp_stage *stage) { return stage->ops; }

struct ctxp_stage *ctxp_stage_free(struct ctxp_stage *stage) {
  if (!stage) return NULL;
  if (stage->opened) stage->ops->close(stage);
  ctxp_prices_free(stage->prices);
  ctxp_buf_deinit(&stage->option_texts);
  free(stage->options);
  free(stage->state);
  free(stage->node);
  free(stage);
  return NULL;
}

/* ---- services ---- */
void *ctxp_stage_state(struct ctxp_stage *stage) { return stage->state; }
const void *ctxp_stage_options(const struct ctxp_stage *stage) { return stage->options; }
const struct ctxp_prices *ctxp_stage_prices(const struct ctxp_stage *stage) { return stage->prices; }
const char *ctxp_stage_node(const struct ctxp_stage *stage) { return stage->node; }

int ctxp_stage_emit(struct ctxp_stage *stage, struct ctxp_event *ev) {
  const struct ctxp_event *by = stage->in_hand;
  if (!by) return -EINVAL; /* what no event caused would have no place in the order */
  ev->cause = by->cause ? by->cause : by->seq;
  if (!ev->ts_ms) ev->ts_ms = by->ts_ms;
  if (!ev->agent.len && !ev->session.len && !ev->thread.len) {
    ev->agent = by->agent;
    ev->session = by->session;
    ev->thread = by->thread;
  }
  return stage->host->emit(stage->data, ev);
}

int ctxp_stage_answer(struct ctxp_stage *stage, struct ctxp_raw actions) {
  return stage->in_hand ? stage->host->answer(stage->data, stage->in_hand->seq, actions) : -EINVAL;
}

int ctxp_stage_call(struct ctxp_stage *stage, const struct ctxp_model_call *call) {
  if (!stage->preparing) return -EINVAL;
  return stage->host->call ? stage->host->call(stage->data, stage->in_hand, call) : 0;
}
int ctxp_stage_reply(struct ctxp_stage *stage, struct ctxp_model_reply *ret_reply) {
  if (!stage->in_hand || stage->preparing) return -EINVAL;
  return stage->host->reply ? stage->host->reply(stage->data, stage->in_hand, ret_reply) : 1;
}

int ctxp_stage_put(struct ctxp_stage *stage, struct ctxp_raw key, struct ctxp_raw value) {
  return stage->host->put(stage->data, key, value);
}
int ctxp_stage_del(struct ctxp_stage *stage, struct ctxp_raw key) { return stage->host->del(stage->data, key); }
int ctxp_stage_get(struct ctxp_stage *stage, struct ctxp_raw key, struct ctxp_raw *ret_value) {
  return stage->host->get(stage->data, key, ret_value);
}
int ctxp_stage_each(struct ctxp_stage *stage, struct ctxp_raw prefix, int (*visit)(void *, struct ctxp_raw, struct ctxp_raw), void *data) {
  return stage->host->each(stage->data, prefix, visit, data);
}

void ctxp_stage_refuse(struct ctxp_stage *stage, const char *format, ...) {
  char sentence[CTXP_ERROR_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(sentence, sizeof(sentence), format, args);
  va_end(args);
  stage->host->refuse(stage->data, sentence);
}
