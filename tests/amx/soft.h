/* soft.h - the tile instructions in C, so that kernels for AMX are tested on processors without
 * it. Included before all else when the files *_amx.c are compiled a second time, for tests. */
#ifndef AMX_SOFT_H
#define AMX_SOFT_H
#include "base/half.h"
#include <immintrin.h>

static _Thread_local struct {
    bool configured;
    u8   tile[8][16][64];
} soft;

static inline void soft_load(int t, const void *from, i64 stride)
{
    ASSERT(soft.configured);
    for (int r = 0; r < 16; r++) memcpy(soft.tile[t][r], (const u8 *)from + r * stride, 64);
}

static inline void soft_store(int t, void *to, i64 stride)
{
    ASSERT(soft.configured);
    for (int r = 0; r < 16; r++) memcpy((u8 *)to + r * stride, soft.tile[t][r], 64);
}

/* Intel's manual, volume 2, TDPBF16PS: pairs of bf16 times pairs of bf16, summed in f32. */
static inline void soft_dpbf16ps(int t, int a, int b)
{
    ASSERT(soft.configured);
    for (int r = 0; r < 16; r++) {
        u16 x[32], y[16][32];
        f32 sum[16];
        memcpy(x, soft.tile[a][r], sizeof x);
        memcpy(y, soft.tile[b], sizeof y);
        memcpy(sum, soft.tile[t][r], sizeof sum);
        for (int k = 0; k < 16; k++)
            for (int n = 0; n < 16; n++)
                sum[n] += bf16_to_f32(x[2 * k]) * bf16_to_f32(y[k][2 * n]) +
                          bf16_to_f32(x[2 * k + 1]) * bf16_to_f32(y[k][2 * n + 1]);
        memcpy(soft.tile[t][r], sum, sizeof sum);
    }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) ((void)(config), (void)(soft.configured = true))
#define _tile_release() ((void)(soft.configured = false))
#define _tile_zero(t) memset(soft.tile[t], 0, sizeof soft.tile[t])
#define _tile_loadd(t, from, stride) soft_load(t, from, stride)
#define _tile_stored(t, to, stride) soft_store(t, to, stride)
#define _tile_dpbf16ps(t, a, b) soft_dpbf16ps(t, a, b)

#endif
