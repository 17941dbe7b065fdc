/* prices_show.h - how `frugal prices` prints rows of the catalogue. */
#ifndef CLI_PRICES_SHOW_H
#define CLI_PRICES_SHOW_H
#include "cli/commands.h"
#include "plan/table.h"

/* Members of an event that has been begun. */
void prices_json_row(const struct table *t, const void *row, struct textbuf *b,
                     struct arena scratch);
/* Every column of one row, a line each. */
void prices_show_row(struct cli *c, const struct table *t, const void *row);
/* A whole table, the source last; a terminal that is too narrow for it gets one row below the other. */
void prices_show_table(struct cli *c, const struct table *t, const void *rows, i64 count);

#endif
