/* lessons.c - medians over the ledger's rows. */
#include "plan/lessons.h"
#include "base/hash.h"
#include "run/report.h"
#include <math.h>
#include <stdlib.h>

enum { NEWEST = 16, STEPS_LEAST = 20 }; /* runs that count; steps that tell a pace */

static const i64 compute_least_ns = 500000000; /* less says more of the clock than of the kernels */
static const i64 exchange_least_ns = 100000000;
static const f64 alone_least       = 0.98; /* of its machine that a run had for itself */
static const f64 prior_runs        = 2;    /* that stand for a factor of 1 */
static const f64 waited_least      = 0.02; /* of the steps' time: loading held them up */

struct lessons {
    const struct catalogue *catalogue;
    struct run_row         *runs;
    struct segment_row     *segments;
    struct checkpoint_row  *checkpoints;
    struct prediction_row  *predictions;
    i64                     run_count, segment_count, checkpoint_count, prediction_count;
    struct origin { /* of a segment */
        i64        own_ns;
        struct str device; /* as predictions and the catalogue call it */
        i64        run;    /* -1: not in the ledger */
        struct str key;    /* of the run's settings */
    } * origins;
};

static i64 run_of(const struct lessons *l, struct str id)
{
    for (i64 i = 0; i < l->run_count; i++)
        if (str_eq(l->runs[i].id, id)) return i;
    return -1;
}

static void trace_back(struct lessons *l, struct arena *perm)
{
    i64 *own_ns = NEW(perm, i64, l->segment_count + 1);
    bill_shares(l->segments, l->segment_count, own_ns, *perm);
    l->origins = NEW(perm, struct origin, l->segment_count + 1);
    for (i64 i = 0; i < l->segment_count; i++) {
        const struct segment_row *s = &l->segments[i];
        const struct gpu         *g = catalogue_gpu_of_driver(l->catalogue, s->device);
        struct origin            *o = &l->origins[i];
        *o = (struct origin){ own_ns[i], g ? g->name : s->device, run_of(l, s->run), STR("") };
        if (o->run >= 0) o->key = report_settings_key(l->runs[o->run].settings, perm);
    }
}

