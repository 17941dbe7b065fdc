/* fuzz_prices.c - any bytes as a price list (the first byte says of which format) or as a user's
 * file: refused with a sentence, or every machine found goes into the catalogue, and its text reads
 * back. */
#include "plan/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct str format_of(uint8_t byte)
{
    switch (byte) {
    case 'a': return STR("aws");
    case 'g': return STR("gcp");
    case 'z': return STR("azure");
    case 's': return STR("skypilot");
    default: return STR("");
    }
}

static void lay_over(struct arena *perm, struct str text, bool must)
{
    struct err        err = { 0 };
    struct catalogue *c   = catalogue_new(perm);
    if (catalogue_merge(c, perm, STR("fuzz"), text, &err)) ASSERT(!must && err.text[0]);
    for (i64 i = 0; i < c->machine_count; i++) {
        const struct machine *m = &c->machines[i];
        ASSERT(m->gpu.len ? catalogue_gpu(c, m->gpu) != NULL : m->gpus == 0);
        ASSERT(!(m->on_demand_usd_h < 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena all;
    if (!all.begin) all = arena_open((i64)1 << 30);
    struct arena    perm  = all;
    struct str      text  = { (const char *)data, (i64)bytes };
    struct import   how   = { .format = bytes ? format_of(data[0]) : STR(""), .region = STR("us") };
    struct imported found = { 0 };
    struct err      err   = { 0 };
    if (str_eq(how.format, STR("gcp"))) how.region = STR("us-central1");
    if (str_eq(how.format, STR("azure"))) how.region = STR("eastus");
    if (!how.format.len) {
        lay_over(&perm, text, false);
        return 0;
    }
    text = str_sub(text, 1, text.len);
    if (prices_import(catalogue_new(&perm), &how, STR("aws/vms.csv"), text, &perm, &found, &err)) {
        ASSERT(err.text[0]);
        return 0;
    }
    struct str out;
    ASSERT(
        !prices_merge_text(&perm, STR("fuzz"), STR(""), found.machines, found.count, &out, &err));
    lay_over(&perm, out, true);
    return 0;
}
