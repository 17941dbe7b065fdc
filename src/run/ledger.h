/* ledger.h - what every run did and what it cost, for all runs of a user in one SQLite file.
 *
 * Training never depends on it: whatever goes wrong here is one sentence, and the run goes on.
 * `recorder.h` writes it while a run runs; `frugal runs` and `frugal report` read it. Rows also travel
 * as JSON lines, one object a row, so that ledgers of several machines can be merged: a row has the
 * same key everywhere, and of two copies the newer wins (docs/formats/ledger.md).
 *
 * Built without SQLite, ledger_open says so and nothing else is ever called. */
#ifndef RUN_LEDGER_H
#define RUN_LEDGER_H
#include "base/os.h"
#include "run/columns.h"
#include <stdatomic.h>

/* Section `run` of a run file. */
struct run_config {
    struct str name;   /* empty: the run file's */
    struct str ledger; /* file; empty: $XDG_STATE_HOME/frugal/ledger.db; "none": none */
    struct str tags[16];
    i64        tag_count;
    f64        runs_per_month; /* how often such a run is made; NaN: not said */
    struct str machine;        /* PROVIDER/NAME in the catalogue; empty: not said */
    struct str market;         /* none | on-demand | spot | reserved | own */
    bool       rented;         /* the machine is there for this run: its start is on the bill */
};

enum ledger_table {
#define LEDGER_TABLE(name, since, meaning) LEDGER_TABLE_##name,
    LEDGER_TABLES(LEDGER_TABLE)
#undef LEDGER_TABLE
        LEDGER_TABLE_COUNT
};

typedef struct str ledger_KEY, ledger_TEXT;
typedef i64        ledger_KEYINT, ledger_INT, ledger_AGE;
typedef f64        ledger_REAL;
#define LEDGER_FIELD(kind, name, since, meaning) ledger_##kind name;
#define LEDGER_ROW(table, since, meaning)                                                          \
    struct table##_row {                                                                           \
        LEDGER_##table(LEDGER_FIELD)                                                               \
    };
LEDGER_TABLES(LEDGER_ROW) /* struct run_row, segment_row, … */
#undef LEDGER_ROW
#undef LEDGER_FIELD

struct ledger;

const char *ledger_library(void); /* SQLite's version; empty: this build has none */

/* Where the ledger lies; empty: nowhere, by "none" or because there is no home. */
struct str ledger_path(struct os *os, struct str asked, struct arena *perm);

/* Opens or makes the file, and upgrades an older one. NO: this build has no SQLite. One connection;
 * other processes and threads have their own. */
enum status ledger_open(struct os *os, struct str path, struct arena *perm, struct ledger **out,
                        struct err *err);
/* The same; others who write are waited for only until give_up is true, which any thread may set. */
enum status ledger_open_patient(struct os *os, struct str path, const atomic_bool *give_up,
                                struct arena *perm, struct ledger **out, struct err *err);
void        ledger_close(struct ledger *l);

/* All rows put between the two reach the file together or not at all. Waits a few seconds for
 * others who write. */
enum status ledger_begin(struct ledger *l, struct err *err);
enum status ledger_commit(struct ledger *l, struct err *err); /* after a failure: as before begin */
void        ledger_rollback(struct ledger *l);
/* Inserts the row, or replaces that of the same key unless that one is newer. */
enum status ledger_put(struct ledger *l, enum ledger_table table, const void *row, struct err *err);

/* The rows whose text column `where` is `is` (NULL: all rows), in the order of their making; `rows`
 * is an array of struct TABLE_row. */
enum status ledger_read(struct ledger *l, enum ledger_table table, const char *where, struct str is,
                        struct arena *perm, void *rows, i64 *count, struct err *err);

/* A number that is another one after somebody else has written; this connection's own rows do not change it. */
i64 ledger_version(struct ledger *l);

/* A run's rows, or one segment's with its run and price, as JSON lines; and from such lines, of any
 * number of runs. Lines that a newer frugal wrote are read as far as they are known here. */
enum status ledger_export(struct ledger *l, struct str run, struct str segment, struct arena *perm,
                          struct str *lines, struct err *err); /* segment empty: all */
enum status ledger_import(struct ledger *l, struct str lines, struct arena scratch, i64 *rows,
                          struct err *err);

struct str              ledger_new_id(struct arena *perm); /* 12 hexadecimal digits, by chance */
extern const struct str segment_killed; /* segment.ended of one that a later start found dead */
/* One that has not ended and is not heard of for so long was killed. */
i64 segment_silence_ns(const struct segment_row *s);
/* Does it run at that time? A heartbeat from the future, where a clock was set back, is none. */
bool segment_runs(const struct segment_row *s, i64 now_wall_ns);
/* The terms of a segment, in the order of enum term. */
void segment_terms(const struct segment_row *s, i64 ns[TERM_COUNT]);
void segment_set_terms(struct segment_row *s, const i64 ns[TERM_COUNT]); /* and their sum */

#endif
