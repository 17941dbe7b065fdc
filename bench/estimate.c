/* estimate.c - steps on this processor, predicted and measured: `bench_estimate SECONDS RUN.YAML [key=value…] --
 * RUN.YAML …`, or `bench_estimate --rates` to print what the calibration finds.
 *
 * Rates are learned from the small models of plan/calibrate.c, then each run is compiled, its step
 * (gradients and update) predicted, and run for SECONDS; the least counts, in time of the processor by
 * one thread, which stands still while others run. One JSON object a run. */
#include "plan/estimate.h"
#include "train/config.h"
#include "plan/calibrate.h"
#include "train/train_int.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PERM_GIB = 64, REPEATS_MIN = 5, OVERRIDES_MAX = 64 };

static void check(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "bench_estimate: %s\n", err->text);
    exit((int)st);
}

static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

static enum status open_cpu(void *context, struct arena *perm, struct backend **out,
                            struct err *err)
{
    (void)context;
    return backend_cpu_open(perm, 1, BACKEND_FAST, out, err);
}

/* One batch and the scalars of a first step. */
static void feed(struct session *s)
{
    const struct feeds  *feeds = dataset_feeds(s->data);
    struct loader_config c     = { .split = SPLIT_TRAIN, .batch = s->config.batch };
    struct loader       *loader;
    struct err           err;
    check(loader_open(s->perm, s->data, &c, &loader, &err), &err);
    struct batch *b = loader_next(loader);
    for (i32 f = 0; f < feeds->count; f++)
        session_put(s, feeds->feed[f].name, b->data[f], b->count * type_bytes(feeds->feed[f].type));
    session_put_scalars(s, 0, b->count * model_rows(s->model), 0, s->settings->train.lr);
    loader_close(loader);
}

static f64 least_s(struct session *s, enum program_id id, f64 budget_s)
{
    const struct backend_table *b     = s->backend->table;
    f64                         least = 1e9, begin = now_s();
    for (i32 i = 0; i < REPEATS_MIN || now_s() - begin < budget_s; i++) {
        f64 from = now_s();
        b->wait(s->backend, b->run(s->backend, program_typical(s->set, id)));
        least = MIN(least, now_s() - from);
    }
    return least;
}

/* Another compilation than the session's, for as much memory as it wants. */
static i64 planned_bytes(const struct session *s, struct arena scratch)
{
    struct arena        perm   = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct target       target = s->target;
    struct program_set *set;
    struct err          err;
    target.memory_bytes = 0;
    check(compile(&perm, &target, &s->config, model_build, s->model, &set, scratch, &err), &err);
    return set->arena_bytes;
}

static struct estimate predict(const struct session *s, const struct device *d,
                                struct arena scratch)
{
    struct step_work  w     = { 0 };
    struct step_shape shape = { .micro = 1, .accumulate = 1, .gpus = 1, .gradient_part = 1 };
    struct arena      perm  = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    w.train                 = work_of_program(&perm, program_typical(s->set, PROGRAM_TRAIN), scratch);
    w.update                = work_of_program(&perm, s->set->programs[PROGRAM_UPDATE], scratch);
    return estimate_step(d, &w, DT_F32, &shape);
}

static void compare(const char *file, const struct str *overrides, i64 count,
                    const struct device *d, f64 budget_s, struct arena perm)
{
    struct config *config;
    struct session s;
    struct err     err;
    check(config_read(os_real(), &perm, STR("train"), str_of(file), overrides, count, &config, &err), &err);
    config->settings.train.threads = 1;
    check(session_open(&s, os_real(), &config->settings, &perm, &err), &err);
    check(session_start(&s, &err), &err);
    feed(&s);
    for (i32 id = 0; id < PROGRAM_COUNT; id++) { /* all that touch memory */
        if (s.set->programs[id]) least_s(&s, (enum program_id)id, 0);
    }
    i64             told_bytes = planned_bytes(&s, s.scratch);
    struct estimate told       = predict(&s, d, s.scratch);
    f64 seen = least_s(&s, PROGRAM_TRAIN, budget_s) + least_s(&s, PROGRAM_UPDATE, budget_s / 4);
    printf("{\"told_ms\": %.4f, \"seen_ms\": %.4f, \"guessed\": %s, \"told_bytes\": %lld, "
           "\"used_bytes\": %lld}\n",
           told.step_s * 1e3, seen * 1e3, told.guessed ? "true" : "false", (long long)told_bytes,
           (long long)s.backend->table->used_bytes(s.backend));
    fflush(stdout);
    session_close(&s);
}

int main(int argc, char **argv)
{
    struct arena perm = arena_open((i64)PERM_GIB << 30), scratch = arena_open((i64)PERM_GIB << 30);
    static struct rates rates;
    struct rate_sample *samples;
    struct backend     *b;
    struct target       target;
    struct err          err;
    i64                 count;
    if (argc < 2) return STATUS_USAGE;
    check(calibrate(&perm, open_cpu, NULL, &samples, &count, scratch, &err), &err);
    check(open_cpu(NULL, &perm, &b, &err), &err);
    b->table->describe(b, &target);
    b->table->rate(b, &target);
    b->table->close(b);
    rates_fit(&rates, &target, samples, count);
    if (!strcmp(argv[1], "--rates")) printf("%.*s", STR_ARG(rates_print(&rates, &perm)));
    struct device d = device_here(&target, &rates, NAN);
    for (int i = 2; i < argc;) {
        struct str  overrides[OVERRIDES_MAX];
        const char *file = argv[i++];
        i64         n    = 0;
        while (i < argc && strcmp(argv[i], "--") && n < OVERRIDES_MAX)
            overrides[n++] = str_of(argv[i++]);
        i++;
        compare(file, overrides, n, &d, strtod(argv[1], NULL), perm);
    }
    return STATUS_OK;
}
