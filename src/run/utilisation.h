/* utilisation.h - samples of how busy a processor is, minute by minute (usage.h).
 *
 * Pure: samples with the time of each in, figures and a label out; lookout.h takes them. Nothing is
 * assumed of how far apart they are, and a rhythm faster than two of them is not seen. The limits are
 * in utilisation.c, with where they come from. */
#ifndef RUN_UTILISATION_H
#define RUN_UTILISATION_H
#include "run/usage.h"

struct utilisation; /* the last minute and the worst one; lives in `perm` */

struct utilisation *utilisation_new(struct arena *perm);
void                utilisation_add(struct utilisation *w, i64 at_ns,
                                    f64 busy); /* since the sample before; NaN: not known */
void utilisation_mark(struct utilisation *w, enum rhythm what, i64 at_ns); /* it began then */
struct usage utilisation_usage(const struct utilisation *w);               /* of the last minute */
/* Of the whole minutes that are not well, the one that wasted the most; shape unknown: there is none. */
struct usage utilisation_worst_minute(const struct utilisation *w);
/* The same at the end of a run, where the last minute counts, whole or not; where all are well, that. */
struct usage utilisation_worst(const struct utilisation *w);

#endif
