/* The fold in a test: opened with the tests' prices, fed JSON lines, asked by query. */
#pragma once
#include "support/stage_test.h"

extern const struct ctxp_stage_ops ctxp_stage_fold;

/* Opens it; options: a JSON map, NULL for the defaults. */
void fold_open(struct ctxp_test *t, const char *options);
#define FOLD_ESTIMATE "{\"sizes\":\"estimate\"}" /* options under which a message is as large as it says */
/* The topology event alone: after a restart the options and prices come with it again. */
void fold_prices(struct ctxp_test *t, const char *options);
/* Pushes a line made by printf. */
void fold_push(struct ctxp_test *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The answer to a query, a JSON map, as a value owned by `reply`. */
struct ctxp_raw fold_ask(struct ctxp_test *t, const char *query, struct ctxp_buf *reply);
/* The query must be refused with -ENOENT and a sentence. */
void fold_ask_in_vain(struct ctxp_test *t, const char *query);
/* The first element of the list `list` of a report whose `key` is that text; {0}: none. */
struct ctxp_raw fold_row(struct ctxp_raw report, const char *list, const char *key, const char *text);
/* The sum of one figure over the elements of a list; nil counts nothing. */
uint64_t fold_sum(struct ctxp_raw report, const char *list, const char *key);
/* All emitted lines of a kind (NULL: all), each with a newline; the caller frees. */
char *fold_lines(struct ctxp_test *t, const char *kind, bool seed_only);
/* A value as JSON; the caller frees. */
char *fold_json(struct ctxp_raw raw);
