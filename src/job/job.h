/* job.h - one run from its settings to its bill:
 *
 *     settings ─► restore ─► prices, what earlier starts spent, notices ─► train ─► the bill is closed
 *                 (train.h)   (record.h, notices.h)
 *
 *     events of the run, from restore on: notices ─► ledger ─► event log ─► logs ─► who shows it
 *
 * Nothing here prints: whoever starts a job passes a subscriber that shows the run, and a function for lines that are
 * not the run's (what could not be recorded, where Prometheus finds its figures). */
#ifndef JOB_JOB_H
#define JOB_JOB_H
#include "train/train.h"

struct job {
    struct os       *os;
    struct arena    *perm;
    struct settings *settings; /* the machine's price is set where the catalogue knows it */
    /* train, tune, sweep, supervised or followed: of the ledger's row. Empty: it is not recorded, no cloud is listened
     * to, and no logs are written */
    struct str           kind;
    struct str           name;    /* where run.name says none */
    struct str           changed; /* settings that are not the default, KEY=VALUE a line */
    struct str           origins; /* where each of them came from, a line each */
    bool                 fresh;   /* begin anew: the checkpoints that are there are removed */
    struct bill         *bill;    /* NULL: its own, since the process began */
    struct train_orders *orders;  /* NULL: its own */
    struct ranks        *ranks; /* that train it together; NULL: one. Rank 0 shows and records it */
    void (*say)(void      *context,
                struct str line); /* a whole line, without its end; NULL: nobody listens */
    void         *context;
    train_writer *write; /* of what it writes by now (train.h); NULL: nobody wants to read it */
};

__attribute__((format(printf, 2, 3))) void job_say(const struct job *j, const char *format, ...);

/* As train_run; NO also where the target was not reached. `show` hears the run's events last. */
enum status job_train(const struct job *j, const struct subscriber *show,
                      struct train_result *result, struct err *err);

/* For programs that are not ours: what ends them, from the settings; USAGE: a cap in dollars without a price. */
struct stop_config job_stop(const struct train_config *t);
enum status        job_check_price(const struct settings *s, struct err *err);

/* machine_price.c: the row of the ledger for the machine's price: that of run.machine where train.usd_hour is not
 * given, which is then set. */
enum status job_price(const struct job *j, struct price_row *out, struct err *err);
/* What storage and requests cost in an object store (s3://…, gs://…) and its class, empty: the usual; false: not
 * known. */
bool job_store_price(const struct job *j, struct str where, struct str class,
                     struct store_price *out);

#endif
