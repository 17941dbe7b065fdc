/* fuse.c - what doing several ops in one pass gives: `bench_fuse ROUNDS RUN.YAML [key=value…]`.
 *
 * The step (gradients and update) compiled without fusion, with each pattern alone, with all, and once
 * more without; all of them are run in turn, round after round, so that whatever disturbs meets all. One JSON object a
 * set: instructions, bytes moved by the op table, least and median seconds in time of the processor,
 * which stands still while others run (so it wants train.threads=1). bench/fuse.py makes the table. */
#include "train/config.h"
#include "train/train_int.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS_MAX = 10000, SETS = FUSION_COUNT + 3, PERM_GIB = 64 };

struct set {
    struct str      name; /* none, a pattern, all */
    struct settings settings;
    struct session  s;
    f64             seconds[ROUNDS_MAX];
};

static const char *const names[SETS] = {
    "none",
#define FUSION(id, name, what) name,
    FUSIONS(FUSION)
#undef FUSION
    "all",
    "none", /* again: what differs from the first is noise */
};

static void check(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "bench_fuse: %s\n", err->text);
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

static void open_set(struct set *t, const struct settings *base, struct arena *perm)
{
    struct err err;
    t->settings                  = *base;
    t->settings.train.fuse[0]    = t->name;
    t->settings.train.fuse_count = 1;
    check(session_open(&t->s, os_real(), &t->settings, perm, &err), &err);
    check(session_start(&t->s, &err), &err);
    feed(&t->s, perm);
}

static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (f64)t.tv_sec + (f64)t.tv_nsec * 1e-9;
}

static void run_once(struct set *t, i64 round)
{
    const struct backend_table *b     = t->s.backend->table;
    f64                         begin = now_s();
    b->wait(t->s.backend, b->run(t->s.backend, program_typical(t->s.set, PROGRAM_TRAIN)));
    b->wait(t->s.backend, b->run(t->s.backend, t->s.set->programs[PROGRAM_UPDATE]));
    t->seconds[round] = now_s() - begin;
}

static int by_value(const void *a, const void *b)
{
    f64 x = *(const f64 *)a, y = *(const f64 *)b;
    return (x > y) - (x < y);
}

static void print(struct set *t, i64 rounds, bool again)
{
    const struct program *train = program_typical(t->s.set, PROGRAM_TRAIN);
    const struct program *update = t->s.set->programs[PROGRAM_UPDATE];
    f64 moved = program_cost(train, t->s.scratch).bytes + program_cost(update, t->s.scratch).bytes;
    qsort(t->seconds, (size_t)rounds, sizeof *t->seconds, by_value);
    printf("{\"set\":\"%.*s%s\",\"instructions\":%d,\"moved_bytes\":%.0f,\"arena_bytes\":%lld,"
           "\"least_s\":%.6f,\"median_s\":%.6f}\n",
           STR_ARG(t->name), again ? " again" : "", train->instr_count + update->instr_count, moved,
           (long long)t->s.set->arena_bytes, t->seconds[0], t->seconds[rounds / 2]);
}

int main(int argc, char **argv)
{
    i64 rounds = argc > 2 ? atoi(argv[1]) : 0;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "bench_fuse ROUNDS RUN.YAML [key=value...]\n");
        return STATUS_USAGE;
    }
    struct arena   perm      = arena_open((i64)PERM_GIB << 30);
    struct str    *overrides = NEW(&perm, struct str, argc);
    struct set    *all       = NEW(&perm, struct set, SETS);
    struct config *config;
    struct err     err;
    for (int i = 3; i < argc; i++) overrides[i - 3] = str_of(argv[i]);
    check(config_read(os_real(), &perm, STR("train"), str_of(argv[2]), overrides, argc - 3, &config, &err), &err);
    for (i32 i = 0; i < SETS; i++) {
        all[i].name = str_of(names[i]);
        open_set(&all[i], &config->settings, &perm);
    }
    for (i64 r = -1; r < rounds; r++) { /* the first one warms up */
        for (i32 i = 0; i < SETS; i++) run_once(&all[i], MAX(r, 0));
    }
    for (i32 i = 0; i < SETS; i++) print(&all[i], rounds, i == SETS - 1);
    for (i32 i = 0; i < SETS; i++) session_close(&all[i].s);
    arena_close(&perm);
    return STATUS_OK;
}
