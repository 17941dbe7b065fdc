/* fuzz_ledger.c - any bytes as a row that travelled: refused with a sentence, of a table that is
 * not known here, or a row that is written as a line and read back the same. */
#include "run/run_int.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct str written(enum ledger_table table, const void *row, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    row_write(&ledger_tables[table], row, &b);
    return textbuf_str(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena      perm = arena_open((i64)64 << 20);
    struct err        err  = { 0 };
    union ledger_any  row, again;
    enum ledger_table table, same;
    enum status       st =
        row_read((struct str){ (const char *)data, (i64)bytes }, &perm, &table, &row, &err);
    if (!st) {
        struct str line = written(table, &row, &perm);
        ASSERT(!row_read(line, &perm, &same, &again, &err));
        ASSERT(same == table);
        ASSERT(str_eq(line, written(same, &again, &perm)));
    } else if (st != STATUS_NO) {
        ASSERT(err.text[0]);
    }
    arena_close(&perm);
    return 0;
}
