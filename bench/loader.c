/* loader.c - how many pictures a second the loader makes on one core, and on more.
 *
 *     cmake --build build --target bench_photos --target bench_loader
 *     build/bench_photos build/bench/photos && build/bench_loader build/bench/photos [SECONDS [CORES…]]
 *
 * Random-resized crop to 224 → flip → normalise, f32, in batches of 64, read from the page cache. For 1, 2,
 * 4, … and all cores that this process may use (or CORES): pictures a second, a core, and as a part of what
 * one core makes times their number. The process is held on so many cores, with as many threads for each
 * stage; SECONDS (4) are measured after two batches. Needs no Python. */
#include "base/pool.h"
#include "data/data.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 64, WARM_BATCHES = 2, CORES_MAX = 1024 };

static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

static _Noreturn void fail(const struct err *err)
{
    fprintf(stderr, "%s\n", err->text);
    exit((int)err->status);
}

/* Holds the process on the first `count` of `all`. */
static void hold(const cpu_set_t *all, i64 count)
{
    cpu_set_t some;
    CPU_ZERO(&some);
    for (size_t i = 0; i < CPU_SETSIZE && count > 0; i++)
        if (CPU_ISSET(i, all)) {
            CPU_SET(i, &some);
            count--;
        }
    sched_setaffinity(0, sizeof some, &some);
}

static f64 pictures_s(struct dataset *d, i64 cores, f64 seconds, struct arena perm)
{
    struct loader_config c = { .split   = SPLIT_TRAIN,
                               .shuffle = true,
                               .forever = true,
                               .batch   = BATCH,
                               .options = { .workers       = { cores, cores, cores },
                                            .workers_count = STAGE_COUNT,
                                            .prefetch      = 2 + cores / 8,
                                            .keep          = STR("off") } };
    struct loader       *l;
    struct err           err;
    f64                  begin = 0;
    i64                  count = 0;
    if (loader_open(&perm, d, &c, &l, &err)) fail(&err);
    for (i64 i = 0; i <= WARM_BATCHES || now_s() - begin < seconds; i++) {
        struct batch *b = loader_next(l);
        if (!b) {
            loader_failed(l, &err);
            fail(&err);
        }
        if (i == WARM_BATCHES) begin = now_s();
        if (i > WARM_BATCHES) count += b->count;
    }
    f64 rate = (f64)count / (now_s() - begin);
    loader_close(l);
    return rate;
}

int main(int argc, char **argv)
{
    struct arena       perm    = arena_open((i64)64 << 30);
    struct data_config config  = { .kind            = STR("images"),
                                   .path            = str_of(argc > 1 ? argv[1] : ""),
                                   .image_size      = 224,
                                   .image_colour    = true,
                                   .augment         = { STR("crop"), STR("flip") },
                                   .augment_count   = 2,
                                   .image_normalise = STR("imagenet") };
    f64                seconds = argc > 2 ? atof(argv[2]) : 4, one = 0;
    i64                most = pool_machine_threads(), cores[CORES_MAX], count = 0;
    struct dataset    *d;
    struct err         err;
    cpu_set_t          all;
    if (argc < 2) {
        fprintf(stderr, "bench_loader FOLDER [SECONDS [CORES...]]\n");
        return 2;
    }
    sched_getaffinity(0, sizeof all, &all);
    for (i64 k = 1; k < most; k *= 2) cores[count++] = k;
    cores[count++] = most;
    for (int i = 3; i < argc && i - 3 < CORES_MAX; i++) {
        count        = i - 2;
        cores[i - 3] = atoll(argv[i]);
    }
    if (dataset_open(os_real(), &config, &perm, &d, &err)) fail(&err);
    pictures_s(d, most, 0, perm); /* the files are in the page cache afterwards */
    printf("cores  img/s  img/s a core  scaling\n");
    for (i64 i = 0; i < count; i++) {
        hold(&all, cores[i]);
        f64 rate = pictures_s(d, cores[i], seconds, perm), each = rate / (f64)cores[i];
        if (!i) one = each;
        printf("%5lld %6.0f %13.0f %7.0f %%\n", (long long)cores[i], rate, each, 100 * each / one);
        fflush(stdout);
    }
    dataset_close(d);
    return 0;
}
