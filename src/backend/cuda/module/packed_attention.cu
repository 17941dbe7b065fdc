/* packed_attention.cu - attention on the tensor cores of every GPU since sm_80 (mma.sync): within packed sequences, and
 * on whole ones that no library's kernel takes, by windows and documents too; 16-bit types, heads of 8, 16, 24, …
 * 256 numbers (eight are copied at once).
 *
 * A block of four warps has BLOCK queries of one sequence and one head, 16 of them a warp, and goes
 * through the keys in tiles:
 *
 *     s = q . k^T     p = exp(scale s - top)     o = p . v / sum p
 *
 * Scores never leave the registers: what a product leaves in them is, rounded, what the next one
 * takes as its left operand. The gradient is two kernels, one over blocks of queries for dq and one
 * over blocks of keys for dk and dv, which makes scores transposed. That is seven products where
 * five are needed; but every sum has one owner, and so the bits repeat.
 *
 * Tiles that nobody in a block sees are left out, whether they lie behind the block or before its window or document.
 * Blocks behind the end of their sequence return at once. Rows of a tile behind it are 0, and so
 * are columns between the head's numbers and the next size that there is a kernel for. */
#include "backend/cuda/module/attention.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS, BLOCK = 16 * WARPS };
#define LOG2_E 1.44269504f

/* Rows of a tile: an odd number of 16-byte pieces, so that eight of them lie in different banks. */
template <int D> constexpr int row_of = D + 8;
/* Keys (forward, dq) or queries (dk, dv) in a tile, as registers and shared memory allow. */
template <int D> constexpr int keys_of    = D <= 128 ? 64 : 32;
template <int D> constexpr int queries_of = D <= 64 ? 64 : D <= 128 ? 32 : 16;
template <int D> constexpr int stages_of  = D <= 64 ? 2 : 1;
/* dk and dv of a row are D sums each: two blocks share them where that is too many for the registers. */
template <int D> constexpr int parts_of = D <= 128 ? 1 : 2;

/* --- instructions --- */

__device__ inline u32 at_shared(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ inline void copy_or_zero(void *to, const void *from, bool copy)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at_shared(to)), "l"(from),
                 "r"(copy ? 16 : 0)
                 : "memory");
}

/* Four matrices of 8 x 8; each lane gives the address of one row. */
__device__ inline void load_four(u32 *to, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at_shared(row))
                 : "memory");
}
__device__ inline void load_four_turned(u32 *to, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at_shared(row))
                 : "memory");
}

#define MMA(type)                                                                                  \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                            \
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "                                    \
                 "{%0,%1,%2,%3};"                                                                  \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
__device__ inline void multiply(f32 *c, const u32 *a, const u32 *b, bf16) { MMA("bf16"); }
__device__ inline void multiply(f32 *c, const u32 *a, const u32 *b, f16) { MMA("f16"); }

template <class T> __device__ inline u32 two(f32 x, f32 y)
{
    T   v[2] = { from_f32<T>(x), from_f32<T>(y) };
    u32 bits;
    memcpy(&bits, v, sizeof bits);
    return bits;
}

/* --- tiles in shared memory; lane and warp are the caller's --- */

__device__ inline int lane() { return (int)threadIdx.x % 32; }
__device__ inline int warp() { return (int)threadIdx.x / 32; }

/* Rows [0, valid) of one head, `width` numbers each, `stride` apart; 0 up to `rows` and D. */
template <int D, class T>
__device__ inline void load_tile(T *to, const T *from, i64 stride, int rows, i64 valid, i64 width)
{
    for (int i = (int)threadIdx.x; i < rows * (D / 8); i += THREADS) {
        int  r = i / (D / 8), c = i % (D / 8) * 8;
        bool there = r < valid && c < width;
        copy_or_zero(to + r * row_of<D> + c, from + (there ? r * stride + c : 0), there);
    }
}

