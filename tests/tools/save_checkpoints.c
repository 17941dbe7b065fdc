/* save_checkpoints.c - FOLDER COUNT [KEEP]: writes so many small checkpoints, as a trainer would, for the
 * tests that look at them from outside. Step 10 i has w = i, i + 0.5, … and the loss 1 / i, but that of
 * the second is the lowest. */
#include "store/checkpoint.h"
#include <stdio.h>
#include <stdlib.h>

enum { FLOATS = 1000 };

static enum status save(struct ckpt_store *s, i64 i, struct arena memory, struct err *err)
{
    f32             *w       = NEW(&memory, f32, FLOATS);
    struct arena     perm    = arena_part(&memory, 1 << 16);
    struct st_tensor tensors = {
        STR("w"), STR("F32"), shape_2(10, FLOATS / 10), { (char *)w, FLOATS * 4 }
    };
    struct st_tensor     steps   = { STR("step"), STR("I64"), shape_1(1), { (char *)&i, 8 } };
    struct ckpt_part     parts[] = { { STR("weights"), &tensors, 1, STR("") },
                                     { STR("state"), &steps, 1, STR("") } };
    struct ckpt_manifest m       = { .id     = { .step = 10 * i, .attempt = 1 },
                                     .run    = STR("test"),
                                     .metric = STR("loss"),
                                     .value  = i == 2 ? 0.01 : 1 / (f64)i,
                                     .state  = STR("{\"threads\":2}") };
    for (i64 k = 0; k < FLOATS; k++) w[k] = (f32)i + 0.5f * (f32)k;
    return ckpt_write(s, &m, parts, 2, &perm, memory, err);
}

int main(int argc, char **argv)
{
    struct arena       memory = arena_open((i64)1 << 30);
    struct ckpt_store *s;
    struct err         err = { 0 };
    if (argc < 3) return fprintf(stderr, "usage: %s FOLDER COUNT [KEEP]\n", argv[0]), 2;
    enum status st = ckpt_store_open(os_real(), str_of(argv[1]), &memory, &s, &err);
    for (i64 i = 1; i <= atoll(argv[2]) && !st; i++) {
        st = save(s, i, memory, &err);
        if (!st && argc > 3) st = ckpt_prune(s, atoll(argv[3]), memory, &err);
    }
    if (st) fprintf(stderr, "%s\n", err.text);
    else ckpt_store_close(s);
    return (int)st;
}
