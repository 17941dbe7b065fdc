/* watch.h - samples of how busy a processor is, minute by minute (usage.h).
 *
 * Pure: samples with the time of each in, figures and a label out; lookout.h takes them. Nothing is
 * assumed of how far apart they are, and a rhythm faster than two of them is not seen. The limits are
 * in watch.c, with where they come from. */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H
#include "run/usage.h"

struct watch; /* the last minute and the worst one; lives in `perm` */

struct watch *watch_new(struct arena *perm);
void watch_add(struct watch *w, i64 at_ns, f64 busy); /* since the sample before; NaN: not known */
void watch_mark(struct watch *w, enum rhythm what, i64 at_ns); /* it began then */
struct usage watch_usage(const struct watch *w);               /* of the last minute */
/* Of the whole minutes that are not well, the one that wasted the most; shape unknown: there is none. */
struct usage watch_worst_minute(const struct watch *w);
/* The same at the end of a run, where the last minute counts, whole or not; where all are well, that. */
struct usage watch_worst(const struct watch *w);

#endif