/* c[16, 8 N] += x[16 rows of the warp, D] . y[8 N rows, D]^T, both as they lie. */
template <int D, int N, class T>
__device__ inline void times_rows(f32 (*c)[4], const T *x, const T *y)
{
    const T *x_at = x + (warp() * 16 + lane() % 16) * row_of<D> + lane() / 16 * 8;
    const T *y_at = y + (lane() / 16 * 8 + lane() % 8) * row_of<D> + lane() / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        u32 a[4], b[4];
        load_four(a, x_at + k);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            load_four(b, y_at + n * 8 * row_of<D> + k);
            multiply(c[n], a, b, T());
            multiply(c[n + 1], a, b + 2, T());
        }
    }
}

/* c[16, 8 N] += p[16, 8 M] . y[8 M rows, columns from `first` on]; p are the sums of a product before. */
template <int D, int N, int M, class T>
__device__ inline void times_columns(f32 (*c)[4], const f32 (*p)[4], const T *y, int first)
{
    const T *y_at = y + (lane() / 8 % 2 * 8 + lane() % 8) * row_of<D> + lane() / 16 * 8 + first;
#pragma unroll
    for (int m = 0; m < M; m += 2) {
        u32 a[4] = { two<T>(p[m][0], p[m][1]), two<T>(p[m][2], p[m][3]),
                     two<T>(p[m + 1][0], p[m + 1][1]), two<T>(p[m + 1][2], p[m + 1][3]) };
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            u32 b[4];
            load_four_turned(b, y_at + m * 8 * row_of<D> + n * 8);
            multiply(c[n], a, b, T());
            multiply(c[n + 1], a, b + 2, T());
        }
    }
}

/* Which element of its warp's sums c[n][i] is. */
__device__ inline int row_of_sum(int i) { return warp() * 16 + lane() / 4 + i / 2 * 8; }
__device__ inline int column_of_sum(int n, int i) { return n * 8 + lane() % 4 * 2 + i % 2; }

template <int N> __device__ inline void clear_sums(f32 (*c)[4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) c[n][i] = 0;
}

/* Rows of sums times a factor each, or one for all, into a head: rows below `valid`, columns from
 * `first` on below `width`. */
template <int N, class T>
__device__ inline void store_sums(T *to, i64 stride, const f32 (*c)[4], f32 upper, f32 lower,
                                  i64 valid, i64 width, int first)
{
#pragma unroll
    for (int n = 0; n < N; n++) {
        int column = column_of_sum(n, 0) + first;
        if (column >= width) continue;
        u32 up  = two<T>(c[n][0] * upper, c[n][1] * upper),
            low = two<T>(c[n][2] * lower, c[n][3] * lower);
        if (row_of_sum(0) < valid)
            *reinterpret_cast<u32 *>(to + row_of_sum(0) * stride + column) = up;
        if (row_of_sum(2) < valid)
            *reinterpret_cast<u32 *>(to + row_of_sum(2) * stride + column) = low;
    }
}

/* --- one block's part of the work --- */

struct part {
    i64 b, h, first, len, row,
        o_row; /* sequence, head, first position, length of the sequence; strides */
};

/* Block x has block of rows x % blocks of sequence x / blocks. */
__device__ inline struct part part_at(const struct attention &a, i64 block)
{
    i64 blocks = (a.T + BLOCK - 1) / BLOCK;
    i64 b      = blockIdx.x / blocks;
    return { b, blockIdx.y, block * BLOCK, length(a, b), (a.H + 2 * a.G) * a.D, a.H * a.D };
}
/* Those with the most to do come first: the last queries and the first keys. */
__device__ inline struct part part_of_queries(const struct attention &a)
{
    i64 blocks = (a.T + BLOCK - 1) / BLOCK, block = blockIdx.x % blocks;
    return part_at(a, a.causal ? blocks - 1 - block : block);
}
__device__ inline struct part part_of_keys(const struct attention &a)
{
    return part_at(a, blockIdx.x % ((a.T + BLOCK - 1) / BLOCK));
}

/* begin: the first key that query t sees. */
__device__ inline bool sees(const struct attention &a, i32 len, i32 begin, i32 t, i32 s)
{
    return s < len && s >= begin && (!a.causal || s <= t);
}

