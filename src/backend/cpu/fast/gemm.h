/* gemm.h - the matrix product C = A . B (+ bias), single precision, on all cores.
 *
 * A and B are given by strides, so a transposed operand is the same thing with the strides
 * exchanged. Three ways, chosen by shape alone:
 *
 *   packed   B is copied once into panels, a block of rows of A into a worker's buffer if its
 *            strides would collide in the cache, and tiles of C that fill the registers run over
 *            both (Goto & van de Geijn, 2008): large shapes
 *   direct   the same tiles straight over A and B, where copying costs more than it saves
 *   dot      rows of A times columns of B, both contiguous along K: few rows and B transposed
 *
 * M, N, K: C is [M,N], A [M,K], B [K,N]. */
#ifndef BACKEND_CPU_FAST_GEMM_H
#define BACKEND_CPU_FAST_GEMM_H
#include "backend/cpu/kernel.h"

struct gemm_matrix {
    const f32 *data;
    i64        row, col; /* distance from row to row, from column to column; one of them is 1 */
    i64        step;     /* from one product of a batch to the next */
};

struct gemm {
    i64                M, N, K, batch;
    struct gemm_matrix a, b;
    const f32         *bias; /* [N] or NULL */
    f32               *c;    /* rows of N, one product after the other */
    const struct call *call; /* whose chain is applied to parts of c that are complete */
};

struct gemm gemm_of(const struct call *c);    /* a matmul's operands; data may be NULL */
bool        gemm_takes(const struct call *c); /* all of it is f32, and nothing is empty */

#endif
