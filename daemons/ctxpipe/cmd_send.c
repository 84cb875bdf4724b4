#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "codec/json.h"
#include "ctxpipe/client.h"
#include "ctxpipe/commands.h"
#include "ctxpipe/keyfile.h"
#include "ctxpipe/pipeline.h"
#include "ctxpipe/stop.h"
#include "ctxpipe/table.h"

#define LINE_MAX_BYTES (64u << 20)
#define ROUND_MS 500 /* between two looks at whether somebody wants us to stop */

/* An event's number is the count of lines that hold an event, up to its own, and below that a check of their texts: the same lines with
 * the same key are the same events, and other lines with that key are noticed before anything of them is sent. Where the count and the
 * lines' own part is kept, to name the line of an event that the collector refuses. */
#define CHECK_BITS 23
struct part {
  uint64_t seq, line;
};
struct sender {
  struct ctxp_client *client;
  struct part *parts;
  size_t part_count, part_cap;
  const char *key;
  uint64_t chain; /* hash of the events' lines so far */
  uint64_t line, seq, bad, refused, already, answers, missed, ask_ms;
  bool ask;
};

static uint64_t line_of(const struct sender *s, uint64_t seq) {
  size_t i = s->part_count;
  while (i > 1 && s->parts[i - 1].seq > seq) i--;
  return i ? s->parts[i - 1].line + (seq - s->parts[i - 1].seq) : seq;
}

static int note_line(struct sender *s) {
  if (s->part_count && line_of(s, s->seq) == s->line) return 0;
  if (s->part_count == s->part_cap) {
    size_t cap = s->part_cap ? s->part_cap * 2 : 64;
    struct part *grown = realloc(s->parts, cap * sizeof(*grown));
    if (!grown) return -ENOMEM;
    s->parts = grown;
    s->part_cap = cap;
  }
  s->parts[s->part_count++] = (struct part){s->seq, s->line};
  return 0;
}

static void complain(uint64_t line, struct ctxp_str sentence) {
  ctxp_auto_buf text = {0};
  ctxp_buf_printf(&text, "ctxpipe: line %llu: ", (unsigned long long)line);
  ctxp_term_text(&text, sentence);
  ctxp_buf_char(&text, '\n');
  fwrite(text.ptr, 1, text.len, stderr);
}

static void on_refused(void *data, uint64_t seq, struct ctxp_str kind, struct ctxp_str field, struct ctxp_str reason) {
  struct sender *s = data;
  ctxp_auto_buf text = {0};
  s->refused++;
  ctxp_buf_printf(&text, "refused by the collector: %.*s%s%.*s: %.*s", (int)kind.len, kind.ptr, field.len ? "." : "", (int)field.len,
      field.ptr, (int)reason.len, reason.ptr);
  complain(line_of(s, seq >> CHECK_BITS), ctxp_buf_view(&text));
}

/* ---- one line ---- */
static uint64_t number(const struct sender *s) { return s->seq << CHECK_BITS | (s->chain & ((UINT64_C(1) << CHECK_BITS) - 1)); }

static int ask(struct sender *s, const struct ctxp_event *event, struct ctxp_error *err) {
  struct ctxp_raw answer;
  ctxp_auto_buf out = {0};
  int r = ctxp_client_number(s->client, number(s), err);
  if (r == 0) r = ctxp_client_ask(s->client, event, (int)s->ask_ms, &answer, err);
  if (r < 0) return r;
  s->answers += r == 0;
  s->missed += r > 0;
  ctxp_buf_printf(&out, "{\"line\":%llu,\"answer\":", (unsigned long long)s->line);
  if (r == 0)
    r = ctxp_json_from_raw(answer, &out);
  else
    ctxp_buf_str(&out, "null");
  ctxp_buf_str(&out, "}\n");
  fwrite(out.ptr, 1, out.len, stdout);
  fflush(stdout);
  return r < 0 ? r : 0;
}

static bool is_ask(const struct ctxp_event *event) {
  return (event->kind == CTXP_KIND_tool_result && event->tool_result.ask) || (event->kind == CTXP_KIND_context && event->context.ask);
}

static int send_event(struct sender *s, const struct ctxp_event *event, struct ctxp_error *err) {
  if (s->ask && is_ask(event)) return ask(s, event, err);
  for (;;) {
    int r = ctxp_client_send(s->client, event, number(s), ROUND_MS, err);
    if (r <= 0) return r;
    if (ctxp_stop) return ctxp_error_set(err, -EINTR, "stopped; what was not acknowledged was not sent for good");
  }
}

static int other_input(const struct sender *s, uint64_t position, struct ctxp_error *err) {
  uint64_t before = position >> CHECK_BITS;
  return ctxp_error_set(err, -EEXIST,
      "key '%s' has sent %llu events before, and this input %s; nothing of it was sent: name another --key", s->key,
      (unsigned long long)before, s->seq < before ? "is shorter" : "does not begin with them");
}