__device__ inline i32 begin_of(const struct attention &a, const struct part &p, i64 t)
{
    return t < p.len ? (i32)keys_begin(a, p.b, t) : 0;
}

/* Keys that a block of queries from `first` on sees: before this one. */
__device__ inline i64 keys_of_block(const struct attention &a, const struct part &p)
{
    return a.causal ? min(p.len, p.first + BLOCK) : p.len;
}

/* Queries that see a block of keys from `first` on: before this one. */
__device__ inline i64 queries_of_block(const struct attention &a, const struct part &p)
{
    i64 key = min(p.first + BLOCK, p.len) - 1, end = p.len, low = key;
    if (a.window) end = min(end, key + a.window);
    if (!a.positions) return end;
    while (end - low > 1) { /* low sees the last of them */
        i64 t = (low + end) / 2;
        if (keys_begin(a, p.b, t) <= key) low = t;
        else end = t;
    }
    return end;
}

/* --- dropout on the weights: a lane draws four words, needs one or two of them and lends the rest --- */

/* keep[i] of sum i of columns [8 n, 8 n + 8), where rows are queries: a lane has two keys of two queries. */
__device__ inline void keep_rows(f32 *keep, const struct attention &a, const struct drop &d, i64 t,
                                 i64 s)
{
    u32  w[4], other[2];
    bool odd = lane() % 2;
    drop_words(d, t + row_of_sum(odd ? 2 : 0), s + lane() % 4 / 2 * 4, w);
    other[0] = __shfl_xor_sync(~0u, odd ? w[0] : w[2], 1);
    other[1] = __shfl_xor_sync(~0u, odd ? w[1] : w[3], 1);
    keep[0]  = kept(a, odd ? other[0] : w[0]);
    keep[1]  = kept(a, odd ? other[1] : w[1]);
    keep[2]  = kept(a, odd ? w[2] : other[0]);
    keep[3]  = kept(a, odd ? w[3] : other[1]);
}

/* The same where rows are keys: four lanes have four keys of the same queries, and each draws for one of the four
 * sums; their words are a 4 x 4 matrix that is transposed. */
__device__ inline void keep_columns(f32 *keep, const struct attention &a, const struct drop &d,
                                    i64 t, i64 s)
{
    u32 w[4];
    int of = lane() / 4 % 4;
    drop_words(d, t + lane() % 4 * 2 + of % 2, s + warp() * 16 + lane() / 16 * 4 + of / 2 * 8, w);
#pragma unroll
    for (int k = 0; k < 4; k += 2) { /* neighbours */
        u32 got = __shfl_xor_sync(~0u, of & 1 ? w[k] : w[k + 1], 4);
        if (of & 1) w[k] = got;
        else w[k + 1] = got;
    }
#pragma unroll
    for (int k = 0; k < 2; k++) { /* pairs of them */
        u32 got = __shfl_xor_sync(~0u, of & 2 ? w[k] : w[k + 2], 8);
        if (of & 2) w[k] = got;
        else w[k + 2] = got;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) keep[i] = kept(a, w[i]);
}

/* --- forward --- */

struct softmax { /* of the two rows that a lane has sums of */
    f32 top[2], sum[2];
};

/* Scores become probabilities by the largest so far; *old: what earlier sums are worth by it. */
template <int N>
__device__ inline void exponentials(f32 (*s)[4], const struct attention &a, const struct part &p,
                                    i32 key, const i32 *begin, struct softmax &m, f32 *old)
{
    bool whole = key + 8 * N <= p.len && (!a.causal || key + 8 * N <= p.first + 1) &&
                 key >= begin[0] && key >= begin[1];
    f32 scale = a.scale * LOG2_E, top[2] = { m.top[0], m.top[1] }, base[2];
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool seen  = whole || sees(a, (i32)p.len, begin[i / 2], (i32)p.first + row_of_sum(i),
                                       key + column_of_sum(n, i));
            s[n][i]    = seen ? s[n][i] * scale : -INFINITY;
            top[i / 2] = fmaxf(top[i / 2], s[n][i]);
        }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        for (int d = 1; d < 4; d *= 2) top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], d));
        base[r]  = top[r] == -INFINITY ? 0 : top[r]; /* a row that has seen no key yet */
        old[r]   = exp2f(m.top[r] - base[r]);
        m.top[r] = top[r];
        m.sum[r] *= old[r];
    }
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = exp2f(s[n][i] - base[i / 2]);
            m.sum[i / 2] += s[n][i];
        }
}

