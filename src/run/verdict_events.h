/* verdict_events.h - a verdict on its way into the stream: one event for what binds the run, one for each problem.
 *
 * `frugal train` emits them now and then, and before its end; `frugal profile` after its experiments. All that is
 * shown of a verdict is in them, in figures and in words, so that a replayed run shows the same. */
#ifndef RUN_VERDICT_EVENTS_H
#define RUN_VERDICT_EVENTS_H
#include "run/events.h"
#include "run/verdict.h"

bool verdict_is_due(const struct step_split *s); /* is there enough of a run to judge it? */

struct verdict_of_run {
    f64  usd, runs_per_month; /* what it costs, and how many there are; NaN: not known */
    bool so_far;              /* it goes on */
};
void verdict_emit(const struct subscriber *to, const struct evidence *e, const struct verdict *v,
                  struct verdict_of_run run, struct arena scratch);

#endif
