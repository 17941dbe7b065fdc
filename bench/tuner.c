/* tuner.c - the loader's self-tuning against the best fixed numbers: `bench_tuner [ROW…]`.
 *
 * Made-up stages that compute or sleep, in three mixes, and a caller that takes batches as fast as they
 * come. Every combination of 1, 4, 16, … threads a stage is measured for a moment; around the best of them
 * each number is doubled and halved, then made half as large again and a third less, as long as that brings
 * anything, and the best few are measured for longer. (All numbers would be 256 cubed settings; more threads
 * than are needed cost little here, so that the rate has one broad top.) Then a loader is opened with one
 * thread a stage and one batch ahead, and has 30 seconds to find its numbers. At the end both are measured in
 * turn, round after round, so that whatever disturbs meets both; the medians are compared. Exit 1: the
 * tuned is more than 5 % behind. All three rows take 3.4 minutes on two cores. */
#include "base/pool.h"
#include "base/rng.h"
#include "data/data_int.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, SAMPLES = 1 << 20, GRID = 8, BEST = 4, ROUNDS = 5 };
static const f64 tune_s = 30, moment_s = 0.15, long_s = 1, round_s = 1, warm_s = 0.1, pause_s = 1.1;
static const f64 allowed = 0.95;

struct mix {
    const char *name;
    i64         compute_us[STAGE_COUNT], sleep_us[STAGE_COUNT];
};

static const struct mix mixes[] = {
    { "cpu", { 50, 4000, 1000 }, { 0, 0, 0 } },
    { "io", { 50, 1000, 200 }, { 20000, 0, 0 } },
    { "mixed", { 50, 3000, 1000 }, { 20000, 2000, 0 } },
};

/* --- the stages --- */

static f64 turns_us; /* of the loop below, in a microsecond of this processor left alone */

static u64 turn(i64 times)
{
    u64 x = 1;
    for (i64 i = 0; i < times; i++) x = rng_mix(x);
    return x;
}

static f64 now_s(void) { return (f64)os_real()->now_ns(os_real()) * 1e-9; }

static void calibrate(void)
{
    enum { TURNS = 2000000 };
    volatile u64 sink;
    for (i32 i = 0; i < 5; i++) {
        f64 begin = now_s();
        sink      = turn(TURNS);
        turns_us  = MAX(turns_us, TURNS / (1e6 * (now_s() - begin)));
    }
    (void)sink;
}

static enum status work(const struct dataset *d, struct sample *s, enum stage stage)
{
    const struct mix *m = d->state;
    if (m->sleep_us[stage]) d->os->sleep_ns(d->os, m->sleep_us[stage] * 1000);
    u64 x = turn((i64)(turns_us * (f64)m->compute_us[stage]));
    if (stage == STAGE_AUGMENT) *(f32 *)s->to[0] = (f32)x;
    return STATUS_OK;
}

static enum status read_made(const struct dataset *d, struct sample *s, struct err *err)
{
    (void)err;
    return work(d, s, STAGE_READ);
}

static enum status decode_made(const struct dataset *d, struct sample *s, struct err *err)
{
    (void)err;
    return work(d, s, STAGE_DECODE);
}

static enum status augment_made(const struct dataset *d, struct sample *s, struct err *err)
{
    (void)err;
    return work(d, s, STAGE_AUGMENT);
}

static const struct format format_made = {
    .kind = { "made", 4 }, .read = read_made, .decode = decode_made, .augment = augment_made
};

/* --- measuring --- */

struct choice {
    i64 workers[STAGE_COUNT], prefetch;
    f64 rate;
};

static struct loader *open_loader(struct dataset *d, struct arena *perm, struct loader_options o, i64 queue)
{
    struct loader_config c = { .batch = BATCH, .forever = true, .queue = queue, .options = o };
    struct loader       *l;
    struct err           err;
    if (!loader_open(perm, d, &c, &l, &err)) return l;
    fprintf(stderr, "bench_tuner: %s\n", err.text);
    exit(3);
}

/* Samples that came through the last stage. */
static i64 made(struct loader *l) { return loader_stats(l).stage[STAGE_AUGMENT].samples; }

