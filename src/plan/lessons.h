/* lessons.h - what earlier runs in the ledger teach a plan: how their steps compared with what was
 * predicted of them, and what starting, saving and loading really took.
 *
 * Each is the median of the newest runs, so that one bad day counts little. A run teaches of the very
 * device that it ran on and the rates that it was predicted by, of nothing else: another machine, another
 * calibration or a newer table of rates begins anew. */
#ifndef PLAN_LESSONS_H
#define PLAN_LESSONS_H
#include "plan/catalogue.h"
#include "run/ledger.h"

struct lesson {
    f64 value; /* NaN where nothing was learned */
    i64 runs;  /* that it rests on */
};

struct lessons; /* all that the ledger holds, opaque */

enum status lessons_read(struct ledger *l, const struct catalogue *c, struct arena *perm,
                         struct lessons **out, struct err *err);

/* A step takes `value` times what the rates say: the median, drawn towards 1 while runs are few. Steps
 * that shared their machine with another run, and those of several ranks, are left out. */
struct lesson lesson_pace(const struct lessons *l, struct str device, struct str precision,
                          struct str rates);
/* Bytes per second that ranks on machines of that kind (run.machine=PROVIDER/NAME), one on each, sent each other. */
struct lesson lesson_net_bytes_s(const struct lessons *l, struct str machine);
struct lesson lesson_start_s(const struct lessons *l,
                             struct str            device);      /* process to first step */
struct lesson lesson_boot_s(const struct lessons *l); /* machine to process, where run.rented */
struct lesson lesson_stall_bytes_s(const struct lessons *l, struct str device); /* of a save */
/* Seconds between two samples where runs on that host with these settings of `data` waited for them;
 * `kept_up`: where they did not, and loading was quick enough for such a pace. */
struct lesson lesson_load_s(const struct lessons *l, struct str host, struct str settings,
                            struct lesson *kept_up);

/* Has any run said that it ran on that machine (run.machine=PROVIDER/NAME)? */
bool lessons_ran_on(const struct lessons *l, struct str machine);

/* 12 hexadecimal digits for rates as a text (rates_print). */
struct str lesson_rates_key(struct str text, struct arena *perm);

#endif
