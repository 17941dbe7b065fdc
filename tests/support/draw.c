/* draw.c - random numbers and sizes of cases. */
#include "support/op_case.h"
#include <math.h>

u64 draw_bits(struct draw *d) /* SplitMix64 */
{
    u64 z = d->state += 0x9E3779B97F4A7C15u;
    z     = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z     = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

i64 draw_to(struct draw *d, i64 count) { return (i64)(draw_bits(d) % (u64)count); }

f64 draw_unit(struct draw *d) { return (f64)(draw_bits(d) >> 11) * 0x1p-53; }

f64 draw_normal(struct draw *d)
{
    f64 radius = draw_unit(d), angle = draw_unit(d);
    return sqrt(-2 * log(1 - radius)) * cos(6.283185307179586 * angle);
}

i64 draw_size(struct draw *d, i64 size_max)
{
    static const i64 ragged[] = {
        1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129
    };
    static const i64 real[] = { 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024 };
    static const i64 odd[]  = { 1, 1, 1, 2, 3, 7, 13, 37, 61, 127, 251, 509, 1021 };
    for (;;) {
        bool large = d->large && size_max >= 64;
        i64  size  = d->odd  ? odd[draw_to(d, COUNT_OF(odd))]
                     : large ? real[draw_to(d, COUNT_OF(real))]
                             : ragged[draw_to(d, COUNT_OF(ragged))];
        if (size <= size_max) return size;
    }
}

bool draw_coin(struct draw *d) { return draw_bits(d) & 1; }
