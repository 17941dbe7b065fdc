/* fuzz_shard.c - any bytes as a shard's index, its sum put right so that the tables are reached:
 * refused with a sentence, or all it speaks of lies within its shard. */
#include "base/hash.h"
#include "data/shard.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    enum { SUM_AT = 112, HEAD = 120 }; /* docs/formats/shards.md */
    struct arena       perm = arena_open((i64)bytes + (1 << 16));
    char              *copy = arena_take(&perm, (i64)bytes + 1, 1, 8);
    struct shard_index x;
    struct err         err = { 0 };
    memcpy(copy, data, bytes);
    if (bytes >= HEAD) {
        u64 sum = xxh64((struct str){ copy + HEAD, (i64)bytes - HEAD });
        memcpy(copy + SUM_AT, &sum, sizeof sum);
    }
    if (shard_index_parse(STR("fuzz"), (struct str){ copy, (i64)bytes }, &x, &err))
        ASSERT(err.text[0]);
    else
        for (i64 i = 0; i < x.count; i++) {
            i64 m = shard_payload(&x, i);
            ASSERT(m < x.member_count);
            for (i64 k = x.sample[i].first; k < x.sample[i + 1].first; k++) {
                struct str name = shard_member_name(&x, k);
                ASSERT(name.data >= copy && name.data + name.len <= copy + bytes);
                ASSERT(x.member[k].bytes <= x.shard_bytes - x.member[k].at);
            }
        }
    arena_close(&perm);
    return 0;
}