enum status lessons_read(struct ledger *l, const struct catalogue *c, struct arena *perm,
                         struct lessons **out, struct err *err)
{
    struct lessons *s  = NEW(perm, struct lessons, 1);
    enum status     st = STATUS_OK;
    s->catalogue       = c;
#define READ(name)                                                                                 \
    if (!st)                                                                                       \
        st = ledger_read(l, LEDGER_TABLE_##name, NULL, STR(""), perm, &s->name##s,                 \
                         &s->name##_count, err);
    READ(run)
    READ(segment)
    READ(checkpoint)
    READ(prediction)
#undef READ
    if (!st) trace_back(s, perm);
    *out = s;
    return st;
}

struct str lesson_rates_key(struct str text, struct arena *perm)
{
    return str_sub(sha256_hex(perm, text), 0, 12);
}

/* ---- medians of the newest ---- */

struct sample {
    f64 value;
    i64 wall_ns;
};

struct samples {
    struct sample newest[NEWEST];
    i64           count;
};

static void sample_add(struct samples *s, f64 value, i64 wall_ns)
{
    i64 at = s->count;
    if (!(value > 0) || isinf(value)) return;
    if (s->count == NEWEST) {
        at = 0;
        for (i64 i = 1; i < NEWEST; i++)
            if (s->newest[i].wall_ns < s->newest[at].wall_ns) at = i;
        if (s->newest[at].wall_ns > wall_ns) return;
    }
    s->count      = MAX(s->count, at + 1);
    s->newest[at] = (struct sample){ value, wall_ns };
}

static int by_value(const void *a, const void *b)
{
    f64 x = ((const struct sample *)a)->value, y = ((const struct sample *)b)->value;
    return (x > y) - (x < y);
}

static struct lesson median(struct samples *s)
{
    if (!s->count) return (struct lesson){ NAN, 0 };
    qsort(s->newest, (size_t)s->count, sizeof *s->newest, by_value);
    f64 low = s->newest[(s->count - 1) / 2].value, high = s->newest[s->count / 2].value;
    return (struct lesson){ sqrt(low * high), s->count };
}

/* ---- what a segment was ---- */

static f64 step_s(const struct lessons *l, i64 segment)
{
    const struct segment_row *s     = &l->segments[segment];
    i64                       steps = s->step - s->step_from, ns = s->compute_ns + s->redone_ns;
    bool                      alone =
        (f64)l->origins[segment].own_ns >= alone_least * (f64)s->metered_ns && s->ranks < 2;
    return alone && steps >= STEPS_LEAST && ns >= compute_least_ns ? 1e-9 * (f64)ns / (f64)steps
                                                                   : NAN;
}

/* Of that run itself, or made before it of such runs; of two the newer. */
static const struct prediction_row *predicted(const struct lessons *l, i64 segment,
                                              struct str rates)
{
    const struct prediction_row *best = NULL;
    const struct origin         *o    = &l->origins[segment];
    for (i64 i = 0; o->run >= 0 && i < l->prediction_count; i++) {
        const struct prediction_row *p   = &l->predictions[i];
        const struct run_row        *run = &l->runs[o->run];
        bool                         such =
            !p->run.len && str_eq(p->settings, o->key) && p->made_wall_ns <= run->begin_wall_ns;
        if ((!such && !str_eq(p->run, run->id)) || !(p->step_s > 0)) continue;
        if (!str_eq(p->rates, rates) || !str_eq(p->device, o->device)) continue;
        if (!str_eq(p->precision, l->segments[segment].precision)) continue;
        if (!best || p->made_wall_ns > best->made_wall_ns) best = p;
    }
    return best;
}

/* ---- lessons ---- */

struct lesson lesson_pace(const struct lessons *l, struct str device, struct str precision,
                          struct str rates)
{
    struct samples found = { 0 };
    for (i64 i = 0; i < l->segment_count; i++) {
        const struct segment_row *s = &l->segments[i];
        if (!str_eq(s->precision, precision) || !str_eq(l->origins[i].device, device)) continue;
        const struct prediction_row *p = predicted(l, i, rates);
        if (p) sample_add(&found, step_s(l, i) / p->step_s, s->begin_wall_ns);
    }
    struct lesson m = median(&found);
    if (m.runs) m.value = pow(m.value, (f64)m.runs / ((f64)m.runs + prior_runs));
    return m;
}

struct lesson lesson_start_s(const struct lessons *l, struct str device)
{
    struct samples found = { 0 };
    for (i64 i = 0; i < l->segment_count; i++) {
        const struct segment_row *s = &l->segments[i];
        if (s->step > s->step_from && str_eq(l->origins[i].device, device))
            sample_add(&found, 1e-9 * (f64)s->starting_ns, s->begin_wall_ns);
    }
    return median(&found);
}

struct lesson lesson_boot_s(const struct lessons *l)
{
    struct samples found = { 0 };
    for (i64 i = 0; i < l->segment_count; i++)
        sample_add(&found, 1e-9 * (f64)l->segments[i].booting_ns, l->segments[i].begin_wall_ns);
    return median(&found);
}

static bool is_remote(const struct checkpoint_row *c)
{
    return str_starts(c->place, STR("s3://")) || str_starts(c->place, STR("gs://"));
}

static bool was_on(const struct lessons *l, struct str segment, struct str device)
{
    for (i64 i = 0; i < l->segment_count; i++)
        if (str_eq(l->segments[i].id, segment)) return str_eq(l->origins[i].device, device);
    return false;
}

struct lesson lesson_stall_bytes_s(const struct lessons *l, struct str device)
{
    struct samples found = { 0 };
    for (i64 i = 0; i < l->checkpoint_count; i++) {
        const struct checkpoint_row *c = &l->checkpoints[i];
        if (!is_remote(c) && was_on(l, c->segment, device))
            sample_add(&found, (f64)c->bytes / (1e-9 * (f64)c->blocked_ns), c->saved_wall_ns);
    }
    return median(&found);
}

static bool ran_on(const struct run_row *run, struct str machine)
{
    struct str rest = run->settings, line, key;
    while (str_cut(&rest, '\n', &line))
        if (str_cut(&line, '=', &key) && str_eq(key, STR("run.machine")) && str_eq(line, machine))
            return true;
    return false;
}

bool lessons_ran_on(const struct lessons *l, struct str machine)
{
    for (i64 i = 0; i < l->run_count; i++)
        if (ran_on(&l->runs[i], machine)) return true;
    return false;
}

/* Of several ranks on a machine a part never reaches the network; what NCCL sends nobody has counted. */
struct lesson lesson_net_bytes_s(const struct lessons *l, struct str machine)
{
    struct samples found = { 0 };
    for (i64 i = 0; i < l->segment_count; i++) {
        const struct segment_row *s   = &l->segments[i];
        i64                       run = l->origins[i].run;
        if (s->ranks < 2 || s->machines != s->ranks || s->gpus || run < 0) continue;
        if (s->exchange_ns < exchange_least_ns || !ran_on(&l->runs[run], machine)) continue;
        sample_add(&found, (f64)s->sent_bytes / (1e-9 * (f64)s->exchange_ns), s->begin_wall_ns);
    }
    return median(&found);
}

/* Do they read the same data in the same way? */
static bool same_data(struct str a, struct str b)
{
    struct str from[2] = { a, b }, other[2] = { b, a }, line, has;
    for (i64 i = 0; i < 2; i++) {
        while (str_cut(&from[i], '\n', &line)) {
            struct str rest  = other[i];
            bool       found = !str_starts(line, STR("data."));
            while (!found && str_cut(&rest, '\n', &has)) found = str_eq(has, line);
            if (!found) return false;
        }
    }
    return true;
}

struct lesson lesson_load_s(const struct lessons *l, struct str host, struct str settings,
                            struct lesson *kept_up)
{
    struct samples waited = { 0 }, kept = { 0 };
    for (i64 i = 0; i < l->segment_count; i++) {
        const struct segment_row *s   = &l->segments[i];
        i64                       run = l->origins[i].run;
        i64                       ns  = s->compute_ns + s->redone_ns + s->loading_ns;
        if (run < 0 || !s->samples || ns < compute_least_ns || !str_eq(s->machine, host)) continue;
        if (!same_data(l->runs[run].settings, settings)) continue;
        bool held = (f64)s->loading_ns >= waited_least * (f64)ns;
        sample_add(held ? &waited : &kept, 1e-9 * (f64)ns / (f64)s->samples, s->begin_wall_ns);
    }
    *kept_up = median(&kept);
    return median(&waited);
}
