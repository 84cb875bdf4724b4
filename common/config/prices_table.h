/* The table while it is made: between prices.c (from files) and prices_wire.c (from and to the `topology` event). */
#pragma once
#include "base/map.h"
#include "config/prices.h"

#define CTXP_PRICES_MAX 4096 /* rows */

struct ctxp_price_row {
  struct ctxp_model_price price;
  char *model; /* owns price.model */
  unsigned names; /* how many names find it; 0: others went over all of them */
  unsigned file; /* number of the file that it comes from */
};
struct ctxp_price_name {
  UT_hash_handle hh;
  unsigned row, file; /* file: number of the one that says so itself; a name that a row inherits keeps the earlier one's */
  char text[];
};
struct ctxp_prices {
  struct ctxp_price_row *rows;
  unsigned count, cap;
  struct ctxp_price_name *names;
  char date[11]; /* newest; "" */
  char version[48];
};

/* Adds a row that no name finds yet. Its number; -ENOMEM, -E2BIG. */
int ctxp_prices_add(struct ctxp_prices *prices, struct ctxp_str model, const struct ctxp_model_price *price, unsigned file)
    __attribute__((warn_unused_result));
/* The name finds this row from now on. */
int ctxp_prices_name(struct ctxp_prices *prices, struct ctxp_str name, unsigned row) __attribute__((warn_unused_result));
struct ctxp_price_name *ctxp_prices_lookup(const struct ctxp_prices *prices, struct ctxp_str name);
/* Sets the version from the date and the rows. */
int ctxp_prices_stamp(struct ctxp_prices *prices) __attribute__((warn_unused_result));
