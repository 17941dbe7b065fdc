/* few_norm.cu - layer norm and RMS norm of a few rows, a block each: with one new token a warp a row would leave the
 * GPU waiting for it. The row stays in registers. */
#include "backend/cuda/module/early.cuh"

enum { THREADS = 512, CHUNK = 8, CHUNKS = 4, WIDTH_MAX = THREADS * CHUNK * CHUNKS, ROWS_MAX = 64 };

struct few_norm {
    i64 width;
    f32 eps;
};

template <bool MEAN, class T, class W>
__global__ void __launch_bounds__(THREADS)
    norm_block(T *y, f32 *means, f32 *rstds, const T *x, const W *w, const W *b,
               const __grid_constant__ struct few_norm s)
{
    i64             row = blockIdx.x, at = row * s.width;
    chunk<CHUNK, T> v[CHUNKS];
    f32             sum = 0, square = 0;
    early_go();
    early_wait();
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        i64 i = ((i64)c * THREADS + threadIdx.x) * CHUNK;
        v[c].clear();
        if (i < s.width) v[c].load(x + at + i);
#pragma unroll
        for (int k = 0; MEAN && k < CHUNK; k++) sum += v[c][k];
    }
    f32 mean = MEAN ? block_sum(sum) / (f32)s.width : 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        bool inside = ((i64)c * THREADS + threadIdx.x) * CHUNK < s.width;
#pragma unroll
        for (int k = 0; k < CHUNK; k++) square += inside ? (v[c][k] - mean) * (v[c][k] - mean) : 0;
    }
    f32 rstd = 1 / sqrtf(block_sum(square) / (f32)s.width + s.eps);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        i64 i = ((i64)c * THREADS + threadIdx.x) * CHUNK;
        if (i >= s.width) continue;
        f32 scale[CHUNK], shift[CHUNK], to[CHUNK];
        if (w) load_f32<CHUNK>(scale, w + i);
        if (b) load_f32<CHUNK>(shift, b + i);
#pragma unroll
        for (int k = 0; k < CHUNK; k++)
            to[k] = (v[c][k] - mean) * rstd * (w ? scale[k] : 1) + (b ? shift[k] : 0);
        store_f32<CHUNK>(y + at + i, to);
    }
    if (threadIdx.x) return;
    if (MEAN) means[row] = mean;
    rstds[row] = rstd;
}

static bool takes(const struct gpu_call *c)
{
    i64 width = shape_last(c->in[0].type.shape), rows = shape_rows(c->in[0].type.shape);
    return rows >= 1 && rows <= ROWS_MAX && width >= 2 * 32 * CHUNK && width % CHUNK == 0 &&
           width <= WIDTH_MAX;
}

template <bool MEAN> static void run(const struct gpu_call *c)
{
    struct few_norm s     = { shape_last(c->in[0].type.shape), (f32)c->at->eps };
    f32            *rstds = data_of<f32>(c->out[MEAN ? 2 : 1]);
    i64             rows  = shape_rows(c->in[0].type.shape);
    enum dtype      wide  = c->in_count > 1 ? c->in[1].type.dtype : DT_F32;
    with_types(c->in[0].type.dtype, wide, [&](auto t, auto u) {
        typedef decltype(t) T;
        typedef decltype(u) W;
        launch_early(c->gpu, norm_block<MEAN, T, W>, dim3((unsigned)rows), THREADS, 1,
                     data_of<T>(c->out[0]), MEAN ? data_of<f32>(c->out[1]) : (f32 *)NULL, rstds,
                     data_of<T>(c->in[0]), c->in_count > 1 ? data_of<W>(c->in[1]) : (W *)NULL,
                     c->in_count > 2 ? data_of<W>(c->in[2]) : (W *)NULL, s);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_few_norm[] = {
    { OP_LAYERNORM, "cuda_block", takes, run<true>, NULL, NULL, 0 },
    { OP_RMSNORM, "cuda_block", takes, run<false>, NULL, NULL, 0 },
};
GPU_FAMILY(few_norm)
