/* resize_avx2.c - the loops with AVX2: pairs of weights meet pairs of values in vpmaddwd. */
#include "data/resize_loops.h"
#include <immintrin.h>
#include <string.h>

static __m256i pair_of(const i16 *weight)
{
    i32 pair;
    memcpy(&pair, weight, sizeof pair);
    return _mm256_set1_epi32(pair);
}

static __m256i wide(const u8 *from)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
}

static void rows(const u8 *from, i64 stride, i64 count, const i16 *weight, i32 shift, i64 values,
                 i16 *to)
{
    __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    __m128i bits = _mm_cvtsi32_si128(shift);
    for (i64 i = 0; i < values; i += 16) {
        __m256i low = half, high = half;
        for (i64 k = 0; k < count; k += 2) { /* behind an odd count stands a weight of 0 */
            const u8 *at = from + k * stride + i;
            __m256i   a = wide(at), b = wide(k + 1 < count ? at + stride : at);
            __m256i   pair = pair_of(weight + k);
            low  = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), pair));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), pair));
        }
        low  = _mm256_sra_epi32(low, bits);
        high = _mm256_sra_epi32(high, bits);
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_packs_epi32(low, high));
    }
}

static __m256i two(const i16 *a, const i16 *b)
{
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)a);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low),
                                   _mm_loadu_si128((const __m128i *)(const void *)b), 1);
}

/* Two pixels of RGB at a time, one in each half of a vector: R0 G0 B0 R1 G1 B1 . . → R0 R1 G0 G1 B0 B1 */
static void columns_rgb(const i16 *from, const struct axis *a, i64 width, u8 *to)
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1));
    const __m256i bytes = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    __m256i half = _mm256_set1_epi32(1 << (a->bits + BETWEEN_BITS - 1));
    __m128i bits = _mm_cvtsi32_si128(a->bits + BETWEEN_BITS);
    for (i64 x = 0; x + 2 <= width; x += 2) {
        const i16 *from0 = from + 3 * a->first[x], *from1 = from + 3 * a->first[x + 1];
        const i16 *weight = a->weight + x * a->taps;
        __m256i    sum    = half;
        for (i64 k = 0; k < a->taps; k += 2) {
            __m256i v = _mm256_shuffle_epi8(two(from0 + 3 * k, from1 + 3 * k), order);
            __m256i pair =
                _mm256_blend_epi32(pair_of(weight + k), pair_of(weight + a->taps + k), 0xf0);
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(v, pair));
        }
        sum        = _mm256_shuffle_epi8(_mm256_sra_epi32(sum, bits), bytes);
        i32 first  = _mm_cvtsi128_si32(_mm256_castsi256_si128(sum)),
            second = _mm_cvtsi128_si32(_mm256_extracti128_si256(sum, 1));
        memcpy(to + 3 * x, &first, 4);
        memcpy(to + 3 * x + 3, &second, 4);
    }
    plain_columns(from, a, width & ~(i64)1, width, 3, to);
}

static void columns(const i16 *from, const struct axis *a, i64 width, i64 channels, u8 *to)
{
    if (channels == 3) columns_rgb(from, a, width, to);
    else plain_columns(from, a, 0, width, channels, to);
}

const struct resize_loops resize_avx2 = { rows, columns, normal };
