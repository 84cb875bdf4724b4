#include "ctxpipe/progress.h"
#include <unistd.h>
#include "base/clock.h"

#define PLAIN_EVERY_MS 2000
#define BAR 24

static void put_bar(const struct ctxp_import_progress *progress, const struct ctxp_style *style, struct ctxp_buf *out) {
  unsigned done = progress->bytes_total ? (unsigned)((double)progress->bytes_done / (double)progress->bytes_total * BAR) : BAR;
  if (done > BAR) done = BAR; /* a file may grow while it is read */
  for (unsigned i = 0; i < BAR; i++) ctxp_buf_str(out, i < done ? (style->utf8 ? "█" : "#") : (style->utf8 ? "░" : "."));
}

void ctxp_progress_line(
    const struct ctxp_import_progress *progress, uint64_t elapsed_ms, const struct ctxp_style *style, struct ctxp_buf *out) {
  uint64_t rate = elapsed_ms >= 100 ? progress->bytes_done * 1000 / elapsed_ms : 0;
  uint64_t left = progress->bytes_total > progress->bytes_done ? progress->bytes_total - progress->bytes_done : 0;
  if (style->columns) {
    put_bar(progress, style, out);
    ctxp_buf_char(out, ' ');
  }
  ctxp_put_bytes(out, progress->bytes_done);
  ctxp_buf_str(out, " of ");
  ctxp_put_bytes(out, progress->bytes_total);
  ctxp_buf_printf(out, ", %llu of ", (unsigned long long)progress->files_done);
  ctxp_put_counted(out, progress->files_total, "file");
  ctxp_buf_str(out, ", ");
  ctxp_put_counted(out, progress->events, "event");
  if (!rate) return;
  ctxp_buf_str(out, ", ");
  ctxp_put_bytes(out, rate);
  ctxp_buf_str(out, "/s");
  if (!left) return;
  ctxp_buf_str(out, ", ");
  ctxp_put_duration(out, left * 1000 / rate + 999);
  ctxp_buf_str(out, " left");
}

void ctxp_progress_begin(struct ctxp_progress *p) {
  *p = (struct ctxp_progress){.style = ctxp_style_of(stderr), .begun_ms = ctxp_clock_ms()};
  p->shown_ms = p->begun_ms;
}

void ctxp_progress_show(void *data, const struct ctxp_import_progress *progress) {
  struct ctxp_progress *p = data;
  ctxp_auto_buf line = {0};
  uint64_t now = ctxp_clock_ms();
  bool terminal = p->style.columns > 0;
  if (!terminal && now - p->shown_ms < PLAIN_EVERY_MS) return;
  p->shown_ms = now;
  if (terminal) ctxp_buf_str(&line, "\r\x1b[K");
  ctxp_progress_line(progress, now - p->begun_ms, &p->style, &line);
  if (!terminal) ctxp_buf_char(&line, '\n');
  p->drawn = terminal;
  fwrite(line.ptr, 1, line.len, stderr);
  fflush(stderr);
}

/* the finished line goes, so that the report stands alone */
void ctxp_progress_end(struct ctxp_progress *p) {
  if (p->drawn) fputs("\r\x1b[K", stderr);
  fflush(stderr);
  p->drawn = false;
}
