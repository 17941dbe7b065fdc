/* watch.h - how busy a processor was, moment by moment, and what the shape of that says.
 *
 *     steady-high  #########   nothing to win here
 *     steady-low   _________   too little work at a time, or too few threads
 *     oscillating  ###__###_   it starves between two pieces of work
 *     dead gaps    ####_____   something stops it for seconds
 *
 * Pure: samples with the time of each in, a label out; lookout.h takes them. Nothing is assumed of
 * how far apart they are, and a rhythm faster than two of them is not seen. The limits are in
 * watch.c with where they come from. */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H
#include "base/arena.h"
#include "base/text.h"

enum usage_shape {
    USAGE_UNKNOWN, /* too few samples */
    USAGE_MIXED,   /* none of these */
    USAGE_STEADY_HIGH,
    USAGE_STEADY_LOW,
    USAGE_OSCILLATING,
    USAGE_DEAD_GAPS,
    USAGE_SHAPES
};
const char *usage_name(enum usage_shape s); /* "steady-high", …; empty: unknown */

/* What the run does again and again, and may explain a rhythm. */
enum rhythm { RHYTHM_NONE, RHYTHM_STEP, RHYTHM_CHECKPOINT, RHYTHM_EVALUATION, RHYTHMS };

struct usage {
    enum usage_shape shape;
    f64              seconds;         /* that were watched */
    f64              mean, p5, p95;   /* of the busy part, by time: 0 to 1 */
    f64              low, high;       /* part of the time at 20 % or below, at 80 % or above */
    f64              crossings_min;   /* from high to low and back, a minute */
    f64              lag_s;           /* of the strongest rhythm; NaN: none */
    i64              gap_count;
    f64              gap_s;           /* of the longest */
    enum rhythm      with;            /* what the rhythm or the gaps go along with */
};

struct watch; /* the last minute and the worst one; lives in `perm` */

struct watch *watch_new(struct arena *perm);
void watch_add(struct watch *w, i64 at_ns, f64 busy); /* since the sample before; NaN: not known */
void watch_mark(struct watch *w, enum rhythm what, i64 at_ns); /* it began then */
struct usage watch_usage(const struct watch *w);               /* of the last minute */
/* Of the whole minutes that are not well, the one that wasted the most; shape unknown: there is none. */
struct usage watch_worst_minute(const struct watch *w);
/* The same at the end of a run, where the last minute counts, whole or not; where all are well, that. */
struct usage watch_worst(const struct watch *w);

bool usage_is_ill(enum usage_shape s); /* low, oscillating or with gaps */
/* "oscillating between 4 % and 97 % every 1.2 s, in step with checkpoints". */
struct str usage_text(const struct usage *u, struct arena *perm);

#endif
