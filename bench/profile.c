/* profile.c - where the time of a step goes: `bench_profile [--each] RUN.YAML [key=value…]`.
 *
 * Opens the run as `frugal train` does, feeds it one batch and times the instructions of its
 * programs again and again; the smallest counts, because what disturbs only adds. One line a
 * pair of op and kernel, or with --each one an instruction. FLOPs and bytes are the op table's; `roof`
 * is the time these would take over the time they took: FLOPs at the target's peak, bytes as a copy of
 * as many takes, timed here on a GPU, and at the measured bandwidth on a processor. */
#include "train/config.h"
#include "run/op_table.h"
#include "train/train_int.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS_MIN = 5, PERM_GIB = 64 };
static const f64 budget_s = 2; /* of a program, beyond the fewest repeats */

static const char *const program_names[PROGRAM_COUNT] = {
    [PROGRAM_TRAIN] = "train",         [PROGRAM_TRAIN_LAST] = "train, last batch",
    [PROGRAM_ADD] = "train, adding",   [PROGRAM_ADD_LAST] = "train, adding, last batch",
    [PROGRAM_UPDATE] = "update",       [PROGRAM_EVAL] = "eval",
    [PROGRAM_EVAL_LAST] = "eval, last batch",
};

static void check(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "bench_profile: %s\n", err->text);
    exit((int)st);
}

/* One batch and the scalars of a first step. */
static void feed(struct session *s)
{
    const struct train_config *t     = &s->settings->train;
    const struct feeds        *feeds = dataset_feeds(s->data);
    bool                       sgd   = s->config.optimiser == OPTIMISER_SGD;
    struct loader_config       c     = { .split = SPLIT_TRAIN, .seed = t->seed, .shuffle = true,
                                         .batch = s->config.batch };
    f32 hyper[4] = { (f32)t->lr, (f32)(sgd ? t->momentum : t->beta1), (f32)t->beta2, 1 };
    f32 seed     = 1 / (f32)(s->config.batch * model_rows(s->model));
    i32 rng[4]   = { (i32)t->seed };

    struct loader *loader;
    struct err     err;
    check(loader_open(s->perm, s->data, &c, &loader, &err), &err);
    struct batch *b = loader_next(loader);
    for (i32 f = 0; f < feeds->count; f++)
        session_put(s, feeds->feed[f].name, b->data[f], b->count * type_bytes(feeds->feed[f].type));
    session_put(s, STR("hyper"), hyper, sizeof hyper);
    session_put(s, STR("loss_seed"), &seed, sizeof seed);
    session_put(s, STR("rng"), rng, sizeof rng);
    loader_close(loader);
}

/* Smallest seconds of each instruction, and of the whole program without looking inside. */
static f64 measure(struct session *s, const struct program *p, f64 *seconds, struct arena scratch)
{
    const struct backend_table *b    = s->backend->table;
    f64                        *once = NEW(&scratch, f64, MAX(1, p->instr_count));
    f64                         whole = 0;
    i64                         start_ns = s->os->now_ns(s->os), begin_ns = start_ns;
    for (i64 r = 0; r < REPEATS_MIN || (f64)(begin_ns - start_ns) * 1e-9 < budget_s; r++) {
        begin_ns = s->os->now_ns(s->os);
        b->wait(s->backend, b->run(s->backend, p));
        f64 run_s = (f64)(s->os->now_ns(s->os) - begin_ns) * 1e-9;
        whole     = r ? MIN(whole, run_s) : run_s;
        b->time(s->backend, p, once);
        for (i32 i = 0; i < p->instr_count; i++)
            seconds[i] = r ? MIN(seconds[i], once[i]) : once[i];
    }
    return whole;
}

static void profile(struct session *s, enum program_id id, bool each)
{
    const struct program *p = program_typical(s->set, id);
    if (!p || id == PROGRAM_TRAIN_LAST) return;
    struct arena scratch = s->scratch;
    f64         *seconds = NEW(&scratch, f64, MAX(1, p->instr_count));
    f64          whole   = measure(s, p, seconds, scratch), sum = 0;
    struct op_table t    = op_table_new(&scratch, p->instr_count);
    op_table_add(&t, p, &s->target, seconds, 1, each ? OPS_EACH : OPS_BY_KERNEL, &scratch);
    op_table_sort(&t, OPS_TIME);
    for (i64 i = 0; i < t.count; i++) sum += t.rows[i].seconds;

    printf("program %s: %.3f ms, by instruction %.3f ms, %d instructions\n", program_names[id],
           whole * 1e3, sum * 1e3, p->instr_count);
    printf("  %-22s %-24s %5s %9s %6s %8s %7s %5s\n", "op", each ? "what" : "kernel", "count", "ms",
           "share", "GFLOP/s", "GB/s", "roof");
    for (i64 i = 0; i < t.count; i++) {
        const struct op_row *r  = &t.rows[i];
        f64                  by = r->seconds > 0 ? r->seconds : INFINITY; /* another's kernel did the work */
        printf("  %-22.*s %-24.*s %5lld %9.3f %5.1f%% %8.1f %7.1f %4.0f%%\n", STR_ARG(r->op),
               STR_ARG(r->what), (long long)r->calls, r->seconds * 1e3, 100 * r->seconds / sum,
               r->cost.flops / by * 1e-9, r->cost.bytes / by * 1e-9, 100 * r->roof_s / by);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    bool each = argc > 1 && !strcmp(argv[1], "--each");
    argv += each;
    argc -= each;
    if (argc < 2) {
        fprintf(stderr, "bench_profile [--each] RUN.YAML [key=value...]\n");
        return STATUS_USAGE;
    }
    struct arena   perm      = arena_open((i64)PERM_GIB << 30);
    struct str    *overrides = NEW(&perm, struct str, argc);
    struct config *config;
    struct session s;
    struct err     err;
    for (int i = 2; i < argc; i++) overrides[i - 2] = str_of(argv[i]);
    check(config_read(os_real(), &perm, STR("train"), str_of(argv[1]), overrides, argc - 2, &config, &err), &err);
    check(session_open(&s, os_real(), &config->settings, &perm, &err), &err);
    if (s.backend->table->rate) s.backend->table->rate(s.backend, &s.target);
    check(session_start(&s, &err), &err);
    feed(&s);
    if (s.target.copy_s)
        printf("a copy that moves 1 GiB: %.1f GB/s; peak of bf16 products: %.1f TFLOP/s\n\n",
               0x1p30 / s.target.copy_s(&s.target, 0x1p30) * 1e-9, s.target.flops_s[DT_BF16] * 1e-12);
    for (i32 id = 0; id < PROGRAM_COUNT; id++) profile(&s, (enum program_id)id, each);
    session_close(&s);
    arena_close(&perm);
    return STATUS_OK;
}
