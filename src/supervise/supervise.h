/* supervise.h - runs a program that does not know us, on a machine that may be taken away.
 *
 *     restore -> start -> watch over it -> it ended -> carry what is complete -> done, or again
 *                            |
 *                            notices, signals, target, patience and budget ask it to save and end
 *
 * Nothing of the program is changed but its arguments where it goes on from a checkpoint; what it
 * prints goes on unchanged. What happens is the run's stream (run/events.h), as `frugal train` emits it:
 * open, start, then note, step, eval, checkpoint and interruption, and done. Two threads help: one copies files
 * (carry.h), one waits for notices (run/notice.h). docs/spot.md is the user's side of it. */
#ifndef SUPERVISE_SUPERVISE_H
#define SUPERVISE_SUPERVISE_H
#include "base/family.h"
#include "run/bill.h"
#include "run/events.h"
#include "run/lookout.h"
#include "run/notice.h"
#include "run/stop.h"
#include "run/supervised_config.h"
#include "store/upload.h"

struct supervise_config {
    const char *const           *command; /* ends with NULL */
    const struct program_config *program;
    const struct spot_config    *spot;
    struct stop_config           stop;
    struct str                   store; /* of carried files; empty: none are */
    i64                          keep;
    i64 backoff_ns; /* before the first restart, doubled with each in a row; 0: a second */
    const struct upload_settings *to;   /* to which object store they go as well; NULL: none */
    struct bill                  *bill; /* of the whole run, its price set; NULL: it has its own */
    struct str run; /* its id where no carried checkpoint names one; empty: a new one */
    const struct subscriber
        *events; /* hear what happens, on the thread of supervise_run; NULL: nobody does */
    void (*on_output)(void      *context,
                      struct str bytes); /* of the program's standard output; NULL: nobody */
    void *context;                       /* of on_output */
    bool  fresh;                         /* begin anew: what was carried before is removed */
};

struct supervise_result {
    i64 starts;
    i64 carried, discarded; /* checkpoints */
    f64 seconds,
        dollars;  /* of all starts of the run, waiting included; dollars NaN: no price known */
    f64 redone_s; /* from the newest carried checkpoint to each death that a start followed */
    f64 waited_s; /* between a death and the next start */
    i64 step;     /* -1: none was seen */
    f64 steps_per_s, loss, metric; /* NaN: not seen */
    struct lookout_seen seen;      /* how busy GPUs, else cores, were */
    struct family_end   end;       /* of the last start */
    enum stop_reason    stopped;   /* STOP_NONE: it ended by itself */
    char                why[STOP_TEXT_MAX];
    bool                target_reached;
    i64                 deadline_ns; /* of a notice, on the clock of now_ns; 0: none came */
};

/* A run that is restored and has not begun: the program's folder is what the newest checkpoint has, here or in the
 * object store. Nothing else was opened. *out NULL: there is no memory; else it is passed on, whatever the status. */
struct supervise;
enum status supervise_restore(struct os *os, const struct supervise_config *c,
                              struct supervise_result *r, struct supervise **out, struct err *err);
/* Runs it, unless `st` says that something has failed since, and closes it. `stop` and the bill's price may have been
 * set meanwhile. */
enum status supervise_restored(struct supervise *s, enum status st, struct err *err);
/* Both. OK: the program ended with 0, or was ended by target, patience or budget. NO: it failed too often.
 * INTERRUPTED: a signal or a notice ended it, and the newest checkpoint is safe. */
enum status supervise_run(struct os *os, const struct supervise_config *c,
                          struct supervise_result *r, struct err *err);

#endif
