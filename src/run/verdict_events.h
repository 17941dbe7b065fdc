/* verdict_events.h - a verdict on its way into the stream: one event for what binds the run, one for each problem.
 *
 * `frugal train` emits them before its end, `frugal profile` after its experiments. All that is shown of a verdict
 * is in them, in figures and in words, so that a replayed run shows the same. */
#ifndef RUN_VERDICT_EVENTS_H
#define RUN_VERDICT_EVENTS_H
#include "run/events.h"
#include "run/verdict.h"

bool verdict_is_due(const struct evidence *e); /* is there enough of a run to judge it? */
/* What the run costs, and how many there are in a month; NaN: not known. */
void verdict_emit(const struct subscriber *to, const struct evidence *e, const struct verdict *v,
                  f64 usd_run, f64 runs_per_month, struct arena scratch);

#endif