static int send_line(struct sender *s, struct ctxp_str line, uint64_t position, struct ctxp_error *err) {
  ctxp_auto_buf body = {0};
  struct ctxp_event event;
  struct ctxp_fault fault;
  struct ctxp_error why;
  s->line++;
  if (ctxp_str_blank(line)) return 0;
  int r = ctxp_json_to_event(line, &body, &why);
  if (r == 0 && (r = ctxp_event_decode(body.ptr, body.len, &event, NULL, &fault)) < 0)
    ctxp_error_set(&why, r, "%s: %s", fault.field, fault.reason);
  if (r < 0) {
    s->bad++;
    complain(s->line, ctxp_str(why.text));
    return 0;
  }
  s->seq++;
  s->chain = ctxp_hash64(line.ptr, line.len, s->chain ^ line.len);
  if (note_line(s) < 0) return ctxp_error_set(err, -ENOMEM, "out of memory");
  if (s->seq <= position >> CHECK_BITS) {
    s->already++;
    return s->seq == position >> CHECK_BITS && number(s) != position ? other_input(s, position, err) : 0;
  }
  r = send_event(s, &event, &why);
  if (r == -EINVAL || r == -EMSGSIZE) {
    s->bad++;
    complain(s->line, ctxp_str(why.text));
    return 0;
  }
  return r < 0 ? ctxp_error_set(err, r, "%s", why.text) : 0;
}

static int send_all(struct sender *s, FILE *in, uint64_t position, struct ctxp_error *err) {
  char *line = NULL;
  size_t cap = 0;
  ssize_t len = 0;
  int r = 0;
  while (r == 0 && !ctxp_stop && (len = getline(&line, &cap, in)) >= 0) {
    if ((size_t)len > LINE_MAX_BYTES) {
      s->line++;
      s->bad++;
      complain(s->line, CTXP_STR("longer than 64 MiB; cut texts, and say the full length in textUnits"));
      continue;
    }
    while (len && (line[len - 1] == '\n' || line[len - 1] == '\r')) len--;
    r = send_line(s, (struct ctxp_str){line, (size_t)len}, position, err);
  }
  if (r == 0 && !ctxp_stop && !ferror(in) && s->seq < position >> CHECK_BITS) r = other_input(s, position, err);
  if (r == 0 && ferror(in) && !ctxp_stop) r = ctxp_error_set(err, -EIO, "could not read standard input: %s", strerror(errno));
  free(line);
  return r;
}

/* ---- the whole ---- */
static int wait_for(struct sender *s, struct ctxp_error *err) {
  for (;;) {
    int r = ctxp_client_flush(s->client, ROUND_MS, err);
    if (r <= 0) return r;
    if (ctxp_stop) return ctxp_error_set(err, -EINTR, "stopped before everything was acknowledged");
  }
}

static int greet(struct sender *s, bool far, bool keys, uint64_t *ret_position, struct ctxp_error *err) {
  int r = ctxp_client_hello(s->client, 10000, ret_position, err);
  if (r <= 0) return r;
  if (far)
    return ctxp_error_set(err, -ETIMEDOUT, "no answer; no collector listens there%s", keys ? "" : ", or it wants keys ('--keys FILE')");
  return ctxp_error_set(err, -ETIMEDOUT, "the collector does not answer; 'ctxpipe status' and 'ctxpipe logs collector' say why");
}

static int talk(const struct ctxp_args *args, const char *endpoint, struct sender *s, struct ctxp_error *err) {
  const char *keys_file = ctxp_args_get(args, "keys");
  struct ctxp_client_keys keys = {0};
  struct ctxp_error why;
  const char *key = ctxp_args_get(args, "key"), *agent = ctxp_args_get(args, "agent"), *product = ctxp_args_get(args, "product");
  ctxp_auto_buf own = {0};
  uint64_t position = 0;
  ctxp_buf_printf(&own, "send/%d/%llu", (int)getpid(), (unsigned long long)ctxp_clock_utc_ms());
  s->key = key ? key : ctxp_buf_cstr(&own);
  struct ctxp_client_options options = {.endpoint = endpoint,
      .key = s->key,
      .agent = agent ? agent : "send",
      .product = product ? product : "send",
      .server_key = keys_file ? keys.server : NULL,
      .public_key = keys_file ? keys.public : NULL,
      .secret_key = keys_file ? keys.secret : NULL,
      .refused = on_refused,
      .data = s};
  int r = keys_file ? ctxp_keyfile_read_client(keys_file, &keys, err) : 0;
  if (r == 0) r = ctxp_client_new(&options, &s->client, err);
  explicit_bzero(&keys, sizeof(keys));
  if (r == 0 && (r = greet(s, ctxp_args_has(args, "to"), keys_file != NULL, &position, &why)) < 0)
    r = ctxp_error_set(err, r, "%s: %s", endpoint, why.text);
  if (r == 0) r = send_all(s, stdin, position, err);
  if (r == 0) r = wait_for(s, err);
  return r;
}

