/* usage.h - how busy a processor was over a minute, and what the shape of that says.
 *
 *     steady-high  #########   nothing to win here
 *     steady-low   _________   too little work at a time, or too few threads
 *     oscillating  ###__###_   it starves between two pieces of work
 *     dead gaps    ####_____   something stops it for seconds
 *
 * Plain figures, from utilisation.h; the verdict, the summary and the ledger read them. */
#ifndef RUN_USAGE_H
#define RUN_USAGE_H
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
    f64              seconds;       /* that were watched */
    f64              mean, p5, p95; /* of the busy part, by time: 0 to 1 */
    f64              low, high;     /* part of the time at 20 % or below, at 80 % or above */
    f64              crossings_min; /* from high to low and back, a minute */
    f64              lag_s;         /* of the strongest rhythm; NaN: none */
    i64              gap_count;
    f64              gap_s; /* of the longest */
    enum rhythm      with;  /* what the rhythm or the gaps go along with */
};

bool usage_is_ill(enum usage_shape s); /* low, oscillating or with gaps */
/* "oscillating between 4 % and 97 % every 1.2 s, in step with checkpoints". */
struct str usage_text(const struct usage *u, struct arena *perm);

#endif
