#include "support/shards.h"
#include "base/rng.h"
#include "data/tar.h"

void tar_add(struct textbuf *tar, struct str name, struct str bytes)
{
    static const char zeros[TAR_BLOCK];
    char              block[TAR_BLOCK];
    ASSERT(tar_header(block, name, bytes.len));
    textbuf_add(tar, (struct str){ block, TAR_BLOCK });
    textbuf_add(tar, bytes);
    textbuf_add(tar, (struct str){ zeros, (TAR_BLOCK - bytes.len % TAR_BLOCK) % TAR_BLOCK });
}

void tar_end(struct textbuf *tar)
{
    static const char zeros[2 * TAR_BLOCK];
    textbuf_add(tar, (struct str){ zeros, sizeof zeros });
}

static struct str jpg_of(struct arena *perm, i64 number, i64 bytes)
{
    char *to = NEW(perm, char, bytes);
    for (i64 i = 0; i < bytes; i++) to[i] = (char)rng_mix((u64)(number * 1000003 + i));
    return (struct str){ to, bytes };
}

struct str shard_bytes(struct arena *perm, i64 first, i64 count, i64 bytes)
{
    struct arena   own = arena_part(perm, 1 << 20);
    struct textbuf tar = textbuf_new(perm);
    for (i64 n = first; n < first + count; n++) {
        struct arena turn = own;
        tar_add(&tar, str_fmt(&turn, "set/%06lld.jpg", (long long)n), jpg_of(&turn, n, bytes));
        tar_add(&tar, str_fmt(&turn, "set/%06lld.cls", (long long)n),
                str_fmt(&turn, "%lld", (long long)n % 10));
    }
    tar_end(&tar);
    return textbuf_str(&tar);
}

bool shard_is(struct str jpg, i64 number, i64 bytes)
{
    if (jpg.len != bytes) return false;
    for (i64 i = 0; i < bytes; i++)
        if (jpg.data[i] != (char)rng_mix((u64)(number * 1000003 + i))) return false;
    return true;
}