/* Of keys from `key` on. */
template <int N>
__device__ inline void drop_some(f32 (*s)[4], const struct attention &a, const struct part &p,
                                 i64 key)
{
    struct drop d = drop_of(a, p.b, p.h);
#pragma unroll
    for (int n = 0; n < N; n++) {
        f32 keep[4];
        keep_rows(keep, a, d, p.first, key + n * 8);
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] *= keep[i];
    }
}

template <int D, class T>
constexpr int forward_bytes = (BLOCK + stages_of<D> * 2 * keys_of<D>)*row_of<D> *(int)sizeof(T);

template <int D, bool DROPS, class T>
__global__ void __launch_bounds__(THREADS) forward(T *o, f32 *lse, const T *qkv, struct attention a)
{
    constexpr int           KEYS = keys_of<D>, STAGES = stages_of<D>, TILE = KEYS * row_of<D>;
    extern __shared__ uint4 room[];
    T                      *q_s = (T *)room, *kv_s = q_s + BLOCK * row_of<D>;
    struct part             p = part_of_queries(a);
    if (p.first >= p.len) return;
    const T *k_at = qkv + head_at(a, p.b, 0, a.H + p.h * a.G / a.H), *v_at = k_at + a.G * a.D;
    i64 tiles = (keys_of_block(a, p) + KEYS - 1) / KEYS, begin = keys_begin(a, p.b, p.first) / KEYS;
    i32 first_seen[2] = { begin_of(a, p, p.first + row_of_sum(0)),
                          begin_of(a, p, p.first + row_of_sum(2)) };
    f32 sums[D / 8][4], s[KEYS / 8][4];
    struct softmax m    = { { -INFINITY, -INFINITY }, { 0, 0 } };
    auto           load = [&](i64 tile) {
        T *to = kv_s + tile % STAGES * 2 * TILE;
        load_tile<D>(to, k_at + tile * KEYS * p.row, p.row, KEYS, p.len - tile * KEYS, a.D);
        load_tile<D>(to + TILE, v_at + tile * KEYS * p.row, p.row, KEYS, p.len - tile * KEYS, a.D);
    };
    load_tile<D>(q_s, qkv + head_at(a, p.b, p.first, p.h), p.row, BLOCK, p.len - p.first, a.D);
    if (STAGES == 2) load(begin);
    async_group();
    clear_sums<D / 8>(sums);
    for (i64 tile = begin; tile < tiles; tile++) {
        if (STAGES == 1) load(tile);
        else if (tile + 1 < tiles) load(tile + 1);
        async_group();
        async_wait<STAGES - 1>();
        __syncthreads();
        const T *k_s = kv_s + tile % STAGES * 2 * TILE;
        f32      old[2];
        clear_sums<KEYS / 8>(s);
        times_rows<D, KEYS / 8>(s, q_s, k_s);
        exponentials<KEYS / 8>(s, a, p, (i32)tile * KEYS, first_seen, m, old);
        if (DROPS) drop_some<KEYS / 8>(s, a, p, tile * KEYS);
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[n][i] *= old[i / 2];
        times_columns<D, D / 8, KEYS / 8>(sums, s, k_s + TILE, 0);
        __syncthreads();
    }
    for (int r = 0; r < 2; r++)
        for (int d = 1; d < 4; d *= 2) m.sum[r] += __shfl_xor_sync(~0u, m.sum[r], d);
    store_sums<D / 8>(o + o_at(a, p.b, p.first, p.h), p.o_row, sums, 1 / m.sum[0], 1 / m.sum[1],
                      p.len - p.first, a.D, 0);
    for (int r = 0; r < 2; r++)
        if (lane() % 4 == 0 && p.first + row_of_sum(2 * r) < p.len)
            lse[lse_at(a, p.b, p.first + row_of_sum(2 * r), p.h)] =
                (m.top[r] + log2f(m.sum[r])) / LOG2_E;
}

