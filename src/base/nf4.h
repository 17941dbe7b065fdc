/* nf4.h - numbers in 4 bits: NF4 with double quantisation, as bitsandbytes has it (Dettmers et al. 2023, arXiv
 * 2305.14314; bit by bit: tests/oracle/record_nf4.py).
 *
 *     64 numbers are a block: 16 codes of fixed numbers in [-1, 1], times the block's largest size
 *     256 blocks are a group: their sizes, less the mean over the whole tensor, in 8 bits, times the group's largest
 *
 * 4.127 bits a number. A tensor is whole groups: a multiple of NF4_GROUP numbers. */
#ifndef BASE_NF4_H
#define BASE_NF4_H
#include "base/pool.h"
#include "base/types.h"

enum { NF4_BLOCK = 64, NF4_BLOCKS = 256, NF4_GROUP = NF4_BLOCK * NF4_BLOCKS };
enum { NF4_SCALES = 2 }; /* of a group: the largest of its sizes less the mean, and that mean */

extern const f32 nf4_numbers[16], nf4_sizes[256]; /* that codes stand for */

/* codes: count / 2, the first of two in the high bits; sizes: count / NF4_BLOCK; scales: NF4_SCALES a group. */
void nf4_pack(const f32 *from, i64 count, u8 *codes, u8 *sizes, f32 *scales, struct pool *pool,
              struct arena scratch);

/* Of a block: what its codes are multiplied by. Two roundings, never one. */
static inline f32 nf4_size(u8 size, const f32 *scales)
{
    volatile f32 product = nf4_sizes[size] * scales[0];
    return product + scales[1];
}

#endif
