/* Rows by grain: the bill of one window or many, by band, view, tool and message. Each grain closes: whole numbers of tokens and
 * nano-dollars that add up to the total reported, and for the views of a band to the band.
 *
 * The one rule of rounding: the rows of a window are made whole, each grain for itself, and everything over several windows is the
 * sum of their whole rows. So the last bill of each window in the log adds up to every report over these windows, to the unit, and
 * nothing depends on the order in which windows came. */
#pragma once
#include "fold/spend.h"

enum ctxp_fold_grain { CTXP_FOLD_BY_BAND,
  CTXP_FOLD_BY_VIEW,
  CTXP_FOLD_BY_TOOL,
  CTXP_FOLD_BY_MESSAGE,
  CTXP_FOLD_GRAINS };
enum { CTXP_FOLD_NO_KIND = -1,
  CTXP_FOLD_UNATTRIBUTED = CTXP_LABEL_COUNT }; /* kind of a row, beside label kinds */

struct ctxp_fold_row {
  struct ctxp_str key; /* what tells rows apart: the label, of a file its normal path */
  struct ctxp_str label; /* id, band, label of the view, tool; `others`, `undefined`, `unattributed`. A file has many names: in a
                            window it is called as it was first, over windows by the shortest of these */
  struct ctxp_str tool, path; /* of a message: what produced it, and what it shows */
  uint32_t window; /* of a message: its number in `windows`, + 1 */
  int message_band; /* of a message: the band that it was in last */
  int kind; /* of a view */
  int band; /* CTXP_BAND_COUNT: none */
  uint64_t own, messages, turns;
  uint32_t first, last; /* requests, numbered from 1 in their window */
  bool priced, unpriced, folded,
      hidden; /* priced, unpriced: some of its requests are; hidden: counts in its band, but is no view (documentation without a label) */
  struct ctxp_fold_sum sum;
  ctxp_u128 as_views, arguments; /* parts of a tool's row; arguments stand beside it */
  ctxp_u128 error; /* sum of what its messages' bills may be off, in tokens */
  uint64_t bars; /* how many messages that is the sum of */
  /* filled in when the window's rows are made whole: */
  uint64_t billed, cost_nano, tiered_nano, views_billed, arguments_billed;
  /* while it is built */
  uint64_t covered; /* end of the last residency */
  uint64_t mark; /* the last message that counted its own size */
};
struct ctxp_fold_table {
  struct ctxp_fold_row *at;
  uint32_t count, cap, dirty;
  struct ctxp_fold_index index;
};
struct ctxp_fold_where {
  struct ctxp_str agent, session, thread;
};
struct ctxp_fold_rows {
  struct ctxp_fold_table grains[CTXP_FOLD_GRAINS];
  struct ctxp_fold_arena arena;
  unsigned wanted; /* bits of grains; bands and views go together */
  bool failed; /* out of memory */
  CTXP_FOLD_ARRAY(struct ctxp_fold_where, windows);
  uint64_t base; /* requests of the windows before */
  uint64_t marks;
  struct ctxp_fold_figures figures;
  struct ctxp_fold_bust_sum busts[CTXP_FOLD_BUSTS];
  struct ctxp_fold_part_row {
    struct ctxp_fold_sum sum;
    ctxp_u128 error;
    uint64_t bars; /* windows whose error is not 0 */
    uint64_t own, turns, messages, billed, cost_nano, tiered_nano; /* the last three when the window's are made whole */
    bool priced, unpriced;
  } parts[CTXP_FOLD_PARTS]; /* of bands, which have them too */
  bool ledger; /* some size is by the ledger: errors are known */
  CTXP_FOLD_ARRAY(struct ctxp_fold_span, spans); /* residencies by row, kept only where rows will be folded */
  bool keep_spans;
};
struct ctxp_fold_span {
  uint64_t from, to;
  uint32_t row;
  uint8_t grain;
};

extern const char *const ctxp_fold_part_names[CTXP_FOLD_PARTS];
/* Tokens that a row's bill may be off: of independent errors the sum grows with the root of their number. */
uint64_t ctxp_fold_row_error(ctxp_u128 error, uint64_t bars);
/* The tool that a message is the result of; empty: none. */
struct ctxp_str ctxp_fold_tool_of(const struct ctxp_fold_window *w, const struct ctxp_fold_message *m);
/* The view that a message is in that band, its key, label, kind and band; false: the band has none. path: room for the key. */
bool ctxp_fold_view_of(const struct ctxp_fold_window *w, const struct ctxp_fold_message *m, uint8_t band, struct ctxp_fold_row *ret_key,
    struct ctxp_buf *path);
/* Adds a window's bill. -ENOMEM. */
int ctxp_fold_rows_add(struct ctxp_fold_rows *rows, struct ctxp_fold_window *w) __attribute__((warn_unused_result));
/* The bands alone, in a few steps however long the window is. -ENOMEM. */
int ctxp_fold_rows_bands(struct ctxp_fold_rows *rows, struct ctxp_fold_window *w) __attribute__((warn_unused_result));
/* Of the rows of one window: makes whole numbers. -ENOMEM. */
int ctxp_fold_rows_whole(struct ctxp_fold_rows *window) __attribute__((warn_unused_result));
/* Adds the figures of a row that is whole to another. */
void ctxp_fold_row_add(struct ctxp_fold_row *sum, const struct ctxp_fold_row *row);
/* Ranks (cost where both are priced and differ, else billed, then label by code point), and folds all but
 * the `top` largest rows of views, tools and messages into `others` (0: none; keep_spans must have been set). -ENOMEM. */
int ctxp_fold_rows_finish(struct ctxp_fold_rows *rows, uint64_t top) __attribute__((warn_unused_result));
void ctxp_fold_rows_deinit(struct ctxp_fold_rows *rows);
