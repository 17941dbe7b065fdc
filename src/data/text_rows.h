/* text_rows.h - a CSV file with a header, or JSON lines, one row after the other: the texts of a few named columns. */
#ifndef DATA_TEXT_ROWS_H
#define DATA_TEXT_ROWS_H
#include "base/csv.h"

enum { ROW_COLUMNS_MAX = 4, ROW_FIELDS_MAX = 4096 };

struct text_rows {
    bool       is_csv;
    struct csv csv;
    struct str rest; /* JSON lines: what is left */
    i64        line;
    struct str column[ROW_COLUMNS_MAX];
    i64        column_count;
    i64        field[ROW_COLUMNS_MAX]; /* CSV: where the column stands */
    i64        field_count;
};

/* Of CSV the header is read. */
enum status text_rows_init(struct text_rows *r, struct str path, struct str bytes, bool is_csv,
                           const struct str *columns, i64 count, struct arena scratch,
                           struct err *err);
/* The next row's values, in `perm`; a missing one has data NULL. NO: there is none. */
enum status text_rows_next(struct text_rows *r, struct str *values, struct arena *perm,
                           struct err *err);

#endif
