/* run_int.h - the ledger's tables as data, shared inside this room only. */
#ifndef RUN_RUN_INT_H
#define RUN_RUN_INT_H
#include "run/ledger.h"

enum column_kind { COLUMN_KEY, COLUMN_KEYINT, COLUMN_TEXT, COLUMN_INT, COLUMN_AGE, COLUMN_REAL };

struct column {
    const char      *name;
    enum column_kind kind;
    i32              since;
    size_t           offset; /* in the row's struct */
};

struct table {
    const char          *name;
    i32                  since;
    const struct column *columns;
    i64                  column_count, row_bytes;
};

extern const struct table ledger_tables[LEDGER_TABLE_COUNT];

bool column_is_text(const struct column *c);
bool column_is_key(const struct column *c);
/* The column's value in a row. */
struct str *row_text(const struct column *c, const void *row);
i64        *row_int(const struct column *c, const void *row);
f64        *row_real(const struct column *c, const void *row);

void row_clear(const struct table *t, void *row); /* 0, empty, and NaN for what is not known */
void row_copy(const struct table *t, void *to, const void *from, struct arena *texts);
void row_write(const struct table *t, const void *row, struct textbuf *b); /* a JSON line */
/* From a JSON line; NO: a table that is not known here. */
enum status row_read(struct str line, struct arena *perm, enum ledger_table *table, void *row,
                     struct err *err);

union ledger_any { /* room for a row of any table */
#define LEDGER_ANY(name, since, meaning) struct name##_row name;
    LEDGER_TABLES(LEDGER_ANY)
#undef LEDGER_ANY
};

#endif
