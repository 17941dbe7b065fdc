/* fuzz_known.c - any bytes as a config.json: refused with a sentence, or a shape whose parameters are
 * a number above 0, and a model of ours that is built or refused. */
#include "plan/known.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena all;
    if (!all.begin) all = arena_open((i64)1 << 30);
    struct arena  perm = all;
    struct known  k;
    struct model *m;
    struct str    differs;
    struct err    err = { 0 };
    if (known_read(STR("fuzz"), (struct str){ (const char *)data, (i64)bytes }, &perm, &k, &err)) {
        ASSERT(err.text[0]);
        return 0;
    }
    ASSERT(known_parameters(&k) > 0);
    ASSERT(isfinite(known_flops_per_token(&k, k.context).matrices));
    if (k.depth <= 48 && known_model_new(&k, k.depth, k.context, NULL, &perm, &m, &differs, &err))
        ASSERT(err.text[0]);
    return 0;
}
