/* fuzz_manifest.c - any bytes as a checkpoint's manifest, as they are and with the seal that would fit
 * them: refused with a sentence, or read; and what was read is written and read again the same. */
#include "base/hash.h"
#include "store/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void try_text(struct str text, struct arena perm)
{
    struct ckpt_manifest m, again;
    struct err           err = { 0 };
    if (ckpt_manifest_parse(STR("fuzz"), text, &perm, &m, &err)) {
        ASSERT(err.text[0] != '\0');
        return;
    }
    ASSERT(ckpt_bytes(&m) >= 0);
    struct str written = ckpt_manifest_text(&perm, &m);
    ASSERT(!ckpt_manifest_parse(STR("again"), written, &perm, &again, &err));
    ASSERT(str_eq(ckpt_manifest_text(&perm, &again), written));
    ASSERT(again.shard_count == m.shard_count);
    ASSERT(str_eq(again.state, m.state));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena memory;
    if (!memory.begin) memory = arena_open((i64)1 << 28);
    struct arena perm = memory;
    struct str   text = { (const char *)data, (i64)bytes };
    try_text(text, perm);
    try_text(str_fmt(&perm, "%.*s\"seal\":\"%016llx\"}\n", STR_ARG(text),
                     (unsigned long long)xxh64(text)),
             perm);
    return 0;
}
