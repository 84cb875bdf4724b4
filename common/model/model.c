#include "model/model.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/curl_lib.h"
#include "model/reply.h"
#include "tokens/estimate.h"
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

#define EVENTS 16
#define KEY_MAX 4096 /* bytes of an API key */

struct transfer {
  struct transfer *next;
  struct ctxp_model *model;
  uint64_t id, started_ms, deadline_ms, estimate;
  CURL *easy;
  struct curl_slist *headers;
  struct ctxp_buf request, body, text;
  char curl_says[CURL_ERROR_SIZE];
  struct ctxp_error why;
  bool too_large, ended;
  struct ctxp_model_reply reply;
};
struct ctxp_model {
  struct ctxp_curl curl;
  CURLM *multi;
  int epoll;
  bool global; /* curl as a whole is set up */
  uint64_t timer_ms; /* when curl wants to be called; UINT64_MAX: not by itself */
  struct transfer *transfers, *taken; /* taken: the one that is borrowed */
};

uint64_t ctxp_model_input_estimate(const struct ctxp_model_call *call) {
  return ctxp_chars4(ctxp_utf16_units(call->system) + ctxp_utf16_units(call->user));
}

static void free_transfer(struct transfer *t) {
  if (!t) return;
  const struct ctxp_curl *curl = &t->model->curl;
  if (t->easy) {
    curl->multi_remove_handle(t->model->multi, t->easy);
    curl->easy_cleanup(t->easy);
  }
  curl->slist_free_all(t->headers);
  if (t->request.ptr) explicit_bzero(t->request.ptr, t->request.len);
  ctxp_buf_deinit(&t->request);
  ctxp_buf_deinit(&t->body);
  ctxp_buf_deinit(&t->text);
  free(t);
}

/* ---- curl's hooks ---- */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *known) {
  struct ctxp_model *model = data;
  struct epoll_event event = {
      .events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u), .data = {.fd = fd}};
  (void)easy, (void)known;
  if (what == CURL_POLL_REMOVE) {
    epoll_ctl(model->epoll, EPOLL_CTL_DEL, fd, NULL); /* it may be closed already */
    return 0;
  }
  if (epoll_ctl(model->epoll, EPOLL_CTL_MOD, fd, &event) == 0) return 0;
  return epoll_ctl(model->epoll, EPOLL_CTL_ADD, fd, &event); /* failed: the call ends at its deadline */
}

static int on_timer(CURLM *multi, long timeout_ms, void *data) {
  struct ctxp_model *model = data;
  (void)multi;
  model->timer_ms = timeout_ms < 0 ? UINT64_MAX : ctxp_clock_ms() + (uint64_t)timeout_ms;
  return 0;
}

static size_t on_body(char *bytes, size_t one, size_t len, void *data) {
  struct transfer *t = data;
  (void)one;
  t->too_large = t->body.len + len > CTXP_MODEL_REPLY_MAX;
  if (t->too_large) return CURL_WRITEFUNC_ERROR;
  ctxp_buf_add(&t->body, bytes, len);
  return t->body.failed ? CURL_WRITEFUNC_ERROR : len;
}

/* ---- the key ---- */
static int read_key_file(const char *path, char key[KEY_MAX], struct ctxp_error *why) {
  FILE *file = fopen(path, "re");
  if (!file) return ctxp_error_set(why, -errno, "cannot read api_key_file %s: %s", path, strerror(errno));
  bool got = fgets(key, KEY_MAX, file) && key[0] != '\n' && key[0] != '\r';
  fclose(file);
  return got ? 0 : ctxp_error_set(why, -ENODATA, "the first line of api_key_file %s is empty", path);
}

/* the key, "" where none is asked for; a key is one line of printable ASCII, so that it cannot add headers */
static int read_key(const struct ctxp_model_call *call, char key[KEY_MAX], struct ctxp_error *why) {
  key[0] = 0;
  if (call->key_env && call->key_env[0]) {
    const char *value = getenv(call->key_env);
    if (!value || !value[0])
      return ctxp_error_set(why, -ENODATA, "api_key_env names %s, which is not set in the environment of the pipeline", call->key_env);
    snprintf(key, KEY_MAX, "%s", value); /* one that is cut is as long as there is room, and refused */
  } else if (call->key_file && call->key_file[0]) {
    int r = read_key_file(call->key_file, key, why);
    if (r < 0) return r;
  }
  if (strlen(key) == KEY_MAX - 1) return ctxp_error_set(why, -EINVAL, "the API key is longer than %d bytes", KEY_MAX - 2);
  key[strcspn(key, "\r\n")] = 0;
  for (const char *c = key; *c; c++)
    if (*c <= ' ' || *c > '~') return ctxp_error_set(why, -EINVAL, "the API key is not one word of ASCII");
  return 0;
}

