/* spot.c - real spot machines against what was predicted: `bench_spot TRACE.CSV…`.
 *
 * A trace is a list of up and down times (head "state,seconds"). A run that never ends is replayed on
 * it: every up time is a machine, which starts for START_S, works, stalls STALL_S at each save and
 * loses what came after the last one. One JSON object a trace: the overhead (up time less work that
 * lasted) beside the expectation of plan/risk.h, with the hazard fitted on the same trace and, for its
 * second half, on its first; and the goodput (work that lasted over up time) of several ways to save. */
#include "plan/risk.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIVES_MAX = 4096, LINE_BYTES = 256, PERM_MIB = 64 };

static const f64 start_s = 300, stall_s = 5; /* boot, load and warm-up; the stall of a save */
static const f64 step_s         = 1;         /* of "every 500 steps" */
static const f64 interval_max_s = 1800;

struct trace {
    struct lifetime lives[LIVES_MAX];
    i64             count;
};

static void read_trace(const char *path, struct trace *t)
{
    FILE *f = fopen(path, "r");
    char  line[LINE_BYTES];
    f64   seconds;
    if (!f) {
        fprintf(stderr, "bench_spot: %s cannot be read\n", path);
        exit(3);
    }
    t->count = 0;
    while (fgets(line, sizeof line, f) && t->count < LIVES_MAX) {
        if (sscanf(line, "up,%lf", &seconds) == 1)
            t->lives[t->count++] = (struct lifetime){ seconds, false };
        if (sscanf(line, "down,%lf", &seconds) == 1 && t->count)
            t->lives[t->count - 1].interrupted = true;
    }
    fclose(f);
}

/* Work that outlives the machine; what the last, unbroken one has done counts whole. */
static f64 lasting(const struct lifetime *life, struct hazard law, f64 interval_s)
{
    struct save_costs c   = { .stall_s = stall_s, .interval_max_s = interval_max_s };
    f64               age = start_s, work = 0;
    for (;;) {
        f64 due = interval_s > 0 ? age + interval_s : hazard_save_due_s(law, &c, age);
        if (due + stall_s > life->age_s) break;
        work += due - age;
        age = due + stall_s;
    }
    return life->interrupted ? work : work + MAX(life->age_s - age, 0);
}

/* Knows when it will be interrupted, and saves once just before. */
static f64 clairvoyant(const struct lifetime *life)
{
    return MAX(life->age_s - start_s - (life->interrupted ? stall_s : 0), 0);
}

struct replay {
    f64 up_s, work_s;
};

static struct replay replay(const struct lifetime *lives, i64 count, struct hazard law,
                            f64 interval_s)
{
    struct replay r = { 0 };
    for (i64 i = 0; i < count; i++) {
        r.up_s += lives[i].age_s;
        r.work_s += interval_s < 0 ? clairvoyant(&lives[i]) : lasting(&lives[i], law, interval_s);
    }
    return r;
}

/* Of every fixed interval from 10 s to two hours the one that would have been the best. */
static f64 best_fixed(const struct lifetime *lives, i64 count)
{
    f64 best = 0, goodput = -1;
    for (f64 interval = 10; interval < 7200; interval *= 1.01) {
        struct replay r = replay(lives, count, hazard_prior, interval);
        if (r.work_s / r.up_s <= goodput) continue;
        goodput = r.work_s / r.up_s;
        best    = interval;
    }
    return best;
}

/* Foretold overhead over the replayed one, less one. */
static f64 error_of(const struct lifetime *lives, i64 count, const struct survival *s,
                    struct arena scratch)
{
    struct replay   r = replay(lives, count, s->law, 0);
    struct risk_job j = { .work_s = r.work_s, .start_s = start_s };
    j.save            = (struct save_costs){ .stall_s = stall_s, .interval_max_s = interval_max_s };
    struct risk_outcome o = risk_expect(&j, s, scratch);
    return (o.up_s - r.work_s) / (r.up_s - r.work_s) - 1;
}

static i64 interruptions(const struct lifetime *lives, i64 count)
{
    i64 n = 0;
    for (i64 i = 0; i < count; i++) n += lives[i].interrupted;
    return n;
}

static f64 goodput(const struct trace *t, struct hazard law, f64 interval_s)
{
    struct replay r = replay(t->lives, t->count, law, interval_s);
    return r.work_s / r.up_s;
}

static void tell(const char *path, const struct trace *t, struct arena perm)
{
    const char     *name  = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    i64             half  = t->count / 2;
    struct hazard   law   = hazard_fit(t->lives, t->count);
    struct survival all   = survival_of_law(law);
    struct survival seen  = survival_of_lives(&perm, t->lives, t->count);
    struct survival first = survival_of_law(hazard_fit(t->lives, half));
    struct replay   r     = replay(t->lives, t->count, law, 0);
    f64             fixed = best_fixed(t->lives, t->count);
    printf("{\"trace\": \"%s\", \"up_h\": %.1f, \"interruptions\": %lld, \"shape\": %.3f, "
           "\"mean_h\": %.3f, \"overhead_h\": %.2f, ",
           name, r.up_s / 3600, (long long)interruptions(t->lives, t->count), law.shape,
           hazard_mean_s(law) / 3600, (r.up_s - r.work_s) / 3600);
    printf("\"error\": %.4f, \"error_empirical\": %.4f, \"error_second_half\": %.4f, "
           "\"standard_error\": %.4f, ",
           error_of(t->lives, t->count, &all, perm), error_of(t->lives, t->count, &seen, perm),
           error_of(t->lives + half, t->count - half, &first, perm),
           1 / sqrt((f64)interruptions(t->lives, half)));
    printf("\"goodput_auto\": %.4f, \"goodput_500_steps\": %.4f, \"goodput_30_min\": %.4f, "
           "\"goodput_best_fixed\": %.4f, \"best_fixed_s\": %.0f, \"goodput_clairvoyant\": %.4f, "
           "\"goodput_prior\": %.4f}\n",
           goodput(t, law, 0), goodput(t, law, 500 * step_s), goodput(t, law, 1800),
           goodput(t, law, fixed), fixed, goodput(t, law, -1), goodput(t, hazard_prior, 0));
}

int main(int argc, char **argv)
{
    static struct trace t;
    struct arena        perm = arena_open((i64)PERM_MIB << 20);
    for (int i = 1; i < argc; i++) {
        read_trace(argv[i], &t);
        tell(argv[i], &t, perm);
    }
    arena_close(&perm);
    return 0;
}
