/* fuzz_runs.c - any bytes as a table of runs: refused with a sentence, or every run has a size,
 * tokens and a loss above 0, and a law is found or refused. */
#include "plan/scaling.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena all;
    if (!all.begin) all = arena_open((i64)1 << 28);
    struct arena      perm = all;
    struct run_point *points;
    struct fitted_law fit;
    struct err        err = { 0 };
    i64               count;
    struct str        text = { (const char *)data, (i64)bytes };
    if (law_points_read(STR("fuzz"), text, &perm, &points, &count, &err)) {
        ASSERT(err.text[0]);
        return 0;
    }
    for (i64 i = 0; i < count; i++) ASSERT(points[i].parameters * points[i].tokens > 0);
    if (count > 32) return 0; /* a fit takes milliseconds a run */
    if (!law_fit(points, count, 2, 1, perm, &fit, &err)) ASSERT(isfinite(fit.law.e));
    return 0;
}
