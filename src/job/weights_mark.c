/* weights_mark.c - which run wrote these weights? */
#include "job/weights_mark.h"
#include "data/data.h"

struct str weights_mark(struct os *os, struct str file, struct arena *perm)
{
    struct str mark = { 0 };
    if (!os_is_file(os, file) || fingerprint_files(os, &file, 1, perm, &mark, NULL)) return STR("");
    return mark;
}

enum status weights_runs(struct os *os, struct ledger *l, struct str file, struct arena *perm,
                         struct str **ids, i64 *count, struct err *err)
{
    struct str          mark = weights_mark(os, file, perm);
    struct segment_row *rows = NULL;
    if (!mark.len)
        return err_set(err, STATUS_USAGE, "%.*s is not a file that can be read", STR_ARG(file));
    enum status st = ledger_read(l, LEDGER_TABLE_segment, "weights", mark, perm, &rows, count, err);
    if (!st && !*count)
        return err_set(err, STATUS_NO, "no run of this ledger wrote %.*s", STR_ARG(file));
    *ids = NEW(perm, struct str, *count + 1);
    for (i64 i = 0; !st && i < *count; i++) (*ids)[i] = rows[i].run;
    return st;
}
