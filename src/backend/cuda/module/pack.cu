/* pack.cu - sequences of different length as rows one after the other, without the padding. */
#include "backend/cuda/module/device.cuh"

enum { THREADS = 256, SCAN = 1024 };

/* One block: sums of all lengths before, SCAN of them at a time. */
__global__ void pack_offsets(i32 *offsets, const i32 *lens, i64 B, i64 T, i64 rows)
{
    __shared__ i32 sum[SCAN];
    i64            before = 0;
    int            me     = (int)threadIdx.x;
    for (i64 first = 0; first < B; first += SCAN) {
        i64 b   = first + me;
        i32 own = b < B ? (i32)max((i64)1, min(T, (i64)lens[b])) : 0;
        sum[me] = own;
        __syncthreads();
        for (int d = 1; d < SCAN; d *= 2) {
            i32 left = me >= d ? sum[me - d] : 0;
            __syncthreads();
            sum[me] += left;
            __syncthreads();
        }
        if (b < B) offsets[b] = (i32)min(rows, before + sum[me] - own);
        before += sum[SCAN - 1];
        __syncthreads();
    }
    if (!me) offsets[B] = (i32)min(rows, before);
}

/* Every sequence has a row, so offsets rise until the rows are full: a row's is the last that
 * begins at it or before. */
__global__ void pack_rows(i32 *tokens, i32 *sample, i32 *position, const i32 *offsets, const i32 *x,
                          i64 B, i64 T, i64 rows)
{
    i64 row = (i64)blockIdx.x * THREADS + threadIdx.x, low = 0, high = B;
    if (row >= rows) return;
    if (row >= offsets[B]) {
        tokens[row] = position[row] = 0;
        sample[row]                 = -1;
        return;
    }
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        if (offsets[middle] <= row) low = middle;
        else high = middle;
    }
    i64 t         = row - offsets[low];
    tokens[row]   = x[low * T + t];
    sample[row]   = (i32)low;
    position[row] = (i32)t;
}

static void run_PACK(const struct gpu_call *c)
{
    struct shape x = c->in[0].type.shape;
    i64          B = x.dim[0], T = x.dim[1], rows = c->at->count;
    i32         *offsets = data_of<i32>(c->out[3]);
    if (!rows) return;
    pack_offsets<<<1, SCAN, 0, c->gpu->stream>>>(offsets, data_of<i32>(c->in[1]), B, T, rows);
    pack_rows<<<(unsigned)div_up(rows, THREADS), THREADS, 0, c->gpu->stream>>>(
        data_of<i32>(c->out[0]), data_of<i32>(c->out[1]), data_of<i32>(c->out[2]), offsets,
        data_of<i32>(c->in[0]), B, T, rows);
}

extern "C" const struct gpu_kernel gpu_kernels_pack[] = {
    { OP_PACK, "cuda", NULL, run_PACK, NULL, NULL, 0 },
};
GPU_FAMILY(pack)