static void print_counts(const struct sender *s, const struct ctxp_client_counts *counts) {
  ctxp_auto_buf line = {0};
  uint64_t taken = counts->acked > s->refused ? counts->acked - s->refused : 0; /* what is refused is acknowledged too */
  ctxp_put_counted(&line, s->line, "line");
  ctxp_buf_str(&line, ": ");
  ctxp_put_counted(&line, counts->sent, "event");
  ctxp_buf_printf(&line, " sent, %llu acknowledged", (unsigned long long)taken);
  if (s->already) ctxp_buf_printf(&line, ", %llu there already", (unsigned long long)s->already);
  if (s->answers || s->missed) {
    ctxp_buf_str(&line, ", ");
    ctxp_put_counted(&line, s->answers, "answer");
    ctxp_buf_printf(&line, ", %llu missed", (unsigned long long)s->missed);
  }
  fprintf(stderr, "%s, %llu refused\n", ctxp_buf_cstr(&line), (unsigned long long)s->bad + (unsigned long long)s->refused);
}

static int talk_to_pipeline(const struct ctxp_args *args, struct sender *s, struct ctxp_error *err) {
  struct ctxp_pipeline pipeline;
  const char *to = ctxp_args_get(args, "to");
  if (to) return talk(args, to, s, err);
  int r = ctxp_pipeline_find(args, &pipeline, err);
  if (r < 0) return r;
  const struct ctxp_node_config *collector = ctxp_pipeline_node(pipeline.config, CTXP_ROLE_COLLECTOR_NODE);
  r = collector ? talk(args, collector->ingest[0], s, err) : ctxp_error_set(err, -ENOENT, "the topology has no collector");
  ctxp_pipeline_deinit(&pipeline);
  return r;
}

static int run(const struct ctxp_args *args) {
  struct ctxp_error err;
  struct ctxp_client_counts counts = {0};
  struct sender s = {.ask = ctxp_args_has(args, "ask")};
  int r = ctxp_args_number(args, "timeout", 1, 3600000, 30000, &s.ask_ms, &err);
  if (r == 0 && ctxp_args_has(args, "keys") && !ctxp_args_has(args, "to"))
    r = ctxp_error_set(&err, -EINVAL, "send: '--keys' goes with '--to tcp://HOST:PORT'; a pipeline on this machine needs none");
  if (r < 0) return ctxp_command_misuse(&err);
  ctxp_stop_on_signals();
  r = talk_to_pipeline(args, &s, &err);
  if (s.client) ctxp_client_counts(s.client, &counts);
  ctxp_client_free(s.client);
  if (s.line && r != -EEXIST) print_counts(&s, &counts);
  free(s.parts);
  return r < 0 ? ctxp_command_fail(&err) : s.bad || s.refused || s.missed || ctxp_stop ? 1 :
                                                                                         0;
}

static const struct ctxp_flag flags[] = {
    CTXP_PIPELINE_FLAGS,
    {.name = "agent", .value = "NAME", .help = "agent of events that name none (default: send)"},
    {.name = "product", .value = "NAME", .help = "product of the sender, as pi or claude-code (default: send)"},
    {.name = "key",
        .value = "KEY",
        .help =
            "who sends, across runs: lines that this key has sent before are not sent again; they must stand first (default: a new one)"},
    {.name = "to", .value = "ENDPOINT", .help = "a collector elsewhere, as tcp://HOST:PORT, instead of the pipeline on this machine"},
    {.name = "keys", .value = "FILE", .help = "the keys for it, as 'ctxpipe keys' made them"},
    {.name = "ask", .help = "wait for the answer of each event with \"ask\":true, and print it"},
    {.name = "timeout", .value = "MS", .help = "how long to wait for an answer (default 30000)"},
    {.name = NULL},
};
const struct ctxp_command ctxp_cmd_send = {
    .name = "send",
    .summary = "send events, one JSON object a line, from standard input",
    .operands = "",
    .flags = flags,
    .example = "echo '{\"kind\":\"session_start\",\"session\":\"s1\",\"product\":\"by-hand\"}' | ctxpipe send --agent me",
    .run = run,
    .details = "Every event is acknowledged before the command ends. A line that is no event, or that the collector refuses, is named with "
               "its number and\n"
               "the field that is wrong; the others are sent, and the exit code is 1.\n"
               "With --key, input that does not begin with what the key has sent before is refused as a whole.",
};
