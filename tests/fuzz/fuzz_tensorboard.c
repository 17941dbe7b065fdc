/* Any bytes as event files and as lines: tb_next stays inside, whatever the sums say. */
#include "base/hash.h"
#include "supervise/tensorboard.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The sums would hide the reader behind them, so records get right ones. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char     text[1 << 17];
    struct tb_event e;
    u64             len = bytes;
    for (int n = 0; n < 2; n++) {
        struct str part = n ? (struct str){ text + 12, (i64)len } : (struct str){ text, 8 };
        memcpy(text, &len, 8);
        memcpy(text + 12, data, bytes);
        u32 crc = crc32c_add(0, part), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
        memcpy(text + (n ? 12 + len : 8), &masked, 4);
    }
    i64 used = tb_next((struct str){ text, (i64)len + 16 }, &e);
    ASSERT(used == (i64)len + 16);
    ASSERT(e.count >= 0 && e.count <= TB_SCALARS_MAX);
    for (i64 i = 0; i < e.count; i++)
        ASSERT(e.scalars[i].tag.data >= text &&
               e.scalars[i].tag.data + e.scalars[i].tag.len <= text + 12 + len);
    used = tb_next((struct str){ (const char *)data, (i64)bytes }, &e); /* and as they are */
    ASSERT(used >= -1 && used <= (i64)bytes);
    return 0;
}
