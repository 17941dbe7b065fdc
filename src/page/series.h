/* series.h - a run's curves, from its event logs: read as they grow, thinned for drawing. */
#ifndef PAGE_SERIES_H
#define PAGE_SERIES_H
#include "base/os.h"
#include "run/events.h"

/* What a point of a curve knows; `step` first. A step has no forecast, an evaluation no pace. */
#define POINT_VALUES(X)                                                                            \
    X(step)                                                                                        \
    X(seconds)                                                                                     \
    X(dollars)                                                                                     \
    X(work)   /* samples or tokens until then */                                                   \
    X(wall_s) /* since 1970 */                                                                     \
    X(loss)                                                                                        \
    X(value) /* of the target's metric */                                                          \
    X(lr)                                                                                          \
    X(rate) /* samples or tokens a second */                                                       \
    X(mfu)                                                                                         \
    X(busy)                                                                                        \
    X(wait) /* part of the time spent waiting for data */                                          \
    X(p50_s)                                                                                       \
    X(p95_s)                                                                                       \
    X(left_s)                                                                                      \
    X(forecast)                                                                                    \
    X(reach)                                                                                       \
    X(remote_age_s)                                                                                \
    /* of an evaluation: where this start's time went until then, in seconds, as TERMS has it */   \
    X(compute) X(evaluation) X(redone) X(loading) X(checkpoint) X(starting) X(booting) X(idle)
enum point_value {
#define VALUE(name) POINT_##name,
    POINT_VALUES(VALUE)
#undef VALUE
        POINT_VALUE_COUNT
};
extern const char *const point_value_names[POINT_VALUE_COUNT];
enum point_value         point_value_of(struct str name); /* POINT_VALUE_COUNT: none */

struct point {
    i32  segment; /* which start of the run, from 0 */
    bool is_eval;
    f64  v[POINT_VALUE_COUNT]; /* NaN: not known */
};

enum { SERIES_POINTS_MAX = 1 << 20, SERIES_LINES_MAX = 1 << 14, SERIES_SEGMENTS_MAX = 1024 };

struct series; /* one run's; its memory is its own */

/* `folder`: of the run's logs, EVENTS/RUN. */
struct series *series_open(struct os *os, struct str folder); /* NULL: no address space */
void           series_close(struct series *s);
void           series_update(struct series *s); /* what was written since */

const struct point *series_points(const struct series *s, i64 *count);
/* All other events, as they stand in the logs, in the order of their coming. */
const struct str *series_lines(const struct series *s, i64 *count);
i64               series_sample_tokens(const struct series *s); /* 0: samples are not sequences */
i64               series_bytes(const struct series *s);         /* of the logs, that were read */

/* The indices of the points to draw over axis `x`, at most some 4 * `buckets`: of each start and each of
 * `buckets` parts of the axis its first, lowest, highest and last loss, and all evaluations as far as they fit. */
i64 series_thin(const struct point *points, i64 count, enum point_value x, i64 buckets,
                i64 *indices);

#endif