/* --- backward --- */

/* delta[h, row] = do . o, a warp each. */
template <class T> __global__ void deltas(f32 *delta, const T *d_o, const T *o, struct attention a)
{
    i64 i = (i64)blockIdx.x * WARPS + warp(), row = i / a.H, h = i % a.H;
    if (row >= a.rows) return;
    f32 sum = 0;
    for (i64 d = lane(); d < a.D; d += 32) sum += to_f32(d_o[i * a.D + d]) * to_f32(o[i * a.D + d]);
    sum = warp_sum(sum);
    if (!lane())
        delta[a.offsets ? h * a.rows + row : (row / a.T * a.H + h) * a.T + row % a.T] = sum;
}

template <int D, class T>
constexpr int dq_bytes = (2 * BLOCK + stages_of<D> * 2 * keys_of<D>)*row_of<D> *(int)sizeof(T);

template <int D, bool DROPS, class T>
__global__ void __launch_bounds__(THREADS)
    gradient_q(T *dqkv, const T *d_o, const T *qkv, const f32 *lse, const f32 *delta,
               struct attention a)
{
    constexpr int           KEYS = keys_of<D>, STAGES = stages_of<D>, TILE = KEYS * row_of<D>;
    extern __shared__ uint4 room[];
    T          *q_s = (T *)room, *do_s = q_s + BLOCK * row_of<D>, *kv_s = do_s + BLOCK * row_of<D>;
    struct part p = part_of_queries(a);
    if (p.first >= p.len) return;
    const T *k_at = qkv + head_at(a, p.b, 0, a.H + p.h * a.G / a.H), *v_at = k_at + a.G * a.D;
    i64 tiles = (keys_of_block(a, p) + KEYS - 1) / KEYS, begin = keys_begin(a, p.b, p.first) / KEYS;
    i32 first_seen[2];
    f32 sums[D / 8][4], s[KEYS / 8][4], ds[KEYS / 8][4], scale = a.scale * LOG2_E, base[2], less[2];
    auto load = [&](i64 tile) {
        T *to = kv_s + tile % STAGES * 2 * TILE;
        load_tile<D>(to, k_at + tile * KEYS * p.row, p.row, KEYS, p.len - tile * KEYS, a.D);
        load_tile<D>(to + TILE, v_at + tile * KEYS * p.row, p.row, KEYS, p.len - tile * KEYS, a.D);
    };
    load_tile<D>(q_s, qkv + head_at(a, p.b, p.first, p.h), p.row, BLOCK, p.len - p.first, a.D);
    load_tile<D>(do_s, d_o + o_at(a, p.b, p.first, p.h), p.o_row, BLOCK, p.len - p.first, a.D);
    if (STAGES == 2) load(begin);
    async_group();
    for (int r = 0; r < 2; r++) {
        i64  t        = p.first + row_of_sum(2 * r);
        bool there    = t < p.len;
        base[r]       = there ? lse[lse_at(a, p.b, t, p.h)] * LOG2_E : 0;
        less[r]       = there ? delta[lse_at(a, p.b, t, p.h)] : 0;
        first_seen[r] = begin_of(a, p, t);
    }
    clear_sums<D / 8>(sums);
    for (i64 tile = begin; tile < tiles; tile++) {
        if (STAGES == 1) load(tile);
        else if (tile + 1 < tiles) load(tile + 1);
        async_group();
        async_wait<STAGES - 1>();
        __syncthreads();
        const T *k_s = kv_s + tile % STAGES * 2 * TILE;
        clear_sums<KEYS / 8>(s);
        clear_sums<KEYS / 8>(ds);
        times_rows<D, KEYS / 8>(s, q_s, k_s);
        times_rows<D, KEYS / 8>(ds, do_s, k_s + TILE);
        if (DROPS) drop_some<KEYS / 8>(ds, a, p, tile * KEYS);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool seen = sees(a, (i32)p.len, first_seen[i / 2], (i32)p.first + row_of_sum(i),
                                 (i32)tile * KEYS + column_of_sum(n, i));
                ds[n][i] =
                    seen ? exp2f(s[n][i] * scale - base[i / 2]) * (ds[n][i] - less[i / 2]) : 0;
            }
        times_columns<D, D / 8, KEYS / 8>(sums, ds, k_s, 0);
        __syncthreads();
    }
    store_sums<D / 8>(dqkv + head_at(a, p.b, p.first, p.h), p.row, sums, a.scale, a.scale,
                      p.len - p.first, a.D, 0);
}

