/* hopper_attention.cuh - what attention's kernels on sm_90a have in common, whatever their size of head: which keys a
 * query sees, the order of blocks, circles of buffers, scores of keys by queries, maps of tiles. */
#ifndef BACKEND_CUDA_MODULE_HOPPER_ATTENTION_CUH
#define BACKEND_CUDA_MODULE_HOPPER_ATTENTION_CUH
#include "backend/cuda/module/hopper.cuh"

enum { GROUPS = 2, BLOCK = GROUPS * TILE, WARPS = 4 * GROUPS, THREADS = 128 * (GROUPS + 1) };
#define LOG2_E 1.44269504f

struct sizes {
    i32        T, H, G, B, blocks; /* blocks of BLOCK rows in T */
    f32        scale, scale2;      /* scale2: of powers of two */
    bool       causal;
    i32        window;    /* keys that a query sees at most; 0: no such bound */
    const i32 *positions; /* of rows in their documents, or NULL */
};

/* The first key that query t sees. It never falls from one query to the next. */
__device__ inline i32 first_key(const struct sizes &a, i32 batch, i32 t)
{
    i32 first = a.window ? max(0, t - a.window + 1) : 0;
    return a.positions ? max(first, t - max(0, a.positions[(i64)batch * a.T + t])) : first;
}

/* The last query that sees `key`. */
__device__ inline i32 last_query(const struct sizes &a, i32 batch, i32 key)
{
    i32 low = key, past = a.window ? min(a.T, key + a.window) : a.T;
    if (!a.positions) return past - 1;
    while (past - low > 1) {
        i32 t = (low + past) / 2;
        if (first_key(a, batch, t) <= key) low = t;
        else past = t;
    }
    return low;
}

struct maps { /* of tiles: of q, k and v; of the result's gradient; of the result */
    CUtensorMap qkv, d_o, o;
};

struct place { /* what a block is at */
    i32 batch, head, block;
};

/* The n-th of all blocks. Heads are taken by so many together that what they share stays in the cache; among those the
 * blocks with the most to do come first. */
__device__ inline struct place place_of(i32 n, const struct sizes &a, i32 heads, i32 together)
{
    i32 all = a.B * heads, group = n / (together * a.blocks), rest = n % (together * a.blocks);
    i32 here = min(together, all - group * together), head = group * together + rest % here;
    return { head / heads, head % heads, rest / here };
}
/* To and fro: a processor that had the most of one round has the least of the next. */
__device__ inline i32 turn(i32 round)
{
    i32 at = round % 2 ? (i32)gridDim.x - 1 - (i32)blockIdx.x : (i32)blockIdx.x;
    return round * (i32)gridDim.x + at;
}

struct ring { /* a place in a circle of buffers, and the parity of its barriers */
    i32 at;
    u32 parity;

    __device__ void next(i32 count)
    {
        if (++at < count) return;
        at = 0;
        parity ^= 1;
    }
};

/* The warpgroup's number, in a way that lets the compiler know that a warp agrees on it. */
__device__ inline i32 own_group() { return __shfl_sync(~0u, (i32)threadIdx.x / 128, 0); }

__device__ inline void release(u64 *empty) /* by each warp */
{
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(empty);
}

template <int N> __device__ inline void init_pairs(u64 (&full)[N], u64 (&empty)[N])
{
    for (i32 i = 0; i < N; i++) {
        barrier_init(&full[i], 1);
        barrier_init(&empty[i], WARPS);
    }
}

template <class T> __device__ inline void pack_pairs(u32 (&to)[16], const f32 (&d)[32])
{
#pragma unroll
    for (int i = 0; i < 16; i++) to[i] = two<T>(d[2 * i], d[2 * i + 1]);
}

/* Four lanes' four words: lane t gets the t-th of each. */
__device__ inline void transpose4(u32 *w)
{
    bool upper = threadIdx.x & 2, odd = threadIdx.x & 1;
    u32  x = __shfl_xor_sync(~0u, upper ? w[0] : w[2], 2),
        y  = __shfl_xor_sync(~0u, upper ? w[1] : w[3], 2);
    if (upper) w[0] = x, w[1] = y;
    else w[2] = x, w[3] = y;
    x = __shfl_xor_sync(~0u, odd ? w[0] : w[1], 1), y = __shfl_xor_sync(~0u, odd ? w[2] : w[3], 1);
    if (odd) w[0] = x, w[2] = y;
    else w[1] = x, w[3] = y;
}

/* Rows of a warpgroup's tile to memory, 64 bytes of each at a time. */
template <class T>
__device__ inline void store_tile(T *to, i64 stride, const f32 (&d)[32], f32 factor)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int m = 0; m < 2; m++) {
            u32 w[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int i = 4 * (4 * m + j) + 2 * half;
                w[j]  = two<T>(factor * d[i], factor * d[i + 1]);
            }
            transpose4(w);
            *(uint4 *)(to + row_of(2 * half) * stride + 8 * (4 * m + threadIdx.x % 4)) =
                make_uint4(w[0], w[1], w[2], w[3]);
        }
    }
}

