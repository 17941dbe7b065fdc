/* ledger_none.c - the ledger of a build without SQLite: there is none, and it says so. */
#include "run/ledger.h"
#ifndef FRUGAL_HAVE_SQLITE

static enum status none(struct err *err)
{
    return err_set(err, STATUS_NO,
                   "this frugal was built without SQLite and keeps no ledger of runs");
}

const char *ledger_library(void) { return ""; }

enum status ledger_open(struct os *os, struct str path, struct arena *perm, struct ledger **out,
                        struct err *err)
{
    (void)os, (void)path, (void)perm, (void)out;
    return none(err);
}

enum status ledger_open_patient(struct os *os, struct str path, const atomic_bool *give_up,
                                struct arena *perm, struct ledger **out, struct err *err)
{
    (void)give_up;
    return ledger_open(os, path, perm, out, err);
}

void ledger_close(struct ledger *l) { (void)l; }

i64 ledger_version(struct ledger *l) { return (void)l, 0; }

enum status ledger_begin(struct ledger *l, struct err *err) { return (void)l, none(err); }

enum status ledger_commit(struct ledger *l, struct err *err) { return (void)l, none(err); }

void ledger_rollback(struct ledger *l) { (void)l; }

enum status ledger_put(struct ledger *l, enum ledger_table table, const void *row, struct err *err)
{
    (void)l, (void)table, (void)row;
    return none(err);
}

enum status ledger_read(struct ledger *l, enum ledger_table table, const char *where, struct str is,
                        struct arena *perm, void *rows, i64 *count, struct err *err)
{
    (void)l, (void)table, (void)where, (void)is, (void)perm, (void)rows, (void)count;
    return none(err);
}
#endif