/* Of those, while all batches are taken. */
static f64 rate_for(struct loader *l, f64 seconds)
{
    i64 first = made(l);
    f64 begin = now_s();
    i64 until = (i64)((begin + seconds) * 1e9);
    while (loader_ready(l, until) && now_s() < begin + seconds) loader_next(l);
    return (f64)(made(l) - first) / (now_s() - begin);
}

static struct loader *open_fixed(struct dataset *d, struct arena *perm, const struct choice *c)
{
    struct loader_options o = { .workers_count = STAGE_COUNT, .prefetch = c->prefetch };
    memcpy(o.workers, c->workers, sizeof o.workers);
    return open_loader(d, perm, o, 2 * MAX(MAX(c->workers[0], c->workers[1]), c->workers[2]));
}

static f64 measure_fixed(struct dataset *d, struct arena perm, const struct choice *c, f64 seconds)
{
    struct loader *l = open_fixed(d, &perm, c);
    (void)rate_for(l, warm_s);
    f64 rate = rate_for(l, seconds);
    loader_close(l);
    return rate;
}

/* 1, 4, 16, … and `most`. */
static i64 grid(i64 most, i64 *out)
{
    i64 count = 0;
    for (i64 n = 1; n < most; n *= 4) out[count++] = n;
    out[count++] = most;
    ASSERT(count <= GRID);
    return count;
}

struct search {
    struct dataset *dataset;
    struct arena    perm;
    struct choice   best[BEST]; /* the best first */
    i64             most[STAGE_COUNT];
    i64             tried;
};

static void try(struct search *s, struct choice c, f64 seconds)
{
    const struct mix *m = s->dataset->state;
    c.rate              = measure_fixed(s->dataset, s->perm, &c, seconds);
    for (i64 i = 0; i < BEST; i++)
        if (c.rate > s->best[i].rate) {
            struct choice worse = s->best[i];
            s->best[i]          = c;
            c                   = worse;
        }
    fprintf(stderr, "\r%s: %lld settings tried, best %.0f samples/s", m->name,
            (long long)++s->tried, s->best[0].rate);
}

/* From the best, up and down by the factor over / under in each stage, as long as that brings a hundredth. */
static void refine(struct search *s, i64 over, i64 under)
{
    for (f64 before = 0; s->best[0].rate > 1.01 * before;) {
        before = s->best[0].rate;
        for (i64 i = 0; i < 2 * STAGE_COUNT; i++) {
            struct choice c = s->best[0];
            i64          *n = &c.workers[i / 2];
            *n              = i % 2 ? *n * under / over : (*n * over + under - 1) / under;
            if (*n >= 1 && *n <= s->most[i / 2]) try(s, c, 2 * moment_s);
        }
    }
}

/* Stages that only compute gain nothing from more threads than twice the cores. */
static struct choice search(struct dataset *d, struct arena perm)
{
    const struct mix *m = d->state;
    struct search     s = { .dataset = d, .perm = perm };
    struct choice     c = { .prefetch = 16 };
    i64 cores           = pool_machine_threads(), values[STAGE_COUNT][GRID], counts[STAGE_COUNT];
    for (i64 k = 0; k < STAGE_COUNT; k++) {
        s.most[k] = m->sleep_us[k] > 10000 ? LOADER_WORKERS_MAX
                    : m->sleep_us[k]       ? 4 * cores
                    : k                    ? 2 * cores
                                           : 2;
        counts[k] = grid(s.most[k], values[k]);
    }
    for (i64 i = 0; i < counts[0] * counts[1] * counts[2]; i++) {
        c.workers[0] = values[0][i % counts[0]];
        c.workers[1] = values[1][i / counts[0] % counts[1]];
        c.workers[2] = values[2][i / counts[0] / counts[1]];
        try(&s, c, moment_s);
    }
    refine(&s, 2, 1);
    refine(&s, 3, 2);
    fprintf(stderr, "\n");
    for (i64 i = 0; i < BEST; i++) s.best[i].rate = measure_fixed(d, perm, &s.best[i], long_s);
    for (i64 i = 1; i < BEST; i++)
        if (s.best[i].rate > s.best[0].rate) s.best[0] = s.best[i];
    return s.best[0];
}

