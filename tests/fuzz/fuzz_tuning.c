/* fuzz_tuning.c - any bytes as kept choices of kernels: refused with a sentence and nothing added, or
 * printed as what reads back the same. */
#include "backend/cuda/tuning.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct tuning *empty(struct arena *perm)
{
    struct tuning *t = NEW(perm, struct tuning, 1);
    t->gpu           = STR("NVIDIA H200");
    t->library       = 130200;
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena   perm = arena_open(1 << 26), scratch = arena_open(1 << 26);
    struct tuning *t = empty(&perm), *again = empty(&perm);
    struct err     err  = { 0 };
    struct str     text = { (const char *)data, (i64)bytes };
    if (tuning_parse(t, text, scratch, &err)) {
        ASSERT(err.text[0] != '\0');
        ASSERT(!t->count);
        ASSERT(!t->conv_count);
    } else {
        struct str printed = tuning_print(t, &perm);
        ASSERT(!tuning_parse(again, printed, scratch, &err));
        ASSERT(again->count == t->count);
        ASSERT(again->conv_count == t->conv_count);
        ASSERT(str_eq(tuning_print(again, &perm), printed));
    }
    arena_close(&perm);
    arena_close(&scratch);
    return 0;
}
