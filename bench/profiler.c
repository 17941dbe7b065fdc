/* profiler.c - what looking at steps takes: `bench_profiler ROUNDS STEPS RUN.YAML [key=value…]`.
 *
 * In each round the run is made three times, in an order that turns: as it is; with a clock that is only read once in
 * 16 askings (what the split of time takes, and more: the loop asked the clock before it was there); and with all
 * steps profiled. Prints an object a round: seconds of a step of each, from the end of the first quarter of the steps
 * to the end of the last, in time of the processor of the training thread, which stands still while others run (so it
 * wants train.threads=1). */
#include "train/config.h"
#include "train/train.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PERM_GIB = 64, SELDOM = 16, VARIANTS = 3 };
enum variant { AS_IS, SELDOM_READ, PROFILED };

static void check(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "bench_profiler: %s\n", err->text);
    exit((int)st);
}

static i64 now_seldom(struct os *os)
{
    static _Thread_local i64 last, asked;
    (void)os;
    if (asked++ % SELDOM == 0) last = os_real()->now_ns(os_real());
    return last;
}

struct watch {
    i64 first, last; /* steps */
    f64 from_s, to_s;
};

static f64 processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

static void on_step(void *context, const struct event_step *p)
{
    struct watch *w = context;
    if (p->step == w->first) w->from_s = processor_s();
    if (p->step == w->last) w->to_s = processor_s();
}

static f64 step_s(struct settings s, enum variant variant, i64 steps)
{
    struct os             os     = *os_real();
    struct watch          w      = { .first = steps / 4, .last = steps };
    struct subscriber listen = { .context = &w, .on_step = on_step };
    struct train_result   result;
    struct err            err = { 0 };
    if (variant == SELDOM_READ) os.now_ns = now_seldom;
    s.profile.wait = 0;
    s.profile.active                  = variant == PROFILED ? steps : 0;
    check(train_run(&os, &s, &(struct train_with){ .to = &listen }, &result, &err), &err);
    return (w.to_s - w.from_s) / (f64)(w.last - w.first);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "bench_profiler ROUNDS STEPS RUN.YAML [key=value...]\n");
        return STATUS_USAGE;
    }
    i64            rounds = atoll(argv[1]), steps = atoll(argv[2]);
    struct arena   perm      = arena_open((i64)PERM_GIB << 30);
    struct str    *overrides = NEW(&perm, struct str, argc);
    struct config *config;
    struct err     err;
    for (int i = 4; i < argc; i++) overrides[i - 4] = str_of(argv[i]);
    check(config_read(os_real(), &perm, STR("train"), str_of(argv[3]), overrides, argc - 4, &config, &err), &err);
    struct settings *s   = &config->settings;
    s->train.steps       = steps;
    s->train.epochs      = 0;
    s->train.eval_every  = 10 * steps; /* the last step's comes after our clock has stopped */
    s->data.eval_samples = 1;
    s->train.target      = 0.0 / 0.0;
    for (i64 round = 0; round < rounds; round++) {
        f64 seconds[VARIANTS];
        for (i64 i = 0; i < VARIANTS; i++) {
            enum variant v = (enum variant)((round + i) % VARIANTS);
            seconds[v]     = step_s(*s, v, steps);
        }
        printf("{\"as_is_s\":%.9f,\"seldom_s\":%.9f,\"profiled_s\":%.9f}\n", seconds[AS_IS],
               seconds[SELDOM_READ], seconds[PROFILED]);
        fflush(stdout);
    }
    arena_close(&perm);
    return STATUS_OK;
}
