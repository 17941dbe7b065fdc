/* clicks.c - the made-up clicks of data.kind=synthetic_clicks as plain arrays, for another program to read.
 *
 *     cmake --build build --target bench_clicks && build/bench_clicks BUCKETS SAMPLES EVAL_SAMPLES FOLDER
 *
 * Writes FOLDER/train.dense (f32[SAMPLES, 13]), train.x (i32[SAMPLES, 26], rows of one table for all columns) and
 * train.y (f32[SAMPLES]), the same for eval, in the byte order of the machine. bench/run race feeds PyTorch from them,
 * so that both sides train on the same samples and neither pays for a parser. */
#include "base/os.h"
#include "data/data.h"
#include <stdio.h>
#include <stdlib.h>

enum { AT_ONCE = 4096, FEEDS = 3 };

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(3);
}

static void write_split(const struct dataset *d, enum split split, const char *folder, struct arena scratch)
{
    static const char *const names[SPLIT_COUNT] = { "train", "eval" };
    const struct feeds      *feeds              = dataset_feeds(d);
    FILE                    *file[FEEDS];
    void                    *rows[FEEDS];
    i64                      bytes[FEEDS], index[AT_ONCE], count = dataset_count(d, split);
    if (feeds->count != FEEDS) fail("clicks have dense, x and y");
    for (i64 f = 0; f < FEEDS; f++) {
        struct str path = str_fmt(&scratch, "%s/%s.%.*s", folder, names[split], STR_ARG(feeds->feed[f].name));
        bytes[f]        = type_bytes(feeds->feed[f].type);
        rows[f]         = NEW(&scratch, u8, AT_ONCE * bytes[f]);
        file[f]         = fopen(str_z(&scratch, path), "wb");
        if (!file[f]) fail("a file cannot be written");
    }
    for (i64 at = 0; at < count; at += AT_ONCE) {
        i64 some = MIN(count - at, AT_ONCE);
        for (i64 i = 0; i < some; i++) index[i] = at + i;
        dataset_fetch(d, split, index, some, rows);
        for (i64 f = 0; f < FEEDS; f++)
            if (fwrite(rows[f], (size_t)bytes[f], (size_t)some, file[f]) != (size_t)some) fail("the disk is full");
    }
    for (i64 f = 0; f < FEEDS; f++)
        if (fclose(file[f])) fail("the disk is full");
}

int main(int argc, char **argv)
{
    if (argc != 5) fail("usage: bench_clicks BUCKETS SAMPLES EVAL_SAMPLES FOLDER");
    struct arena       perm = arena_open((i64)1 << 30), scratch = arena_open((i64)1 << 24);
    struct data_config config = { .kind         = STR("synthetic_clicks"),
                                  .buckets      = atoll(argv[1]),
                                  .samples      = atoll(argv[2]),
                                  .eval_samples = atoll(argv[3]) };
    struct dataset    *d;
    struct err         err = { 0 };
    if (dataset_open(os_real(), &config, &perm, &d, &err)) fail(err.text);
    write_split(d, SPLIT_TRAIN, argv[4], scratch);
    write_split(d, SPLIT_EVAL, argv[4], scratch);
    dataset_close(d);
    return 0;
}
