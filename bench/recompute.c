/* recompute.c - what recomputation takes and gives: `bench_recompute ROUNDS RUN.YAML [key=value…]`.
 *
 * Every fixed policy, then `auto` at five budgets between the least and the most memory of those.
 * All are compiled first and then run in turn, round after round, so that whatever disturbs meets
 * all of them. One JSON object a policy: the plan (peak of memory, FLOPs, seconds by the time of its
 * kernels), what was measured (highest byte written, least and median seconds of forward and
 * backward, in time of the processor), and how long compile took. bench/recompute.py makes the table. */
#include "train/config.h"
#include "train/train_int.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS_MAX = 1000, FIXED = 7, AUTO = 5, PERM_GIB = 64 };

struct policy {
    struct str      recompute;
    i64             budget_bytes; /* auto */
    struct settings settings;
    struct session  s;
    f64             compile_s;
    f64             seconds[ROUNDS_MAX];
};

static void check(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "bench_recompute: %s\n", err->text);
    exit((int)st);
}

/* One batch and the scalars of a first step. */
static void feed(struct session *s, struct arena *perm)
{
    const struct feeds  *feeds = dataset_feeds(s->data);
    struct loader_config c     = { .split = SPLIT_TRAIN, .batch = s->config.batch };
    struct loader       *loader;
    struct err           err;
    check(loader_open(perm, s->data, &c, &loader, &err), &err);
    struct batch *b = loader_next(loader);
    for (i32 f = 0; f < feeds->count; f++)
        session_put(s, feeds->feed[f].name, b->data[f], b->count * type_bytes(feeds->feed[f].type));
    session_put_scalars(s, 0, b->count * model_rows(s->model), 0, s->settings->train.lr);
    loader_close(loader);
}

/* The process's own time: with one thread it passes as the clock does where nothing else runs, and
 * stands still while something else does. */
static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (f64)t.tv_sec + (f64)t.tv_nsec * 1e-9;
}

static void open_policy(struct policy *p, const struct settings *base, struct arena *perm)
{
    struct err err;
    f64        begin                  = now_s();
    p->settings                       = *base;
    p->settings.train.recompute       = p->recompute;
    if (p->budget_bytes) p->settings.train.memory_gib = (f64)p->budget_bytes / 0x1p30;
    check(session_open(&p->s, os_real(), &p->settings, perm, &err), &err);
    p->compile_s = now_s() - begin;
    check(session_start(&p->s, &err), &err);
    feed(&p->s, perm);
}

static void run_once(struct policy *p, i64 round)
{
    const struct backend_table *b     = p->s.backend->table;
    f64                         begin = now_s();
    b->wait(p->s.backend, b->run(p->s.backend, program_typical(p->s.set, PROGRAM_TRAIN)));
    p->seconds[round] = now_s() - begin;
}

/* By the same timings for all: those of the first session. */
static f64 planned_seconds(const struct policy *p, const struct target *target)
{
    const struct program *prog = program_typical(p->s.set, PROGRAM_TRAIN);
    f64                   sum  = 0;
    for (i32 i = 0; i < prog->instr_count; i++)
        sum += target_seconds(target, prog->graph, &prog->graph->nodes[prog->instrs[i].node],
                              p->s.scratch);
    return sum;
}

static int by_value(const void *a, const void *b)
{
    f64 x = *(const f64 *)a, y = *(const f64 *)b;
    return (x > y) - (x < y);
}

static void print(struct policy *p, i64 rounds, const struct target *target)
{
    const struct program *prog = program_typical(p->s.set, PROGRAM_TRAIN);
    struct cost           cost = program_cost(prog, p->s.scratch);
    qsort(p->seconds, (size_t)rounds, sizeof *p->seconds, by_value);
    printf("{\"policy\":\"%.*s", STR_ARG(p->recompute));
    printf("\",\"budget_bytes\":%lld,\"persistent_bytes\":%lld,\"planned_bytes\":%lld,"
           "\"measured_bytes\":%lld,\"flops\":%.0f,\"planned_s\":%.6f,\"least_s\":%.6f,"
           "\"median_s\":%.6f,\"compile_s\":%.3f}\n",
           (long long)p->budget_bytes, (long long)p->s.set->persistent_bytes,
           (long long)prog->bytes, (long long)p->s.backend->table->used_bytes(p->s.backend),
           cost.flops, planned_seconds(p, target), p->seconds[0], p->seconds[rounds / 2],
           p->compile_s);
}

int main(int argc, char **argv)
{
    static const i64 every[FIXED] = { 0, 1, 2, 3, 4, 6, 8 };
    i64              rounds       = argc > 2 ? atoi(argv[1]) : 0;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "bench_recompute ROUNDS RUN.YAML [key=value...]\n");
        return STATUS_USAGE;
    }
    struct arena   perm      = arena_open((i64)PERM_GIB << 30);
    struct str    *overrides = NEW(&perm, struct str, argc);
    struct policy *all       = NEW(&perm, struct policy, FIXED + AUTO);
    struct config *config;
    struct err     err;
    for (int i = 3; i < argc; i++) overrides[i - 3] = str_of(argv[i]);
    check(config_read(os_real(), &perm, STR("train"), str_of(argv[2]), overrides, argc - 3, &config, &err), &err);
    for (i32 i = 0; i < FIXED; i++) {
        all[i].recompute = every[i] > 1 ? str_fmt(&perm, "%lld", (long long)every[i])
                           : every[i]   ? STR("all")
                                        : STR("none");
        open_policy(&all[i], &config->settings, &perm);
    }
    i64 most  = all[0].s.set->programs[PROGRAM_TRAIN]->bytes;
    i64 least = all[1].s.set->programs[PROGRAM_TRAIN]->bytes;
    for (i32 i = 0; i < AUTO; i++) {
        struct policy *p = &all[FIXED + i];
        p->recompute     = STR("auto");
        p->budget_bytes  = most - (most - least) * (i + 1) / AUTO;
        open_policy(p, &config->settings, &perm);
    }
    for (i64 r = -1; r < rounds; r++) { /* the first one warms up */
        for (i32 i = 0; i < FIXED + AUTO; i++) run_once(&all[i], MAX(r, 0));
    }
    for (i32 i = 0; i < FIXED + AUTO; i++) print(&all[i], rounds, &all[0].s.target);
    for (i32 i = 0; i < FIXED + AUTO; i++) session_close(&all[i].s);
    arena_close(&perm);
    return STATUS_OK;
}
