/* levers.c - a run of the ledger as a question to the playground: what its levers are worth. */
#include "page/page_int.h"

static struct str setting_of(struct str settings, struct str key)
{
    struct str line, name;
    while (str_cut(&settings, '\n', &line))
        if (str_cut(&line, '=', &name) && str_eq(name, key)) return line;
    return STR("");
}

static bool stopped_early(const struct run_bill *r)
{
    struct str why = runs_state(r);
    return str_eq(why, STR("target")) || str_eq(why, STR("patience")) ||
           str_eq(why, STR("forecast"));
}

/* Steps as they were planned, and where it ended before, the part that it made; of a run without an end those made. */
static i64 step_words(const struct run_bill *r, struct arena *perm, struct str *out)
{
    i64  n = 0, planned = r->row.steps_planned;
    bool early = planned && stopped_early(r) && r->steps > 0 && r->steps < planned;
    i64  steps = planned ? planned : r->steps;
    if (steps > 0) out[n++] = str_fmt(perm, "steps=%lld", (long long)steps);
    if (early) out[n++] = str_fmt(perm, "stop=%.9g", (f64)r->steps / (f64)planned);
    return n;
}

i64 runs_levers(const struct run_bill *r, struct arena *perm, struct str out[RUN_LEVERS_MAX])
{
    const struct segment_row *s = r->segment_count ? &r->segments[r->segment_count - 1] : NULL;
    struct str                machine = setting_of(r->row.settings, STR("run.machine"));
    struct str                rank    = setting_of(r->row.settings, STR("train.lora.rank"));
    bool spot = str_eq(setting_of(r->row.settings, STR("run.market")), STR("spot"));
    i64  n    = 0;
    out[n++]  = STR("part=levers");
    if (!spot) out[n++] = STR("market=on-demand"); /* else spot is a lever, against that */
    if (machine.len) out[n++] = str_fmt(perm, "machine=%.*s", STR_ARG(machine));
    if (rank.len) out[n++] = str_fmt(perm, "lora=%.*s", STR_ARG(rank));
    if (s && s->gpus) out[n++] = str_fmt(perm, "gpus=%lld", (long long)s->gpus);
    if (s && s->precision.len) out[n++] = str_fmt(perm, "precision=%.*s", STR_ARG(s->precision));
    n += step_words(r, perm, out + n);
    ASSERT(n <= RUN_LEVERS_MAX);
    return n;
}
