/* table.h - rows of facts described by columns: one reader, one writer, and for the command line one
 * way to show any of them. */
#ifndef PLAN_TABLE_H
#define PLAN_TABLE_H
#include "base/csv.h"
#include "plan/catalogue.h"

enum column_kind {
    COLUMN_TEXT,   /* struct str */
    COLUMN_COUNT,  /* i32; COUNT_NOT_GIVEN */
    COLUMN_FIGURE, /* f64; NaN when empty; the ~ of ~400 is its bit in fact.assumed */
    COLUMN_DAY,    /* i32 */
};
enum { COUNT_NOT_GIVEN = -1 };

struct column {
    struct str       name;
    enum column_kind kind;
    size_t           offset; /* in a row */
};
struct table {
    const struct column *columns;
    i64                  column_count;
    size_t               row_bytes, figure_offset, fact_offset; /* figures lie one by one */
};

extern const struct table table_machines, table_gpus, table_cpus, table_storage, table_billing;

/* A header with columns of the table, in any order, then rows. Rows go in `perm`; their texts point
 * into that of `csv`. */
enum status table_read(const struct table *t, struct csv csv, struct arena *perm, void **rows,
                       i64 *count, struct err *err);
void        table_clear(const struct table *t, void *row); /* everything not known */
/* The figures and texts that `from` gives replace those of `to`. */
void       table_overlay(const struct table *t, void *to, const void *from);
void       table_write_header(const struct table *t, struct textbuf *b);
void       table_write_row(const struct table *t, struct textbuf *b, const void *row);
void       table_assume(const struct table *t, void *row, const f64 *figure); /* of that row */
bool       table_is_assumed(const struct table *t, const void *row, const struct column *figure);
struct str table_assumed(const struct table *t, const void *row, struct arena *perm);

/* Of the same provider, name and region. */
bool machine_same(const struct machine *a, const struct machine *b);

#endif