/* A shared-memory room on a boundary of 1024 bytes. */
template <class R> __device__ inline R *room_of(u8 *raw)
{
    return (R *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
}

/* Tiles [.., this) of queries see a block of keys. */
template <bool BOUNDED>
__device__ inline i32 tiles_of_keys(const struct sizes &a, i32 batch, i32 block)
{
    return BOUNDED ? last_query(a, batch, (block + 1) * BLOCK - 1) / TILE + 1 : a.T / TILE;
}

/* Scores of keys (rows) by queries (columns) to probabilities. A tile of keys that is the queries' own (ahead: 0) or
 * comes after them (1 and more) is masked. */
__device__ inline void by_key(f32 (&s)[32], const f32 *lse, f32 scale2, i32 ahead)
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 l     = *(const float2 *)(lse + column_of(4 * j));
        s[4 * j]     = power_of_two(s[4 * j] * scale2 - l.x);
        s[4 * j + 1] = power_of_two(s[4 * j + 1] * scale2 - l.y);
        s[4 * j + 2] = power_of_two(s[4 * j + 2] * scale2 - l.x);
        s[4 * j + 3] = power_of_two(s[4 * j + 3] * scale2 - l.y);
    }
    if (ahead < 0) return;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        if (ahead * TILE + row_of(i) > column_of(i)) s[i] = 0;
    }
}

/* 0 where a query (column) of the tile does not see a key (row), the first of them `key`, by its window or document. */
__device__ inline void mask_queries(f32 (&s)[32], const struct sizes &a, i32 batch, i32 tile,
                                    i32 key)
{
    if (first_key(a, batch, tile * TILE + TILE - 1) <= key) return;
#pragma unroll
    for (int j = 0; j < 8; j++) {
#pragma unroll
        for (int k = 0; k < 2; k++) {
            i32 first = first_key(a, batch, tile * TILE + column_of(4 * j + k));
            if (key + row_of(0) < first) s[4 * j + k] = 0;
            if (key + row_of(2) < first) s[4 * j + 2 + k] = 0;
        }
    }
}

__device__ inline void times_excess(f32 (&p)[32], const f32 (&dp)[32], const f32 *delta)
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 d = *(const float2 *)(delta + column_of(4 * j));
        p[4 * j] *= dp[4 * j] - d.x;
        p[4 * j + 1] *= dp[4 * j + 1] - d.y;
        p[4 * j + 2] *= dp[4 * j + 2] - d.x;
        p[4 * j + 3] *= dp[4 * j + 3] - d.y;
    }
}

/* --- on the host --- */

static inline struct sizes sizes_of(const struct gpu_call *c, const struct type *qkv)
{
    i32 H = (i32)c->at->heads, G = (i32)c->at->kv_heads, T = (i32)qkv->shape.dim[1];
    f32 scale = (f32)c->at->scale;
    i32 at    = c->op == OP_ATTENTION ? 1 : 4;
    return { T,
             H,
             G,
             (i32)qkv->shape.dim[0],
             T / BLOCK,
             scale,
             scale * LOG2_E,
             c->at->causal != 0,
             c->at->window < T ? (i32)c->at->window : 0,
             c->in_count > at ? data_of<i32>(c->in[at]) : NULL };
}

typedef CUresult (*encode_map)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                               const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                               const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                               CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's own library has it; the module is not linked with that. */
static inline encode_map find_encoder(void)
{
    void                           *f = NULL;
    cudaDriverEntryPointQueryResult found;
    cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000,
                                                     cudaEnableDefault, &found);
    return e == cudaSuccess && found == cudaDriverEntryPointSuccess ? (encode_map)f : NULL;
}

/* Tiles of a tensor [B, T, width]. */
static inline bool draw_map(CUtensorMap *map, const struct tensor *t, i64 B, i64 T)
{
    encode_map encode    = find_encoder();
    cuuint64_t width     = (cuuint64_t)(t->count / (B * T)),
               dim[3]    = { width, (cuuint64_t)T, (cuuint64_t)B };
    cuuint64_t stride[2] = { 2 * width, 2 * width * (cuuint64_t)T };
    cuuint32_t box[3] = { TILE, TILE, 1 }, step[3] = { 1, 1, 1 };
    bool       bf = t->type.dtype == DT_BF16;
    return encode &&
           encode(map, bf ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3,
                  t->data, dim, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* No lengths, and no dropout on the weights; positions in documents may be there. */
static inline bool is_whole(const struct gpu_call *c, i32 at)
{
    return !(c->at->p > 0) && (c->in_count == at || c->in[at].type.shape.rank == 2);
}

static inline void must(bool done)
{
    if (!done) assert_failed("the driver describes tiles", __FILE__, __LINE__);
}

/* Calls f(bounded, T()). */
template <class F> static inline void by_kind(const struct sizes &a, enum dtype t, F f)
{
    auto kind = [&](auto bounded) {
        if (t == DT_BF16) f(bounded, bf16());
        else f(bounded, f16());
    };
    if (a.window || a.positions) kind(std::true_type());
    else kind(std::false_type());
}

#endif
