/* A synthetic tree of Claude Code transcripts for the bench: tree FOLDER MEGABYTES SEED. The same seed gives the same bytes.
 *
 * Sizes and shapes follow real projects: a response is one line a content block, each with the same usage; results of shells and
 * reads are long, with a second copy for the agent's own display; sessions of 20 KB to 12 MB, some with sub-agents beside them. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"

struct writer {
  struct ctxp_buf out;
  uint64_t seed, now_ms, cached;
  char cwd[64], session[40], parent[40], agent[20], model[40], message[32], request[32];
};

static uint64_t next(struct writer *w) {
  w->seed ^= w->seed << 13;
  w->seed ^= w->seed >> 7;
  return w->seed ^= w->seed << 17;
}

static unsigned within(struct writer *w, unsigned low, unsigned high) { return low + (unsigned)(next(w) % (high - low + 1)); }
static bool chance(struct writer *w, unsigned percent) { return next(w) % 100 < percent; }

/* log-normal: most are near the median, a few are many times as large */
static size_t sized(struct writer *w, double median, double sigma, size_t low, size_t high) {
  double u = ((double)(next(w) >> 11) + 1) / 9007199254740993.0, v = (double)(next(w) >> 11) / 9007199254740992.0;
  double size = median * exp(sigma * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
  return size < (double)low ? low : size > (double)high ? high :
                                                          (size_t)size;
}

static void random_id(struct writer *w, const char *prefix, char *ret_text, size_t size) {
  static const char digits[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  size_t len = strlen(prefix);
  snprintf(ret_text, size, "%s", prefix);
  for (; len < size - 1 && len < 24; len++) ret_text[len] = digits[next(w) % (sizeof(digits) - 1)];
  ret_text[len] = 0;
}

static void uuid(struct writer *w, char ret_text[40]) {
  uint64_t a = next(w), b = next(w);
  snprintf(ret_text, 40, "%08x-%04x-4%03x-a%03x-%012llx", (unsigned)(a >> 32), (unsigned)(a >> 16) & 0xffff, (unsigned)a & 0xfff,
      (unsigned)(b >> 52), (unsigned long long)(b & 0xffffffffffff));
}

/* words, escaped as they stand in JSON; code: short lines with indents, else paragraphs */
static void words(struct writer *w, size_t bytes, bool code) {
  static const char *const list[] = {"the", "value", "returns", "error", "test", "file", "config", "buffer", "stream", "update", "index",
      "token", "session", "const", "static", "void", "if", "else", "for", "while", "null", "=>", "==", "&&", "();", "0x1f", "src/lib/",
      "retry", "edge", "\\\"quoted\\\"", "path\\\\to", "r\xc3\xa9sum\xc3\xa9", "\xe2\x9c\x93", "\xe2\x86\x92", "\xe6\x97\xa5\xe6\x9c\xac"};
  size_t end = w->out.len + bytes, column = 0, wrap = code ? within(w, 20, 90) : 400;
  while (w->out.len < end) {
    const char *word = list[next(w) % (sizeof(list) / sizeof(list[0]))];
    ctxp_buf_str(&w->out, word);
    column += strlen(word) + 1;
    ctxp_buf_str(&w->out, column > wrap ? (code ? "\\n    " : "\\n") : " ");
    if (column > wrap) column = 0;
  }
}

static void open_line(struct writer *w) {
  ctxp_buf_str(&w->out, "{\"parentUuid\":");
  if (w->parent[0])
    ctxp_buf_printf(&w->out, "\"%s\"", w->parent);
  else
    ctxp_buf_str(&w->out, "null");
  ctxp_buf_printf(&w->out, ",\"isSidechain\":%s,", w->agent[0] ? "true" : "false");
  if (w->agent[0]) ctxp_buf_printf(&w->out, "\"agentId\":\"%s\",", w->agent);
  ctxp_buf_printf(&w->out, "\"userType\":\"external\",\"cwd\":\"%s\",\"sessionId\":\"%s\",\"version\":\"2.1.39\",\"gitBranch\":\"main\",",
      w->cwd, w->session);
}

static void close_line(struct writer *w) {
  char iso[CTXP_ISO_SIZE];
  uuid(w, w->parent);
  ctxp_time_iso(w->now_ms += within(w, 500, 6000), iso);
  ctxp_buf_printf(&w->out, "\"uuid\":\"%s\",\"timestamp\":\"%s\"}\n", w->parent, iso);
}

struct usage {
  unsigned input, write, output;
};

static void block(struct writer *w, const struct usage *u, const char *head, size_t bytes, const char *tail) {
  open_line(w);
  ctxp_buf_printf(&w->out, "\"message\":{\"model\":\"%s\",\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[%s",
      w->model, w->message, head);
  words(w, bytes, false);
  ctxp_buf_printf(&w->out,
      "%s],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":%u,"
      "\"cache_read_input_tokens\":%llu,\"cache_creation\":{\"ephemeral_5m_input_tokens\":%u,\"ephemeral_1h_input_tokens\":0},\"output_"
      "tokens\":%u,"
      "\"service_tier\":\"standard\"}},\"requestId\":\"%s\",\"type\":\"assistant\",",
      tail, u->input, u->write, (unsigned long long)w->cached, u->write, u->output, w->request);
  close_line(w);
}

static const struct tool {
  const char *name, *argument; /* the argument that words are put into, after the path */
  double call, result; /* medians of their sizes */
} tools[] = {
    {"Bash", "\"command\":\"", 90, 900},
    {"Bash", "\"command\":\"", 60, 2500},
    {"Read", "\"limit\":2000,\"note\":\"", 1, 3500},
    {"Read", "\"limit\":400,\"note\":\"", 1, 3000},
    {"Edit", "\"old_string\":\"", 700, 700},
    {"Write", "\"content\":\"", 3000, 120},
    {"Grep", "\"pattern\":\"", 20, 1200},
};

static void tool_round(struct writer *w, const struct usage *u) {
  const struct tool *tool = &tools[next(w) % (sizeof(tools) / sizeof(tools[0]))];
  char id[32], head[256];
  random_id(w, "toolu_01", id, sizeof(id));
  snprintf(head, sizeof(head),
      "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":\"%s\",\"input\":{\"file_path\":\"%s/src/mod%u/file%u.ts\",%s", id, tool->name, w->cwd,
      within(w, 0, 30), within(w, 0, 99), tool->argument);
  block(w, u, head, sized(w, tool->call, 0.9, 1, 50000), "\"}}");
  open_line(w);
  ctxp_buf_printf(&w->out,
      "\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"tool_use_id\":\"%s\",\"type\":\"tool_result\",\"content\":\"", id);
  size_t from = w->out.len;
  words(w, sized(w, tool->result, 1.2, 10, 29000), true);
  size_t len = w->out.len - from;
  ctxp_buf_printf(&w->out, "\",\"is_error\":%s}]},\"toolUseResult\":{\"stdout\":\"", chance(w, 5) ? "true" : "false");
  uint8_t *room = ctxp_buf_room(&w->out, len);
  if (room) memcpy(room, w->out.ptr + from, len), w->out.len += len;
  ctxp_buf_str(&w->out, "\",\"stderr\":\"\",\"interrupted\":false},");
  close_line(w);
}

static void turn(struct writer *w, bool asked) {
  if (asked) {
    open_line(w);
    ctxp_buf_str(&w->out, "\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"");
    words(w, sized(w, 220, 1, 20, 6000), false);
    ctxp_buf_str(&w->out, "\"},");
    close_line(w);
    w->cached = within(w, 8000, 20000);
  }
  random_id(w, "msg_01", w->message, sizeof(w->message));
  random_id(w, "req_011", w->request, sizeof(w->request));
  struct usage u = {within(w, 1, 12), within(w, 100, 4000), within(w, 1, 900)};
  if (chance(w, 45))
    block(w, &u, "{\"type\":\"thinking\",\"signature\":\"c2lnbmF0dXJl\",\"thinking\":\"", sized(w, 600, 0.9, 30, 9000), "\"}");
  if (chance(w, 50)) block(w, &u, "{\"type\":\"text\",\"text\":\"", sized(w, 350, 1, 10, 12000), "\"}");
  tool_round(w, &u);
  w->cached += u.write;
  if (w->cached > 170000) w->cached = 15000;
}

static int write_file(struct writer *w, const char *path, size_t bytes) {
  w->out.len = 0;
  w->parent[0] = 0;
  for (unsigned n = 0; w->out.len < bytes; n++) turn(w, n % 12 == 0);
  ctxp_auto_fclose FILE *file = fopen(path, "w");
  if (!file || w->out.failed || fwrite(w->out.ptr, 1, w->out.len, file) != w->out.len || fflush(file) != 0) {
    fprintf(stderr, "tree: %s: %s\n", path, strerror(errno));
    return -1;
  }
  return 0;
}

static int session(struct writer *w, const char *folder, size_t *written) {
  static const char *const models[] = {"claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"};
  ctxp_auto_buf path = {0};
  uuid(w, w->session);
  w->agent[0] = 0;
  w->now_ms = UINT64_C(1764547200000) + next(w) % UINT64_C(7776000000);
  snprintf(w->model, sizeof(w->model), "%s", models[next(w) % 3]);
  ctxp_buf_printf(&path, "%s/%s.jsonl", folder, w->session);
  if (write_file(w, ctxp_buf_cstr(&path), sized(w, 1.6e6, 0.9, 20000, 12000000)) < 0) return -1;
  *written += w->out.len;
  if (!chance(w, 30)) return 0;
  ctxp_buf_reset(&path);
  ctxp_buf_printf(&path, "%s/%s", folder, w->session);
  mkdir(ctxp_buf_cstr(&path), 0755);
  ctxp_buf_str(&path, "/subagents");
  mkdir(ctxp_buf_cstr(&path), 0755);
  snprintf(w->agent, sizeof(w->agent), "a%06x", (unsigned)next(w) & 0xffffff);
  ctxp_buf_printf(&path, "/agent-%s.jsonl", w->agent);
  if (write_file(w, ctxp_buf_cstr(&path), sized(w, 250000, 0.7, 10000, 2000000)) < 0) return -1;
  *written += w->out.len;
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: tree FOLDER MEGABYTES SEED\n"), 2;
  struct writer w = {.seed = strtoull(argv[3], NULL, 10) * UINT64_C(0x9E3779B97F4A7C15) | 1};
  size_t total = (size_t)strtoull(argv[2], NULL, 10) * 1000000, written = 0;
  ctxp_auto_buf folder = {0};
  mkdir(argv[1], 0755);
  ctxp_buf_printf(&folder, "%s/projects", argv[1]);
  mkdir(ctxp_buf_cstr(&folder), 0755);
  for (unsigned n = 0; written < total; n++) {
    ctxp_buf_reset(&folder);
    ctxp_buf_printf(&folder, "%s/projects/-home-dev-work-project%u", argv[1], n / 8);
    mkdir(ctxp_buf_cstr(&folder), 0755);
    snprintf(w.cwd, sizeof(w.cwd), "/home/dev/work/project%u", n / 8);
    if (session(&w, ctxp_buf_cstr(&folder), &written) < 0) return 1;
  }
  ctxp_buf_deinit(&w.out);
  printf("%zu\n", written);
  return 0;
}
