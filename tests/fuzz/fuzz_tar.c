/* fuzz_tar.c - any bytes as a tar archive, the sums of its headers put right so that what is behind
 * them is reached: refused with a sentence, or every member lies within it and the index made from
 * them is one that can be read back. */
#include "data/shard.h"
#include "data/tar.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void seal(char *block)
{
    i64 sum = 8 * ' ';
    for (i64 i = 0; i < TAR_BLOCK; i++) sum += i >= 148 && i < 156 ? 0 : (u8)block[i];
    for (i64 digit = 153; digit >= 148; digit--, sum >>= 3) block[digit] = (char)('0' + (sum & 7));
    memcpy(block + 154, "\0 ", 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena       perm = arena_open((i64)bytes * 8 + (1 << 22));
    char              *copy = arena_take(&perm, (i64)bytes + 1, 1, 8);
    struct tar         t    = { .path = STR("fuzz"), .bytes = { copy, (i64)bytes } };
    struct tar_member  m;
    struct shard_index x;
    struct str         index;
    struct err         err = { 0 };
    enum status        st  = STATUS_OK;
    memcpy(copy, data, bytes);
    for (size_t at = 0; at + TAR_BLOCK <= bytes; at += TAR_BLOCK)
        if (!memcmp(copy + at + 257, "ustar", 5)) seal(copy + at);
    while (!st) {
        st = tar_next(&t, &perm, &m, &err);
        if (st) break;
        ASSERT(m.at >= TAR_BLOCK && m.bytes >= 0 && m.bytes <= (i64)bytes - m.at);
    }
    if (st == STATUS_USAGE) ASSERT(err.text[0]);
    if (!shard_index_make(STR("fuzz"), t.bytes, STR("tag"), &perm, &index, &err)) {
        ASSERT(st == STATUS_NO);
        ASSERT(!shard_index_parse(STR("fuzz"), index, &x, &err));
        ASSERT(x.shard_bytes == (i64)bytes);
        for (i64 i = 0; i < x.count; i++) ASSERT(shard_payload(&x, i) < x.member_count);
    }
    arena_close(&perm);
    return 0;
}
