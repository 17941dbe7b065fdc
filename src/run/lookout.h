/* lookout.h - a thread that looks five times a second how busy the processors are, while a run runs.
 *
 * GPUs by their driver (GPM from Hopper on, else its utilisation counter), else the processor time of
 * the run by the cores it may use (somebody else's program: once a second). The trainer and `frugal run`
 * open one when steps begin; it costs some tens of microseconds a look. */
#ifndef RUN_LOOKOUT_H
#define RUN_LOOKOUT_H
#include "run/probe.h"
#include "run/usage.h"

struct lookout; /* lives in `perm` */

struct lookout_config {
    struct os *os;
    struct str bus_id;   /* of the GPU that is trained on; empty: none */
    bool       any_gpu;  /* somebody else's program: the mean of all that there are */
    i64 (*cpu_ns)(void); /* processor time so far, of whom it is about; NULL: this process */
    i64 cores;           /* that it may use */
};

struct lookout_seen {
    struct usage usage; /* of the worst minute (usage.h) */
    struct load  load;  /* of the machine from the first look to the last */
    bool         gpu;   /* usage is of GPUs */
};

struct lookout *lookout_new(struct arena *perm, const struct lookout_config *c);
enum status     lookout_start(struct lookout *l, struct err *err); /* the thread */
void lookout_look(struct lookout *l); /* what it does each time; once, without a thread */
void lookout_mark(struct lookout *l, enum rhythm what); /* begins now; l may be NULL */
/* The first minute that is not well, once: true. */
bool lookout_news(struct lookout *l, struct usage *u);
f64 lookout_busy(struct lookout *l); /* at the newest look, 0 to 1; NaN: not known, or a NULL one */
bool                lookout_sees_gpus(const struct lookout *l);
struct lookout_seen lookout_now(struct lookout *l, struct arena scratch); /* it goes on */
struct lookout_seen lookout_end(struct lookout *l); /* of a NULL one: nothing was seen */

#endif
