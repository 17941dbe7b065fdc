/* cadence.h - when the next checkpoint is due: after so many steps, so much time, or (auto) when
 * what it costs is what the work at risk is worth (run/hazard.h). Pure. */
#ifndef TRAIN_CADENCE_H
#define TRAIN_CADENCE_H
#include "base/err.h"
#include "base/text.h"
#include "run/hazard.h"

enum cadence_unit { EVERY_AUTO, EVERY_STEPS, EVERY_SECONDS };

struct cadence { /* checkpoint.every: "auto", "500", "500 steps", "30s", "10min" or "1.5h" */
    enum cadence_unit unit;
    f64               value; /* steps or seconds */
};
enum status cadence_parse(struct str text, struct cadence *out, struct err *err);

/* What the saves until now took. Before the first, nobody knows: it is taken early, to find out. */
struct cadence_facts {
    struct hazard hazard;
    f64           stall_s; /* that a save takes from the run, slower steps included; NaN: unknown */
    f64           persist_s; /* from the snapshot until it is safe */
    f64           age_s;     /* of the machine, at the last save */
    i64           failed;    /* saves that failed, while none has succeeded */
};
/* Seconds from the last save (or the first step) to the next. */
f64 cadence_seconds(struct cadence i, const struct cadence_facts *f);
/* Of auto, once the facts are known: "every 42 s: a save pauses the run for 0.012 s …". */
struct str cadence_reason(struct arena *perm, const struct cadence_facts *f);

#endif