template <int D, class T>
constexpr int dkv_bytes = (2 * BLOCK + stages_of<D> * 2 * queries_of<D>)*row_of<D> *(int)sizeof(T) +
                          stages_of<D> * 3 * queries_of<D> *(int)sizeof(f32);

/* Scores and do . v^T of the block's keys and of queries from t on, in head h, become weights and gradients of scores.
 * base: lse, delta and the first key seen of each query. */
template <int N, bool DROPS>
__device__ inline void weigh(f32 (*s)[4], f32 (*ds)[4], const struct attention &a,
                             const struct part &p, i64 h, i64 t, const f32 *base)
{
    const f32  *less       = base + 8 * N;
    const i32  *first_seen = (const i32 *)(less + 8 * N);
    struct drop d          = {};
    if (DROPS) d = drop_of(a, p.b, h);
#pragma unroll
    for (int n = 0; n < N; n++) {
        f32 keep[4] = { 1, 1, 1, 1 };
        if (DROPS) keep_columns(keep, a, d, t + n * 8, p.first);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int  c      = column_of_sum(n, e);
            bool seen   = (i32)t + c < (i32)p.len && sees(a, (i32)p.len, first_seen[c], (i32)t + c,
                                                          (i32)p.first + row_of_sum(e));
            f32  weight = seen ? exp2f(s[n][e] * (a.scale * LOG2_E) - base[c]) : 0;
            ds[n][e]    = weight * (ds[n][e] * keep[e] - less[c]);
            s[n][e]     = weight * keep[e];
        }
    }
}