/* ---- making a request ---- */
static int add_header(struct transfer *t, const char *line) {
  struct curl_slist *longer = t->model->curl.slist_append(t->headers, line);
  if (!longer) return -ENOMEM;
  t->headers = longer;
  return 0;
}

static int set_headers(struct transfer *t, const struct ctxp_model_call *call) {
  char key[KEY_MAX], line[KEY_MAX + 64];
  int r = read_key(call, key, &t->why);
  if (r < 0) return r;
  r = add_header(t, "Content-Type: application/json");
  if (r == 0) r = add_header(t, "Accept: application/json, text/event-stream");
  if (r == 0) r = add_header(t, "Expect:"); /* no pause before a long body */
  if (r == 0 && key[0]) {
    snprintf(line, sizeof(line), "Authorization: Bearer %s", key);
    r = add_header(t, line);
    explicit_bzero(line, sizeof(line));
  }
  explicit_bzero(key, sizeof(key));
  return r;
}

static int set_up(struct transfer *t, const struct ctxp_model_call *call, uint64_t now_ms) {
  const struct ctxp_curl *curl = &t->model->curl;
  ctxp_auto_buf url = {0};
  struct ctxp_str base = ctxp_str(call->url);
  while (base.len && base.ptr[base.len - 1] == '/') base.len--;
  ctxp_buf_printf(&url, "%.*s/chat/completions", (int)base.len, base.ptr);
  ctxp_model_write(&t->request, call);
  t->easy = curl->easy_init();
  if (!t->easy || url.failed || t->request.failed) return -ENOMEM;
  int r = set_headers(t, call);
  if (r < 0) return r;
  CURL *e = t->easy;
  uint64_t left = t->deadline_ms > now_ms ? t->deadline_ms - now_ms : 1;
  CURLcode code = curl->easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_URL, ctxp_buf_cstr(&url));
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->request.len);
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_POSTFIELDS, ctxp_buf_cstr(&t->request));
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_WRITEDATA, t);
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
  /* on a connection that was used before, curl would send a request again by itself: each call is made once */
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)left);
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_ERRORBUFFER, t->curl_says);
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_USERAGENT, "ctxpipe");
  if (code == CURLE_OK) code = curl->easy_setopt(e, CURLOPT_PRIVATE, t);
  if (code != CURLE_OK) return ctxp_error_set(&t->why, -EINVAL, "the call cannot be made: %s", curl->easy_strerror(code));
  CURLMcode added = curl->multi_add_handle(t->model->multi, e);
  return added == CURLM_OK ? 0 : ctxp_error_set(&t->why, -EINVAL, "the call cannot be made: %s", curl->multi_strerror(added));
}

int ctxp_model_start(
    struct ctxp_model *model, uint64_t id, const struct ctxp_model_call *call, uint64_t now_ms, uint64_t deadline_ms) {
  struct transfer *t = calloc(1, sizeof(*t));
  if (!t) return -ENOMEM;
  *t = (struct transfer){.model = model,
      .id = id,
      .started_ms = now_ms,
      .deadline_ms = deadline_ms,
      .estimate = ctxp_model_input_estimate(call),
      .next = model->transfers};
  int r = set_up(t, call, now_ms);
  if (r == -ENOMEM) {
    free_transfer(t);
    return r;
  }
  model->transfers = t;
  t->ended = r < 0; /* nothing was sent */
  if (r < 0) t->reply = (struct ctxp_model_reply){.outcome = CTXP_MODEL_FAILED, .why = ctxp_str(t->why.text)};
  return 0;
}

/* ---- ending ---- */
static void read_answer(struct transfer *t) {
  struct ctxp_model_answer answer;
  if (ctxp_model_read(ctxp_buf_view(&t->body), &t->text, &answer) < 0) answer = (struct ctxp_model_answer){.why = "out of memory"};
  struct ctxp_str text = ctxp_buf_view(&t->text);
  t->reply.outcome = answer.good ? CTXP_MODEL_OK : CTXP_MODEL_FAILED;
  t->reply.text = text;
  t->reply.why = ctxp_str(answer.why);
  t->reply.input_tokens = answer.has_input ? answer.input_tokens : t->estimate;
  t->reply.output_tokens = answer.has_output ? answer.output_tokens : answer.text_tokens;
}

/* What a failed call cost is known where something was reported; a request that was turned away or never left cost nothing, one
 * that ran out of time or was cut off is taken to have been read. */