static int by_value(const void *a, const void *b)
{
    f64 x = *(const f64 *)a, y = *(const f64 *)b;
    return (x > y) - (x < y);
}

static f64 median(f64 *v)
{
    qsort(v, ROUNDS, sizeof *v, by_value);
    return v[ROUNDS / 2];
}

/* Half a minute on its own; returns when it first came within the 5 %. */
static f64 tune(struct loader *l, f64 rate)
{
    f64  begin = now_s(), reached = NAN;
    char line[LOADER_LINE_MAX];
    while (now_s() < begin + tune_s) {
        f64 at = now_s() - begin;
        if (rate_for(l, 0.5) >= allowed * rate && !(reached >= 0)) reached = at + 0.5;
        while (loader_says(l, line)) printf("    %4.1f s  %s\n", now_s() - begin, line);
    }
    return reached;
}

/* Until it has made all that it may ahead; so long that it takes it for a pause, and no slow caller. */
static void rest(struct loader *l)
{
    os_real()->sleep_ns(os_real(), (i64)(pause_s * 1e9));
    for (i64 before = -1; before != made(l);) {
        before = made(l);
        os_real()->sleep_ns(os_real(), (i64)(warm_s * 1e9));
    }
}

static bool row(const struct mix *m, struct arena perm)
{
    struct dataset d = { .format = &format_made, .os = os_real(), .state = (void *)m };
    f64            fixed[ROUNDS], tuned[ROUNDS];
    d.count[SPLIT_TRAIN] = SAMPLES;
    dataset_add_feed(&d, STR("x"), type_of(DT_F32, shape_1(1)), 0);
    printf("%s: a sample computes %lld + %lld + %lld us and sleeps %lld + %lld + %lld us\n",
           m->name, (long long)m->compute_us[0], (long long)m->compute_us[1],
           (long long)m->compute_us[2], (long long)m->sleep_us[0], (long long)m->sleep_us[1],
           (long long)m->sleep_us[2]);
    struct choice  best    = search(&d, perm);
    struct loader *l       = open_loader(&d, &perm, (struct loader_options){ 0 }, 0);
    f64            reached = tune(l, best.rate);
    struct loader *other   = open_fixed(&d, &perm, &best);
    for (i64 i = 0; i < ROUNDS; i++) { /* what lies ready when its turn comes does not count */
        (void)rate_for(other, warm_s);
        fixed[i] = rate_for(other, round_s);
        rest(other);
        (void)rate_for(l, warm_s);
        tuned[i] = rate_for(l, round_s);
        rest(l);
    }
    struct loader_stats s     = loader_stats(l);
    f64                 ratio = median(tuned) / median(fixed);
    printf(
        "  best fixed  read %3lld  decode %3lld  augment %3lld  prefetch %2lld  %8.1f samples/s\n",
        (long long)best.workers[0], (long long)best.workers[1], (long long)best.workers[2],
        (long long)best.prefetch, median(fixed));
    printf(
        "  tuned       read %3lld  decode %3lld  augment %3lld  prefetch %2lld  %8.1f samples/s  "
        "%.3f of it, within 5 %% after %.1f s\n",
        (long long)s.stage[0].workers, (long long)s.stage[1].workers, (long long)s.stage[2].workers,
        (long long)s.prefetch, median(tuned), ratio, reached);
    loader_close(other);
    loader_close(l);
    return ratio >= allowed;
}

int main(int argc, char **argv)
{
    struct arena perm = arena_open((i64)1 << 30);
    bool         good = true;
    calibrate();
    printf("%d cores; from one thread a stage and one batch ahead, %.0f s\n",
           pool_machine_threads(), tune_s);
    for (i64 i = 0; i < COUNT_OF(mixes); i++) {
        bool asked = argc < 2;
        for (int a = 1; a < argc; a++) asked = asked || !strcmp(argv[a], mixes[i].name);
        if (asked) good = row(&mixes[i], perm) && good;
        fflush(stdout);
    }
    return good ? 0 : 1;
}