/* blockIdx.y is a key head, blockIdx.z which part of its numbers the sums are of. */
template <int D, bool DROPS, class T>
__global__ void __launch_bounds__(THREADS)
    gradient_kv(T *dqkv, const T *d_o, const T *qkv, const f32 *lse, const f32 *delta,
                struct attention a)
{
    constexpr int QUERIES = queries_of<D>, STAGES = stages_of<D>, TILE = QUERIES * row_of<D>,
                  N = D / 8 / parts_of<D>;
    extern __shared__ uint4 room[];
    T   *k_s = (T *)room, *v_s = k_s + BLOCK * row_of<D>, *tiles_s = v_s + BLOCK * row_of<D>;
    f32 *lse_s =
        (f32 *)(tiles_s + STAGES * 2 * TILE); /* of each stage: lse, delta, first key seen */
    struct part p = part_of_keys(a);
    if (p.first >= p.len) return;
    i64 g = p.h, ratio = a.H / a.G, begin = a.causal ? p.first / QUERIES : 0;
    i64 tiles = (queries_of_block(a, p) + QUERIES - 1) / QUERIES -
                begin; /* of one query head; from the first that sees a key */
    int  first = (int)blockIdx.z * N * 8;
    f32  dk[N][4], dv[N][4], s[QUERIES / 8][4], ds[QUERIES / 8][4];
    auto load = [&](i64 i) {
        i64  h = g * ratio + i / tiles, t = (begin + i % tiles) * QUERIES, left = p.len - t;
        T   *to      = tiles_s + i % STAGES * 2 * TILE;
        f32 *numbers = lse_s + i % STAGES * 3 * QUERIES;
        load_tile<D>(to, qkv + head_at(a, p.b, t, h), p.row, QUERIES, left, a.D);
        load_tile<D>(to + TILE, d_o + o_at(a, p.b, t, h), p.o_row, QUERIES, left, a.D);
        for (int r = (int)threadIdx.x; r < QUERIES; r += THREADS) {
            numbers[r]           = r < left ? lse[lse_at(a, p.b, t + r, h)] * LOG2_E : 0;
            numbers[QUERIES + r] = r < left ? delta[lse_at(a, p.b, t + r, h)] : 0;
            ((i32 *)numbers)[2 * QUERIES + r] = begin_of(a, p, t + r);
        }
    };
    const T *k_at = qkv + head_at(a, p.b, p.first, a.H + g);
    load_tile<D>(k_s, k_at, p.row, BLOCK, p.len - p.first, a.D);
    load_tile<D>(v_s, k_at + a.G * a.D, p.row, BLOCK, p.len - p.first, a.D);
    if (STAGES == 2) load(0);
    async_group();
    clear_sums<N>(dk);
    clear_sums<N>(dv);
    for (i64 i = 0; i < tiles * ratio; i++) {
        if (STAGES == 1) load(i);
        else if (i + 1 < tiles * ratio) load(i + 1);
        async_group();
        async_wait<STAGES - 1>();
        __syncthreads();
        const T   *q_s = tiles_s + i % STAGES * 2 * TILE, *do_s = q_s + TILE;
        const f32 *base = lse_s + i % STAGES * 3 * QUERIES;
        i64        t    = (begin + i % tiles) * QUERIES;
        clear_sums<QUERIES / 8>(s);
        clear_sums<QUERIES / 8>(ds);
        times_rows<D, QUERIES / 8>(s, k_s, q_s);
        times_rows<D, QUERIES / 8>(ds, v_s, do_s);
        weigh<QUERIES / 8, DROPS>(s, ds, a, p, g * ratio + i / tiles, t, base);
        times_columns<D, N, QUERIES / 8>(dv, s, do_s, first);
        times_columns<D, N, QUERIES / 8>(dk, ds, q_s, first);
        __syncthreads();
    }
    T *to = dqkv + head_at(a, p.b, p.first, a.H + g);
    store_sums<N>(to, p.row, dk, a.scale, a.scale, p.len - p.first, a.D, first);
    store_sums<N>(to + a.G * a.D, p.row, dv, 1, 1, p.len - p.first, a.D, first);
}

/* --- launches --- */

/* Calls f(size, drops, T()): the next size of head that there is a kernel for. Dropping weights takes registers that
 * would be missing where none is dropped; those kernels have fewer sizes, because each takes nvcc long. */
template <class F> static void by_size(enum dtype t, i64 D, bool drops, F f)
{
    auto sized = [&](auto v) {
        std::true_type  yes;
        std::false_type no;
        if (drops && D <= 64) f(std::integral_constant<int, 64>(), yes, v);
        else if (drops && D <= 128) f(std::integral_constant<int, 128>(), yes, v);
        else if (drops) f(std::integral_constant<int, 256>(), yes, v);
        else if (D <= 32) f(std::integral_constant<int, 32>(), no, v);
        else if (D <= 64) f(std::integral_constant<int, 64>(), no, v);
        else if (D <= 96) f(std::integral_constant<int, 96>(), no, v);
        else if (D <= 128) f(std::integral_constant<int, 128>(), no, v);
        else f(std::integral_constant<int, 256>(), no, v);
    };
    if (t == DT_BF16) sized(bf16());
    else sized(f16());
}

static i64 bytes_of(enum dtype t, i64 D, bool drops)
{
    i64 bytes = 0;
    by_size(t, D, drops, [&](auto d, auto, auto v) {
        constexpr int       S = decltype(d)::value;
        typedef decltype(v) T;
        int                 back = MAX((dq_bytes<S, T>), (dkv_bytes<S, T>));
        bytes                    = MAX((forward_bytes<S, T>), back);
    });
    return bytes;
}