static void read_failure(struct transfer *t, CURLcode code, long status) {
  curl_off_t sent = 0;
  t->model->curl.easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
  bool late = code == CURLE_OPERATION_TIMEDOUT;
  t->reply.outcome = late ? CTXP_MODEL_TIMEOUT : CTXP_MODEL_FAILED;
  if (late)
    ctxp_error_write(&t->why, "no complete reply in time");
  else if (t->too_large)
    ctxp_error_write(&t->why, "the reply is larger than %u bytes", CTXP_MODEL_REPLY_MAX);
  else if (code != CURLE_OK)
    ctxp_error_write(&t->why, "%s", t->curl_says[0] ? t->curl_says : t->model->curl.easy_strerror(code));
  else
    ctxp_error_write(&t->why, "the endpoint answered with status %ld", status);
  t->reply.why = ctxp_str(t->why.text);
  if (code != CURLE_OK && (size_t)sent >= t->request.len) t->reply.input_tokens = t->estimate;
}

static void end(struct transfer *t, CURLcode code) {
  long status = 0;
  uint64_t now = ctxp_clock_ms();
  t->model->curl.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  if (code == CURLE_OK && status == 200)
    read_answer(t);
  else
    read_failure(t, code, status);
  t->reply.duration_ms = now > t->started_ms ? now - t->started_ms : 0;
  t->ended = true;
}

static void collect(struct ctxp_model *model) {
  CURLMsg *message;
  int left;
  while ((message = model->curl.multi_info_read(model->multi, &left)) != NULL) {
    struct transfer *t = NULL;
    CURLcode code = message->data.result;
    if (message->msg != CURLMSG_DONE) continue;
    model->curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&t);
    if (t && !t->ended) end(t, code);
  }
}

uint64_t ctxp_model_work(struct ctxp_model *model, uint64_t now_ms) {
  struct epoll_event events[EVENTS];
  int running, count = epoll_wait(model->epoll, events, EVENTS, 0);
  uint64_t next = UINT64_MAX;
  for (int i = 0; i < count; i++) {
    int mask = (events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
        (events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    model->curl.multi_socket_action(model->multi, events[i].data.fd, mask, &running);
  }
  if (now_ms >= model->timer_ms) {
    model->timer_ms = UINT64_MAX;
    model->curl.multi_socket_action(model->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  }
  collect(model);
  for (struct transfer *t = model->transfers; t; t = t->next) {
    if (!t->ended && now_ms >= t->deadline_ms) end(t, CURLE_OPERATION_TIMEDOUT); /* should curl not have seen to it */
    if (t->ended) next = now_ms;
    if (t->deadline_ms < next) next = t->deadline_ms;
  }
  return model->timer_ms < next ? model->timer_ms : next;
}

bool ctxp_model_take(struct ctxp_model *model, uint64_t *ret_id, struct ctxp_model_reply *ret_reply) {
  free_transfer(model->taken);
  model->taken = NULL;
  for (struct transfer **at = &model->transfers; *at; at = &(*at)->next) {
    struct transfer *t = *at;
    if (!t->ended) continue;
    *at = t->next;
    model->taken = t;
    *ret_id = t->id;
    *ret_reply = t->reply;
    return true;
  }
  return false;
}

int ctxp_model_fd(const struct ctxp_model *model) { return model->epoll; }

struct ctxp_model *ctxp_model_free(struct ctxp_model *model) {
  if (!model) return NULL;
  free_transfer(model->taken);
  for (struct transfer *t = model->transfers, *next; t; t = next) {
    next = t->next;
    free_transfer(t);
  }
  if (model->multi) model->curl.multi_cleanup(model->multi);
  if (model->epoll >= 0) close(model->epoll);
  if (model->global) model->curl.global_cleanup();
  free(model);
  return NULL;
}

static bool set_up_multi(struct ctxp_model *model) {
  model->epoll = epoll_create1(EPOLL_CLOEXEC);
  model->global = model->curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  model->multi = model->global ? model->curl.multi_init() : NULL;
  return model->epoll >= 0 && model->multi && model->curl.multi_setopt(model->multi, CURLMOPT_SOCKETFUNCTION, on_socket) == CURLM_OK &&
      model->curl.multi_setopt(model->multi, CURLMOPT_SOCKETDATA, model) == CURLM_OK &&
      model->curl.multi_setopt(model->multi, CURLMOPT_TIMERFUNCTION, on_timer) == CURLM_OK &&
      model->curl.multi_setopt(model->multi, CURLMOPT_TIMERDATA, model) == CURLM_OK;
}

struct ctxp_model *ctxp_model_new(struct ctxp_error *err) {
  struct ctxp_model *model = calloc(1, sizeof(*model));
  if (!model) {
    ctxp_error_set(err, -ENOMEM, "out of memory for the calls of models");
    return NULL;
  }
  model->timer_ms = UINT64_MAX;
  model->epoll = -1;
  if (ctxp_curl_load(&model->curl, err) < 0) return ctxp_model_free(model);
  if (set_up_multi(model)) return model;
  ctxp_error_set(err, -ENOMEM, "out of memory or descriptors for the calls of models");
  return ctxp_model_free(model);
}
