/* verdict_show.h - a verdict as words or events: at the end of `frugal train`, in `frugal profile`. */
#ifndef CLI_VERDICT_SHOW_H
#define CLI_VERDICT_SHOW_H
#include "cli/say.h"
#include "run/verdict.h"

/* Is there enough of a run to judge it? */
bool verdict_due(const struct evidence *e);
/* What binds it, how busy the processors were where that was ill, and each problem with its fix and its
 * dollars; usd_run and runs_per_month NaN: not known. Or the events "verdict" and "problem". */
void verdict_show(struct say *s, const struct evidence *e, const struct verdict *v, f64 usd_run,
                  f64 runs_per_month, struct arena scratch);

#endif