static bool takes_rows(const struct gpu_call *c, const struct type *qkv)
{
    i64 D = shape_last(qkv->shape) / (c->at->heads + 2 * c->at->kv_heads);
    return c->gpu->capability >= 80 && dtype_bytes(qkv->dtype) == 2 && D % 8 == 0 && D <= 256 &&
           shape_count(qkv->shape) > 0 &&
           bytes_of(qkv->dtype, D, c->at->p > 0) <= c->gpu->shared_bytes;
}
static bool takes(const struct gpu_call *c) { return takes_rows(c, &c->in[0].type); }
static bool takes_grad(const struct gpu_call *c) { return takes_rows(c, &c->in[1].type); }

template <class F, class... A>
static void launch(const struct gpu_call *c, F f, dim3 grid, int bytes, A... arguments)
{
    cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    f<<<grid, THREADS, (size_t)bytes, c->gpu->stream>>>(arguments...);
}

static unsigned blocks_of(const struct attention &a)
{
    return (unsigned)(a.B * div_up(a.T, BLOCK));
}

/* Rows that no block has written. */
template <class T>
static void clear_rest(const struct gpu_call *c, struct attention a, T *y, f32 *lse)
{
    clear(c, a, y, lse);
    if (!a.lens) return;
    clear_padding<T>
        <<<(unsigned)MIN(a.rows, 8 * c->gpu->processors), CLEAR_THREADS, 0, c->gpu->stream>>>(
            y, lse, shape_last(c->out[0].type.shape), a);
}

static void run(const struct gpu_call *c)
{
    struct attention a = attention_of(c, &c->in[0], 1);
    by_size(c->in[0].type.dtype, a.D, a.rng, [&](auto d, auto drops, auto v) {
        constexpr int       S = decltype(d)::value;
        constexpr bool      P = decltype(drops)::value;
        typedef decltype(v) T;
        T                  *o   = data_of<T>(c->out[0]);
        f32                *lse = data_of<f32>(c->out[1]);
        launch(c, forward<S, P, T>, dim3(blocks_of(a), (unsigned)a.H), forward_bytes<S, T>, o, lse,
               data_of<T>(c->in[0]), a);
        clear_rest(c, a, o, lse);
    });
}

static i64 work_grad(const struct gpu_call *c) { return c->in[3].count * (i64)sizeof(f32); }

static void run_grad(const struct gpu_call *c)
{
    struct attention a = attention_of(c, &c->in[1], 4);
    by_size(c->in[1].type.dtype, a.D, a.rng, [&](auto d, auto drops, auto v) {
        constexpr int       S = decltype(d)::value;
        constexpr bool      P = decltype(drops)::value;
        typedef decltype(v) T;
        T                  *dqkv = data_of<T>(c->out[0]);
        const T *d_o = data_of<T>(c->in[0]), *qkv = data_of<T>(c->in[1]), *o = data_of<T>(c->in[2]);
        const f32 *lse   = data_of<f32>(c->in[3]);
        f32       *delta = (f32 *)c->work;
        deltas<T><<<(unsigned)div_up(a.rows * a.H, WARPS), THREADS, 0, c->gpu->stream>>>(delta, d_o,
                                                                                         o, a);
        launch(c, gradient_q<S, P, T>, dim3(blocks_of(a), (unsigned)a.H), dq_bytes<S, T>, dqkv, d_o,
               qkv, lse, (const f32 *)delta, a);
        launch(c, gradient_kv<S, P, T>, dim3(blocks_of(a), (unsigned)a.G, parts_of<S>),
               dkv_bytes<S, T>, dqkv, d_o, qkv, lse, (const f32 *)delta, a);
        clear_rest(c, a, dqkv, (f32 *)NULL);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_packed_attention[] = {
    { OP_ATTENTION, "mma", takes, run, NULL, NULL, 0 },
    { OP_ATTENTION_GRAD, "mma", takes_grad, run_grad, work_grad, NULL, 0 },
    { OP_ATTENTION_PACKED, "mma", takes, run, NULL, NULL, 0 },
    { OP_ATTENTION_PACKED_GRAD, "mma", takes_grad, run_grad, work_grad, NULL, 0 },
};
GPU_FAMILY(packed_attention)
